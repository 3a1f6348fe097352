"""Journal: every command with its outcome, chained by hash, and its verification by replay.

A journal is a sequence of frames; a frame contains the commands of one group commit.
:class:`Recorder` writes frames while a matcher runs, :func:`verify` replays the commands and
compares the results, :func:`run` only replays them. The module takes and returns bytes; it uses no
files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import overload

import msgspec

from clob.codec import decode, encode
from clob.codec.layout import FIRST_EVENT_KIND
from clob.commands import Batch, Command, Single
from clob.errors import FrameTruncatedError, InvalidBytesError, RejectedError, ReplayDiffersError
from clob.events import Event, Rejected
from clob.journal.frames import (
    FRAME_VERSION,
    ZERO_HASH,
    Frame,
    Outcome,
    encode_frame,
    event_hash,
    frame_hash,
    pieces_of,
    read_frames,
)
from clob.matcher import Matcher, Replayed

__all__ = [
    "FRAME_VERSION",
    "ZERO_HASH",
    "Frame",
    "Outcome",
    "Recorder",
    "Verified",
    "encode_frame",
    "event_hash",
    "frame_hash",
    "read_frames",
    "run",
    "verify",
]

_ENGINE_KINDS = frozenset(bytes((kind,)) for kind in range(FIRST_EVENT_KIND))
_kind = itemgetter(slice(1))


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Result of :func:`verify`."""

    frames: int
    """Number of frames."""
    commands: int
    """Number of commands, including those of the embedder's own kinds."""
    rejected: dict[str, int]
    """Number of rejected commands by error code."""
    last_seq: int
    """Number of the last command."""
    event_hash: bytes
    """Event hash after the last command."""
    state_hash: bytes
    """State hash of the matcher after the last command."""
    chain_hash: bytes
    """Chain hash of the last frame."""


# ----- recording -----------------------------------------------------------------------------


class Recorder:
    """A matcher that records its commands, in memory until :meth:`frame` returns them.

    Args:
        matcher: the matcher that executes the commands; a new one if None.
        previous: chain hash of the previous frame, ``ZERO_HASH`` for the first frame.
        event_hash: event hash before the first command.
        first_seq: number of the first command.
        state_hashes: whether each frame stores the state hash before its first command. The cost
            of a hash is proportional to the state.
    """

    def __init__(
        self,
        matcher: Matcher | None = None,
        *,
        previous: bytes = ZERO_HASH,
        event_hash: bytes = ZERO_HASH,
        first_seq: int = 1,
        state_hashes: bool = False,
    ) -> None:
        self.matcher: Matcher = Matcher() if matcher is None else matcher
        """The matcher that executes the commands."""
        self.chain_hash: bytes = previous
        """Chain hash of the last frame returned."""
        self.event_hash: bytes = event_hash
        """Event hash after the last command."""
        self.next_seq: int = first_seq
        """Number of the next command."""
        self.resumed_bytes: int = 0
        """Bytes of the whole frames that :meth:`resume` read; cut a file there to append."""
        self._state_hashes = state_hashes
        self._start_frame()

    @classmethod
    def resume(
        cls,
        data: bytes | Iterable[bytes],
        matcher: Matcher | None = None,
        *,
        previous: bytes = ZERO_HASH,
        event_hash: bytes = ZERO_HASH,
        first_seq: int = 1,
        state_hashes: bool = False,
    ) -> "Recorder":
        """Return a recorder that continues a journal after its last whole frame.

        The commands are executed again, and the results compared with the recorded ones, as by
        :func:`verify`. A last frame that was written in part is ignored: before the next frame is
        appended, cut the journal to :attr:`resumed_bytes`.

        Args:
            data: frames; or an iterable of pieces, each of whole frames. The last one may be torn.
            matcher: the matcher that executes the commands, in the state before the first of them;
                a new one if None.
            previous: chain hash of the frame before the data.
            event_hash: event hash before the first command in the data.
            first_seq: number of the first command in the data.
            state_hashes: as for the constructor.

        Returns:
            The recorder; its ``matcher`` has the state after the last command.

        Raises:
            TypeError: a piece is not ``bytes``.
            FrameError: a frame cannot be read, and it is not the end of the data that is missing.
            InvalidBytesError: bytes are not a command.
            ReplayDiffersError: a result differs; has the number of the first such command.
        """
        replay = _Replay(Matcher() if matcher is None else matcher, event_hash, previous, first_seq)
        pieces = pieces_of(data)
        end = 0

        def counted() -> Iterator[bytes]:
            nonlocal end
            for piece in pieces:
                yield piece
                end += len(piece)

        try:
            for frame in read_frames(counted(), previous, first_seq):
                replay.apply(frame)
        except FrameTruncatedError as error:
            if next(pieces, None) is not None:
                raise
            end = error.offset
        recorder = cls(
            replay.matcher,
            previous=replay.chain_hash,
            event_hash=replay.event_hash,
            first_seq=replay.next_seq,
            state_hashes=state_hashes,
        )
        recorder.resumed_bytes = end
        return recorder

    @overload
    def apply(self, command: Single) -> list[Event]: ...
    @overload
    def apply(self, command: Batch) -> list[Event | Rejected]: ...

    def apply(self, command: Command) -> list[Event] | list[Event | Rejected]:
        """Execute a command and record it with its outcome.

        Args:
            command: the command.

        Returns:
            The events, as returned by :meth:`Matcher.apply() <clob.Matcher.apply>`.

        Raises:
            TypeError: the command cannot be encoded; it is neither executed nor recorded.
            ValueError: an integer is negative or has more than 256 bits; the command is neither
                executed nor recorded.
            RejectedError: the command was rejected; it is recorded with the error code.
            MatcherBusyError: as for the matcher; nothing is recorded.
        """
        raw = encode(command)
        try:
            events = self.matcher.apply(command)
        except RejectedError as error:
            self._record(raw, error)
            raise
        self._record(raw, events)
        return events

    def frame(self) -> bytes:
        """Return a frame of the commands since the last call, which may be none.

        Returns:
            The frame, to append to the journal.
        """
        frame = encode_frame(
            self._raws,
            self.next_seq - len(self._raws),
            self.chain_hash,
            event_hash=self._event_hash_before,
            state_hash=self._state_hash_before,
            outcomes=self._outcomes,
        )
        self.chain_hash = frame_hash(frame)
        self._start_frame()
        return frame

    def _start_frame(self) -> None:
        """Start a frame with the current hashes."""
        self._raws: list[bytes | Command] = []
        self._outcomes: list[bytes] = []
        self._event_hash_before = self.event_hash
        self._state_hash_before = self.matcher.state_hash() if self._state_hashes else None

    def _record(self, raw: bytes, outcome: Outcome) -> None:
        """Add a command and its outcome to the frame."""
        self._raws.append(raw)
        self.event_hash = event_hash(self.event_hash, outcome)
        self._outcomes.append(self.event_hash)
        self.next_seq += 1


