"""Acts out the stories of ``tests/scenarios`` on both books; their grammar is in its README."""

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
STORIES = sorted(FOLDER.glob("*.txt"))


class Words:
    """The words of one line, taken from the left."""

    def __init__(self, text):
        self.words = text.split()

    def take(self, *expected):
        """Take the next word, which must be one of those expected if any are."""
        word = self.words.pop(0)
        assert not expected or word in expected, f"{word!r} where {expected} must stand"
        return word

    def options(self, **readers):
        """Take all that is left as options, each a word with what its reader takes after it."""
        found = {}
        while self.words:
            name = self.take().replace("-", "_")
            assert name in readers, f"no option here: {name!r}"
            found |= readers[name]()
        return found

    def size(self):
        """Take a size in tokens, as wei."""
        return tokens(self.take())

    def price(self):
        """Take ``@`` and a price."""
        self.take("@")
        return int(self.take())

    def policy(self):
        """Take the name of a self-trade policy."""
        return {"self_trade": SelfTrade[self.take().upper().replace("-", "_")]}

    def at(self):
        """Take a time in milliseconds."""
        return {"now_ms": int(self.take())}


def read_command(text):
    """Turn a command line into a command."""
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
    raise AssertionError(f"no command: {text!r}")


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
    """Read the option ``post-only``, which is a word alone."""
    return {"post_only": True}


def apply(book, command):
    """Hand a command to the method of the book that executes it."""
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
    raise AssertionError(f"no command: {command!r}")


class Stage:
    """A book on which a story is acted out."""

    def __init__(self, book):
        self.book = book
        self.ledger = Ledger()

    def act(self, text):
        """Do what a line says, and tell what came of it as lines."""
        match text.split():
            case ["book"]:
                return self.levels()
            case ["queue", price]:
                return [o.order_id for o in self.book.orders() if o.price == int(price)]
            case ["expire", "at", now_ms]:
                return self.hear(self.book.expire(int(now_ms)))
        before = self.book.state_hash()
        try:
            return self.hear(apply(self.book, read_command(text)))
        except RejectedError as refusal:
            assert self.book.state_hash() == before, "a refusal changed the book"
            return [f"refused {refusal.code}"]

    def hear(self, events):
        """Check the events against those before them and the book, and tell them."""
        self.ledger.apply(events)
        assert self.ledger.agrees(self.book)
        self.book.check()
        return event_lines(events, format_tokens)

    def levels(self):
        """Tell the whole book as a ladder, the highest price first."""
        return depth_lines(self.book.depth(), format_tokens)


def read_story(text):
    """Give the story as a list of line number, command, and the lines expected of it."""
    story = []
    for number, line in enumerate(text.splitlines(), 1):
        says = line.partition("#")[0].rstrip()
        if not says:
            continue
        if says[0].isspace():
            story[-1][2].append(" ".join(says.split()))
        else:
            story.append((number, says, []))
    return story


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_written(book_class, path):
    stage = Stage(book_class())
    for number, command, expected in read_story(path.read_text(encoding="utf-8")):
        assert stage.act(command) == expected, f"{path.name}, line {number}: {command}"


def test_there_are_stories_and_each_says_what_it_is_about():
    assert len(STORIES) >= 20
    for path in STORIES:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_the_story_of_the_readme_goes_as_written(book_class):
    fenced = (FOLDER / "README.md").read_text(encoding="utf-8").split("```")[1]
    stage = Stage(book_class())
    for _, command, expected in read_story(fenced):
        assert stage.act(command) == expected


@pytest.mark.parametrize("wrong", ["ask 50 21 1", "ask 50 20 1\n    bid 40 1 1", ""])
def test_what_is_not_written_down_fails(book_class, wrong):
    stage = Stage(book_class())
    stage.act("sell a 20 @ 50")
    ((_, command, expected),) = read_story(f"book\n    {wrong}")
    assert stage.act(command) != expected


@pytest.mark.parametrize(
    "line", ["hold a", "buy a 5 at 50", "buy a 5 @ 50 maybe", "reduce a 5", "buy a 5 @ 50 stp x"]
)
def test_a_line_that_makes_no_sense_is_an_error(line):
    with pytest.raises((AssertionError, KeyError)):
        read_command(line)
