"""Every error this package raises on purpose, each with its stable code, in order of precedence.

A command that several rules refuse is refused by the class that stands first below: which error
one gets is part of the contract. A refusal changes nothing, and its message says which rule, the
value and the limit.
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ClobError(Exception):
    """What every error of this package derives from."""

    code: str = "CLOB_ERROR"
    """The stable name of the error, for programs."""


class BookBusy(ClobError):  # noqa: N818 - named by the public contract
    """The book is in the middle of another call, from another thread or further up the stack."""

    code = "BOOK_BUSY"

    def __init__(self) -> None:
        """State the rule; there is no value to name."""
        super().__init__("the book is busy with another call; one call at a time")


class InvalidArrayError(ClobError):
    """An array handed to the batch door has the wrong type, dtype, layout or length."""

    code = "INVALID_ARRAY"


class InvalidBookError(ClobError):
    """A book cannot be made as asked, by its grid, lot or capacity."""

    code = "INVALID_BOOK"


class InvariantError(ClobError):
    """A book found itself inconsistent in ``check()``; it is a bug of this package."""

    code = "INVARIANT_BROKEN"


class RejectedError(ClobError):
    """A command was refused by a rule; the book is as it was, ``seq`` included."""

    code = "REJECTED"
    number: ClassVar[int] = 255
    """The stable number of the error, 1 to 255, as ``run`` writes it into a status array."""


class InvalidTimeError(RejectedError):
    """The time of the command is not an integer from 0 to ``TIME_MAX``."""

    code = "INVALID_TIME"
    number = 1


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


class OrderExpiredError(RejectedError):
    """The order's expiration lies before the time of the command."""

    code = "ORDER_EXPIRED"
    number = 11


class DuplicateOrderError(RejectedError):
    """The order may rest, and one of its id rests in the book already."""

    code = "DUPLICATE_ORDER"
    number = 12


class UnknownOrderError(RejectedError):
    """No order of this id rests in the book."""

    code = "UNKNOWN_ORDER"
    number = 13


class SizeNotReducedError(RejectedError):
    """A reduction names a size that is not below what remains of the order."""

    code = "SIZE_NOT_REDUCED"
    number = 14


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


class RunRefused(ClobError):  # noqa: N818 - named by the public contract
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


class FillsFull(ClobError):  # noqa: N818 - named by the public contract
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


def _numbered() -> dict[int, type[RejectedError]]:
    """Collect the refusals by their number."""
    classes = (
        c for c in globals().values() if isinstance(c, type) and issubclass(c, RejectedError)
    )
    return {c.number: c for c in classes if c is not RejectedError}


REFUSALS: dict[int, type[RejectedError]] = _numbered()
"""Each refusal by the number that stands for it in a status array."""
