"""The other signed structs of a maker: cancels, reduce, nonce, delegate, permit, withdrawal."""

from typing import ClassVar, Final

from clob.book.validation import show
from clob.commands import Cancel, CancelSome, Reduce, SetNonce
from clob.order import Side
from clob.signing import fields
from clob.signing.errors import TimestampOutOfWindowError
from clob.signing.fields import at
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import Signed

WINDOW_MS: Final = 60_000
"""Maximum distance between the timestamp of a signed cancel and the current time."""

BOTH_SIDES: Final = 2
"""The side of a signed ``CancelAll`` for orders of both sides."""

MAKER = Field("maker", "address", "maker", fields.address, Written.AS_IT_IS)
ORDER_ID = Field("orderId", "string", "order_id", fields.text, Written.AS_IT_IS)
TIMESTAMP = Field("timestamp", "uint256", "timestamp_ms", written=Written.NUMBER)

CANCEL: Final = Schema(
    "Cancel",
    (ORDER_ID, MAKER, TIMESTAMP),
)
"""A cancel (decision 26)."""

CANCEL_ALL: Final = Schema(
    "CancelAll",
    (
        MAKER,
        Field("marketId", "string", "market_id", fields.text, Written.AS_IT_IS, required=False),
        Field("tokenId", "string", "token_id", fields.text, Written.AS_IT_IS, required=False),
        Field("side", "uint8", "side", fields.sides, Written.NUMBER, required=False),
        TIMESTAMP,
    ),
)
"""A cancel of all orders that pass its filters."""

REDUCE: Final = Schema(
    "Reduce",
    (ORDER_ID, MAKER, Field("remaining", "uint256", "remaining", fields.amount), TIMESTAMP),
)
"""A reduction of an order."""

SET_NONCE: Final = Schema("SetNonce", (MAKER, Field("nonce", "uint256", "nonce")))
"""A higher nonce (decision 18)."""

SET_DELEGATE: Final = Schema(
    "SetDelegate",
    (
        MAKER,
        Field("delegate", "address", "delegate", fields.address, Written.AS_IT_IS),
        Field("allowed", "bool", "allowed", fields.flag, Written.AS_IT_IS),
        Field("nonce", "uint256", "nonce"),
    ),
)
"""Allows or removes a delegate (decision 16)."""

PERMIT: Final = Schema(
    "Permit",
    (
        Field("owner", "address", "owner", fields.address, Written.AS_IT_IS),
        Field("spender", "address", "spender", fields.address, Written.AS_IT_IS),
        Field("value", "uint256", "value", fields.amount),
        Field("nonce", "uint256", "nonce"),
        Field("deadline", "uint256", "deadline"),
    ),
    owner="owner",
)
"""An approval of a token by signature (EIP-2612)."""


WITHDRAWAL: Final = Schema(
    "Withdrawal",
    (
        Field("wallet", "address", "wallet", fields.address, Written.AS_IT_IS),
        Field("asset", "uint256", "asset"),
        Field("amount", "uint256", "amount", fields.amount),
        Field("nonce", "uint256", "nonce"),
        Field("deadline", "uint256", "deadline"),
    ),
    owner="wallet",
)
"""A request to withdraw from escrow, by signature."""


