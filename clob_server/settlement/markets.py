"""Markets on the chain: their conditions, and the operations that prepare and report them.

A market that an operator opens with a question and without tokens uses the condition of that
question; the token ids follow from it. Preparing the condition and reporting its outcome are chain
operations that run once the chain is reachable. The market opens, trades and resolves without it.
The outcome of a market that settles is reported after its trades, when their results are final.

An adopted condition exists on the chain already: the server neither prepares nor reports it, and
resolves the market once the payouts are final.
"""

import asyncio
import enum
import logging
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from clob import Mode, SetMode
from clob.errors import MarketNotOpenError, UnknownMarketError
from clob.wire.operations import PrepareAnswer, PrepareBody, ReportBody
from clob_server.api.problems import ApiError
from clob_server.chain.eth import token_ids
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from clob_server.core.commands import AnyCommand, Condition, SetOutcome
from clob_server.core.serialize import chain_terms
from clob_server.settlement.adopted import AdoptedConditions, Payouts
from clob_server.settlement.operations import ChainContext, ChainPart, cancel

PAUSE_S: Final = 1.0
"""Wait before the chain is asked again after a rejection, seconds; doubled each time."""
PAUSE_MAX_S: Final = 60.0
"""Longest wait, seconds."""
POLL_S: Final = 0.25
"""Interval of the check whether the trades of a resolved market are final, seconds."""
SYNCED_AT_ONCE: Final = 100
"""Markets that are brought up to date in one iteration of the event loop."""
OPERATIONS_MAX: Final = 8
"""Operations that may run at the same time."""
PREPARE: Final = "prepare"
"""Kind of the operation that prepares a condition; its id continues with the market."""
REPORT: Final = "report"
"""Kind of the operation that reports an outcome."""

_LOG: Final = logging.getLogger("clob_server.chain")


class OnChain(enum.Enum):
    """State of a market on the chain."""

    WAITING = "waiting"
    """The chain was not reached since the server started."""
    PREPARING = "preparing"
    """Its condition is being prepared."""
    PREPARED = "prepared"
    """Collateral can be split into its tokens, and its tokens merged."""
    CLOSING = "closing"
    """It is resolved; its outcome is reported once the results of its trades are final."""
    REPORTING = "reporting"
    """Its outcome is being reported."""
    REPORTED = "reported"
    """Its tokens can be redeemed."""
    STUCK = "stuck"
    """Preparing or reporting has failed; the list of operations shows the reason."""


def condition_of(market: str, question: str, oracle: str, collateral: str) -> Condition:
    """Return the condition of a market.

    Its question id is the Keccak-256 of the market id, a line feed and the question, in UTF-8, so
    it is unique for each market.

    Args:
        market: id of the market.
        question: question at the time the market opens; later changes have no effect.
        oracle: address that reports the outcome.
        collateral: ERC-20 that backs the tokens.
    """
    question_id = token_ids.question_id(f"{market}\n{question}")
    condition_id = token_ids.condition_id(oracle, question_id)
    yes, no = token_ids.token_ids(collateral, condition_id)
    return Condition(
        question_id=question_id,
        condition_id=condition_id,
        oracle=oracle,
        collateral=collateral,
        yes=str(yes),
        no=str(no),
    )


