"""Server and plain matcher agree under random requests.

Method: hypothesis draws valid and invalid order requests of every kind over two markets, three
makers and few prices. Server and matcher must accept and reject the same requests, with the same
trades and codes. After each step the books and the open orders are equal, at the end also every
order and every trade.
"""

import time

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelSome,
    Market,
    Matcher,
    Order,
    Reduce,
    RejectedError,
    SelfTrade,
    SetNonce,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.signing import SignedOrder, amounts_of, order_hash, to_order
from tests.server.api.makers import BUY, ONE, SELL, Maker, MarketIds, delete, good, problem
from tests.signings import DOMAIN

LONG_AGO = 1_700_000_000
sides = st.sampled_from([BUY, SELL])
prices = st.integers(47, 53)
sizes = st.sampled_from([10**16, ONE // 2, ONE, 3 * ONE, 3 * ONE + 1])
instructions = {
    "timeInForce": st.sampled_from(["GTC", "IOC", "FOK", "GTD"]),
    "postOnly": st.booleans(),
    "selfTrade": st.sampled_from([each.name for each in SelfTrade]),
    "clientOrderId": st.sampled_from(["one", "two", "three"]),
    "deadlineMs": st.sampled_from([2**62, 2**62, 1]),
}
options = st.lists(
    st.one_of(*(st.fixed_dictionaries({name: values}) for name, values in instructions.items())),
    max_size=2,
).map(lambda fields: {name: value for field in fields for name, value in field.items()})
flaws = st.sampled_from([0, 0, 0, 0, 1, 2])
few = st.integers(0, 2)
indexes = st.integers(0, 99)
"""Index into a list, taken modulo its length."""


class Draft:
    """A request for an order, and the equal command of the matcher."""

    def __init__(self, maker_index, body, market, order, order_hash):
        self.maker_index, self.body, self.order = maker_index, body, order
        self.command = Submit(
            market=market.id,
            order=order,
            client_id=body.get("clientOrderId"),
            order_hash=order_hash,
            deadline_ms=body.get("deadlineMs"),
        )

    @property
    def path(self):
        return "/api/orders" if "signature" in self.body else "/api/orders/gasless"

    def submit(self, order_id, now_ms, nonces):
        """Return the command with the order id that the server assigned."""
        nonce = self.order.nonce if "signature" in self.body else nonces[self.maker_index]
        order = structs.replace(self.order, id=order_id, nonce=nonce)
        return structs.replace(self.command, order=order, now_ms=now_ms)


drafts = st.tuples(st.booleans(), few, few, st.booleans(), sides, prices, sizes, options, flaws)


class OrdersMachine(RuleBasedStateMachine):
    """A server and a matcher that receive the same requests."""

    def __init__(self, http):
        super().__init__()
        self.http = http
        self.matcher = Matcher()
        self.now_ms = time.time_ns() // 10**6
        self.makers = [Maker() for _ in range(3)]
        self.markets = [MarketIds() for _ in range(2)]
        self.sent, self.placed, self.trades = [], {}, {}
        self.nonces = [0, 0, 0]

    @initialize()
    def open_markets(self):
        """Open both markets with both tokens, as the first orders do."""
        opener = Maker()
        for ids in self.markets:
            market = Market(id=ids.id, yes=str(ids.yes), no=str(ids.no))
            self.matcher.apply(AddMarket(market=market, now_ms=self.now_ms))
            self.trades[ids.id] = []
            for token in (ids.yes, ids.no):
                body = opener.gasless(ids, price=1, token=token)
                order_id = good(self.http.post("/api/orders/gasless", json=body))["orderId"]
                good(delete(self.http, f"/api/orders/{order_id}", {"maker": opener.address}))

    # ----- requests --------------------------------------------------------------------------

    def draft(self, drawn):
        """Return the request for drawn values."""
        signed, maker_index, market_index, yes, side, price, size, options, flaw = drawn
        maker, market = self.makers[maker_index], self.markets[market_index % 2]
        token, nonce = market.yes if yes else market.no, self.nonces[maker_index]
        instructions = {
            "time_in_force": TimeInForce[options.get("timeInForce", "GTC")],
            "post_only": options.get("postOnly", False),
            "self_trade": SelfTrade[options["selfTrade"]] if "selfTrade" in options else None,
        }
        if not signed:
            maker_amount, taker_amount = amounts_of(side, price, size)
            order = Order(
                id="?", token=str(token), maker=maker.address, side=Side(side), price=price,
                size=size, nonce=nonce, collateral=maker_amount if side is BUY else taker_amount,
                **instructions,
            )  # fmt: skip
            return Draft(
                maker_index,
                maker.gasless(market, side, price, size, token, **options),
                market,
                order,
                None,
            )
        body = maker.signed(
            market, side, price, size, token, also=options,
            nonce=max(0, nonce - (flaw == 1)), expiration_s=LONG_AGO if flaw == 2 else 0,
        )  # fmt: skip
        signed_order = SignedOrder.from_json(body)
        order = to_order(signed_order, id="?", **instructions)
        return Draft(maker_index, body, market, order, order_hash(signed_order, DOMAIN))

    @rule(drawn=drafts)
    def create(self, drawn):
        draft = self.draft(drawn)
        self.sent.append(draft)
        self.check_response(draft, self.http.post(draft.path, json=draft.body))

    @precondition(lambda self: self.sent)
    @rule(index=indexes)
    def send_again(self, index):
        draft = self.sent[index % len(self.sent)]
        self.check_response(draft, self.http.post(draft.path, json=draft.body))

    @rule(several=st.lists(drafts, min_size=1, max_size=5))
    def batch(self, several):
        several = [self.draft(drawn) for drawn in several]
        self.sent += several
        body = {"orders": [draft.body for draft in several]}
        results = good(self.http.post("/api/orders/batch", json=body))["results"]
        for draft, result in zip(several, results, strict=True):
            self.compare(draft, result)

    @precondition(lambda self: self.placed)
    @rule(index=indexes, maker_index=few, in_batch=st.booleans())
    def cancel(self, index, maker_index, in_batch):
        order_id = list(self.placed)[index % len(self.placed)]
        maker = self.makers[maker_index].address
        rejection = self.rejection_of(Cancel(order_id=order_id, maker=maker, now_ms=self.now_ms))
        if in_batch:
            body = {"orders": [{"orderId": order_id, "maker": maker}]}
            (result,) = good(delete(self.http, "/api/orders/batch", body))["results"]
            assert result.get("code") == rejection
            return
        answer = delete(self.http, f"/api/orders/{order_id}", {"maker": maker})
        if rejection is None:
            assert good(answer)["status"] == "cancelled"
        else:
            problem(answer, rejection)

    @precondition(lambda self: self.placed)
    @rule(index=indexes)
    def cancel_by_client_id(self, index):
        order_id = list(self.placed)[index % len(self.placed)]
        record = self.matcher.order(order_id)
        if record.client_id is None:
            return
        body = {"maker": record.order.maker}
        rejection = self.rejection_of(Cancel(order_id=order_id, now_ms=self.now_ms, **body))
        answer = delete(self.http, f"/api/orders/client:{record.client_id}", body)
        if rejection is None:
            self.agree(good(answer), self.matcher.order(order_id))
        else:
            problem(answer, rejection)

    @rule(
        maker_index=few,
        market_index=st.sampled_from([None, 0, 1]),
        yes=st.sampled_from([None, True, False]),
        side=st.sampled_from([None, BUY, SELL]),
    )
    def cancel_all(self, maker_index, market_index, yes, side):
        maker, query = self.makers[maker_index].address, {}
        if market_index is not None:
            query["marketId"] = self.markets[market_index].id
        if yes is not None:
            market = self.markets[market_index or 0]
            query["tokenId"] = str(market.yes if yes else market.no)
        command = CancelSome(
            maker=maker, market=query.get("marketId"), token=query.get("tokenId"), side=side,
            now_ms=self.now_ms,
        )  # fmt: skip
        removed = [event.order_id for event in self.matcher.apply(command)]
        if side is not None:
            query["side"] = side.name
        answer = delete(self.http, "/api/orders", {"maker": maker}, params=query or {"all": "true"})
        assert (good(answer)["orderIds"], answer.json()["numCancelled"]) == (removed, len(removed))

    @precondition(lambda self: self.placed)
    @rule(index=indexes, maker_index=few, remaining=sizes, expected=st.none() | sizes)
    def reduce(self, index, maker_index, remaining, expected):
        order_id = list(self.placed)[index % len(self.placed)]
        maker = self.makers[maker_index].address
        body = {"maker": maker, "remaining": str(remaining)}
        if expected is not None:
            body["ifRemaining"] = str(expected)
        rejection = self.guarded(order_id, maker, expected) or self.rejection_of(
            Reduce(order_id=order_id, size=remaining, maker=maker, now_ms=self.now_ms)
        )
        answer = self.http.patch(f"/api/orders/{order_id}", json=body)
        if rejection is None:
            self.agree(good(answer), self.matcher.order(order_id))
        else:
            problem(answer, rejection)

    def guarded(self, order_id, maker, expected):
        """Return the rejection of a request for another remaining size, or None."""
        record = self.matcher.order(order_id)
        rests = record.status in ("open", "partial") and record.order.maker == maker
        is_other = expected is not None and record.remaining != expected
        return "REMAINING_CHANGED" if rests and is_other else None

    @precondition(lambda self: self.placed)
    @rule(index=indexes, drawn=drafts, same_maker=st.booleans(), expected=st.none() | sizes)
    def replace(self, index, drawn, same_maker, expected):
        old = self.placed[list(self.placed)[index % len(self.placed)]]
        signed, maker_index, _, _, *rest = drawn
        [market_index] = [
            n for n, ids in enumerate(self.markets) if old.token in (str(ids.yes), str(ids.no))
        ]
        if same_maker:
            maker_index = [maker.address for maker in self.makers].index(old.maker)
        is_yes = old.token == str(self.markets[market_index].yes)
        draft = self.draft((signed, maker_index, market_index, is_yes, *rest))
        guard = {} if expected is None else {"ifRemaining": str(expected)}
        answer = self.http.post(f"/api/orders/{old.id}/replace", json=draft.body | guard)
        reply = answer.json()
        if self.repeats(reply, draft):
            return
        guarded = self.guarded(old.id, draft.order.maker, expected)
        if reply.get("code") == "REMAINING_CHANGED":
            assert guarded
            self.agree(reply["order"], self.matcher.order(old.id))
            return
        submit = draft.submit(reply.get("orderId", "rejected"), self.now_ms, self.nonces)
        cancel = Cancel(order_id=old.id, maker=draft.order.maker)
        try:
            _, events = self.matcher.batch((cancel, submit), self.now_ms, atomic=True)
        except RejectedError as error:
            problem(answer, error.code)
            return
        assert guarded is None
        self.agree(good(answer)["replaced"], self.matcher.order(old.id))
        self.compare_placed(submit, events, reply)
        self.sent.append(draft)

    @rule(several=st.lists(drafts, min_size=1, max_size=4))
    def atomic_batch(self, several):
        several = [self.draft(drawn) for drawn in several]
        body = {"orders": [draft.body for draft in several], "atomic": True}
        results = good(self.http.post("/api/orders/batch", json=body))["results"]
        repeated = [self.repeats(*pair) for pair in zip(results, several, strict=True)]
        if any(repeated):
            assert all("code" in each for each in results) or all(
                "duplicate" in each for each in results
            )
            return
        submits = [
            draft.submit(reply.get("orderId", f"rejected{n}"), self.now_ms, self.nonces)
            for n, (draft, reply) in enumerate(zip(several, results, strict=True))
        ]
        rejection = self.matcher.check(
            Batch(commands=tuple(submits), atomic=True, now_ms=self.now_ms)
        )
        if rejection is not None:
            codes = ["BATCH_REJECTED"] * len(results)
            codes[rejection.index] = rejection.code
            assert [each["code"] for each in results] == codes
            causes = {each.get("causedBy", rejection.index) for each in results}
            assert causes == {rejection.index}
            return
        all_events = self.matcher.batch(submits, self.now_ms, atomic=True)
        self.sent += several
        for submit, events, reply in zip(submits, all_events, results, strict=True):
            self.compare_placed(submit, events, reply)

    def repeats(self, reply, draft):
        """Return whether a draft is an order that was accepted before, which changes nothing."""
        if reply.get("duplicate"):
            self.compare(draft, reply)
        elif reply.get("code") == "ORDER_ALREADY_USED":
            name = draft.body["clientOrderId"]
            known = self.matcher.order_by_client_id(draft.order.maker, name).order
            same = structs.replace(draft.order, id=known.id, nonce=known.nonce)
            assert same == known
        else:
            return False
        return True

    @rule(maker_index=few, step=st.integers(0, 1))
    def raise_nonce(self, maker_index, step):
        maker, nonce = self.makers[maker_index], self.nonces[maker_index] + step
        command = SetNonce(maker=maker.address, nonce=nonce, now_ms=self.now_ms)
        rejection = self.rejection_of(command)
        answer = self.http.post("/api/orders/nonce", json=maker.nonce(nonce))
        if rejection is None:
            good(answer)
            self.nonces[maker_index] = nonce
        else:
            problem(answer, rejection)

    @rule(drawn=drafts)
    def simulate(self, drawn):
        """A simulation predicts the trades of the matcher and changes nothing."""
        draft = self.draft(drawn)
        command = structs.replace(
            draft.submit("?", self.now_ms, self.nonces), client_id=None, order_hash=None
        )
        answer = self.http.post("/api/orders/simulate", json=draft.body)
        try:
            trades = self.matcher.simulate(command)
        except RejectedError as error:
            problem(answer, error.code)
        else:
            trades_of_server = [
                (each["price"], int(each["size"])) for each in good(answer)["trades"]
            ]
            assert trades_of_server == [(trade.price, trade.size) for trade in trades]

    @rule(drawn=drafts)
    def validate(self, drawn):
        """The preview reports the rejection of the matcher."""
        draft = self.draft(drawn)
        reply = good(self.http.post("/api/orders/validate", json=draft.body))
        rejection = self.matcher.check(draft.submit("?", self.now_ms, self.nonces))
        assert reply["valid"] is (rejection is None)
        if rejection is not None:
            assert reply["refusal"]["code"] == rejection.code

    # ----- comparisons -----------------------------------------------------------------------

    def check_response(self, draft, answer):
        """Check the status and headers of a response, and compare its body."""
        body = answer.json()
        if "code" in body:
            problem(answer, body["code"])
        else:
            good(answer)
        self.compare(draft, body)

    def compare(self, draft, reply):
        """Apply the command to the matcher and compare its result with the reply."""
        if reply.get("duplicate"):
            known = self.placed[reply["orderId"]]
            same = structs.replace(draft.order, id=known.id)
            assert same == structs.replace(known, nonce=same.nonce)
            return
        command = draft.submit(reply.get("orderId", "rejected"), self.now_ms, self.nonces)
        if "code" in reply:
            assert self.rejection_of(command) == reply["code"]
            return
        self.compare_placed(command, self.matcher.apply(command), reply)

    def compare_placed(self, command, events, reply):
        """Compare the events of an accepted order with the reply."""
        self.placed[reply["orderId"]] = command.order
        trades = [each for each in events if isinstance(each, Trade)]
        replied = [(each["price"], int(each["size"])) for each in reply["trades"]]
        assert replied == [(trade.price, trade.size) for trade in trades]
        assert reply["matched"] is bool(trades)
        ids = [each["id"] for each in reply["trades"]]
        self.trades[command.market] += zip(ids, trades, strict=True)

    def rejection_of(self, command):
        """Apply a command to the matcher; return the code of its rejection, if any."""
        try:
            self.matcher.apply(command)
        except RejectedError as error:
            return error.code
        return None

    def agree(self, order, record):
        """Compare an order of the server with the record of the matcher."""
        assert (order["id"], order["status"]) == (record.order.id, record.status.value)
        assert (order["price"], order["marketId"]) == (record.price, record.market)
        assert order["filledAmount"] == str(record.filled_amount)
        assert order["filledCollateral"] == str(record.filled_collateral)
        assert order["filledTokens"] == str(record.filled)
        assert order["remaining"] == str(record.remaining)
        if order["status"] == "cancelled":
            assert order["cancelReason"] == record.removal.value

    def check_books(self):
        for market in self.markets:
            for token in (market.yes, market.no):
                query = {"tokenId": str(token)}
                book = good(self.http.get(f"/api/markets/{market.id}/orderbook", params=query))
                depth = self.matcher.depth(market.id, str(token))
                for side in ("bids", "asks"):
                    levels = [(x["price"], int(x["size"]), x["numOrders"]) for x in book[side]]
                    assert levels == [(x.price, x.size, x.num_orders) for x in getattr(depth, side)]
            orders = good(self.http.get("/api/orders", params={"marketId": market.id}))
            records = self.matcher.open_orders(market=market.id)[:100]
            for order, record in zip(orders, records, strict=True):
                self.agree(order, record)

    def teardown(self):
        """Compare every order and every trade with the matcher."""
        self.check_books()
        for order_id in self.placed:
            self.agree(good(self.http.get(f"/api/orders/{order_id}")), self.matcher.order(order_id))
        for market in self.markets:
            trades = good(self.http.get(f"/api/markets/{market.id}/trades", params={"limit": 100}))
            expected = self.trades.get(market.id, [])[::-1][:100]
            for served, (trade_id, trade) in zip(trades, expected, strict=True):
                assert (served["id"], served["tokenId"]) == (trade_id, trade.token)
                assert (served["price"], served["size"]) == (trade.price, str(trade.size))
                assert (served["buyer"], served["seller"]) == (trade.buyer, trade.seller)
                assert served["restingOrderId"] == trade.resting_order_id
                assert served["incomingOrderId"] == trade.incoming_order_id

    @rule()
    def compare_books(self):
        self.check_books()


@pytest.mark.parametrize(
    ("examples", "steps"), [(12, 25), pytest.param(60, 60, marks=pytest.mark.long)]
)
def test_server_agrees_with_the_matcher(http, examples, steps):
    run_state_machine_as_test(
        lambda: OrdersMachine(http),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