class SignedCancel(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's signed request to cancel an order."""

    SCHEMA: ClassVar[Schema] = CANCEL

    order_id: str
    """Id of the order."""
    maker: str
    """The maker of the order, who signs."""
    timestamp_ms: int
    """Time of signing, Unix milliseconds; it prevents later reuse."""

    def to_command(self, now_ms: int, *, market: str = "", window_ms: int = WINDOW_MS) -> Cancel:
        """Return the command. Does not verify the signature; see ``verify``.

        Args:
            now_ms: time of the command.
            market: market of the order; empty is any.
            window_ms: maximum distance of ``timestamp_ms`` from ``now_ms``.

        Raises:
            TimestampOutOfWindowError: the timestamp is outside the window.
        """
        _check_window(self.timestamp_ms, now_ms, window_ms)
        return Cancel(market=market, order_id=self.order_id, maker=self.maker, now_ms=now_ms)


class SignedCancelAll(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's signed request to cancel all orders that it placed until a time.

    Orders accepted after ``timestamp_ms`` are not cancelled, so that a copy of the request that is
    delivered again does no harm.
    """

    SCHEMA: ClassVar[Schema] = CANCEL_ALL

    maker: str
    """The maker of the orders, who signs."""
    market_id: str = ""
    """Id of the market; empty is any."""
    token_id: str = ""
    """Token of the orders; empty is any."""
    side: int = BOTH_SIDES
    """0 for buy orders, 1 for sell orders, 2 for both."""
    timestamp_ms: int
    """Time of signing, Unix milliseconds: the last time of acceptance."""

    def to_command(self, now_ms: int, *, window_ms: int = WINDOW_MS) -> CancelSome:
        """Return the command. Does not verify the signature; see ``verify``.

        Args:
            now_ms: time of the command.
            window_ms: maximum age of ``timestamp_ms``.

        Raises:
            TimestampOutOfWindowError: the timestamp is too old, or not before ``now_ms``. In the
                latter case a second delivery could reach orders accepted in the meantime.
            InvalidFieldError: the side is not 0, 1 or 2.
        """
        _check_window(self.timestamp_ms, now_ms, window_ms)
        if self.timestamp_ms >= now_ms:
            raise at("timestamp", TimestampOutOfWindowError(
                f"timestamp must be before {now_ms}, the time of the command; "
                f"got {show(self.timestamp_ms)}"
            ))  # fmt: skip
        side = fields.sides("side", self.side)
        return CancelSome(
            maker=self.maker,
            market=self.market_id or None,
            token=self.token_id or None,
            side=None if side == BOTH_SIDES else Side(side),
            accepted_until_ms=self.timestamp_ms,
            now_ms=now_ms,
        )


class SignedReduce(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's signed request to reduce an order, which keeps its place in the queue."""

    SCHEMA: ClassVar[Schema] = REDUCE

    order_id: str
    """Id of the order."""
    maker: str
    """The maker of the order, who signs."""
    remaining: int
    """New remaining size, in wei. It only falls, so a second delivery changes nothing."""
    timestamp_ms: int
    """Time of signing, Unix milliseconds."""

    def to_command(self, now_ms: int, *, market: str = "", window_ms: int = WINDOW_MS) -> Reduce:
        """Return the command. Does not verify the signature; see ``verify``.

        Args:
            now_ms: time of the command.
            market: market of the order; empty is any.
            window_ms: maximum distance of ``timestamp_ms`` from ``now_ms``.

        Raises:
            TimestampOutOfWindowError: the timestamp is outside the window.
        """
        _check_window(self.timestamp_ms, now_ms, window_ms)
        return Reduce(
            market=market,
            order_id=self.order_id,
            size=self.remaining,
            maker=self.maker,
            now_ms=now_ms,
        )


class SignedSetNonce(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's signed request to cancel all orders with a lower nonce."""

    SCHEMA: ClassVar[Schema] = SET_NONCE

    maker: str
    """The maker, who signs."""
    nonce: int
    """The new nonce. It only rises, so that orders with an old one stay invalid."""

    def to_command(self, now_ms: int) -> SetNonce:
        """Return the command. Does not verify the signature; see ``verify``."""
        return SetNonce(maker=self.maker, nonce=self.nonce, now_ms=now_ms)


class SignedSetDelegate(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's signed request to allow or remove a delegate."""

    SCHEMA: ClassVar[Schema] = SET_DELEGATE

    maker: str
    """The maker, who signs."""
    delegate: str
    """The wallet that may sign for the maker."""
    allowed: bool
    """Whether the delegate is allowed."""
    nonce: int
    """Rises with each request of the maker, so that older ones are rejected."""


class SignedPermit(Signed, frozen=True, kw_only=True, gc=False):
    """An approval of collateral by signature (EIP-2612), in the domain of the collateral."""

    SCHEMA: ClassVar[Schema] = PERMIT

    owner: str
    """The wallet that pays, and signs."""
    spender: str
    """The wallet that may take the collateral."""
    value: int
    """Amount, in wei."""
    nonce: int
    """Number of earlier permits of the owner, by the contract of the collateral."""
    deadline: int
    """Last valid Unix second."""


class SignedWithdrawal(Signed, frozen=True, kw_only=True, gc=False):
    """A request to withdraw from escrow by signature, in the domain of orders."""

    SCHEMA: ClassVar[Schema] = WITHDRAWAL

    wallet: str
    """The wallet whose escrow it is, and who signs."""
    asset: int
    """0 for collateral, or an outcome token."""
    amount: int
    """Amount, in wei, which replaces that of an earlier request; 0 ends the request."""
    nonce: int
    """A number that the wallet uses once."""
    deadline: int
    """Last valid Unix second."""


def _check_window(timestamp_ms: int, now_ms: int, window_ms: int) -> None:
    """Raise ``TimestampOutOfWindowError`` for a timestamp too far from the current time."""
    if abs(now_ms - timestamp_ms) > window_ms:
        in_seconds = abs(now_ms - timestamp_ms * 1000) <= window_ms
        raise at("timestamp", TimestampOutOfWindowError(
            f"timestamp must be within {window_ms} ms of {now_ms}; "
            f"got {show(timestamp_ms)}{', which is in seconds' if in_seconds else ''}"
        ))  # fmt: skip
