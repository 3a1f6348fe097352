"""Queries, check, simulate, fork and replay; none of them changes the matcher."""

import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest

from clob import (
    Balance,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Expire,
    Funds,
    Limits,
    Matcher,
    Mode,
    OrderStatus,
    Reduce,
    RejectedError,
    Replace,
    SelfTrade,
    SetBalance,
    SetMarket,
    SetMode,
    SetNonce,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.errors import (
    InsufficientBalanceError,
    InvalidCommandError,
    PriceOutOfRangeError,
    TokenNotInMarketError,
    UnknownMarketError,
    UnknownOrderError,
)
from tests.books import event_lines
from tests.matchers import buy, funded, market, opened, rejected, sell


@pytest.fixture
def matcher(matcher_class):
    """A matcher with two markets."""
    return opened(matcher_class, market(), market("n"))


# ----- empty matcher ------------------------------------------------------------------------


def test_new_matcher_is_empty_and_truthy(matcher_class):
    matcher = matcher_class()
    assert (len(matcher), bool(matcher), matcher.now_ms) == (0, True, 0)
    assert (matcher.markets, matcher.open_orders(), matcher.balances()) == ([], [], {})
    assert (matcher.limits, matcher.next_expiry_s) == (Limits(), None)
    assert (matcher.nonce("x"), matcher.balance("x", "y")) == (0, Balance(0, 0, 0))
    assert not matcher.is_used(b"7" * 32)
    matcher.audit()


def test_package_matcher_uses_the_tested_engine():
    matcher = Matcher()
    matcher.add_market(market())
    assert event_lines(matcher.submit("m", buy("a", 50, 5).order)) == ["added a 5"]


# ----- orders --------------------------------------------------------------------------------


def test_record_has_all_fields_of_an_order(matcher):
    first = buy("a", 60, 10, expiration_s=9, client_id="mine", order_hash=b"7" * 32, now_ms=5)
    matcher.apply(first)
    matcher.apply(sell("s", 50, 4, now_ms=6))
    record = matcher.order("a")
    assert (record.market, record.order) == ("m", first.order)
    assert (record.status, record.removal) == (OrderStatus.PARTIAL, None)
    assert (record.filled, record.remaining, record.filled_amount) == (4, 6, 4)
    assert record.filled_collateral == 2
    assert (record.number, record.accepted_ms) == (1, 5)
    assert (record.client_id, record.order_hash) == ("mine", b"7" * 32)
    assert matcher.order("s").number == 2
    assert matcher.order_by_hash(b"7" * 32) == matcher.order_by_client_id("B", "mine") == record


def test_record_has_submitted_and_current_terms(matcher):
    matcher.apply(sell("a", 60, 10, collateral=7))
    matcher.apply(buy("b", 60, 4))
    matcher.apply(Replace(order_id="a", price=61, size=3))
    record = matcher.order("a")
    assert (record.order.price, record.order.size, record.order.collateral) == (60, 10, 7)
    assert (record.price, record.size, record.filled, record.remaining) == (61, 7, 4, 3)
    matcher.apply(Reduce(order_id="a", size=1))
    assert (matcher.order("a").size, matcher.order("a").remaining) == (5, 1)
    assert matcher.order("a").filled_amount == 4 * 7 // 10


def test_unknown_ids_raise(matcher):
    for ask in (
        lambda: matcher.order("a"),
        lambda: matcher.ahead("a"),
        lambda: matcher.order_by_hash(b"7" * 32),
        lambda: matcher.order_by_client_id("B", "mine"),
    ):
        with rejected(matcher, UnknownOrderError):
            ask()
    for ask in (
        lambda: matcher.open_orders(market="x"),
        lambda: matcher.depth("x"),
        lambda: matcher.seq("x"),
        lambda: matcher.market("x"),
        lambda: matcher.unsettled("x"),
    ):
        with rejected(matcher, UnknownMarketError, "'x'"):
            ask()
    with rejected(matcher, TokenNotInMarketError, "'n-yes'"):
        matcher.depth("m", "n-yes")
    with pytest.raises(ValueError, match="0 or more"):
        matcher.depth("m", limit=-1)


def test_open_orders_are_in_order_of_acceptance(matcher):
    for order_id, where, maker in (
        *((7, "m", "B"), ("x", "n", "B"), ("a", "m", "C"), (0, "m", "B")),
        *(("z", "n", "C"), ("b", "m", "B")),
    ):
        fields = {"market": where, "token": f"{where}-no", "maker": maker}
        matcher.apply(buy(order_id, 50, 5, **fields))

    def ids(**which):
        return [record.order.id for record in matcher.open_orders(**which)]

    assert ids() == [7, "x", "a", 0, "z", "b"]
    assert ids(maker="B") == [7, "x", 0, "b"]
    assert ids(market="m") == [7, "a", 0, "b"]
    assert ids(maker="C", market="n") == ["z"]
    assert ids(maker="nobody") == []
    matcher.cancel(0)
    matcher.apply(Replace(order_id=7, price=51, size=9))  # another place in its queue only
    assert ids() == [7, "x", "a", "z", "b"]
    assert ids() == [record.order.id for record in matcher.fork().open_orders()]


def test_ahead_counts_orders_in_front(matcher):
    for order_id, size in (("a", 5), ("b", 7), ("c", 1)):
        matcher.apply(buy(order_id, 50, size, token="m-no"))
    assert (matcher.ahead("c").num_orders, matcher.ahead("c").size) == (2, 12)
    matcher.cancel("a")
    assert (matcher.ahead("c").num_orders, matcher.ahead("c").size) == (1, 7)
    with rejected(matcher, UnknownOrderError, "'a'"):
        matcher.ahead("a")


# ----- depth and sequence --------------------------------------------------------------------


def test_both_tokens_of_a_market_share_one_sequence(matcher):
    events = []
    for number in range(60):
        write, token = (buy, sell)[number % 3 == 0], ("m-yes", "m-no")[number % 2]
        events += matcher.apply(write(number, 48 + number % 5, 1 + number % 4, token=token))
        assert matcher.seq("m") == len(events)
        for which in ("m-yes", "m-no"):
            assert matcher.depth("m", which).seq == len(events)
        if number % 7 == 0:
            matcher = matcher.fork()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.token for event in events} == {"m-yes", "m-no"}
    assert matcher.seq("n") == 0


