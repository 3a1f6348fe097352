"""The guard on its own: whose budget pays, how it survives a restart, and what a key opens."""

import pytest

from clob_server.api.problems import PROBLEMS, ApiError
from clob_server.auth.policy import ROUTE_RULES, Needs
from clob_server.auth.rate_limit import MINUTE_MS
from clob_server.core.commands import Budgets, DeactivateKey, OrderCharge, SetBudgets
from clob_server.core.state import ServerState
from tests.server.auth.bare import MAKER, NOW_MS, OTHER, Bare

TINY = Budgets(anonymous_per_minute=2, key_per_minute=3, orders_per_minute=4, cancels_per_minute=1)


@pytest.fixture
def bare(tmp_path):
    made = Bare(tmp_path)
    made.exchange.apply(SetBudgets(budgets=TINY, now_ms=NOW_MS))
    return made


@pytest.fixture
def production(tmp_path):
    return Bare(tmp_path, environment="production")


def charge(bare, call, count=1):
    """Count orders that a request would create."""
    bare.limiter.charge_orders(call.key, call.address, count)


def refused(code, work, *given, **more):
    with pytest.raises(ApiError) as caught:
        work(*given, **more)
    assert caught.value.code == code
    assert code in PROBLEMS
    return caught.value


# ----- how often -------------------------------------------------------------------------------


def test_an_address_without_a_key_has_a_budget_of_its_own(bare):
    for _ in range(2):
        bare.admit()
    refused("RATE_LIMITED", bare.admit)
    bare.admit(address="192.0.2.2")
    bare.pass_ms(MINUTE_MS)
    bare.admit()


def test_addresses_of_one_network_of_64_bits_share_a_budget(bare):
    bare.admit(address="2001:db8::1")
    bare.admit(address="2001:db8::2")
    refused("RATE_LIMITED", bare.admit, address="2001:db8::3")
    bare.admit(address="2001:db8:0:1::1")


def test_a_key_pays_for_itself_wherever_it_comes_from(bare):
    whole, _ = bare.add_key()
    for number in range(3):
        bare.admit(key=whole, address=f"192.0.2.{number}")
    refused("RATE_LIMITED", bare.admit, key=whole, address="192.0.2.9")
    bare.admit()


def test_the_own_numbers_of_a_key_win(bare):
    whole, _ = bare.add_key(requests_per_minute=1, orders_per_minute=2)
    call = bare.admit(key=whole)
    charge(bare, call, 2)
    refused("RATE_LIMITED", charge, bare, call)
    refused("RATE_LIMITED", bare.admit, key=whole)
    nothing, _ = bare.add_key(requests_per_minute=0)
    refused("RATE_LIMITED", bare.admit, key=nothing)


def test_a_bad_key_is_paid_for_by_the_address(bare):
    for _ in range(2):
        refused("INVALID_API_KEY", bare.admit, key="clob_0")
    refused("RATE_LIMITED", bare.admit, key="clob_0")
    refused("RATE_LIMITED", bare.admit)


def test_a_bad_token_is_paid_for_by_the_address_and_a_good_one_by_nobody(bare):
    for _ in range(2):
        refused("TOKEN_REQUIRED", bare.admit, "admin_engine")
    refused("RATE_LIMITED", bare.admit, "admin_engine")


def test_cancels_are_counted_by_themselves(bare):
    bare.admit("cancel_order")
    refused("RATE_LIMITED", bare.admit, "cancel_batch")
    for _ in range(2):
        bare.admit()
    bare.pass_ms(MINUTE_MS)
    bare.admit("cancel_batch")


def test_what_watches_the_server_is_not_counted(bare):
    for name in ("health", "ready", "metrics"):
        for _ in range(10):
            bare.admit(name, address="127.0.0.1")
    bare.admit(address="127.0.0.1")


def test_orders_of_a_batch_are_charged_whole_or_not_at_all(bare):
    call = bare.call("create_batch")
    charge(bare, call, 3)
    refused("RATE_LIMITED", charge, bare, call, 2)
    charge(bare, call, 0)
    charge(bare, call, 1)
    refused("RATE_LIMITED", charge, bare, call)


