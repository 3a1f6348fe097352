"""What operations ask the chain before they begin, and the refusals that come of it."""

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from clob_server.chain.eth.abi import AbiError, Function
from clob_server.chain.eth.rpc import (
    NodeError,
    NodeInvalidResponseError,
    NodeRejectedError,
    RpcRequest,
    Reply,
    content,
    result,
)
from clob_server.chain.eth.token_ids import OUTCOME_SLOTS, token_ids
from clob_server.chain.operations.base import RefusalError, World
from clob_server.chain.operations.calls import (
    BALANCES,
    DENOMINATOR,
    IS_APPROVED,
    NUMERATOR,
    SLOTS,
)
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall, revert_message
from clob_server.chain.tx.node import is_failure

NOBODY: Final = f"0x{'0' * 40}"
"""The zero address, which no token goes to."""
CONDITIONS_MAX: Final = 10_000
"""Of how many conditions the tokens are remembered: computing them takes longer than signing."""

_tokens_of: Final = functools.lru_cache(CONDITIONS_MAX)(token_ids)


class Read(NamedTuple):
    """A function to be called without a transaction."""

    target: str
    """The contract."""
    function: Function
    """The function."""
    arguments: Sequence[Any]
    """What it is given."""
    otherwise: Any = None
    """What stands for the answer where the contract refuses; None is for those that do not."""

    def question(self) -> RpcRequest:
        """Give what the node is asked."""
        data = f"0x{self.function.encode(*self.arguments).hex()}"
        return "eth_call", ({"to": self.target, "data": data}, "latest")

    def answer(self, reply: Reply) -> Any:
        """Give what the function returned, where it returns one thing.

        Raises:
            NodeError: the node does not say, or there is no such contract.
        """
        refused = isinstance(reply, NodeRejectedError) and is_failure(reply)
        if refused and self.otherwise is not None:
            return self.otherwise
        try:
            (value,) = self.function.decode(content(result(reply)))
        except AbiError as error:
            raise NodeInvalidResponseError(
                f"the contract {self.target} does not answer {self.function.signature}"
            ) from error
        return value


async def look(world: World, *reads: Read) -> list[Any]:
    """Ask once, with how the node and the operator's purse are.

    Raises:
        RefusalError: the node does not answer as it should.
    """
    found, _ = await look_and_estimate(world, reads, ())
    return found


async def look_and_estimate(
    world: World, reads: Sequence[Read], calls: Sequence[StepCall]
) -> tuple[list[Any], dict[str, int]]:
    """Ask once, with how the node and the purse are, and how much gas the first steps take.

    Args:
        world: the world.
        reads: what to ask.
        calls: the first steps.

    Returns:
        What was asked, and the gas of those steps that can succeed, by name.

    Raises:
        RefusalError: the node does not answer as it should.
    """
    state = world.node.state_requests()
    probes = [world.sender.gas_estimator.probe(call) for call in calls]
    asked = [probe.request for probe in probes]
    questions = [*(read.question() for read in reads), *asked, *state]
    try:
        replies = await world.node.request(questions)
        world.node.store_state(replies[-len(state) :])
        found = [read.answer(reply) for read, reply in zip(reads, replies, strict=False)]
    except NodeError as error:
        raise RefusalError("CHAIN_UNAVAILABLE", str(error)) from error
    gas = {
        probe.call.name: estimate
        for probe, reply in zip(probes, replies[len(reads) :], strict=False)
        if (estimate := world.sender.gas_estimator.read_probe(probe, reply)) is not None
    }
    return found, gas


async def ask(world: World, *reads: Read) -> list[Any]:
    """Ask until there is an answer."""
    return await world.node.request_until_valid(
        [read.question() for read in reads],
        lambda replies: [read.answer(reply) for read, reply in zip(reads, replies, strict=True)],
    )


async def try_out(world: World, call: StepCall) -> str | None:
    """Ask if a step would succeed, and give why not.

    Raises:
        RefusalError: the node does not answer as it should.
    """
    asked = {"from": world.node.operator, "to": call.target, "data": f"0x{call.data.hex()}"}
    try:
        (reply,) = await world.node.request([("eth_call", (asked, "latest"))])
        if isinstance(reply, NodeRejectedError) and is_failure(reply):
            return revert_message(reply)
        result(reply)
    except NodeError as error:
        raise RefusalError("CHAIN_UNAVAILABLE", str(error)) from error
    return None


def check_gas(world: World, gas: int, gift: int = 0) -> None:
    """Refuse an operation that the operator cannot pay for, with those under way.

    Args:
        world: what is known of the purse.
        gas: what one operation takes, generously.
        gift: what is given away besides, in wei.

    Raises:
        RefusalError: there is not enough.
    """
    others = world.outbox.counts["pending"]
    needed = (1 + others) * gas * world.node.fees.max_fee + gift
    available = world.node.balance or 0
    if available < needed:
        raise RefusalError(
            "OPERATOR_OUT_OF_GAS",
            f"the operator {world.node.operator} has {available} wei for gas, and this and what is "
            f"under way may take {needed}",
            available=str(available),
            needed=str(needed),
        )


