"""The registry: what each command of the server does, and that a refusal changes nothing."""

import contextlib

import msgspec
import pytest

from clob import RejectedError
from clob.errors import InvalidCommandError
from clob_server.core.commands import (
    SERVER,
    AddKey,
    ApiKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Condition,
    DeactivateKey,
    DescribeMarket,
    FollowChain,
    GiveBack,
    Grant,
    OrderCharge,
    SetBudgets,
    SetDelegate,
    SetOutcome,
)
from clob_server.core.registry import DAY_MS, MarketText, Registry
from clob_server.core.rejections import (
    DelegateNonceError,
    KeyExistsError,
    KeyInactiveError,
    MarketBoundError,
    UnknownKeyError,
)

NOW_MS = 1_700_000_000_000
CONDITION = Condition(
    question_id=bytes(32), condition_id=bytes(32), oracle="O", collateral="C", yes="1", no="2"
)


def key(name="k", **fields):
    """Describe a key whose hash is made of its name."""
    described = {"hash": name.encode().ljust(32, b"."), "name": f"key {name}", "scopes": ("read",)}
    described |= {"environment": "test", "makers": (), "created_ms": NOW_MS}
    return ApiKey(id=name, **(described | fields))


def delegate(nonce, *, allowed=True, maker="M", to="D"):
    return SetDelegate(maker=maker, delegate=to, allowed=allowed, nonce=str(nonce), now_ms=NOW_MS)


def told(*commands):
    """Make a registry that was told these."""
    registry = Registry()
    for command in commands:
        registry.apply(command)
    return registry


@contextlib.contextmanager
def refused(registry, error, words):
    """Expect a refusal of this class whose message has the words; nothing may change."""
    before = registry.snapshot()
    with pytest.raises(RejectedError, match=words) as caught:
        yield
    assert type(caught.value) is error
    assert registry.snapshot() == before


# ----- keys ----------------------------------------------------------------------------------


def test_a_key_is_found_by_its_id():
    registry = told(AddKey(key=key("a"), now_ms=1), AddKey(key=key("b"), now_ms=1))
    assert registry.keys == {"a": key("a"), "b": key("b")}


def test_a_key_of_the_same_id_is_refused():
    registry = told(AddKey(key=key("a"), now_ms=1))
    with refused(registry, KeyExistsError, "there is a key 'a' already"):
        registry.apply(AddKey(key=key("a", hash=bytes(32)), now_ms=2))


def test_a_deactivated_key_says_since_when_and_keeps_its_id():
    registry = told(AddKey(key=key("a"), now_ms=1), DeactivateKey(key_id="a", now_ms=7))
    gone = key("a", deactivated_ms=7)
    assert registry.keys == {"a": gone}
    with refused(registry, KeyExistsError, "'a'"):
        registry.apply(AddKey(key=key("a"), now_ms=8))


def test_a_key_is_deactivated_once():
    registry = told(AddKey(key=key("a"), now_ms=1), DeactivateKey(key_id="a", now_ms=7))
    with refused(registry, KeyInactiveError, "key 'a' was deactivated at 7 ms"):
        registry.apply(DeactivateKey(key_id="a", now_ms=8))


def test_a_key_that_is_not_there_is_not_deactivated():
    registry = told()
    with refused(registry, UnknownKeyError, "there is no key 'x"):
        registry.apply(DeactivateKey(key_id="x" * 1_000, now_ms=1))


# ----- delegates -----------------------------------------------------------------------------


def test_a_maker_allows_delegates_and_takes_it_back():
    registry = told(delegate(0), delegate(5, to="E"), delegate(6, maker="N"))
    assert registry.delegates == {("M", "D"), ("M", "E"), ("N", "D")}
    registry.apply(delegate(6, allowed=False))
    assert registry.delegates == {("M", "E"), ("N", "D")}
    registry.apply(delegate(7, allowed=False, to="nobody"))
    assert registry.delegates == {("M", "E"), ("N", "D")}
    nonces = [registry.delegate_nonce(maker) for maker in ("M", "N", "O")]
    assert nonces == [8, 7, 0]


@pytest.mark.parametrize("nonce", [0, 4, 5])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_nonce_that_does_not_rise_is_refused(nonce, allowed):
    registry = told(delegate(5))
    with refused(registry, DelegateNonceError, f"at least 6 for maker M, not {nonce}"):
        registry.apply(delegate(nonce, allowed=allowed))


def test_a_nonce_has_256_bits():
    registry = told(delegate(2**256 - 2), delegate(2**256 - 1, allowed=False))
    assert registry.delegate_nonce("M") == 2**256
    assert not registry.delegates
    again = Registry.restore(registry.snapshot())
    for each in (registry, again):
        with refused(each, DelegateNonceError, f"at least {2**256}"):
            each.apply(delegate(2**256 - 1))


