"""Checks that confirm on the chain whether a maker caused the reason of a failed fill."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, ne, not_
from typing import Any, Final, NamedTuple, TypeAlias

from clob.wire.operations import FillBody, PartyBody
from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    AUTHORISED,
    ESCROW_OF,
    HASH_ORDER,
    IS_PAYEE,
    IS_PAYER,
    NONCE_OF,
    OPERATOR,
    body_signature,
    body_values,
)
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, IS_APPROVED
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.watcher.failure_reasons import BUY, Reason, parties, payer, payment

TOKEN_BALANCE: Final = Function("balanceOf(address,uint256)", returns="uint256")
USED_SO_FAR: Final = Function("used(bytes32)", returns="uint112[3]")
BY_HASH: Final = "orderHash"
"""Name of the order hash in the contract's errors."""
SIZE, DEBIT, CANCELLED = range(3)
"""Indices of the exchange's record of an order."""
REVERTED: Final = b""
"""Result of a call that the contract reverted."""


class FailureCheck(NamedTuple):
    """A check whether a wallet caused a failure."""

    wallet: str
    """Address of the maker or of the paying wallet."""
    call: Read
    """Contract call for the check."""
    confirms: Callable[[Any], bool]
    """Whether the result confirms the cause."""


class CheckInput(NamedTuple):
    """Input of the checks."""

    addresses: Addresses
    """Addresses of the contracts."""
    fill: FillBody
    """The failed fill."""
    hashes: Sequence[bytes]
    """Hashes of both orders, the resting one first; empty if the reason names no hash."""


Finder: TypeAlias = Callable[[Reason, CheckInput], list[FailureCheck]]
"""Returns the checks for a reason."""


def hash_calls(addresses: Addresses, reason: Reason, fill: FillBody) -> list[Read]:
    """Return calls for the hashes of both orders if the reason names one of them."""
    if BY_HASH not in reason.values:
        return []
    return [Read(addresses.exchange, HASH_ORDER, (body_values(one),)) for one in parties(fill)]


