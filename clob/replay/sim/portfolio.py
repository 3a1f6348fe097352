"""A strategy's portfolio: collateral, YES and NO tokens, their cost, and realised profit.

Every amount is an integer in wei; the only roundings are those stated below. Instruments are
numbered ``market * 2 + outcome``, with YES 0 and NO 1. Prices are ticks, ``scale`` of which make
a whole token.

**Trades.** A trade of ``size`` tokens at ``price`` moves ``size * price // scale`` collateral, as
in the engine. Fees come on top (:mod:`clob.replay.sim.fees`); a commission on net winnings is
charged when the market settles.

**Cost and profit.** A holding has one total cost. Tokens that leave it take a proportional share,
``cost * leaving // size``; the last token takes the rest, so no wei is lost. The realised profit
is the proceeds minus that share; fees are part of the payment. A short position has a negative
size and cost, and buying it back realises profit in the same way. A trade through zero counts as
two trades.

**Splitting** one wei of collateral creates one wei of YES and one wei of NO at half the cost
each; NO takes the odd wei. **Merging** returns the collateral and realises the difference to the
cost. **Settling** pays the outcome's price for each token and realises the profit.

Therefore, always and exactly: ``collateral == initial + realised - (cost of all holdings)``, and
``wealth == initial + realised + unrealised``.
"""

from collections.abc import Mapping

from clob.order import Side
from clob.replay.errors import PortfolioError
from clob.replay.io.recording import CENTS
from clob.replay.sim.fee_schedules import FeeSchedule
from clob.replay.sim.fees import FREE, Charge, Commission, Fees, FeesByOrder, Traded, no_fees
from clob.units import format_tokens

# Looking up an enum member takes 0.1 us, comparing with one as long.
BUY = int(Side.BUY)


class Holding:
    """Tokens of one instrument, and their cost."""

    __slots__ = ("cost", "reserved", "size")

    def __init__(self) -> None:
        self.size: int = 0
        """Tokens, in wei; negative for a short position."""
        self.cost: int = 0
        """Collateral paid for them, in wei; negative if received."""
        self.reserved: int = 0
        """Tokens reserved by resting sell orders, in wei."""

    def copy(self) -> "Holding":
        """Return an independent copy."""
        other = Holding()
        other.size, other.cost, other.reserved = self.size, self.cost, self.reserved
        return other

    def move(self, size: int, paid: int) -> int:
        """Add or remove tokens.

        Args:
            size: tokens received, in wei; negative for tokens paid.
            paid: collateral paid, in wei; negative for collateral received.

        Returns:
            The realised profit, in wei.
        """
        if size == 0:
            return -paid
        if self.size == 0 or (self.size > 0) == (size > 0):
            self.size += size
            self.cost += paid
            return 0
        moved, whole = abs(size), abs(self.size)
        if moved == whole:
            closed_for, released = paid, self.cost
        elif moved < whole:
            closed_for, released = paid, share(self.cost, moved, whole)
        else:
            closed_for, released = share(paid, whole, moved), self.cost
        self.size += size
        self.cost += paid - closed_for - released
        return -closed_for - released


