"""Execution of batches: each command with its own result, or all of them or none."""

from typing import TYPE_CHECKING, Any, TypeAlias

from clob.commands import Batch
from clob.errors import RejectedError, TooManyTradesError
from clob.events import Event, PairedTrade, Rejected, Trade
from clob.matcher import rollback

if TYPE_CHECKING:
    from clob.matcher.engine import Engine

Result: TypeAlias = list[Event] | RejectedError
"""The events of one command, or its rejection."""


def batch(engine: "Engine", command: Batch, now_ms: int) -> list[Any]:
    """Execute a batch and return all its events, with a ``Rejected`` per rejected command."""
    events: list[Event | Rejected] = []
    engine.results = _results(engine, command, now_ms)
    for index, result in enumerate(engine.results):
        if isinstance(result, RejectedError):
            events.append(Rejected(index, result.code, str(result)))
        else:
            events += result
    return events


def _results(engine: "Engine", command: Batch, now_ms: int) -> list[Result]:
    """Return the result of each command; an atomic batch raises its first rejection."""
    if command.atomic:
        return list(all_or_none(engine, command, now_ms))
    results: list[Result] = []
    trades_max = engine.trades_max
    try:
        for inner in command.commands:
            try:
                results.append(_execute(engine, inner, now_ms, trades_max))
            except RejectedError as error:
                results.append(error)
    finally:
        engine.trades_max = trades_max
    return results


def all_or_none(
    engine: "Engine", command: Batch, now_ms: int, *, keep: bool = True
) -> list[list[Event]]:
    """Execute every command, or roll all of them back; with ``keep=False`` in any case.

    Raises:
        RejectedError: a command was rejected; its ``index`` is the command's.
    """
    number, trades_max, steps = engine.number, engine.trades_max, []  # type: ignore[var-annotated]
    engine.undo = steps
    results: list[list[Event]] = []
    try:
        for inner in command.commands:
            if keep and len(results) + 1 == len(command.commands) and not engine.asleep:
                # The last command needs no reverse steps: a rejection of it changes nothing, but
                # it may wake orders of a snapshot.
                engine.undo = None
            results += [_execute(engine, inner, now_ms, trades_max)]
    except RejectedError as error:
        error.index, keep = len(results), False
        raise
    finally:
        engine.undo, engine.trades_max = None, trades_max
        if not keep:
            rollback.roll_back(steps)
            engine.number = number
    return results


def _execute(engine: "Engine", command: Any, now_ms: int, trades_max: int) -> list[Event]:
    """Execute one command of a batch, and lower the limit of trades for those that follow.

    The orders of a batch share the limit; each may make one trade in any case.
    """
    try:
        events: list[Event] = engine.execute_at(command, now_ms)
    except TooManyTradesError as error:
        if engine.trades_max == trades_max:
            raise
        rule = f"the orders of a batch may make {trades_max} trades together, and each of them one"
        raise TooManyTradesError(f"{error}; {rule}") from None
    if len(events) > 1:
        traded = sum(type(event) is Trade for event in events)
        # Both trades of a mint or merge are one.
        traded += sum(type(event) is PairedTrade for event in events) // 2
        engine.trades_max = max(1, engine.trades_max - traded)
    return events
