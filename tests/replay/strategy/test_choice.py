"""What a strategy's orders pass is compiled wherever the book is, all of it or nothing."""

import importlib
import os

import pytest

from clob.replay.check import fill_diff
from clob.replay.modes import rematch
from clob.replay.sim import driver, latency, market_view, orders, portfolio, session

CHOSEN = {
    "comparing": fill_diff.Sides,
    "driving": rematch.StreamDriver,
    "fills": driver.OwnFill,
    "orders": orders.OwnOrder,
    "portfolio": portfolio.Portfolio,
    "scheduling": session.Session,
    "seats": market_view.MarketView,
    "ways": latency.Connection,
}


def surface(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_compiled_one_is_chosen_and_has_the_same_names(name):
    reason = "what a strategy's orders pass is not compiled"
    compiled = pytest.importorskip(f"clob.replay._{name}_c", reason=reason)
    plain = importlib.import_module(f"clob.replay._{name}_py")
    wanted = plain if os.environ.get("CLOB_PURE_PYTHON") == "1" else compiled
    kind = CHOSEN[name].__name__
    assert CHOSEN[name] is getattr(wanted, kind)
    # A plain class does not list what its instances have, so it may lack some.
    assert surface(getattr(plain, kind)) <= surface(getattr(compiled, kind))