def test_depth_limit_returns_the_best_levels(matcher):
    for price in (40, 42, 41):
        matcher.apply(buy(price, price, price))
        matcher.apply(sell(-price + 100, 100 - price, 1))
    depth = matcher.depth("m", limit=2)
    assert [level.price for level in depth.bids] == [42, 41]
    assert [level.price for level in depth.asks] == [58, 59]
    assert matcher.depth("m", "m-yes") == matcher.depth("m") != matcher.depth("m", "m-no")
    assert matcher.depth("m", limit=0).bids == ()


# ----- trial execution ----------------------------------------------------------------------


def world(matcher_class):
    """Return a matcher with fees, accounts and policies, which rejects many commands."""
    terms = {"funds": Funds.ACCOUNTS, "resting_fee_rate_bps": 30, "incoming_fee_rate_bps": 150}
    markets = (
        market(**terms, self_trade=SelfTrade.DECREMENT),
        market("n", **terms, settles=True, lot_wei=2, min_size=4),
    )
    matcher = opened(matcher_class, *markets)
    return funded(matcher, "BSC", 4_000, ("collateral", "m-yes", "m-no", "n-yes", "n-no"))


def draw(rng, number, now_ms):
    """Draw a command."""
    where = rng.choice("mn")
    order_id = rng.randrange(max(0, number - 9), number + 1)
    maker = rng.choice("BSC")
    match rng.randrange(12):
        case 0:
            return Cancel(order_id=order_id, maker=rng.choice((None, maker)), now_ms=now_ms)
        case 1:
            return Reduce(order_id=order_id, size=rng.randint(1, 9), maker=maker, now_ms=now_ms)
        case 2:
            fields = {"price": rng.randint(46, 54), "size": rng.randint(1, 99)}
            return Replace(order_id=order_id, now_ms=now_ms, post_only=rng.random() < 0.2, **fields)
        case 3 if rng.random() < 0.3:
            return Expire(now_ms=now_ms)
        case 4 if rng.random() < 0.2:
            return SetNonce(maker=maker, nonce=rng.randint(0, 9), now_ms=now_ms)
        case 5 if rng.random() < 0.1:
            return CancelAll(maker=maker, market=rng.choice((None, where)), now_ms=now_ms)
        case 5 if rng.random() < 0.1:
            filters = {
                "token": rng.choice((None, where + "-yes")),
                "side": rng.choice((None, *Side)),
            }
            return CancelSome(maker=maker, accepted_until_ms=number, now_ms=now_ms, **filters)
        case 6:
            inner = tuple(draw(rng, number, now_ms) for _ in range(3))
            return Batch(commands=inner, atomic=True, now_ms=now_ms)
    return rng.choice((buy, sell))(
        order_id if rng.random() < 0.05 else number if rng.random() < 0.9 else f"{number}",
        rng.randint(48, 52),
        2 * rng.randint(1, 60) - (rng.random() < 0.05),
        market=where,
        token=where + rng.choice(("-yes", "-no")),
        maker=maker,
        now_ms=now_ms,
        nonce=rng.choice((12, 12, 12, rng.randint(0, 12))),
        time_in_force=rng.choice((TimeInForce.GTC,) * 8 + (TimeInForce.IOC, TimeInForce.FOK)),
        expiration_s=rng.choice((0, 0, 0, now_ms // 1000 + rng.randint(0, 3))),
        self_trade=rng.choice((None, None, *SelfTrade)),
        fee_rate_bps=rng.choice((None, None, 0, 100)),
        client_id=rng.choice((None, None, None, f"c{number % 40}")),
    )


def outcome(matcher, command):
    """Apply a command; return its rejection or None, and its events."""
    try:
        return None, matcher.apply(command)
    except RejectedError as rejection:
        return rejection, []


@pytest.mark.parametrize("seed", range(3))
def test_check_and_simulate_predict_apply(matcher_class, seed):
    rng, matcher, now_ms = random.Random(seed), world(matcher_class), 1_000
    trades = rejections = 0
    for number in range(500):
        now_ms += rng.choice((0, 10, 600))
        command = draw(rng, number, now_ms)
        before = matcher.snapshot()
        expected, simulated = matcher.check(command), None
        if isinstance(command, Submit):
            try:
                simulated = matcher.simulate(command)
            except RejectedError as rejection:
                simulated = str(rejection)
        assert matcher.snapshot() == before
        caught, events = outcome(matcher, command)
        assert (type(expected), str(expected)) == (type(caught), str(caught)), command
        if caught is not None:
            rejections += 1
            assert expected.index == caught.index
            assert simulated in (None, str(caught))
            assert matcher.snapshot() == before
        elif simulated is not None:
            assert simulated == [event for event in events if isinstance(event, Trade)]
            trades += len(simulated)
    assert trades > 50
    assert rejections > 50
    matcher.audit()


def test_simulation_without_the_balance_check_differs_in_nothing_else(matcher_class):
    matcher = opened(matcher_class, market(funds=Funds.ACCOUNTS, incoming_fee_rate_bps=100))
    funded(matcher, ["S", "B"], 1_000)
    matcher.apply(sell("s", 50, 10))
    covered, short = (
        buy("b", 50, 10, fee_rate_bps=100),
        buy("b", 50, 10, maker="", fee_rate_bps=100),
    )
    before = matcher.snapshot()
    with rejected(matcher, InsufficientBalanceError):
        matcher.simulate(short)
    [expected], [trade] = matcher.simulate(covered), matcher.simulate(short, check_balance=False)
    assert trade == msgspec.structs.replace(expected, buyer="")
    assert matcher.simulate(covered, check_balance=False) == [expected]
    with rejected(matcher, PriceOutOfRangeError):
        matcher.simulate(buy("b", 100, 10, maker=""), check_balance=False)
    assert matcher.snapshot() == before


def test_simulate_rejects_other_commands(matcher):
    for wrong in (None, Cancel(order_id="a"), buy("a", 50, 5).order):
        with rejected(matcher, InvalidCommandError):
            matcher.simulate(wrong)


def test_check_ignores_commands_of_a_non_atomic_batch(matcher):
    assert matcher.check(Batch(commands=(Cancel(order_id="nobody"),))) is None
    rejection = matcher.check(Batch(commands=(Cancel(order_id="nobody"),), atomic=True))
    assert (type(rejection), rejection.index) == (UnknownOrderError, 0)


# ----- forks and streams ---------------------------------------------------------------------


def test_fork_is_independent(matcher):
    matcher.apply(buy("a", 50, 5))
    fork = matcher.fork()
    assert type(fork) is type(matcher)
    assert fork.snapshot() == matcher.snapshot()
    before = matcher.snapshot()
    fork.apply(sell("s", 50, 3))
    fork.apply(SetMode(market="n", mode=Mode.RESOLVED))
    fork.apply(SetMarket(market=market(min_size=9)))
    fork.apply(SetBalance(wallet="w", asset="a", amount=1))
    assert matcher.snapshot() == before
    assert (matcher.order("a").remaining, fork.order("a").remaining) == (5, 2)
    assert (matcher.market("m").min_size, matcher.balances()) == (1, {})
    matcher.cancel("a")
    assert fork.order("a").status is OrderStatus.PARTIAL


def test_methods_equal_their_commands(matcher_class):
    one, other = matcher_class(), matcher_class()
    one.add_market(market(), 1)
    one.submit("m", buy("a", 50, 5).order, 2, client_id="c", order_hash=b"7" * 32, deadline_ms=9)
    one.submit("m", buy("b", 50, 5).order, 2)
    one.submit("m", buy("d", 50, 5).order, 2)
    one.cancel("a", 3, maker="B")
    one.cancel_all(4, maker="B", market="m")
    other.add_market(market(), now_ms=1)
    named = {"client_id": "c", "order_hash": b"7" * 32, "deadline_ms": 9}
    for command in (
        buy("a", 50, 5, now_ms=2, **named),
        buy("b", 50, 5, now_ms=2),
        buy("d", 50, 5, now_ms=2),
        Cancel(order_id="a", maker="B", now_ms=3),
        CancelAll(maker="B", market="m", now_ms=4),
    ):
        other.apply(command)
    assert one.snapshot() == other.snapshot()
    assert one.state_hash() == other.state_hash() == one.snapshot()[-32:]


def test_replay_reaches_the_same_state(matcher_class):
    rng, matcher, commands, now_ms = random.Random(9), world(matcher_class), [], 1_000
    start = matcher.fork()
    rejections = 0
    for number in range(400):
        now_ms += rng.choice((0, 10, 600))
        commands.append(draw(rng, number, now_ms))
        try:
            matcher.apply(commands[-1])
        except RejectedError:
            rejections += 1
    replayed = start.replay(iter(commands))
    assert start.snapshot() == matcher.snapshot()
    assert replayed.applied + sum(replayed.rejected.values()) == len(commands)
    assert sum(replayed.rejected.values()) == rejections
    assert replayed.events >= matcher.seq("m") + matcher.seq("n")


def test_batch_returns_the_result_of_each_command(matcher):
    taken = msgspec.structs.replace(buy("a", 50, 5), now_ms=77)  # its own time is not looked at
    first, second, third = matcher.batch(
        [taken, Cancel(order_id="nobody"), sell("s", 50, 2)], now_ms=9
    )
    assert event_lines(first) == ["added a 5"]
    assert type(second) is UnknownOrderError
    assert event_lines(third) == ["trade a s 2 @ 50"]
    assert (matcher.now_ms, matcher.order("a").accepted_ms) == (9, 9)
    with rejected(matcher, UnknownOrderError) as caught:
        matcher.batch([sell("t", 50, 1), Cancel(order_id="nobody")], now_ms=9, atomic=True)
    assert caught.value.index == 1
    assert matcher.open_orders()[0].order.side is Side.BUY
