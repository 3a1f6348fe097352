"""Positions: tokens, cost and realised result of each maker in each token, from the trades.

They are computed when the trades are written to history and kept for ever, so that they outlast
the trades. A buy adds the tokens that its maker receives, the size less the fee in tokens, at the
collateral paid. A sell takes the whole size, for the collateral before its fee. The cost is a
moving average in whole wei: a trade that reduces the position removes the same share of the cost,
rounded down, and realises the difference to its own collateral.

A trade counts unless its settlement failed. A result changes the positions after the trade as well,
so they are computed again from there: each trade that may still get another result is kept with the
position before it, and so are all later ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec

from clob import Side, Trade
from clob.units import collateral_of

SCHEMA: Final = """
CREATE TABLE positions(
    maker TEXT NOT NULL, market TEXT NOT NULL, token TEXT NOT NULL, size TEXT NOT NULL,
    cost TEXT NOT NULL, realised TEXT NOT NULL, fees TEXT NOT NULL, token_fees TEXT NOT NULL,
    PRIMARY KEY(maker, market, token)) WITHOUT ROWID;
CREATE TABLE position_steps(
    maker TEXT NOT NULL, market TEXT NOT NULL, token TEXT NOT NULL, number INTEGER NOT NULL,
    side INTEGER NOT NULL, settled_as INTEGER NOT NULL, counts INTEGER NOT NULL,
    tokens TEXT NOT NULL, collateral TEXT NOT NULL, fee TEXT NOT NULL, before TEXT NOT NULL,
    PRIMARY KEY(maker, market, token, number, side)) WITHOUT ROWID;
CREATE INDEX position_steps_settled ON position_steps(settled_as);
"""
"""The table of positions, and the trades in markets that settle from the oldest one on whose result
may change."""
INDEX: Final = "CREATE INDEX IF NOT EXISTS positions_market ON positions(market, maker, token)"
"""Finds the positions in a market; files of earlier versions lack it."""
_COLUMNS: Final = "market, token, size, cost, realised, fees, token_fees"
_OF_MAKER: Final = f"SELECT {_COLUMNS} FROM positions WHERE maker=?{{}} LIMIT ?"
_ONE: Final = f"SELECT {_COLUMNS} FROM positions WHERE maker=? AND market=? AND token=?"
_WRITE: Final = (
    f"INSERT INTO positions VALUES({','.join('?' * 8)}) ON CONFLICT(maker, market, token) "
    "DO UPDATE SET size=excluded.size, cost=excluded.cost, realised=excluded.realised, "
    "fees=excluded.fees, token_fees=excluded.token_fees"
)
"""Changes a row in place: to replace it would write its entry in the index as well."""
_STEP: Final = f"INSERT OR REPLACE INTO position_steps VALUES({','.join('?' * 11)})"
_OTHER: Final = (
    "SELECT maker, market, token, min(number) FROM position_steps "
    "WHERE settled_as=? AND counts<>? GROUP BY maker, market, token"
)
_RESULT: Final = "UPDATE position_steps SET counts=? WHERE settled_as=?"
_FROM: Final = (
    "SELECT * FROM position_steps WHERE maker=? AND market=? AND token=? AND number>=? "
    "ORDER BY number, side"
)
_BEFORE: Final = -1
"""Index of the position before a trade in a row of a step."""

PositionKey: TypeAlias = tuple[str, str, str]
"""Maker, market and token."""


class Position(msgspec.Struct, gc=False):
    """The tokens of a maker from trades, and their result; all amounts in wei."""

    size: int = 0
    """Tokens; negative if more were sold than bought."""
    cost: int = 0
    """Collateral paid for a positive size; minus the collateral received for a negative one."""
    realised: int = 0
    """Collateral gained by reductions, without fees."""
    fees: int = 0
    """Collateral paid as fees of sells."""
    token_fees: int = 0
    """Tokens paid as fees of buys; they are not in ``size``."""

    def add(self, step: "PositionStep") -> None:
        """Add a trade."""
        tokens, collateral = step.tokens, step.collateral
        if step.side is Side.BUY:
            self.token_fees += step.fee
        else:
            self.fees += step.fee
            tokens, collateral = -tokens, -collateral
        closed = min(abs(tokens), abs(self.size)) if (tokens > 0) != (self.size > 0) else 0
        if closed:
            own = share(collateral, closed, tokens)
            removed = share(self.cost, closed, self.size)
            self.realised -= own + removed
            self.cost -= removed
            collateral -= own
        self.size += tokens
        self.cost += collateral


def share(amount: int, part: int, whole: int) -> int:
    """Return ``part / |whole|`` of a signed amount, rounded towards 0."""
    found = abs(amount) * part // abs(whole)
    return found if amount > 0 else -found


class PositionStep(NamedTuple):
    """A trade from the view of one of its makers."""

    maker: str
    market: str
    token: str
    number: int
    """Number of the trade in all markets."""
    side: Side
    """Side of the maker's order."""
    settled_as: int
    """Number under which it settles; 0 if it does not."""
    counts: bool
    """Whether its settlement has not failed."""
    tokens: int
    """Tokens received or given, in wei."""
    collateral: int
    """Collateral paid, or received before its fee, in wei."""
    fee: int
    """Fee in wei: tokens of a buy, collateral of a sell."""


