"""Open interest: the pairs of tokens that the makers of a market hold against each other.

The net of a maker is its YES tokens less its NO tokens, from its trades at their published size,
before fees in tokens. Each trade, and both trades of a mint or merge together, add to the net of
one maker what they take from that of another. So all nets of a market sum to 0, and the open
interest, the sum of the positive ones, is half of the sum of their amounts.

A trade counts unless its settlement failed. The nets follow from the positions, which outlast the
trades; from then on they are kept in memory.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import apsw

from clob import Trade
from clob_server.core.settlement_ledger import SettlementLedger
from clob_server.core.settlement_status import StatusChange

FAILED: Final = "failed"
"""Status of a settlement that moved nothing."""

_OF_MARKET: Final = "SELECT maker, token, size, token_fees FROM positions WHERE market=?"


class OpenInterest:
    """The nets of a market.

    Args:
        tokens: the YES token, and the NO token if it has an id.
        nets: the net of each maker, in wei.
        unsettled: size of each trade whose result may change, by the number under which it settles.
    """

    def __init__(
        self, tokens: Sequence[str], nets: Mapping[str, int], unsettled: Mapping[int, int]
    ) -> None:
        self.tokens: Sequence[str] = tokens
        """The YES token, and the NO token if it has an id; trades of others do not count."""
        self._nets: dict[str, int] = {maker: net for maker, net in nets.items() if net}
        self._unsettled = dict(unsettled)
        self.amount: int = sum(net for net in nets.values() if net > 0)
        """The open interest, in wei."""

    def add_trade(self, trade: Trade, number: int) -> None:
        """Add a trade, with the number under which it settles; 0 if it does not."""
        if number:
            self._unsettled[number] = trade.size
        self._move(trade.token, trade.buyer, trade.seller, trade.size)

    def on_status(self, change: StatusChange) -> None:
        """Remove a trade whose settlement failed; add it again if that is withdrawn."""
        held, status, before = change.held, change.fate.settlement, change.before.settlement
        if (status == FAILED) != (before == FAILED):
            size = self._unsettled[held.number]
            for half in held.halves:
                tokens = -size if status == FAILED else size
                self._move(half.token, half.buyer, half.seller, tokens)
        if change.fate.is_final:
            self._unsettled.pop(held.number, None)

    def _move(self, token: str, buyer: str, seller: str, size: int) -> None:
        """Add bought tokens to a maker, and take them from another; an empty name is no maker."""
        if token not in self.tokens:  # of a removed market of the same name
            return
        bought = size if token == self.tokens[0] else -size
        for maker, tokens in ((buyer, bought), (seller, -bought)):
            if maker:
                before = self._nets.pop(maker, 0)
                after = before + tokens
                self.amount += max(after, 0) - max(before, 0)
                if after:
                    self._nets[maker] = after


def read_nets(db: apsw.Connection, market: str, tokens: Iterable[str]) -> dict[str, int]:
    """Return the net of each maker from the positions in the file.

    Args:
        db: the connection.
        market: the market.
        tokens: its YES token, and its NO token if it has an id.
    """
    signs = dict(zip(tokens, (1, -1), strict=False))
    nets: dict[str, int] = {}
    rows: Iterable[Any] = db.execute(_OF_MARKET, (market,))
    for maker, token, size, token_fees in rows:
        sign = signs.get(token, 0)  # a removed market of the same name had other tokens
        nets[maker] = nets.get(maker, 0) + sign * (int(size) + int(token_fees))
    return nets


def unsettled_sizes(
    ledger: SettlementLedger, markets: Collection[str]
) -> dict[str, dict[int, int]]:
    """Return the size of each trade whose result may change, by market and by number."""
    sizes: dict[str, dict[int, int]] = {market: {} for market in markets}
    if not sizes:
        return sizes
    for held in ledger.held.values():
        if held.market in sizes:
            sizes[held.market][held.number] = int(held.fill.size)
    for ended in ledger.ended.values():
        if ended.market in sizes and ended.fill is not None and not ledger.is_final(ended.number):
            sizes[ended.market][ended.number] = int(ended.fill.size)
    return sizes