class Portfolio:
    """All collateral and tokens of a strategy, over all markets.

    Args:
        collateral: initial collateral, in wei. None is unlimited credit: it starts at 0, no order
            is rejected for insufficient balance, and collateral and tokens may become negative.
            Otherwise resting buy orders reserve collateral, resting sell orders reserve tokens, and
            uncovered orders are rejected. Fees are not reserved, so they alone can make the
            collateral negative.
        fees: fee schedule.
        scale: ticks in the price of a whole token.

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
        if collateral is not None and (type(collateral) is not int or collateral < 0):
            raise ValueError(
                f"collateral must be None or an integer of 0 or more (wei); got {collateral!r}"
            )
        if type(scale) is not int or scale < 1:
            raise ValueError(f"scale must be an integer of 1 or more; got {scale!r}")
        self.covered: bool = collateral is not None
        """Whether orders, splits and merges must be covered."""
        self.initial: int = collateral or 0
        """Initial collateral, in wei."""
        self.collateral: int = self.initial
        """Current collateral, in wei, including the reserved part."""
        self.reserved: int = 0
        """Collateral reserved by resting buy orders, in wei."""
        self.realised: int = 0
        """Realised profit after fees, in wei."""
        self.fees_paid: int = 0
        """Fees paid in collateral, in wei."""
        self.holdings: dict[int, Holding] = {}
        """Holdings by instrument; tokens that were never touched are missing."""
        self.fees: Fees = fees
        """The fee schedule."""
        self.scale: int = scale
        """Ticks in the price of a whole token."""
        rule = fees.fees if isinstance(fees, FeeSchedule) else fees
        self._by_order: FeesByOrder | None = rule if isinstance(rule, FeesByOrder) else None
        self._carried: dict[int, int] = {}
        self._commission: Commission | None = rule if isinstance(rule, Commission) else None
        self._rule: Fees | None = None if rule is no_fees or self._commission else rule
        self._winnings: dict[int, int] = {}
        self._settled: dict[int, int] = {}

    def fork(self) -> "Portfolio":
        """Return an independent copy."""
        other = Portfolio(self.initial, fees=self.fees, scale=self.scale)
        other.covered = self.covered
        other.collateral, other.reserved = self.collateral, self.reserved
        other.realised, other.fees_paid = self.realised, self.fees_paid
        for instrument, holding in self.holdings.items():
            other.holdings[instrument] = holding.copy()
        other._carried, other._winnings = dict(self._carried), dict(self._winnings)
        other._settled = dict(self._settled)
        return other

    # ----- queries -----------------------------------------------------------------------------

    def size(self, instrument: int) -> int:
        """Return the tokens of an instrument, in wei."""
        holding = self.holdings.get(instrument)
        return holding.size if holding else 0

    @property
    def cost(self) -> int:
        """Total cost of all holdings, in wei."""
        return sum(holding.cost for holding in self.holdings.values())

    def value(self, marks: Mapping[int, int]) -> int:
        """Return the value of all holdings.

        Args:
            marks: value of a token in **half** ticks, by instrument: best bid plus best ask. A
                holding without a mark is valued at its cost.

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
        """Return collateral plus the value of all holdings, in wei; marks as in :meth:`value`."""
        return self.collateral + self.value(marks)

    def unrealised(self, marks: Mapping[int, int]) -> int:
        """Return the unrealised profit, in wei; marks as in :meth:`value`."""
        return self.value(marks) - self.cost

    def _repr_html_(self) -> str:
        """Return the money and the first holdings as two tables, for notebooks."""
        from clob import notebook  # noqa: PLC0415 - only where it is shown

        money = [
            ("collateral", format_tokens(self.collateral)),
            ("reserved by buy orders", format_tokens(self.reserved)),
            ("cost of all tokens", format_tokens(self.cost)),
            ("realised profit", format_tokens(self.realised)),
            ("fees paid", format_tokens(self.fees_paid)),
        ]
        begun = f"{format_tokens(self.initial)} at the start"
        shown = sorted(self.holdings.items())[: notebook.ROWS_MAX]
        rows = [
            (
                f"market {number // 2} {'NO' if number % 2 else 'YES'}",
                format_tokens(held.size),
                format_tokens(held.reserved),
                format_tokens(held.cost),
                f"{share(100 * 100, held.cost, held.size) / 100:.2f} ¢" if held.size else "-",
            )
            for number, held in shown
        ]
        titles = ("tokens of", "size", "reserved", "cost", "cost of one")
        head = ["Portfolio", begun if self.covered else "unlimited credit"]
        return notebook.table(head, (), money) + notebook.table(
            ["Holdings"], titles, rows, more=len(self.holdings) - len(shown)
        )

    # ----- trading -----------------------------------------------------------------------------

    def trade(
        self, instrument: int, side: Side, price: int, size: int, resting: bool, order: int = -1
    ) -> Charge:
        """Apply one side of a trade.

        Args:
            instrument: the token.
            side: whether it was bought or sold.
            price: in ticks.
            size: tokens, in wei.
            resting: whether the own order was the resting one.
            order: the own order, for schedules that round per order; -1 is an order of one fill.

        Returns:
            The fee.
        """
        charge = FREE
        if self._rule is not None:
            traded = Traded(side, price, size, resting, self.scale)
            if self._by_order is None:
                charge = self._rule(traded)
            else:
                carried = self._carried.get(order, 0) if order >= 0 else 0
                charge, carried = self._by_order.charge(traded, carried)
                if order >= 0:
                    self._carried[order] = carried
        self.enter(instrument, side, price, size, charge)
        return charge

    def enter(self, instrument: int, side: Side, price: int, size: int, charge: Charge) -> None:
        """Apply one side of a trade whose fee is known; the arguments are those of :meth:`trade`.

        Args:
            instrument: the token.
            side: whether it was bought or sold.
            price: in ticks.
            size: tokens, in wei.
            charge: the fee.
        """
        paid = size * price // self.scale
        if side == BUY:
            self._move(instrument, size - charge.tokens, paid + charge.collateral)
        else:
            self._move(instrument, -size - charge.tokens, charge.collateral - paid)
        self.fees_paid += charge.collateral

    def split(self, market: int, size: int) -> None:
        """Exchange collateral for YES and NO tokens.

        Args:
            market: number of the market.
            size: tokens of each outcome, in wei.

        Raises:
            PortfolioError: the size is below 1, or above the free collateral.
        """
        self._check_size(size, self.collateral - self.reserved if self.covered else None)
        self._move(2 * market, size, size // 2)
        self._move(2 * market + 1, size, size - size // 2)

    def merge(self, market: int, size: int) -> None:
        """Exchange YES and NO tokens for collateral.

        Args:
            market: number of the market.
            size: tokens of each outcome, in wei.

        Raises:
            PortfolioError: the size is below 1, or above the free tokens of one outcome.
        """
        self._check_size(size, min(self.free(2 * market), self.free(2 * market + 1)))
        self._move(2 * market, -size, -(size // 2))
        self._move(2 * market + 1, -size, size // 2 - size)

    def settle(self, market: int, price: int) -> None:
        """Pay out all tokens of a market, and charge a commission on its net winnings.

        Where several markets count together, each settlement charges or refunds the difference to
        the commission on the winnings of those settled so far.

        Args:
            market: number of the market.
            price: value of a YES token, in ticks: the scale if YES won, 0 if NO won, a price
                between them if the market ended without a winner. NO is worth the scale minus this
                price.

        Raises:
            PortfolioError: the price is out of range.
        """
        if not 0 <= price <= self.scale:
            raise PortfolioError(f"an outcome must be from 0 to {self.scale} (ticks); got {price}")
        for instrument, worth in ((2 * market, price), (2 * market + 1, self.scale - price)):
            size = self.size(instrument)
            if size:
                self._move(instrument, -size, -share(worth, size, self.scale))
        if self._commission is not None:
            self._charge_commission(self._commission, market)

    # ----- reservations of resting orders ------------------------------------------------------

    def free(self, instrument: int) -> int:
        """Return the tokens of an instrument that no resting order reserves, in wei."""
        holding = self.holdings.get(instrument)
        return holding.size - holding.reserved if holding else 0

    def reserve(self, instrument: int, side: Side, price: int, size: int) -> bool:
        """Reserve the balance that an order may need.

        Args:
            instrument: the token.
            side: of the order.
            price: limit of the order, in ticks.
            size: unfilled size of the order, in wei.

        Returns:
            Whether the balance was sufficient; if not, nothing has changed. Always True with
            unlimited credit.
        """
        if not self.covered:
            return True
        if side == BUY:
            needed = size * price // self.scale
            if needed > self.collateral - self.reserved:
                return False
            self.reserved += needed
        else:
            if size > self.free(instrument):
                return False
            self.holdings[instrument].reserved += size
        return True

    def release(self, instrument: int, side: Side, price: int, size: int, left: int = 0) -> None:
        """Release what was reserved for an order.

        Args:
            instrument: as reserved.
            side: as reserved.
            price: as reserved.
            size: unfilled size of the order so far, in wei.
            left: unfilled size from now on, in wei.
        """
        if not self.covered:
            return
        if side == BUY:
            self.reserved -= size * price // self.scale - left * price // self.scale
        else:
            self.holdings[instrument].reserved -= size - left

    # ----- helpers -----------------------------------------------------------------------------

    def _check_size(self, size: int, limit: int | None) -> None:
        """Raise ``PortfolioError`` for a size below 1 or above the limit."""
        if type(size) is not int or size < 1:
            raise PortfolioError(f"size must be an integer of 1 or more (wei); got {size!r}")
        if limit is not None and size > limit:
            raise PortfolioError(f"size must be at most {max(limit, 0)} (wei); got {size}")

    def _move(self, instrument: int, size: int, paid: int) -> None:
        """Exchange tokens for collateral."""
        holding = self.holdings.get(instrument)
        if holding is None:
            holding = self.holdings[instrument] = Holding()
        profit = holding.move(size, paid)
        self.collateral -= paid
        self.realised += profit
        if self._commission is not None:
            market = instrument // 2
            self._winnings[market] = self._winnings.get(market, 0) + profit

    def _charge_commission(self, commission: Commission, market: int) -> None:
        """Charge the commission of the group of a market that settles."""
        group = commission.group(market)
        charged = sum(self._settled.get(one, 0) for one in group)
        self._settled.setdefault(market, 0)
        winnings = sum(self._winnings.get(one, 0) for one in group if one in self._settled)
        owed = commission.of(winnings) - charged
        self._settled[market] += owed
        self.collateral -= owed
        self.realised -= owed
        self.fees_paid += owed


def share(amount: int, part: int, whole: int) -> int:
    """Return ``amount * part / whole`` rounded towards zero, symmetric in the sign.

    Args:
        amount: the amount to divide.
        part: numerator.
        whole: denominator, above 0.

    >>> share(7, 1, 2), share(-7, 1, 2), share(7, 2, 2)
    (3, -3, 7)
    """
    product = amount * part
    return product // whole if product >= 0 else -(-product // whole)
