"""Both codecs, one value of every kind, and strategies that generate values of all kinds.

The strategies use the type hints, not :mod:`clob.codec.layout`, so both check each other.
"""

import enum
import importlib
import importlib.util
import types
import typing

import msgspec
import pytest
from hypothesis import strategies as st

from clob import commands, events, market, order
from clob.events import RemovalReason
from clob.status import OrderRecord, OrderStatus

CODECS = {"python": "clob.codec._codec_py", "compiled": "clob.codec._codec_c"}
"""Codec modules by their names in the tests."""


def load(name):
    """Import a codec; skip the test if it is not built."""
    if importlib.util.find_spec(CODECS[name]) is None:
        pytest.skip(f"the {name} codec is not built")
    return importlib.import_module(CODECS[name])


# ----- strategies ----------------------------------------------------------------------------

integers = (
    st.integers(0, 100)
    | st.sampled_from([2**n - 1 for n in (8, 30, 31, 60, 63, 64, 65, 90, 120, 128, 129, 255, 256)])
    | st.sampled_from([2**n for n in (8, 30, 31, 60, 63, 64, 65, 90, 120, 127, 128, 255)])
    | st.integers(0, 2**256 - 1)
)
texts = (
    st.text(max_size=12)
    | st.text(st.characters(), max_size=4)  # includes lone surrogates
    | st.sampled_from(["", "a", "101", "0x" + "aB" * 20, "é", "🦊", "\ud800", "7" * 78, "x" * 300])
)
raws = st.binary(max_size=40)


def values_of(hint):
    """Return a strategy for the values of a type hint."""
    plain = {int: integers, bool: st.booleans(), str: texts, bytes: raws, types.NoneType: st.none()}
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        fields = {name: values_of(hints[name]) for name in hint.__struct_fields__}
        return st.builds(hint, **fields)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(arguments[0]), max_size=4).map(tuple)
    return st.one_of(*map(values_of, arguments))


LATER = (commands.ResetClock, events.Rejected, events.PairedTrade)
COMMANDS = (*(kind for kind in typing.get_args(commands.Command) if kind not in LATER), LATER[0])
EVENTS = (*(kind for kind in typing.get_args(events.Event) if kind not in LATER), *LATER[1:])
PARTS = (order.Order, market.Market, market.Limits, market.Balance, OrderRecord)
"""Structs with canonical bytes that are neither commands nor events."""

any_command = st.one_of(*map(values_of, COMMANDS))
any_event = st.one_of(*map(values_of, EVENTS))


# ----- one of each ---------------------------------------------------------------------------

