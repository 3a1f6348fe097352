"""The journal: every command with what came of it, chained by hash, and the proof of a replay.

A journal is a run of frames, and a frame the commands of one group commit. :class:`Recorder` makes
frames while a matcher works, :func:`verify` runs their commands again and compares, :func:`run`
only runs them. There are no files here: bytes go in, bytes come out.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

import msgspec

from clob.codec import decode, encode, encode_all, write
from clob.codec.layout import FIRST_EVENT_KIND
from clob.commands import Command
from clob.errors import InvalidBytesError, RejectedError, ReplayDiffersError
from clob.events import Event, Rejected
from clob.journal.frames import (
    FRAME_VERSION,
    HASH_BYTES,
    ZERO_HASH,
    Frame,
    encode_frame,
    frame_hash,
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

Outcome: TypeAlias = Sequence[Event | Rejected] | RejectedError
"""The events of a command, in a batch with the refusals among them, or its own refusal."""


_OURS = frozenset(bytes((kind,)) for kind in range(FIRST_EVENT_KIND))
_KIND = itemgetter(slice(1))


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found when a journal was run again."""

    frames: int
    """How many frames there were."""
    commands: int
    """How many commands they held, the embedder's own ones included."""
    rejected: dict[str, int]
    """Number of rejected commands by error code."""
    last_seq: int
    """The number of the last command."""
    event_hash: bytes
    """The event hash after the last command."""
    state_hash: bytes
    """The state hash of the matcher after the last command."""
    chain_hash: bytes
    """The chain hash of the last frame."""


# ----- outcomes ------------------------------------------------------------------------------


def event_hash(previous: bytes, outcome: Outcome) -> bytes:
    """Take one more outcome into the hash over all of them.

    A refusal counts by its code alone, in a batch too, since its words may improve.

    Args:
        previous: the event hash before the command, ``ZERO_HASH`` before the first one.
        outcome: what the matcher returned, or the refusal that it raised.

    Returns:
        The event hash after the command, 32 bytes.
    """
    return hashlib.blake2b(previous + _outcome_bytes(outcome), digest_size=HASH_BYTES).digest()


def _outcome_bytes(outcome: Outcome) -> bytes:
    """Write what came of a command: 0, the count and the events, or 1 and the code."""
    if isinstance(outcome, RejectedError):
        return b"\x01" + write(_Code(outcome.code))
    if Rejected in map(type, outcome):
        outcome = [_wordless(event) for event in outcome]
    return b"\x00" + encode_all(outcome)


class _Code(msgspec.Struct, frozen=True, gc=False):
    """The code of a refusal, as canonical bytes want it."""

    code: str


def _wordless(event: Event | Rejected) -> Event | Rejected:
    """Leave out the words of a refusal."""
    return Rejected(event.index, event.code, "") if isinstance(event, Rejected) else event


# ----- recording -----------------------------------------------------------------------------


class Recorder:
    """A matcher that keeps a journal of all it is asked, in memory until a frame is taken.

    Args:
        matcher: what executes the commands; None is a new one.
        previous: the chain hash of the frame before, ``ZERO_HASH`` where there is none.
        event_hash: the event hash before the first command.
        first_seq: the number of the first command.
        state_hashes: whether each frame states the state hash before its first command. It costs
            a walk over the whole state each time.
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
        """What executes the commands."""
        self.chain_hash: bytes = previous
        """The chain hash of the last frame taken."""
        self.event_hash: bytes = event_hash
        """The event hash after the last command."""
        self.next_seq: int = first_seq
        """The number of the next command."""
        self._state_hashes = state_hashes
        self._begin()

    def apply(self, command: Command) -> list[Event] | list[Event | Rejected]:
        """Execute a command, and keep it with what came of it, be it a refusal.

        Args:
            command: the command.

        Returns:
            What the matcher returns.

        Raises:
            TypeError: the command cannot be written; it is neither executed nor kept.
            ValueError: the same, for an integer that is negative or has more than 256 bits.
            RejectedError: a rule refused it; it is kept with the code of the refusal.
        """
        raw = encode(command)
        try:
            events = self.matcher.apply(command)
        except RejectedError as refusal:
            self._keep(raw, refusal)
            raise
        self._keep(raw, events)
        return events

    def frame(self) -> bytes:
        """Close the frame of all commands since the last call; it may hold none.

        Returns:
            The frame, to be put behind those before it.
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
        self._begin()
        return frame

    def _begin(self) -> None:
        """Begin a frame, with the hashes as they are now."""
        self._raws: list[bytes | Command] = []
        self._outcomes: list[bytes] = []
        self._event_hash_before = self.event_hash
        self._state_hash_before = self.matcher.state_hash() if self._state_hashes else None

    def _keep(self, raw: bytes, outcome: Outcome) -> None:
        """Take a command and its outcome into the frame."""
        self._raws.append(raw)
        self.event_hash = event_hash(self.event_hash, outcome)
        self._outcomes.append(self.event_hash)
        self.next_seq += 1


