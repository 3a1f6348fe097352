"""Contract reads of operations, and the preconditions that are checked before anything is sent."""

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from clob.signing import ZERO_ADDRESS
from clob.wire.operations import ConversionBody
from clob_server.chain.eth.abi import AbiError, Function
from clob_server.chain.eth.exchange_abi import COLLATERAL_ASSET, ESCROW_OF
from clob_server.chain.eth.rpc import (
    NodeError,
    NodeInvalidResponseError,
    NodeRejectedError,
    Reply,
    RpcRequest,
    content,
    result,
)
from clob_server.chain.eth.token_ids import OUTCOME_SLOTS, token_ids
from clob_server.chain.operations.base import OperationContext, OperationRejectedError
from clob_server.chain.operations.calls import (
    BALANCES,
    DENOMINATOR,
    IS_APPROVED,
    NUMERATOR,
    SCALE,
    SLOTS,
)
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall, revert_message
from clob_server.chain.tx.node import is_failure

CONDITIONS_MAX: Final = 10_000
"""Number of conditions whose token ids are cached; computing them takes longer than signing."""

_tokens_of: Final = functools.lru_cache(CONDITIONS_MAX)(token_ids)


# ----- reads ---------------------------------------------------------------------------------


class Read(NamedTuple):
    """A call of a view function that returns one value."""

    target: str
    """Address of the contract."""
    function: Function
    arguments: Sequence[Any]
    if_reverted: Any = None
    """Value that stands for a reverted call; None if the call must succeed."""

    def request(self) -> RpcRequest:
        """Return the JSON-RPC request."""
        data = f"0x{self.function.encode(*self.arguments).hex()}"
        return "eth_call", ({"to": self.target, "data": data}, "latest")

    def decode(self, reply: Reply) -> Any:
        """Return the value from the reply.

        Raises:
            NodeError: the node returned an error, or there is no such contract.
        """
        is_reverted = isinstance(reply, NodeRejectedError) and is_failure(reply)
        if is_reverted and self.if_reverted is not None:
            return self.if_reverted
        try:
            (value,) = self.function.decode(content(result(reply)))
        except AbiError as error:
            raise NodeInvalidResponseError(
                f"the contract {self.target} returned no valid result of {self.function.signature}"
            ) from error
        return value


async def read_once(context: OperationContext, *reads: Read) -> list[Any]:
    """Read values and the state of the node in one request.

    Raises:
        OperationRejectedError: the node does not respond, or not as expected.
    """
    values, _ = await read_and_estimate(context, reads, ())
    return values


async def read_and_estimate(
    context: OperationContext, reads: Sequence[Read], calls: Sequence[StepCall]
) -> tuple[list[Any], dict[str, int]]:
    """Read values, the state of the node and gas estimates in one request.

    Returns:
        The values, and the gas by name of those of the steps ``calls`` that can succeed.

    Raises:
        OperationRejectedError: the node does not respond, or not as expected.
    """
    state = context.node.state_requests()
    probes = [context.sender.gas_estimator.probe(call) for call in calls]
    estimates = [probe.request for probe in probes]
    requests = [*(read.request() for read in reads), *estimates, *state]
    try:
        replies = await context.node.request(requests)
        context.node.store_state(replies[-len(state) :])
        values = [read.decode(reply) for read, reply in zip(reads, replies, strict=False)]
    except NodeError as error:
        raise OperationRejectedError("CHAIN_UNAVAILABLE", str(error)) from error
    gas = {
        probe.call.name: estimate
        for probe, reply in zip(probes, replies[len(reads) :], strict=False)
        if (estimate := context.sender.gas_estimator.read_probe(probe, reply)) is not None
    }
    return values, gas


async def read_until_valid(context: OperationContext, *reads: Read) -> list[Any]:
    """Read values in one request, and repeat it until the node responds as expected."""
    return await context.node.request_until_valid(
        [read.request() for read in reads],
        lambda replies: [read.decode(reply) for read, reply in zip(reads, replies, strict=True)],
    )


async def call_error(context: OperationContext, call: StepCall) -> str | None:
    """Simulate a step and return the reason why it would revert; None if it would succeed.

    Raises:
        OperationRejectedError: the node does not respond, or not as expected.
    """
    data = f"0x{call.data.hex()}"
    transaction = {"from": context.node.operator, "to": call.target, "data": data}
    try:
        (reply,) = await context.node.request([("eth_call", (transaction, "latest"))])
        if isinstance(reply, NodeRejectedError) and is_failure(reply):
            return revert_message(reply)
        result(reply)
    except NodeError as error:
        raise OperationRejectedError("CHAIN_UNAVAILABLE", str(error)) from error
    return None


def token_reads(
    context: OperationContext, user: str, condition: str, tokens: Sequence[int]
) -> list[Read]:
    """Return the reads of a condition's outcome count and a wallet's balances and approval."""
    contract = context.addresses.conditional_tokens
    return [
        Read(contract, SLOTS, (bytes.fromhex(condition[2:]),)),
        Read(contract, BALANCES, ([user] * len(tokens), tokens)),
        Read(contract, IS_APPROVED, (user, context.node.operator)),
    ]


def scale_read(context: OperationContext) -> Read:
    """Return the read of the wei of collateral for the smallest unit of the stablecoin.

    Its value is 0 if the collateral is not a wrapped stablecoin.
    """
    return Read(context.addresses.collateral, SCALE, (), if_reverted=0)


