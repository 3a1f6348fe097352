"""``clob-server repair-clock``: takes back the time of a log that was written with a wrong clock.

Nothing in the log is changed: a command is appended, so that the repair can be replayed and seen.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from clob import (
    Batch,
    Mode,
    OrderRecord,
    OrderRemoved,
    RejectedError,
    RemovalReason,
    RemoveMarket,
    ResetClock,
    SetMode,
    SpentHash,
    Submit,
)
from clob.errors import UnknownOrderError
from clob.journal import Outcome
from clob.program import print_text
from clob_server.cli.exit_codes import DONE, UNUSABLE, complain
from clob_server.core.clock import CLOCK_FILE, SKEW_MAX_S, wall_clock_ms
from clob_server.core.commands import AnyCommand, encode
from clob_server.core.recovery import commands_of, recover
from clob_server.core.sequencer import accepted_orders
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.follower import start_snapshot
from clob_server.log import Folder, SqliteLog

BY_TIME: Final = (RemovalReason.EXPIRED, RemovalReason.MARKET)
"""Reasons of cancels that a wrong time may have caused: expiry, and the end of an unused market."""
SPENT_MAX: Final = 10_000
"""Hashes in one command."""


class Findings:
    """The effects of the commands after a time.

    Args:
        state: the state before the first command that :meth:`apply` gets.
        now_ms: the right time now, Unix milliseconds.
    """

    def __init__(self, state: ServerState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.num_commands: int = 0
        """Number of commands with a later time."""
        self.cancelled: list[tuple[OrderRemoved, OrderRecord | None]] = []
        """Orders that those commands cancelled, as expired or with their market."""
        self._hashes: dict[bytes, SpentHash] = {}
        self._resting: dict[str | int, OrderRecord] = {}
        self._modes: dict[str, Mode] = {}

    def apply(self, command: AnyCommand) -> None:
        """Apply a command, and note its effects if its time is later."""
        if command.now_ms <= self.now_ms:
            outcome_of(self.state, command)
            return
        matcher = self.state.matcher
        if not self.num_commands:
            self._resting = {each.order.id: each for each in matcher.open_orders()}
            self._hashes = {each.order_hash: each for each in matcher.spent_hashes()}
            markets, opened = self.state.markets, self.state.registry.opened
            self._modes = {name: markets[name].mode for name in opened if name in markets}
        self.num_commands += 1
        outcome = outcome_of(self.state, command)
        if isinstance(outcome, RejectedError):
            return
        self._note_hashes(command, outcome)
        for event in outcome:
            if isinstance(event, OrderRemoved) and event.reason in BY_TIME:
                self.cancelled.append((event, self._record(event.order_id)))

    def spent(self) -> list[SpentHash]:
        """Return the hashes of executed orders that are valid now but were dropped as expired."""
        now_s, matcher = self.now_ms // 1000, self.state.matcher
        return [
            each
            for each in self._hashes.values()
            if each.expiration_s >= now_s
            and each.nonce >= matcher.nonce(each.maker)
            and not matcher.is_used(each.order_hash)
        ]

    def unfinished(self) -> list[SetMode | RemoveMarket]:
        """Return the commands about markets whose removal as unused had begun.

        A halted one opens again; a resolved one, which cannot, is removed.
        """
        state, now_ms = self.state, self.now_ms
        commands: list[SetMode | RemoveMarket] = []
        for name, mode in self._modes.items():
            if name in state.registry.opened and name not in state.traded:
                now = state.markets[name].mode
                if now is Mode.RESOLVED:
                    commands.append(RemoveMarket(market=name, now_ms=now_ms))
                elif now is Mode.HALTED and mode is not Mode.HALTED:
                    commands.append(SetMode(market=name, mode=mode, now_ms=now_ms))
        return commands

    def _note_hashes(self, command: AnyCommand, outcome: Outcome) -> None:
        """Note the hashes of the signed orders that a command placed."""
        if type(command) not in (Submit, Batch) or isinstance(outcome, RejectedError):
            return
        for submit in accepted_orders(command, outcome):
            order, order_hash = submit.order, submit.order_hash
            if order_hash is not None:
                terms = (order.maker, order.nonce, order.expiration_s)
                self._hashes[order_hash] = SpentHash(order_hash, *terms)

    def _record(self, order_id: str | int) -> OrderRecord | None:
        """Return an order that was removed; None if no details are known."""
        try:
            return self.state.matcher.order(order_id)
        except UnknownOrderError:
            return self._resting.get(order_id)


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the command, without its action."""
    repairing = commands.add_parser(
        "repair-clock",
        help="take back the time of a log that was written with a wrong clock",
        description="Take the time of a log back to the clock of this machine, after the log was "
        "written with a clock that was ahead. First correct the clock, and stop the server. The "
        "orders that the wrong time had expired, or removed with an unused market, are listed; "
        "they stay cancelled. Without --yes nothing is written.",
        epilog="Exit code: 0 the log was repaired, would be, or is not ahead; 1 the log is "
        "damaged; 2 the folder is unusable.",
    )
    repairing.add_argument(
        "--data-dir", dest="folder", metavar="FOLDER", required=True, help="the data folder"
    )
    repairing.add_argument("--yes", action="store_true", help="append the command to the log")
    repairing.set_defaults(accept_tail=False)
    return repairing


