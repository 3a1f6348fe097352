"""Both kinds of matcher under the same commands, with all checks after each."""

from typing import NamedTuple

from clob import Batch, Expire, Matcher, Rejected, RejectedError
from tests.matcher_model.witness import Witness


class Refusal(NamedTuple):
    """The rejection of a command."""

    name: str
    words: str
    index: int | None
    """Index of the command in an atomic batch."""

    @classmethod
    def of(cls, error):
        """Return the record of an error; None for None."""
        return error and cls(type(error).__name__, str(error), error.index)


def outcome(matcher, command):
    """Apply a command; return its events or its rejection."""
    try:
        return matcher.apply(command)
    except RejectedError as error:
        return Refusal.of(error)


def results(matcher, command):
    """Apply a command; return its events, of a batch by command, or its rejection."""
    if type(command) is not Batch or type(command.commands) is not tuple:
        return outcome(matcher, command)
    try:
        return matcher.batch(command.commands, command.now_ms, atomic=command.atomic)
    except RejectedError as error:
        return Refusal.of(error)


def flat(command, found):
    """Return the results of a batch as ``apply`` returns them."""
    if isinstance(found, Refusal) or not isinstance(command, Batch):
        return found
    events = []
    for index, result in enumerate(found):
        rejected = isinstance(result, RejectedError)
        events += [Rejected(index, result.code, str(result))] if rejected else result
    return events


class Pair:
    """The plain-Python matcher, the compiled one, and the witness of both."""

    def __init__(self, python_class, compiled_class):
        self.python, self.compiled = python_class(), compiled_class()
        self.witness, self.commands = Witness(), []
        self.rejected = {}

    def step(self, command):
        """Apply a command to both and return the result, which must be the same."""
        found = results(self.compiled, command)
        told = outcome(self.python, command)
        assert flat(command, found) == told, command
        # Equal is not the same: True is 1, and a Side is a number.
        assert repr(flat(command, found)) == repr(told), command
        self.commands.append(command)
        if isinstance(found, Refusal):
            self.rejected[found.name] = self.rejected.get(found.name, 0) + 1
        else:
            self.witness.hear(command, found)
            if type(command) is Expire:
                # A hash may be forgotten a second too early, which shows in that second only.
                self.witness.hashes_agree(self.compiled)
        return told

    def careful_step(self, command):
        """Apply a command, check all invariants, and return the result."""
        before = self.compiled.snapshot()
        foretold = [Refusal.of(matcher.check(command)) for matcher in self.both]
        assert before == self.compiled.snapshot() == self.python.snapshot(), "a question changed it"
        told = self.step(command)
        rejection = told if isinstance(told, Refusal) else None
        assert foretold == [rejection, rejection], command
        if rejection:
            assert before == self.compiled.snapshot() == self.python.snapshot(), command
        self.compare()
        return told

    def compare(self):
        """Check that both have the same valid state, which agrees with their events."""
        assert self.compiled.snapshot() == self.python.snapshot()
        for matcher in self.both:
            matcher.audit()
            self.witness.agrees(matcher)

    @property
    def both(self):
        """Return both."""
        return self.python, self.compiled

    def restart(self):
        """Continue with matchers restored from snapshots, each from that of the other kind."""
        snapshots = self.compiled.snapshot(), self.python.snapshot()
        self.python, self.compiled = (
            type(matcher).restore(snapshot)
            for matcher, snapshot in zip(self.both, snapshots, strict=True)
        )
        assert (self.python.snapshot(), self.compiled.snapshot()) == snapshots

    def fork(self):
        """Continue with forks; later changes of the originals must not matter."""
        left = self.both
        self.python, self.compiled = (matcher.fork() for matcher in left)
        return left

    def replayed(self):
        """Check that replaying the stream, rejected commands included, reaches the same state."""
        matcher = Matcher()
        report = matcher.replay(self.commands)
        assert matcher.state_hash() == self.compiled.state_hash()
        assert report.applied == len(self.commands) - sum(self.rejected.values())
        assert sum(report.rejected.values()) == sum(self.rejected.values())
