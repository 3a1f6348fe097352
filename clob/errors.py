"""All errors of this package, each with a stable code.

The subclasses of :class:`RejectedError` are in order of precedence: a command that breaks several
rules is rejected with the class that comes first here, which is part of the contract. A rejection
changes nothing; its message names the subject, the value and the limit. Errors of calls, bytes and
of the package itself precede them.
"""

import copyreg
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ClobError(Exception):
    """Base class of the errors of this package."""

    code: str = "CLOB_ERROR"
    """Stable name of the error, for programs."""

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return text and attributes, for copies and other processes.

        By default an exception is rebuilt from its text, which is not what the classes take.
        """
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class BookBusyError(ClobError, code="BOOK_BUSY"):
    """The book is executing another call, from another thread or further up the stack."""

    def __init__(self) -> None:
        super().__init__("the book is executing another call; it accepts one call at a time")


class MatcherBusyError(ClobError, code="MATCHER_BUSY"):
    """The matcher is executing another call, or one was interrupted by an exception."""

    def __init__(self) -> None:
        super().__init__(
            "the matcher is busy with another call; one call at a time. If no call is running, an "
            "earlier one was interrupted by an exception: restore a snapshot"
        )


class InvalidArrayError(ClobError, code="INVALID_ARRAY"):
    """An array passed to ``run`` has the wrong type, dtype, layout or length."""


class InvalidBookError(ClobError, code="INVALID_BOOK"):
    """The grid, lot or capacity of a new book is invalid."""


class InvariantError(ClobError, code="INVARIANT_BROKEN"):
    """An internal check failed, which is a bug of this package."""


class InvalidBytesError(ClobError, code="INVALID_BYTES"):
    """Bytes are not the canonical encoding of the expected type."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"byte {offset}: {message}")
        self.reason: str = message
        """Description of the error."""
        self.offset: int = offset
        """Position of the error, from 0."""


class FrameError(ClobError, code="FRAME_UNREADABLE"):
    """A frame of a journal cannot be read; all frames before it are valid."""

    def __init__(self, message: str, frame: int, offset: int) -> None:
        super().__init__(f"frame {frame} at byte {offset}: {message}")
        self.frame: int = frame
        """Number of the frame, from 1."""
        self.offset: int = offset
        """Position of its first byte, from 0."""


class FrameTruncatedError(FrameError, code="FRAME_TRUNCATED"):
    """The data ends inside a frame."""


class FrameMalformedError(FrameError, code="FRAME_MALFORMED"):
    """The bytes are not a frame of a supported version, or its parts are inconsistent."""


class FrameNewerError(FrameError, code="FRAME_NEWER"):
    """The frame has a newer version than this package supports."""


class ChainBrokenError(FrameError, code="CHAIN_BROKEN"):
    """The frame is damaged, or does not follow the frame before it."""


class ReplayDiffersError(ClobError, code="REPLAY_DIFFERS"):
    """Replaying the commands of a journal gave another result than the journal states."""

    def __init__(self, command_seq: int, what: str, expected: bytes, found: bytes) -> None:
        super().__init__(
            f"{what} of command {command_seq} differs: journal {expected.hex()}, "
            f"replay {found.hex()}"
        )
        self.command_seq: int = command_seq
        """Number of the command after (outcome) or before (hashes) which the values differ."""
        self.what: str = what
        """``outcome``, ``event hash`` or ``state hash``."""
        self.expected: bytes = expected
        """Value in the journal."""
        self.found: bytes = found
        """Value of the replay."""


class PackageMissingError(ClobError, ImportError, code="PACKAGE_MISSING"):
    """An optional package is not installed; the message says how to install it."""


