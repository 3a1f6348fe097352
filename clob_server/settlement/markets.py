"""Markets on the chain: which condition each trades, and that the chain keeps up with them.

A market that an operator opens with a question and without tokens has the condition of that
question; the tokens follow from it. Preparing it and reporting its outcome are operations of the
chain, which are done when there is one: a market opens, trades and is resolved without it.
"""

import asyncio
import enum
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clob.errors import UnknownMarketError
from clob_server.api.problems import ApiError
from clob_server.chain.client import ChainClient
from clob_server.chain.eth import token_ids
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from clob_server.chain.operation_bodies import PrepareAnswer, PrepareBody, ReportBody
from clob_server.core.commands import Condition
from clob_server.core.serialize import chain_terms
from clob_server.core.state import ServerState
from clob_server.settlement.operations import kind_of, outcome_of
from clob_server.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from clob_server.chain.worker_client import OperationEnd

PAUSE_S: Final = 1.0
"""How long until the chain is asked again after a refusal, at first; twice as long each time."""
PAUSE_MAX_S: Final = 60.0
"""How long at most."""
AT_ONCE: Final = 8
"""How many markets the chain is asked about at the same time."""
PREPARE: Final = "prepare"
"""What the operation is called that prepares a condition, before the market."""
REPORT: Final = "report"
"""What the operation is called that reports an outcome."""

_LOG: Final = logging.getLogger("clob_server.chain")


class OnChain(enum.Enum):
    """Where a market stands on the chain."""

    WAITING = "waiting"
    """The chain has not been reached since the server started."""
    PREPARING = "preparing"
    """Its condition is being prepared."""
    PREPARED = "prepared"
    """Its tokens can be made of collateral, and collateral of them."""
    REPORTING = "reporting"
    """Its outcome is being reported."""
    REPORTED = "reported"
    """Its tokens can be redeemed."""
    STUCK = "stuck"
    """Preparing or reporting has failed; the operator's list of operations says why."""


