"""Whom the reason of a failed fill points at, and what to ask the chain to see if it is true."""

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
from clob_server.chain.watcher.failure_reasons import BUY, Reason, parties, payer, pays

TOKEN_BALANCE: Final = Function("balanceOf(address,uint256)", returns="uint256")
USED_SO_FAR: Final = Function("used(bytes32)", returns="uint112[3]")
BY_HASH: Final = "orderHash"
"""What the errors call the hash of an order that they name."""
SIZE, DEBIT, CANCELLED = range(3)
"""The places of what the exchange has noted of an order."""
REFUSED: Final = b""
"""What stands for the answer of a contract that refuses to give one."""


class Suspect(NamedTuple):
    """Somebody who may be to blame."""

    who: str
    """His address: the maker's, or that of a wallet that was to pay."""
    read: Read
    """What to ask the chain."""
    is_so: Callable[[Any], bool]
    """If the answer says that he is."""


class Places(NamedTuple):
    """What suspects are looked for with."""

    addresses: Addresses
    """Where the contracts are."""
    fill: FillBody
    """What was to be settled."""
    hashes: Sequence[bytes]
    """The hashes of both orders, that which rested first; empty where the reason names none."""


def hash_reads(addresses: Addresses, reason: Reason, fill: FillBody) -> list[Read]:
    """Ask for the hashes of both orders, where the reason names one of them."""
    if BY_HASH not in reason.values:
        return []
    return [Read(addresses.exchange, HASH_ORDER, (body_values(one),)) for one in parties(fill)]


def suspects(reason: Reason, places: Places) -> list[Suspect]:
    """Name those whom a reason points at; nobody where the server made a mistake, or was late.

    Args:
        reason: why a fill failed.
        places: what they are looked for with.
    """
    find = _FINDERS.get(reason.name)
    return [] if find is None else find(reason, places)


def below(limit: int) -> Callable[[Any], bool]:
    """See if an answer is below a limit."""
    return lambda found: bool(found < limit)


def above(limit: int) -> Callable[[Any], bool]:
    """See if an answer is above a limit."""
    return lambda found: bool(found > limit)


def is_refusal(found: object) -> bool:
    """See if a contract gave no answer."""
    return found == REFUSED


def buyers(fill: FillBody) -> list[PartyBody]:
    """Give the orders of a fill that buy."""
    return [party for party in parties(fill) if party.side == BUY]


def sellers(fill: FillBody) -> list[PartyBody]:
    """Give the orders of a fill that sell."""
    return [party for party in parties(fill) if party.side != BUY]


# ----- what wallets have, and let the exchange take ------------------------------------------


def _poor(reason: Reason, places: Places) -> list[Suspect]:
    """Who was to pay, and has too little."""
    return [
        Suspect(
            payer(party),
            Read(places.addresses.collateral, BALANCE, (payer(party),)),
            below(pays(places.fill, party)),
        )
        for party in buyers(places.fill)
        if payer(party) == reason.values["sender"]
    ]


def _unapproved(reason: Reason, places: Places) -> list[Suspect]:
    """Who was to pay, and does not let the exchange take it; the reason does not name him."""
    fill, addresses = places.fill, places.addresses
    paying = [party for party in buyers(fill) if pays(fill, party) == reason.values["needed"]]
    return [
        Suspect(
            payer(party),
            Read(addresses.collateral, ALLOWANCE, (payer(party), addresses.exchange)),
            below(pays(fill, party)),
        )
        for party in paying or buyers(fill)
    ]


def _without_tokens(_: Reason, places: Places) -> list[Suspect]:
    """Who sells what he does not have."""
    tokens, size = places.addresses.conditional_tokens, int(places.fill.size)
    return [
        Suspect(
            party.maker,
            Read(tokens, TOKEN_BALANCE, (party.maker, int(party.token_id))),
            below(size),
        )
        for party in sellers(places.fill)
    ]


def _tokens_unapproved(_: Reason, places: Places) -> list[Suspect]:
    """Who sells, and does not let the exchange move tokens."""
    tokens, exchange = places.addresses.conditional_tokens, places.addresses.exchange
    return [
        Suspect(
            party.maker,
            Read(tokens, IS_APPROVED, (party.maker, exchange)),
            not_,
        )
        for party in sellers(places.fill)
    ]


# ----- what makers sign, allow and take back -------------------------------------------------


def _unauthorised(places: Places, found: Sequence[PartyBody]) -> list[Suspect]:
    """Whose order was not signed by somebody who may."""
    return [
        Suspect(
            party.maker,
            Read(
                places.addresses.exchange,
                AUTHORISED,
                (body_values(party), body_signature(party)),
                otherwise=REFUSED,
            ),
            is_refusal,
        )
        for party in found
    ]