def check_installed(importer: str, extras: str, *packages: str) -> None:
    """Check that the packages of a part of this package are installed, before it imports them.

    Args:
        importer: the module that needs them.
        extras: the extras that install them.
        packages: their import names.

    Raises:
        PackageMissingError: one is not installed.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - not needed by import clob

    for package in packages:
        if find_spec(package) is None:
            raise PackageMissingError(
                f'{importer} needs {package}, which is not installed: pip install "clob[{extras}]"'
            )


class InvalidSnapshotError(ClobError, code="INVALID_SNAPSHOT"):
    """Bytes are not a snapshot of this version, or are damaged."""


class RunRejectedError(ClobError, code="RUN_REFUSED"):
    """``run`` without a status array stopped at an event that a rule rejects."""

    def __init__(self, index: int, code: str, fills: "npt.NDArray[np.void]") -> None:
        super().__init__(f"event {index} was rejected: {code}; the events before it were executed")
        self.index: int = index
        """Index of the rejected event in the array passed."""
        # Code of the rejection, UNKNOWN_ORDER for example.
        self.code = code
        self.fills: npt.NDArray[np.void] = fills
        """Fills of the events before it, an array of ``FILL``."""


class FillsFullError(ClobError, code="FILLS_FULL"):
    """``run`` stopped before an event whose fills do not fit into the buffer."""

    def __init__(self, index: int, fills: "npt.NDArray[np.void]") -> None:
        super().__init__(
            f"the fills of event {index} do not fit after {len(fills)} others; "
            f"continue with run(events[{index}:])"
        )
        self.index: int = index
        """Index of the first event not executed."""
        self.fills: npt.NDArray[np.void] = fills
        """Fills of the events before it, an array of ``FILL``."""


class RejectedError(ClobError, code="REJECTED"):
    """A rule rejected the command; nothing changed, ``seq`` included."""

    number: ClassVar[int] = 255
    """Stable number of the error, 1 to 255, as written to a status array by ``run``."""
    index: int | None = None
    """Index of the rejected command in an atomic batch, from 0; None otherwise."""
    path: str | None = None
    """Field of the input at fault, as JSON names it; None if no field was read."""

    def __init_subclass__(cls, *, code: str | None = None, number: int | None = None) -> None:
        super().__init_subclass__(code=code)
        if number is not None:
            cls.number = number


class InvalidTimeError(RejectedError, code="INVALID_TIME", number=1):
    """The time of the command is not an integer from 0 to ``TIME_MAX``."""


class ClockWentBackError(RejectedError, code="CLOCK_WENT_BACK", number=18):
    """The time of the command is before that of the last applied command."""


class DeadlinePassedError(RejectedError, code="DEADLINE_PASSED", number=19):
    """The command arrived after its deadline."""


class InvalidCommandError(RejectedError, code="INVALID_COMMAND", number=20):
    """The value is not a command, or a field has the wrong type or range."""


class BatchTooLargeError(RejectedError, code="BATCH_TOO_LARGE", number=21):
    """A batch is empty or has more commands than the limit allows."""


class InvalidMarketError(RejectedError, code="INVALID_MARKET", number=22):
    """The terms of a market are invalid, or a fixed term would change."""


class MarketExistsError(RejectedError, code="MARKET_EXISTS", number=23):
    """A market with this id already exists."""


class UnknownMarketError(RejectedError, code="UNKNOWN_MARKET", number=24):
    """No market has this id."""


class InvalidKindError(RejectedError, code="INVALID_KIND", number=2):
    """The kind of an event is unknown, or not executed by this call."""


class InvalidInstructionError(RejectedError, code="INVALID_INSTRUCTION", number=3):
    """The instructions of an order are invalid or contradict each other."""


class InvalidSideError(RejectedError, code="INVALID_SIDE", number=4):
    """The side is neither buy nor sell."""


class InvalidOrderIdError(RejectedError, code="INVALID_ORDER_ID", number=5):
    """The order id is neither a non-empty str nor an integer from 0 to 2**63 - 1."""


class InvalidOwnerError(RejectedError, code="INVALID_OWNER", number=6):
    """The maker is not a str, or the owner number is 2**31 or more."""


class TokenNotInMarketError(RejectedError, code="TOKEN_NOT_IN_MARKET", number=7):
    """The order is for a token of another market or book."""


class PriceOutOfRangeError(RejectedError, code="PRICE_OUT_OF_RANGE", number=8):
    """The price is not an integer on the grid of the book."""


class InvalidAmountError(RejectedError, code="INVALID_AMOUNT", number=9):
    """The size is not a positive integer or not a multiple of the book's lot."""


class AmountTooLargeError(RejectedError, code="AMOUNT_TOO_LARGE", number=10):
    """The size is larger than ``SIZE_MAX``."""


class AmountTooSmallError(RejectedError, code="AMOUNT_TOO_SMALL", number=25):
    """The size is below the market's minimum."""


class InvalidFeeRateError(RejectedError, code="INVALID_FEE_RATE", number=26):
    """The fee rate is not an integer from 0 to ``FEE_RATE_MAX_BPS``."""


class OrderExpiredError(RejectedError, code="ORDER_EXPIRED", number=11):
    """The order's expiration is before the time of the command."""


class OrderAlreadyUsedError(RejectedError, code="ORDER_ALREADY_USED", number=27):
    """This signed order was already accepted; it is executed at most once."""

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the accepted order; None if it was evicted from the finished orders."""


class ClientIdConflictError(RejectedError, code="CLIENT_ID_CONFLICT", number=28):
    """The client id already belongs to another order of the maker."""

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the order with this client id."""


class DuplicateOrderError(RejectedError, code="DUPLICATE_ORDER", number=12):
    """An order with this id already exists: resting or, in a matcher, finished and not evicted."""


class UnknownOrderError(RejectedError, code="UNKNOWN_ORDER", number=13):
    """No order has this id."""


class NotTheMakerError(RejectedError, code="NOT_THE_MAKER", number=29):
    """The order belongs to another maker."""


class OrderNotOpenError(RejectedError, code="ORDER_NOT_OPEN", number=30):
    """The order is already filled or cancelled."""

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the order."""


class UnknownTradeError(RejectedError, code="UNKNOWN_TRADE", number=31):
    """No trade with this ``seq`` waits for settlement."""


class MarketNotOpenError(RejectedError, code="MARKET_NOT_OPEN", number=32):
    """The mode of the market does not allow the command."""


class NonceTooLowError(RejectedError, code="NONCE_TOO_LOW", number=33):
    """The nonce of an order is below the maker's, or a new nonce is not above it."""


class SizeNotReducedError(RejectedError, code="SIZE_NOT_REDUCED", number=14):
    """The size of a reduction is not below the order's remaining size."""


class TooManyOrdersError(RejectedError, code="TOO_MANY_ORDERS", number=34):
    """The maker has as many resting orders in the market as the limit allows."""


class InsufficientBalanceError(RejectedError, code="INSUFFICIENT_BALANCE", number=35):
    """The available balance of the wallet does not cover the order."""


class PostOnlyWouldCrossError(RejectedError, code="POST_ONLY_WOULD_CROSS", number=15):
    """A post-only order would trade immediately."""


class SeedWouldCrossError(RejectedError, code="SEED_WOULD_CROSS", number=16):
    """An order that rests without matching would cross the book."""


class FokNotFillableError(RejectedError, code="FOK_NOT_FILLABLE", number=17):
    """A fill-or-kill order cannot be filled completely."""


class TooManyTradesError(RejectedError, code="TOO_MANY_TRADES", number=36):
    """The order would make more trades than the limit allows."""


REJECTIONS: dict[int, type[RejectedError]] = {c.number: c for c in RejectedError.__subclasses__()}
"""Each rejection by its number in a status array."""
