"""The backtests with hftbacktest: a replay of the feed, and a compiled market maker."""

from typing import Any

import numpy as np
from hftbacktest import (
    ADD_ORDER_EVENT,
    BUY_EVENT,
    CANCEL_ORDER_EVENT,
    EXCH_EVENT,
    FILL_EVENT,
    GTX,
    LIMIT,
    LOCAL_EVENT,
    MODIFY_ORDER_EVENT,
    SELL_EVENT,
    TRADE_EVENT,
    BacktestAsset,
    ROIVectorMarketDepthBacktest,
)
from hftbacktest.order import IOC
from hftbacktest.types import event_dtype
from numba import njit

from benchmarks import agreement, history

ACTIONS = {
    history.ADD: ADD_ORDER_EVENT,
    history.MODIFY: MODIFY_ORDER_EVENT,
    history.DELETE: CANCEL_ORDER_EVENT,
    history.TRADE: TRADE_EVENT,
    history.FILL: FILL_EVENT,
}
SIZE = event_dtype.names[4]
LO, HI = 1, 99


def events_of(feed: np.ndarray) -> np.ndarray:
    """Convert a feed to hftbacktest events, with ticks of 1 and lots of 1."""
    actions = np.array([ACTIONS[action] for action in range(len(ACTIONS))], np.uint64)
    events = np.zeros(len(feed), event_dtype)
    side = np.where(feed["side"] == 0, np.uint64(BUY_EVENT), np.uint64(SELL_EVENT))
    events["ev"] = actions[feed["action"]] | side | np.uint64(EXCH_EVENT | LOCAL_EVENT)
    events["exch_ts"] = events["local_ts"] = feed["ts_ns"]
    events["px"], events[SIZE] = feed["price"], feed["size"]
    events["order_id"] = feed["order_id"]
    return events


def prepared(events: np.ndarray) -> Any:
    """Return a backtest with exact queues, no latency and no fees."""
    asset = (
        BacktestAsset()
        .data(events)
        .linear_asset(1)
        .constant_latency(0, 0)
        .l3_fifo_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0, 0)
        .tick_size(1)
        .lot_size(1)
        .roi_lb(LO)
        .roi_ub(HI)
    )
    return ROIVectorMarketDepthBacktest([asset])


@njit
def run(hbt, span_ns):
    """Replay to the end; return the final best prices and their sizes."""
    hbt.elapse(span_ns)
    depth = hbt.depth(0)
    bid, ask = depth.best_bid_tick, depth.best_ask_tick
    return bid, ask, int(depth.bid_qty_at_tick(bid)), int(depth.ask_qty_at_tick(ask))


LARGEST = agreement.LIMIT


@njit
def _take(hbt, times):
    fills, last = 0, 0
    hbt.elapse(1)  # until the first call, it has no time
    for time in times:
        hbt.elapse(time - hbt.current_timestamp)
        hbt.clear_inactive_orders(0)
        depth = hbt.depth(0)
        bid, ask = depth.best_bid_tick, depth.best_ask_tick
        position = int(hbt.position(0))
        fills += abs(position - last)
        last = position
        if bid < LO or ask > HI:
            continue
        bid_size, ask_size = depth.bid_qty_at_tick(bid), depth.ask_qty_at_tick(ask)
        way = int(bid_size > ask_size) - int(bid_size < ask_size)
        if abs(position + way) > LARGEST:
            continue
        if way > 0:
            hbt.submit_buy_order(0, time, float(ask), 1.0, IOC, LIMIT, False)
        elif way < 0:
            hbt.submit_sell_order(0, time, float(bid), 1.0, IOC, LIMIT, False)
    hbt.elapse(1_000_000_000)
    position = int(hbt.position(0))
    return position, round(hbt.state_values(0).balance), fills + abs(position - last)


def take(hbt: object, times: list[int]) -> agreement.Taken:
    """Take like ``agreement.Taker`` at given times."""
    return agreement.Taken(*_take(hbt, np.array(times, np.int64)))


@njit
def quote(hbt, every_ns, size, limit):
    """Quote like ``clob.replay.strategies.MarketMaker``; return wake-ups, orders and position."""
    wakes, sent, bid_id, ask_id, bid_at, ask_at = 0, 0, 0, 0, 0, 0
    while hbt.elapse(every_ns) == 0:
        wakes += 1
        hbt.clear_inactive_orders(0)
        depth = hbt.depth(0)
        best_bid, best_ask = depth.best_bid_tick, depth.best_ask_tick
        if best_bid < LO or best_ask > HI:
            continue
        position = hbt.position(0)
        middle = best_bid + best_ask
        bid, ask = middle // 2 - 1, (middle + 1) // 2 + 1
        orders = hbt.orders(0)
        is_allowed = position + size <= limit and bid >= LO
        is_open = bid_id in orders
        if is_open and not (is_allowed and bid_at == bid):
            hbt.cancel(0, bid_id, False)
            is_open = False
        if is_allowed and not is_open:
            sent += 1
            bid_id, bid_at = sent, bid
            hbt.submit_buy_order(0, bid_id, float(bid), size, GTX, LIMIT, False)
        is_allowed = position - size >= -limit and ask <= HI
        is_open = ask_id in orders
        if is_open and not (is_allowed and ask_at == ask):
            hbt.cancel(0, ask_id, False)
            is_open = False
        if is_allowed and not is_open:
            sent += 1
            ask_id, ask_at = sent, ask
            hbt.submit_sell_order(0, ask_id, float(ask), size, GTX, LIMIT, False)
    return wakes, sent, hbt.position(0)
