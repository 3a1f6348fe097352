"""Checks that confirm on the chain whether a maker caused the reason of a failed fill."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import ne, not_
from typing import Any, Final, NamedTuple

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    AUTHORISED,
    HASH_ORDER,
    IS_PAYEE,
    IS_PAYER,
    NONCE_OF,
    OPERATOR,
    body_signature,
    body_values,
)
from clob_server.chain.operation_bodies import FillBody, PartyBody
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


def hash_calls(addresses: Addresses, reason: Reason, fill: FillBody) -> list[Read]:
    """Return calls for the hashes of both orders if the reason names one of them."""
    if BY_HASH not in reason.values:
        return []
    return [Read(addresses.exchange, HASH_ORDER, (body_values(one),)) for one in parties(fill)]


def failure_checks(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Return the checks for a reason; none if the server caused it.

    Args:
        reason: decoded reason of the failed fill.
        context: input of the checks.
    """
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
    return [
        FailureCheck(
            payer(party),
            Read(context.addresses.collateral, BALANCE, (payer(party),)),
            below(payment(context.fill, party)),
        )
        for party in buyers(context.fill)
        if payer(party) == reason.values["sender"]
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
    tokens, size = context.addresses.conditional_tokens, int(context.fill.size)
    return [
        FailureCheck(
            party.maker,
            Read(tokens, TOKEN_BALANCE, (party.maker, int(party.token_id))),
            below(size),
        )
        for party in sellers(context.fill)
    ]


def _token_approval(_: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check token approvals of sellers."""
    tokens, exchange = context.addresses.conditional_tokens, context.addresses.exchange
    return [
        FailureCheck(
            party.maker,
            Read(tokens, IS_APPROVED, (party.maker, exchange)),
            not_,
        )
        for party in sellers(context.fill)
    ]


# ----- signatures, permissions and cancellations ---------------------------------------------


def _unauthorised(context: CheckInput, orders: Sequence[PartyBody]) -> list[FailureCheck]:
    """Check with the exchange contract whether orders are authorised."""
    return [
        FailureCheck(
            party.maker,
            Read(
                context.addresses.exchange,
                AUTHORISED,
                (body_values(party), body_signature(party)),
                if_reverted=REVERTED,
            ),
            is_revert,
        )
        for party in orders
    ]


def _maker_authorisation(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check orders of the maker without a valid signature or delegate."""
    maker = reason.values["maker"]
    return _unauthorised(context, [one for one in parties(context.fill) if one.maker == maker])


def _wrong_signer(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check orders that name another signer."""
    named = reason.values["named"]
    return _unauthorised(context, [one for one in parties(context.fill) if one.signer == named])


def _malformed_signature(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check orders with a malformed signature."""
    signature = reason.values["signature"]
    orders = [one for one in parties(context.fill) if body_signature(one) == signature]
    return _unauthorised(context, orders)


def _signature_type(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check orders with an unknown signature type."""
    signature_type = reason.values["signatureType"]
    orders = [one for one in parties(context.fill) if one.signature_type == signature_type]
    return _unauthorised(context, orders)


def _named_order(reason: Reason, context: CheckInput) -> list[tuple[PartyBody, bytes]]:
    """Return the order with the hash that the reason names."""
    pairs = zip(parties(context.fill), context.hashes, strict=False)
    return [
        (party, order_hash) for party, order_hash in pairs if order_hash == reason.values[BY_HASH]
    ]


def _nonce_too_low(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the maker raised its minimum nonce."""
    return [
        FailureCheck(
            party.maker,
            Read(context.addresses.exchange, NONCE_OF, (party.maker,)),
            above(int(party.nonce)),
        )
        for party, _ in _named_order(reason, context)
    ]


def _order_record(
    reason: Reason, context: CheckInput, is_exceeded: Callable[[PartyBody], Callable[[Any], bool]]
) -> list[FailureCheck]:
    """Check the exchange's record of the order that the reason names."""
    exchange = context.addresses.exchange
    return [
        FailureCheck(party.maker, Read(exchange, USED_SO_FAR, (order_hash,)), is_exceeded(party))
        for party, order_hash in _named_order(reason, context)
    ]


def _cancelled(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the order was cancelled."""
    return _order_record(reason, context, lambda _: lambda used: used[CANCELLED] != 0)


def _overfilled(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the order was filled elsewhere; this server never overfills an order."""

    def is_exceeded(party: PartyBody) -> Callable[[Any], bool]:
        """Return a test whether less than the size of the fill is left."""
        most = int(party.taker_amount if party.side == BUY else party.maker_amount)
        left_most = most - int(context.fill.size)
        return lambda used: used[SIZE] > left_most

    return _order_record(reason, context, is_exceeded)


def _overpaid(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the order has paid elsewhere."""

    def is_exceeded(party: PartyBody) -> Callable[[Any], bool]:
        """Return a test whether less than the payment of the fill is left."""
        left_most = int(party.maker_amount) - payment(context.fill, party)
        return lambda used: used[DEBIT] > left_most

    return _order_record(reason, context, is_exceeded)


def _not_payer(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the wallet allows paying for the maker."""
    wallet, maker = reason.values["wallet"], reason.values["maker"]
    return [
        FailureCheck(
            maker,
            Read(context.addresses.exchange, IS_PAYER, (wallet, maker)),
            not_,
        )
        for party in buyers(context.fill)
        if party.maker == maker
    ]


def _not_payee(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the maker allows paying the wallet."""
    wallet, maker = reason.values["wallet"], reason.values["maker"]
    return [
        FailureCheck(
            maker,
            Read(context.addresses.exchange, IS_PAYEE, (maker, wallet)),
            not_,
        )
        for party in sellers(context.fill)
        if party.maker == maker
    ]


def _taker(reason: Reason, context: CheckInput) -> list[FailureCheck]:
    """Check whether the order names another taker than the operator."""
    taker = reason.values["taker"]
    return [
        FailureCheck(
            party.maker,
            Read(context.addresses.exchange, OPERATOR, ()),
            partial(ne, taker),
        )
        for party in parties(context.fill)
        if party.taker == taker
    ]


_CHECKS: Final[dict[str, Callable[[Reason, CheckInput], list[FailureCheck]]]] = {
    "ERC20InsufficientBalance": _collateral_balance,
    "ERC20InsufficientAllowance": _collateral_approval,
    "InsufficientTokens": _token_balance,
    "TokensNotApproved": _token_approval,
    "NotGasless": _maker_authorisation,
    "NotDelegate": _maker_authorisation,
    "WrongSigner": _wrong_signer,
    "UnusableSignature": _malformed_signature,
    "UnknownSignatureType": _signature_type,
    "NonceTooLow": _nonce_too_low,
    "Cancelled": _cancelled,
    "Overfilled": _overfilled,
    "Overpaid": _overpaid,
    "NotPayer": _not_payer,
    "NotPayee": _not_payee,
    "TakerNotSupported": _taker,
}
