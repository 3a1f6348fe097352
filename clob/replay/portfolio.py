"""What a strategy owns: collateral, YES and NO tokens, what they cost, what was earned.

Every amount is an integer in wei; nothing is rounded but where a rule below says so. Instruments
are numbered ``market * 2 + outcome``, YES being 0 and NO 1, and prices are ticks of which
``scale`` make a whole token.

**Trades.** A trade of ``size`` tokens at ``price`` moves ``size * price // scale`` collateral, the
one formula of the engine. Fees come on top (:mod:`clob.replay.fees`).

**Cost and profit.** A holding knows what was paid for all of it. Whatever leaves it takes along
its share of that cost, ``cost * leaving // held``, so that the last token takes the rest and no
wei is lost. What is realised is what was received less the share of the cost; a fee belongs to
what was paid or received. A holding below zero was sold short: its cost is below zero too, and
buying it back realises profit in the same way. Through zero, a trade counts as two.

**Splitting** a wei of collateral gives a wei of YES and a wei of NO, which cost half of it each,
NO the odd wei. **Merging** gives the wei back for both and realises what they cost less.
**Settling** pays for each token what the outcome says, and realises it.

Hence, always and exactly: ``collateral == initial + realised - (cost of all holdings)``, and
``wealth == initial + realised + unrealised``.
"""

import os
from typing import TYPE_CHECKING

from clob.replay.errors import PortfolioError

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._portfolio_py import Holding, Portfolio, share
else:
    try:
        from clob.replay._portfolio_c import Holding, Portfolio, share
    except ImportError:
        from clob.replay._portfolio_py import Holding, Portfolio, share

__all__ = ["Holding", "Portfolio", "PortfolioError", "share"]
