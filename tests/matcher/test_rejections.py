"""Every rejection of a matcher: its class, its message, and that nothing changed."""

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Funds,
    Limits,
    MatchType,
    Mode,
    Reduce,
    RejectedError,
    Reopen,
    ReopenedTrade,
    Replace,
    ResetClock,
    SelfTrade,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    SpentHash,
    Submit,
    TimeInForce,
    errors,
)
from clob.errors import REJECTIONS
from clob.units import SIZE_MAX, TIME_MAX
from tests.matchers import buy, funded, market, opened, rejected, sell

HASH = b"\7" * 32
COVERED = market(funds=Funds.ACCOUNTS, settles=True, min_size=2, lot_wei=2)


@pytest.fixture
def matcher(matcher_class):
    """A market with accounts, a few resting orders and a pending trade, at time 1000."""
    markets = (COVERED, market("free"), market("big", min_size=10))
    matcher = funded(opened(matcher_class, *markets), ("B", "S"), 100)
    for command in (
        sell("ask", 60, 10),
        buy("taker", 60, 4),
        buy("bid", 40, 10, order_hash=HASH, client_id="mine"),
        buy("done", 30, 2),
        Cancel(order_id="done"),
        SetNonce(maker="N", nonce=5),
        SetMode(market="free", mode=Mode.CANCEL_ONLY),
        in_big("few 1", 10, maker="few"),
        in_big("few 2", 10, maker="few"),
        in_big("far 1", 10, price=60, write=sell),
        in_big("far 2", 20, price=60, write=sell),
        SetLimits(limits=Limits(orders_max=2, trades_max=1)),
    ):
        matcher.apply(msgspec.structs.replace(command, now_ms=1_000))
    return matcher


def m(**fields):
    """Return the market ``m`` of these tests with other terms."""
    return msgspec.structs.replace(COVERED, **fields)


def sided(side):
    """Return a submission with this side."""
    command = buy("x", 50, 2)
    return msgspec.structs.replace(command, order=msgspec.structs.replace(command.order, side=side))


def in_big(order_id, size, *, price=50, write=buy, **fields):
    """Return a submission to ``big``, which has no accounts and a minimum size."""
    return write(order_id, price, size, market="big", token="big-yes", **fields)


def spent(**fields):
    """Return a reset of the clock with one hash."""
    terms = {"order_hash": HASH, "maker": "B", "nonce": 1, "expiration_s": 2}
    return ResetClock(spent=(SpentHash(**terms | fields),))


ENDED = ReopenedTrade(
    seq=1,
    token="m-yes",
    buyer_pays="B",
    buyer_receives="B",
    seller_pays="S",
    seller_receives="S",
    paid=1,
    size=2,
)


def reopen(market="m", settled=False, trades=None, **terms):
    """Return the withdrawal of a result, with other terms of the trade."""
    trades = (msgspec.structs.replace(ENDED, **terms),) if trades is None else trades
    return Reopen(market=market, trades=trades, settled=settled)


