"""Several commands as one: each with its own result, or all of them or none."""

from typing import TYPE_CHECKING, Any, TypeAlias

from clob.book.validation import show
from clob.commands import Batch, Cancel, CancelAll, Reduce, Replace, Submit
from clob.errors import BatchTooLargeError, InvalidCommandError, RejectedError
from clob.events import Event, Rejected
from clob.matcher import rollback
from clob.units import TIME_MAX

if TYPE_CHECKING:
    from clob.matcher.engine import Engine

KINDS = (Submit, Cancel, CancelAll, Reduce, Replace)
"""What a batch may hold."""

Result: TypeAlias = list[Event] | RejectedError
"""What came of one command."""


def refuse_batch(desk: "Engine", command: Batch, now_ms: int) -> None:
    """Refuse a batch that is none, empty or too large."""
    if type(command.commands) is not tuple or type(command.atomic) is not bool:
        raise InvalidCommandError("a batch needs a tuple of commands, and True or False for atomic")
    for inner in command.commands:
        if type(inner) not in KINDS:
            names = ", ".join(kind.__name__ for kind in KINDS)
            raise InvalidCommandError(f"a batch may hold {names}, not {show(inner)}")
        if type(inner.now_ms) is not int or not 0 <= inner.now_ms <= TIME_MAX:
            raise InvalidCommandError(
                f"now_ms of a command in a batch must be an integer from 0 to {TIME_MAX}, "
                f"not {show(inner.now_ms)}"
            )
    if not 1 <= len(command.commands) <= desk.limits.batch_max:
        raise BatchTooLargeError(
            f"a batch holds 1 to {desk.limits.batch_max} commands, not {len(command.commands)}"
        )


def batch(desk: "Engine", command: Batch, now_ms: int) -> list[Any]:
    """Execute a batch and give all its events, with a ``Rejected`` for each command refused."""
    events: list[Event | Rejected] = []
    desk.results = _results(desk, command, now_ms)
    for index, result in enumerate(desk.results):
        if isinstance(result, RejectedError):
            events.append(Rejected(index, result.code, str(result)))
        else:
            events += result
    return events


def _results(desk: "Engine", command: Batch, now_ms: int) -> list[Result]:
    """Execute a batch; an atomic one raises the first refusal, and nothing was done."""
    if command.atomic:
        return list(all_or_none(desk, command, now_ms))
    found: list[Result] = []
    for inner in command.commands:
        try:
            found.append(desk.execute_at(inner, now_ms))
        except RejectedError as error:
            found.append(error)
    return found


def all_or_none(
    desk: "Engine", command: Batch, now_ms: int, *, keep: bool = True
) -> list[list[Event]]:
    """Execute every command, or take all of them back; in any case unless they are to be kept.

    Raises:
        RejectedError: a command was refused; its ``index`` says which.
    """
    number, steps = desk.number, []  # type: ignore[var-annotated]
    desk.undo = steps
    found: list[list[Event]] = []
    try:
        for inner in command.commands:
            if keep and len(found) + 1 == len(command.commands):
                # The last one need not be taken back: it is done, or refused and changes nothing.
                desk.undo = None
            found += [desk.execute_at(inner, now_ms)]
    except RejectedError as error:
        error.index, keep = len(found), False
        raise
    finally:
        desk.undo = None
        if not keep:
            rollback.take_back(steps)
            desk.number = number
    return found
