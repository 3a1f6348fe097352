"""All errors of this package, each with a stable code.

The subclasses of :class:`RejectedError` are in order of precedence: a command that breaks several
rules is rejected with the class that comes first here, which is part of the contract. A rejection
changes nothing; its message names the subject, the value and the limit. Errors of calls, bytes and
of the package itself precede them.
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ClobError(Exception):
    """Base class of the errors of this package."""

    code: str = "CLOB_ERROR"
    """Stable name of the error, for programs."""


class BookBusyError(ClobError):
    """The book is executing another call, from another thread or further up the stack."""

    code = "BOOK_BUSY"

    def __init__(self) -> None:
        super().__init__("the book is executing another call; it accepts one call at a time")


class MatcherBusyError(ClobError):
    """The matcher is executing another call, or one was interrupted by an exception."""

    code = "MATCHER_BUSY"

    def __init__(self) -> None:
        super().__init__(
            "the matcher is busy with another call; one call at a time. If no call is running, an "
            "earlier one was interrupted by an exception: restore a snapshot"
        )


class InvalidArrayError(ClobError):
    """An array passed to ``run`` has the wrong type, dtype, layout or length."""

    code = "INVALID_ARRAY"


class InvalidBookError(ClobError):
    """The grid, lot or capacity of a new book is invalid."""

    code = "INVALID_BOOK"


class InvariantError(ClobError):
    """An internal check failed, which is a bug of this package."""

    code = "INVARIANT_BROKEN"


class InvalidBytesError(ClobError):
    """Bytes are not the canonical encoding of the expected type."""

    code = "INVALID_BYTES"

    def __init__(self, message: str, offset: int) -> None:
        """Keep the position of the error."""
        super().__init__(f"byte {offset}: {message}")
        self.reason: str = message
        """Description of the error."""
        self.offset: int = offset
        """Position of the error, from 0."""


class FrameError(ClobError):
    """A frame of a journal cannot be read; all frames before it are valid."""

    code = "FRAME_UNREADABLE"

    def __init__(self, message: str, frame: int, offset: int) -> None:
        """Keep number and position of the frame."""
        super().__init__(f"frame {frame} at byte {offset}: {message}")
        self.frame: int = frame
        """Number of the frame, from 1."""
        self.offset: int = offset
        """Position of its first byte, from 0."""


class FrameTruncatedError(FrameError):
    """The data ends inside a frame."""

    code = "FRAME_TRUNCATED"


class FrameMalformedError(FrameError):
    """The bytes are not a frame of a supported version, or its parts are inconsistent."""

    code = "FRAME_MALFORMED"


class FrameNewerError(FrameError):
    """The frame has a newer version than this package supports."""

    code = "FRAME_NEWER"


class ChainBrokenError(FrameError):
    """The frame is damaged, or does not follow the frame before it."""

    code = "CHAIN_BROKEN"


class ReplayDiffersError(ClobError):
    """Replaying the commands of a journal gave another result than the journal states."""

    code = "REPLAY_DIFFERS"

    def __init__(self, command_seq: int, what: str, expected: bytes, found: bytes) -> None:
        """Keep the command and both values."""
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


class PackageMissingError(ClobError):
    """An optional package is not installed; the message says how to install it."""

    code = "PACKAGE_MISSING"


class InvalidSnapshotError(ClobError):
    """Bytes are not a snapshot of this version, or are damaged."""

    code = "INVALID_SNAPSHOT"


class RunRejectedError(ClobError):
    """``run`` without a status array stopped at an event that a rule rejects."""

    code: str = "RUN_REFUSED"

    def __init__(self, index: int, code: str, fills: "npt.NDArray[np.void]") -> None:
        """Keep the index and code of the rejection, and the fills so far."""
        super().__init__(f"event {index} was rejected: {code}; the events before it were executed")
        self.index: int = index
        """Index of the rejected event in the array passed."""
        # Code of the rejection, UNKNOWN_ORDER for example.
        self.code = code
        self.fills: npt.NDArray[np.void] = fills
        """Fills of the events before it, an array of ``FILL``."""


class FillsFullError(ClobError):
    """``run`` stopped before an event whose fills do not fit into the buffer."""

    code = "FILLS_FULL"

    def __init__(self, index: int, fills: "npt.NDArray[np.void]") -> None:
        """Keep the index to continue at, and the fills so far."""
        super().__init__(
            f"the fills of event {index} do not fit after {len(fills)} others; "
            f"continue with run(events[{index}:])"
        )
        self.index: int = index
        """Index of the first event not executed."""
        self.fills: npt.NDArray[np.void] = fills
        """Fills of the events before it, an array of ``FILL``."""


__all__ = [
    "REJECTIONS",
    "AmountTooLargeError",
    "AmountTooSmallError",
    "BatchTooLargeError",
    "BookBusyError",
    "ChainBrokenError",
    "ClientIdConflictError",
    "ClobError",
    "ClockWentBackError",
    "DeadlinePassedError",
    "DuplicateOrderError",
    "FillsFullError",
    "FokNotFillableError",
    "FrameError",
    "FrameMalformedError",
    "FrameNewerError",
    "FrameTruncatedError",
    "InsufficientBalanceError",
    "InvalidAmountError",
    "InvalidArrayError",
    "InvalidBookError",
    "InvalidBytesError",
    "InvalidCommandError",
    "InvalidFeeRateError",
    "InvalidInstructionError",
    "InvalidKindError",
    "InvalidMarketError",
    "InvalidOrderIdError",
    "InvalidOwnerError",
    "InvalidSideError",
    "InvalidSnapshotError",
    "InvalidTimeError",
    "InvariantError",
    "MarketExistsError",
    "MarketNotOpenError",
    "MatcherBusyError",
    "NonceTooLowError",
    "NotTheMakerError",
    "OrderAlreadyUsedError",
    "OrderExpiredError",
    "OrderNotOpenError",
    "PackageMissingError",
    "PostOnlyWouldCrossError",
    "PriceOutOfRangeError",
    "RejectedError",
    "ReplayDiffersError",
    "RunRejectedError",
    "SeedWouldCrossError",
    "SizeNotReducedError",
    "TokenNotInMarketError",
    "TooManyOrdersError",
    "TooManyTradesError",
    "UnknownMarketError",
    "UnknownOrderError",
    "UnknownTradeError",
]


class RejectedError(ClobError):
    """A rule rejected the command; nothing changed, ``seq`` included."""

    code = "REJECTED"
    number: ClassVar[int] = 255
    """Stable number of the error, 1 to 255, as written to a status array by ``run``."""
    index: int | None = None
    """Index of the rejected command in an atomic batch, from 0; None otherwise."""
    path: str | None = None
    """Field of the input at fault, as JSON names it; None if no field was read."""


class InvalidTimeError(RejectedError):
    """The time of the command is not an integer from 0 to ``TIME_MAX``."""

    code = "INVALID_TIME"
    number = 1


class ClockWentBackError(RejectedError):
    """The time of the command is before that of the last applied command."""

    code = "CLOCK_WENT_BACK"
    number = 18


class DeadlinePassedError(RejectedError):
    """The command arrived after its deadline."""

    code = "DEADLINE_PASSED"
    number = 19


class InvalidCommandError(RejectedError):
    """The value is not a command, or a field has the wrong type or range."""

    code = "INVALID_COMMAND"
    number = 20


class BatchTooLargeError(RejectedError):
    """A batch is empty or has more commands than the limit allows."""

    code = "BATCH_TOO_LARGE"
    number = 21


class InvalidMarketError(RejectedError):
    """The terms of a market are invalid, or a fixed term would change."""

    code = "INVALID_MARKET"
    number = 22


class MarketExistsError(RejectedError):
    """A market with this id already exists."""

    code = "MARKET_EXISTS"
    number = 23


class UnknownMarketError(RejectedError):
    """No market has this id."""

    code = "UNKNOWN_MARKET"
    number = 24


class InvalidKindError(RejectedError):
    """The kind of an event is unknown, or not executed by this call."""

    code = "INVALID_KIND"
    number = 2


class InvalidInstructionError(RejectedError):
    """The instructions of an order are invalid or contradict each other."""

    code = "INVALID_INSTRUCTION"
    number = 3


class InvalidSideError(RejectedError):
    """The side is neither buy nor sell."""

    code = "INVALID_SIDE"
    number = 4


class InvalidOrderIdError(RejectedError):
    """The order id is neither a non-empty str nor an integer from 0 to 2**63 - 1."""

    code = "INVALID_ORDER_ID"
    number = 5


class InvalidOwnerError(RejectedError):
    """The maker is not a str, or the owner number is 2**31 or more."""

    code = "INVALID_OWNER"
    number = 6


class TokenNotInMarketError(RejectedError):
    """The order is for a token of another market or book."""

    code = "TOKEN_NOT_IN_MARKET"
    number = 7


class PriceOutOfRangeError(RejectedError):
    """The price is not an integer on the grid of the book."""

    code = "PRICE_OUT_OF_RANGE"
    number = 8


class InvalidAmountError(RejectedError):
    """The size is not a positive integer or not a multiple of the book's lot."""

    code = "INVALID_AMOUNT"
    number = 9