@pytest.mark.parametrize(
    "nonce",
    ["", "-1", "+1", " 1", "1_0", "1.0", "0x1", "\u0661", "\u00b2", 2**256, 10**78, "9" * 10_000],
)
def test_what_is_no_number_of_256_bits_is_refused(nonce):
    registry = told(delegate(5))
    with refused(registry, InvalidCommandError, "nonce must be digits, at most 11579208.*, not "):
        registry.apply(delegate(nonce))


# ----- markets and budgets -------------------------------------------------------------------


def test_what_is_said_of_a_market_and_its_outcome_are_kept_apart():
    registry = told(
        DescribeMarket(market="m", question="Rain?", description="By noon.", now_ms=1),
        SetOutcome(market="m", outcome="yes", now_ms=2),
        SetOutcome(market="n", outcome="no", now_ms=2),
    )
    assert registry.words == {"m": MarketText("Rain?", "By noon.", "yes"), "n": MarketText(outcome="no")}
    registry.apply(DescribeMarket(market="m", question="Snow?", now_ms=3))
    registry.apply(SetOutcome(market="n", outcome="yes", now_ms=3))
    assert registry.words == {"m": MarketText("Snow?", "", "yes"), "n": MarketText(outcome="yes")}


def test_budgets_are_as_last_set():
    assert told().budgets == Budgets()
    for budgets in (Budgets(anonymous_per_minute=1), Budgets(cancels_per_minute=0)):
        assert told(SetBudgets(budgets=budgets, now_ms=1)).budgets == budgets


# ----- time ----------------------------------------------------------------------------------


def test_the_time_is_the_latest_of_a_command_that_was_not_refused():
    registry = told(SetBudgets(budgets=Budgets(), now_ms=5), delegate(1))
    assert registry.now_ms == NOW_MS
    registry.apply(SetBudgets(budgets=Budgets(), now_ms=6))
    with contextlib.suppress(RejectedError):
        registry.apply(DeactivateKey(key_id="x", now_ms=NOW_MS + 9))
    assert registry.now_ms == NOW_MS


def test_a_market_has_one_condition_for_good():
    registry = told(BindMarket(market="m", condition=CONDITION, now_ms=1))
    assert registry.conditions == {"m": CONDITION}
    other = msgspec.structs.replace(CONDITION, no="3")
    with refused(registry, MarketBoundError, "market 'm' has a condition, which stays"):
        registry.apply(BindMarket(market="m", condition=other, now_ms=2))


# ----- snapshots -----------------------------------------------------------------------------


def full():
    """Make a registry that has something of everything."""
    registry = told(
        AddKey(key=key("b", orders_per_minute=0), now_ms=1),
        AddKey(key=key("a", makers=("M", "N")), now_ms=1),
        DeactivateKey(key_id="b", now_ms=2),
        delegate(2**255),
        delegate(0, maker="A", to="Z"),
        DescribeMarket(market="z", question="Zürich?", now_ms=3),
        SetOutcome(market="a", outcome="no", now_ms=3),
        SetBudgets(budgets=Budgets(key_per_minute=1), now_ms=4),
        *(Grant(operation=name, user="U", amount=100, now_ms=NOW_MS) for name in "pq"),
        BindMarket(market="z", condition=CONDITION, now_ms=NOW_MS),
        BeginSettlement(base=bytes(range(16)), now_ms=NOW_MS),
        FollowChain(
            block=7,
            hash="0xb",
            wallets=("W", "V"),
            permissions=(("payer", "W", "M", True), ("gasless", "M", "M", True)),
            now_ms=NOW_MS,
        ),
    )
    return registry


def test_a_snapshot_leads_to_the_same_registry():
    registry = full()
    again = Registry.restore(registry.snapshot())
    for name, value in vars(registry).items():
        if name == "settling":
            assert again.settling.snapshot() == value.snapshot()
        elif name != "_handlers":
            assert vars(again)[name] == value, name
            assert type(vars(again)[name]) is type(value), name
    assert again.snapshot() == registry.snapshot()


def test_what_is_done_after_a_restore_is_as_if_it_had_never_stopped():
    registry = full()
    again = Registry.restore(registry.snapshot())
    for each in (registry, again):
        each.apply(DeactivateKey(key_id="a", now_ms=NOW_MS + 1))
        each.apply(delegate(2**255 + 1, allowed=False))
        each.apply(GiveBack(operation="p", now_ms=NOW_MS + DAY_MS))
    assert again.snapshot() == registry.snapshot()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw + b"\x00", lambda _: b""])
def test_what_is_no_snapshot_is_refused(damage):
    with pytest.raises(msgspec.MsgspecError):
        Registry.restore(damage(full().snapshot()))


def test_every_kind_of_command_has_a_handler():
    assert set(Registry()._handlers) == SERVER - {OrderCharge}
