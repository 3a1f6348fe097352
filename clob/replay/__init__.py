"""Replays and backtests: recorded order flow through the Book, checked against recorded fills.

Readers open files as streams; :func:`backtest` runs a stream, with or without a strategy. This is
the only part of the package that requires NumPy: ``pip install "clob[replay]"``. Names that not
every replay uses are imported at first access.
"""

import importlib
from typing import TYPE_CHECKING, Any

from clob.errors import PackageMissingError
from clob.records import BEST, EVENT, FILL, Flag, Kind
from clob.replay.backtest import backtest
from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import Divergences
from clob.replay.errors import PortfolioError, ReplayFormatError, ReplayWarning
from clob.replay.io.detect import detect, open_stream
from clob.replay.io.npz import read_npz, write_npz
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Recording
from clob.replay.io.streams import Instrument, Stream, merge
from clob.replay.results import Backtest
from clob.replay.sim.fees import Charge, CurveFees, RateFees, Traded, no_fees
from clob.replay.sim.market_view import Fill, MarketView, OutcomeView, OwnOrder
from clob.replay.sim.orders import OrderState
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy

if TYPE_CHECKING:
    from clob.replay.io.write import write_stream
    from clob.replay.readers.dbn import read_dbn
    from clob.replay.readers.lobster import read_lobster
    from clob.replay.readers.mbo import read_mbo
    from clob.replay.readers.tables import read_table
    from clob.replay.samples.synthetic import sample_path, synthetic_day
    from clob.replay.sim.latency import Latency, between
else:
    _LAZY = {
        "Latency": "sim.latency",
        "between": "sim.latency",
        "read_dbn": "readers.dbn",
        "read_lobster": "readers.lobster",
        "read_mbo": "readers.mbo",
        "read_table": "readers.tables",
        "sample_path": "samples.synthetic",
        "synthetic_day": "samples.synthetic",
        "write_stream": "io.write",
    }

    def __getattr__(name: str) -> Any:
        """Import a name at first access."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = importlib.import_module(f"{__name__}.{_LAZY[name]}")
        globals()[name] = value = getattr(home, name)
        return value


__all__ = [
    "BEST",
    "EVENT",
    "FILL",
    "Backtest",
    "Charge",
    "Comparison",
    "CurveFees",
    "Divergences",
    "Fill",
    "Flag",
    "Instrument",
    "Kind",
    "Latency",
    "MarketView",
    "OrderState",
    "OutcomeView",
    "OwnOrder",
    "PackageMissingError",
    "Portfolio",
    "PortfolioError",
    "Problems",
    "RateFees",
    "Recording",
    "ReplayFormatError",
    "ReplayWarning",
    "Strategy",
    "Stream",
    "Traded",
    "backtest",
    "between",
    "detect",
    "merge",
    "no_fees",
    "open_stream",
    "read_dbn",
    "read_lobster",
    "read_mbo",
    "read_npz",
    "read_table",
    "sample_path",
    "synthetic_day",
    "write_npz",
    "write_stream",
]
