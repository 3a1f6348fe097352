"""The WebSocket: subscription, snapshots, changes without a gap, pings and rejections."""

from typing import Any

from clob.order import Side
from clob.testing.conformance.checks import (
    SPECIFICATION,
    check,
    expect,
    expect_cents,
    expect_milliseconds,
    expect_that,
    expect_wei,
)
from clob.testing.conformance.feed_reader import BOOK_TYPES, BookReader, FeedReader, levels_of
from clob.testing.conformance.session import CheckSession
from clob.testing.conformance.wallet import ONE, MarketIds

PAGE = "concepts/feed.md"
HEARTBEAT_TIMEOUTS = 2.5
"""Longest wait for a heartbeat, in timeouts of the run: 25 seconds by default. A server sends one
after 15 seconds."""
POLICY = 1008
"""Close code of a rejected request."""


def busy(session: CheckSession, market: MarketIds) -> int:
    """Place, trade and cancel orders; return the number of the last event."""
    maker = session.wallet()
    low = session.place(maker, market, Side.SELL, 55, 2 * ONE)["orderId"]
    session.place(session.wallet(), market, Side.SELL, 56, ONE)
    session.place(session.wallet(), market, Side.BUY, 44, ONE)
    session.place(session.wallet(), market, Side.BUY, 55, ONE)
    session.place(session.wallet(), market, Side.BUY, 54, ONE, token=market.no)
    session.cancel(maker, low)
    session.place(session.wallet(), market, Side.BUY, 60, 3 * ONE)
    seq: int = session.book(market)["seq"]
    return seq


def messages_of(session: CheckSession, kind: str) -> list[dict[str, Any]]:
    """Return the messages of a type that follow from :func:`busy`."""
    market = session.market()
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
        reader.read_until(busy(session, market))
    found = [each for each in reader.messages if each["type"] == kind]
    expect_that(f"messages of type {kind}", bool(found), len(found), "at least one")
    return found


@check(SPECIFICATION, "| orderbook | Full orderbook snapshot |")
def snapshot_first(session: CheckSession) -> None:
    """A subscription begins with a snapshot that equals the book over HTTP."""
    market = session.market()
    session.place(session.wallet(), market, Side.BUY, 41)
    session.place(session.wallet(), market, Side.SELL, 59)
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
    book = session.book(market)
    expect("levels of the snapshot", reader.levels(), levels_of(book))
    expect("seq of the snapshot", reader.snapshot["seq"], book["seq"])


@check(SPECIFICATION, "| order_added | New order in the book |")
def order_added(session: CheckSession) -> None:
    """An order that rests is announced with side, price and size."""
    data = messages_of(session, "order_added")[0]["data"]
    expect("side of order_added", data["side"], 1)
    expect("price of order_added", data["price"], 55)
    expect("size of order_added", data["size"], str(2 * ONE))


@check(SPECIFICATION, "| order_removed | Order cancelled or filled |")
def order_removed(session: CheckSession) -> None:
    """Cancels and complete fills are announced with their reason."""
    reasons = {each["data"]["reason"] for each in messages_of(session, "order_removed")}
    expect("reasons of order_removed", reasons, {"cancelled", "filled"})


@check(SPECIFICATION, "| trade | Trade executed |")
def trade(session: CheckSession) -> None:
    """A trade is announced with price, size and time."""
    message = messages_of(session, "trade")[0]
    data = message["data"]
    expect_cents("price of a trade", data["price"])
    expect_wei("size of a trade", data["size"])
    expect("size of the first trade", data["size"], str(ONE))
    expect_milliseconds("timestamp of a message", message["timestamp"])


@check(PAGE, "After a snapshot, each event must have the next number")
def no_gap(session: CheckSession) -> None:
    """Numbers after a snapshot rise by one."""
    market = session.market()
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
        reader.read_until(busy(session, market))
    numbers = [each["seq"] for each in reader.messages]
    first = reader.snapshot["seq"] + 1
    expect("numbers after the snapshot", numbers, list(range(first, first + len(numbers))))


@check(PAGE, "`order_added` contains the remainder after immediate trades.")
def changes_make_the_book(session: CheckSession) -> None:
    """The snapshot with all changes is the book over HTTP."""
    market = session.market()
    session.place(session.wallet(), market, Side.BUY, 30, 2 * ONE)
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
        reader.read_until(busy(session, market))
    expect("levels kept from messages", reader.levels(), levels_of(session.book(market)))


@check(PAGE, "A plain client like this one receives no other types.")
def plain_client_receives_four_types(session: CheckSession) -> None:
    """A plain subscription receives the four types of the specification only."""
    market = session.market()
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
        reader.read_until(busy(session, market))
    kinds = {each["type"] for each in reader.messages} - BOOK_TYPES
    expect("other types of messages", sorted(kinds), [])


