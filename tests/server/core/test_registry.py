"""Registry: effects of each server command; a rejected command changes nothing."""

import contextlib

import msgspec
import pytest

from clob import RejectedError
from clob.errors import InvalidCommandError
from clob_server.core.commands import (
    SERVER,
    AddKey,
    AdvanceClock,
    ApiKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Condition,
    DeactivateCredentials,
    DeactivateKey,
    DescribeExchange,
    DescribeMarket,
    FollowChain,
    GiveBack,
    Grant,
    OrderCharge,
    SetBudgets,
    SetCancelOnDisconnect,
    SetDelegate,
    SetHeartbeat,
    SetOutcome,
)
from clob_server.core.identity import exchange_settings
from clob_server.core.registry import DAY_MS, MarketText, Registry
from clob_server.core.rejections import (
    DelegateNonceError,
    KeyExistsError,
    KeyInactiveError,
    MarketBoundError,
    UnknownKeyError,
)
from clob_server.settings import Settings

NOW_MS = 1_700_000_000_000
CONDITION = Condition(
    question_id=bytes(32), condition_id=bytes(32), oracle="O", collateral="C", yes="1", no="2"
)


def key(name="k", **fields):
    """Return a key whose hash is derived from its name."""
    described = {"hash": name.encode().ljust(32, b"."), "name": f"key {name}", "scopes": ("read",)}
    described |= {"environment": "test", "makers": (), "created_ms": NOW_MS}
    return ApiKey(id=name, **(described | fields))


def delegate(nonce, *, allowed=True, maker="M", to="D"):
    return SetDelegate(maker=maker, delegate=to, allowed=allowed, nonce=str(nonce), now_ms=NOW_MS)


def registry_after(*commands):
    """Return a registry after these commands."""
    registry = Registry()
    for command in commands:
        registry.apply(command)
    return registry


@contextlib.contextmanager
def assert_rejected(registry, error, words):
    """Expect a rejection of this class whose message has the words and no change of the state."""
    before = registry.snapshot()
    with pytest.raises(RejectedError, match=words) as caught:
        yield
    assert type(caught.value) is error
    assert registry.snapshot() == before


# ----- keys ----------------------------------------------------------------------------------


def test_keys_are_stored_by_id():
    registry = registry_after(AddKey(key=key("a"), now_ms=1), AddKey(key=key("b"), now_ms=1))
    assert registry.keys == {"a": key("a"), "b": key("b")}


def test_duplicate_key_id_is_rejected():
    registry = registry_after(AddKey(key=key("a"), now_ms=1))
    with assert_rejected(registry, KeyExistsError, "key a already exists"):
        registry.apply(AddKey(key=key("a", hash=bytes(32)), now_ms=2))


def test_deactivated_key_keeps_its_id_and_deactivation_time():
    registry = registry_after(AddKey(key=key("a"), now_ms=1), DeactivateKey(key_id="a", now_ms=7))
    gone = key("a", deactivated_ms=7)
    assert registry.keys == {"a": gone}
    with assert_rejected(registry, KeyExistsError, "key a"):
        registry.apply(AddKey(key=key("a"), now_ms=8))


def test_second_deactivation_is_rejected():
    registry = registry_after(AddKey(key=key("a"), now_ms=1), DeactivateKey(key_id="a", now_ms=7))
    with assert_rejected(registry, KeyInactiveError, "key a was deactivated at 7 ms"):
        registry.apply(DeactivateKey(key_id="a", now_ms=8))


def test_deactivating_an_unknown_key_is_rejected():
    registry = registry_after()
    with assert_rejected(registry, UnknownKeyError, 'no key "x'):
        registry.apply(DeactivateKey(key_id="x" * 1_000, now_ms=1))


# ----- delegates -----------------------------------------------------------------------------


def test_delegates_are_added_and_revoked():
    registry = registry_after(delegate(0), delegate(5, to="E"), delegate(6, maker="N"))
    assert registry.delegates == {("M", "D"), ("M", "E"), ("N", "D")}
    registry.apply(delegate(6, allowed=False))
    assert registry.delegates == {("M", "E"), ("N", "D")}
    registry.apply(delegate(7, allowed=False, to="nobody"))
    assert registry.delegates == {("M", "E"), ("N", "D")}
    nonces = [registry.delegate_nonce(maker) for maker in ("M", "N", "O")]
    assert nonces == [8, 7, 0]


@pytest.mark.parametrize("nonce", [0, 4, 5])
@pytest.mark.parametrize("allowed", [True, False])
def test_nonce_that_does_not_increase_is_rejected(nonce, allowed):
    registry = registry_after(delegate(5))
    with assert_rejected(registry, DelegateNonceError, f"at least 6 for maker M; got {nonce}"):
        registry.apply(delegate(nonce, allowed=allowed))


