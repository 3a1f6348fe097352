"""A sequence of commands with every kind of command and several rejections."""

from clob.commands import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Expire,
    Reduce,
    RemoveMarket,
    Replace,
    ResetClock,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    SpentHash,
    Submit,
)
from clob.errors import RejectedError
from clob.journal import Recorder
from clob.market import Funds, Limits, Market, Mode
from clob.order import Order, Side, TimeInForce

RAIN = Market(id="rain", yes="101", no="102")
SNOW = Market(id="snow", yes="201", no="202", funds=Funds.ACCOUNTS, settles=True)


def submit(order_id, side, price, size, market="rain", token="101", **more):
    """Build a Submit in one line."""
    order = Order(
        id=order_id,
        token=token,
        maker=more.pop("maker", f"maker of {order_id}"),
        side=side,
        price=price,
        size=size,
        time_in_force=TimeInForce.GTD if "expiration_s" in more else TimeInForce.GTC,
        expiration_s=more.pop("expiration_s", 0),
    )
    return Submit(market=market, order=order, **more)


STORY = [
    AddMarket(market=RAIN, now_ms=1),
    AddMarket(market=RAIN, now_ms=2),  # rejected: it exists
    submit("a", Side.SELL, 50, 60, now_ms=3, client_id="mine", order_hash=b"a" * 32),
    submit("b", Side.BUY, 55, 100, now_ms=4),
    submit("b", Side.BUY, 55, 100, now_ms=4),  # rejected: it exists
    submit("c", Side.SELL, 100, 1, now_ms=5),  # rejected: off the grid
    Reduce(order_id="b", size=30, now_ms=6),
    Replace(order_id="b", price=54, size=25, now_ms=7),
    Cancel(order_id="missing", now_ms=8),  # rejected: unknown
    submit("d", Side.SELL, 60, 10, now_ms=9, expiration_s=1),
    Expire(now_ms=2_000),
    Batch(
        commands=(
            submit("e", Side.SELL, 54, 5),
            Cancel(order_id="d"),  # rejected: expired
            Cancel(order_id="b"),
        ),
        now_ms=2_001,
    ),
    Batch(commands=(Cancel(order_id="e"), Cancel(order_id="e")), now_ms=2_002, atomic=True),
    AddMarket(market=SNOW, now_ms=2_003),
    SetBalance(wallet="x", asset="collateral", amount=10**6, now_ms=2_004),
    SetBalance(wallet="y", asset="201", amount=10**6, now_ms=2_005),
    submit("f", Side.SELL, 40, 9_000, "snow", "201", maker="y", now_ms=2_006),
    submit("g", Side.BUY, 40, 5_000, "snow", "201", maker="x", now_ms=2_007),
    submit("h", Side.BUY, 40, 3_000, "snow", "201", maker="x", now_ms=2_008),
    Settled(market="snow", trades=(2,), now_ms=2_009),
    SettleFailed(market="snow", trade=3, wallet="y", reason="reverted", now_ms=2_010),
    SetNonce(maker="x", nonce=2**255, now_ms=2_011),
    submit("i", Side.BUY, 40, 3_000, "snow", "201", maker="x", now_ms=2_012),  # rejected: nonce
    SetMarket(market=RAIN, now_ms=2_013),
    SetLimits(limits=Limits(orders_max=3), now_ms=2_014),
    submit("j", Side.BUY, 5, 3, now_ms=2_015),
    CancelSome(maker="x", token="101", side=Side.SELL, now_ms=2_015),
    CancelSome(market="rain", token="201", now_ms=2_015),  # rejected: token of another market
    CancelAll(market="rain", now_ms=2_016),
    SetMode(market="rain", mode=Mode.RESOLVED, now_ms=2_017),
    submit("k", Side.BUY, 5, 3, now_ms=2_018),  # rejected: resolved
    RemoveMarket(market="snow", now_ms=2_019),  # rejected: open
    RemoveMarket(market="rain", now_ms=2_019),
    Expire(now_ms=1),  # rejected: earlier time
    ResetClock(now_ms=1_000, spent=(SpentHash(b"7" * 32, "x", 2**255, 3),)),
    Expire(now_ms=1_001),
]


def apply_all(recorder, commands):
    """Apply commands; return the error code of each rejected one, None for the others."""
    codes = []
    for command in commands:
        try:
            recorder.apply(command)
        except RejectedError as error:
            codes.append(error.code)
        else:
            codes.append(None)
    return codes


def journal_of(commands, per_frame=7, **options):
    """Record commands in frames of this size; return the frames and the recorder."""
    recorder, frames = Recorder(**options), []
    for start in range(0, len(commands), per_frame):
        apply_all(recorder, commands[start : start + per_frame])
        frames.append(recorder.frame())
    return frames, recorder