@check(SPECIFICATION, "Each server message is a JSON text message")
def amounts_are_strings(session: CheckSession) -> None:
    """Sizes in snapshots and changes are strings of digits."""
    market = session.market()
    session.place(session.wallet(), market, Side.BUY, 41)
    with FeedReader(session) as feed:
        reader = BookReader(feed, market)
        reader.read_until(busy(session, market))
    for level in reader.snapshot["data"]["bids"]:
        expect_wei("size of a level of a snapshot", level["size"])
    for message in reader.messages:
        expect_wei(f"size of {message['type']}", message["data"]["size"])


@check(PAGE, "the server also sends `subscribed`")
def extended_client_is_answered(session: CheckSession) -> None:
    """An extended subscription is answered with its id."""
    market = session.market()
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True, id=7)
        answer = feed.until(lambda each: each["type"] == "subscribed")[-1]
    expect("id of subscribed", answer["id"], 7)
    expect("channel of subscribed", answer["channel"], "orderbook")


@check(PAGE, '`{"type": "ping"}` is answered with `{"type": "pong"}`')
def ping(session: CheckSession) -> None:
    """A ping is answered with a pong."""
    market = session.market()
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True)
        feed.send({"type": "ping", "extended": True, "id": "p"})
        answer = feed.until(lambda each: each["type"] == "pong")[-1]
    expect("id of pong", answer.get("id"), "p")


@check(PAGE, "the text `PING` with `PONG`")
def text_ping(session: CheckSession) -> None:
    """The text ``PING`` is answered with the text ``PONG``."""
    market = session.market()
    with FeedReader(session) as feed:
        BookReader(feed, market)
        feed.send("PING")
        expect("answer to PING", feed.text(), "PONG")


@check(PAGE, "the server sends a heartbeat with the number of the last event")
def heartbeat(session: CheckSession) -> None:
    """A connection without messages receives a heartbeat with the current number."""
    market = session.market()
    session.place(session.wallet(), market, Side.BUY, 41)
    seq = session.book(market)["seq"]
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True)
        wait_s = HEARTBEAT_TIMEOUTS * session.options.timeout_s
        message = feed.until(lambda each: each["type"] == "heartbeat", wait_s)[-1]
    expect("seq of the heartbeat", message["seq"], seq)


@check(PAGE, "A plain client is closed with 1008 and the code as the reason.")
def unknown_channel_closes_a_plain_client(session: CheckSession) -> None:
    """A subscription of an unknown channel closes the connection of a plain client."""
    with FeedReader(session) as feed:
        feed.send({"type": "subscribe", "channel": "weather", "marketId": session.market().id})
        expect("close code", feed.close_code(), POLICY)


@check(PAGE, "An extended client receives an `error` with a")
def unknown_channel_is_rejected(session: CheckSession) -> None:
    """A subscription of an unknown channel is answered with an error to an extended client."""
    request = {"type": "subscribe", "channel": "weather", "extended": True, "id": 3}
    with FeedReader(session) as feed:
        feed.send({**request, "marketId": session.market().id})
        answer = feed.until(lambda each: each["type"] == "error")[-1]
    expect("code of the error", answer["code"], "INVALID_FIELD")
    expect("id of the error", answer["id"], 3)


@check(PAGE, "Until then an extended client receives `UNKNOWN_MARKET` and no subscription.")
def unknown_market_is_rejected(session: CheckSession) -> None:
    """A subscription of an unknown market is answered with an error."""
    with FeedReader(session) as feed:
        feed.subscribe(MarketIds("conformance-no-such-market", 1, 2), extended=True)
        answer = feed.until(lambda each: each["type"] == "error")[-1]
    expect("code of the error", answer["code"], "UNKNOWN_MARKET")


@check(PAGE, "and they follow without a snapshot")
def resume(session: CheckSession) -> None:
    """A client that resumes receives the missed events and no snapshot."""
    market = session.market()
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True)
        begin = feed.until(lambda each: each["type"] == "subscribed")[-1]
        seq = session.book(market)["seq"]
    last = busy(session, market)
    position = {"seq": seq, "epoch": begin.get("epoch", 0)}
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True, resume=position)
        subscribed = feed.until(lambda each: each["type"] == "subscribed")[-1]
        expect("resumed", subscribed["resumed"], True)
        messages = feed.until(lambda each: each.get("seq") == last)
    numbers = [each["seq"] for each in messages]
    expect("numbers after the position", numbers, list(range(seq + 1, last + 1)))


@check("reference/feed.md", "End a subscription; no error if it does not exist.")
def unsubscribe(session: CheckSession) -> None:
    """After an unsubscribe no event of the market follows."""
    market = session.market()
    with FeedReader(session) as feed:
        feed.subscribe(market, extended=True)
        feed.send(
            {"type": "unsubscribe", "channel": "orderbook", "marketId": market.id, "extended": True}
        )
        feed.until(lambda each: each["type"] == "unsubscribed")
        session.place(session.wallet(), market, Side.BUY, 41)
        feed.send({"type": "ping", "extended": True})
        expect("next message after the unsubscribe", feed.next()["type"], "pong")
