"""Adopted conditions: those that exist on the chain already and that another oracle resolves.

The server checks that the condition exists, and reads its payouts until they are final. It reads
through the chain worker with calls that are encoded here, since the ABI module loads slowly.
"""

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple

from clob.signing import fields, keccak256
from clob_server.api.problems import ApiError, Fault
from clob_server.chain.config import FINAL_BLOCKS, final_blocks
from clob_server.chain.eth import token_ids
from clob_server.core.commands import Condition
from clob_server.settlement.operations import ChainPart

POLL_S: Final = 2.0
"""Shortest interval between two reads of the payouts of a market, seconds."""
MARKET_S: Final = 0.2
"""The same for each market that waits for payouts, so that the node has 5 reads a second."""
SPLIT: Final = "split"
"""Outcome of a condition of which both tokens pay."""
WORD_DIGITS: Final = 64
"""Hex digits of a word."""


def selector(signature: str) -> str:
    """Return ``0x`` and the first digits of a call of a function."""
    return f"0x{keccak256(signature.encode())[:4].hex()}"


SLOTS: Final = selector("getOutcomeSlotCount(bytes32)")
DENOMINATOR: Final = selector("payoutDenominator(bytes32)")
NUMERATOR: Final = selector("payoutNumerators(bytes32,uint256)")
NEG_RISK: Final = selector("wcol()")
"""Function of Polymarket's NegRisk adapter, the oracle of its conditions."""


class Payouts(NamedTuple):
    """The payouts of the tokens of a resolved condition."""

    denominator: int
    yes: int
    no: int

    @property
    def outcome(self) -> str:
        """``yes``, ``no``, or ``split`` if both tokens pay."""
        if self.yes and self.no:
            return SPLIT
        return "yes" if self.yes else "no"

    def __str__(self) -> str:
        return f"{self.yes}/{self.denominator} for YES and {self.no}/{self.denominator} for NO"


