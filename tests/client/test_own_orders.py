"""Own orders and fills over connections that end between any two messages."""

import pytest

from clob.client import FeedPosition, Followed, MakerOrders
from clob.wire.messages import (
    Heartbeat,
    OrderChanged,
    Orders,
    SettlementData,
    SettlementMessage,
    Subscribed,
    UserFill,
)
from clob.wire.orders import MakerFill, OrderBody

MAKER = "0x" + "1" * 40


def fill(place, command=None):
    """Return the message of a fill; ``place`` identifies it."""
    data = MakerFill(
        id=f"trade_{place}", market_id="rain", token_id="1", price=50, size="1", buyer=MAKER,
        seller="", match_type="direct", timestamp=1, tx_hash=None, settlement="none", final=True,
        seq=place, resting_order_id="a", incoming_order_id="b", incoming_side=0, buyer_fee="0",
        seller_fee="0", order_id="a", role="resting", side=0, remaining="0", maker=MAKER, fee="0",
        cursor=f"{place if command is None else command}-{place}",
    )  # fmt: skip
    return UserFill(market_id="rain", token_id="1", seq=place, timestamp=1, data=data)


def order(order_id, status):
    """Return the body of an order."""
    return OrderBody(
        id=order_id, market_id="rain", token_id="1", maker=MAKER, signer=MAKER, taker=MAKER, side=0,
        maker_amount="1", taker_amount="1", filled_amount="0", salt="1", expiration=0, nonce="0",
        fee_rate_bps=0, signature_type=0, signature="", status=status, timestamp=1, price=50,
        size="1", remaining="1", filled_tokens="0", filled_collateral="0", average_price=None,
        time_in_force="GTC", post_only=False,
    )  # fmt: skip


def changed(order_id, status):
    return OrderChanged(
        market_id="rain", token_id="1", seq=1, timestamp=1, data=order(order_id, status)
    )


def subscribed(cursor, *, resumed=False, epoch=0):
    return Subscribed(
        channel="user", market_id=None, token_id=None, seq=None, timestamp=1, resumed=resumed,
        epoch=epoch, cursor=cursor,
    )  # fmt: skip


def orders(cursor, *bodies):
    return Orders(market_id=None, seq=None, timestamp=1, cursor=cursor, data=list(bodies))


def heartbeat(cursor):
    return Heartbeat(channel="user", market_id=None, seq=None, timestamp=1, cursor=cursor)


def places(mine):
    return [each.seq for each in mine.fills]


@pytest.fixture
def mine():
    """The state of a maker that is up to date at ``10-4``."""
    made = MakerOrders(MAKER)
    made.on_subscribed(subscribed("10-4"))
    assert made.position is None
    assert made.apply(orders("10-4", order("a", "open")))
    assert made.position == FeedPosition("10-4", 0)
    return made


def test_fill_and_order_change_the_state(mine):
    assert mine.apply(fill(6, command=12))
    assert mine.apply(changed("a", "filled"))
    assert mine.apply(changed("b", "open"))
    assert (places(mine), list(mine.open)) == ([6], ["b"])
    assert mine.position.cursor == "12-6"
    mine.check(heartbeat("15-6"))
    assert mine.position.cursor == "15-6"


def test_fill_that_is_sent_again_is_not_new(mine):
    assert mine.apply(fill(6))
    assert not mine.apply(fill(6))
    assert not mine.apply(fill(4))
    assert places(mine) == [6]


def test_position_waits_for_the_orders_that_follow_missed_fills(mine):
    mine.on_subscribed(subscribed("20-9", resumed=True))
    assert mine.apply(fill(6))
    assert mine.apply(fill(8))
    assert mine.position.cursor == "10-4"  # finished orders may still be missing
    mine.on_subscribed(subscribed("22-9", resumed=True))  # the connection ended before them
    assert [mine.apply(fill(each)) for each in (6, 8, 9)] == [False, False, True]
    mine.apply(changed("a", "cancelled"))
    mine.apply(orders("22-9"))
    assert (places(mine), mine.position.cursor) == ([6, 8, 9], "22-9")


def test_fills_that_are_read_precede_those_that_are_held_back(mine):
    mine.on_subscribed(subscribed("30-9"))
    assert mine.missed == ("10-4", "30-9")
    mine.apply(orders("30-9"))
    assert not mine.apply(fill(10))
    assert mine.position.cursor == "10-4"
    read = [fill(each).data for each in (6, 8, 9, 10)]  # the answer may contain later ones
    assert [each.seq for each in mine.add_missed(read)] == [6, 8, 9, 10]
    assert (places(mine), mine.position.cursor) == ([6, 8, 9, 10], "10-10")
    assert mine.missed is None


def test_cut_while_fills_are_read_keeps_the_position(mine):
    mine.on_subscribed(subscribed("30-9"))
    mine.apply(orders("30-9"))
    mine.apply(fill(10))
    mine.on_subscribed(subscribed("31-10", resumed=True))
    assert mine.missed is None
    assert all(mine.apply(fill(each)) for each in (6, 8, 9, 10))
    mine.apply(orders("31-10"))
    assert places(mine) == [6, 8, 9, 10]


def test_restored_exchange_begins_again(mine):
    mine.apply(fill(6))
    mine.on_subscribed(subscribed("8-2", epoch=1))
    assert (mine.position, mine.missed, places(mine)) == (None, None, [])
    mine.apply(orders("8-2"))
    assert mine.apply(fill(4))
    assert mine.position == FeedPosition("4-4", 1)


def test_stored_position_of_another_epoch_is_not_used():
    mine = MakerOrders(MAKER, position=FeedPosition("99-50", 0))
    mine.on_subscribed(subscribed("8-2", epoch=1))
    mine.apply(orders("8-2"))
    assert mine.apply(fill(4))
    assert places(mine) == [4]


def test_only_the_newest_fills_are_kept():
    mine = MakerOrders(MAKER, position=FeedPosition("0-0"), fills_kept=2)
    mine.on_subscribed(subscribed("9-9", resumed=True))
    assert all(mine.apply(fill(each)) for each in (2, 4, 6))
    assert places(mine) == [4, 6]


def test_iteration_over_open_orders_sees_no_change(mine):
    mine.apply(changed("b", "open"))
    seen = []
    for order_id in mine.open:
        mine.apply(changed(order_id, "cancelled"))
        seen.append(order_id)
    assert (seen, dict(mine.open)) == (["a", "b"], {})


def test_each_copy_of_a_settlement_belongs_to_one_subscription():
    data = SettlementData(
        trade_id="t", match_type="direct", settlement="settled", tx_hash="0x", buyer="B", seller="S"
    )
    message = SettlementMessage(
        channel="settlement", market_id="rain", token_id="1", seq=1, timestamp=1, data=data
    )
    scopes = [("rain", None), ("snow", None), (None, "S"), (None, "A"), ("rain", "B")]
    followed = [Followed("settlement", market, maker) for market, maker in scopes]
    for each in followed[:-1]:
        each.is_confirmed = True
    received = []
    for _ in range(3):
        found = next((each for each in followed if each.accepts(message)), None)
        if found is not None:
            assert found.on_message(message)
            received.append(scopes[followed.index(found)])
    assert received == [("rain", None), (None, "S")]
