"""Runs the scenarios of ``tests/scenarios`` on both books; the README there has the grammar."""

from pathlib import Path

import pytest

from clob import (
    Cancel,
    Order,
    Reduce,
    RejectedError,
    Replace,
    SelfTrade,
    Side,
    Submit,
    TimeInForce,
    format_tokens,
    tokens,
)
from tests.books import Ledger, depth_lines, event_lines

FOLDER = Path(__file__).parent / "scenarios"
SCENARIOS = sorted(FOLDER.glob("*.txt"))


class Words:
    """The words of one line, read from the left."""

    def __init__(self, text):
        self.words = text.split()

    def take(self, *expected):
        """Read the next word, which must be one of ``expected`` if given."""
        word = self.words.pop(0)
        assert not expected or word in expected, f"expected one of {expected}; got {word!r}"
        return word

    def options(self, **readers):
        """Read the rest as options: a word, followed by the words of its reader."""
        options = {}
        while self.words:
            name = self.take().replace("-", "_")
            assert name in readers, f"unknown option: {name!r}"
            options |= readers[name]()
        return options

    def size(self):
        """Read a size in tokens; return wei."""
        return tokens(self.take())

    def price(self):
        """Read ``@`` and a price."""
        self.take("@")
        return int(self.take())

    def policy(self):
        """Read the name of a self-trade policy."""
        return {"self_trade": SelfTrade[self.take().upper().replace("-", "_")]}

    def at(self):
        """Read a time in milliseconds."""
        return {"now_ms": int(self.take())}


def read_command(text):
    """Parse a command line."""
    words = Words(text)
    match words.take():
        case "buy" | "sell" as side:
            return read_submit(words, Side[side.upper()])
        case "cancel":
            return Cancel(order_id=words.take(), **words.options(at=words.at))
        case "reduce":
            order_id, _ = words.take(), words.take("to")
            return Reduce(order_id=order_id, size=words.size(), **words.options(at=words.at))
        case "replace":
            fields = {"order_id": words.take(), "size": words.size(), "price": words.price()}
            options = words.options(at=words.at, stp=words.policy, post_only=post_only)
            return Replace(**fields, **options)
    raise AssertionError(f"unknown command: {text!r}")


def read_submit(words, side):
    """Read the rest of a ``buy`` or ``sell``."""
    fields = {"id": words.take(), "size": words.size(), "price": words.price(), "side": side}
    options = words.options(
        at=words.at,
        by=lambda: {"maker": words.take()},
        until=lambda: {"expiration_s": int(words.take())},
        ioc=lambda: {"time_in_force": TimeInForce.IOC},
        fok=lambda: {"time_in_force": TimeInForce.FOK},
        stp=words.policy,
        post_only=post_only,
    )
    if "expiration_s" in options:
        options.setdefault("time_in_force", TimeInForce.GTD)
    now_ms = options.pop("now_ms", 0)
    order = Order(token="", **({"maker": ""} | fields | options))
    return Submit(order=order, now_ms=now_ms)


def post_only():
    """Read the option ``post-only``, which has no argument."""
    return {"post_only": True}


def apply(book, command):
    """Execute a command on a book."""
    match command:
        case Submit():
            return book.submit(command.order, now_ms=command.now_ms)
        case Cancel():
            return book.cancel(command.order_id, now_ms=command.now_ms)
        case Reduce():
            return book.reduce(command.order_id, size=command.size, now_ms=command.now_ms)
        case Replace():
            return book.replace(
                command.order_id,
                price=command.price,
                size=command.size,
                now_ms=command.now_ms,
                post_only=command.post_only,
                self_trade=command.self_trade,
            )
    raise AssertionError(f"unknown command: {command!r}")


class Runner:
    """A book that runs a scenario."""

    def __init__(self, book):
        self.book = book
        self.ledger = Ledger()

    def run(self, text):
        """Execute a line; return its outcome as lines."""
        match text.split():
            case ["book"]:
                return self.levels()
            case ["queue", price]:
                return [o.order_id for o in self.book.orders() if o.price == int(price)]
            case ["expire", "at", now_ms]:
                return self.apply_events(self.book.expire(int(now_ms)))
        before = self.book.state_hash()
        try:
            return self.apply_events(apply(self.book, read_command(text)))
        except RejectedError as rejection:
            assert self.book.state_hash() == before, "a rejected command changed the book"
            return [f"rejected {rejection.code}"]

    def apply_events(self, events):
        """Check the events against earlier ones and the book; return them as lines."""
        self.ledger.apply(events)
        assert self.ledger.agrees(self.book)
        self.book.check()
        return event_lines(events, format_tokens)

    def levels(self):
        """Return the whole book as lines, the highest price first."""
        return depth_lines(self.book.depth(), format_tokens)


def read_scenario(text):
    """Return the scenario as a list of line number, command and expected lines."""
    scenario = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].rstrip()
        if not content:
            continue
        if content[0].isspace():
            scenario[-1][2].append(" ".join(content.split()))
        else:
            scenario.append((number, content, []))
    return scenario


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(book_class, path):
    runner = Runner(book_class())
    for number, command, expected in read_scenario(path.read_text(encoding="utf-8")):
        assert runner.run(command) == expected, f"{path.name}, line {number}: {command}"


def test_every_scenario_starts_with_a_description():
    assert len(SCENARIOS) >= 20
    for path in SCENARIOS:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_scenario_of_the_readme(book_class):
    fenced = (FOLDER / "README.md").read_text(encoding="utf-8").split("```")[1]
    runner = Runner(book_class())
    for _, command, expected in read_scenario(fenced):
        assert runner.run(command) == expected


@pytest.mark.parametrize("wrong", ["ask 50 21 1", "ask 50 20 1\n    bid 40 1 1", ""])
def test_unlisted_outcomes_fail(book_class, wrong):
    runner = Runner(book_class())
    runner.run("sell a 20 @ 50")
    ((_, command, expected),) = read_scenario(f"book\n    {wrong}")
    assert runner.run(command) != expected


@pytest.mark.parametrize(
    "line", ["hold a", "buy a 5 at 50", "buy a 5 @ 50 maybe", "reduce a 5", "buy a 5 @ 50 stp x"]
)
def test_invalid_line_raises(line):
    with pytest.raises((AssertionError, KeyError)):
        read_command(line)