def _not_allowed(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order has nobody's signature, or that of somebody he does not let sign."""
    maker = reason.values["maker"]
    return _unauthorised(places, [one for one in parties(places.fill) if one.maker == maker])


def _wrong_signer(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order another signed than it says."""
    named = reason.values["named"]
    return _unauthorised(places, [one for one in parties(places.fill) if one.signer == named])


def _unusable(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order has what is no signature."""
    given = reason.values["signature"]
    found = [one for one in parties(places.fill) if body_signature(one) == given]
    return _unauthorised(places, found)


def _unknown_type(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order is of a signature type that there is not."""
    given = reason.values["signatureType"]
    found = [one for one in parties(places.fill) if one.signature_type == given]
    return _unauthorised(places, found)


def _of_hash(reason: Reason, places: Places) -> list[tuple[PartyBody, bytes]]:
    """Give the order that a reason names, with its hash."""
    pairs = zip(parties(places.fill), places.hashes, strict=False)
    return [(party, found) for party, found in pairs if found == reason.values[BY_HASH]]


def _nonce_too_low(reason: Reason, places: Places) -> list[Suspect]:
    """Who raised his nonce."""
    return [
        Suspect(
            party.maker,
            Read(places.addresses.exchange, NONCE_OF, (party.maker,)),
            above(int(party.nonce)),
        )
        for party, _ in _of_hash(reason, places)
    ]


def _used(
    reason: Reason, places: Places, room: Callable[[PartyBody], Callable[[Any], bool]]
) -> list[Suspect]:
    """Whose order is no longer good for it, by what the exchange has noted of it."""
    exchange = places.addresses.exchange
    return [
        Suspect(party.maker, Read(exchange, USED_SO_FAR, (found,)), room(party))
        for party, found in _of_hash(reason, places)
    ]


def _cancelled(reason: Reason, places: Places) -> list[Suspect]:
    """Who cancelled his order."""
    return _used(reason, places, lambda _: lambda used: used[CANCELLED] != 0)


def _overfilled(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order has traded elsewhere; in this log it cannot trade too much."""

    def room(party: PartyBody) -> Callable[[Any], bool]:
        """See if less is left of its tokens than is to be traded."""
        most = int(party.taker_amount if party.side == BUY else party.maker_amount)
        left_most = most - int(places.fill.size)
        return lambda used: used[SIZE] > left_most

    return _used(reason, places, room)


def _overpaid(reason: Reason, places: Places) -> list[Suspect]:
    """The same, by what it has paid."""

    def room(party: PartyBody) -> Callable[[Any], bool]:
        """See if less is left of its collateral than is to be paid."""
        left_most = int(party.maker_amount) - pays(places.fill, party)
        return lambda used: used[DEBIT] > left_most

    return _used(reason, places, room)


def _not_payer(reason: Reason, places: Places) -> list[Suspect]:
    """Whose wallet does not pay for him."""
    wallet, maker = reason.values["wallet"], reason.values["maker"]
    return [
        Suspect(
            maker,
            Read(places.addresses.exchange, IS_PAYER, (wallet, maker)),
            not_,
        )
        for party in buyers(places.fill)
        if party.maker == maker
    ]


def _not_payee(reason: Reason, places: Places) -> list[Suspect]:
    """Who does not let his wallet be paid."""
    wallet, maker = reason.values["wallet"], reason.values["maker"]
    return [
        Suspect(
            maker,
            Read(places.addresses.exchange, IS_PAYEE, (maker, wallet)),
            not_,
        )
        for party in sellers(places.fill)
        if party.maker == maker
    ]


def _taker(reason: Reason, places: Places) -> list[Suspect]:
    """Whose order is for somebody else."""
    taker = reason.values["taker"]
    return [
        Suspect(
            party.maker,
            Read(places.addresses.exchange, OPERATOR, ()),
            partial(ne, taker),
        )
        for party in parties(places.fill)
        if party.taker == taker
    ]


_FINDERS: Final[dict[str, Callable[[Reason, Places], list[Suspect]]]] = {
    "ERC20InsufficientBalance": _poor,
    "ERC20InsufficientAllowance": _unapproved,
    "InsufficientTokens": _without_tokens,
    "TokensNotApproved": _tokens_unapproved,
    "NotGasless": _not_allowed,
    "NotDelegate": _not_allowed,
    "WrongSigner": _wrong_signer,
    "UnusableSignature": _unusable,
    "UnknownSignatureType": _unknown_type,
    "NonceTooLow": _nonce_too_low,
    "Cancelled": _cancelled,
    "Overfilled": _overfilled,
    "Overpaid": _overpaid,
    "NotPayer": _not_payer,
    "NotPayee": _not_payee,
    "TakerNotSupported": _taker,
}
