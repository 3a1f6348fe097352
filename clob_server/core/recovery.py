"""From a log to the state that it leads to, and a snapshot of that state for the next time."""

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
    """Make the state that a log leads to: its newest snapshot, and the commands since.

    Frames state the event hash before their first command. So all but the last frame are done
    without hashing what comes of them, which is what ``clob verify`` is for.

    Args:
        log: the log.

    Returns:
        The state, the event hash after the last command, and how many commands were done again.

    Raises:
        LogDamagedError: a frame or the snapshot is not what was written, or they do not belong
            together.
        InvalidSnapshotError: the state of the snapshot cannot be read.
    """
    snapshot = log.get_snapshot()
    exchange = ServerState() if snapshot is None else ServerState.restore(snapshot.state)
    hashed, after = (ZERO_HASH, 0) if snapshot is None else (snapshot.event_hash, snapshot.seq)
    before = after
    last: Frame | None = None
    for frame in log.read(after):
        check(frame, before, hashed if last is None else None)
        if last is not None:
            exchange.replay(commands_of(last))
        last, before = frame, frame.first_seq + frame.count - 1
    if last is not None:
        hashed = done_again(exchange, last, last.event_hash or hashed)
    return exchange, hashed, before - after


def done_again(exchange: ServerState, frame: Frame, hashed: bytes) -> bytes:
    """Do the commands of a frame, and give the event hash after them."""
    for command in commands_of(frame):
        outcome = outcome_of(exchange, command)
        if type(command) in ENGINE:
            hashed = event_hash(hashed, outcome)
    return hashed


def check(frame: Frame, before: int, hashed: bytes | None) -> None:
    """Refuse a frame that does not follow the snapshot, by its number or by its event hash."""
    if frame.first_seq != before + 1:
        raise LogDamagedError(f"command {before + 1} is within the frame from {frame.first_seq}")
    if frame.event_hash is None:
        raise LogDamagedError(f"the frame from command {frame.first_seq} states no event hash")
    if hashed is not None and frame.event_hash != hashed:
        raise LogDamagedError(
            f"before command {frame.first_seq} the event hash was {frame.event_hash.hex()}, "
            f"and here it is {hashed.hex()}"
        )


def commands_of(frame: Frame) -> list[AnyCommand]:
    """Give the commands of a frame.

    Raises:
        InvalidBytesError: what stands for a command of the engine is none.
        LogDamagedError: what stands for one of the server is none.
    """
    try:
        commands = [decode_own(raw) if raw[0] >= OWN else decode(raw) for raw in frame.raw]
    except (InvalidBytesError, IndexError):  # the latter of no bytes at all
        commands = []
    if len(commands) != frame.count or not _KINDS.issuperset(map(type, commands)):
        frame.commands()  # says which of them is none, and where
    return commands


def take_snapshot(log: Log, exchange: ServerState, hashed: bytes) -> Snapshot:
    """Keep a snapshot of the state after the last command.

    Beside a running engine only within a listener, where log and state are at the same command.

    Args:
        log: the log; the exchange must have taken in all of it.
        exchange: the state.
        hashed: the event hash after the last command.

    Returns:
        The snapshot, which is durable.
    """
    tail = log.tail
    snapshot = Snapshot(
        seq=tail.seq, chain_hash=tail.chain_hash, event_hash=hashed, state=exchange.snapshot()
    )
    log.put_snapshot(snapshot)
    return snapshot