class AmountTooLargeError(RejectedError):
    """The size is larger than ``SIZE_MAX``."""

    code = "AMOUNT_TOO_LARGE"
    number = 10


class AmountTooSmallError(RejectedError):
    """The size is below the market's minimum."""

    code = "AMOUNT_TOO_SMALL"
    number = 25


class InvalidFeeRateError(RejectedError):
    """The fee rate is not an integer from 0 to ``FEE_RATE_MAX_BPS``."""

    code = "INVALID_FEE_RATE"
    number = 26


class OrderExpiredError(RejectedError):
    """The order's expiration is before the time of the command."""

    code = "ORDER_EXPIRED"
    number = 11


class OrderAlreadyUsedError(RejectedError):
    """This signed order was already accepted; it is executed at most once."""

    code = "ORDER_ALREADY_USED"
    number = 27

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep the id of the known order."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the accepted order; None if it was evicted from the finished orders."""


class ClientIdConflictError(RejectedError):
    """The client id already belongs to another order of the maker."""

    code = "CLIENT_ID_CONFLICT"
    number = 28

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep the id of the known order."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the order with this client id."""


class DuplicateOrderError(RejectedError):
    """An order with this id already exists: resting or, in a matcher, finished and not evicted."""

    code = "DUPLICATE_ORDER"
    number = 12