def failure_checks(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Return the checks for the reason of a failed fill; none if the server caused it."""
    find = _CHECKS.get(reason.name)
    return [] if find is None else find(reason, context)


def below(limit: int) -> Callable[[Any], bool]:
    """Return a test for results below a limit."""
    return lambda result: bool(result < limit)


def above(limit: int) -> Callable[[Any], bool]:
    """Return a test for results above a limit."""
    return lambda result: bool(result > limit)


def is_revert(result: object) -> bool:
    """Return whether the contract reverted the call."""
    return result == REVERTED


def buyers(fill: FillBody) -> list[PartyBody]:
    """Return the buy orders of a fill."""
    return [party for party in parties(fill) if party.side == BUY]


def sellers(fill: FillBody) -> list[PartyBody]:
    """Return the sell orders of a fill."""
    return [party for party in parties(fill) if party.side != BUY]


# ----- balances and approvals ----------------------------------------------------------------


def _collateral_balance(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check the collateral of the payer that the reason names."""
    fill, wallet = context.fill, reason.values["sender"]
    read = Read(context.addresses.collateral, BALANCE, (wallet,))
    return [
        FailureCheck(wallet, read, below(payment(fill, party)))
        for party in buyers(fill)
        if payer(party) == wallet
    ]


def _collateral_approval(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check approvals of collateral; the reason names the amount but not the wallet."""
    fill, addresses = context.fill, context.addresses
    paying = [party for party in buyers(fill) if payment(fill, party) == reason.values["needed"]]
    return [
        FailureCheck(
            payer(party),
            Read(addresses.collateral, ALLOWANCE, (payer(party), addresses.exchange)),
            below(payment(fill, party)),
        )
        for party in paying or buyers(fill)
    ]


def _token_balance(_: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check token balances of sellers."""
    tokens, is_short = context.addresses.conditional_tokens, below(int(context.fill.size))
    return [
        FailureCheck(
            party.maker, Read(tokens, TOKEN_BALANCE, (party.maker, int(party.token_id))), is_short
        )
        for party in sellers(context.fill)
    ]


def _token_approval(_: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check token approvals of sellers."""
    tokens, exchange = context.addresses.conditional_tokens, context.addresses.exchange
    return [
        FailureCheck(party.maker, Read(tokens, IS_APPROVED, (party.maker, exchange)), not_)
        for party in sellers(context.fill)
    ]


def _escrow_balance(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check the escrow of the wallet that the reason names."""
    wallet, asset, needed = (reason.values[name] for name in ("wallet", "asset", "needed"))
    read = Read(context.addresses.exchange, ESCROW_OF, (wallet, asset))
    return [FailureCheck(wallet, read, lambda escrow: escrow[0] < needed)]


# ----- signatures, permissions and cancellations ---------------------------------------------


def _authorisation(name: str, value_of: Callable[[PartyBody], object]) -> Finder:
    """Return a finder of checks whether the exchange accepts the signature of an order.

    Args:
        name: the value of the reason that identifies the order.
        value_of: returns the same value of an order.
    """

    def find(reason: Reason, context: CheckInput) -> list[FailureCheck]:
        checks = []
        for order in parties(context.fill):
            if value_of(order) == reason.values[name]:
                arguments = body_values(order), body_signature(order)
                read = Read(context.addresses.exchange, AUTHORISED, arguments, REVERTED)
                checks.append(FailureCheck(order.maker, read, is_revert))
        return checks

    return find


def _named_order(reason: Reason, context: CheckInput) -> list[tuple[PartyBody, bytes]]:
    """Return the order with the hash that the reason names."""
    pairs = zip(parties(context.fill), context.hashes, strict=False)
    return [pair for pair in pairs if pair[1] == reason.values[BY_HASH]]


def _nonce_too_low(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the maker raised its minimum nonce."""
    exchange = context.addresses.exchange
    return [
        FailureCheck(party.maker, Read(exchange, NONCE_OF, (party.maker,)), above(int(party.nonce)))
        for party, _ in _named_order(reason, context)
    ]


def _order_record(confirms: Callable[[FillBody, PartyBody, Sequence[int]], bool]) -> Finder:
    """Return a finder of checks of the exchange's record of the order that the reason names."""

    def find(reason: Reason, context: CheckInput) -> list[FailureCheck]:
        fill, exchange = context.fill, context.addresses.exchange
        return [
            FailureCheck(
                party.maker,
                Read(exchange, USED_SO_FAR, (order_hash,)),
                partial(confirms, fill, party),
            )
            for party, order_hash in _named_order(reason, context)
        ]

    return find


def is_cancelled(fill: FillBody, party: PartyBody, used: Sequence[int]) -> bool:
    """Return whether the order was cancelled."""
    return used[CANCELLED] != 0


def is_overfilled(fill: FillBody, party: PartyBody, used: Sequence[int]) -> bool:
    """Return whether the order was filled elsewhere; this server never overfills an order."""
    most = int(party.taker_amount if party.side == BUY else party.maker_amount)
    return used[SIZE] + int(fill.size) > most


def is_overpaid(fill: FillBody, party: PartyBody, used: Sequence[int]) -> bool:
    """Return whether the order has paid elsewhere."""
    return used[DEBIT] + payment(fill, party) > int(party.maker_amount)


def _permission(
    view: Function, orders: Callable[[FillBody], list[PartyBody]], *names: str
) -> Finder:
    """Return a finder of checks whether payments between a maker and a wallet are allowed.

    Args:
        view: function of the exchange that returns the permission.
        orders: returns the orders of a fill that may need it.
        names: values of the reason, which are the arguments of the function.
    """

    def find(reason: Reason, context: CheckInput) -> list[FailureCheck]:
        maker = reason.values["maker"]
        arguments = tuple(reason.values[name] for name in names)
        read = Read(context.addresses.exchange, view, arguments)
        makers = [party.maker for party in orders(context.fill)]
        return [FailureCheck(maker, read, not_)] * makers.count(maker)

    return find


def _taker(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the order names another taker than the operator."""
    taker, read = reason.values["taker"], Read(context.addresses.exchange, OPERATOR, ())
    return [
        FailureCheck(party.maker, read, partial(ne, taker))
        for party in parties(context.fill)
        if party.taker == taker
    ]


_CHECKS: Final[dict[str, Finder]] = {
    "ERC20InsufficientBalance": _collateral_balance,
    "ERC20InsufficientAllowance": _collateral_approval,
    "InsufficientTokens": _token_balance,
    "TokensNotApproved": _token_approval,
    "InsufficientEscrow": _escrow_balance,
    "NotGasless": _authorisation("maker", attrgetter("maker")),
    "NotDelegate": _authorisation("maker", attrgetter("maker")),
    "WrongSigner": _authorisation("named", attrgetter("signer")),
    "UnusableSignature": _authorisation("signature", body_signature),
    "UnknownSignatureType": _authorisation("signatureType", attrgetter("signature_type")),
    "NonceTooLow": _nonce_too_low,
    "Cancelled": _order_record(is_cancelled),
    "Overfilled": _order_record(is_overfilled),
    "Overpaid": _order_record(is_overpaid),
    "NotPayer": _permission(IS_PAYER, buyers, "wallet", "maker"),
    "NotPayee": _permission(IS_PAYEE, sellers, "maker", "wallet"),
    "TakerNotSupported": _taker,
}