class PositionResult(NamedTuple):
    """A new result of a settlement."""

    settled_as: int
    counts: bool
    """Whether it has not failed."""


PositionChange: TypeAlias = PositionStep | PositionResult
"""The changes of positions; both in order of the log."""


def position_steps(trade: Trade, number: int, settled_as: int) -> Iterator[PositionStep]:
    """Yield a trade as its buyer and its seller see it; a mint or merge has one of them."""
    paid = collateral_of(trade.size, trade.price)
    for side, maker, fee in (
        (Side.BUY, trade.buyer, trade.buyer_fee),
        (Side.SELL, trade.seller, trade.seller_fee),
    ):
        if maker:
            tokens = trade.size - fee if side is Side.BUY else trade.size
            of_trade = maker, trade.market, trade.token, number, side
            yield PositionStep(*of_trade, settled_as, True, tokens, paid, fee)


class PositionWriter:
    """Adds changes to the positions in the file, within a transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._positions: dict[PositionKey, Position] = {}
        self._steps: list[Any] = []
        self._stale: dict[PositionKey, int] = {}

    def write(self, changes: Iterable[PositionChange], oldest: int) -> None:
        """Write changes; drop the steps of trades that settle before ``oldest``."""
        for change in changes:
            if isinstance(change, PositionStep):
                self._add(change)
            else:
                self._set_result(change)
        for key in list(self._stale):
            self._compute_again(key)
        self._write_steps()
        self._db.executemany(
            _WRITE,
            [
                (*key, *map(str, msgspec.structs.astuple(each)))
                for key, each in self._positions.items()
            ],
        )
        self._db.execute("DELETE FROM position_steps WHERE settled_as<?", (oldest,))

    def _add(self, step: PositionStep) -> None:
        """Add a trade."""
        key = step[:3]
        if key in self._stale:
            self._compute_again(key)
        position = self._positions.get(key)
        if position is None:
            rows = self._db.execute(_ONE, key)
            found = [each.position for each in read(rows)] or [Position()]
            position = self._positions[key] = found[0]
        if step.settled_as:
            self._steps.append(step_row(step, position))
        position.add(step)

    def _set_result(self, result: PositionResult) -> None:
        """Set whether a trade counts."""
        self._write_steps()
        changed: list[Any] = self._db.execute(_OTHER, result).fetchall()
        for *key, number in changed:
            before = self._stale.get(tuple(key), number)
            self._stale[tuple(key)] = min(before, number)
        if changed:
            self._db.execute(_RESULT, (result.counts, result.settled_as))

    def _compute_again(self, key: PositionKey) -> None:
        """Compute a position again from the first trade with another result on."""
        self._write_steps()
        rows: list[Any] = self._db.execute(_FROM, (*key, self._stale.pop(key))).fetchall()
        position = Position(*map(int, rows[0][_BEFORE].split()))
        for row in rows:
            step = step_in(row)
            self._steps.append(step_row(step, position))
            if step.counts:
                position.add(step)
        self._positions[key] = position

    def _write_steps(self) -> None:
        if self._steps:
            self._db.executemany(_STEP, self._steps)
            self._steps.clear()


def step_row(step: PositionStep, before: Position) -> Any:
    """Return the row of a trade, with the position before it."""
    *names, tokens, collateral, fee = step
    position = " ".join(map(str, msgspec.structs.astuple(before)))
    return (*names, str(tokens), str(collateral), str(fee), position)


def step_in(row: Any) -> PositionStep:
    """Return the trade of a row."""
    maker, market, token, number, side, settled_as, counts, *amounts, _ = row
    tokens, collateral, fee = map(int, amounts)
    return PositionStep(
        *(maker, market, token, number, Side(side), settled_as, bool(counts)),
        *(tokens, collateral, fee),
    )


class TokenPosition(NamedTuple):
    """The position of a maker in a token."""

    market: str
    token: str
    position: Position


def read_positions(
    db: apsw.Connection, maker: str, market: str | None, limit: int
) -> list[TokenPosition]:
    """Return up to ``limit`` positions of a maker by market and token, flat ones included."""
    condition, names = ("", ()) if market is None else (" AND market=?", (market,))
    return read(db.execute(_OF_MAKER.format(condition), (maker, *names, limit)))


def read(rows: Iterable[Sequence[Any]]) -> list[TokenPosition]:
    """Return the positions in rows."""
    return [
        TokenPosition(market, token, Position(*map(int, amounts)))
        for market, token, *amounts in rows
    ]