RULES = [
    # ----- the envelope
    (errors.InvalidTimeError, buy("x", 50, 2, now_ms=-1), ["now_ms", 0, TIME_MAX, -1]),
    (errors.InvalidTimeError, Cancel(order_id="x", now_ms=2**63), [TIME_MAX, 2**63]),
    (errors.InvalidTimeError, SetNonce(maker="B", nonce=1, now_ms=1.5), ["integer", 1.5]),
    (errors.InvalidTimeError, Batch(commands=(), now_ms=None), ["integer", None]),
    (errors.ClockWentBackError, buy("x", 50, 2, now_ms=999), ["now_ms", 1_000, 999]),
    (errors.ClockWentBackError, Cancel(order_id="bid", now_ms=0), [1_000, "got 0"]),
    (errors.InvalidTimeError, ResetClock(now_ms=-1), ["now_ms", 0, TIME_MAX, -1]),
    (errors.InvalidTimeError, ResetClock(now_ms=2**63), [TIME_MAX, 2**63]),
    (errors.DeadlinePassedError, buy("x", 50, 2, deadline_ms=999), ["deadline", 999, 1_000]),
    # ----- commands
    (errors.InvalidCommandError, buy("x", 50, 2, deadline_ms="1"), ["deadline_ms", "'1'"]),
    (errors.InvalidCommandError, buy("x", 50, 2, deadline_ms=-1), ["deadline_ms", 0, TIME_MAX, -1]),
    (errors.InvalidCommandError, buy("x", 50, 2, deadline_ms=2**63), [TIME_MAX, 2**63]),
    (errors.InvalidCommandError, buy("x", 50, 2, market=5), ["market", "str", 5]),
    (errors.InvalidCommandError, buy("x", 50, 2, client_id=""), ["client_id", 1, 256, "got 0"]),
    (errors.InvalidCommandError, buy("x", 50, 2, client_id="c" * 257), [256, 257]),
    (errors.InvalidCommandError, buy("x", 50, 2, order_hash=b"7" * 31), ["order_hash", "32 bytes"]),
    (errors.InvalidCommandError, buy("x" * 257, 50, 2), ["id must", 256, 257]),
    (errors.InvalidCommandError, buy("x", 50, 2, maker="B" * 257), ["maker", 256, 257]),
    (errors.InvalidCommandError, buy("x", 50, 2, smart_wallet="B" * 257), ["smart_wallet", 257]),
    (errors.InvalidCommandError, buy("x", 50, 2, nonce=-1), ["nonce", "2**256 - 1", -1]),
    (errors.InvalidCommandError, buy("x", 50, 2, nonce=2**256), ["nonce", "2**256 - 1", 2**256]),
    (errors.InvalidCommandError, buy("x", 50, 2, collateral=-1), ["collateral", "2**256 - 1", -1]),
    (errors.InvalidCommandError, buy("x", 50, 2, collateral=2**256), ["collateral", 2**256]),
    (errors.InvalidCommandError, Submit(market="m", order="x"), ["Order", "'x'"]),
    (errors.InvalidCommandError, Cancel(order_id="bid", maker=7), ["maker", "str", 7]),
    (errors.InvalidCommandError, CancelAll(maker="M" * 300), ["maker", 256, 300]),
    (errors.InvalidCommandError, SetNonce(maker="B", nonce=2**256), ["nonce", 2**256]),
    (errors.InvalidCommandError, SetMode(market="m", mode="open"), ["mode", "Mode", "'open'"]),
    (errors.InvalidCommandError, SetLimits(limits=None), ["Limits", None]),
    (
        errors.InvalidCommandError,
        SetLimits(limits=Limits(orders_max=0)),
        ["orders_max", 1, "got 0"],
    ),
    (errors.InvalidCommandError, SetLimits(limits=Limits(trades_max=2**63)), ["trades_max", 2**63]),
    (errors.InvalidCommandError, SetBalance(wallet=1, asset="a", amount=1), ["wallet", "got 1"]),
    (errors.InvalidCommandError, SetBalance(wallet="W", asset="", amount=1), ["asset", "got 0"]),
    (errors.InvalidCommandError, SetBalance(wallet="W", asset="a", amount=-1), ["amount", -1]),
    (errors.InvalidCommandError, SetBalance(wallet="W", asset="a", amount=2**256), [2**256]),
    (errors.InvalidCommandError, Settled(market="m", trades=[2]), ["trades", "tuple", "[2]"]),
    (errors.InvalidCommandError, Settled(market="m", trades=(2, 2)), ["twice"]),
    (errors.InvalidCommandError, SettleFailed(market="m", trade=2, reason=0), ["reason", "got 0"]),
    (errors.InvalidCommandError, reopen(trades=[]), ["trades", "tuple"]),
    (errors.InvalidCommandError, reopen(settled=1), ["settled", "True or False"]),
    (errors.InvalidCommandError, reopen(trades=(5,)), ["ReopenedTrade", "got 5"]),
    (errors.InvalidCommandError, reopen(trades=(ENDED, ENDED)), ["twice"]),
    (errors.InvalidCommandError, reopen(seq="1"), ["seq", "'1'"]),
    (errors.InvalidCommandError, reopen(match_type="direct"), ["MatchType", "'direct'"]),
    (errors.InvalidCommandError, reopen(buyer_pays=5), ["buyer_pays", "str", "got 5"]),
    (errors.InvalidCommandError, reopen(match_type=MatchType.MINT), ["seller_pays", "empty"]),
    (errors.InvalidCommandError, reopen(size=0), ["size", "got 0"]),
    (errors.InvalidCommandError, reopen(paid=3), ["paid", 2, "got 3"]),
    (errors.InvalidCommandError, reopen(seller_fee=2), ["seller_fee", 1, "got 2"]),
    (errors.InvalidCommandError, reopen(buyer_fee=3), ["buyer_fee", 2, "got 3"]),
    (errors.InvalidCommandError, reopen(token="nothing"), ["token", "'nothing'"]),
    (errors.InvalidCommandError, reopen(other_seq=1), ["trade 1", "half 1"]),
    (errors.InvalidCommandError, reopen(market="free", token="free-no"), ["'free'", "settle"]),
    (errors.UnknownTradeError, reopen(seq=2), ["trade 2", "'m'", "no result"]),
    (errors.UnknownTradeError, reopen(seq=99), ["trade 99", "'m'", "no result"]),
    (errors.InvalidCommandError, Batch(commands=[]), ["tuple"]),
    (errors.InvalidCommandError, Batch(commands=(), atomic=1), ["True or False"]),
    (
        errors.InvalidCommandError,
        Batch(commands=(SetNonce(maker="B", nonce=1),)),
        ["Submit, Cancel"],
    ),
    (
        errors.InvalidCommandError,
        Batch(commands=(Batch(commands=()),)),
        ["Submit, Cancel", "Batch"],
    ),
    (errors.InvalidCommandError, Settled(market="m", trades=("2",)), ["trade", "seq", "'2'"]),
    (errors.InvalidCommandError, SettleFailed(market="m", trade=2.0), ["trade", "seq", "2.0"]),
    (errors.InvalidCommandError, Batch(commands=(buy("x", 50, 2, now_ms=-1),)), ["now_ms", -1]),
    (errors.InvalidCommandError, ResetClock(spent=[]), ["spent", "tuple", "[]"]),
    (errors.InvalidCommandError, ResetClock(spent=(HASH,)), ["spent", "SpentHash"]),
    (errors.InvalidCommandError, spent(order_hash=b"7" * 31), ["order_hash", "32 bytes"]),
    (errors.InvalidCommandError, spent(maker=5), ["maker", "got 5"]),
    (errors.InvalidCommandError, spent(nonce=2**256), ["nonce", 2**256]),
    (errors.InvalidCommandError, spent(expiration_s=-1), ["expiration_s", -1]),
    (errors.BatchTooLargeError, Batch(commands=()), [1, 20, "got 0"]),
    (errors.BatchTooLargeError, Batch(commands=(Cancel(order_id="x"),) * 21), [20, 21]),
    # ----- markets
    (errors.InvalidMarketError, AddMarket(market="m"), ["Market", "'m'"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", id="")), ["id", "got 0"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", yes=101)), ["yes", "str", 101]),
    (errors.InvalidMarketError, AddMarket(market=market("x", no="n" * 257)), ["no", 256, 257]),
    (errors.InvalidMarketError, AddMarket(market=market("x", no="x-yes")), ["differ", "'x-yes'"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", collateral="x-no")), ["differ"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", yes="m-no")), ["'m-no'", "'m'"]),
    (
        errors.InvalidMarketError,
        AddMarket(market=market("x", no="", funds=Funds.ACCOUNTS)),
        ["no must", 1, 256, "Funds.ACCOUNTS", "got 0"],
    ),
    (errors.InvalidMarketError, AddMarket(market=market("x", mode=0)), ["mode", "Mode", 0]),
    (errors.InvalidMarketError, AddMarket(market=market("x", funds=1)), ["funds", "Funds", 1]),
    (errors.InvalidMarketError, AddMarket(market=market("x", self_trade=None)), ["SelfTrade"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", lot_wei=0)), ["lot_wei", 1, SIZE_MAX]),
    (errors.InvalidMarketError, AddMarket(market=market("x", min_size=2**96)), [SIZE_MAX, 2**96]),
    (
        errors.InvalidMarketError,
        AddMarket(market=market("x", resting_fee_rate_bps=1001)),
        ["resting_fee_rate_bps", 1000, 1001],
    ),
    (
        errors.InvalidMarketError,
        AddMarket(market=market("x", incoming_fee_rate_bps=-1)),
        ["incoming_fee_rate_bps", 0, -1],
    ),
    (errors.InvalidMarketError, AddMarket(market=market("x", settles=1)), ["settles", 1]),
    (errors.InvalidMarketError, AddMarket(market=market("x", settles=True)), ["Funds.ACCOUNTS"]),
    (errors.InvalidMarketError, AddMarket(market=market("x", fee_wallet="")), ["fee_wallet"]),
    (errors.InvalidMarketError, SetMarket(market=m(lot_wei=1)), ["lot_wei", "it is 2", "got 1"]),
    (errors.InvalidMarketError, SetMarket(market=m(no="other")), ["no of", "'m-no'", "'other'"]),
    (errors.InvalidMarketError, SetMarket(market=m(mode=Mode.HALTED)), ["mode", "it is Mode.OPEN"]),
    (errors.InvalidMarketError, SetMarket(market=m(settles=False)), ["settles", "it is True"]),
    (errors.MarketExistsError, AddMarket(market=market("m")), ["'m'", "already"]),
    (errors.UnknownMarketError, buy("x", 50, 2, market="x"), ["'x'"]),
    (errors.UnknownMarketError, SetMarket(market=market("x")), ["'x'"]),
    (errors.UnknownMarketError, SetMode(market="x", mode=Mode.OPEN), ["'x'"]),
    (errors.UnknownMarketError, Cancel(order_id="bid", market="x"), ["'x'"]),
    (errors.UnknownMarketError, CancelAll(market="x"), ["'x'"]),
    (errors.UnknownMarketError, CancelAll(market=""), ["''"]),
    (errors.UnknownMarketError, CancelSome(market=""), ["''"]),
    (errors.TokenNotInMarketError, CancelSome(token="x"), ["no market", "'x'"]),
    (errors.UnknownMarketError, Settled(market="x", trades=(2,)), ["'x'"]),
    # ----- orders
    (errors.InvalidInstructionError, buy("x", 50, 2, time_in_force=0), ["TimeInForce", 0]),
    (errors.InvalidInstructionError, buy("x", 50, 2, expiration_s=-1), ["expiration_s", 0, -1]),
    (
        errors.InvalidInstructionError,
        buy("x", 50, 2, post_only=True, time_in_force=TimeInForce.IOC),
        ["post_only", "TimeInForce.IOC"],
    ),
    (
        errors.InvalidInstructionError,
        Replace(order_id="bid", price=40, size=2, self_trade="none"),
        ["self_trade", "'none'"],
    ),
    (errors.InvalidSideError, sided(0), ["Side.BUY or Side.SELL", "got 0"]),
    (errors.InvalidOrderIdError, buy("", 50, 2), ["order id", 1, "''"]),
    (errors.InvalidOrderIdError, buy(2**63, 50, 2), ["order id", 2**63 - 1, 2**63]),
    (errors.InvalidOrderIdError, Cancel(order_id=2**64), ["order id", 2**64]),
    (errors.InvalidOwnerError, buy("x", 50, 2, maker=None), ["maker", "str", None]),
    (errors.TokenNotInMarketError, buy("x", 50, 2, token="t"), ["'m-yes'", "'m-no'", "'t'"]),
    (errors.PriceOutOfRangeError, buy("x", 100, 2), ["price", 1, 99, 100]),
    (errors.PriceOutOfRangeError, Replace(order_id="bid", price=0, size=2), [1, 99, "got 0"]),
    (errors.InvalidAmountError, buy("x", 50, 0), ["size", "1 wei or more", "got 0"]),
    (errors.InvalidAmountError, buy("x", 50, 5), ["lot of 2 wei", "got 5", "4 or 6"]),
    (errors.InvalidAmountError, Reduce(order_id="bid", size=5), ["lot of 2 wei", "got 5"]),
    (errors.AmountTooLargeError, buy("x", 50, 2**96), ["size", SIZE_MAX, 2**96]),
    (errors.AmountTooSmallError, in_big("x", 2), [10, "got 2"]),
    (errors.InvalidFeeRateError, buy("x", 50, 2, fee_rate_bps=1001), ["fee_rate_bps", 1000, 1001]),
    (errors.OrderExpiredError, buy("x", 50, 2, expiration_s=1, now_ms=2_000), ["second 1", 2]),
    (errors.OrderAlreadyUsedError, buy("x", 50, 2, order_hash=HASH), ["'bid'"]),
    (errors.ClientIdConflictError, buy("x", 50, 2, client_id="mine"), ["'mine'", "'bid'"]),
    (errors.DuplicateOrderError, buy("bid", 50, 2), ["'bid'", "already"]),
    (errors.DuplicateOrderError, buy("done", 50, 2), ["'done'", "already"]),
    (errors.UnknownOrderError, Cancel(order_id="x"), ["'x'"]),
    (errors.UnknownOrderError, Reduce(order_id=7, size=2), ["order 7"]),
    (errors.UnknownOrderError, Cancel(order_id="bid", market="free"), ["'bid'", "'free'"]),
    (errors.NotTheMakerError, Cancel(order_id="bid", maker="S"), ["'bid'", "'S'"]),
    (errors.OrderNotOpenError, Cancel(order_id="done"), ["'done'", "finished: admin"]),
    (errors.OrderNotOpenError, Reduce(order_id="taker", size=2), ["'taker'", "finished: filled"]),
    (errors.UnknownTradeError, Settled(market="m", trades=(2, 3)), ["trade 3", "'m'"]),
    (errors.UnknownTradeError, SettleFailed(market="m", trade=1), ["trade 1", "'m'"]),
    (
        errors.MarketNotOpenError,
        buy("x", 50, 2, market="free", token="free-no"),
        ["'free'", "Mode.OPEN", "it is in Mode.CANCEL_ONLY"],
    ),
    (errors.NonceTooLowError, buy("x", 50, 2, maker="N", nonce=4), ["nonce", 5, "got 4"]),
    (errors.NonceTooLowError, SetNonce(maker="N", nonce=5), ["nonce", "above", "got 5"]),
    (errors.SizeNotReducedError, Reduce(order_id="bid", size=10), [10]),
    (
        errors.TooManyOrdersError,
        in_big("x", 10, maker="few"),
        ["at most 2 resting orders", "has 2"],
    ),
    (
        errors.InsufficientBalanceError,
        buy("x", 50, 200),
        ["'B' has 94 wei of 'collateral' available, 100 needed; 4 reserved, 2 unsettled of 100"],
    ),
    (
        errors.InsufficientBalanceError,
        sell("x", 50, 92),
        ["'S' has 90 wei of 'm-yes' available, 92 needed; 6 reserved, 4 unsettled of 100"],
    ),
    (
        errors.InsufficientBalanceError,
        Replace(order_id="bid", price=50, size=198),
        ["'B' has 98 wei of 'collateral' available, 99 needed; 0 reserved, 2 unsettled of 100"],
    ),
    (errors.PostOnlyWouldCrossError, buy("x", 60, 2, post_only=True), [60]),
    (errors.FokNotFillableError, buy("x", 60, 8, time_in_force=TimeInForce.FOK), [60, 6, 8]),
    (errors.TooManyTradesError, in_big("x", 30, price=60), ["1 trades", "got 2", "10 wei fits"]),
]


@pytest.mark.parametrize(
    ("error", "command", "words"),
    RULES,
    ids=[f"{n}-{rule[0].code}" for n, rule in enumerate(RULES)],
)
def test_rejection_message_has_rule_value_and_limit(matcher, error, command, words):
    if command.now_ms == 0 and error is not errors.ClockWentBackError:
        command = msgspec.structs.replace(command, now_ms=1_000)
    balances, markets, limits = matcher.balances(), matcher.markets, matcher.limits
    expected = matcher.check(command)
    with rejected(matcher, error, *words) as caught:
        matcher.apply(command)
    assert (type(expected), str(expected)) == (error, str(caught.value))
    assert (matcher.balances(), matcher.markets, matcher.limits) == (balances, markets, limits)
    assert caught.value.code == error.code
    assert caught.value.index is None
    assert len(str(caught.value)) < 1_000


# Rules of a book without a matcher, or of arrays.
RULES_OF_BOOKS_ONLY = {errors.InvalidKindError, errors.SeedWouldCrossError}


def test_every_rejection_of_a_matcher_is_tested():
    assert {rule[0] for rule in RULES} == set(REJECTIONS.values()) - RULES_OF_BOOKS_ONLY


def test_rejections_about_an_order_have_its_id(matcher):
    for command, order_id in (
        (buy("x", 50, 2, order_hash=HASH), "bid"),
        (buy("x", 50, 2, client_id="mine"), "bid"),
        (Cancel(order_id="done"), "done"),
    ):
        with pytest.raises(RejectedError) as caught:
            matcher.apply(msgspec.structs.replace(command, now_ms=1_000))
        assert caught.value.order_id == order_id


def test_rejected_atomic_batch_has_the_index_of_its_command(matcher):
    commands = (Cancel(order_id="bid"), buy("x", 50, 2), Cancel(order_id="x", maker="S"))
    batch = Batch(commands=commands, atomic=True, now_ms=1_000)
    expected = matcher.check(batch)
    with rejected(matcher, errors.NotTheMakerError) as caught:
        matcher.apply(batch)
    assert (caught.value.index, expected.index) == (2, 2)
    assert str(expected) == str(caught.value)


def test_changeable_terms_of_a_market(matcher):
    changed = m(
        min_size=4,
        self_trade=SelfTrade.CANCEL_BOTH,
        resting_fee_rate_bps=1,
        incoming_fee_rate_bps=1000,
        fee_wallet="till",
    )
    assert matcher.apply(SetMarket(market=changed, now_ms=1_000)) == []
    assert matcher.market("m") == changed