AN_ORDER = order.Order(
    id="ord_1",
    token="101",
    maker="0xA11CE",
    side=order.Side.SELL,
    price=50,
    size=60 * 10**18,
    time_in_force=order.TimeInForce.GTD,
    expiration_s=1_700_000_000,
    post_only=True,
    self_trade=order.SelfTrade.DECREMENT,
    nonce=7,
    collateral=30 * 10**18,
    fee_rate_bps=0,
    smart_wallet="é",
)
A_MARKET = market.Market(
    id="rain",
    yes="101",
    no="102",
    lot_wei=10**12,
    min_size=10**18,
    mode=market.Mode.HALTED,
    self_trade=order.SelfTrade.CANCEL_BOTH,
    resting_fee_rate_bps=0,
    incoming_fee_rate_bps=300,
    fee_wallet="fees",
    funds=market.Funds.ACCOUNTS,
    collateral="usd",
    settles=True,
)
A_SUBMIT = commands.Submit(
    now_ms=1_700_000_000_123,
    market="rain",
    order=AN_ORDER,
    client_id="mine",
    order_hash=bytes(range(32)),
    deadline_ms=1_700_000_000_999,
    attachment=b"signature",
)
ONE_OF_EACH = (
    A_SUBMIT,
    commands.Cancel(now_ms=1, market="rain", order_id=2**63 - 1, maker="0xA11CE"),
    commands.CancelAll(now_ms=1, maker="0xA11CE", market=None),
    commands.Reduce(now_ms=1, market="rain", order_id="ord_1", size=2**96 - 1),
    commands.Replace(
        now_ms=1,
        market="rain",
        order_id=0,
        price=99,
        size=10**18,
        post_only=True,
        self_trade=order.SelfTrade.NONE,
        maker="0xB0B",
    ),
    commands.SetNonce(now_ms=1, maker="0xA11CE", nonce=2**256 - 1),
    commands.Expire(now_ms=2**63 - 1),
    commands.AddMarket(now_ms=1, market=A_MARKET),
    commands.SetMarket(now_ms=1, market=market.Market(id="rain", yes="101", no="102")),
    commands.SetMode(now_ms=1, market="rain", mode=market.Mode.RESOLVED),
    commands.SetLimits(now_ms=1, limits=market.Limits()),
    commands.SetBalance(now_ms=1, wallet="0xA11CE", asset="usd", amount=2**128),
    commands.Settled(now_ms=1, market="rain", trades=(1, 2, 300)),
    commands.SettleFailed(now_ms=1, market="rain", trade=3, wallet="0xB0B", reason="reverted"),
    commands.Batch(now_ms=1, commands=(A_SUBMIT, commands.Cancel(order_id="ord_1")), atomic=True),
    commands.ResetClock(
        now_ms=1,
        spent=(
            commands.SpentHash(bytes(range(32)), "0xA11CE", 2**256 - 1, 1_700_000_000),
            commands.SpentHash(bytes(32), "", 0, 0),
        ),
    ),
    commands.Reopen(
        now_ms=1,
        market="rain",
        trades=(
            commands.ReopenedTrade(
                seq=2,
                token="101",
                buyer_pays="0xA11CE",
                buyer_receives="0xB0B",
                seller_pays="",
                seller_receives="",
                paid=2**70,
                size=2**90,
                buyer_fee=7,
                match_type=events.MatchType.MINT,
                other_seq=300,
            ),
        ),
        settled=True,
    ),
    commands.RemoveMarket(now_ms=1, market="rain"),
    commands.CancelSome(
        now_ms=1,
        maker="0xA11CE",
        market="rain",
        token=None,
        side=order.Side.SELL,
        accepted_until_ms=2**40,
    ),
    events.OrderAdded(1, "rain", "101", "ord_1", order.Side.BUY, 50, 60 * 10**18),
    events.Trade(
        seq=2,
        market="rain",
        token="101",
        resting_order_id="ord_1",
        incoming_order_id=7,
        price=50,
        size=10**18,
        buyer="0xA11CE",
        seller="0xB0B",
        resting_remaining=59 * 10**18,
        incoming_remaining=0,
        incoming_side=order.Side.SELL,
        buyer_fee=3 * 10**16,
        seller_fee=0,
    ),
    events.OrderReduced(3, "rain", "101", "ord_1", 10**18),
    events.OrderRemoved(4, "rain", "101", "ord_1", RemovalReason.NONCE, 10**18),
    events.Rejected(1, "UNKNOWN_ORDER", "no order 'ord_9' here"),
    events.PairedTrade(
        seq=5,
        market="rain",
        token="102",
        resting_order_id="ord_1",
        incoming_order_id=8,
        price=40,
        size=10**18,
        buyer="0xB0B",
        seller="",
        resting_remaining=0,
        incoming_remaining=10**18,
        incoming_side=order.Side.BUY,
        buyer_fee=3 * 10**16,
        match_type=events.MatchType.MINT,
    ),
)
"""One value of every kind, ordered by kind number."""

A_RECORD = OrderRecord(
    market="rain",
    order=AN_ORDER,
    price=51,
    size=59 * 10**18,
    status=OrderStatus.CANCELLED,
    filled=1,
    remaining=0,
    filled_amount=1,
    filled_collateral=0,
    number=12,
    accepted_ms=1,
    removal=RemovalReason.MARKET,
)