def payout_reads(context: OperationContext, condition: bytes) -> list[Read]:
    """Return the reads of the payouts of a condition.

    Their values are the denominator, which is 0 until the condition is resolved, and the numerators
    of YES and NO.
    """
    contract = context.addresses.conditional_tokens
    return [
        Read(contract, DENOMINATOR, (condition,)),
        Read(contract, NUMERATOR, (condition, 0), if_reverted=0),
        Read(contract, NUMERATOR, (condition, 1), if_reverted=0),
    ]


NO_ESCROW: Final = ()
"""Value of :func:`escrow_read` for an exchange without escrow."""


def escrow_read(exchange: str, wallet: str = ZERO_ADDRESS, asset: int = COLLATERAL_ASSET) -> Read:
    """Return the read of a wallet's escrow: balance, requested amount, time of the withdrawal.

    An exchange of an earlier version has no such function.
    """
    return Read(exchange, ESCROW_OF, (wallet, asset), if_reverted=NO_ESCROW)


def without_escrow(exchange: str) -> str:
    """Return the problem of an exchange without escrow."""
    return (
        f"the exchange {exchange} is of an earlier version and keeps no escrow; deploy another "
        "exchange for escrow markets"
    )


def payout_of(amounts: Sequence[int], payouts: Sequence[int]) -> int:
    """Return the payout of YES and NO in wei, rounded down per token as on chain."""
    denominator, yes, no = payouts
    return amounts[0] * yes // denominator + amounts[1] * no // denominator


# ----- preconditions -------------------------------------------------------------------------
# Each raises OperationRejectedError with the code and the values that the client receives.


def check_gas(context: OperationContext, gas: int, gift: int = 0) -> None:
    """Reject an operation if its sender cannot pay for it and for all pending ones."""
    needed = gas_needed(context, gas) + gift
    available = context.node.balance or 0
    if available < needed:
        raise OperationRejectedError(
            "OPERATOR_OUT_OF_GAS",
            f"{context.node.role} {context.node.operator} has {available} wei for gas; this "
            f"operation and the pending ones need up to {needed}",
            available=str(available),
            needed=str(needed),
        )


def gas_needed(context: OperationContext, gas: int) -> int:
    """Return the wei that an operation and all pending ones may need, if each takes this gas."""
    return (1 + context.outbox.counts["pending"]) * gas * context.node.fees.max_fee


def check_user(context: OperationContext, user: str) -> None:
    """Reject the zero address, the operator and the contracts as wallets."""
    addresses = context.addresses
    reserved = {
        ZERO_ADDRESS: "the zero address",
        context.node.operator: "the operator",
        addresses.stablecoin: "the stablecoin contract",
        addresses.collateral: "the collateral contract",
        addresses.conditional_tokens: "the conditional tokens contract",
        addresses.exchange: "the exchange contract",
    }
    for address, owner in reserved.items():
        if user.lower() == address.lower():
            raise OperationRejectedError(
                "INVALID_ADDRESS", f"user must be the address of a wallet; {user} is {owner}"
            )


def check_condition(context: OperationContext, condition: str, slots: int) -> None:
    """Reject a condition that is not prepared with two outcomes."""
    if slots == OUTCOME_SLOTS:
        return
    problem = f"has {slots} outcomes; expected {OUTCOME_SLOTS}" if slots else "is not prepared"
    contract = context.addresses.conditional_tokens
    raise OperationRejectedError(
        "UNKNOWN_CONDITION",
        f"the condition {condition} of the conditional tokens contract {contract} {problem}",
    )


def check_tokens(context: OperationContext, body: ConversionBody) -> None:
    """Reject token ids that do not belong to the condition; the error contains the right ones."""
    condition = body.condition_id
    yes, no = _tokens_of(context.addresses.collateral, bytes.fromhex(condition[2:]))
    if (int(body.yes_token_id), int(body.no_token_id)) != (yes, no):
        raise OperationRejectedError(
            "TOKENS_NOT_OF_CONDITION",
            f"the tokens of the condition {condition} are YES {yes} and NO {no}; "
            f"got {body.yes_token_id} and {body.no_token_id}",
            yesTokenId=str(yes),
            noTokenId=str(no),
        )


def check_balance(
    context: OperationContext, name: str, balance: int, reservation: Reservation
) -> None:
    """Reject a reservation that exceeds the balance of a wallet without other reservations."""
    reserved = context.reserved.total(reservation.user, reservation.asset)
    available = max(0, balance - reserved)
    if balance - reserved < reservation.amount:
        others = f" besides {reserved} reserved by pending operations" if reserved else ""
        raise OperationRejectedError(
            "INSUFFICIENT_BALANCE",
            f"{reservation.user} has {available} wei of {name}{others}; "
            f"{reservation.amount} are needed",
            available=str(available),
            needed=str(reservation.amount),
        )


def check_approved(context: OperationContext, user: str, is_approved: bool) -> None:
    """Reject a wallet that has not approved the operator for its tokens, with the call to do it."""
    if not is_approved:
        operator, tokens = context.node.operator, context.addresses.conditional_tokens
        raise OperationRejectedError(
            "NOT_APPROVED",
            f"{user} has not approved the operator for its outcome tokens; it must call "
            f"setApprovalForAll({operator}, true) on {tokens}",
            contract=tokens,
            call=f"setApprovalForAll({operator}, true)",
        )
