"""The naive matcher in complementary markets: the price of each possible match.

It has no common grid. An order for one token can match orders of the other side for the same token
and orders of its own side for the other one: a buyer of YES that matches a buyer of NO at 40 pays
the missing 60 of the pair. Cheaper matches come first, then older ones.
"""

from clob import Funds, Side
from tests.matcher_model.naive import Naive


class NaiveOfBoth(Naive):
    """Markets, orders and accounts; in some markets both tokens match."""

    def __init__(self):
        super().__init__()
        self.partner = {}

    def cost(self, order, r):
        """Return the price at which an order would trade with a resting one, or None."""
        if r["market"] != order["market"]:
            return None
        if r["token"] == order["token"]:
            return r["price"] if r["side"] is not order["side"] else None
        return 100 - r["price"] if r["side"] is order["side"] else None

    def against(self, order, price):
        if not self.markets[order["market"]].complementary:
            return super().against(order, price)
        buys = order["side"] is Side.BUY
        costs = [(self.cost(order, r), r) for r in self.resting]
        met = [(x, r) for x, r in costs if x is not None and (x <= price if buys else x >= price)]
        return [r for _, r in sorted(met, key=lambda pair: pair[0] if buys else -pair[0])]

    def trade(self, order, r, size):
        if r["token"] == order["token"]:
            super().trade(order, r, size)
            return
        market = self.markets[order["market"]]
        r["left"] -= size
        word = "mint" if order["side"] is Side.BUY else "merge"
        seqs = []
        for party, price, rate in (
            (order, 100 - r["price"], market.incoming_fee_rate_bps),
            (r, r["price"], market.resting_fee_rate_bps),
        ):
            rate = min(rate, party["cap"])
            spread = rate * min(price, 100 - price) * size
            fee = spread // (10_000 * price) if word == "mint" else spread // 1_000_000
            fees = f"{fee} 0" if word == "mint" else f"0 {fee}"
            self.emit(party, f"{word} {r['id']} {order['id']} {size} @ {price} fees {fees}")
            seqs.append((market.id, self.seq[market.id]))
            legs = (
                (market.collateral, party["payer"], None, size * price // 100, 0),
                (party["token"], None, party["maker"], size, fee),
            )
            if word == "merge":
                legs = (
                    (market.collateral, None, party["payer"], size * price // 100, fee),
                    (party["token"], party["maker"], None, size, 0),
                )
            if market.settles:
                self.pending[seqs[-1]] = legs
            elif market.funds is Funds.ACCOUNTS:
                self.pay(market, legs)
        self.partner |= {seqs[0]: seqs[1], seqs[1]: seqs[0]}
        if not r["left"]:
            self.remove(r, "filled")

    def pay(self, market, legs):
        """Move amounts; the missing party of a pair has no account."""
        super().pay(market, legs)
        self.balances = {key: amount for key, amount in self.balances.items() if key[0] is not None}

    def settled(self, c):
        self.reject_if(len(set(c.trades)) < len(c.trades), "INVALID_COMMAND")
        keys = [(c.market, seq) for seq in c.trades]
        halves = [key for key in keys if key in self.pending and key in self.partner]
        self.reject_if(any(self.partner[key] not in keys for key in halves), "INVALID_COMMAND")
        super().settled(c)

    def reopen(self, c):
        named = {t.seq for t in c.trades}
        for t in c.trades:
            self.reject_if((c.market, t.seq) in self.pending, "UNKNOWN_TRADE")
            self.reject_if(t.other_seq and t.other_seq not in named, "INVALID_COMMAND")
        super().reopen(c)

    def settlefailed(self, c):
        waits = (c.market, c.trade) in self.pending
        super().settlefailed(c)
        if waits:
            self.pending.pop(self.partner.get((c.market, c.trade)), None)

    def place(self, r, no):
        """Sort key of complementary markets: orders for YES first, highest price first."""
        if not self.markets[r["market"]].complementary:
            return super().place(r, no)
        buys_yes = (r["side"] is Side.BUY) == (r["token"] != no)
        price = r["price"] if r["token"] != no else 100 - r["price"]
        return False, Side.BUY if buys_yes else Side.SELL, -price if buys_yes else price
