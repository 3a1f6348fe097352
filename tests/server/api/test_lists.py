"""Lists of open orders: pages neither skip nor repeat orders while the book changes."""

import random  # noqa: TID251 - seeded, and outside the engine
import re

import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    Limits,
    Matcher,
    Order,
    Replace,
    SetLimits,
    Side,
    Submit,
)
from clob_server.core.sequencer import Committed
from clob_server.core.state import ServerState, outcome_of
from clob_server.http.pagination import RestingIds
from tests.matchers import market
from tests.server.api.makers import good


def pages(http, **query):
    """Follow the links of a list to its end; return all pages."""
    result, answer = [], http.get("/api/orders", params=query)
    while True:
        result.append(good(answer))
        link = answer.headers.get("link")
        if link is None:
            assert "x-next-cursor" not in answer.headers
            return result
        path, cursor = re.fullmatch(
            r'<(/api/orders\?.*cursor=([0-9]+))>; rel="next"', link
        ).groups()
        assert answer.headers["x-next-cursor"] == cursor
        answer = http.get(path)


def test_pages_join_to_the_whole_list(http, api, market, alice):
    order_ids = [api.gasless(alice.gasless(market))["orderId"] for _ in range(11)]
    for limit in (1, 3, 10, 11, 12):
        result = pages(http, marketId=market.id, limit=limit)
        assert [order["id"] for page in result for order in page] == order_ids
        assert [len(page) for page in result[:-1]] == [limit] * (len(result) - 1)
    result = pages(http, maker=alice.address, marketId=market.id, limit=5)
    assert [order["id"] for page in result for order in page] == order_ids


def test_changes_between_pages_neither_skip_nor_repeat_orders(http, api, market, alice):
    order_ids = [api.gasless(alice.gasless(market))["orderId"] for _ in range(6)]
    first = http.get("/api/orders", params={"marketId": market.id, "limit": 2})
    assert [order["id"] for order in good(first)] == order_ids[:2]
    for cancelled in (0, 1, 3):
        api.cancel(order_ids[cancelled], alice)
    order_ids.append(api.gasless(alice.gasless(market))["orderId"])
    rest = api.orders(marketId=market.id, cursor=first.headers["x-next-cursor"])
    assert [order["id"] for order in rest] == [
        order_ids[2],
        order_ids[4],
        order_ids[5],
        order_ids[6],
    ]


# ----- the index of resting orders -----------------------------------------------------------


class Follower:
    """A server state and the index that follows its commits."""

    def __init__(self):
        self.exchange = ServerState()
        self.index = RestingIds(self.exchange.matcher)
        self.now_ms = 0
        self.do(AddMarket(market=market(yes="101", no="102")))
        self.do(AddMarket(market=market(id="n", yes="201", no="202")))

    def do(self, command):
        num_trades = self.exchange.num_trades
        done = Committed(0, command, outcome_of(self.exchange, command), num_trades)
        self.index.on_batch([done])

    def check(self, rng):
        matcher = self.exchange.matcher
        for maker in (None, "a", "b", "c", "nobody"):
            for name in (None, "m", "n"):
                right = matcher.open_orders(maker, name)
                after, count = rng.choice([0] + [r.number for r in right]), rng.randrange(1, 9)
                result = self.index.page(maker, name, after, count)
                assert result == [r for r in right if r.number > after][:count]
                assert self.index.page(maker, name, 0, 1_000) == right
        assert len(self.index) == len(matcher)


def random_command(rng, number, now_ms):
    tokens = {"m": ("101", "102"), "n": ("201", "202")}
    name = rng.choice("mn")

    def submit(number):
        order = Order(
            id=f"o{number}",
            token=rng.choice(tokens[name]),
            maker=rng.choice("abc"),
            side=rng.choice(list(Side)),
            price=rng.randrange(45, 56),
            size=rng.randrange(1, 9),
        )
        return Submit(market=name, order=order, now_ms=now_ms)

    known = f"o{rng.randrange(max(1, number))}"
    kind = rng.randrange(10)
    if kind < 5:
        return submit(number)
    if kind < 7:
        return Cancel(order_id=known, now_ms=now_ms)
    if kind == 7:
        return Replace(order_id=known, price=rng.randrange(45, 56), size=5, now_ms=now_ms)
    if kind == 8 and rng.random() < 0.1:
        return CancelAll(maker=rng.choice("abc"), now_ms=now_ms)
    commands = [submit(f"{number}.{index}") for index in range(4)]
    commands.append(Cancel(order_id=known))
    return Batch(commands=tuple(commands), now_ms=now_ms)


@pytest.mark.parametrize("seed", range(4))
def test_listed_orders_equal_the_resting_orders_after_random_commands(seed):
    rng, follower = random.Random(seed), Follower()
    follower.do(SetLimits(limits=Limits(finished_max=3)))
    for number in range(400):
        follower.do(random_command(rng, number, now_ms=number))
        if number % 5 == 0:
            follower.check(rng)
    rebuilt = RestingIds(follower.exchange.matcher)
    assert rebuilt.page(None, None, 0, 10**6) == follower.index.page(None, None, 0, 10**6)


class CountingMatcher:
    """A matcher that counts lookups of single orders."""

    def __init__(self, matcher):
        self._matcher, self.num_lookups = matcher, 0

    def open_orders(self, maker):
        return self._matcher.open_orders(maker)

    def order(self, order_id):
        self.num_lookups += 1
        return self._matcher.order(order_id)


def test_page_of_a_large_book_reads_few_orders():
    """A page of 500 out of 20,000 resting orders reads at most 16 more orders than it returns."""
    matcher = Matcher()
    matcher.apply(AddMarket(market=market(yes="101", no="102")))
    matcher.apply(SetLimits(limits=Limits(orders_max=10**6)))
    for number in range(20_000):
        order = Order(id=f"o{number}", token="101", maker="a", side=Side.BUY, price=50, size=1)
        matcher.apply(Submit(market="m", order=order))
    counting = CountingMatcher(matcher)
    index = RestingIds(counting)
    for after in (0, 10_000, 19_000):
        counting.num_lookups = 0
        assert len(index.page("a", "m", after, 500)) == 500
        assert counting.num_lookups <= 500 + 16
