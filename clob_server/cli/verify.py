"""Replays a log and compares every hash; writes a log as a journal."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress

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
    """Replay a log from its start and compare every hash in it.

    If old frames were deleted, the replay starts from the newest snapshot; otherwise the state of
    that snapshot is compared as well.

    Raises:
        LogDamagedError: the bytes of a frame or a snapshot were changed.
        ReplayDiffersError: the first difference, with the number of the command.
        InvalidSnapshotError: the state of the snapshot is unreadable.
    """
    snapshot = log.get_snapshot()
    if not log.origin.seq:
        return run(log, ServerState(), AuditResult(last_seq=0, event_hash=ZERO_HASH), snapshot)
    if snapshot is None:
        raise LogDamagedError(
            f"the commands up to {log.origin.seq} were deleted, and no snapshot covers them"
        )
    start = AuditResult(last_seq=snapshot.seq, event_hash=snapshot.event_hash)
    return run(log, ServerState.restore(snapshot.state), start, None)


def run(
    log: Log, state: ServerState, result: AuditResult, snapshot: Snapshot | None
) -> AuditResult:
    """Replay the frames after a command; compare hashes and an optional snapshot."""
    kept = result.last_seq if snapshot is None else snapshot.seq
    for frame in log.read(result.last_seq):
        check(frame, state, result)
        if snapshot is not None and kept == result.last_seq:
            compare(snapshot, state, result.event_hash)
        apply(frame, state, result)
        if frame.first_seq <= kept < result.last_seq:
            raise LogDamagedError(
                f"the snapshot after command {kept} is within the frame from {frame.first_seq}"
            )
    if kept > result.last_seq:
        raise LogDamagedError(
            f"the snapshot is of command {kept}, after the last command {result.last_seq}"
        )
    if snapshot is not None and kept == result.last_seq:
        compare(snapshot, state, result.event_hash)
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