# ----- replaying -----------------------------------------------------------------------------


def run(
    data: bytes | Iterable[bytes],
    matcher: Matcher,
    *,
    previous: bytes = ZERO_HASH,
    first_seq: int = 1,
) -> Replayed:
    """Replay a journal and check the hash chain of its frames, but not the outcomes.

    Args:
        data: frames; or an iterable of pieces, each of whole frames.
        matcher: the matcher that executes the commands, in the state before the first of them.
        previous: chain hash of the frame before the data.
        first_seq: number of the first command in the data.

    Returns:
        The numbers of commands executed, of commands rejected by error code, and of events.

    Raises:
        FrameError: a frame cannot be read; the commands of the frames before it were executed.
        InvalidBytesError: bytes are not a command; the commands before them were executed.
    """
    frame: Frame | None = None

    def parts() -> Iterator[Iterable[Command]]:
        nonlocal frame
        for frame in read_frames(data, previous, first_seq):
            yield _engine_commands(frame)

    try:
        return matcher.replay(chain.from_iterable(parts()))
    except InvalidBytesError:
        if frame is not None:
            frame.commands()  # raises an error with the numbers of command and frame
        raise


def _engine_commands(frame: Frame) -> Iterable[Command]:
    """Return the commands of a frame without those of the embedder's own kinds."""
    if _ENGINE_KINDS.issuperset(map(_kind, frame.raw)):
        # Decode each command just before it is executed, while it is in the CPU cache.
        return map(decode, frame.raw)
    return [command for command in frame.commands() if not isinstance(command, bytes)]


def verify(
    data: bytes | Iterable[bytes],
    matcher: Matcher | None = None,
    *,
    previous: bytes = ZERO_HASH,
    event_hash: bytes = ZERO_HASH,
    first_seq: int = 1,
) -> Verified:
    """Replay a journal and compare the results with every hash that it stores.

    Args:
        data: frames; or an iterable of pieces, each of whole frames.
        matcher: the matcher that executes the commands; a new one if None. To start in the middle
            of a journal, restore it from a snapshot.
        previous: chain hash of the frame before the data.
        event_hash: event hash before the first command in the data.
        first_seq: number of the first command in the data.

    Returns:
        The counts and the final hashes.

    Raises:
        FrameError: a frame cannot be read.
        InvalidBytesError: bytes are not a command.
        ReplayDiffersError: a result differs; has the number of the first such command.
    """
    replay = _Replay(Matcher() if matcher is None else matcher, event_hash, previous, first_seq)
    for frame in read_frames(data, previous, first_seq):
        replay.apply(frame)
    return replay.result()


@dataclass(slots=True)
class _Replay:
    """A matcher that replays frames and compares the results."""

    matcher: Matcher
    event_hash: bytes
    chain_hash: bytes
    next_seq: int
    frames: int = 0
    commands: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def apply(self, frame: Frame) -> None:
        """Execute the commands of a frame and compare its hashes."""
        self.compare("event hash", frame.event_hash, self.event_hash)
        if frame.state_hash is not None:
            self.compare("state hash", frame.state_hash, self.matcher.state_hash())
        for index, command in enumerate(frame.commands()):
            if not isinstance(command, bytes):
                self.event_hash = event_hash(self.event_hash, self.outcome_of(command))
            if frame.outcomes is not None:
                expected = frame.outcomes[index]
                self.compare("outcome", expected, self.event_hash[: len(expected)])
            self.next_seq += 1
        self.frames += 1
        self.commands += frame.count
        self.chain_hash = frame.chain_hash

    def outcome_of(self, command: Command) -> Outcome:
        """Execute a command and count a rejection."""
        try:
            return self.matcher.apply(command)
        except RejectedError as error:
            self.rejected[error.code] = self.rejected.get(error.code, 0) + 1
            return error

    def compare(self, name: str, expected: bytes | None, actual: bytes) -> None:
        """Compare a hash with the stored one, if there is one."""
        if expected is not None and expected != actual:
            raise ReplayDiffersError(self.next_seq, name, expected, actual)

    def result(self) -> Verified:
        """Return the counts and the final hashes."""
        return Verified(
            frames=self.frames,
            commands=self.commands,
            rejected=self.rejected,
            last_seq=self.next_seq - 1,
            event_hash=self.event_hash,
            state_hash=self.matcher.state_hash(),
            chain_hash=self.chain_hash,
        )