class AdoptedConditions(ChainPart):
    """Reads adopted conditions from the chain."""

    num_waiting: int = 0
    """Markets that wait for final payouts."""

    async def find(self, condition_id: str, oracle: str, question_id: str) -> Condition:
        """Return a condition that exists on the chain.

        Args:
            condition_id: its id, ``0x`` and 64 hex digits.
            oracle: address of the oracle that resolves it.
            question_id: question id of the oracle, ``0x`` and 64 hex digits.

        Raises:
            RejectedError: INVALID_ADDRESS.
            ApiError: INVALID_FIELD, the ids do not fit together; CHAIN_NOT_CONFIGURED;
                CHAIN_UNAVAILABLE; NEG_RISK_NOT_SUPPORTED; UNKNOWN_CONDITION, there is no such
                condition with two outcomes.
        """
        condition = _condition(condition_id, oracle, question_id)
        chain = self._chain
        chain.check_ready()
        assert chain.addresses is not None
        collateral = chain.addresses.collateral
        if len(await self._call(condition.oracle, NEG_RISK)) == 2 + WORD_DIGITS:
            raise ApiError(
                "NEG_RISK_NOT_SUPPORTED",
                f"the oracle {condition.oracle} is a NegRisk adapter: tokens of NegRisk markets "
                "are backed by the adapter's own collateral, which this server does not support",
            )
        tokens = chain.addresses.conditional_tokens
        if not _number(await self._call(tokens, _data(SLOTS, condition))):
            raise ApiError(
                "UNKNOWN_CONDITION",
                f"the condition {condition_id} does not exist in the conditional tokens contract "
                f"{tokens}; expected one with {token_ids.OUTCOME_SLOTS} outcomes",
            )
        yes, no = token_ids.token_ids(collateral, condition.condition_id)
        return Condition(
            question_id=condition.question_id,
            condition_id=condition.condition_id,
            oracle=condition.oracle,
            collateral=collateral,
            yes=str(yes),
            no=str(no),
            is_adopted=True,
        )

    async def check_outcome(self, market: str, condition: Condition, outcome: str) -> None:
        """Reject an outcome that the chain does not have.

        Raises:
            ApiError: CONDITION_NOT_RESOLVED, CONDITION_RESOLVED, CHAIN_UNAVAILABLE.
        """
        self._chain.check_ready()
        payouts = await self.payouts(condition)
        name = f"0x{condition.condition_id.hex()}"
        if payouts is None:
            raise ApiError(
                "CONDITION_NOT_RESOLVED",
                f"the oracle {condition.oracle} has not resolved the condition {name} of market "
                f"{market}; the server resolves the market after it",
            )
        if payouts.outcome != outcome:
            raise ApiError(
                "CONDITION_RESOLVED",
                f"the condition {name} is resolved with the payouts {payouts}; market {market} "
                f"cannot be resolved as {outcome}",
            )

    async def wait(self, condition: Condition) -> Payouts:
        """Wait until a condition has final payouts and return them."""
        self.num_waiting += 1
        try:
            while True:
                try:
                    payouts = await self.payouts(condition, await self._final_block())
                except ApiError:  # the chain is not reachable
                    payouts = None
                if payouts is not None:
                    return payouts
                await asyncio.sleep(max(POLL_S, self.num_waiting * MARKET_S))
        finally:
            self.num_waiting -= 1

    async def payouts(self, condition: Condition, block: str = "latest") -> Payouts | None:
        """Return the payouts of a condition at a block; None if it is not resolved there.

        Raises:
            ApiError: CHAIN_UNAVAILABLE; REJECTED, the node does not know the block.
        """
        addresses = self._chain.addresses
        if addresses is None:
            return None
        tokens = addresses.conditional_tokens
        denominator = _number(await self._call(tokens, _data(DENOMINATOR, condition), block))
        if not denominator:
            return None
        yes, no = [
            _number(await self._call(tokens, f"{_data(NUMERATOR, condition)}{slot:0>64}", block))
            for slot in range(token_ids.OUTCOME_SLOTS)
        ]
        return Payouts(denominator, yes, no)

    async def _final_block(self) -> str:
        """Return the newest final block, as a parameter of a call."""
        depth, ask = final_blocks(self._settings), self._chain.worker.ask_node
        if not depth:
            with suppress(ApiError, KeyError, TypeError):  # the node has no such block
                return str((await ask("eth_getBlockByNumber", "finalized", False))["number"])
        head = _number(await ask("eth_blockNumber"))
        return hex(max(0, head + 1 - (depth or FINAL_BLOCKS)))

    async def _call(self, contract: str, data: str, block: str = "latest") -> str:
        """Call a function and return its result in hex; ``0x`` if the call reverts.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        call = {"to": contract, "data": data}
        try:
            return str(await self._chain.worker.ask_node("eth_call", call, block))
        except ApiError as error:
            if error.code == "REJECTED":
                return "0x"
            raise


class _Named(NamedTuple):
    """The parts of a condition that its id consists of."""

    condition_id: bytes
    question_id: bytes
    oracle: str


def _condition(condition_id: str, oracle: str, question_id: str) -> _Named:
    """Read the ids of a condition and check that they fit together."""
    named = _Named(
        fields.word("conditionId", condition_id),
        fields.word("questionId", question_id),
        fields.address("oracle", oracle),
    )
    expected = token_ids.condition_id(named.oracle, named.question_id)
    if named.condition_id != expected:
        detail = (
            f"conditionId must be 0x{expected.hex()}, that of oracle, questionId and "
            f"{token_ids.OUTCOME_SLOTS} outcomes; got {condition_id}"
        )
        raise ApiError("INVALID_FIELD", detail, faults=(Fault("conditionId", detail),))
    return named


def _data(function: str, condition: Condition | _Named) -> str:
    """Return the data of a call with a condition as first argument."""
    return f"{function}{condition.condition_id.hex()}"


def _number(result: object) -> int:
    """Return the number that a node returned; 0 for an empty result.

    Raises:
        ApiError: CHAIN_UNAVAILABLE, it is no number.
    """
    try:
        return int(str(result), 16) if result != "0x" else 0
    except ValueError:
        raise ApiError("CHAIN_UNAVAILABLE", "the node returned no number") from None
