"""Comparison of a book with the reference book, command by command."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clob.book._book_py import Book as ReferenceBook
from clob.commands import Cancel, Expire, Reduce, Replace, Submit
from clob.depth import Depth
from clob.errors import RejectedError
from clob.events import Event
from clob.order import Order, SelfTrade
from clob.testing.strategies import BookCommand, commands

EXAMPLES: Final = 200
"""Streams of commands that a check draws."""
SPREAD: Final = 2
"""Distance of drawn prices from the middle of the grid, in ticks."""


class BookLike(Protocol):
    """The calls of a book that :func:`check_book` compares; all return events."""

    def submit(self, order: Order, now_ms: int = ...) -> Sequence[Event]:
        """Match an order and rest its remainder."""

    def cancel(self, order_id: str | int, now_ms: int = ...) -> Sequence[Event]:
        """Remove an order."""

    def reduce(self, order_id: str | int, size: int, now_ms: int = ...) -> Sequence[Event]:
        """Reduce the remaining size of an order."""

    def replace(
        self,
        order_id: str | int,
        price: int,
        size: int,
        now_ms: int = ...,
        post_only: bool = ...,
        self_trade: SelfTrade | None = ...,
    ) -> Sequence[Event]:
        """Change the price or size of an order."""

    def expire(self, now_ms: int) -> Sequence[Event]:
        """Remove the orders that expired."""

    def depth(self) -> Depth:
        """Return the levels of both sides."""


class Outcome(NamedTuple):
    """Result of a command: its events, or the code of its rejection, and the depth after it."""

    result: list[Event] | str
    depth: Depth


def apply(book: BookLike, command: BookCommand) -> Sequence[Event]:
    """Execute a command on a book.

    Args:
        book: the book.
        command: a command of :func:`~clob.testing.commands`; its market is not used.

    Raises:
        RejectedError: as the method of the book.
    """
    match command:
        case Submit():
            return book.submit(command.order, command.now_ms)
        case Cancel():
            return book.cancel(command.order_id, command.now_ms)
        case Reduce():
            return book.reduce(command.order_id, command.size, command.now_ms)
        case Replace():
            return book.replace(
                command.order_id,
                command.price,
                command.size,
                command.now_ms,
                command.post_only,
                command.self_trade,
            )
        case Expire():
            return book.expire(command.now_ms)


def outcome(book: BookLike, command: BookCommand) -> Outcome:
    """Execute a command; another error than a rejection counts as a result as well."""
    try:
        result: list[Event] | str = list(apply(book, command))
    except RejectedError as rejection:
        result = rejection.code
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    return Outcome(result, book.depth())


class BookDiffersError(AssertionError):
    """A book has another result than the reference book.

    The message has the commands up to the difference, and both results.
    """

    def __init__(
        self, done: Sequence[BookCommand], subject: str, received: Any, expected: Any
    ) -> None:
        lines = [f"{subject} differs from the reference book after {len(done)} commands:"]
        lines += [f"  {command!r}" for command in done]
        super().__init__("\n".join([*lines, f"received: {received!r}", f"expected: {expected!r}"]))
        self.commands: list[BookCommand] = list(done)
        """The commands; the last one has another result, or leaves another depth."""
        self.received = received
        """Result or depth of the book."""
        self.expected = expected
        """Result or depth of the reference book."""


def compare(book: BookLike, reference: BookLike, stream: Sequence[BookCommand]) -> None:
    """Execute commands on two books and compare each result.

    Args:
        book: the book under test, without orders.
        reference: the book that is right, without orders.
        stream: the commands.

    Raises:
        BookDiffersError: a result or a depth differs.
    """
    for number, command in enumerate(stream, 1):
        received, expected = outcome(book, command), outcome(reference, command)
        if received.result != expected.result:
            raise BookDiffersError(stream[:number], "result", received.result, expected.result)
        if received.depth != expected.depth:
            raise BookDiffersError(stream[:number], "depth", received.depth, expected.depth)


def shortest(
    factory: Callable[[], BookLike],
    reference: Callable[[], BookLike],
    stream: Sequence[BookCommand],
) -> list[BookCommand]:
    """Return the commands of a difference without those that it does not need."""
    kept = list(stream)
    for index in reversed(range(len(kept))):
        shorter = kept[:index] + kept[index + 1 :]
        try:
            compare(factory(), reference(), shorter)
        except BookDiffersError as found:
            kept = found.commands
    return kept


def check_book(
    factory: Callable[[], BookLike],
    *,
    lo: int = 1,
    hi: int = 99,
    token: str = "",
    lot_wei: int = 1,
    market: str = "",
    examples: int = EXAMPLES,
    derandomize: bool = False,
) -> None:
    """Check that a book equals the reference book under random streams of commands.

    Events are compared as values, rejections by their ``code``, and the depth after each command. A
    difference is reported without the commands that it does not need.

    Args:
        factory: returns an empty book, such as the class itself.
        lo: lowest price of the book, in ticks.
        hi: highest price of the book, in ticks.
        token: token of the book.
        lot_wei: lot of the book, in wei.
        market: market that the book names in its events.
        examples: streams to draw.
        derandomize: draw the same streams in every run.

    Raises:
        BookDiffersError: a result or a depth differs.

    >>> from clob import Book
    >>> check_book(Book, examples=10)
    """
    middle = (lo + hi) // 2
    near = st.integers(max(lo, middle - SPREAD), min(hi, middle + SPREAD))

    def reference() -> ReferenceBook:
        return ReferenceBook(lo, hi, token, lot_wei, 0, market)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=derandomize,
        report_multiple_bugs=False,
        print_blob=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(commands(lot_wei, token=token, prices=near))
    def check(stream: list[BookCommand]) -> None:
        compare(factory(), reference(), stream)

    try:
        check()
    except BookDiffersError as found:
        compare(factory(), reference(), shortest(factory, reference, found.commands))
        raise
