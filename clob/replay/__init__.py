"""Replays and backtests: recorded order flow through the Book, checked against recorded fills.

Readers open files as streams; :func:`backtest` runs a stream, with or without a strategy. This is
the only part of the package that requires NumPy: ``pip install "clob[replay]"``. Names that not
every replay uses are imported at first access.
"""

# ruff: noqa: E402 - the packages are checked before the imports that need them

import importlib
from typing import TYPE_CHECKING, Any

from clob.errors import PackageMissingError, check_installed

check_installed("clob.replay", "replay", "numpy")

from clob.records import BEST, EVENT, FILL, Flag, Kind
from clob.replay.backtest import backtest
from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import Divergences
from clob.replay.errors import PortfolioError, ReplayFormatError, ReplayWarning, SweepError
from clob.replay.io.detect import detect, open_stream
from clob.replay.io.npz import read_npz, write_npz
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Recording
from clob.replay.io.streams import Instrument, Stream, merge, pair
from clob.replay.results import Backtest
from clob.replay.sim.fees import Charge, Commission, CurveFees, RateFees, Traded, no_fees
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
    from clob.replay.sim.delays import between, lognormal, quantiles, read_delays, sampled
    from clob.replay.sim.latency import Latency
    from clob.replay.sweeps.mapped import map_stream
    from clob.replay.sweeps.sweep import sweep
    from clob.replay.sweeps.walk import walk_forward
else:
    _LAZY = {
        "Latency": "sim.latency",
        "between": "sim.delays",
        "lognormal": "sim.delays",
        "map_stream": "sweeps.mapped",
        "quantiles": "sim.delays",
        "read_delays": "sim.delays",
        "sampled": "sim.delays",
        "read_dbn": "readers.dbn",
        "read_lobster": "readers.lobster",
        "read_mbo": "readers.mbo",
        "read_table": "readers.tables",
        "sample_path": "samples.synthetic",
        "sweep": "sweeps.sweep",
        "synthetic_day": "samples.synthetic",
        "walk_forward": "sweeps.walk",
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
    "Commission",
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
    "SweepError",
    "Traded",
    "backtest",
    "between",
    "detect",
    "lognormal",
    "map_stream",
    "merge",
    "no_fees",
    "open_stream",
    "pair",
    "quantiles",
    "read_dbn",
    "read_delays",
    "read_lobster",
    "read_mbo",
    "read_npz",
    "read_table",
    "sample_path",
    "sampled",
    "sweep",
    "synthetic_day",
    "walk_forward",
    "write_npz",
    "write_stream",
]
