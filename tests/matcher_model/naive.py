"""A naive matcher, written from the specification and the decisions alone: an oracle.

One list of resting orders, the oldest first, searched from end to end each time; reserved amounts
are summed for each check. It shares only the value types with the matcher. It expects commands
whose fields have the right type, and returns lines of text or the code of a rejection.
"""

from clob import Funds, Mode, SelfTrade, Side, TimeInForce

CANCELS_RESTING = (SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH)
CANCELS_INCOMING = (SelfTrade.CANCEL_INCOMING, SelfTrade.CANCEL_BOTH)


class Rejection(Exception):  # noqa: N818 - the result of a command, not a failure
    """A rejection, with its code."""


def best_first(order):
    """Return the sort key of an order of a side."""
    return -order["price"] if order["side"] is Side.BUY else order["price"]


def trades_of(steps):
    """Return the sizes of the trades among the steps of a plan."""
    return [size for action, _, size in steps if action == "trade"]


class Naive:
    """Markets, orders, accounts."""

    def __init__(self):
        self.markets, self.seq, self.modes = {}, {}, {}
        self.resting, self.orders = [], {}
        self.balances, self.pending, self.nonces = {}, {}, {}
        self.used, self.names = set(), {}
        self.orders_max, self.trades_max = 500, 1_000

    def apply(self, command):
        """Execute a command; return its events as lines, or a code."""
        self.now_ms, self.lines = command.now_ms, []
        try:
            getattr(self, type(command).__name__.lower())(command)
        except Rejection as rejection:
            return str(rejection)
        return self.lines

    def emit(self, order, line):
        self.seq[order["market"]] += 1
        self.lines.append(f"{self.seq[order['market']]} {order['market']} {order['token']} {line}")

    # ----- incoming orders -----------------------------------------------------------------

    def submit(self, c):
        o, market = c.order, self.markets.get(c.market)
        order = {
            "id": o.id, "market": c.market, "token": o.token, "maker": o.maker, "side": o.side,
            "price": o.price, "left": o.size, "until": o.expiration_s, "nonce": o.nonce,
            "cap": 10_000 if o.fee_rate_bps is None else o.fee_rate_bps,
            "payer": o.smart_wallet or o.maker, "at": self.now_ms,
        }  # fmt: skip
        body = c.market, *(getattr(o, name) for name in o.__struct_fields__ if name != "id")
        rests = o.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
        self.reject_if(c.deadline_ms is not None and c.deadline_ms < self.now_ms, "DEADLINE_PASSED")
        named = [token for token in (market.yes, market.no) if token]
        self.reject_if(o.token not in named, "TOKEN_NOT_IN_MARKET")
        self.reject_if(o.size < market.min_size, "AMOUNT_TOO_SMALL")
        self.reject_if(self.late(order), "ORDER_EXPIRED")
        self.reject_if(c.order_hash in self.used, "ORDER_ALREADY_USED")
        named = self.names.get((o.maker, c.client_id))
        if named is not None:
            raise Rejection("ORDER_ALREADY_USED" if named == body else "CLIENT_ID_CONFLICT")
        self.reject_if(o.id in self.orders, "DUPLICATE_ORDER")
        self.reject_if(self.modes[c.market] is not Mode.OPEN, "MARKET_NOT_OPEN")
        self.reject_if(o.nonce < self.nonces.get(o.maker, 0), "NONCE_TOO_LOW")
        own_orders = [r for r in self.resting if (r["maker"], r["market"]) == (o.maker, c.market)]
        self.reject_if(rests and len(own_orders) >= self.orders_max, "TOO_MANY_ORDERS")
        self.reject_uncovered(order, o.size, o.price)
        policy = market.self_trade if o.self_trade is None else o.self_trade
        steps, *ends = self.plan(order, o.price, o.size, policy)
        self.reject_if(o.post_only and self.would_trade(order, o.price), "POST_ONLY_WOULD_CROSS")
        traded = sum(trades_of(steps))
        fok = o.time_in_force is TimeInForce.FOK
        self.reject_if(fok and traded < o.size, "FOK_NOT_FILLABLE")
        self.reject_if(len(trades_of(steps)) > self.trades_max, "TOO_MANY_TRADES")
        self.orders[o.id] = order
        if c.order_hash is not None:
            self.used.add(c.order_hash)
        if c.client_id is not None:
            self.names[o.maker, c.client_id] = body
        self.carry_out(order, steps, *ends, rests)

    def reject_if(self, wrong, code):
        if wrong:
            raise Rejection(code)

    def late(self, order):
        return 0 < order["until"] < self.now_ms // 1_000

    def against(self, order, price):
        buys = order["side"] is Side.BUY
        same = [r for r in self.resting if all(r[x] == order[x] for x in ("market", "token"))]
        other = [r for r in same if r["side"] is not order["side"]]
        reached = [r for r in other if (r["price"] <= price if buys else r["price"] >= price)]
        return sorted(reached, key=best_first)

    def would_trade(self, order, price):
        return any(not self.late(r) for r in self.against(order, price))

    def plan(self, order, price, left, policy):
        """Return the steps of an order, its remainder, and whether self-trade ended it."""
        steps, own = [], False
        for r in self.against(order, price):
            if not left:
                break
            if self.late(r):
                steps.append(("expired", r, 0))
            elif policy and order["maker"] and order["maker"] == r["maker"]:
                if policy is SelfTrade.DECREMENT:
                    steps.append(("decrement", r, min(left, r["left"])))
                    own, left = True, left - min(left, r["left"])
                if policy in CANCELS_RESTING:
                    steps.append(("self_trade", r, 0))
                if policy in CANCELS_INCOMING:
                    own, left = True, 0
            else:
                steps.append(("trade", r, min(left, r["left"])))
                own, left = False, left - min(left, r["left"])
        return steps, left, own

    def carry_out(self, order, steps, left, own, rests):
        for action, r, size in steps:
            if action == "trade":
                self.trade(order, r, size)
            elif action == "decrement" and size < r["left"]:
                r["left"] -= size
                self.emit(r, f"reduced {r['id']} {r['left']}")
            else:
                self.remove(r, "self_trade" if action == "decrement" else action)
        order["left"] = left
        # An order reduced by self-trade prevention is filled if the rest of it trades.
        order["removal"] = "self_trade" if own else "filled"
        if left and not rests:
            order["removal"] = "cancelled"
        elif left:
            order["removal"] = None
            self.resting.append(order)
            self.emit(order, f"added {order['id']} {left}")

    def trade(self, order, r, size):
        market, p = self.markets[order["market"]], r["price"]
        r["left"] -= size
        buyer, seller = (order, r) if order["side"] is Side.BUY else (r, order)
        rates = {
            id(order): min(market.incoming_fee_rate_bps, order["cap"]),
            id(r): min(market.resting_fee_rate_bps, r["cap"]),
        }
        seller_fee = rates[id(seller)] * min(p, 100 - p) * size // 1_000_000
        buyer_fee = rates[id(buyer)] * min(p, 100 - p) * size // (10_000 * p)
        fees = f"fees {buyer_fee} {seller_fee}"
        self.emit(order, f"trade {r['id']} {order['id']} {size} @ {p} {fees}")
        if market.funds is Funds.ACCOUNTS:
            legs = (
                (market.collateral, buyer["payer"], seller["payer"], size * p // 100, seller_fee),
                (order["token"], seller["maker"], buyer["maker"], size, buyer_fee),
            )
            if market.settles:
                self.pending[market.id, self.seq[market.id]] = legs
            else:
                self.pay(market, legs)
        if not r["left"]:
            self.remove(r, "filled")

    def remove(self, r, reason):
        self.resting.remove(r)
        r["removal"] = reason
        left = "" if reason == "filled" else f" {r['left']}"
        self.emit(r, f"removed {r['id']} {reason}{left}")

    def remove_all(self, orders, reason):
        for r in orders:
            self.remove(r, reason)

    # ----- accounts ------------------------------------------------------------------------

    def pay(self, market, legs):
        for asset, payer, payee, amount, fee in legs:
            changes = (payer, -amount), (payee, amount - fee), (market.fee_wallet, fee)
            for wallet, change in changes:
                self.balances[wallet, asset] = self.balances.get((wallet, asset), 0) + change

    def holds(self, order, left, price):
        """Return the account and amount that an order reserves; nothing without accounts."""
        market = self.markets[order["market"]]
        if market.funds is not Funds.ACCOUNTS:
            return None, 0
        if order["side"] is Side.BUY:
            return (order["payer"], market.collateral), left * price // 100
        return (order["maker"], order["token"]), left

    def account(self, key):
        held = [self.holds(r, r["left"], r["price"]) for r in self.resting]
        waiting = [leg for legs in self.pending.values() for leg in legs]
        return (
            self.balances.get(key, 0),
            sum(amount for owner, amount in held if owner == key),
            sum(amount for asset, payer, _, amount, _ in waiting if (payer, asset) == key),
        )

    def reject_uncovered(self, order, size, price, own=0):
        """Reject an order that needs more than is available, its own reserve counted as free."""
        key, needed = self.holds(order, size, price)
        if key is not None:
            balance, reserved, unsettled = self.account(key)
            self.reject_if(needed > balance - reserved - unsettled + own, "INSUFFICIENT_BALANCE")

    # ----- resting orders ------------------------------------------------------------------

    def find(self, c, mode_max):
        order = self.orders.get(c.order_id)
        self.reject_if(order is None or c.market not in ("", order["market"]), "UNKNOWN_ORDER")
        self.reject_if(c.maker is not None and c.maker != order["maker"], "NOT_THE_MAKER")
        self.reject_if(order not in self.resting, "ORDER_NOT_OPEN")
        checks_mode = c.maker is not None or mode_max is Mode.OPEN
        self.reject_if(checks_mode and self.modes[order["market"]] > mode_max, "MARKET_NOT_OPEN")
        return order

    def cancel(self, c):
        order = self.find(c, Mode.CANCEL_ONLY)
        self.remove(order, "admin" if c.maker is None else "cancelled")

    def cancelall(self, c):
        self.cancel_where(c, c.market, lambda r: True)

    def cancelsome(self, c):
        """Cancel orders that pass the filters; a token also names its market."""
        owner = {t: m.id for m in self.markets.values() for t in (m.yes, m.no)}.get(c.token)
        wrong = c.token is not None and (owner is None or c.market not in (None, owner))
        self.reject_if(wrong, "TOKEN_NOT_IN_MARKET")
        until_ms = self.now_ms if c.accepted_until_ms is None else c.accepted_until_ms

        def passes(r):
            return (
                c.token in (None, r["token"])
                and c.side in (None, r["side"])
                and r["at"] <= until_ms
            )

        self.cancel_where(c, owner or c.market, passes)

    def cancel_where(self, c, market, passes):
        """Cancel the orders that pass; without a market, skip markets that do not allow it."""
        closed = [m for m in self.modes if c.maker is not None and self.modes[m] > Mode.CANCEL_ONLY]
        self.reject_if(market in closed, "MARKET_NOT_OPEN")
        here = [r for r in self.accepted() if market in (None, r["market"]) and passes(r)]
        cancelled = [r for r in here if c.maker in (None, r["maker"]) and r["market"] not in closed]
        self.remove_all(cancelled, "admin" if c.maker is None else "cancelled")

    def reduce(self, c):
        self.reject_bad_lot(c)
        order = self.find(c, Mode.CANCEL_ONLY)
        self.reject_if(c.size >= order["left"], "SIZE_NOT_REDUCED")
        order["left"] = c.size
        self.emit(order, f"reduced {order['id']} {c.size}")

    def reject_bad_lot(self, c):
        order = self.orders.get(c.order_id)
        lot = self.markets[order["market"]].lot_wei if order else 1
        self.reject_if(c.size <= 0 or c.size % lot, "INVALID_AMOUNT")
        return order

    def replace(self, c):
        known = self.reject_bad_lot(c)
        if known is not None:
            self.reject_if(c.size < self.markets[known["market"]].min_size, "AMOUNT_TOO_SMALL")
            self.reject_if(known in self.resting and self.late(known), "ORDER_EXPIRED")
        order = self.find(c, Mode.OPEN)
        own = self.holds(order, order["left"], order["price"])[1]
        self.reject_uncovered(order, c.size, c.price, own)
        if c.price == order["price"] and c.size < order["left"]:
            order["left"] = c.size
            return self.emit(order, f"reduced {order['id']} {c.size}")
        market = self.markets[order["market"]]
        policy = market.self_trade if c.self_trade is None else c.self_trade
        self.reject_if(c.post_only and self.would_trade(order, c.price), "POST_ONLY_WOULD_CROSS")
        steps, *ends = self.plan(order, c.price, c.size, policy)
        self.reject_if(len(trades_of(steps)) > self.trades_max, "TOO_MANY_TRADES")
        self.remove(order, "replaced")
        order["price"] = c.price
        return self.carry_out(order, steps, *ends, True)

    def setnonce(self, c):
        self.reject_if(c.nonce <= self.nonces.get(c.maker, 0), "NONCE_TOO_LOW")
        self.nonces[c.maker] = c.nonce
        cancelled = [r for r in self.accepted() if r["maker"] == c.maker and r["nonce"] < c.nonce]
        self.remove_all(cancelled, "nonce")

    def accepted(self):
        """Return resting orders in the order of acceptance, which a replacement does not change."""
        return [order for order in self.orders.values() if order in self.resting]

    def expire(self, c):
        """Expire orders, the earliest expiration first."""
        late = filter(self.late, self.accepted())
        self.remove_all(sorted(late, key=lambda r: r["until"]), "expired")

    # ----- markets and funds ---------------------------------------------------------------

    def addmarket(self, c):
        self.markets[c.market.id], self.modes[c.market.id] = c.market, c.market.mode
        self.seq[c.market.id] = 0

    def setmarket(self, c):
        """Set the NO token of a market without one; it is fixed and unique."""
        before, no = self.markets[c.market.id].no, c.market.no
        taken = [x for m in self.markets.values() for x in (m.yes, m.no, m.collateral)]
        self.reject_if(no != before and (before or no in taken), "INVALID_MARKET")
        self.markets[c.market.id] = c.market

    def setmode(self, c):
        """Change a mode; resolving is final and removes all orders: bids first, best first."""
        over = self.modes[c.market] is Mode.RESOLVED
        self.reject_if(over and c.mode is not Mode.RESOLVED, "MARKET_NOT_OPEN")
        self.modes[c.market] = c.mode
        if c.mode is Mode.RESOLVED:
            no = self.markets[c.market].no
            resting = [r for r in self.resting if r["market"] == c.market]
            resting.sort(key=lambda r: self.place(r, no))
            self.remove_all(resting, "market")

    def place(self, r, no):
        """Return the sort key of an order of a resolved market."""
        return r["token"] == no, r["side"], best_first(r)

    def setlimits(self, c):
        self.orders_max, self.trades_max = c.limits.orders_max, c.limits.trades_max

    def setbalance(self, c):
        """Set a balance; orders it no longer covers are removed, the newest first."""
        key = c.wallet, c.asset
        self.balances[key] = c.amount
        self.uncover(key)

    def settled(self, c):
        self.reject_if(len(set(c.trades)) < len(c.trades), "INVALID_COMMAND")
        waits = [(c.market, seq) in self.pending for seq in c.trades]
        self.reject_if(not all(waits), "UNKNOWN_TRADE")
        for seq in c.trades:
            self.pay(self.markets[c.market], self.pending.pop((c.market, seq)))

    def reopen(self, c):
        """Hold trades again, and remove the orders that are no longer covered, newest first."""
        market, keys = self.markets[c.market], {}
        self.reject_if(len({t.seq for t in c.trades}) < len(c.trades), "INVALID_COMMAND")
        self.reject_if(any((c.market, t.seq) in self.pending for t in c.trades), "UNKNOWN_TRADE")
        for t in c.trades:
            bought, sold = t.match_type.value == "mint", t.match_type.value == "merge"
            buyer = (None, None) if sold else (t.buyer_pays, t.buyer_receives)
            seller = (None, None) if bought else (t.seller_pays, t.seller_receives)
            legs = (
                (market.collateral, buyer[0], seller[1], t.paid, t.seller_fee),
                (t.token, seller[0], buyer[1], t.size, t.buyer_fee),
            )
            self.pending[c.market, t.seq] = legs
            if c.settled:
                self.pay(market, [(*leg[:3], -leg[3], -leg[4]) for leg in legs])
            for asset, payer, payee, _, _ in legs:
                keys |= {(payer, asset): None, (payee, asset): None}
        for key in keys:
            self.uncover(key)

    def uncover(self, key):
        """Remove the orders that an account does not cover, the newest first."""
        for r in self.accepted()[::-1]:
            balance, reserved, unsettled = self.account(key)
            if reserved + unsettled > balance and self.holds(r, 0, 0)[0] == key:
                self.remove(r, "settlement")

    def settlefailed(self, c):
        """Release a trade's amounts; remove the orders that the blamed wallet has or pays for."""
        self.reject_if((c.market, c.trade) not in self.pending, "UNKNOWN_TRADE")
        del self.pending[c.market, c.trade]
        here = [r for r in self.accepted() if r["market"] == c.market]
        paid = [r for r in here if r["side"] is Side.BUY and r["payer"] == c.wallet]
        blamed = [r for r in here if r["maker"] == c.wallet or r in paid]
        self.remove_all(blamed, "settlement")
