"""How the exchange contract is spoken to: fills to its calldata and back, and its events."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from clob.signing import ZERO_ADDRESS, SignedOrder, salt_number
from clob_server.chain.eth.abi import AbiError, Event, Function
from clob_server.chain.operation_bodies import FillBody, PartyBody

FILLS_MAX: Final = 25
"""How many fills a call may have."""
FILL_GAS: Final = 600_000
"""How much gas a fill may take."""
DELAY_S: Final = 300
"""After how many seconds it counts on chain that a maker took something back."""

WORD: Final = 32
"""How many bytes a number takes in a call."""
ADDRESS_BYTES: Final = 20
"""How many bytes an address has."""
FILL_WORDS: Final = 5
"""How many words of a fill come before its orders."""
PARTY_WORDS: Final = 15
"""How many words of an order in a fill come before its signature."""

ORDER: Final = (
    "(uint256,address,address,address,uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8)"
)
"""The type of an order, its twelve fields in the sequence in which they are signed."""
PARTY: Final = f"({ORDER},bytes,address,uint256)"
"""The type of an order in a fill."""
FILL: Final = f"(uint256,uint256,uint256,{PARTY},{PARTY})"
"""The type of a fill."""

SETTLE: Final = Function(f"settle({FILL}[])")
AUTHORISED: Final = Function(f"authorised({ORDER},bytes)", returns="bytes32")
HASH_ORDER: Final = Function(f"hashOrder({ORDER})", returns="bytes32")
CANCEL: Final = Function(f"cancel({ORDER})")
USED: Final = Function("used(bytes32)", returns="uint112,uint112,uint32")
IS_SETTLED: Final = Function("settled(uint256)", returns="bool")
NONCE_OF: Final = Function("nonceOf(address)", returns="uint256")
REGISTER: Final = Function("registerCondition(bytes32)")
IS_PAUSED: Final = Function("paused()", returns="bool")
OPERATOR: Final = Function("operator()", returns="address")
IS_DELEGATE: Final = Function("isDelegate(address,address)", returns="bool")
IS_GASLESS: Final = Function("isGasless(address)", returns="bool")
IS_PAYER: Final = Function("isPayer(address,address)", returns="bool")
IS_PAYEE: Final = Function("isPayee(address,address)", returns="bool")

SETTLED: Final = Event(
    "Settled(uint256 indexed tradeId, bytes32 restingHash, bytes32 incomingHash, "
    "uint256 price, uint256 size)"
)
FAILED: Final = Event("SettleFailed(uint256 indexed tradeId, bytes reason)")
SETTLED_BEFORE: Final = Event("SettledBefore(uint256 indexed tradeId)")


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """An order in a fill."""

    order: SignedOrder
    """The order, with its signature; without one, its maker is gasless."""
    wallet: str = ZERO_ADDRESS
    """Who pays the collateral of a buy and gets that of a sale; the zero address is the maker."""
    fee_rate_bps: int = 0
    """What is charged, in basis points."""


class SettlementFill(msgspec.Struct, frozen=True, kw_only=True):
    """A trade that is to be settled, or the two trades of complementary tokens."""

    trade_id: int
    """Its number, of 256 bits: under one number, something settles once. Those that follow one
    another share a word of storage, and cost less."""
    price: int
    """Cents, for the token of the resting order."""
    size: int
    """Wei of tokens."""
    resting: Party
    """The order that rested."""
    incoming: Party
    """The order that came in."""


def settle(fills: Sequence[SettlementFill]) -> bytes:
    """Write the call that settles fills, at most :data:`FILLS_MAX`.

    Args:
        fills: in the order in which they traded.

    Raises:
        AbiError: a value does not fit its type.
    """
    return SETTLE.encode([_fill(fill) for fill in fills])


def settle_bodies(fills: Sequence[FillBody]) -> bytes:
    """Write the same call for fills as the server names them.

    A library that knows all types takes ten times as long as this, which knows one.

    Args:
        fills: in the order in which they traded.

    Raises:
        ValueError: a number is none, or a value does not fit its type.
    """
    written = [_fill_of(fill) for fill in fills]
    lengths = [WORD * len(written), *map(len, written[:-1])][: len(written)]
    places = accumulate(lengths)
    return b"".join(
        (SETTLE.selector, _word(WORD), _word(len(written)), *map(_word, places), *written)
    )


def read_bodies(calldata: bytes) -> list[FillBody]:
    """Read the fills back from the call that settles them.

    Args:
        calldata: with the selector.

    Raises:
        AbiError: it is another call.
    """
    (fills,) = SETTLE.arguments(calldata)
    return [
        FillBody(
            trade_id=str(trade_id),
            price=price,
            size=str(size),
            resting=_read_party(resting),
            incoming=_read_party(incoming),
        )
        for trade_id, price, size, resting, incoming in fills
    ]


def body_values(party: PartyBody) -> tuple[Any, ...]:
    """Give the twelve fields of an order as the contract takes them.

    Args:
        party: the order, as the server names it.

    Raises:
        ValueError: a number is none.
    """
    return (
        salt_number(party.salt),
        party.maker,
        party.signer,
        party.taker,
        int(party.token_id),
        int(party.maker_amount),
        int(party.taker_amount),
        int(party.expiration),
        int(party.nonce),
        int(party.fee_rate_bps),
        party.side,
        party.signature_type,
    )


def body_signature(party: PartyBody) -> bytes:
    """Give the bytes of an order's signature; none where nobody signed.

    Args:
        party: the order, as the server names it.

    Raises:
        ValueError: the signature is no 0x and hexadecimal digits.
    """
    return _signature(party.signature)


def order_values(order: SignedOrder) -> tuple[Any, ...]:
    """Give the twelve fields of an order as the contract takes them.

    Args:
        order: the order.
    """
    return (
        salt_number(order.salt),
        order.maker,
        order.signer,
        order.taker,
        order.token_id,
        order.maker_amount,
        order.taker_amount,
        order.expiration_s,
        order.nonce,
        order.fee_rate_bps,
        order.side,
        order.signature_type,
    )


def signature_bytes(order: SignedOrder) -> bytes:
    """Give the bytes of an order's signature; none where nobody signed, which is written as zeros.

    Args:
        order: the order.

    Raises:
        ValueError: the signature is no 0x and hexadecimal digits.
    """
    return _signature(order.signature)


def _fill(fill: SettlementFill) -> tuple[Any, ...]:
    """Give a fill as the contract takes it."""
    parties = _party(fill.resting), _party(fill.incoming)
    return (fill.trade_id, fill.price, fill.size, *parties)


def _party(party: Party) -> tuple[Any, ...]:
    """Give an order in a fill as the contract takes it."""
    values, signature = order_values(party.order), signature_bytes(party.order)
    return (values, signature, party.wallet, party.fee_rate_bps)


def _fill_of(fill: FillBody) -> bytes:
    """Write a fill: numbers, where its two orders are, and these."""
    resting, incoming = _party_of(fill.resting), _party_of(fill.incoming)
    numbers = int(fill.trade_id), fill.price, int(fill.size)
    places = FILL_WORDS * WORD, FILL_WORDS * WORD + len(resting)
    return b"".join((*map(_word, (*numbers, *places)), resting, incoming))


def _party_of(party: PartyBody) -> bytes:
    """Write an order in a fill: its fields, where its signature is, and that."""
    signature = body_signature(party)
    *fields, side, signature_type = body_values(party)
    values = (
        *(_address(value) if isinstance(value, str) else _word(value) for value in fields),
        _word(side, 1),
        _word(signature_type, 1),
        _word(PARTY_WORDS * WORD),
        _address(party.wallet),
        _word(party.charged_bps),
        _word(len(signature)),
        signature.ljust(-(-len(signature) // WORD) * WORD, b"\0"),
    )
    return b"".join(values)


def _word(value: int, length: int = WORD) -> bytes:
    """Write a number that has so many bytes at most.

    Raises:
        AbiError: it has more.
    """
    try:
        return value.to_bytes(length).rjust(WORD, b"\0")
    except OverflowError as error:
        raise AbiError(f"{value} is no number of {8 * length} bits") from error


def _address(text: str) -> bytes:
    """Write an address.

    Raises:
        ValueError: it is none.
    """
    raw = bytes.fromhex(text[2:])
    if len(raw) != ADDRESS_BYTES:
        raise AbiError(f"{text} is no address")
    return raw.rjust(WORD, b"\0")


def _signature(text: str) -> bytes:
    """Give the bytes of a signature; none where nobody signed."""
    signature = bytes.fromhex(text[2:])
    return signature if any(signature) else b""


def _read_party(values: tuple[Any, ...]) -> PartyBody:
    """Read an order in a fill."""
    order, signature, wallet, charged = values
    salt, maker, signer, taker, *numbers, side, signature_type = order
    token_id, maker_amount, taker_amount, expiration, nonce, rate = map(str, numbers)
    return PartyBody(
        salt=str(salt),
        maker=maker,
        signer=signer,
        taker=taker,
        token_id=token_id,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        expiration=expiration,
        nonce=nonce,
        fee_rate_bps=rate,
        side=side,
        signature_type=signature_type,
        signature=f"0x{signature.hex()}",
        wallet=wallet,
        charged_bps=charged,
    )