def repair_clock(log: SqliteLog, arguments: argparse.Namespace) -> int:
    """List the effects of a wrong time on a log, and take its time back."""
    state, hashed, _ = recover(log)
    now_ms = wall_clock_ms() + state.registry.ahead_ms
    print_text(f"clock {text_of(now_ms)}, log {text_of(state.now_ms)}\n")
    if state.now_ms <= now_ms + SKEW_MAX_S * 1000:
        print_text("the log is not ahead of the clock; nothing to repair\n")
        return DONE
    found = findings(log, Path(arguments.folder), now_ms)
    if found is None:
        return complain(
            f"the commands up to {log.origin.seq} were deleted from the log after its time went "
            "wrong, so the signed orders that were executed before are not known",
            UNUSABLE,
        )
    spent = found.spent()
    print_text(f"{found.num_commands:,} commands have a later time than the clock\n")
    print_text(
        f"{len(found.cancelled):,} orders were cancelled by them, as expired or with their market\n"
    )
    for line in lines_of(found):
        print_text(line)
    print_text(f"{len(spent):,} executed signed orders were dropped and stay executed\n")
    unfinished = found.unfinished()
    for each in unfinished:
        done = "removed" if type(each) is RemoveMarket else "opened again"
        print_text(f"market {each.market}, whose removal as unused had begun, is {done}\n")
    if not arguments.yes:
        print_text("nothing was written; repeat with --yes if the clock is right\n")
        return DONE
    commands: list[AnyCommand] = [*resets_of(spent, now_ms), *unfinished]
    for command in commands:
        state.apply(command)
    log.append([encode(each) for each in commands], log.tail.seq, event_hash=hashed)
    (Path(arguments.folder) / CLOCK_FILE).unlink(missing_ok=True)
    print_text(f"the time of the log is {text_of(state.now_ms)} from command {log.tail.seq} on\n")
    return DONE


def findings(log: SqliteLog, folder: Path, now_ms: int) -> Findings | None:
    """Replay a log; None if it begins after its time went wrong."""
    start = start_snapshot(Folder(folder), log.origin.seq, log.origin.seq)
    found = Findings(ServerState() if start is None else start[1](), now_ms)
    if found.state.now_ms > now_ms:
        return None
    for frame in log.read(0 if start is None else start[0].seq):
        for command in commands_of(frame):
            found.apply(command)
    return found


def resets_of(spent: list[SpentHash], now_ms: int) -> list[ResetClock]:
    """Return the commands that set the time and keep the hashes."""
    parts = [spent[begin : begin + SPENT_MAX] for begin in range(0, len(spent), SPENT_MAX)]
    return [ResetClock(now_ms=now_ms, spent=tuple(part)) for part in parts or [[]]]


def lines_of(found: Findings) -> Iterator[str]:
    """Yield a line per order that was cancelled."""
    for event, record in found.cancelled:
        line = f"  {event.order_id} {event.reason.value} market {event.market} token {event.token}"
        if record is not None:
            order = record.order
            line += f" maker {order.maker} {order.side.name} at {order.price}"
            line += f" expiration {text_of(order.expiration_s * 1000)}"
        yield f"{line} left {event.remaining} wei\n"


def text_of(time_ms: int) -> str:
    """Return a time in UTC; as milliseconds if it is beyond the calendar."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
