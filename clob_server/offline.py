"""What an operator changes in a data folder while no server has it: one command, durable, or none.

It is done as the server does it: recovered, checked, and added to the log in a frame of its own.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from clob_server.commands import Key, ServerCommand, encode
from clob_server.exchange import Exchange
from clob_server.log import SqliteLog
from clob_server.recovery import recover


def add_command(
    folder: Path, make: Callable[[int], ServerCommand], clock_ms: Callable[[], int]
) -> Exchange:
    """Do one command of the server's own, which has no events.

    Args:
        folder: the data folder; a log is made where there is none.
        make: takes the time and gives the command.
        clock_ms: tells the time, Unix milliseconds.

    Returns:
        The state after it.

    Raises:
        LogLockedError: a server has the folder.
        LogError: the log cannot be read, is damaged, or cannot be added to.
        RejectedError: a rule refuses the command, and nothing was written.
    """
    with closing(SqliteLog(folder)) as log:
        exchange, hashed, _ = recover(log)
        command = make(max(clock_ms(), exchange.now_ms))
        raw = encode(command)
        exchange.apply(command)
        log.append([raw], log.tail.seq, event_hash=hashed)
    return exchange


def keys_in(folder: Path) -> list[Key]:
    """List the keys of a data folder, in the sequence in which they were made.

    Raises:
        LogLockedError: a server has the folder.
        LogError: the log cannot be read, or is damaged.
    """
    with closing(SqliteLog(folder)) as log:
        exchange, _, _ = recover(log)
    return list(exchange.registry.keys.values())