def test_nonce_has_256_bits():
    registry = registry_after(delegate(2**256 - 2), delegate(2**256 - 1, allowed=False))
    assert registry.delegate_nonce("M") == 2**256
    assert not registry.delegates
    again = Registry.restore(registry.snapshot())
    for each in (registry, again):
        with assert_rejected(each, DelegateNonceError, f"at least {2**256}"):
            each.apply(delegate(2**256 - 1))


@pytest.mark.parametrize(
    "nonce",
    ["", "-1", "+1", " 1", "1_0", "1.0", "0x1", "\u0661", "\u00b2", 2**256, 10**78, "9" * 10_000],
)
def test_invalid_nonce_is_rejected(nonce):
    registry = registry_after(delegate(5))
    words = "nonce must be decimal digits, at most 11579208.*; got "
    with assert_rejected(registry, InvalidCommandError, words):
        registry.apply(delegate(nonce))


# ----- markets and budgets -------------------------------------------------------------------


def test_market_description_and_outcome_are_independent():
    registry = registry_after(
        DescribeMarket(market="m", question="Rain?", description="By noon.", now_ms=1),
        SetOutcome(market="m", outcome="yes", now_ms=2),
        SetOutcome(market="n", outcome="no", now_ms=2),
    )
    words = {"m": MarketText("Rain?", "By noon.", "yes"), "n": MarketText(outcome="no")}
    assert registry.words == words
    registry.apply(DescribeMarket(market="m", question="Snow?", now_ms=3))
    registry.apply(SetOutcome(market="n", outcome="yes", now_ms=3))
    assert registry.words == {"m": MarketText("Snow?", "", "yes"), "n": MarketText(outcome="yes")}


def test_last_budgets_apply():
    assert registry_after().budgets == Budgets()
    for budgets in (Budgets(anonymous_per_minute=1), Budgets(cancels_per_minute=0)):
        assert registry_after(SetBudgets(budgets=budgets, now_ms=1)).budgets == budgets


# ----- time ----------------------------------------------------------------------------------


def test_time_is_that_of_the_latest_accepted_command():
    registry = registry_after(SetBudgets(budgets=Budgets(), now_ms=5), delegate(1))
    assert registry.now_ms == NOW_MS
    registry.apply(SetBudgets(budgets=Budgets(), now_ms=6))
    with contextlib.suppress(RejectedError):
        registry.apply(DeactivateKey(key_id="x", now_ms=NOW_MS + 9))
    assert registry.now_ms == NOW_MS


def test_second_condition_of_a_market_is_rejected():
    registry = registry_after(BindMarket(market="m", condition=CONDITION, now_ms=1))
    assert registry.conditions == {"m": CONDITION}
    other = msgspec.structs.replace(CONDITION, no="3")
    with assert_rejected(registry, MarketBoundError, "market m already has a condition"):
        registry.apply(BindMarket(market="m", condition=other, now_ms=2))


# ----- snapshots -----------------------------------------------------------------------------


def full():
    """Return a registry with an entry of every kind."""
    return registry_after(
        AddKey(key=key("b", orders_per_minute=0), now_ms=1),
        AddKey(key=key("a", makers=("M", "N")), now_ms=1),
        DeactivateKey(key_id="b", now_ms=2),
        DeactivateCredentials(address="W", nonce=2**47, now_ms=2),
        DeactivateCredentials(address="V", nonce=0, now_ms=2),
        SetHeartbeat(maker="M", timeout_ms=1_000, now_ms=2),
        SetCancelOnDisconnect(maker="L", armed=True, now_ms=2),
        AdvanceClock(advance_ms=86_400_000, now_ms=2),
        delegate(2**255),
        delegate(0, maker="A", to="Z"),
        DescribeExchange(exchange=exchange_settings(Settings()), now_ms=3),
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


def test_snapshot_restores_the_registry():
    registry = full()
    again = Registry.restore(registry.snapshot())
    for name, value in vars(registry).items():
        if name == "settling":
            assert again.settling.snapshot() == value.snapshot()
        elif name != "_handlers":
            assert vars(again)[name] == value, name
            assert type(vars(again)[name]) is type(value), name
    assert again.snapshot() == registry.snapshot()


def test_restored_registry_applies_commands_as_the_original():
    registry = full()
    again = Registry.restore(registry.snapshot())
    for each in (registry, again):
        each.apply(DeactivateKey(key_id="a", now_ms=NOW_MS + 1))
        each.apply(delegate(2**255 + 1, allowed=False))
        each.apply(GiveBack(operation="p", now_ms=NOW_MS + DAY_MS))
    assert again.snapshot() == registry.snapshot()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw + b"\x00", lambda _: b""])
def test_damaged_snapshot_is_rejected(damage):
    with pytest.raises(msgspec.MsgspecError):
        Registry.restore(damage(full().snapshot()))


def test_every_server_command_has_a_handler():
    assert set(Registry()._handlers) == SERVER - {OrderCharge}