def check_user(world: World, user: str) -> None:
    """Refuse wallets that are nobody's: the zero address, the operator's, and the contracts.

    Raises:
        RefusalError: it is one of them.
    """
    addresses = world.addresses
    others = {
        NOBODY: "the zero address",
        world.node.operator: "the operator, whose tokens are other people's",
        addresses.stablecoin: "the stablecoin",
        addresses.collateral: "the collateral",
        addresses.conditional_tokens: "the contract of the tokens",
        addresses.exchange: "the exchange",
    }
    for address, what in others.items():
        if user.lower() == address.lower():
            raise RefusalError("INVALID_ADDRESS", f"user must not be {what}, {user}")


def check_condition(world: World, condition: str, slots: int) -> None:
    """Refuse a condition that the contract does not know.

    Raises:
        RefusalError: it does not, or it is no question of yes or no.
    """
    if slots == OUTCOME_SLOTS:
        return
    problem = f"has {slots} outcomes, not {OUTCOME_SLOTS}" if slots else "was never prepared"
    raise RefusalError(
        "UNKNOWN_CONDITION",
        f"the condition {condition} {problem} at {world.addresses.conditional_tokens}",
    )


def check_tokens(world: World, condition: str, yes: str, no: str) -> None:
    """Refuse tokens that are not those of a condition.

    Raises:
        RefusalError: it says which they are.
    """
    right = _tokens_of(world.addresses.collateral, bytes.fromhex(condition[2:]))
    if (int(yes), int(no)) != right:
        raise RefusalError(
            "TOKENS_NOT_OF_CONDITION",
            f"the tokens of the condition {condition} are YES {right[0]} and NO {right[1]}, "
            f"not {yes} and {no}",
            yesTokenId=str(right[0]),
            noTokenId=str(right[1]),
        )


def check_promise(world: World, what: str, balance: int, promise: Reservation) -> None:
    """Refuse what a wallet does not have, or what is promised already.

    Raises:
        RefusalError: how much is there, and how much is needed.
    """
    taken = world.promises.total(promise.user, promise.asset)
    if balance - taken < promise.amount:
        under_way = f" beyond {taken} that an operation under way takes" if taken else ""
        raise RefusalError(
            "INSUFFICIENT_BALANCE",
            f"{promise.user} has {max(0, balance - taken)} wei of {what}{under_way}, and "
            f"{promise.amount} are needed",
            available=str(max(0, balance - taken)),
            needed=str(promise.amount),
        )


def check_approved(world: World, user: str, is_approved: bool) -> None:
    """Refuse to move tokens of a wallet that does not let the operator.

    Raises:
        RefusalError: what the wallet has to call.
    """
    if not is_approved:
        operator, tokens = world.node.operator, world.addresses.conditional_tokens
        raise RefusalError(
            "NOT_APPROVED",
            f"approve the operator: {user} must call setApprovalForAll({operator}, true) on "
            f"{tokens}",
            contract=tokens,
            call=f"setApprovalForAll({operator}, true)",
        )


def token_reads(world: World, user: str, condition: str, tokens: Sequence[int]) -> list[Read]:
    """Ask for the outcomes of a condition, a wallet's tokens, and if the operator may move them."""
    contract = world.addresses.conditional_tokens
    return [
        Read(contract, SLOTS, (bytes.fromhex(condition[2:]),)),
        Read(contract, BALANCES, ([user] * len(tokens), tokens)),
        Read(contract, IS_APPROVED, (user, world.node.operator)),
    ]


def payout_reads(world: World, condition: bytes) -> list[Read]:
    """Ask what the tokens of a condition pay.

    Returns:
        The denominator, 0 until it is resolved, and the numerators of YES and NO.
    """
    contract = world.addresses.conditional_tokens
    return [
        Read(contract, DENOMINATOR, (condition,)),
        Read(contract, NUMERATOR, (condition, 0), otherwise=0),
        Read(contract, NUMERATOR, (condition, 1), otherwise=0),
    ]


def worth(amounts: Sequence[int], payouts: Sequence[int]) -> int:
    """Give what tokens pay, in wei of collateral, each rounded down as the contract does.

    Args:
        amounts: how much of YES and of NO, in wei.
        payouts: the denominator, and what YES and NO pay of it.
    """
    denominator, *numerators = payouts
    return sum(
        amount * numerator // denominator
        for amount, numerator in zip(amounts, numerators, strict=True)
    )
