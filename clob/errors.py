"""Every error this package raises on purpose, each with its stable code.

The refusals stand here in order of precedence: a command that several rules refuse is refused by
the class that stands first below. Which error one gets is part of the contract. A refusal changes
nothing, and its message says which rule, the value and the limit. The other errors are those of
``clob.errors``.
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ClobError(Exception):
    """What every error of this package derives from."""

    code: str = "CLOB_ERROR"
    """The stable name of the error, for programs."""


class BookBusyError(ClobError):
    """The book is in the middle of another call, from another thread or further up the stack."""

    code = "BOOK_BUSY"

    def __init__(self) -> None:
        """State the rule; there is no value to name."""
        super().__init__("the book is busy with another call; one call at a time")


class MatcherBusyError(ClobError):
    """The matcher is in the middle of another call, or was left there by an error."""

    code = "MATCHER_BUSY"

    def __init__(self) -> None:
        """State the rule; there is no value to name."""
        super().__init__(
            "the matcher is busy with another call; one call at a time. If no call is under way, "
            "one was broken off by an error that is no refusal: restore from a snapshot"
        )


class InvalidArrayError(ClobError):
    """An array handed to the batch door has the wrong type, dtype, layout or length."""

    code = "INVALID_ARRAY"


class InvalidBookError(ClobError):
    """A book cannot be made as asked, by its grid, lot or capacity."""

    code = "INVALID_BOOK"


class InvariantError(ClobError):
    """A book found itself inconsistent in ``check()``; it is a bug of this package."""

    code = "INVARIANT_BROKEN"


class InvalidBytesError(ClobError):
    """Bytes are not the canonical bytes of what they should be."""

    code = "INVALID_BYTES"

    def __init__(self, message: str, offset: int) -> None:
        """Keep where the bytes went wrong."""
        super().__init__(f"byte {offset}: {message}")
        self.reason: str = message
        """What was wrong with them."""
        self.offset: int = offset
        """Where, counted from 0."""


class FrameError(ClobError):
    """A journal cannot be read from some frame on; what stands before it is good."""

    code = "FRAME_UNREADABLE"

    def __init__(self, message: str, frame: int, offset: int) -> None:
        """Keep which frame it is and where it begins."""
        super().__init__(f"frame {frame} at byte {offset}: {message}")
        self.frame: int = frame
        """Which frame, counted from 1."""
        self.offset: int = offset
        """Where it begins, counted from 0."""


class FrameTruncatedError(FrameError):
    """The bytes end inside a frame."""

    code = "FRAME_TRUNCATED"


class FrameMalformedError(FrameError):
    """The bytes are no frame, or one whose parts contradict each other."""

    code = "FRAME_MALFORMED"


class FrameNewerError(FrameError):
    """The frame is of a version that this package does not know yet."""

    code = "FRAME_NEWER"


class ChainBrokenError(FrameError):
    """The frame was damaged, or is not the one that follows the frame before it."""

    code = "CHAIN_BROKEN"


class ReplayDiffersError(ClobError):
    """Running the commands of a journal again led elsewhere than the journal states."""

    code = "REPLAY_DIFFERS"

    def __init__(self, command_seq: int, what: str, expected: bytes, found: bytes) -> None:
        """Keep where it was, and both values."""
        super().__init__(
            f"{what} of command {command_seq}: the journal states {expected.hex()}, "
            f"the replay gives {found.hex()}"
        )
        self.command_seq: int = command_seq
        """The command after which (outcome) or before which (hashes) they differ."""
        self.what: str = what
        """``outcome``, ``event hash`` or ``state hash``."""
        self.expected: bytes = expected
        """What the journal states."""
        self.found: bytes = found
        """What the replay gives."""


class InvalidSnapshotError(ClobError):
    """Bytes given to be restored are no snapshot of this version, or a damaged one."""

    code = "INVALID_SNAPSHOT"


class RunRejectedError(ClobError):
    """``run`` without a status array met an event that a rule refuses, and stopped there."""

    code: str = "RUN_REFUSED"

    def __init__(self, index: int, code: str, fills: "npt.NDArray[np.void]") -> None:
        """Keep where, why, and what had been filled by then."""
        super().__init__(f"event {index} was refused: {code}; what came before it stands")
        self.index: int = index
        """Index of the refused event in the array passed."""
        # Of the refusal, UNKNOWN_ORDER for example.
        self.code = code
        self.fills: npt.NDArray[np.void] = fills
        """The fills of the events before it, an array of ``FILL``."""


class FillsFullError(ClobError):
    """``run`` stopped before an event whose fills do not fit the buffer any more."""

    code = "FILLS_FULL"

    def __init__(self, index: int, fills: "npt.NDArray[np.void]") -> None:
        """Keep where to go on, and what had been filled by then."""
        super().__init__(
            f"the fills of event {index} do not fit after {len(fills)} others; "
            f"go on with run(events[{index}:])"
        )
        self.index: int = index
        """Index of the first event that was not executed."""
        self.fills: npt.NDArray[np.void] = fills
        """The fills of the events before it, an array of ``FILL``."""


__all__ = [
    "REFUSALS",
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
    """A command was refused by a rule; everything is as it was, ``seq`` included."""

    code = "REJECTED"
    number: ClassVar[int] = 255
    """The stable number of the error, 1 to 255, as ``run`` writes it into a status array."""
    index: int | None = None
    """Which command of an atomic batch was refused, counted from 0; None outside of one."""
    path: str | None = None
    """Which field of the input is at fault, as JSON names it; None where no field was read."""


class InvalidTimeError(RejectedError):
    """The time of the command is not an integer from 0 to ``TIME_MAX``."""

    code = "INVALID_TIME"
    number = 1


class ClockWentBackError(RejectedError):
    """The time of the command lies before that of the last one applied."""

    code = "CLOCK_WENT_BACK"
    number = 18


class DeadlinePassedError(RejectedError):
    """The command arrived after the deadline it names."""

    code = "DEADLINE_PASSED"
    number = 19


class InvalidCommandError(RejectedError):
    """It is no command, or one of its fields is of the wrong type or out of range."""

    code = "INVALID_COMMAND"
    number = 20


class BatchTooLargeError(RejectedError):
    """A batch holds more commands than the limit allows."""

    code = "BATCH_TOO_LARGE"
    number = 21


class InvalidMarketError(RejectedError):
    """A market cannot be as it is described, or cannot be changed in that way."""

    code = "INVALID_MARKET"
    number = 22


class MarketExistsError(RejectedError):
    """A market of this id is there already."""

    code = "MARKET_EXISTS"
    number = 23


class UnknownMarketError(RejectedError):
    """There is no market of this id."""

    code = "UNKNOWN_MARKET"
    number = 24


class InvalidKindError(RejectedError):
    """The kind of an event is unknown, or not one that this call executes."""

    code = "INVALID_KIND"
    number = 2


class InvalidInstructionError(RejectedError):
    """The instructions of an order are unknown or contradict each other."""

    code = "INVALID_INSTRUCTION"
    number = 3


class InvalidSideError(RejectedError):
    """The side is neither buy nor sell."""

    code = "INVALID_SIDE"
    number = 4


class InvalidOrderIdError(RejectedError):
    """The order id is not a text with at least one character nor an integer below 2**63."""

    code = "INVALID_ORDER_ID"
    number = 5


class InvalidOwnerError(RejectedError):
    """The maker is not a text, or the owner's number is 2**31 or more."""

    code = "INVALID_OWNER"
    number = 6


