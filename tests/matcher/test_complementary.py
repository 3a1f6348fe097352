"""Complementary markets: terms, events, snapshots, batches.

Stories about priority and balances are in ``tests/matcher_scenarios``.
"""

import hashlib

import msgspec
import pytest

from clob import (
    Batch,
    Cancel,
    Funds,
    Level,
    Limits,
    Market,
    MatchType,
    Mode,
    PairedTrade,
    Reduce,
    Replace,
    SelfTrade,
    SetLimits,
    SetMarket,
    SetMode,
    Side,
    TimeInForce,
    Trade,
)
from clob.errors import (
    FokNotFillableError,
    InsufficientBalanceError,
    InvalidAmountError,
    InvalidCommandError,
    InvalidInstructionError,
    InvalidMarketError,
    InvalidSideError,
    InvalidSnapshotError,
    PostOnlyWouldCrossError,
    PriceOutOfRangeError,
    TokenNotInMarketError,
    TooManyTradesError,
    UnknownTradeError,
)
from tests.matchers import buy, funded, load, market, opened, rejected, sell

TERMS = {"complementary": True, "lot_wei": 100}
NO = {"token": "m-no"}


def paired(matcher_class, **terms):
    """Return a matcher with one complementary market."""
    return opened(matcher_class, market(**TERMS, **terms))


# ----- terms of the market -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"lot_wei": 1}, "lot_wei must be a multiple of 100 in a complementary market; got 1"),
        ({"lot_wei": 250}, "a multiple of 100 in a complementary market; got 250"),
        ({"no": ""}, "no must have 1 to 256 characters in a complementary market; got 0"),
        ({"complementary": 1}, "complementary must be True or False; got 1"),
    ],
)
def test_invalid_complementary_market_is_rejected(matcher_class, terms, words):
    matcher = matcher_class()
    with rejected(matcher, InvalidMarketError, words):
        matcher.add_market(market(**(TERMS | terms)))


def test_lot_of_a_complementary_market_is_that_of_whole_halves_unless_passed(matcher_class):
    assert Market(id="a", yes="1", no="2").lot_wei == 1
    market = Market(id="m", yes="3", no="4", complementary=True)
    assert market.lot_wei == 100
    assert Market(id="m", yes="3", no="4", complementary=True, lot_wei=300).lot_wei == 300
    assert msgspec.json.decode(msgspec.json.encode(market), type=Market) == market
    matcher_class().add_market(market)


def test_complementary_flag_cannot_change(matcher_class):
    matcher = opened(matcher_class, market(**TERMS), market("n", lot_wei=100))
    with rejected(
        matcher,
        InvalidMarketError,
        "complementary of market 'm' cannot change: it is True; got False",
    ):
        matcher.set_market(market(lot_wei=100))
    with rejected(
        matcher,
        InvalidMarketError,
        "complementary of market 'n' cannot change: it is False; got True",
    ):
        matcher.set_market(market("n", **TERMS))
    matcher.apply(SetMarket(market=market(min_size=500, **TERMS)))
    assert matcher.market("m").min_size == 500


def test_tokens_of_other_markets_do_not_match(matcher_class):
    matcher = opened(matcher_class, market(lot_wei=100))
    matcher.apply(buy("a", 60, 100))
    (added,) = matcher.apply(buy("b", 99, 100, **NO))
    assert (added.token, added.price) == ("m-no", 99)


# ----- events ---------------------------------------------------------------------------------


def test_mint_has_two_trades_incoming_token_first(matcher_class):
    matcher = paired(matcher_class)
    matcher.apply(buy("a", 60, 300, maker="A"))
    first, second, removed, added = matcher.apply(buy("b", 45, 500, maker="B", **NO))
    both = {
        "market": "m",
        "resting_order_id": "a",
        "incoming_order_id": "b",
        "size": 300,
        "seller": "",
        "resting_remaining": 0,
        "incoming_remaining": 200,
        "match_type": MatchType.MINT,
    }
    first_says = {"token": "m-no", "price": 40, "buyer": "B", "incoming_side": Side.BUY}
    second_says = {"token": "m-yes", "price": 60, "buyer": "A", "incoming_side": Side.SELL}
    assert first == PairedTrade(seq=2, **both, **first_says)
    assert second == PairedTrade(seq=3, **both, **second_says)
    assert (removed.seq, removed.token, removed.order_id) == (4, "m-yes", "a")
    assert (added.seq, added.token, added.price, added.remaining) == (5, "m-no", 45, 200)
    assert matcher.seq("m") == 5


