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
    Cancel,
    Market,
    Matcher,
    Order,
    RejectedError,
    SelfTrade,
    SetNonce,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.signing import SignedOrder, amounts_of, order_hash, to_order
from tests.server.api.people import BUY, ONE, SELL, Person, Place, delete, good, problem
from tests.signings import DOMAIN

LONG_AGO = 1_700_000_000
sides = st.sampled_from([BUY, SELL])
prices = st.integers(47, 53)
sizes = st.sampled_from([1_000, ONE // 2, ONE, 3 * ONE, 3 * ONE + 1])
sayings = {
    "timeInForce": st.sampled_from(["GTC", "IOC", "FOK", "GTD"]),
    "postOnly": st.booleans(),
    "selfTrade": st.sampled_from([each.name for each in SelfTrade]),
    "clientOrderId": st.sampled_from(["one", "two", "three"]),
    "deadlineMs": st.sampled_from([2**62, 2**62, 1]),
}
options = st.lists(
    st.one_of(*(st.fixed_dictionaries({name: said}) for name, said in sayings.items())), max_size=2
).map(lambda said: {name: value for each in said for name, value in each.items()})
flaws = st.sampled_from([0, 0, 0, 0, 1, 2])
few = st.integers(0, 2)
places = st.integers(0, 99)
"""Where in a list, which has some other length."""


class Draft:
    """A request for an order, and what it means to the matcher."""

    def __init__(self, who, body, place, order, hashed):
        self.who, self.body, self.order = who, body, order
        self.command = Submit(
            market=place.id,
            order=order,
            client_id=body.get("clientOrderId"),
            order_hash=hashed,
            deadline_ms=body.get("deadlineMs"),
        )

    @property
    def path(self):
        return "/api/orders" if "signature" in self.body else "/api/orders/gasless"

    def submit(self, order_id, now_ms, nonces):
        """The command, the order called as the server has called it."""
        nonce = self.order.nonce if "signature" in self.body else nonces[self.who]
        order = structs.replace(self.order, id=order_id, nonce=nonce)
        return structs.replace(self.command, order=order, now_ms=now_ms)


drafts = st.tuples(st.booleans(), few, few, st.booleans(), sides, prices, sizes, options, flaws)


class OrdersMachine(RuleBasedStateMachine):
    """A server and a matcher."""

    def __init__(self, http):
        super().__init__()
        self.http = http
        self.matcher = Matcher()
        self.now_ms = time.time_ns() // 10**6
        self.people = [Person() for _ in range(3)]
        self.places = [Place() for _ in range(2)]
        self.sent, self.placed, self.trades = [], {}, {}
        self.nonces = [0, 0, 0]

    @initialize()
    def open_markets(self):
        """Have both tokens of both markets known, as the first orders for them make them."""
        opener = Person()
        for place in self.places:
            market = Market(id=place.id, yes=str(place.yes), no=str(place.no))
            self.matcher.apply(AddMarket(market=market, now_ms=self.now_ms))
            self.trades[place.id] = []
            for token in (place.yes, place.no):
                body = opener.gasless(place, price=1, token=token)
                made = good(self.http.post("/api/orders/gasless", json=body))["orderId"]
                good(delete(self.http, f"/api/orders/{made}", {"maker": opener.address}))

    # ----- what is sent ------------------------------------------------------------------------

    def draft(self, drawn):
        """Make a request of what was drawn."""
        signed, who, where, yes, side, price, size, said, flaw = drawn
        person, place = self.people[who], self.places[where % 2]
        token, nonce = place.yes if yes else place.no, self.nonces[who]
        instructions = {
            "time_in_force": TimeInForce[said.get("timeInForce", "GTC")],
            "post_only": said.get("postOnly", False),
            "self_trade": SelfTrade[said["selfTrade"]] if "selfTrade" in said else None,
        }
        if not signed:
            maker_amount, taker_amount = amounts_of(side, price, size)
            order = Order(
                id="?", token=str(token), maker=person.address, side=Side(side), price=price,
                size=size, nonce=nonce, collateral=maker_amount if side is BUY else taker_amount,
                **instructions,
            )  # fmt: skip
            return Draft(
                who, person.gasless(place, side, price, size, token, **said), place, order, None
            )
        body = person.signed(
            place, side, price, size, token, also=said,
            nonce=max(0, nonce - (flaw == 1)), expiration_s=LONG_AGO if flaw == 2 else 0,
        )  # fmt: skip
        made = SignedOrder.from_json(body)
        order = to_order(made, id="?", **instructions)
        return Draft(who, body, place, order, order_hash(made, DOMAIN))

    @rule(drawn=drafts)
    def create(self, drawn):
        draft = self.draft(drawn)
        self.sent.append(draft)
        self.told(draft, self.http.post(draft.path, json=draft.body))

    @precondition(lambda self: self.sent)
    @rule(which=places)
    def send_again(self, which):
        draft = self.sent[which % len(self.sent)]
        self.told(draft, self.http.post(draft.path, json=draft.body))

    @rule(several=st.lists(drafts, min_size=1, max_size=5))
    def batch(self, several):
        several = [self.draft(drawn) for drawn in several]
        self.sent += several
        body = {"orders": [draft.body for draft in several]}
        results = good(self.http.post("/api/orders/batch", json=body))["results"]
        for draft, result in zip(several, results, strict=True):
            self.compare(draft, result)

    @precondition(lambda self: self.placed)
    @rule(which=places, who=few, together=st.booleans())
    def cancel(self, which, who, together):
        order_id = list(self.placed)[which % len(self.placed)]
        maker = self.people[who].address
        rejection = self.rejection_of(Cancel(order_id=order_id, maker=maker, now_ms=self.now_ms))
        if together:
            body = {"orders": [{"orderId": order_id, "maker": maker}]}
            (said,) = good(delete(self.http, "/api/orders/batch", body))["results"]
            assert said.get("code") == rejection
            return
        answer = delete(self.http, f"/api/orders/{order_id}", {"maker": maker})
        if rejection is None:
            assert good(answer)["status"] == "cancelled"
        else:
            problem(answer, rejection)

    @rule(who=few, step=st.integers(0, 1))
    def raise_nonce(self, who, step):
        person, nonce = self.people[who], self.nonces[who] + step
        command = SetNonce(maker=person.address, nonce=nonce, now_ms=self.now_ms)
        rejection = self.rejection_of(command)
        answer = self.http.post("/api/orders/nonce", json=person.nonce(nonce))
        if rejection is None:
            good(answer)
            self.nonces[who] = nonce
        else:
            problem(answer, rejection)

    @rule(drawn=drafts)
    def simulate(self, drawn):
        """What is foretold is what the matcher foretells, and changes nothing."""
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
            found = [(each["price"], int(each["size"])) for each in good(answer)["trades"]]
            assert found == [(trade.price, trade.size) for trade in trades]

    @rule(drawn=drafts)
    def validate(self, drawn):
        """The preview reports the rejection of the matcher."""
        draft = self.draft(drawn)
        said = good(self.http.post("/api/orders/validate", json=draft.body))
        rejection = self.matcher.check(draft.submit("?", self.now_ms, self.nonces))
        assert said["valid"] is (rejection is None)
        if rejection is not None:
            assert said["refusal"]["code"] == rejection.code

    # ----- what is compared --------------------------------------------------------------------

    def told(self, draft, answer):
        """Compare an answer; what it has beside the body as well."""
        said = answer.json()
        if "code" in said:
            problem(answer, said["code"])
        else:
            good(answer)
        self.compare(draft, said)

    def compare(self, draft, said):
        """Have the matcher do the same, and compare what came of it."""
        if said.get("duplicate"):
            known = self.placed[said["orderId"]]
            same = structs.replace(draft.order, id=known.id)
            assert same == structs.replace(known, nonce=same.nonce)
            return
        command = draft.submit(said.get("orderId", "rejected"), self.now_ms, self.nonces)
        if "code" in said:
            assert self.rejection_of(command) == said["code"]
            return
        self.placed[said["orderId"]] = command.order
        trades = [each for each in self.matcher.apply(command) if isinstance(each, Trade)]
        told = [(each["price"], int(each["size"])) for each in said["trades"]]
        assert told == [(trade.price, trade.size) for trade in trades]
        assert said["matched"] is bool(trades)
        ids = [each["id"] for each in said["trades"]]
        self.trades[command.market] += zip(ids, trades, strict=True)

    def rejection_of(self, command):
        """Apply a command to the matcher; return the code of its rejection, if any."""
        try:
            self.matcher.apply(command)
        except RejectedError as error:
            return error.code
        return None

    def agree(self, found, record):
        """Compare an order."""
        assert (found["id"], found["status"]) == (record.order.id, record.status.value)
        assert (found["price"], found["marketId"]) == (record.price, record.market)
        assert found["filledAmount"] == str(record.filled_amount)
        assert found["filledCollateral"] == str(record.filled_collateral)
        assert found["filledTokens"] == str(record.filled)
        assert found["remaining"] == str(record.remaining)
        if found["status"] == "cancelled":
            assert found["cancelReason"] == record.removal.value

    def check_books(self):
        for place in self.places:
            for token in (place.yes, place.no):
                query = {"tokenId": str(token)}
                book = good(self.http.get(f"/api/markets/{place.id}/orderbook", params=query))
                depth = self.matcher.depth(place.id, str(token))
                for side in ("bids", "asks"):
                    told = [(x["price"], int(x["size"]), x["numOrders"]) for x in book[side]]
                    assert told == [(x.price, x.size, x.num_orders) for x in getattr(depth, side)]
            found = good(self.http.get("/api/orders", params={"marketId": place.id}))
            records = self.matcher.open_orders(market=place.id)[:100]
            for order, record in zip(found, records, strict=True):
                self.agree(order, record)

    def teardown(self):
        """In the end every order and every trade is as the matcher has it."""
        self.check_books()
        for order_id in self.placed:
            self.agree(good(self.http.get(f"/api/orders/{order_id}")), self.matcher.order(order_id))
        for place in self.places:
            found = good(self.http.get(f"/api/markets/{place.id}/trades", params={"limit": 100}))
            right = self.trades.get(place.id, [])[::-1][:100]
            for told, (trade_id, trade) in zip(found, right, strict=True):
                assert (told["id"], told["tokenId"]) == (trade_id, trade.token)
                assert (told["price"], told["size"]) == (trade.price, str(trade.size))
                assert (told["buyer"], told["seller"]) == (trade.buyer, trade.seller)
                assert told["restingOrderId"] == trade.resting_order_id
                assert told["incomingOrderId"] == trade.incoming_order_id

    @rule()
    def look(self):
        """Compare in the middle."""
        self.check_books()


@pytest.mark.parametrize(
    ("examples", "steps"), [(12, 25), pytest.param(150, 60, marks=pytest.mark.long)]
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