class TokenNotInMarketError(RejectedError):
    """The order is for another token than the book's."""

    code = "TOKEN_NOT_IN_MARKET"
    number = 7


class PriceOutOfRangeError(RejectedError):
    """The price is not an integer on the grid of the book."""

    code = "PRICE_OUT_OF_RANGE"
    number = 8


class InvalidAmountError(RejectedError):
    """The size is not a positive integer, or no multiple of the book's lot."""

    code = "INVALID_AMOUNT"
    number = 9


class AmountTooLargeError(RejectedError):
    """The size is larger than ``SIZE_MAX``."""

    code = "AMOUNT_TOO_LARGE"
    number = 10


class AmountTooSmallError(RejectedError):
    """The size is below the smallest one of the market."""

    code = "AMOUNT_TOO_SMALL"
    number = 25


class InvalidFeeRateError(RejectedError):
    """The fee rate is not an integer from 0 to ``FEE_RATE_MAX_BPS``."""

    code = "INVALID_FEE_RATE"
    number = 26


class OrderExpiredError(RejectedError):
    """The order's expiration lies before the time of the command."""

    code = "ORDER_EXPIRED"
    number = 11


class OrderAlreadyUsedError(RejectedError):
    """This very order was accepted before; it is never executed twice."""

    code = "ORDER_ALREADY_USED"
    number = 27

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep which order it is, where that is still known."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """The order it became, None where its details have left the store of finished orders."""


class ClientIdConflictError(RejectedError):
    """The maker's client id names another order already."""

    code = "CLIENT_ID_CONFLICT"
    number = 28

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep which order it is, where that is still known."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """The order that bears the client id."""


class DuplicateOrderError(RejectedError):
    """An order of its id is there already: resting, or in a matcher also finished and readable."""

    code = "DUPLICATE_ORDER"
    number = 12


class UnknownOrderError(RejectedError):
    """There is no order of this id."""

    code = "UNKNOWN_ORDER"
    number = 13


class NotTheMakerError(RejectedError):
    """The order belongs to another maker."""

    code = "NOT_THE_MAKER"
    number = 29


class OrderNotOpenError(RejectedError):
    """The order is filled or cancelled already."""

    code = "ORDER_NOT_OPEN"
    number = 30

    def __init__(self, message: str, order_id: str | int | None = None) -> None:
        """Keep which order it is, where that is still known."""
        super().__init__(message)
        self.order_id: str | int | None = order_id
        """The order."""


class UnknownTradeError(RejectedError):
    """No trade of this number waits to be settled."""

    code = "UNKNOWN_TRADE"
    number = 31


class MarketNotOpenError(RejectedError):
    """The mode of the market does not allow this command."""

    code = "MARKET_NOT_OPEN"
    number = 32


class NonceTooLowError(RejectedError):
    """The nonce is below the maker's, or does not raise it."""

    code = "NONCE_TOO_LOW"
    number = 33


