"""Runs a stream through books, with or without a strategy, and checks the result."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clob.book import Book
from clob.order import SelfTrade
from clob.replay.check.compare import Checker
from clob.replay.errors import PortfolioError, ReplayFormatError
from clob.replay.io.chunk import ReplayedChunk
from clob.replay.io.streams import CHUNK, Stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.modes.sampling import Sampler
from clob.replay.results import (
    Backtest,
    Collector,
    mids_of,
    own_tables,
    rejections_of,
    setting_of,
)
from clob.replay.sim.driver import NEVER, Driver, Stop
from clob.replay.sim.fee_schedules import FeeSchedule, fees_of
from clob.replay.sim.fees import Commission, Fees, no_fees
from clob.replay.sim.latency import Latency
from clob.replay.sim.marks import DEFAULT_MARK, EQUITY_EVERY_NS, check_mark, check_step
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy
from clob.units import TICKS_MAX

if TYPE_CHECKING:
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
    fees: Fees | str = no_fees,
    scale: int | None = None,
    outcome: Mapping[int, int] | None = None,
    mark: str = DEFAULT_MARK,
    equity_every_ns: int | None = EQUITY_EVERY_NS,
    horizons_ns: Sequence[int] = (),
    check: Collection[str] = ("fills", "bests"),
    keep: Collection[str] = KEPT,
    sample: int | None = None,
    chunk: int = CHUNK,
    on_progress: Callable[[int], None] | None = None,
    book_class: type[Book] = Book,
    driver_class: Callable[..., StreamDriver] | None = None,
) -> Backtest:
    """Run recorded order flow, with an optional strategy whose orders join the same queues.

    In ``rematch`` mode, recorded commands are executed against the current queues, own orders
    included. Fills that differ from the recorded ones are counted and explained; as long as no own
    order has traded, the book is then corrected to match history.

    In ``shadow`` mode, history is not affected by own orders: the recorded fills are applied to the
    recorded orders, and own orders are matched at their positions in the queues.

    Args:
        stream: the recorded flow.
        mode: ``"rematch"`` or ``"shadow"``.
        strategy: the strategy; None only replays.
        every_ns: interval of the strategy's ``on_wake``; None if it does not override it.
        latency: latency of its orders and of the replies; None for none.
        self_trade: policy when two own orders meet.
        collateral: its initial collateral, in wei; None for unlimited credit.
        fees: fee schedule of its trades, or its name in :mod:`clob.replay.sim.fee_schedules`.
        scale: ticks in the price of a whole token; None for the scale of the stream, which is 100
            if its reader does not know better.
        outcome: final value of a YES token in ticks, by market number.
        mark: the rule by which open positions are valued: ``"others-mid"``, ``"mid"``, ``"bid"`` or
            ``"last"``; see :data:`~clob.replay.sim.marks.MARKS`. It changes only ``equity``.
        equity_every_ns: step of rows of equity from the start, besides those at own fills and
            wakes; None for no step.
            :attr:`~clob.replay.results.Backtest.metrics` takes returns at this step.
        horizons_ns: times after each own fill at which the middle of others is recorded, for
            adverse selection in :attr:`~clob.replay.results.Backtest.metrics`; ``HORIZONS_NS`` of
            :mod:`clob.replay.metrics` are 1, 10 and 60 s. Each costs a stop for each fill.
        check: what to compare with the recording: ``"fills"``, ``"bests"``. In ``rematch``, best
            prices are not compared with a strategy, because its orders are in the book.
        keep: which of the tables ``fills`` and ``bests`` to keep; the others are counted and part
            of the digest, and need no memory.
        sample: depth snapshots of the books to take at equal times, for a report;
            :data:`~clob.replay.modes.sampling.SAMPLES` is a good number. None takes none.
        chunk: events read at a time. It does not affect the result.
        on_progress: called after each chunk with the number of executed events;
            ``stream.progress`` has the bytes read and the total.
        book_class: class of the books.
        driver_class: returns the driver of the mode, with the arguments of
            :class:`~clob.replay.modes.rematch.StreamDriver`; None for the usual one.

    Returns:
        The tables, the check, the divergences and the digest.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is unknown or out of range, an outcome is for a market that the
            stream does not have, or the strategy overrides ``on_wake`` and ``every_ns`` is None.
        clob.replay.errors.PortfolioError: an outcome is not a price from 0 to the scale, or fees of
            a venue are asked for where prices are steps of odds.
        ReplayFormatError: the prices of the stream are too far apart for a book, usually because
            one is broken; or the input is broken and the policy is to raise.
    """
    _check_types(stream, strategy, latency, outcome)
    _check_names(mode, check, keep, mark)
    _check_prices(stream, fees)
    _check_interval(strategy, every_ns)
    scale = stream.scale if scale is None else scale
    _check_outcomes(stream, outcome or {}, scale)
    check_step(equity_every_ns)
    compares_bests = "bests" in check and (strategy is None or mode == "shadow")
    numbers = [one.number for one in stream.instruments]
    checker = Checker(stream.lo, stream.hi, numbers, bests=compares_bests, inferred=stream.inferred)
    collector = Collector(keep)
    hooks = _callbacks(collector, checker, on_progress)
    driver = _driver_class(mode, driver_class)(stream, chunk=chunk, book_class=book_class, **hooks)
    sampler = None if sample is None else Sampler(driver, sample)
    session = None
    if strategy is not None:
        session = _session(
            strategy,
            sampler or driver,
            stream.instruments,
            every_ns=every_ns,
            latency=latency,
            portfolio=Portfolio(collateral, fees=fees_of(fees), scale=scale),
            self_trade=self_trade,
            mark=mark,
            equity_every_ns=equity_every_ns,
            horizons_ns=horizons_ns,
        )
    _run(driver, sampler or driver, session, outcome or {})
    comparison = checker.comparison()
    was_checked = ("fills" in check and stream.has_fills) or bool(comparison.bests)
    return Backtest(
        name=stream.name,
        mode=mode,
        events=driver.events,
        fills=collector.table("fills"),
        bests=collector.table("bests"),
        check=comparison if was_checked else None,
        divergence=checker.divergences(),
        books=driver.history,
        counts=collector.counts,
        sections=collector.sections,
        setting=setting_of(stream, driver.start_ns, driver.last_ns, mark, equity_every_ns),
        outcome=dict(outcome or {}),
        depths=sampler.depths() if sampler else None,
        **_own_results(session, horizons_ns),
    )


def _session(*arguments: Any, **options: Any) -> "Session":
    from clob.replay.sim.session import Session  # noqa: PLC0415 - a replay alone starts sooner

    return Session(*arguments, **options)


def _own_results(session: "Session | None", horizons_ns: Sequence[int]) -> dict[str, Any]:
    """Return the arguments of the result that a strategy sets."""
    account = session.account if session else None
    return {
        "portfolio": account.portfolio if account else None,
        "rejections": rejections_of(account),
        "horizons_ns": tuple(horizons_ns) if account else (),
        "mids": mids_of(account),
        **own_tables(account),
    }


def _check_interval(strategy: Strategy | None, every_ns: int | None) -> None:
    if every_ns is None and strategy is not None and wakes(strategy):
        name = type(strategy).__name__
        raise ValueError(f"{name} overrides on_wake, which needs every_ns; got None")


def wakes(strategy: Strategy | type[Strategy]) -> bool:
    """Return whether a strategy overrides ``on_wake``, so that it needs an interval."""
    made = strategy if isinstance(strategy, type) else type(strategy)
    return made.on_wake is not Strategy.on_wake


def _driver_class(
    mode: str, given: Callable[..., StreamDriver] | None
) -> Callable[..., StreamDriver]:
    if given is not None:
        return given
    if mode == "rematch":
        return StreamDriver
    from clob.replay.modes.shadow import ShadowDriver  # noqa: PLC0415 - the other mode starts sooner

    return ShadowDriver


def _callbacks(
    collector: Collector, checker: Checker, on_progress: Callable[[int], None] | None
) -> dict[str, Any]:
    """Return the driver's callbacks, and the buffers for its rows."""

    def sink(chunk: ReplayedChunk) -> None:
        collector.add(chunk)
        checker.add_chunk(chunk)
        if on_progress is not None:
            on_progress(chunk.base + len(chunk.events))

    return {"sink": sink, "on_difference": checker.on_difference, "buffers": collector.buffers}


