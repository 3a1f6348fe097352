"""Recovers the state from a log, and takes snapshots."""

from typing import Final

from clob.codec import decode
from clob.codec.layout import FIRST_FOREIGN_KIND as OWN
from clob.errors import InvalidBytesError
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.core.commands import ENGINE, SERVER, AnyCommand, decode_own
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import Log, LogDamagedError, Snapshot

_KINDS: Final = ENGINE | SERVER


def recover(log: Log) -> tuple[ServerState, bytes, int]:
    """Return the state of a log: its newest snapshot plus later commands.

    Frames contain the event hash before their first command, so only the last frame is hashed here;
    ``clob-server verify`` hashes all.

    Returns:
        The state, the event hash after the last command, and the number of replayed commands.

    Raises:
        LogDamagedError: the bytes of a frame or the snapshot were changed, or they do not match.
        InvalidSnapshotError: the state of the snapshot is unreadable.
    """
    snapshot = log.get_snapshot()
    state = ServerState() if snapshot is None else ServerState.restore(snapshot.state)
    hashed, after = (ZERO_HASH, 0) if snapshot is None else (snapshot.event_hash, snapshot.seq)
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
        raise LogDamagedError(f"command {before + 1} is within the frame from {frame.first_seq}")
    if frame.event_hash is None:
        raise LogDamagedError(f"the frame from command {frame.first_seq} has no event hash")
    if hashed is not None and frame.event_hash != hashed:
        raise LogDamagedError(
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
