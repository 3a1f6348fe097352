"""The other signed structs of a maker: cancel, nonce, delegate."""

from typing import ClassVar, Final

from clob.book.validation import show
from clob.commands import Cancel, SetNonce
from clob.signing import fields
from clob.signing.errors import TimestampOutOfWindowError
from clob.signing.fields import at
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import Signed

WINDOW_MS: Final = 60_000
"""Maximum distance between the timestamp of a signed cancel and the current time."""

MAKER = Field("maker", "address", "maker", fields.address, Written.AS_IT_IS)

CANCEL: Final = Schema(
    "Cancel",
    (
        Field("orderId", "string", "order_id", fields.text, Written.AS_IT_IS),
        MAKER,
        Field("timestamp", "uint256", "timestamp_ms", written=Written.NUMBER),
    ),
)
"""A cancel (decision 26)."""

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
        if abs(now_ms - self.timestamp_ms) > window_ms:
            in_seconds = abs(now_ms - self.timestamp_ms * 1000) <= window_ms
            raise at("timestamp", TimestampOutOfWindowError(
                f"timestamp must be within {window_ms} ms of {now_ms}; "
                f"got {show(self.timestamp_ms)}{', which is in seconds' if in_seconds else ''}"
            ))  # fmt: skip
        return Cancel(market=market, order_id=self.order_id, maker=self.maker, now_ms=now_ms)


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