def test_a_refusal_says_when_it_can_be_again_and_then_it_can(bare):
    bare.admit()
    bare.pass_ms(10_500)
    bare.admit()
    refusal = refused("RATE_LIMITED", bare.admit)
    headers = dict(refusal.headers)
    assert headers[b"retry-after"] == b"50"
    assert headers[b"x-ratelimit-reset"] == b"%d" % ((NOW_MS + MINUTE_MS) // 1000)
    bare.pass_ms(49_499)
    refused("RATE_LIMITED", bare.admit)
    bare.pass_ms(1)
    bare.admit()


def test_budgets_change_while_the_server_runs(bare):
    for _ in range(2):
        bare.admit()
    refused("RATE_LIMITED", bare.admit)
    bare.exchange.apply(SetBudgets(budgets=Budgets(anonymous_per_minute=3), now_ms=NOW_MS))
    bare.admit()
    refused("RATE_LIMITED", bare.admit)


def test_a_wall_clock_that_goes_back_or_ahead_changes_no_window(bare):
    for _ in range(2):
        bare.admit()
    for jump_ms in (-10 * MINUTE_MS, 10 * MINUTE_MS):
        bare.now_ms = NOW_MS + jump_ms
        refused("RATE_LIMITED", bare.admit)
    bare.now_ms = NOW_MS - 10 * MINUTE_MS
    bare.tick_ms += MINUTE_MS
    bare.admit()


def test_without_limits_nothing_is_counted_and_nothing_is_logged(tmp_path):
    bare = Bare(tmp_path, rate_limits=False)
    bare.exchange.apply(SetBudgets(budgets=TINY, now_ms=NOW_MS))
    for name in ("get_orderbook", "cancel_order", "create_order"):
        for _ in range(10):
            charge(bare, bare.admit(name), 20)
    assert bare.limiter.take_charges(NOW_MS) == ()


# ----- what the log has of it ------------------------------------------------------------------


def restarted(bare, down_ms=0):
    """The same folder and the same log under a new guard, whose steady clock begins anew."""
    exchange = ServerState.restore(bare.exchange.snapshot())
    return Bare(bare.folder, exchange, now_ms=bare.now_ms + down_ms, tick_ms=17)


def log_charges(bare):
    for command in bare.limiter.take_charges(bare.now_ms):
        bare.exchange.apply(command)


def test_orders_are_charged_in_the_log_by_payer_and_without_an_address(bare):
    whole, _ = bare.add_key()
    calls = bare.call(), bare.call(), bare.admit(key=whole)
    for call in calls:
        charge(bare, call, 2)
    [command] = bare.limiter.take_charges(NOW_MS)
    assert type(command) is OrderCharge
    assert sorted(count for _, count in command.charges) == [2, 4]
    assert all(len(who) == 8 for who, _ in command.charges)
    assert b"192.0.2.1" not in b"".join(who for who, _ in command.charges)
    assert bare.limiter.take_charges(NOW_MS) == ()


def test_budgets_of_orders_survive_a_restart(bare):
    whole, _ = bare.add_key()
    charge(bare, bare.call(), 3)
    charge(bare, bare.admit(key=whole), 4)
    log_charges(bare)
    bare.pass_ms(20_000)
    charge(bare, bare.call(), 1)
    log_charges(bare)
    again = restarted(bare, down_ms=30_000)
    refused("RATE_LIMITED", charge, again, again.call())
    refused("RATE_LIMITED", charge, again, again.admit(key=whole))
    charge(again, again.call(address="192.0.2.2"), 4)
    again.pass_ms(9_999)
    refused("RATE_LIMITED", charge, again, again.call())
    again.pass_ms(1)
    charge(again, again.call(), 3)
    refused("RATE_LIMITED", charge, again, again.call())


def test_a_clock_behind_the_log_at_a_restart_keeps_a_charge_for_a_minute_at_most(bare):
    charge(bare, bare.call(), 4)
    log_charges(bare)
    again = restarted(bare, down_ms=-10 * MINUTE_MS)
    refused("RATE_LIMITED", charge, again, again.call())
    again.pass_ms(MINUTE_MS)
    charge(again, again.call(), 4)


def test_budgets_of_requests_begin_anew_with_a_restart(bare):
    for _ in range(2):
        bare.admit()
    restarted(bare).admit()


def test_what_was_charged_more_than_a_minute_ago_is_not_logged(bare):
    charge(bare, bare.call(), 2)
    bare.pass_ms(MINUTE_MS)
    assert bare.limiter.take_charges(NOW_MS) == ()
    for number in range(1_000):
        charge(bare, bare.call(address=f"192.0.2.{number}"))
        bare.pass_ms(1_000)
    assert len(bare.limiter._uncharged) == 60
    [command] = bare.limiter.take_charges(NOW_MS)
    assert len(command.charges) == 59


# ----- who -------------------------------------------------------------------------------------


def test_a_key_is_found_and_its_last_use_is_remembered(bare):
    whole, key = bare.add_key()
    assert bare.guard.last_used_ms == {}
    assert bare.admit(key=whole).key is bare.exchange.registry.keys[key.id]
    assert bare.guard.last_used_ms == {key.id: NOW_MS}
    assert bare.admit().key is None


def test_a_deactivated_key_opens_nothing_from_the_next_request_on(bare):
    whole, key = bare.add_key()
    held = bare.admit(key=whole).key
    assert bare.guard.is_active(held)
    bare.exchange.apply(DeactivateKey(key_id=key.id, now_ms=NOW_MS))
    assert not bare.guard.is_active(held)
    refused("INVALID_API_KEY", bare.admit, key=whole)
    refused("INVALID_API_KEY", bare.guard.key_of, {b"x-api-key": whole.encode()})


def test_a_key_of_the_other_environment_opens_nothing(bare):
    whole, _ = bare.add_key(environment="production")
    assert "production" in str(refused("INVALID_API_KEY", bare.admit, key=whole))


def test_no_refusal_of_a_key_repeats_its_secret(bare):
    whole, key = bare.add_key()
    bare.exchange.apply(DeactivateKey(key_id=key.id, now_ms=NOW_MS))
    for sent in (whole, whole[:-1] + "!"):
        refusal = refused("INVALID_API_KEY", bare.admit, key=sent, address=sent[-9:])
        assert whole[17:40] not in str(refusal)


def test_who_acts_for_a_maker_in_production_has_a_key_bound_to_him(production):
    may = production.guard.may_act_for
    whole, _ = production.add_key()
    weak, _ = production.add_key(scopes=("read",))
    for name, scope in (("create_gasless_order", "trade"), ("cancel_order", "cancel")):
        may(production.admit(name, key=whole), MAKER)
        refused("MAKER_NOT_ALLOWED", may, production.admit(name, key=whole), OTHER)
        refused("API_KEY_REQUIRED", may, production.call(name), MAKER)
        call = production.call(name)
        call.key = production.admit(key=weak).key
        assert scope in str(refused("SCOPE_MISSING", may, call, MAKER))


def test_who_acts_for_a_maker_in_test_needs_no_key(bare):
    for name in ("create_gasless_order", "cancel_order", "create_batch", "gasless_split"):
        bare.guard.may_act_for(bare.call(name), MAKER)


def test_who_follows_a_maker_in_production_has_a_key_bound_to_him(production, bare):
    _, key = production.add_key(scopes=("read",))
    _, trader = production.add_key(scopes=("trade",))
    may = production.guard.may_follow
    may(key, "user", MAKER)
    may(None, "orderbook", MAKER)
    refused("MAKER_NOT_ALLOWED", may, key, "user", OTHER)
    refused("SCOPE_MISSING", may, trader, "user", MAKER)
    refused("API_KEY_REQUIRED", may, None, "user", MAKER)
    bare.guard.may_follow(None, "user", MAKER)


# ----- from where ------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_metrics_need_no_token_on_the_same_machine(production, address):
    production.admit("metrics", address=address)


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "", "0.0.0.0", "localhost"])
def test_metrics_need_a_token_from_anywhere_else(production, address):
    refused("TOKEN_REQUIRED", production.admit, "metrics", address=address)


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
def test_metrics_need_a_token_through_a_proxy_on_the_same_machine(production, header):
    headers = {header: "192.0.2.1"}
    refused("TOKEN_REQUIRED", production.admit, "metrics", address="127.0.0.1", headers=headers)


def test_a_route_without_a_row_lets_nobody_in(bare):
    with pytest.raises(KeyError):
        bare.admit("forgotten")


def test_whatever_asks_for_a_key_or_a_token_says_of_which_scope():
    needs_scope = {need for need in Needs if "{}" in need.value}
    for row in ROUTE_RULES.values():
        for rule in (row.test, row.production):
            assert bool(rule.scope) == (rule.needs in needs_scope)