def condition_of(market: str, question: str, oracle: str, collateral: str) -> Condition:
    """Give the condition of a market.

    Its question id is the Keccak-256 of the market's id, a line feed and the question, in UTF-8: no
    two markets have the same.

    Args:
        market: its id.
        question: what is asked, as it is at first; what it is called later changes nothing here.
        oracle: who reports the outcome.
        collateral: the ERC-20 that backs the tokens.
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


class Conditions:
    """Keeps the chain up with the markets.

    Args:
        clock_ms: returns the time, Unix milliseconds.
        state: has the markets and their conditions.
        chain: connection to the chain.
        metrics: counts operations and settlements.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        state: ServerState,
        chain: ChainClient,
        metrics: Metrics,
    ) -> None:
        self._clock_ms: Final = clock_ms
        self._state: Final = state
        self._chain: Final = chain
        self._metrics: Final = metrics
        self._states: dict[str, OnChain] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    def own(self, market: str) -> Condition | None:
        """Give the condition that a market trades; None where it is not on the chain."""
        condition = self._state.registry.conditions.get(market)
        if condition is None:
            return None
        try:
            terms = self._state.matcher.market(market)
        except UnknownMarketError:
            return None
        return condition if (terms.yes, terms.no) == (condition.yes, condition.no) else None

    def state(self, market: str) -> OnChain:
        """Say where a market stands on the chain."""
        return self._states.get(market, OnChain.WAITING)

    def describe(self, market: str) -> dict[str, Any]:
        """Give what descriptions of a market say of its condition."""
        state = self.state(market).value if self._chain.is_configured else None
        return chain_terms(self.own(market), state)

    def new(self, market: str, question: str) -> Condition:
        """Give the condition for a market that is about to open.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED; CHAIN_UNAVAILABLE, it is not known yet where its
                contracts are.
        """
        chain = self._chain
        chain.check_configured()
        if chain.operator is None or chain.addresses is None:
            raise ApiError(
                "CHAIN_UNAVAILABLE", "the chain has not said yet where its contracts are"
            )
        return condition_of(market, question, chain.operator, chain.addresses.collateral)

    # ----- keeping up --------------------------------------------------------------------------

    async def rise(self) -> None:
        """Begin to keep a chain up that has just come, or come again."""
        for market in self._state.registry.conditions:
            self.follow(market)

    def follow(self, market: str) -> None:
        """Have the chain keep up with a market, which is new or was just resolved."""
        chain, condition = self._chain, self.own(market)
        if condition is None or chain.addresses is None:
            return
        if (condition.oracle, condition.collateral) != (chain.operator, chain.addresses.collateral):
            _LOG.error("a market is of another chain", extra={"market": market})
            self._states[market] = OnChain.STUCK
            return
        before = self._tasks.pop(market, None)
        if before is not None:
            before.cancel()
        self._tasks[market] = asyncio.create_task(self._keep_up(market, condition))

    def hear_end(self, end: OperationDone | OperationFailed) -> None:
        """Hear of the end of an operation that nobody waits for, as after an operator's retry."""
        kind, _, market = end.id.partition(":")
        if kind in (PREPARE, REPORT) and isinstance(end, OperationDone):
            self.follow(market.partition("/")[0])

    async def close(self) -> None:
        """Leave the rest to the next start."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _keep_up(self, market: str, condition: Condition) -> None:
        """Prepare the condition of a market, and report its outcome once it is known."""
        question_id = f"0x{condition.question_id.hex()}"
        self._states[market] = OnChain.PREPARING
        if not await self._prepare(market, PrepareBody(question_id=question_id)):
            self._states[market] = OnChain.STUCK
            return
        words = self._state.registry.words.get(market)
        outcome = words.outcome if words is not None else ""
        if outcome not in ("yes", "no"):
            self._states[market] = OnChain.PREPARED
            return
        self._states[market] = OnChain.REPORTING
        body = ReportBody(question_id=question_id, outcome="yes" if outcome == "yes" else "no")
        done = await self._do(f"{REPORT}:{market}", body)
        self._states[market] = OnChain.STUCK if done is None else OnChain.REPORTED

    async def _prepare(self, market: str, body: PrepareBody) -> bool:
        """Prepare the condition of a market, and have the exchange know it."""
        done = await self._do(f"{PREPARE}:{market}", body)
        addresses = self._chain.addresses
        if done is None or addresses is None or not addresses.exchange:
            return done is not None
        if msgspec.json.decode(done.answer, type=PrepareAnswer).exchange == addresses.exchange:
            return True
        # It was prepared where there was no exchange, or another one.
        return await self._do(f"{PREPARE}:{market}/{addresses.exchange}", body) is not None

    async def _do(self, operation: str, body: PrepareBody | ReportBody) -> OperationDone | None:
        """Have the chain do something, again and again until it does; None where it never will."""
        pause_s, tries = PAUSE_S, 1
        while True:
            name = operation if tries == 1 else f"{operation}/{tries}"
            end = await self._once(name, body)
            if isinstance(end, OperationDone):
                return end
            if isinstance(end, OperationFailed):
                more = {"operation": name, "reason": end.detail}
                _LOG.error("the chain does not keep up with a market", extra=more)
                if not end.undone:
                    return None
                tries += 1  # this one stays failed
            elif end is not None and end.code == "CONDITION_RESOLVED":
                _LOG.error("another outcome is on the chain", extra={"operation": name})
                return None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _once(self, operation: str, body: PrepareBody | ReportBody) -> "OperationEnd | None":
        """Ask the chain once; None where there is nobody to ask."""
        async with self._turn:
            begin = time.perf_counter()
            try:
                end = await self._chain.worker.run_operation(operation, body, self._clock_ms())
            except ApiError:
                return None
        taken_s = time.perf_counter() - begin
        self._metrics.operation(kind_of(body), outcome_of(end), taken_s)
        if isinstance(end, OperationRejected):
            more = {"operation": operation, "code": end.code, "reason": end.detail}
            _LOG.warning("the chain does not take up a market yet", extra=more)
        return end
