"""What commands change, as the engine and recovery know it."""

from collections.abc import Iterable
from typing import Protocol

from clob import Command, RejectedError
from clob.journal import Outcome


class State(Protocol):
    """What commands change: a :class:`~clob.Matcher`, or something around one."""

    @property
    def now_ms(self) -> int:
        """The time of the last command."""

    def apply(self, command: Command) -> Outcome:
        """Do a command and give its events; raise a refusal and change nothing."""

    def replay(self, commands: Iterable[Command]) -> object:
        """Do commands, whether they are refused or not."""

    def snapshot(self) -> bytes:
        """Write the state."""


def outcome_of(state: State, command: Command) -> Outcome:
    """Do a command, and give its events or its refusal."""
    try:
        return state.apply(command)
    except RejectedError as refusal:
        return refusal
