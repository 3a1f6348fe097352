"""Both kinds of matcher under the same commands, with all checks after each."""

from typing import NamedTuple

from clob import Batch, Expire, Matcher, Rejected, RejectedError
from tests.matcher_model.witness import Witness


class Rejection(NamedTuple):
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
        return Rejection.of(error)


def results(matcher, command):
    """Apply a command; return its events, of a batch by command, or its rejection."""
    if type(command) is not Batch or type(command.commands) is not tuple:
        return outcome(matcher, command)
    try:
        return matcher.batch(command.commands, command.now_ms, atomic=command.atomic)
    except RejectedError as error:
        return Rejection.of(error)


def flat(command, results):
    """Return the results of a batch as ``apply`` returns them."""
    if isinstance(results, Rejection) or not isinstance(command, Batch):
        return results
    events = []
    for index, result in enumerate(results):
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
        compiled = results(self.compiled, command)
        result = outcome(self.python, command)
        assert flat(command, compiled) == result, command
        # Equal is not the same: True is 1, and a Side is a number.
        assert repr(flat(command, compiled)) == repr(result), command
        self.commands.append(command)
        if isinstance(compiled, Rejection):
            self.rejected[compiled.name] = self.rejected.get(compiled.name, 0) + 1
        else:
            self.witness.apply(command, compiled)
            if type(command) is Expire:
                # A hash may be forgotten a second too early, which shows in that second only.
                self.witness.hashes_agree(self.compiled)
        return result

    def careful_step(self, command):
        """Apply a command, check all invariants, and return the result."""
        before = self.compiled.snapshot()
        predicted = [Rejection.of(matcher.check(command)) for matcher in self.both]
        assert before == self.compiled.snapshot() == self.python.snapshot(), "check changed it"
        result = self.step(command)
        rejection = result if isinstance(result, Rejection) else None
        assert predicted == [rejection, rejection], command
        if rejection:
            assert before == self.compiled.snapshot() == self.python.snapshot(), command
        self.compare()
        return result

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
