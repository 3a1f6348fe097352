"""What a log is: frames of numbered commands, appended where the last one ended, and snapshots."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from clob.journal import ZERO_HASH, Frame, encode_frame, frame_hash
from clob_server.log.errors import FencedError, LogDamagedError


class Tail(msgspec.Struct, frozen=True):
    """Where a log ends."""

    seq: int = 0
    """The number of the last command, 0 where there is none."""
    chain_hash: bytes = ZERO_HASH
    """The chain hash of the last frame."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a command: what is before it need not be read again."""

    seq: int
    """The number of that command, the last of its frame."""
    chain_hash: bytes
    """The chain hash of that frame."""
    event_hash: bytes
    """The event hash after that command."""
    state: bytes
    """The state, in the bytes of whoever made it."""


class Log(Protocol):
    """Commands in sequence. What :meth:`append` has returned from is there for good.

    One owner appends. ``after`` is the whole of its fencing: who does not know where the log ends
    may not go on with it.
    """

    @property
    def origin(self) -> Tail:
        """The end of what was dropped, where it begins."""

    @property
    def tail(self) -> Tail:
        """Where it ends."""

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Add a frame, and return once it is durable.

        Args:
            commands: the canonical bytes of each, as ``clob.codec.encode`` writes them, or of
                the embedder's own kinds; at least one.
            after: the number of the command that it follows, which must be the last one.
            event_hash: the event hash before the first command, to be stated in the frame.
            state_hash: the state hash before the first command, to be stated in the frame.

        Returns:
            The number of its last command.

        Raises:
            FencedError: the log does not end with ``after``.
            LogFailedError: it cannot be said to be durable; nothing may be appended any more.
            ValueError: there is no command, or what is given is no command or no hash.
        """

    def tidy(self) -> None:
        """Do what can wait until the acknowledgements are out; cheap where there is nothing."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Give the frames from the one with command ``after + 1`` on, each checked.

        Args:
            after: the last command that one has; 0 is none.

        Raises:
            LogDamagedError: a frame is not what was written, or was dropped.
        """

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, durably, and let go of all but it and the one before.

        Raises:
            ValueError: it is of a command that the log has not, or of another history.
        """

    def get_snapshot(self) -> Snapshot | None:
        """Give the newest snapshot, checked; None where there is none.

        Raises:
            LogDamagedError: it is not what was written.
        """

    def drop(self, up_to: int) -> int:
        """Let go of the frames whose commands end with or before ``up_to``.

        Returns:
            How many frames were let go.

        Raises:
            ValueError: no snapshot covers them.
        """

    def close(self) -> None:
        """Let it go; another may open it."""


def next_frame(
    tail: Tail,
    commands: Sequence[bytes],
    after: int,
    event_hash: bytes | None,
    state_hash: bytes | None,
) -> tuple[bytes, Tail]:
    """Write the frame that follows where a log ends, and say where it ends then.

    Raises:
        FencedError: it does not end with ``after``.
        ValueError: there is no command, or what is given is no command or no hash.
    """
    if after != tail.seq:
        raise FencedError(f"the log ends with command {tail.seq}, not with {after}")
    if not commands:
        raise ValueError("a frame of a log has at least one command")
    frame = encode_frame(
        commands, after + 1, tail.chain_hash, event_hash=event_hash, state_hash=state_hash
    )
    return frame, Tail(after + len(commands), frame_hash(frame))


def check_read(after: int, origin: Tail) -> None:
    """Refuse to begin where the frames were dropped."""
    if after < origin.seq:
        raise LogDamagedError(
            f"the commands up to {origin.seq} were dropped, so that there is none after {after}"
        )


def check_drop(up_to: int, snapshot: Snapshot | None) -> None:
    """Refuse to let go of what no snapshot covers."""
    covered = 0 if snapshot is None else snapshot.seq
    if up_to > covered:
        raise ValueError(f"the newest snapshot covers the commands up to {covered}, not {up_to}")
