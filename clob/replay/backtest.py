"""Runs a stream through books, with a strategy in it or without, and checks what comes of it."""

from collections.abc import Callable, Collection, Mapping

from clob.book import Book
from clob.order import SelfTrade
from clob.replay.checking import Checker
from clob.replay.driver import NEVER, Stop
from clob.replay.driving import StreamDriver
from clob.replay.fees import CENTS, Fees, no_fees
from clob.replay.latency import Latency
from clob.replay.played import Played
from clob.replay.portfolio import Portfolio
from clob.replay.results import Backtest, Collector, own_tables
from clob.replay.scheduling import Session
from clob.replay.strategy import Strategy
from clob.replay.streams import CHUNK, Stream

MODES = ("rematch",)
CHECKS = frozenset({"fills", "bests"})
KEPT = ("fills", "bests")


def backtest(
    stream: Stream,
    *,
    mode: str = "rematch",
    strategy: Strategy | None = None,
    every_ns: int | None = None,
    latency: Latency | None = None,
    self_trade: SelfTrade = SelfTrade.CANCEL_INCOMING,
    collateral: int | None = None,
    fees: Fees = no_fees,
    scale: int = CENTS,
    outcome: Mapping[int, int] | None = None,
    check: Collection[str] = ("fills", "bests"),
    keep: Collection[str] = KEPT,
    chunk: int = CHUNK,
    on_progress: Callable[[int], None] | None = None,
    book_class: type[Book] = Book,
) -> Backtest:
    """Run recorded order flow, and a strategy whose orders stand in the same queues.

    Recorded commands are executed against the queues as they are, own orders among them. Where
    what comes of one is not what was recorded, that is counted and explained; if no own order
    had a part in it, the book is put right and goes on as history says.

    Args:
        stream: the recorded flow.
        mode: ``"rematch"``.
        strategy: what trades; None only replays.
        every_ns: how often the strategy is woken; None is never.
        latency: how long its orders and the answers take; None is no time.
        self_trade: what happens where its orders meet one another.
        collateral: what it begins with, in wei; None is unlimited credit.
        fees: what each side of a trade of its own is charged.
        scale: how many ticks a whole token is worth.
        outcome: what a YES token is worth in the end, in ticks, by the number of the market.
        check: what is compared with the recorded: ``"fills"``, ``"bests"``. Best prices are not
            where there is a strategy, whose orders are in the book.
        keep: which of the tables ``fills`` and ``bests`` to keep; what is not kept is counted and
            part of the digest, and needs no memory.
        chunk: how many events are read at a time. The result does not depend on it.
        on_progress: called after each chunk with the number of events done;
            ``stream.progress`` tells how many bytes of how many.
        book_class: what to make the books of.

    Returns:
        The tables, the check, the divergences and the digest.

    Raises:
        ValueError: an argument is none of those named, or out of range.
        ReplayFormatError: the input is broken and the policy is to raise.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    _refuse_unknown("check", check, CHECKS)
    _refuse_unknown("keep", keep, frozenset(KEPT))
    compares_bests = "bests" in check and strategy is None
    checker = Checker(
        stream.lo, stream.hi, [one.number for one in stream.instruments], bests=compares_bests
    )
    collector = Collector(keep)

    def sink(played: Played) -> None:
        """Hear of a chunk that is done."""
        collector.take(played)
        checker.take(played)
        if on_progress is not None:
            on_progress(played.base + len(played.events))

    driver = StreamDriver(
        stream, chunk=chunk, sink=sink, on_difference=checker.differ, book_class=book_class
    )
    session = None
    if strategy is not None:
        session = Session(
            strategy,
            driver,
            stream.instruments,
            every_ns=every_ns,
            latency=latency,
            portfolio=Portfolio(collateral, fees=fees, scale=scale),
            self_trade=self_trade,
        )
    _run(driver, session, outcome or {})
    comparison = checker.comparison()
    says = ("fills" in check and stream.has_fills) or bool(comparison.bests)
    return Backtest(
        name=stream.name,
        mode=mode,
        events=driver.events,
        fills=collector.table("fills"),
        bests=collector.table("bests"),
        check=comparison if says else None,
        divergence=checker.divergences(),
        books=driver.books,
        portfolio=session.portfolio if session else None,
        counts=collector.counts,
        sections=collector.sections,
        **own_tables(session),
    )


def _run(driver: StreamDriver, session: Session | None, outcome: Mapping[int, int]) -> None:
    """Run to the end, and settle the markets whose outcome is known."""
    if session is None:
        driver.advance(NEVER, Stop.NO)
    else:
        session.run()
    driver.close()
    if session is not None:
        for market, price in outcome.items():
            session.account.settle(driver.last_ns, market, price)


def _refuse_unknown(name: str, given: Collection[str], known: frozenset[str]) -> None:
    """Refuse words that say nothing."""
    for word in given:
        if word not in known:
            raise ValueError(f"{name} must be of {', '.join(sorted(known))}, not {word!r}")
