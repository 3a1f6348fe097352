"""Recovers the state from a log, and takes snapshots."""

import logging
from typing import Final

from clob.codec import decode
from clob.codec.layout import FIRST_FOREIGN_KIND as OWN
from clob.errors import InvalidBytesError, InvalidSnapshotError
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.core.commands import ENGINE, SERVER, AnyCommand, decode_own
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import Log, LogDamagedError, Snapshot

_KINDS: Final = ENGINE | SERVER
_LOG: Final = logging.getLogger("clob_server")


class SnapshotDiffersError(LogDamagedError):
    """A frame does not follow the state before it, such as that of a snapshot."""


def recover(log: Log) -> tuple[ServerState, bytes, int]:
    """Return the state of a log: its newest usable snapshot plus later commands.

    A damaged or foreign snapshot is set aside with a warning; the one before it is used, or the log
    from its beginning. Frames contain the event hash before their first command, so only the last
    frame is hashed here; ``clob-server verify`` hashes all.

    Returns:
        The state, the event hash after the last command, and the number of replayed commands.

    Raises:
        LogDamagedError: the bytes of a frame were changed, or no snapshot covers dropped commands.
    """
    problems: dict[str, str] = {}
    start = _usable_start(log, problems)
    if start is None and log.origin.seq:
        found = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise LogDamagedError(
            f"commands up to {log.origin.seq} were dropped and no usable snapshot covers them"
            f" ({found or 'there is no snapshot'}); `clob-server restore` installs a backup"
        )
    recovered = _replay(log, *(start or (ServerState(), ZERO_HASH, 0)))
    for name, problem in problems.items():
        _LOG.warning("a snapshot is passed over", extra={"snapshot": name, "reason": problem})
        log.set_aside(name)
    return recovered


def _usable_start(log: Log, problems: dict[str, str]) -> tuple[ServerState, bytes, int] | None:
    """Return state, event hash and command number of the newest usable snapshot; None without one.

    The problems of the newer ones are added to ``problems``.
    """
    for name, snapshot in log.snapshots():
        if isinstance(snapshot, str):
            problems[name] = snapshot
            continue
        try:
            state = ServerState.restore(snapshot.state)
            frame = next(log.read(snapshot.seq), None)
            if frame is not None:
                check(frame, snapshot.seq, snapshot.event_hash)
        except (InvalidSnapshotError, SnapshotDiffersError) as error:
            problems[name] = str(error)
        else:
            return state, snapshot.event_hash, snapshot.seq
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


def take_snapshot(log: Log, state: ServerState, hashed: bytes) -> Snapshot:
    """Store a durable snapshot of the state after the last command.

    State and event hash must include the whole log. While a sequencer runs, call this from a
    subscriber only, where they do.
    """
    seq, chain_hash = log.tail.seq, log.tail.chain_hash
    snapshot = Snapshot(seq=seq, chain_hash=chain_hash, event_hash=hashed, state=state.snapshot())
    log.put_snapshot(snapshot)
    return snapshot
