"""Builders of Polymarket market channel messages, and the events of a stream as rows."""

from clob.records import Kind

YES, NO, MARKET = "71321", "54179", "0x28"
LOT = 10**6
"""Lots per token."""


def levels(*rows):
    return [{"price": price, "size": size} for price, size in rows]


def book(ts, asset=YES, bids=(), asks=(), **more):
    return {
        "market": MARKET,
        "asset_id": asset,
        "timestamp": str(ts),
        "hash": "0x",
        "bids": levels(*bids),
        "asks": levels(*asks),
        "event_type": "book",
        **more,
    }


def change(ts, *rows, market=MARKET):
    names = ("asset_id", "side", "price", "size", "best_bid", "best_ask")
    changes = [dict(zip(names, row, strict=False)) for row in rows]
    return {
        "event_type": "price_change",
        "market": market,
        "price_changes": changes,
        "timestamp": str(ts),
    }


def trade(ts, side, price, size, asset=YES, **more):
    return {
        "event_type": "last_trade_price",
        "market": MARKET,
        "asset_id": asset,
        "side": side,
        "price": price,
        "size": size,
        "timestamp": str(ts),
        "fee_rate_bps": "0",
        **more,
    }


T = 1_757_908_892_000
START = book(T, bids=[("0.48", "30"), (".49", "20")], asks=[("0.52", "25"), ("0.53", "60.5")])
"""The first book of most dumps."""
GONE = change(T + 1, (YES, "SELL", ".520", "0.0"))
"""The removal of one level."""


def rows_of(stream):
    events = next(stream.chunks(10**6))
    names = ["kind", "instrument", "side", "price", "size"]
    rows = events[events["kind"] != Kind.BBO][names].tolist()
    return [(Kind(kind), *rest) for kind, *rest in rows]
