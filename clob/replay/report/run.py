"""The result of a run as a report reads it, so that reports do not depend on the results module."""

# ruff: noqa: D102 - the members are documented by Backtest and Setting

from collections.abc import Mapping, Sequence
from typing import Protocol

from clob.book import Book
from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import Divergences
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument
from clob.replay.metrics import RunMetrics
from clob.replay.modes.sampling import Depths
from clob.replay.sim.portfolio import Portfolio


class ReportedSetting(Protocol):
    """The part of :class:`clob.replay.results.Setting` that a report reads."""

    @property
    def lo(self) -> int: ...

    @property
    def hi(self) -> int: ...

    @property
    def lot_wei(self) -> int: ...

    @property
    def instruments(self) -> tuple[Instrument, ...]: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def last_ns(self) -> int: ...

    @property
    def note(self) -> str: ...

    @property
    def mark(self) -> str: ...

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def problems(self) -> Mapping[str, int]: ...


class ReportedRun(Protocol):
    """The part of :class:`clob.replay.Backtest` that a report reads."""

    @property
    def name(self) -> str: ...

    @property
    def mode(self) -> str: ...

    @property
    def events(self) -> int: ...

    @property
    def fills(self) -> Records: ...

    @property
    def bests(self) -> Records: ...

    @property
    def orders(self) -> Records: ...

    @property
    def own_fills(self) -> Records: ...

    @property
    def equity(self) -> Records: ...

    @property
    def positions(self) -> Records: ...

    @property
    def check(self) -> Comparison | None: ...

    @property
    def divergence(self) -> Divergences: ...

    @property
    def books(self) -> Mapping[int, Book]: ...

    @property
    def portfolio(self) -> Portfolio | None: ...

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def setting(self) -> ReportedSetting: ...

    @property
    def outcome(self) -> Mapping[int, int]: ...

    @property
    def rejections(self) -> Mapping[str, int]: ...

    @property
    def depths(self) -> Depths | None: ...

    @property
    def fees(self) -> str: ...

    @property
    def metrics(self) -> RunMetrics | None: ...

    @property
    def digest(self) -> str: ...
