"""Replays a log and compares every hash; writes a log as a journal."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

import msgspec

from clob import RejectedError
from clob.errors import ReplayDiffersError
from clob.journal import ZERO_HASH, Frame, encode_frame, event_hash
from clob_server.core.commands import ENGINE, ExchangeSettings
from clob_server.core.recovery import commands_of
from clob_server.core.state import OtherVersionError, ServerState, outcome_of
from clob_server.log import Log, LogDamagedError, Snapshot, Tail


def journal_of(log: Log, after: Tail, up_to: int) -> Iterator[bytes]:
    """Yield the frames of a log as stored; together they form a journal.

    Args:
        log: the log.
        after: the end of the frame before the first one.
        up_to: the last command.

    Raises:
        LogDamagedError: the bytes of a frame were changed.
    """
    previous = after.chain_hash
    for frame in log.read(after.seq):
        if frame.first_seq > up_to:
            return
        raw = encode_frame(
            frame.raw,
            frame.first_seq,
            previous,
            event_hash=frame.event_hash,
            state_hash=frame.state_hash,
        )
        previous = frame.chain_hash
        if raw[-len(previous) :] != previous:
            raise LogDamagedError(f"the frame from command {frame.first_seq} contains outcomes")
        yield raw


class AuditResult(msgspec.Struct, kw_only=True):
    """Result of replaying a log."""

    frames: int = 0
    """Number of frames."""
    commands: int = 0
    """Number of commands, server commands included."""
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    """Rejected commands by code."""
    last_seq: int
    """Number of the last command."""
    event_hash: bytes
    """Event hash after the last command."""
    state_hash: bytes = b""
    """State hash of the matcher after the last command."""
    exchange: ExchangeSettings | None = None
    """The settings that the log depends on, if it has them."""


def audit(log: Log) -> AuditResult:
    """Replay a log from its start and compare every hash in it, and the state of each snapshot.

    Unlike opening a log, this reads every frame. If old frames were deleted, the replay starts from
    the oldest snapshot, and of the frames before it only the chain of hashes is checked.

    Raises:
        LogDamagedError: the bytes of a frame or a snapshot were changed.
        ReplayDiffersError: the first difference, with the number of the command.
        InvalidSnapshotError: the state of a snapshot is unreadable.
    """
    snapshots: list[Snapshot] = []
    for name, found in log.snapshots():
        if isinstance(found, str):
            raise LogDamagedError(f"{name}: {found}")
        snapshots.insert(0, found)
    if not log.origin.seq:
        return run(log, ServerState(), AuditResult(last_seq=0, event_hash=ZERO_HASH), snapshots)
    if not snapshots:
        raise LogDamagedError(
            f"the commands up to {log.origin.seq} were deleted, and no snapshot covers them"
        )
    index, state = oldest_exact(snapshots)
    first = snapshots[index]
    for _ in takewhile(lambda frame: frame.first_seq <= first.seq, log.read(log.origin.seq)):
        pass  # reading a frame checks it
    start = AuditResult(last_seq=first.seq, event_hash=first.event_hash)
    return run(log, state, start, snapshots[index + 1 :])


def oldest_exact(snapshots: Sequence[Snapshot]) -> tuple[int, ServerState]:
    """Return index and state of the oldest snapshot whose state equals that of a replay.

    Without one, return those of the newest.
    """
    for index, each in enumerate(snapshots):
        with suppress(OtherVersionError):
            return index, ServerState.restore(each.state)
    return len(snapshots) - 1, ServerState.restore(snapshots[-1].state, inexact=True)


def run(
    log: Log, state: ServerState, result: AuditResult, snapshots: Sequence[Snapshot]
) -> AuditResult:
    """Replay the frames after a command; compare hashes and the snapshots, oldest first."""
    waiting = deque(snapshots)

    def compare_reached() -> None:
        if waiting and waiting[0].seq == result.last_seq:
            compare(waiting.popleft(), state, result.event_hash)

    for frame in log.read(result.last_seq):
        check(frame, state, result)
        compare_reached()
        apply(frame, state, result)
        if waiting and waiting[0].seq < result.last_seq:
            raise LogDamagedError(
                f"the snapshot after command {waiting[0].seq} is within the frame from "
                f"{frame.first_seq}"
            )
    compare_reached()
    if waiting:
        raise LogDamagedError(
            f"the snapshot is of command {waiting[0].seq}, after the last command {result.last_seq}"
        )
    result.state_hash = state.matcher.state_hash()
    result.exchange = state.registry.exchange
    return result


def apply(frame: Frame, state: ServerState, result: AuditResult) -> None:
    """Apply the commands of a frame and count them."""
    for command in commands_of(frame):
        outcome = outcome_of(state, command)
        if isinstance(outcome, RejectedError):
            result.rejected[outcome.code] = result.rejected.get(outcome.code, 0) + 1
        if type(command) in ENGINE:
            result.event_hash = event_hash(result.event_hash, outcome)
    result.frames += 1
    result.commands += frame.count
    result.last_seq = frame.first_seq + frame.count - 1


def check(frame: Frame, state: ServerState, result: AuditResult) -> None:
    """Compare the hashes in a frame with the state before it."""
    before = result.last_seq
    if frame.first_seq != before + 1:
        raise LogDamagedError(f"command {before + 1} is within the frame from {frame.first_seq}")
    if frame.event_hash is None:
        raise LogDamagedError(f"the frame from command {frame.first_seq} has no event hash")
    differ(frame.first_seq, "event hash", frame.event_hash, result.event_hash)
    if frame.state_hash is not None:
        differ(frame.first_seq, "state hash", frame.state_hash, state.matcher.state_hash())


def compare(snapshot: Snapshot, state: ServerState, hashed: bytes) -> None:
    """Compare a snapshot with the state at its command; of another version's only the event hash.

    Such a snapshot is not used, since the log has every command before it.
    """
    differ(snapshot.seq, "event hash", snapshot.event_hash, hashed)
    with suppress(OtherVersionError):
        kept = ServerState.restore(snapshot.state).snapshot()
        differ(snapshot.seq, "state", digest(kept), digest(state.snapshot()))


def differ(seq: int, name: str, stated: bytes, computed: bytes) -> None:
    """Raise if two hashes differ."""
    if stated != computed:
        raise ReplayDiffersError(seq, name, stated, computed)


def digest(state: bytes) -> bytes:
    """Return a short hash of a state, for messages."""
    return hashlib.blake2b(state, digest_size=32).digest()
