"""A log run again, every hash in it compared; and a log written out as a journal."""

import hashlib
from collections.abc import Iterator

import msgspec

from clob import RejectedError
from clob.errors import ReplayDiffersError
from clob.journal import ZERO_HASH, Frame, encode_frame, event_hash
from clob_server.core.commands import ENGINE
from clob_server.core.recovery import commands_of
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import Log, LogDamagedError, Snapshot, Tail


def journal_of(log: Log, after: Tail, up_to: int) -> Iterator[bytes]:
    """Give the frames of a log, byte by byte as they are kept.

    Args:
        log: the log.
        after: where the frame before the first one ends.
        up_to: the last command.

    Yields:
        Each frame; one after the other they are a journal.

    Raises:
        LogDamagedError: a frame is not what was written.
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
            raise LogDamagedError(f"the frame from command {frame.first_seq} states outcomes")
        yield raw


class AuditResult(msgspec.Struct, kw_only=True):
    """What was found when a log was run again."""

    frames: int = 0
    """How many frames there were."""
    commands: int = 0
    """How many commands they held, the server's own included."""
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    """How many commands were refused, by the code of the refusal."""
    last_seq: int
    """The number of the last command."""
    event_hash: bytes
    """The event hash after the last command."""
    state_hash: bytes = b""
    """The state hash of the matcher after the last command."""


def audit(log: Log) -> AuditResult:
    """Run a log again from where it begins, and compare with all that it states.

    Where the beginning was dropped, it is run from the newest snapshot. Where it was not, the state
    of that snapshot is compared, too.

    Args:
        log: the log of a server.

    Returns:
        What was found, all of it as the log states it.

    Raises:
        LogDamagedError: a frame or a snapshot is not what was written.
        ReplayDiffersError: the first difference, by the number of the command.
        InvalidSnapshotError: the state of the snapshot cannot be read.
    """
    snapshot = log.get_snapshot()
    if not log.origin.seq:
        return run(log, ServerState(), AuditResult(last_seq=0, event_hash=ZERO_HASH), snapshot)
    if snapshot is None:
        raise LogDamagedError(f"the commands up to {log.origin.seq} were dropped, unkept")
    start = AuditResult(last_seq=snapshot.seq, event_hash=snapshot.event_hash)
    return run(log, ServerState.restore(snapshot.state), start, None)


def run(
    log: Log, exchange: ServerState, found: AuditResult, snapshot: Snapshot | None
) -> AuditResult:
    """Run the frames after a command, and compare, with a snapshot on the way as well."""
    kept = found.last_seq if snapshot is None else snapshot.seq
    for frame in log.read(found.last_seq):
        check(frame, exchange, found)
        if snapshot is not None and kept == found.last_seq:
            compare(snapshot, exchange, found.event_hash)
        take(frame, exchange, found)
        if frame.first_seq <= kept < found.last_seq:
            raise LogDamagedError(
                f"the snapshot after command {kept} is within the frame from {frame.first_seq}"
            )
    if kept > found.last_seq:
        raise LogDamagedError(f"the snapshot is of command {kept}, beyond {found.last_seq}")
    if snapshot is not None and kept == found.last_seq:
        compare(snapshot, exchange, found.event_hash)
    found.state_hash = exchange.matcher.state_hash()
    return found


def take(frame: Frame, exchange: ServerState, found: AuditResult) -> None:
    """Run the commands of a frame, and count."""
    for command in commands_of(frame):
        outcome = outcome_of(exchange, command)
        if isinstance(outcome, RejectedError):
            found.refused[outcome.code] = found.refused.get(outcome.code, 0) + 1
        if type(command) in ENGINE:
            found.event_hash = event_hash(found.event_hash, outcome)
    found.frames += 1
    found.commands += frame.count
    found.last_seq = frame.first_seq + frame.count - 1


def check(frame: Frame, exchange: ServerState, found: AuditResult) -> None:
    """Compare what a frame states with what the commands before it led to."""
    before = found.last_seq
    if frame.first_seq != before + 1:
        raise LogDamagedError(f"command {before + 1} is within the frame from {frame.first_seq}")
    if frame.event_hash is None:
        raise LogDamagedError(f"the frame from command {frame.first_seq} states no event hash")
    differ(frame.first_seq, "event hash", frame.event_hash, found.event_hash)
    if frame.state_hash is not None:
        differ(frame.first_seq, "state hash", frame.state_hash, exchange.matcher.state_hash())


def compare(snapshot: Snapshot, exchange: ServerState, hashed: bytes) -> None:
    """Compare a snapshot with what the commands up to it led to."""
    differ(snapshot.seq, "event hash", snapshot.event_hash, hashed)
    # What it leads to, and not its bytes: it may have been written by an older version.
    kept = ServerState.restore(snapshot.state).snapshot()
    differ(snapshot.seq, "state", digest(kept), digest(exchange.snapshot()))


def differ(seq: int, what: str, stated: bytes, found: bytes) -> None:
    """Refuse a difference."""
    if stated != found:
        raise ReplayDiffersError(seq, what, stated, found)


def digest(state: bytes) -> bytes:
    """Make something short of a state, to be shown."""
    return hashlib.blake2b(state, digest_size=32).digest()
