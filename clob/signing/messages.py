"""The other things that a maker signs: a cancel, a higher nonce, a delegate."""

from typing import ClassVar, Final

from clob.book.validation import show
from clob.commands import Cancel, SetNonce
from clob.signing import fields
from clob.signing.errors import TimestampOutOfWindowError
from clob.signing.fields import at
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import Signed

WINDOW_MS: Final = 60_000
"""How far the time of a signed cancel may be from the clock, either way."""

MAKER = Field("maker", "address", "maker", fields.address, Written.AS_IT_IS)

CANCEL: Final = Schema(
    "Cancel",
    (
        Field("orderId", "string", "order_id", fields.text, Written.AS_IT_IS),
        MAKER,
        Field("timestamp", "uint256", "timestamp_ms", written=Written.NUMBER),
    ),
)
"""A cancel, as decision 26 has it."""

SET_NONCE: Final = Schema("SetNonce", (MAKER, Field("nonce", "uint256", "nonce")))
"""A higher nonce, as decision 18 has it."""

SET_DELEGATE: Final = Schema(
    "SetDelegate",
    (
        MAKER,
        Field("delegate", "address", "delegate", fields.address, Written.AS_IT_IS),
        Field("allowed", "bool", "allowed", fields.flag, Written.AS_IT_IS),
        Field("nonce", "uint256", "nonce"),
    ),
)
"""A delegate allowed or dismissed, as decision 16 has it."""


class SignedCancel(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's word that an order is to be cancelled."""

    SCHEMA: ClassVar[Schema] = CANCEL

    order_id: str
    """The order."""
    maker: str
    """Whose order it is, and who signs."""
    timestamp_ms: int
    """When it was signed, Unix milliseconds; an old one cannot be used again."""

    def to_command(self, now_ms: int, *, market: str = "", window_ms: int = WINDOW_MS) -> Cancel:
        """Make it the command that does it. Whether it is signed is for ``verify``.

        Args:
            now_ms: the time of the command.
            market: the market the order rests in; empty is wherever it rests.
            window_ms: how far the time in it may be from ``now_ms``, either way.

        Raises:
            TimestampOutOfWindowError: it is further away.
        """
        if abs(now_ms - self.timestamp_ms) > window_ms:
            raise at("timestamp", TimestampOutOfWindowError(
                f"timestamp must be within {window_ms} ms of {now_ms}, "
                f"not {show(self.timestamp_ms)}"
            ))  # fmt: skip
        return Cancel(market=market, order_id=self.order_id, maker=self.maker, now_ms=now_ms)


class SignedSetNonce(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's word that every order of a lower nonce is to be cancelled."""

    SCHEMA: ClassVar[Schema] = SET_NONCE

    maker: str
    """Whose nonce, and who signs."""
    nonce: int
    """The new one. It rises, so that nothing signed for an old one can be used again."""

    def to_command(self, now_ms: int) -> SetNonce:
        """Make it the command that does it. Whether it is signed is for ``verify``."""
        return SetNonce(maker=self.maker, nonce=self.nonce, now_ms=now_ms)


class SignedSetDelegate(Signed, frozen=True, kw_only=True, gc=False):
    """A maker's word that somebody may sign for him, or may no longer."""

    SCHEMA: ClassVar[Schema] = SET_DELEGATE

    maker: str
    """Who allows it, and who signs."""
    delegate: str
    """Who may sign for him, or may no longer."""
    allowed: bool
    """If he may."""
    nonce: int
    """A number that rises with each of the maker's, for whoever keeps the list to compare."""
