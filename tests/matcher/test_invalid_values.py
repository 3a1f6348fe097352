"""Invalid values in every field of every command are rejected and change nothing.

Accepted commands must encode and decode, which proves the types of their fields.
"""

import copy
import pickle

import msgspec
import numpy as np
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Expire,
    Funds,
    Limits,
    Mode,
    Order,
    Reduce,
    RejectedError,
    Reopen,
    ReopenedTrade,
    Replace,
    ResetClock,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Side,
    SpentHash,
    Submit,
)
from clob.codec import decode, encode
from clob.errors import InvalidCommandError, InvalidOrderIdError, MatcherBusyError
from tests.matchers import buy, funded, market, opened, rejected, sell

TERMS = market(funds=Funds.ACCOUNTS, settles=True, lot_wei=2)
HUGE = 10**5_000


class Text(str):
    """A str subclass."""

    __slots__ = ()


class Number(int):
    """An int subclass."""


class Hostile:
    """Raises in every method."""

    __hash__ = None

    def _raise(self, *_):
        raise RuntimeError("no answer")

    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__ = __len__ = __repr__ = _raise
    __str__ = __index__ = __int__ = __iter__ = __mod__ = __and__ = _raise


class Agreeable:
    """Equals everything, and is truthy."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("m-yes")


class NoSubmit(Submit, frozen=True, kw_only=True, tag=True):
    """A Submit subclass."""


class NoCancel(Cancel, frozen=True, kw_only=True, tag=True):
    """A Cancel subclass."""


class Silent(Order, frozen=True, kw_only=True, gc=False):
    """An order that raises on access to its price."""

    def __getattribute__(self, name):
        if name == "price":
            raise RuntimeError("no answer")
        return super().__getattribute__(name)


class Lying(Order, frozen=True, kw_only=True, gc=False):
    """An order whose token is a str subclass that equals everything."""

    def __getattribute__(self, name):
        return Agreeable() if name == "token" else super().__getattribute__(name)


VALUES = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "negative": -1,
    "float": 1.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "2**63": 2**63,
    "2**64": 2**64,
    "2**256": 2**256,
    "2**300": 2**300,
    "huge": HUGE,
    "huge and odd": HUGE + 1,
    "huge and negative": -HUGE,
    "numpy integer": np.int64(4),
    "numpy array": np.zeros(3, np.int64),
    "integer subclass": Number(4),
    "empty text": "",
    "long text": "x" * 10_000,
    "lone surrogate": "\ud800",
    "nul": "a\0b",
    "text subclass": Text("m"),
    "token subclass": Text("m-yes"),
    "maker subclass": Text("B"),
    "bytes": b"m",
    "32 bytes": b"7" * 32,
    "bytearray": bytearray(32),
    "list": [],
    "dict": {},
    "set": {1},
    "tuple": (),
    "nested": ((((),),),),
    "side": Side.SELL,
    "mode": Mode.HALTED,
    "complex": 1j,
    "type": int,
    "object": object(),
    "hostile": Hostile(),
    "hostile in a tuple": (Hostile(),),
    "huge in a tuple": (HUGE,),
    "agreeable": Agreeable(),
    "order": buy("x", 50, 2).order,
    "market": market("x"),
    "command": Expire(),
    "commands": (Expire(),),
}

NEW = buy("new", 50, 2, client_id="c", order_hash=b"h" * 32, deadline_ms=5, smart_wallet="B")
ENDED = ReopenedTrade(
    seq=4,
    token="m-yes",
    buyer_pays="B",
    buyer_receives="B",
    seller_pays="S",
    seller_receives="S",
    paid=1,
    size=2,
)
COMMANDS = {
    "submit": NEW,
    "sell": sell("new", 50, 2, maker="S", collateral=1, fee_rate_bps=5, nonce=3, expiration_s=9),
    "cancel": Cancel(order_id="bid", maker="B", market="m"),
    "operator's cancel": Cancel(order_id="bid"),
    "cancel all": CancelAll(maker="B", market="m"),
    "cancel some": CancelSome(maker="B", market="m", token="m-yes", side=Side.BUY),
    "reduce": Reduce(order_id="bid", size=4, maker="B", market="m"),
    "replace": Replace(order_id="bid", price=50, size=4, maker="B", market="m"),
    "nonce": SetNonce(maker="B", nonce=5),
    "expire": Expire(),
    "add market": AddMarket(market=market("n")),
    "set market": SetMarket(market=TERMS),
    "mode": SetMode(market="m", mode=Mode.HALTED),
    "limits": SetLimits(limits=Limits()),
    "balance": SetBalance(wallet="B", asset="m-yes", amount=500),
    "settled": Settled(market="m", trades=(2,)),
    "failed": SettleFailed(market="m", trade=2, wallet="B", reason="no"),
    "clock": ResetClock(spent=(SpentHash(b"7" * 32, "B", 3, 2_000),)),
    "reopen": Reopen(market="m", trades=(ENDED,), settled=False),
    "batch": Batch(commands=(NEW, Cancel(order_id="bid"))),
    "atomic batch": Batch(commands=(NEW, Cancel(order_id="bid")), atomic=True),
}


def fresh(matcher_class):
    """Return a matcher in which every command above is valid."""
    matcher = funded(opened(matcher_class, TERMS), ("B", "S"), 1_000)
    for command in (sell("ask", 60, 10), buy("taker", 60, 4), buy("bid", 40, 10)):
        matcher.apply(command)
    matcher.apply(buy("other", 60, 2))
    matcher.settle_failed("m", 4)
    return matcher


def spoil(command, field, value):
    """Replace a field of a command, or of the Struct it contains."""
    outer, _, inner = field.partition(".")
    if inner:
        held = getattr(command, outer)
        held = held[0] if isinstance(held, tuple) else held
        value = msgspec.structs.replace(held, **{inner: value})
    if outer == "trades" and inner:
        value = (value,)
    return msgspec.structs.replace(command, **{outer: value})


def fields_of(command):
    """Return the fields of a command and of the Struct it contains."""
    for name in command.__struct_fields__:
        yield name
        held = getattr(command, name)
        if isinstance(held, msgspec.Struct):
            yield from (f"{name}.{inner}" for inner in held.__struct_fields__)
        if isinstance(held, tuple) and isinstance(held[0], ReopenedTrade):
            yield from (f"{name}.{inner}" for inner in held[0].__struct_fields__)


def rejection_of(matcher, command):
    """Apply a command and return its rejection, or None."""
    try:
        matcher.apply(command)
    except RejectedError as rejection:
        return rejection
    return None


FIELDS = [(name, field) for name, command in COMMANDS.items() for field in fields_of(command)]


@pytest.mark.parametrize("name", COMMANDS)
def test_unmodified_commands_are_accepted(matcher_class, name):
    matcher = fresh(matcher_class)
    assert matcher.check(COMMANDS[name]) is None
    matcher.apply(COMMANDS[name])
    matcher.audit()


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_invalid_field_value_is_rejected_and_changes_nothing(matcher_class, name, field):
    matcher = fresh(matcher_class)
    before = matcher.snapshot()
    for what, value in VALUES.items():
        command = spoil(COMMANDS[name], field, value)
        expected = matcher.check(command)
        assert matcher.snapshot() == before, f"to ask about {what} changed something"
        rejection = rejection_of(matcher, command)
        assert (type(expected), str(expected)) == (type(rejection), str(rejection)), what
        if rejection is not None:
            assert matcher.snapshot() == before, f"a rejection of {what} changed something"
            continue
        assert decode(encode(command)) == command, f"{what} was accepted"
        matcher.audit()
        assert type(matcher).restore(matcher.snapshot()).snapshot() == matcher.snapshot()
        matcher = fresh(matcher_class)
    matcher.apply(COMMANDS[name])


@pytest.mark.parametrize("name", ["submit", "cancel", "reduce", "replace", "cancel all"])
@pytest.mark.parametrize("atomic", [False, True])
def test_invalid_field_value_in_a_batch_is_rejected(matcher_class, name, atomic):
    for field in fields_of(COMMANDS[name]):
        for what, value in VALUES.items():
            matcher = fresh(matcher_class)
            spoiled = spoil(COMMANDS[name], field, value)
            alone, before = matcher.check(spoiled), matcher.snapshot()
            if field == "now_ms" and alone is not None:
                # The time of a command in a batch is ignored, but must be valid.
                with rejected(matcher, InvalidCommandError, "now_ms"):
                    matcher.batch([COMMANDS["cancel"], spoiled], atomic=atomic)
                continue
            try:
                (result,) = matcher.batch([spoiled], atomic=atomic)
            except RejectedError as rejection:
                assert atomic
                result = rejection
            if alone is None:
                assert isinstance(result, list), (field, what)
            else:
                assert (type(result), str(result)) == (type(alone), str(alone)), (field, what)
                assert matcher.snapshot() == before, (field, what)


@pytest.mark.parametrize("what", VALUES)
def test_other_values_are_rejected_as_commands(matcher_class, what):
    matcher = fresh(matcher_class)
    value = VALUES[what]
    if what == "command":
        return
    for wrong in (value, Batch(commands=(value,)), Batch(commands=(value,), atomic=True)):
        assert type(matcher.check(wrong)) is InvalidCommandError
        with rejected(matcher, InvalidCommandError):
            matcher.apply(wrong)


def test_subclass_of_a_command_is_rejected(matcher_class):
    matcher = fresh(matcher_class)
    for wrong in (
        NoSubmit(market="m", order=NEW.order),
        NoCancel(order_id="bid"),
        NoCancel(order_id="nobody"),
    ):
        assert type(matcher.check(wrong)) is InvalidCommandError
        with rejected(matcher, InvalidCommandError):
            matcher.apply(wrong)
        with rejected(matcher, InvalidCommandError):
            matcher.batch([wrong])


@pytest.mark.parametrize("kind", [Silent, Lying])
def test_order_subclass_with_lying_fields_is_rejected(matcher_class, kind):
    matcher = fresh(matcher_class)
    order = kind(id="x", token="m-yes", maker="B", side=Side.BUY, price=50, size=2)
    with pytest.raises(RejectedError):
        matcher.apply(Submit(market="m", order=order))
    matcher.apply(NEW)


def test_lone_surrogates_are_accepted_in_texts(matcher_class):
    matcher = opened(matcher_class, market("\ud800"))
    wild = {"market": "\ud800", "token": "\ud800-yes", "maker": "\udfff", "client_id": "\udc80"}
    matcher.apply(buy("\ud801", 50, 2, **wild))
    assert matcher.fork().order_by_client_id("\udfff", "\udc80").order.id == "\ud801"
    with rejected(matcher, InvalidOrderIdError):
        matcher.apply(buy("", 50, 2, **wild | {"client_id": "other"}))


def test_nested_call_is_rejected(matcher_class):
    matcher = fresh(matcher_class)
    found = []

    class Meddler:
        """Calls the matcher while the matcher reads it."""

        def __repr__(self):
            with pytest.raises(MatcherBusyError, match="one call at a time") as caught:
                matcher.apply(NEW)
            found.append(caught.value.code)
            return "a meddler"

    with rejected(matcher, InvalidCommandError, "a meddler"):
        matcher.apply(SetNonce(maker=Meddler(), nonce=1))
    assert found == ["MATCHER_BUSY"]
    matcher.apply(NEW)


READS = (
    copy.copy,
    copy.deepcopy,
    len,
    pickle.dumps,
    lambda m: m.ahead("x"),
    lambda m: m.audit(),
    lambda m: m.balance("w", "a"),
    lambda m: m.balances(),
    lambda m: m.check(NEW),
    lambda m: m.depth("m"),
    lambda m: m.fork(),
    lambda m: m.is_used(b""),
    lambda m: m.limits,
    lambda m: m.market("m"),
    lambda m: m.markets,
    lambda m: m.next_expiry_s,
    lambda m: m.nonce("B"),
    lambda m: m.now_ms,
    lambda m: m.open_orders(),
    lambda m: m.order("x"),
    lambda m: m.order_by_client_id("B", "x"),
    lambda m: m.order_by_hash(b""),
    lambda m: m.seq("m"),
    lambda m: m.simulate(NEW),
    lambda m: m.snapshot(),
    lambda m: m.state_hash(),
    lambda m: m.unsettled("m"),
    lambda m: m.used_hashes,
)
"""Calls and properties that read a matcher."""


def test_reads_during_a_call_are_rejected(matcher_class):
    matcher = fresh(matcher_class)
    seen = []

    class Reader:
        """Reads the matcher while the matcher reads it."""

        def __repr__(self):
            for read in READS:
                with pytest.raises(MatcherBusyError):
                    read(matcher)
                seen.append(read)
            return "a reader"

    with rejected(matcher, InvalidCommandError, "a reader"):
        matcher.apply(SetNonce(maker=Reader(), nonce=1))
    assert len(seen) == len(READS)


def test_interrupted_check_of_a_batch_leaves_the_matcher_busy(matcher_class):
    matcher = fresh(matcher_class)

    class Interrupt:
        """Raises KeyboardInterrupt on access."""

        def __repr__(self):
            raise KeyboardInterrupt

    batch = Batch(commands=(NEW, Cancel(order_id=Interrupt())), atomic=True)
    assert matcher.check(Batch(commands=(NEW,), atomic=True)) is None
    with pytest.raises(KeyboardInterrupt):
        matcher.check(batch)
    with pytest.raises(MatcherBusyError):
        matcher.snapshot()


def test_interrupted_matcher_stays_busy_until_restored(matcher_class):
    matcher = fresh(matcher_class)
    saved = matcher.snapshot()

    class Interrupt:
        """Raises KeyboardInterrupt on access."""

        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        matcher.apply(SetNonce(maker=Interrupt(), nonce=1))
    for _ in range(2):
        with pytest.raises(MatcherBusyError, match="restore a snapshot"):
            matcher.apply(NEW)
    for read in READS:
        with pytest.raises(MatcherBusyError):
            read(matcher)
    assert repr(matcher) == "<Matcher: busy>"
    assert matcher
    again = matcher_class.restore(saved)
    again.apply(NEW)
    again.audit()