def test_trade_of_one_token_is_direct(matcher_class):
    matcher = paired(matcher_class)
    matcher.apply(sell("a", 40, 300, maker="A", **NO))
    trade, _ = matcher.apply(buy("b", 45, 300, maker="B", **NO))
    assert type(trade) is Trade
    assert trade.match_type is MatchType.DIRECT
    assert (trade.token, trade.price, trade.buyer, trade.seller) == ("m-no", 40, "B", "A")
    assert trade.incoming_side is Side.BUY
    assert repr(trade.match_type) == "MatchType.DIRECT"


def test_depth_of_each_token_includes_both(matcher_class):
    matcher = paired(matcher_class)
    for command in (
        buy("a", 40, 300),
        sell("b", 60, 200, **NO),
        sell("c", 70, 100),
        buy("d", 25, 100, **NO),
    ):
        matcher.apply(command)
    yes, no = matcher.depth("m"), matcher.depth("m", "m-no")
    assert yes.bids == (Level(40, 500, 2),)
    assert yes.asks == (Level(70, 100, 1), Level(75, 100, 1))
    assert no.bids == (Level(30, 100, 1), Level(25, 100, 1))
    assert no.asks == (Level(60, 500, 2),)
    assert (yes.seq, no.seq, yes.token, no.token) == (4, 4, "m-yes", "m-no")
    assert matcher.depth("m", "m-no", 1).bids == (Level(30, 100, 1),)
    ahead = matcher.ahead("b")
    assert (ahead.num_orders, ahead.size) == (1, 300)
    assert len(matcher) == 4
    assert matcher.order("b").price == 60


def test_rejection_uses_prices_of_the_orders_token(matcher_class):
    matcher = paired(matcher_class)
    matcher.apply(buy("a", 60, 300))
    with rejected(matcher, PostOnlyWouldCrossError, "a post-only BUY at 41 would trade at 40"):
        matcher.apply(buy("b", 41, 100, post_only=True, **NO))
    fok = {"time_in_force": TimeInForce.FOK}
    with rejected(matcher, FokNotFillableError, "only 300 of 400 wei can trade at 41 or better"):
        matcher.apply(buy("b", 41, 400, **fok, **NO))
    matcher.apply(buy("n", 30, 100, **NO))
    with rejected(matcher, PostOnlyWouldCrossError, "a post-only BUY at 45 would trade at 40"):
        matcher.apply(Replace(order_id="n", price=45, size=100, post_only=True))
    with rejected(matcher, PostOnlyWouldCrossError, "a post-only SELL at 59 would trade at 60"):
        matcher.apply(sell("c", 59, 100, post_only=True))


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        (
            {"price": 0},
            PriceOutOfRangeError,
            "price must be an integer from 1 to 99 (cents); got 0",
        ),
        ({"price": 100}, PriceOutOfRangeError, "from 1 to 99 (cents); got 100"),
        ({"price": "50"}, PriceOutOfRangeError, "got '50'"),
        ({"price": True}, PriceOutOfRangeError, "got True"),
        ({"side": 0}, InvalidSideError, "side must be Side.BUY or Side.SELL; got 0"),
        ({"size": 150}, InvalidAmountError, "the lot of 100 wei; got 150, nearest: 100 or 200"),
        ({"size": 50}, InvalidAmountError, "got 50, nearest: 100"),
        ({"time_in_force": 9}, InvalidInstructionError, "time_in_force must be a TimeInForce"),
        ({"token": "x"}, TokenNotInMarketError, "market 'm': 'm-yes' or 'm-no'; got 'x'"),
    ],
)
def test_invalid_no_order_is_rejected_as_in_other_markets(matcher_class, fields, error, words):
    matcher = paired(matcher_class)
    matcher.apply(buy("a", 60, 300))
    submit = buy("b", 50, 100, **NO)
    order = msgspec.structs.replace(submit.order, **fields)
    with rejected(matcher, error, words):
        matcher.apply(msgspec.structs.replace(submit, order=order))


def test_pair_counts_as_one_trade_of_an_order(matcher_class):
    matcher = paired(matcher_class)
    matcher.apply(SetLimits(limits=Limits(trades_max=2)))
    for name in "abc":
        matcher.apply(buy(name, 60, 100))
    with rejected(matcher, TooManyTradesError, "at most 2 trades; got 3, a size of 200 wei fits"):
        matcher.apply(buy("n", 40, 300, **NO))
    assert len(matcher.apply(buy("n", 40, 200, **NO))) == 6


# ----- simulate ------------------------------------------------------------------------------


