"""The methods of a matcher: each equals applying the command of its name."""

import copy

import pytest

from clob import (
    AddMarket,
    Cancel,
    CancelAll,
    CancelSome,
    Expire,
    Funds,
    Limits,
    Mode,
    Reduce,
    Replace,
    SelfTrade,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
)
from tests.matchers import buy, funded, market, opened, sell

TERMS = {"funds": Funds.ACCOUNTS, "settles": True}
CALLS = {
    "submit": ((buy("new", 40, 7).order,), buy("new", 40, 7)),
    "cancel": (("a",), Cancel(order_id="a")),
    "cancel_all": ((), CancelAll()),
    "cancel_some": ((), CancelSome()),
    "reduce": (("a", 3), Reduce(order_id="a", size=3)),
    "replace": (("c", 70, 9), Replace(order_id="c", price=70, size=9)),
    "set_nonce": (("S", 5), SetNonce(maker="S", nonce=5)),
    "expire": ((), Expire()),
    "add_market": ((market("n"),), AddMarket(market=market("n"))),
    "set_market": ((market(min_size=2, **TERMS),), SetMarket(market=market(min_size=2, **TERMS))),
    "set_mode": (("m", Mode.HALTED), SetMode(market="m", mode=Mode.HALTED)),
    "set_limits": ((Limits(batch_max=3),), SetLimits(limits=Limits(batch_max=3))),
    "set_balance": (("S", "m-yes", 4), SetBalance(wallet="S", asset="m-yes", amount=4)),
    "settled": (("m", [2]), Settled(market="m", trades=(2,))),
    "settle_failed": (("m", 2), SettleFailed(market="m", trade=2)),
}
"""By method: its arguments before the time, and the equal command."""


def traded(matcher_class):
    """A market with pending trade 2, the remainder of ``a``, which expires, and ``c``."""
    matcher = opened(matcher_class, market(**TERMS))
    funded(matcher, "SB", 1_000)
    matcher.apply(sell("a", 50, 10, nonce=1, expiration_s=20))
    matcher.apply(buy("b", 50, 4))
    matcher.apply(sell("c", 60, 9))
    return matcher


@pytest.mark.parametrize("name", CALLS)
def test_method_equals_its_command(matcher_class, name):
    arguments, command = CALLS[name]
    called, applied = traded(matcher_class), traded(matcher_class)
    fields = {field: getattr(command, field) for field in command.__struct_fields__}
    if name == "submit":
        arguments = ("m", *arguments)
    events = getattr(called, name)(*arguments, now_ms=21_000)
    assert events == applied.apply(type(command)(**(fields | {"now_ms": 21_000})))
    assert called.snapshot() == applied.snapshot() != traded(matcher_class).snapshot()


def test_method_passes_optional_arguments(matcher_class):
    matcher = traded(matcher_class)
    order = buy("d", 30, 5, maker="B").order
    matcher.submit("m", order, 1_000, client_id="mine", order_hash=b"h" * 32, deadline_ms=1_000)
    assert matcher.order_by_client_id("B", "mine") == matcher.order_by_hash(b"h" * 32)
    matcher.replace("d", 31, 4, 1_000, post_only=True, self_trade=SelfTrade.NONE, maker="B")
    assert [r.order.id for r in matcher.open_orders("B")] == ["d"]
    assert len(matcher.settle_failed("m", 2, 1_000, wallet="S", reason="drained")) == 2
    assert len(matcher.cancel_all(1_000, maker="B", market="m")) == 1


def test_copy_is_a_fork_and_repr_shows_counts(matcher_class):
    matcher = traded(matcher_class)
    for twin in (copy.copy(matcher), copy.deepcopy(matcher)):
        twin.cancel("a")
        assert repr(twin) == "<Matcher: 1 markets, 1 orders, now_ms=0>"
    assert repr(matcher) == "<Matcher: 1 markets, 2 orders, now_ms=0>"
