"""Runs a stream through books, with a strategy in it or without, and checks what comes of it."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from clob.book import Book
from clob.order import SelfTrade
from clob.replay.check.compare import Checker
from clob.replay.errors import ReplayFormatError
from clob.replay.io.chunk import Played
from clob.replay.io.streams import CHUNK, Stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.modes.sampling import Sampler
from clob.replay.results import Backtest, Collector, own_tables, refusals_of, setting_of
from clob.replay.sim.driver import NEVER, Driver, Stop
from clob.replay.sim.fees import Fees, no_fees
from clob.replay.sim.latency import Latency
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy
from clob.units import TICKS_MAX

if TYPE_CHECKING:
    from clob.replay.modes.shadow import ShadowDriver
    from clob.replay.sim.session import Session

MODES = ("rematch", "shadow")
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
    scale: int | None = None,
    outcome: Mapping[int, int] | None = None,
    check: Collection[str] = ("fills", "bests"),
    keep: Collection[str] = KEPT,
    sample: int | None = None,
    chunk: int = CHUNK,
    on_progress: Callable[[int], None] | None = None,
    book_class: type[Book] = Book,
) -> Backtest:
    """Run recorded order flow, and a strategy whose orders stand in the same queues.

    In the mode ``rematch`` recorded commands are executed against the queues as they are, own
    orders among them. Where what comes of one is not what was recorded, that is counted and
    explained; if no own order had a part in it, the book is put right and goes on as history says.

    In the mode ``shadow`` history is as it was, whatever own orders do: the recorded fills are
    taken off the recorded orders, and own orders stand beside those at their places in the queues.

    Args:
        stream: the recorded flow.
        mode: ``"rematch"`` or ``"shadow"``.
        strategy: what trades; None only replays.
        every_ns: how often the strategy is woken; None is never.
        latency: how long its orders and the answers take; None is no time.
        self_trade: what happens where its orders meet one another.
        collateral: what it begins with, in wei; None is unlimited credit.
        fees: what each side of a trade of its own is charged.
        scale: how many ticks a whole token is worth; None is what the stream says, 100 where its
            reader cannot know.
        outcome: what a YES token is worth in the end, in ticks, by the number of the market.
        check: what is compared with the recorded: ``"fills"``, ``"bests"``. In ``rematch`` best
            prices are not where there is a strategy, whose orders are in the book.
        keep: which of the tables ``fills`` and ``bests`` to keep; what is not kept is counted and
            part of the digest, and needs no memory.
        sample: how many pictures of the books to take at equal times, for the depth in a report;
            :data:`~clob.replay.modes.sampling.SAMPLES` is good. None takes none, and no time.
        chunk: how many events are read at a time. The result does not depend on it.
        on_progress: called after each chunk with the number of events done;
            ``stream.progress`` tells how many bytes of how many.
        book_class: what to make the books of.

    Returns:
        The tables, the check, the divergences and the digest.

    Raises:
        ValueError: an argument is none of those named, or out of range; an outcome is of a market
            that the stream does not have.
        clob.replay.errors.PortfolioError: an outcome is no price from 0 to the scale.
        ReplayFormatError: the prices of the stream are too far apart for a book, as a broken one
            among them makes them; or the input is broken and the policy is to raise.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    _refuse_unknown("check", check, CHECKS)
    _refuse_unknown("keep", keep, frozenset(KEPT))
    _refuse_wide(stream)
    scale = stream.scale if scale is None else scale
    _refuse_outcomes(stream, outcome or {}, scale)
    compares_bests = "bests" in check and (strategy is None or mode == "shadow")
    checker = Checker(
        stream.lo, stream.hi, [one.number for one in stream.instruments], bests=compares_bests
    )
    collector = Collector(keep)
    hears = _hearing(collector, checker, on_progress)
    driver = _driver(mode, stream, chunk=chunk, book_class=book_class, **hears)
    sampler = None if sample is None else Sampler(driver, sample)
    session = None
    if strategy is not None:
        from clob.replay.sim.session import Session  # noqa: PLC0415 - a replay alone starts sooner

        session = Session(
            strategy,
            sampler or driver,
            stream.instruments,
            every_ns=every_ns,
            latency=latency,
            portfolio=Portfolio(collateral, fees=fees, scale=scale),
            self_trade=self_trade,
        )
    _run(driver, sampler or driver, session, outcome or {})
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
        books=driver.books if isinstance(driver, StreamDriver) else driver.history,
        portfolio=session.portfolio if session else None,
        counts=collector.counts,
        sections=collector.sections,
        setting=setting_of(stream, driver.start_ns, driver.last_ns),
        outcome=dict(outcome or {}),
        refusals=refusals_of(session),
        depths=sampler.depths() if sampler else None,
        **own_tables(session),
    )


def _driver(mode: str, stream: Stream, **how: Any) -> "StreamDriver | ShadowDriver":
    """Make what executes a stream in a mode."""
    if mode == "rematch":
        return StreamDriver(stream, **how)
    from clob.replay.modes.shadow import ShadowDriver  # noqa: PLC0415 - the other mode starts sooner

    return ShadowDriver(stream, **how)


def _hearing(
    collector: Collector, checker: Checker, on_progress: Callable[[int], None] | None
) -> dict[str, Any]:
    """Say who hears of each chunk that is done, and of differences, and where rows are written."""

    def sink(played: Played) -> None:
        """Hear of a chunk."""
        collector.take(played)
        checker.take(played)
        if on_progress is not None:
            on_progress(played.base + len(played.events))

    return {"sink": sink, "on_difference": checker.differ, "rooms": collector.rooms}


def _run(
    driver: "StreamDriver | ShadowDriver",
    player: Driver,
    session: "Session | None",
    outcome: Mapping[int, int],
) -> None:
    """Run to the end, and settle the markets whose outcome is known."""
    if session is None:
        player.advance(NEVER, Stop.NO)
    else:
        session.run()
    driver.close()
    if session is not None:
        for market, price in outcome.items():
            session.account.settle(driver.last_ns, market, price)
        for seat in session.seats:
            seat.leave()


def _refuse_wide(stream: Stream) -> None:
    """Refuse a stream whose grid no book can have."""
    if stream.hi - stream.lo >= TICKS_MAX:
        raise ReplayFormatError(
            f"{stream.name}: prices from {stream.lo} to {stream.hi} ticks, of which a book has "
            f"{TICKS_MAX} at most; read it with a grid of those that matter"
        )


def _refuse_outcomes(stream: Stream, outcome: Mapping[int, int], scale: int) -> None:
    """Refuse at once what would go unheard, or end the run when all is done."""
    trial = Portfolio(scale=scale)
    markets = sorted({one.number // 2 for one in stream.instruments})
    for market, price in outcome.items():
        if market not in markets:
            raise ValueError(f"an outcome is of market {market!r}, the stream has {markets}")
        if type(price) is not int:
            raise ValueError(f"an outcome is an integer of ticks, not {price!r}")
        trial.settle(market, price)


def _refuse_unknown(name: str, given: Collection[str], known: frozenset[str]) -> None:
    """Refuse words that say nothing."""
    for word in given:
        if word not in known:
            raise ValueError(f"{name} must be of {', '.join(sorted(known))}, not {word!r}")