def test_simulate_predicts_trades(matcher_class):
    matcher = paired(matcher_class, resting_fee_rate_bps=100, incoming_fee_rate_bps=200)
    for command in (
        buy("a", 60, 300),
        buy("b", 55, 200, maker="N"),
        sell("c", 45, 200, **NO),
        buy("d", 50, 500),
    ):
        matcher.apply(command)
    before = matcher.snapshot()
    for submit in (buy("x", 55, 900, **NO), sell("x", 50, 900), buy("x", 55, 900, maker="N", **NO)):
        predicted = matcher.simulate(submit)
        assert matcher.snapshot() == before
        events = matcher.fork().apply(submit)
        assert predicted == [event for event in events if isinstance(event, Trade)]
        assert sum(trade.match_type is not MatchType.DIRECT for trade in predicted) % 2 == 0
    assert matcher.check(Replace(order_id="c", price=55, size=900)) is None
    crossing = Replace(order_id="c", price=30, size=100, post_only=True)
    matcher.apply(buy("n", 35, 100, **NO))
    assert "a post-only SELL at 30 would trade at 35" in str(matcher.check(crossing))


def test_simulate_rejects_invalid_orders(matcher_class):
    matcher = paired(matcher_class)
    with rejected(matcher, PriceOutOfRangeError, "from 1 to 99 (cents); got 0"):
        matcher.simulate(buy("x", 0, 100, **NO))


# ----- makers and money ------------------------------------------------------------------------


def test_order_reserves_the_asset_it_pays(matcher_class):
    matcher = funded(paired(matcher_class, funds=Funds.ACCOUNTS), "AB", 1_000)
    with rejected(matcher, InsufficientBalanceError, "1000 wei of 'collateral' available, 1020"):
        matcher.apply(buy("a", 51, 2_000, maker="A", **NO))
    with rejected(matcher, InsufficientBalanceError, "1000 wei of 'm-no' available, 1100 needed"):
        matcher.apply(sell("a", 1, 1_100, maker="A", **NO))
    matcher.apply(buy("a", 50, 2_000, maker="A", **NO))
    assert matcher.balance("A", "collateral").available == 0


def test_smart_wallet_pays_and_receives_its_half(matcher_class):
    matcher = funded(paired(matcher_class, funds=Funds.ACCOUNTS), ("A", "B", "W"), 1_000)
    matcher.apply(buy("a", 60, 100, maker="A", smart_wallet="W"))
    matcher.apply(buy("b", 40, 100, maker="B", **NO))
    assert matcher.balance("W", "collateral").balance == 940
    assert matcher.balance("A", "m-yes").balance == 1_100
    matcher.apply(sell("c", 30, 100, maker="A", smart_wallet="W"))
    matcher.apply(sell("d", 70, 100, maker="B", **NO))
    assert matcher.balance("W", "collateral").balance == 970
    assert matcher.balance("A", "collateral").balance == 1_000
    assert matcher.balance("B", "collateral").balance == 960 + 70
    assert ("", "collateral") not in matcher.balances()


def test_self_trade_policy_covers_both_tokens(matcher_class):
    matcher = paired(matcher_class, self_trade=SelfTrade.CANCEL_BOTH)
    matcher.apply(buy("a", 60, 300))
    (removed,) = matcher.apply(buy("b", 45, 100, **NO))
    assert (removed.order_id, removed.reason) == ("a", "self_trade")
    assert matcher.order("b").removal == "self_trade"


def test_order_ended_by_self_trade_has_that_reason(matcher_class):
    matcher = paired(matcher_class)
    matcher.apply(buy("a", 60, 300))
    matcher.apply(
        buy(
            "b",
            45,
            100,
            time_in_force=TimeInForce.IOC,
            self_trade=SelfTrade.CANCEL_INCOMING,
            **NO,
        )
    )
    assert matcher.order("b").removal == "self_trade"


# ----- settlement ------------------------------------------------------------------------------


@pytest.fixture
def waiting(matcher_class):
    """A market that settles, with pending trades: direct 2, mint 5 and 6, merge 9 and 10."""
    matcher = paired(matcher_class, funds=Funds.ACCOUNTS, settles=True)
    funded(matcher, "AB", 10_000)
    for command in (
        buy("a", 60, 100, maker="A"),
        sell("b", 60, 100, maker="B"),
        buy("c", 60, 100, maker="A"),
        buy("d", 40, 100, maker="B", **NO),
        sell("e", 30, 100, maker="A"),
        sell("f", 70, 100, maker="B", **NO),
    ):
        matcher.apply(command)
    assert matcher.unsettled("m") == [2, 5, 6, 9, 10]
    return matcher


