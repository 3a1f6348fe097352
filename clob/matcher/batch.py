"""Execution of batches: each command with its own result, or all of them or none."""

from typing import TYPE_CHECKING, Any, TypeAlias

from clob.commands import Batch
from clob.errors import RejectedError
from clob.events import Event, Rejected
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
    for inner in command.commands:
        try:
            results.append(engine.execute_at(inner, now_ms))
        except RejectedError as error:
            results.append(error)
    return results


def all_or_none(
    engine: "Engine", command: Batch, now_ms: int, *, keep: bool = True
) -> list[list[Event]]:
    """Execute every command, or roll all of them back; with ``keep=False`` in any case.

    Raises:
        RejectedError: a command was rejected; its ``index`` is the command's.
    """
    number, steps = engine.number, []  # type: ignore[var-annotated]
    engine.undo = steps
    results: list[list[Event]] = []
    try:
        for inner in command.commands:
            if keep and len(results) + 1 == len(command.commands):
                # The last command needs no reverse steps: a rejection of it changes nothing.
                engine.undo = None
            results += [engine.execute_at(inner, now_ms)]
    except RejectedError as error:
        error.index, keep = len(results), False
        raise
    finally:
        engine.undo = None
        if not keep:
            rollback.roll_back(steps)
            engine.number = number
    return results
