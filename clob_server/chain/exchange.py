"""How the exchange contract is spoken to: fills to its calldata, and its events."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clob.signing import ZERO_ADDRESS, SignedOrder, salt_number
from clob_server.chain.abi import Event, Function

FILLS_MAX: Final = 25
"""How many fills a call may have."""
DELAY_S: Final = 300
"""After how many seconds it counts on chain that a maker took something back."""

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


class Fill(msgspec.Struct, frozen=True, kw_only=True):
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


def settle(fills: Sequence[Fill]) -> bytes:
    """Write the call that settles fills, at most :data:`FILLS_MAX`.

    Args:
        fills: in the order in which they traded.

    Raises:
        AbiError: a value does not fit its type.
    """
    return SETTLE.encode([_fill(fill) for fill in fills])


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
    signature = bytes.fromhex(order.signature[2:])
    return signature if any(signature) else b""


def _fill(fill: Fill) -> tuple[Any, ...]:
    """Give a fill as the contract takes it."""
    parties = _party(fill.resting), _party(fill.incoming)
    return (fill.trade_id, fill.price, fill.size, *parties)


def _party(party: Party) -> tuple[Any, ...]:
    """Give an order in a fill as the contract takes it."""
    values, signature = order_values(party.order), signature_bytes(party.order)
    return (values, signature, party.wallet, party.fee_rate_bps)
