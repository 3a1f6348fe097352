"""The errors that are no refusals: of a call as a whole, of bytes, of the package itself.

``clob.errors`` has them too, beside the refusals.
"""

from typing import TYPE_CHECKING

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


class MatcherBusy(ClobError):  # noqa: N818 - as BookBusy
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
