"""Recovers the state from a log, and takes snapshots when they are due."""

import logging
from typing import Final

from clob.codec import decode
from clob.codec.layout import FIRST_FOREIGN_KIND as OWN
from clob.errors import InvalidBytesError, InvalidSnapshotError
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.core.commands import ENGINE, SERVER, AnyCommand, decode_own
from clob_server.core.state import OtherVersionError, ServerState, outcome_of
from clob_server.log import Folder, Log, LogDamagedError, Snapshot
from clob_server.log.files import newest_snapshot

LOG_SHARE: Final = 8
"""A snapshot is due once the log since the last one has an eighth of its bytes.

With a million resting orders a byte of state is restored in 6 ns and a byte of log replayed in 25,
so that the replay adds at most half of that time. The follower writes a byte of state in about 10
ns, with its hashes and its file: for each byte of log 80 ns, or 30 µs for each signed order of 400
bytes. Twice the share would double this, to save a sixth of the start.
"""
STOP_COMMANDS: Final = 10_000
"""Fewest commands for which a snapshot is taken at a clean stop: they are replayed in 40 ms."""

_KINDS: Final = ENGINE | SERVER
_LOG: Final = logging.getLogger("clob_server")


class SnapshotDiffersError(LogDamagedError):
    """A frame does not follow the state before it, such as that of a snapshot."""


def recover(log: Log) -> tuple[ServerState, bytes, int]:
    """Return the state of a log: its newest usable snapshot plus later commands.

    A damaged or foreign snapshot is set aside with a warning; the one before it is used, or the log
    from its beginning. One of another version is passed over and keeps its name. Frames contain the
    event hash before their first command, so only the last frame is hashed here; ``clob-server
    verify`` hashes all.

    Returns:
        The state, the event hash after the last command, and the number of replayed commands.

    Raises:
        LogDamagedError: the bytes of a frame were changed, or no snapshot covers dropped commands.
    """
    problems: dict[str, InvalidSnapshotError | SnapshotDiffersError] = {}
    start = _usable_start(log, problems)
    if start is None and log.origin.seq:
        found = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise LogDamagedError(
            f"commands up to {log.origin.seq} were dropped and no usable snapshot covers them"
            f" ({found or 'there is no snapshot'}); `clob-server restore` installs a backup"
        )
    recovered = _replay(log, *(start or (ServerState(), ZERO_HASH, 0)))
    for name, problem in problems.items():
        _LOG.warning("a snapshot is passed over", extra={"snapshot": name, "reason": str(problem)})
        if not isinstance(problem, OtherVersionError):
            log.set_aside(name)
    return recovered


def _usable_start(
    log: Log, problems: dict[str, InvalidSnapshotError | SnapshotDiffersError]
) -> tuple[ServerState, bytes, int] | None:
    """Return state, event hash and command number of the newest usable snapshot; None without one.

    The problems of the newer ones are added to ``problems``.
    """
    for name, snapshot, damage in log.unchecked_snapshots():
        if isinstance(snapshot, str):
            problems[name] = InvalidSnapshotError(damage() or snapshot)
            continue
        try:
            inexact = log.origin.seq > 0
            state = ServerState.restore(snapshot.state, inexact=inexact, check_hash=False)
            frame = next(log.read(snapshot.seq), None)
            if frame is not None:
                check(frame, snapshot.seq, snapshot.event_hash)
        except (InvalidSnapshotError, SnapshotDiffersError) as error:
            problems[name] = InvalidSnapshotError(text) if (text := damage()) else error
        else:
            if (text := damage()) is None:
                return state, snapshot.event_hash, snapshot.seq
            problems[name] = InvalidSnapshotError(text)
    return None


def _replay(
    log: Log, state: ServerState, hashed: bytes, after: int
) -> tuple[ServerState, bytes, int]:
    """Apply the commands after one; return as :func:`recover`."""
    before = after
    last: Frame | None = None
    for frame in log.read(after):
        check(frame, before, hashed if last is None else None)
        if last is not None:
            state.replay(commands_of(last))
        last, before = frame, frame.first_seq + frame.count - 1
    if last is not None:
        hashed = replay_frame(state, last, last.event_hash or hashed)
    return state, hashed, before - after


def replay_frame(state: ServerState, frame: Frame, hashed: bytes) -> bytes:
    """Apply the commands of a frame and return the event hash afterwards."""
    for command in commands_of(frame):
        outcome = outcome_of(state, command)
        if type(command) in ENGINE:
            hashed = event_hash(hashed, outcome)
    return hashed


def check(frame: Frame, before: int, hashed: bytes | None) -> None:
    """Reject a frame whose number or event hash does not follow."""
    if frame.first_seq != before + 1:
        text = f"command {before + 1} is within the frame from {frame.first_seq}"
        raise SnapshotDiffersError(text)
    if frame.event_hash is None:
        raise LogDamagedError(f"the frame from command {frame.first_seq} has no event hash")
    if hashed is not None and frame.event_hash != hashed:
        raise SnapshotDiffersError(
            f"event hash before command {frame.first_seq}: expected {hashed.hex()}; "
            f"the frame has {frame.event_hash.hex()}"
        )


def commands_of(frame: Frame) -> list[AnyCommand]:
    """Decode the commands of a frame.

    Raises:
        InvalidBytesError: invalid bytes of an engine command.
        LogDamagedError: invalid bytes of a server command.
    """
    try:
        commands = [decode_own(raw) if raw[0] >= OWN else decode(raw) for raw in frame.raw]
    except (InvalidBytesError, IndexError):  # IndexError: no bytes
        commands = []
    if len(commands) != frame.count or not _KINDS.issuperset(map(type, commands)):
        frame.commands()  # raises with the position of the invalid command
    return commands


class SnapshotCadence:
    """Decides when the next snapshot is taken.

    A snapshot takes as long as the state is large, and saves the next start the replay of the log
    since the last one. So a large state has more commands between two snapshots than a small one.

    Args:
        files: the folder of the log, with the last snapshot.
        commands: fewest commands between two snapshots; 0 for no snapshots.
    """

    def __init__(self, files: Folder, commands: int) -> None:
        self._commands = commands
        self._seq, self._size = newest_snapshot(files)
        self._end = self._seq
        self._log_bytes = 0

    def add(self, seq: int, num_bytes: int) -> None:
        """Count the bytes of commands up to ``seq``, except those before the last snapshot."""
        if seq > self._seq:
            self._end = seq
            self._log_bytes += num_bytes

    def restart(self, seq: int, size: int) -> None:
        """Start to count again after a snapshot of ``size`` bytes."""
        self._seq = self._end = seq
        self._size, self._log_bytes = size, 0

    @property
    def is_due(self) -> bool:
        """Whether the log since the last snapshot is long enough for another one."""
        since = self._end - self._seq
        return 0 < self._commands <= since and self._log_bytes * LOG_SHARE >= self._size

    @property
    def pays_at_stop(self) -> bool:
        """Whether a snapshot at a clean stop takes less time than the next start saves by it."""
        since = self._end - self._seq
        least = min(self._commands, STOP_COMMANDS)
        return 0 < least <= since and self._log_bytes >= self._size


def take_snapshot(log: Log, state: ServerState, hashed: bytes) -> Snapshot:
    """Store a durable snapshot of the state after the last command.

    State and event hash must include the whole log. While a sequencer runs, call this from a
    subscriber only, where they do.
    """
    seq, chain_hash = log.tail.seq, log.tail.chain_hash
    snapshot = Snapshot(seq=seq, chain_hash=chain_hash, event_hash=hashed, state=state.snapshot())
    log.put_snapshot(snapshot)
    return snapshot