def _run(
    driver: StreamDriver, player: Driver, session: "Session | None", outcome: Mapping[int, int]
) -> None:
    """Run to the end, and settle the markets with a known outcome."""
    if session is None:
        player.advance(NEVER, Stop.NO)
    else:
        session.run()
    driver.close()
    if session is not None:
        for market, price in outcome.items():
            session.account.settle(driver.last_ns, market, price)
        for view in session.markets:
            view.close()


def _check_types(stream: object, strategy: object, latency: object, outcome: object) -> None:
    """Raise for arguments whose attributes would be missing in the middle of a run."""
    if not isinstance(stream, Stream):
        expected = "a Stream, such as open_stream(path) or Stream.of(records)"
        raise TypeError(f"stream must be {expected}; got {type(stream).__name__}")
    if isinstance(strategy, type):
        name = strategy.__name__
        raise TypeError(f"strategy must be an object, such as {name}(); got the class {name}")
    for name, value, kind in (
        ("strategy", strategy, Strategy),
        ("latency", latency, Latency),
        ("outcome", outcome, Mapping),
    ):
        if not (value is None or isinstance(value, kind)):
            raise TypeError(f"{name} must be a {kind.__name__} or None; got {value!r:.99}")


def _check_prices(stream: Stream, fees: Fees | str) -> None:
    """Check that a book can hold the prices, and that fees of a venue are taken of money."""
    if stream.labels and isinstance(fees, str | FeeSchedule | Commission):
        raise PortfolioError(
            f"{stream.name}: fees of a venue need prices in money, but its ticks are steps of odds"
        )
    if stream.hi - stream.lo >= TICKS_MAX:
        raise ReplayFormatError(
            f"{stream.name}: prices from {stream.lo} to {stream.hi} ticks, but a book has at most "
            f"{TICKS_MAX} ticks; read it with a narrower grid"
        )


def _check_outcomes(stream: Stream, outcome: Mapping[int, int], scale: int) -> None:
    """Raise for an invalid outcome before the run, not at its end."""
    trial = Portfolio(scale=scale)
    markets = sorted({one.number // 2 for one in stream.instruments})
    for market, price in outcome.items():
        if market not in markets:
            raise ValueError(f"outcome has market {market!r}, but the stream has {markets}")
        if type(price) is not int:
            raise ValueError(f"an outcome must be an integer (ticks); got {price!r}")
        trial.settle(market, price)


def _check_names(mode: str, check: Collection[str], keep: Collection[str], mark: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    _check_choices("check", check, CHECKS)
    _check_choices("keep", keep, frozenset(KEPT))
    check_mark(mark)


def _check_choices(name: str, words: Collection[str], known: frozenset[str]) -> None:
    if isinstance(words, str):
        raise TypeError(f"{name} must be a collection of words, such as ({words!r},); got a text")
    for word in words:
        if word not in known:
            raise ValueError(f"{name} must be among {', '.join(sorted(known))}; got {word!r}")
