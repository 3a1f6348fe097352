"""Fills: each trade of a market that settles is recorded at once, from the signed orders."""

import pytest

from clob import (
    Batch,
    Funds,
    Limits,
    Mode,
    Replace,
    SetBalance,
    SetLimits,
    SetMode,
    Settled,
)
from clob_server.core.commands import BeginSettlement, EndTrades, TradeEnd
from clob_server.core.state import ServerState
from tests.matchers import buy, market, sell
from tests.server.core.test_state import do, kept, opened, put
from tests.server.engines import signed


def settling(**limits):
    """Return a state with a market that settles, and makers with large balances."""
    exchange = opened(market(funds=Funds.ACCOUNTS, settles=True), market("off"), **limits)
    exchange.apply(BeginSettlement(base=b"\x01" * 16, now_ms=1))
    for wallet in "BS":
        for asset in ("collateral", "m-yes", "m-no"):
            exchange.apply(SetBalance(wallet=wallet, asset=asset, amount=10**6, now_ms=1))
    return exchange


def held(exchange):
    """Return salts, price and size of the pending trades, by number."""
    return {
        number: (each.fill.resting.salt, each.fill.incoming.salt, each.fill.price, each.fill.size)
        for number, each in exchange.registry.settling.held.items()
    }


def salted(exchange, make, order_id, *arguments, **fields):
    """Submit a signed order whose salt is its number."""
    make = signed(make, salt=order_id.lstrip("abo"))
    return exchange.apply(make(order_id, *arguments, now_ms=exchange.now_ms, **fields))


def test_trades_of_a_market_that_does_not_settle_are_not_held():
    exchange = settling()
    put(exchange, sell, "a", 50, 10, market="off", token="off-yes")
    put(exchange, buy, "b", 50, 10, market="off", token="off-yes")
    assert exchange.num_trades == 1
    assert held(exchange) == {}


@pytest.mark.parametrize("finished_max", [1, 10_000])
def test_all_trades_of_an_order_are_held_with_any_finished_max(finished_max):
    exchange = settling(finished_max=finished_max)
    for number in range(30):
        salted(exchange, sell, f"a{number}", 50, 10)
    salted(exchange, buy, "b99", 60, 305)
    assert held(exchange) == {n + 1: (str(n), "99", 50, "10") for n in range(30)}


def test_all_trades_of_a_batch_are_held_with_a_small_finished_max():
    exchange = settling(finished_max=1)
    for number in range(30):
        salted(exchange, sell, f"a{number}", 50, 10)
    inner = tuple(signed(buy, salt=str(number))(f"b{number}", 60, 100) for number in range(90, 93))
    exchange.apply(Batch(commands=inner, now_ms=exchange.now_ms))
    expected = {n + 1: (str(n), str(90 + n // 10), 50, "10") for n in range(30)}
    assert held(exchange) == expected
    assert len(kept(exchange)) == 1


def test_replaced_order_settles_with_its_signed_amounts():
    exchange = settling()
    salted(exchange, sell, "a7", 60, 10)
    salted(exchange, buy, "b8", 50, 10)
    do(exchange, Replace, order_id="a7", price=45, size=4)
    [found] = exchange.registry.settling.held.values()
    assert (found.fill.price, found.fill.size) == (50, "4")
    assert (found.fill.incoming.maker_amount, found.fill.incoming.taker_amount) == ("10", "6")


def test_order_that_rested_before_a_restart_settles_after_it():
    exchange = settling()
    salted(exchange, sell, "a7", 60, 10)
    do(exchange, SetLimits, limits=Limits(finished_max=1))
    again = ServerState.restore(exchange.snapshot())
    for each in (exchange, again):
        salted(each, buy, "b8", 60, 4)
    assert held(again) == {1: ("7", "8", 60, "4")}
    assert again.snapshot() == exchange.snapshot()
    last = ServerState.restore(again.snapshot())
    assert last.registry.settling.snapshot() == exchange.registry.settling.snapshot()
    assert last.settles == {"m"}


def test_trades_of_a_resolved_market_settle():
    exchange = settling()
    salted(exchange, sell, "a7", 60, 10)
    trade, *_ = salted(exchange, buy, "b8", 60, 4)
    do(exchange, SetMode, market="m", mode=Mode.RESOLVED)
    assert held(exchange) == {1: ("7", "8", 60, "4")}
    do(exchange, Settled, market="m", trades=(trade.seq,))
    do(exchange, EndTrades, ends=(TradeEnd(trade=1, tx="0x1"),))
    assert exchange.matcher.balance("B", "m-yes").balance == 10**6 + 4
    assert held(exchange) == {}