# ----- running again -------------------------------------------------------------------------


def run(
    data: bytes | Iterable[bytes],
    matcher: Matcher,
    *,
    previous: bytes = ZERO_HASH,
    first_seq: int = 1,
) -> Replayed:
    """Run the commands of a journal, and compare nothing but the chain of the frames.

    Args:
        data: frames; or pieces of the journal, each of whole frames.
        matcher: what executes the commands; it must be where the journal begins.
        previous: the chain hash of the frame before the first one here.
        first_seq: the number of the first command here.

    Returns:
        How many commands were executed, and how many refused for which reason.

    Raises:
        FrameError: a frame cannot be read; the commands of the frames before it were executed.
        InvalidBytesError: what stands for a command is none; those before it were executed.
    """
    frame: Frame | None = None

    def parts() -> Iterator[Iterable[Command]]:
        nonlocal frame
        for frame in read_frames(data, previous, first_seq):
            yield _own(frame)

    try:
        return matcher.replay(chain.from_iterable(parts()))
    except InvalidBytesError:
        if frame is not None:
            frame.commands()  # says which command of which frame it is
        raise


def _own(frame: Frame) -> Iterable[Command]:
    """Give the commands of a frame without the embedder's own."""
    if _OURS.issuperset(map(_KIND, frame.raw)):
        # Each is decoded when it is its turn: what was just made is near at hand.
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
    """Run the commands of a journal again, and compare with all that it states.

    Args:
        data: frames; or pieces of the journal, each of whole frames.
        matcher: what executes the commands, where the journal does not begin at the beginning: one
            restored from a snapshot. None is a new one.
        previous: the chain hash of the frame before the first one here.
        event_hash: the event hash before the first command here.
        first_seq: the number of the first command here.

    Returns:
        What was found, all of it as the journal states it.

    Raises:
        FrameError: a frame cannot be read.
        InvalidBytesError: what stands for a command is none.
        ReplayDiffersError: the first difference, by the number of the command.
    """
    replay = _Replay(Matcher() if matcher is None else matcher, event_hash, previous, first_seq)
    for frame in read_frames(data, previous, first_seq):
        replay.take(frame)
    return replay.found()


class _Replay:
    """A matcher that runs frames and compares."""

    def __init__(
        self, matcher: Matcher, event_hash: bytes, chain_hash: bytes, next_seq: int
    ) -> None:
        self.matcher = matcher
        self.event_hash = event_hash
        self.chain_hash = chain_hash
        self.next_seq = next_seq
        self.frames = self.commands = 0
        self.rejected: dict[str, int] = {}

    def take(self, frame: Frame) -> None:
        """Run the commands of a frame."""
        self.compare("event hash", frame.event_hash, self.event_hash)
        if frame.state_hash is not None:
            self.compare("state hash", frame.state_hash, self.matcher.state_hash())
        for index, command in enumerate(frame.commands()):
            if not isinstance(command, bytes):
                self.event_hash = event_hash(self.event_hash, self.outcome_of(command))
            if frame.outcomes is not None:
                stated = frame.outcomes[index]
                self.compare("outcome", stated, self.event_hash[: len(stated)])
            self.next_seq += 1
        self.frames += 1
        self.commands += frame.count
        self.chain_hash = frame.chain_hash

    def outcome_of(self, command: Command) -> Outcome:
        """Run a command, and count a refusal."""
        try:
            return self.matcher.apply(command)
        except RejectedError as refusal:
            self.rejected[refusal.code] = self.rejected.get(refusal.code, 0) + 1
            return refusal

    def compare(self, what: str, stated: bytes | None, found: bytes) -> None:
        """Refuse a difference from what is stated."""
        if stated is not None and stated != found:
            raise ReplayDiffersError(self.next_seq, what, stated, found)

    def found(self) -> Verified:
        """Sum up."""
        return Verified(
            frames=self.frames,
            commands=self.commands,
            rejected=self.rejected,
            last_seq=self.next_seq - 1,
            event_hash=self.event_hash,
            state_hash=self.matcher.state_hash(),
            chain_hash=self.chain_hash,
        )
