"""What a strategy owns: collateral, YES and NO tokens, what they cost, what was earned.

Every amount is an integer in wei; nothing is rounded but where a rule below says so. Instruments
are numbered ``market * 2 + outcome``, YES being 0 and NO 1, and prices are ticks of which
``scale`` make a whole token.

**Trades.** A trade of ``size`` tokens at ``price`` moves ``size * price // scale`` collateral, the
one formula of the engine. Fees come on top (:mod:`clob.replay.sim.fees`).

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

from collections.abc import Mapping

from clob.order import Side
from clob.replay.errors import PortfolioError
from clob.replay.io.recording import CENTS
from clob.replay.sim.fees import FREE, Charge, Fees, Traded, no_fees

# Looking a member of an enum up takes a tenth of a microsecond, comparing with one as long.
BUY = int(Side.BUY)


class Holding:
    """Tokens of one instrument, and what was paid for them."""

    __slots__ = ("cost", "held", "size")

    def __init__(self) -> None:
        """Hold nothing."""
        self.size: int = 0
        """How many tokens, in wei; below 0 they are owed."""
        self.cost: int = 0
        """What was paid for them, in wei of collateral; below 0 it was received."""
        self.held: int = 0
        """How many of them resting sell orders hold, in wei."""

    def copy(self) -> "Holding":
        """Copy it as it is."""
        other = Holding()
        other.size, other.cost, other.held = self.size, self.cost, self.held
        return other

    def move(self, size: int, paid: int) -> int:
        """Take tokens in, or give some out.

        Args:
            size: tokens received, in wei; below 0 given away.
            paid: collateral paid, in wei; below 0 received.

        Returns:
            The profit that was realised by it, in wei.
        """
        if size == 0:
            return -paid
        if self.size == 0 or (self.size > 0) == (size > 0):
            self.size += size
            self.cost += paid
            return 0
        moved, held = abs(size), abs(self.size)
        if moved == held:
            closed_for, released = paid, self.cost
        elif moved < held:
            closed_for, released = paid, share(self.cost, moved, held)
        else:
            closed_for, released = share(paid, held, moved), self.cost
        self.size += size
        self.cost += paid - closed_for - released
        return -closed_for - released


class Portfolio:
    """Everything a strategy owns in all its markets.

    Args:
        collateral: what it begins with, in wei. None is unlimited credit: it begins with 0, no
            order is refused for want of money or tokens, and both may go below zero. Otherwise
            resting buys hold their collateral, resting sells their tokens, and what is not
            covered is refused. Fees are not held beforehand, so they alone can take the
            collateral below zero.
        fees: what each side of a trade is charged.
        scale: how many ticks a whole token is worth.

    >>> mine = Portfolio(collateral=1_000)
    >>> mine.split(market=0, size=100)
    >>> mine.trade(instrument=1, side=Side.SELL, price=45, size=100, resting=True)
    Charge(collateral=0, tokens=0)
    >>> mine.collateral, mine.size(0), mine.size(1), mine.realised
    (945, 100, 0, -5)
    >>> mine.settle(market=0, price=100)
    >>> mine.collateral, mine.realised
    (1045, 45)
    """

    def __init__(
        self, collateral: int | None = None, *, fees: Fees = no_fees, scale: int = CENTS
    ) -> None:
        """Begin with collateral alone."""
        if collateral is not None and (type(collateral) is not int or collateral < 0):
            raise ValueError(f"collateral must be None or 0 or more wei, not {collateral!r}")
        if type(scale) is not int or scale < 1:
            raise ValueError(f"scale must be an integer of 1 or more, not {scale!r}")
        self.covered: bool = collateral is not None
        """Whether orders, splits and merges must be covered."""
        self.initial: int = collateral or 0
        """The collateral it began with, in wei."""
        self.collateral: int = self.initial
        """The collateral it has, in wei, what resting buys hold included."""
        self.held: int = 0
        """How much of that resting buys hold, in wei."""
        self.realised: int = 0
        """The profit realised so far, in wei, fees taken off."""
        self.fees_paid: int = 0
        """The fees paid in collateral, in wei."""
        self.holdings: dict[int, Holding] = {}
        """The tokens by their instrument; what was never touched is not there."""
        self.fees: Fees = fees
        """What each side of a trade is charged."""
        self.scale: int = scale
        """How many ticks a whole token is worth."""

    def fork(self) -> "Portfolio":
        """Copy it as it is; what happens to one says nothing to the other."""
        other = Portfolio(self.initial, fees=self.fees, scale=self.scale)
        other.covered = self.covered
        other.collateral, other.held = self.collateral, self.held
        other.realised, other.fees_paid = self.realised, self.fees_paid
        for instrument, holding in self.holdings.items():
            other.holdings[instrument] = holding.copy()
        return other

    # ----- looking -----------------------------------------------------------------------------

    def size(self, instrument: int) -> int:
        """Give how many tokens of an instrument it has, in wei."""
        holding = self.holdings.get(instrument)
        return holding.size if holding else 0

    @property
    def cost(self) -> int:
        """What was paid for all holdings together, in wei."""
        return sum(holding.cost for holding in self.holdings.values())

    def value(self, marks: Mapping[int, int]) -> int:
        """Value all holdings.

        Args:
            marks: what a token is worth, in **half** ticks, by instrument: the best bid and the
                best ask added up. What is held and not marked is worth what it cost.

        Returns:
            Wei of collateral, each holding rounded towards zero.
        """
        total = 0
        for instrument, holding in self.holdings.items():
            mark = marks.get(instrument)
            if mark is None:
                total += holding.cost
            elif holding.size:
                total += share(mark, holding.size, 2 * self.scale)
        return total

    def wealth(self, marks: Mapping[int, int]) -> int:
        """Give collateral and the value of all holdings, in wei; marks as in :meth:`value`."""
        return self.collateral + self.value(marks)

    def unrealised(self, marks: Mapping[int, int]) -> int:
        """Give the profit there is on paper, in wei; marks as in :meth:`value`."""
        return self.value(marks) - self.cost

    # ----- trading -----------------------------------------------------------------------------

    def trade(self, instrument: int, side: Side, price: int, size: int, resting: bool) -> Charge:
        """Take in one side of a trade.

        Args:
            instrument: which token.
            side: whether it was bought or sold.
            price: in ticks.
            size: tokens, in wei.
            resting: whether the own order rested.

        Returns:
            The fee that was charged.
        """
        charge = FREE
        if self.fees is not no_fees:
            charge = self.fees(Traded(side, price, size, resting, self.scale))
        paid = size * price // self.scale
        if side == BUY:
            self._move(instrument, size - charge.tokens, paid + charge.collateral)
        else:
            self._move(instrument, -size - charge.tokens, charge.collateral - paid)
        self.fees_paid += charge.collateral
        return charge

    def split(self, market: int, size: int) -> None:
        """Turn collateral into as many YES and NO tokens.

        Args:
            market: which market.
            size: how many of each, in wei.

        Raises:
            PortfolioError: the size is not positive, or more than the free collateral.
        """
        self._check_size(size, self.collateral - self.held if self.covered else None)
        self._move(2 * market, size, size // 2)
        self._move(2 * market + 1, size, size - size // 2)

    def merge(self, market: int, size: int) -> None:
        """Turn as many YES and NO tokens back into collateral.

        Args:
            market: which market.
            size: how many of each, in wei.

        Raises:
            PortfolioError: the size is not positive, or more than it has of one of them.
        """
        self._check_size(size, min(self.free(2 * market), self.free(2 * market + 1)))
        self._move(2 * market, -size, -(size // 2))
        self._move(2 * market + 1, -size, size // 2 - size)

    def settle(self, market: int, price: int) -> None:
        """Pay out all tokens of a market, and let nothing of them remain.

        Args:
            market: which market.
            price: what a YES token is worth, in ticks: the scale if YES won, 0 if NO won,
                between them if the market ended without a winner. NO is worth the rest.

        Raises:
            PortfolioError: the price is out of range.
        """
        if not 0 <= price <= self.scale:
            raise PortfolioError(f"a market settles at 0 to {self.scale} ticks, not {price}")
        for instrument, worth in ((2 * market, price), (2 * market + 1, self.scale - price)):
            size = self.size(instrument)
            if size:
                self._move(instrument, -size, -share(worth, size, self.scale))

    # ----- holding back for resting orders -----------------------------------------------------

    def free(self, instrument: int) -> int:
        """Give how many tokens of an instrument no resting order holds, in wei."""
        holding = self.holdings.get(instrument)
        return holding.size - holding.held if holding else 0

    def hold(self, instrument: int, side: Side, price: int, size: int) -> bool:
        """Hold back what an order may need, or find that there is not enough.

        Args:
            instrument: which token.
            side: of the order.
            price: its limit, in ticks.
            size: what is left of it, in wei.

        Returns:
            Whether it was there; if not, nothing was changed. With unlimited credit always.
        """
        if not self.covered:
            return True
        if side == BUY:
            needed = size * price // self.scale
            if needed > self.collateral - self.held:
                return False
            self.held += needed
        else:
            if size > self.free(instrument):
                return False
            self.holdings[instrument].held += size
        return True

    def release(self, instrument: int, side: Side, price: int, size: int, left: int = 0) -> None:
        """Let go of what was held for an order.

        Args:
            instrument: as it was held.
            side: as it was held.
            price: as it was held.
            size: what was left of the order until now, in wei.
            left: what is left of it from now on, in wei.
        """
        if not self.covered:
            return
        if side == BUY:
            self.held -= size * price // self.scale - left * price // self.scale
        else:
            self.holdings[instrument].held -= size - left

    # ----- helpers -----------------------------------------------------------------------------

    def _check_size(self, size: int, limit: int | None) -> None:
        """Refuse a size that is none, or above the limit."""
        if type(size) is not int or size < 1:
            raise PortfolioError(f"size must be 1 wei or more, not {size!r}")
        if limit is not None and size > limit:
            raise PortfolioError(f"size must be at most {max(limit, 0)} wei, not {size}")

    def _move(self, instrument: int, size: int, paid: int) -> None:
        """Exchange tokens for collateral."""
        holding = self.holdings.get(instrument)
        if holding is None:
            holding = self.holdings[instrument] = Holding()
        self.collateral -= paid
        self.realised += holding.move(size, paid)


def share(amount: int, part: int, whole: int) -> int:
    """Give ``amount * part / whole`` rounded towards zero, so that signs make no difference.

    Args:
        amount: what is shared.
        part: how much of the whole is meant.
        whole: above 0.

    >>> share(7, 1, 2), share(-7, 1, 2), share(7, 2, 2)
    (3, -3, 7)
    """
    product = amount * part
    return product // whole if product >= 0 else -(-product // whole)


# MERGED clob.replay.sim.portfolio: What a strategy owns, as :mod:`clob.replay.sim.portfolio` says it.
#
# Compiled as it stands, with the types of ``_portfolio_c.pxd``.
