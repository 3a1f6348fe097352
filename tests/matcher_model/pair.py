"""Both kinds of matcher under the same commands, and all that must hold after each of them."""

from typing import NamedTuple

from clob import Batch, Expire, Matcher, Rejected, RejectedError
from tests.matcher_model.witness import Witness


class Refusal(NamedTuple):
    """What a command was refused for."""

    name: str
    words: str
    index: int | None
    """Which command of an atomic batch."""

    @classmethod
    def of(cls, error):
        """Take down an error; give None for None."""
        return error and cls(type(error).__name__, str(error), error.index)


def outcome(matcher, command):
    """Execute a command; give its events, or its refusal."""
    try:
        return matcher.apply(command)
    except RejectedError as error:
        return Refusal.of(error)


def results(matcher, command):
    """Execute a command; give its events, those of a batch by command, or its refusal."""
    if type(command) is not Batch or type(command.commands) is not tuple:
        return outcome(matcher, command)
    try:
        return matcher.batch(command.commands, command.now_ms, atomic=command.atomic)
    except RejectedError as error:
        return Refusal.of(error)


def flat(command, found):
    """Give the results of a batch as ``apply`` gives them."""
    if isinstance(found, Refusal) or not isinstance(command, Batch):
        return found
    events = []
    for index, result in enumerate(found):
        refused = isinstance(result, RejectedError)
        events += [Rejected(index, result.code, str(result))] if refused else result
    return events


class Pair:
    """The plain-Python matcher and the compiled one, and the witness of both."""

    def __init__(self, python_class, compiled_class):
        self.python, self.compiled = python_class(), compiled_class()
        self.witness, self.commands = Witness(), []
        self.refused = {}

    def step(self, command):
        """Execute a command on both; they must tell the same. Give what they told."""
        found = results(self.compiled, command)
        told = outcome(self.python, command)
        assert flat(command, found) == told, command
        # Equal is not the same: True is 1, and a Side is a number.
        assert repr(flat(command, found)) == repr(told), command
        self.commands.append(command)
        if isinstance(found, Refusal):
            self.refused[found.name] = self.refused.get(found.name, 0) + 1
        else:
            self.witness.hear(command, found)
            if type(command) is Expire:
                # A hash may be forgotten a second too early, which shows in that second only.
                self.witness.hashes_agree(self.compiled)
        return told

    def careful_step(self, command):
        """Execute a command, and demand all that must hold then; give what was told."""
        before = self.compiled.snapshot()
        foretold = [Refusal.of(matcher.check(command)) for matcher in self.both]
        assert before == self.compiled.snapshot() == self.python.snapshot(), "a question changed it"
        told = self.step(command)
        refusal = told if isinstance(told, Refusal) else None
        assert foretold == [refusal, refusal], command
        if refusal:
            assert before == self.compiled.snapshot() == self.python.snapshot(), command
        self.compare()
        return told

    def compare(self):
        """Demand that both are in the same state, sound, and what they told."""
        assert self.compiled.snapshot() == self.python.snapshot()
        for matcher in self.both:
            matcher.audit()
            self.witness.agrees(matcher)

    @property
    def both(self):
        """Give both."""
        return self.python, self.compiled

    def restart(self):
        """Go on with matchers restored from snapshots, each from that of the other kind."""
        snapshots = self.compiled.snapshot(), self.python.snapshot()
        self.python, self.compiled = (
            type(matcher).restore(snapshot)
            for matcher, snapshot in zip(self.both, snapshots, strict=True)
        )
        assert (self.python.snapshot(), self.compiled.snapshot()) == snapshots

    def fork(self):
        """Go on with forks; what happens to those left behind must not matter."""
        left = self.both
        self.python, self.compiled = (matcher.fork() for matcher in left)
        return left

    def replayed(self):
        """Demand that the stream, refused commands included, leads to the same state again."""
        matcher = Matcher()
        report = matcher.replay(self.commands)
        assert matcher.state_hash() == self.compiled.state_hash()
        assert report.applied == len(self.commands) - sum(self.refused.values())
        assert sum(report.refused.values()) == sum(self.refused.values())
