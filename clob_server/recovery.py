"""From a log to the state that it leads to, and a snapshot of that state for the next time."""

from collections.abc import Callable
from typing import TypeVar

from clob import Command
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.log import Log, LogDamagedError, Snapshot
from clob_server.state import State, outcome_of

AnyState = TypeVar("AnyState", bound=State)


def recover(
    log: Log, new: Callable[[], AnyState], restore: Callable[[bytes], AnyState]
) -> tuple[AnyState, bytes, int]:
    """Make the state that a log leads to: its newest snapshot, and the commands since.

    Frames state the event hash before their first command. So all but the last frame are done
    without hashing what comes of them, which is what ``clob verify`` is for.

    Args:
        log: the log.
        new: makes the state before the first command.
        restore: makes the state of a snapshot.

    Returns:
        The state, the event hash after the last command, and how many commands were done again.

    Raises:
        LogDamagedError: a frame or the snapshot is not what was written, or they do not belong
            together.
        InvalidSnapshotError: the state of the snapshot cannot be read.
    """
    snapshot = log.get_snapshot()
    state = new() if snapshot is None else restore(snapshot.state)
    hashed, after = (ZERO_HASH, 0) if snapshot is None else (snapshot.event_hash, snapshot.seq)
    before = after
    last: Frame | None = None
    for frame in log.read(after):
        check(frame, before, hashed if last is None else None)
        if last is not None:
            state.replay(commands_of(last))
        last, before = frame, frame.first_seq + frame.count - 1
    if last is not None:
        hashed = last.event_hash or hashed
        for command in commands_of(last):
            hashed = event_hash(hashed, outcome_of(state, command))
    return state, hashed, before - after


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


def commands_of(frame: Frame) -> list[Command]:
    """Give the commands of a frame."""
    commands = []
    for command in frame.commands():
        if isinstance(command, bytes):
            raise LogDamagedError(f"a command is of kind {command[0]}, which is not known here")
        commands.append(command)
    return commands


def take_snapshot(log: Log, state: State, hashed: bytes) -> Snapshot:
    """Keep a snapshot of the state after the last command.

    Beside a running engine only within a listener, where log and state are at the same command.

    Args:
        log: the log; the state must have taken in all of it.
        state: the state.
        hashed: the event hash after the last command.

    Returns:
        The snapshot, which is durable.
    """
    tail = log.tail
    snapshot = Snapshot(
        seq=tail.seq, chain_hash=tail.chain_hash, event_hash=hashed, state=state.snapshot()
    )
    log.put_snapshot(snapshot)
    return snapshot