class UnknownOrderError(RejectedError):
    """No order has this id."""

    code = "UNKNOWN_ORDER"
    number = 13


class NotTheMakerError(RejectedError):
    """The order belongs to another maker."""

    code = "NOT_THE_MAKER"
    number = 29


class OrderNotOpenError(RejectedError):
    """The order is already filled or cancelled."""

    code = "ORDER_NOT_OPEN"
    number = 30

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep the id of the known order."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """Id of the order."""


class UnknownTradeError(RejectedError):
    """No trade with this ``seq`` waits for settlement."""

    code = "UNKNOWN_TRADE"
    number = 31


class MarketNotOpenError(RejectedError):
    """The mode of the market does not allow the command."""

    code = "MARKET_NOT_OPEN"
    number = 32


class NonceTooLowError(RejectedError):
    """The nonce of an order is below the maker's, or a new nonce is not above it."""

    code = "NONCE_TOO_LOW"
    number = 33


class SizeNotReducedError(RejectedError):
    """The size of a reduction is not below the order's remaining size."""

    code = "SIZE_NOT_REDUCED"
    number = 14


class TooManyOrdersError(RejectedError):
    """The maker has as many resting orders in the market as the limit allows."""

    code = "TOO_MANY_ORDERS"
    number = 34


class InsufficientBalanceError(RejectedError):
    """The available balance of the wallet does not cover the order."""

    code = "INSUFFICIENT_BALANCE"
    number = 35


class PostOnlyWouldCrossError(RejectedError):
    """A post-only order would trade immediately."""

    code = "POST_ONLY_WOULD_CROSS"
    number = 15


class SeedWouldCrossError(RejectedError):
    """An order that rests without matching would cross the book."""

    code = "SEED_WOULD_CROSS"
    number = 16


class FokNotFillableError(RejectedError):
    """A fill-or-kill order cannot be filled completely."""

    code = "FOK_NOT_FILLABLE"
    number = 17


class TooManyTradesError(RejectedError):
    """The order would make more trades than the limit allows."""

    code = "TOO_MANY_TRADES"
    number = 36


def _numbered() -> dict[int, type[RejectedError]]:
    """Return the rejections by number."""
    classes = (
        c for c in globals().values() if isinstance(c, type) and issubclass(c, RejectedError)
    )
    return {c.number: c for c in classes if c is not RejectedError}


REJECTIONS: dict[int, type[RejectedError]] = _numbered()
"""Each rejection by its number in a status array."""
