"""A log run again, every hash in it compared; and a log written out as a journal."""

from collections.abc import Iterator

from clob import Matcher
from clob.errors import ReplayDiffersError
from clob.journal import ZERO_HASH, Verified, encode_frame, verify
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


def audit(log: Log) -> Verified:
    """Run a log again from where it begins, and compare with all that it states.

    Where the beginning was dropped, it is run from the newest snapshot. Where it was not, the state
    of that snapshot is compared, too.

    Args:
        log: the log of a :class:`~clob.Matcher`.

    Returns:
        What was found, as for ``clob.journal.verify``.

    Raises:
        LogDamagedError: a frame or a snapshot is not what was written.
        ReplayDiffersError: the first difference, by the number of the command.
        InvalidSnapshotError: the state of the snapshot cannot be read.
    """
    snapshot = log.get_snapshot()
    if log.origin.seq:
        if snapshot is None:
            raise LogDamagedError(f"the commands up to {log.origin.seq} were dropped, unkept")
        return run(log, Matcher.restore(snapshot.state), snapshot)
    matcher = Matcher()
    start = Snapshot(seq=0, chain_hash=ZERO_HASH, event_hash=ZERO_HASH, state=b"")
    if snapshot is None:
        return run(log, matcher, start)
    before = run(log, matcher, start, snapshot.seq)
    kept = Matcher.restore(snapshot.state).state_hash()
    for what, stated, found in (
        ("event hash", snapshot.event_hash, before.event_hash),
        ("state hash", kept, before.state_hash),
    ):
        if stated != found:
            raise ReplayDiffersError(snapshot.seq, what, stated, found)
    rest = run(log, matcher, snapshot)
    refused = dict(before.refused)
    for code, count in rest.refused.items():
        refused[code] = refused.get(code, 0) + count
    return Verified(
        frames=before.frames + rest.frames,
        commands=before.commands + rest.commands,
        refused=refused,
        last_seq=rest.last_seq,
        event_hash=rest.event_hash,
        state_hash=rest.state_hash,
        chain_hash=rest.chain_hash,
    )


def run(log: Log, matcher: Matcher, start: Snapshot, up_to: int | None = None) -> Verified:
    """Run the frames after a snapshot, up to a command or to the end."""
    last = log.tail.seq if up_to is None else up_to
    return verify(
        journal_of(log, Tail(start.seq, start.chain_hash), last),
        matcher,
        previous=start.chain_hash,
        event_hash=start.event_hash,
        first_seq=start.seq + 1,
    )