class MarketConditions(ChainPart):
    """Prepares and reports the conditions of markets on the chain."""

    def __init__(self, context: ChainContext) -> None:
        super().__init__(context)
        self.adopted: Final = AdoptedConditions(context)
        """Reads conditions that others resolve."""
        self._states: dict[str, OnChain] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(OPERATIONS_MAX)

    def condition(self, market: str) -> Condition | None:
        """Return the condition that a market trades; None if it is not on the chain."""
        condition = self._state.registry.conditions.get(market)
        if condition is None:
            return None
        try:
            terms = self._state.matcher.market(market)
        except UnknownMarketError:
            return None
        return condition if (terms.yes, terms.no) == (condition.yes, condition.no) else None

    def state(self, market: str) -> OnChain:
        """Return the state of a market on the chain."""
        return self._states.get(market, OnChain.WAITING)

    def describe(self, market: str) -> dict[str, Any]:
        """Return the condition fields of a market's JSON."""
        state = self.state(market).value if self._chain.is_configured else None
        return chain_terms(self.condition(market), state)

    def new(self, market: str, question: str) -> Condition:
        """Return the condition for a market that is about to open.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED; CHAIN_UNAVAILABLE, the contract addresses are not known
            yet.
        """
        chain = self._chain
        chain.check_configured()
        if chain.oracle is None or chain.addresses is None:
            raise ApiError(
                "CHAIN_UNAVAILABLE",
                "the contract addresses are not known yet: the chain was not reached; retry later",
            )
        return condition_of(market, question, chain.oracle, chain.addresses.collateral)

    def check_oracle(self, condition: Condition) -> None:
        """Reject the resolution of a condition whose oracle has no key here.

        Raises:
            ApiError: ORACLE_KEY_MISSING.
        """
        chain = self._chain
        if chain.oracle is not None and condition.oracle not in (chain.operator, chain.oracle):
            raise ApiError(
                "ORACLE_KEY_MISSING",
                f"only the oracle {condition.oracle} can report the outcome of this market, and "
                f"the oracle of this server is {chain.oracle}; start it with the key of "
                f"{condition.oracle} (--oracle-key-file)",
            )

    # ----- operations --------------------------------------------------------------------------

    async def on_worker_ready(self) -> None:
        """Bring all markets up to date on a chain that has just become ready."""
        for number, market in enumerate(list(self._state.registry.conditions)):
            if number % SYNCED_AT_ONCE == 0:
                await asyncio.sleep(0)
            self.sync(market)

    def sync(self, market: str) -> None:
        """Bring a new or just resolved market up to date on the chain."""
        chain, condition = self._chain, self.condition(market)
        if condition is None or chain.addresses is None:
            return
        if condition.collateral != chain.addresses.collateral:
            _LOG.error("a market belongs to another collateral", extra={"market": market})
            self._states[market] = OnChain.STUCK
            return
        before = self._tasks.pop(market, None)
        if before is not None:
            before.cancel()
        self._tasks[market] = asyncio.create_task(self._sync(market, condition))

    def on_operation_end(self, end: OperationDone | OperationFailed) -> None:
        """Handle the end of an operation that has no task here, as after an operator's retry."""
        kind, _, market = end.id.partition(":")
        if kind in (PREPARE, REPORT) and isinstance(end, OperationDone):
            self.sync(market.partition("/")[0])

    async def close(self) -> None:
        """Stop; the next start resumes."""
        await cancel(self._tasks.values())

    async def _sync(self, market: str, condition: Condition) -> None:
        """Prepare the condition of a market, and report its outcome once known."""
        question_id = f"0x{condition.question_id.hex()}"
        self._states[market] = OnChain.PREPARING
        prepares = not condition.is_adopted and condition.oracle != self._chain.operator
        oracle = condition.oracle if condition.is_adopted or prepares else ""
        body = PrepareBody(question_id=question_id, oracle=oracle, prepares=prepares)
        if not await self._prepare(market, body):
            self._states[market] = OnChain.STUCK
            return
        if condition.is_adopted:
            self._states[market] = OnChain.PREPARED
            self._states[market] = await self._adopt(market, await self.adopted.wait(condition))
            return
        words = self._state.registry.words.get(market)
        outcome = words.outcome if words is not None else ""
        if outcome not in ("yes", "no"):
            self._states[market] = OnChain.PREPARED
            return
        await self._wait_for_trades(market)
        self._states[market] = OnChain.REPORTING
        side: Literal["yes", "no"] = "yes" if outcome == "yes" else "no"
        report = ReportBody(question_id=question_id, outcome=side, oracle=oracle)
        done = await self._run_until_done(f"{REPORT}:{market}", report)
        self._states[market] = OnChain.STUCK if done is None else OnChain.REPORTED

    async def _adopt(self, market: str, payouts: Payouts) -> OnChain:
        """Resolve a market with the final payouts of its condition; return its state."""

        def resolve(now_ms: int) -> tuple[AnyCommand, ...]:
            if self._state.matcher.market(market).mode is Mode.RESOLVED:
                raise MarketNotOpenError(f"market {market} is already resolved")
            return (
                SetOutcome(market=market, outcome=payouts.outcome, now_ms=now_ms),
                SetMode(market=market, mode=Mode.RESOLVED, now_ms=now_ms),
            )

        with suppress(MarketNotOpenError, UnknownMarketError):
            await self._sequencer.deliver(resolve)
        words = self._state.registry.words.get(market)
        if words is not None and words.outcome == payouts.outcome:
            return OnChain.REPORTED
        more = {"market": market, "payouts": str(payouts)}
        _LOG.error("the chain has another outcome than the market", extra=more)
        return OnChain.STUCK

    async def _wait_for_trades(self, market: str) -> None:
        """Wait until the results of all trades are final, or the operator does not want to wait.

        Once an outcome is reported, a seller could redeem the tokens that its trade still needs.
        """
        while self.ledger.num_waiting(market) and not self._state.registry.words[market].now:
            self._states[market] = OnChain.CLOSING
            await asyncio.sleep(POLL_S)

    async def _prepare(self, market: str, body: PrepareBody) -> bool:
        """Prepare the condition of a market and register it with the exchange contract."""
        done = await self._run_until_done(f"{PREPARE}:{market}", body)
        addresses = self._chain.addresses
        if done is None or addresses is None or not addresses.exchange:
            return done is not None
        if msgspec.json.decode(done.answer, type=PrepareAnswer).exchange == addresses.exchange:
            return True
        # it was prepared without an exchange contract, or for another one
        operation = f"{PREPARE}:{market}/{addresses.exchange}"
        return await self._run_until_done(operation, body) is not None

    async def _run_until_done(
        self, operation: str, body: PrepareBody | ReportBody
    ) -> OperationDone | None:
        """Run an operation, retrying until it succeeds; None if it never will."""
        pause_s, tries = PAUSE_S, 1
        while True:
            name = operation if tries == 1 else f"{operation}/{tries}"
            try:
                async with self._slots:
                    end = await self._run_operation(name, body)
            except ApiError:  # no chain worker
                end = None
            match end:
                case OperationDone():
                    return end
                case OperationFailed():
                    fields = {"operation": name, "reason": end.detail}
                    _LOG.error("an operation of a market failed", extra=fields)
                    if not end.undone:
                        return None
                    tries += 1  # an id that failed stays failed
                case OperationRejected():
                    fields = {"operation": name, "code": end.code, "reason": end.detail}
                    _LOG.warning("the chain rejected an operation of a market", extra=fields)
                    if end.code == "CONDITION_RESOLVED":
                        fields = {"operation": name}
                        _LOG.error("the chain has another outcome than the market", extra=fields)
                        return None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