class SizeNotReducedError(RejectedError):
    """A reduction names a size that is not below what remains of the order."""

    code = "SIZE_NOT_REDUCED"
    number = 14


class TooManyOrdersError(RejectedError):
    """The maker has as many orders resting in the market as the limit allows."""

    code = "TOO_MANY_ORDERS"
    number = 34


class InsufficientBalanceError(RejectedError):
    """What the wallet has available does not cover the order."""

    code = "INSUFFICIENT_BALANCE"
    number = 35


class PostOnlyWouldCrossError(RejectedError):
    """A post-only order would trade at once."""

    code = "POST_ONLY_WOULD_CROSS"
    number = 15


class SeedWouldCrossError(RejectedError):
    """An order to be rested without matching would cross the book."""

    code = "SEED_WOULD_CROSS"
    number = 16


class FokNotFillableError(RejectedError):
    """A fill-or-kill order cannot be filled whole."""

    code = "FOK_NOT_FILLABLE"
    number = 17


class TooManyTradesError(RejectedError):
    """The order would make more trades than the limit allows."""

    code = "TOO_MANY_TRADES"
    number = 36


def _numbered() -> dict[int, type[RejectedError]]:
    """Collect the refusals by their number."""
    classes = (
        c for c in globals().values() if isinstance(c, type) and issubclass(c, RejectedError)
    )
    return {c.number: c for c in classes if c is not RejectedError}


REFUSALS: dict[int, type[RejectedError]] = _numbered()
"""Each refusal by the number that stands for it in a status array."""

# MERGED clob.errors: The errors that are no refusals: of a call as a whole, of bytes, of the package itself.
#
# ``clob.errors`` has them too, beside the refusals.