def test_half_of_a_pair_cannot_settle_alone(waiting):
    for trades in ((5,), (2, 6), (5, 6, 10)):
        with rejected(waiting, InvalidCommandError, "must settle together with"):
            waiting.settled("m", trades)
    # The first rule in the order of errors.
    with rejected(waiting, InvalidCommandError):
        waiting.settled("m", (99, 5))
    with rejected(waiting, UnknownTradeError):
        waiting.settled("m", (99, 5, 6))
    waiting.settled("m", (6, 5, 2))
    assert waiting.unsettled("m") == [9, 10]


@pytest.mark.parametrize("half", [9, 10])
def test_failed_half_releases_both_halves(waiting, half):
    before = waiting.balance("A", "m-yes"), waiting.balance("B", "m-no")
    assert [account.unsettled for account in before] == [100, 100]
    waiting.settle_failed("m", half)
    assert waiting.unsettled("m") == [2, 5, 6]
    after = waiting.balance("A", "m-yes"), waiting.balance("B", "m-no")
    assert [account.unsettled for account in after] == [0, 0]
    waiting.audit()


def test_snapshot_contains_pending_trades(waiting):
    for name in ("python", "compiled"):
        again = load(name).restore(waiting.snapshot())
        again.audit()
        assert again.snapshot() == waiting.snapshot()
        for matcher in (again, other := waiting.fork()):
            matcher.settled("m", (2, 5, 6, 9, 10))
        assert again.balances() == other.balances()
        assert again.snapshot() == other.snapshot()


def test_snapshot_with_inconsistent_halves_is_rejected(waiting):
    """The last bytes before the accounts are type and other seq of the halves."""
    body = waiting.snapshot()[:-32]
    merges = bytes((2, 1, 10)), bytes((2, 1, 9))
    assert all(body.count(merge) == 1 for merge in merges)
    for old, new in (
        (merges[0], bytes((2, 1, 9))),
        (merges[0], bytes((2, 1, 11))),
        (merges[0], bytes((0, 1, 10))),
        (merges[1], bytes((2, 0)) + b""),
    ):
        damaged = body.replace(old, new)
        sealed = damaged + hashlib.blake2b(damaged, digest_size=32).digest()
        with pytest.raises(InvalidSnapshotError):
            waiting.restore(sealed)


def test_snapshot_with_a_wallet_of_the_party_that_a_merge_lacks_is_rejected(waiting):
    """After the number and token of a merge come the four wallets: two empty ones of no buyer."""
    body = waiting.snapshot()[:-32]
    merge = b"\x01\x09\x01\x04m-no"
    assert body.count(merge + b"\x00\x00\x01\x01B\x01\x01B") == 1
    damaged = body.replace(merge + b"\x00\x00", merge + b"\x01\x01W\x00")
    with pytest.raises(InvalidSnapshotError, match="trade 9 has wallets of a party that merge"):
        waiting.restore(damaged + hashlib.blake2b(damaged, digest_size=32).digest())


# ----- batches and resolution ------------------------------------------------------------------


def test_rejected_atomic_batch_over_both_tokens_changes_nothing(matcher_class):
    matcher = funded(paired(matcher_class, funds=Funds.ACCOUNTS, settles=True), "BS", 10_000)
    for command in (buy("a", 60, 300), buy("n", 30, 200, **NO), sell("s", 80, 100, maker="S")):
        matcher.apply(command)
    steps = (
        Cancel(order_id="n"),
        buy("o", 30, 200, **NO),
        buy("p", 45, 200, maker="S", **NO),
        Reduce(order_id="o", size=100),
        Replace(order_id="o", price=35, size=300),
        buy("q", 70, 300, maker="S"),
    )
    before = matcher.snapshot()
    for length in range(1, len(steps) + 1):
        batch = Batch(commands=(*steps[:length], Cancel(order_id="nobody")), atomic=True)
        with pytest.raises(Exception, match="no order 'nobody'"):
            matcher.apply(batch)
        assert matcher.snapshot() == before
        matcher.audit()
    one, other = matcher.fork(), matcher.fork()
    events = one.apply(Batch(commands=steps, atomic=True))
    assert events == [event for step in steps for event in other.apply(step)]
    assert one.snapshot() == other.snapshot()


def test_resolving_removes_orders_of_both_tokens(matcher_class):
    matcher = paired(matcher_class)
    for command in (
        buy("n", 40, 100, **NO),
        buy("a", 50, 100),
        sell("s", 45, 100, **NO),
    ):
        matcher.apply(command)
    events = matcher.apply(SetMode(market="m", mode=Mode.RESOLVED))
    told = [(event.seq, event.token, event.order_id) for event in events]
    assert told == [(4, "m-no", "s"), (5, "m-yes", "a"), (6, "m-no", "n")]
    assert not matcher.open_orders()
    matcher.audit()
