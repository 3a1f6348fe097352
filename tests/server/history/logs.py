"""Helpers: logs of random commands, and the rows of a history file."""

import random  # noqa: TID251 - seeded
from contextlib import closing

import apsw
import msgspec

from clob import Limits, Submit
from clob.journal import ZERO_HASH, event_hash
from clob_server.auth.api_keys import IDS, secret
from clob_server.core.commands import ENGINE, encode
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.follower import Replica
from clob_server.history.store import FILE, HistoryStore
from clob_server.log import SqliteLog
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import SMALL
from tests.server.engines import attachment

WORLD = msgspec.structs.replace(
    SMALL, limits=(Limits(finished_max=30, trades_max=5, batch_max=4),), broken=0.0, odd=0.0
)


def flow_of(seed, count):
    """Yield random commands, with signature records."""
    exchange = ServerState()
    flow = Flow(random.Random(seed), WORLD, exchange.matcher)
    for command in (*flow.opening(), *(None,) * count):
        command = command or flow.command()
        if type(command) is Submit and type(command.order.id) is str:
            command = msgspec.structs.replace(command, attachment=attachment())
        exchange.replay([command])
        yield command


def random_log(folder, seed=1, count=600, per_frame=7):
    """Write a log of random commands; return the number of commands."""
    return write_log(folder, flow_of(seed, count), per_frame)


def write_log(folder, commands, per_frame=1):
    """Write a log of commands, and the key of their ids; return their number."""
    exchange, hashed, seq = ServerState(), ZERO_HASH, 0
    commands = list(commands)
    with closing(SqliteLog(folder)) as log:
        for first in range(0, len(commands), per_frame):
            batch = commands[first : first + per_frame]
            before = hashed
            for command in batch:
                outcome = outcome_of(exchange, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            log.append([encode(each) for each in batch], seq, event_hash=before)
            seq += len(batch)
    secret(folder, IDS)
    return seq


def follow_log(folder, *, days=0, stop=None, snapshot_commands=0):
    """Follow a log to its end, or past a command; return the position."""
    with closing(SqliteLog(folder)) as log, closing(HistoryStore(folder, days)) as store:
        replica = Replica(
            folder,
            store,
            origin=log.origin.seq,
            tail=log.tail,
            snapshot_commands=snapshot_commands,
        )
        for frame in log.read(replica.at.seq):
            if stop is not None and frame.first_seq > stop:
                break
            replica.apply(frame)
            if replica.cadence.is_due:
                replica.snapshot()
        replica.write()
        return replica.at


def dump(folder):
    """Return all rows of a history file by table."""
    with closing(apsw.Connection(str(folder / FILE))) as db:
        return {
            table: db.execute(f"SELECT * FROM {table}").fetchall()
            for table in (
                *("applied", "orders", "trades", "settlements"),
                *("candles", "positions", "position_steps", "pruned"),
            )
        }
