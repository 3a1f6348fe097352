"""The guard without a server: charged budgets, restarts, and access by keys."""

import pytest

from clob_server.api.problems import PROBLEMS, ApiError
from clob_server.auth.policy import ROUTE_RULES, Needs
from clob_server.auth.rate_limit import MINUTE_MS
from clob_server.core.commands import Budgets, DeactivateKey, OrderCharge, SetBudgets
from clob_server.core.state import ServerState
from tests.server.auth.guard_harness import MAKER, NOW_MS, OTHER, GuardHarness

TINY = Budgets(anonymous_per_minute=2, key_per_minute=3, orders_per_minute=4, cancels_per_minute=1)


@pytest.fixture
def harness(tmp_path):
    made = GuardHarness(tmp_path)
    made.exchange.apply(SetBudgets(budgets=TINY, now_ms=NOW_MS))
    return made


@pytest.fixture
def production(tmp_path):
    return GuardHarness(tmp_path, environment="production")


def charge(harness, call, count=1):
    """Charge orders that a request creates."""
    harness.limiter.charge_orders(call.key, call.address, count)


def rejected(code, work, *arguments, **options):
    with pytest.raises(ApiError) as caught:
        work(*arguments, **options)
    assert caught.value.code == code
    assert code in PROBLEMS
    return caught.value


# ----- rate limits -----------------------------------------------------------------------------


def test_address_without_a_key_has_its_own_budget(harness):
    for _ in range(2):
        harness.admit()
    rejected("RATE_LIMITED", harness.admit)
    harness.admit(address="192.0.2.2")
    harness.advance_ms(MINUTE_MS)
    harness.admit()


def test_addresses_of_one_ipv6_64_network_share_a_budget(harness):
    harness.admit(address="2001:db8::1")
    harness.admit(address="2001:db8::2")
    rejected("RATE_LIMITED", harness.admit, address="2001:db8::3")
    harness.admit(address="2001:db8:0:1::1")


def test_key_has_one_budget_across_addresses(harness):
    whole, _ = harness.add_key()
    for number in range(3):
        harness.admit(key=whole, address=f"192.0.2.{number}")
    rejected("RATE_LIMITED", harness.admit, key=whole, address="192.0.2.9")
    harness.admit()


def test_limits_of_a_key_override_the_common_limits(harness):
    whole, _ = harness.add_key(requests_per_minute=1, orders_per_minute=2)
    call = harness.admit(key=whole)
    charge(harness, call, 2)
    rejected("RATE_LIMITED", charge, harness, call)
    rejected("RATE_LIMITED", harness.admit, key=whole)
    nothing, _ = harness.add_key(requests_per_minute=0)
    rejected("RATE_LIMITED", harness.admit, key=nothing)


def test_invalid_key_is_charged_to_the_address(harness):
    for _ in range(2):
        rejected("INVALID_API_KEY", harness.admit, key="clob_0")
    rejected("RATE_LIMITED", harness.admit, key="clob_0")
    rejected("RATE_LIMITED", harness.admit)


def test_invalid_token_is_charged_to_the_address(harness):
    for _ in range(2):
        rejected("TOKEN_REQUIRED", harness.admit, "admin_engine")
    rejected("RATE_LIMITED", harness.admit, "admin_engine")


def test_cancels_have_their_own_budget(harness):
    harness.admit("cancel_order")
    rejected("RATE_LIMITED", harness.admit, "cancel_batch")
    for _ in range(2):
        harness.admit()
    harness.advance_ms(MINUTE_MS)
    harness.admit("cancel_batch")


def test_health_and_metrics_are_not_counted(harness):
    for name in ("health", "ready", "metrics"):
        for _ in range(10):
            harness.admit(name, address="127.0.0.1")
    harness.admit(address="127.0.0.1")


def test_orders_of_a_batch_are_charged_all_or_none(harness):
    call = harness.call("create_batch")
    charge(harness, call, 3)
    rejected("RATE_LIMITED", charge, harness, call, 2)
    charge(harness, call, 0)
    charge(harness, call, 1)
    rejected("RATE_LIMITED", charge, harness, call)


def test_request_is_accepted_after_the_stated_wait(harness):
    harness.admit()
    harness.advance_ms(10_500)
    harness.admit()
    error = rejected("RATE_LIMITED", harness.admit)
    headers = dict(error.headers)
    assert headers[b"retry-after"] == b"50"
    assert headers[b"x-ratelimit-reset"] == b"%d" % ((NOW_MS + MINUTE_MS) // 1000)
    harness.advance_ms(49_499)
    rejected("RATE_LIMITED", harness.admit)
    harness.advance_ms(1)
    harness.admit()


def test_changed_budgets_apply_at_once(harness):
    for _ in range(2):
        harness.admit()
    rejected("RATE_LIMITED", harness.admit)
    harness.exchange.apply(SetBudgets(budgets=Budgets(anonymous_per_minute=3), now_ms=NOW_MS))
    harness.admit()
    rejected("RATE_LIMITED", harness.admit)


def test_wall_clock_jumps_do_not_change_windows(harness):
    for _ in range(2):
        harness.admit()
    for jump_ms in (-10 * MINUTE_MS, 10 * MINUTE_MS):
        harness.now_ms = NOW_MS + jump_ms
        rejected("RATE_LIMITED", harness.admit)
    harness.now_ms = NOW_MS - 10 * MINUTE_MS
    harness.tick_ms += MINUTE_MS
    harness.admit()


def test_nothing_is_counted_or_logged_with_rate_limits_off(tmp_path):
    harness = GuardHarness(tmp_path, rate_limits=False)
    harness.exchange.apply(SetBudgets(budgets=TINY, now_ms=NOW_MS))
    for name in ("get_orderbook", "cancel_order", "create_order"):
        for _ in range(10):
            charge(harness, harness.admit(name), 20)
    assert harness.limiter.take_charges(NOW_MS) == ()


# ----- charges in the log ----------------------------------------------------------------------


def restarted(harness, down_ms=0):
    """Return a new guard with the same folder and state, and a restarted monotonic clock."""
    exchange = ServerState.restore(harness.exchange.snapshot())
    return GuardHarness(harness.folder, exchange, now_ms=harness.now_ms + down_ms, tick_ms=17)


def log_charges(harness):
    for command in harness.limiter.take_charges(harness.now_ms):
        harness.exchange.apply(command)


def test_logged_charges_hold_hashed_payers_and_no_address(harness):
    whole, _ = harness.add_key()
    calls = harness.call(), harness.call(), harness.admit(key=whole)
    for call in calls:
        charge(harness, call, 2)
    [command] = harness.limiter.take_charges(NOW_MS)
    assert type(command) is OrderCharge
    assert sorted(count for _, count in command.charges) == [2, 4]
    assert all(len(payer) == 8 for payer, _ in command.charges)
    assert b"192.0.2.1" not in b"".join(payer for payer, _ in command.charges)
    assert harness.limiter.take_charges(NOW_MS) == ()


def test_order_budgets_survive_a_restart(harness):
    whole, _ = harness.add_key()
    charge(harness, harness.call(), 3)
    charge(harness, harness.admit(key=whole), 4)
    log_charges(harness)
    harness.advance_ms(20_000)
    charge(harness, harness.call(), 1)
    log_charges(harness)
    harness_after = restarted(harness, down_ms=30_000)
    rejected("RATE_LIMITED", charge, harness_after, harness_after.call())
    rejected("RATE_LIMITED", charge, harness_after, harness_after.admit(key=whole))
    charge(harness_after, harness_after.call(address="192.0.2.2"), 4)
    harness_after.advance_ms(9_999)
    rejected("RATE_LIMITED", charge, harness_after, harness_after.call())
    harness_after.advance_ms(1)
    charge(harness_after, harness_after.call(), 3)
    rejected("RATE_LIMITED", charge, harness_after, harness_after.call())


def test_charges_expire_within_a_minute_if_the_clock_is_behind_the_log(harness):
    charge(harness, harness.call(), 4)
    log_charges(harness)
    harness_after = restarted(harness, down_ms=-10 * MINUTE_MS)
    rejected("RATE_LIMITED", charge, harness_after, harness_after.call())
    harness_after.advance_ms(MINUTE_MS)
    charge(harness_after, harness_after.call(), 4)


def test_request_budgets_are_reset_by_a_restart(harness):
    for _ in range(2):
        harness.admit()
    restarted(harness).admit()


def test_charges_older_than_a_minute_are_not_logged(harness):
    charge(harness, harness.call(), 2)
    harness.advance_ms(MINUTE_MS)
    assert harness.limiter.take_charges(NOW_MS) == ()
    for number in range(1_000):
        charge(harness, harness.call(address=f"192.0.2.{number}"))
        harness.advance_ms(1_000)
    assert len(harness.limiter._uncharged) == 60
    [command] = harness.limiter.take_charges(NOW_MS)
    assert len(command.charges) == 59


# ----- keys ------------------------------------------------------------------------------------


def test_key_is_identified_and_its_last_use_recorded(harness):
    whole, key = harness.add_key()
    assert harness.guard.last_used_ms == {}
    assert harness.admit(key=whole).key is harness.exchange.registry.keys[key.id]
    assert harness.guard.last_used_ms == {key.id: NOW_MS}
    assert harness.admit().key is None


def test_deactivated_key_is_rejected_from_the_next_request_on(harness):
    whole, key = harness.add_key()
    held = harness.admit(key=whole).key
    assert harness.guard.is_active(held)
    harness.exchange.apply(DeactivateKey(key_id=key.id, now_ms=NOW_MS))
    assert not harness.guard.is_active(held)
    rejected("INVALID_API_KEY", harness.admit, key=whole)
    rejected("INVALID_API_KEY", harness.guard.key_of, whole.encode())


def test_key_of_the_other_environment_is_rejected(harness):
    whole, _ = harness.add_key(environment="production")
    assert "production" in str(rejected("INVALID_API_KEY", harness.admit, key=whole))


def test_rejection_of_a_key_does_not_contain_its_secret(harness):
    whole, key = harness.add_key()
    harness.exchange.apply(DeactivateKey(key_id=key.id, now_ms=NOW_MS))
    for sent in (whole, whole[:-1] + "!"):
        error = rejected("INVALID_API_KEY", harness.admit, key=sent, address=sent[-9:])
        assert whole[17:40] not in str(error)


def test_acting_for_a_maker_in_production_needs_a_bound_key(production):
    may = production.guard.may_act_for
    whole, _ = production.add_key()
    weak, _ = production.add_key(scopes=("read",))
    for name, scope in (("create_gasless_order", "trade"), ("cancel_order", "cancel")):
        may(production.admit(name, key=whole), MAKER)
        rejected("MAKER_NOT_ALLOWED", may, production.admit(name, key=whole), OTHER)
        rejected("API_KEY_REQUIRED", may, production.call(name), MAKER)
        call = production.call(name)
        call.key = production.admit(key=weak).key
        assert scope in str(rejected("SCOPE_MISSING", may, call, MAKER))


def test_acting_for_a_maker_in_test_needs_no_key(harness):
    for name in ("create_gasless_order", "cancel_order", "create_batch", "gasless_split"):
        harness.guard.may_act_for(harness.call(name), MAKER)


def test_user_channel_in_production_needs_a_bound_key(production, harness):
    _, key = production.add_key(scopes=("read",))
    _, trader = production.add_key(scopes=("trade",))
    may = production.guard.may_follow
    may(key, "user", MAKER)
    may(None, "orderbook", MAKER)
    rejected("MAKER_NOT_ALLOWED", may, key, "user", OTHER)
    rejected("SCOPE_MISSING", may, trader, "user", MAKER)
    rejected("API_KEY_REQUIRED", may, None, "user", MAKER)
    harness.guard.may_follow(None, "user", MAKER)


# ----- metrics and rules -----------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_metrics_need_no_token_on_the_same_machine(production, address):
    production.admit("metrics", address=address)


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "", "0.0.0.0", "localhost"])
def test_metrics_need_a_token_from_anywhere_else(production, address):
    rejected("TOKEN_REQUIRED", production.admit, "metrics", address=address)


@pytest.mark.parametrize(
    "header",
    [
        "x-forwarded-for",
        "X-Forwarded-Host",
        "X-Forwarded",
        "forwarded",
        "via",
        "X-Real-IP",
        "cf-connecting-ip",
        "CF-Ray",
        "CDN-Loop",
        "Fly-Client-IP",
        "Fly-Region",
        "Fastly-Client-IP",
        "True-Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Original-Forwarded-For",
        "X-Envoy-External-Address",
        "X-Azure-ClientIP",
        "X-Appengine-User-IP",
        "X-Amzn-Trace-Id",
        "CloudFront-Viewer-Address",
        "DO-Connecting-IP",
        "X-ARR-ClientIP",
        "X-Vercel-Id",
        "X-NF-Client-Connection-IP",
        "WL-Proxy-Client-IP",
        "Tailscale-User-Login",
        "X-Varnish",
    ],
)
def test_metrics_need_a_token_through_a_proxy_on_the_same_machine(production, header):
    headers = {header.lower(): "192.0.2.1"}  # as the transport passes them
    rejected("TOKEN_REQUIRED", production.admit, "metrics", address="127.0.0.1", headers=headers)


def test_metrics_need_a_token_under_a_name_that_was_rebound_to_this_machine(production):
    headers = {"host": "evil.example:8000"}
    rejected("TOKEN_REQUIRED", production.admit, "metrics", address="127.0.0.1", headers=headers)
    production.admit("health", address="127.0.0.1", headers=headers)


def test_route_without_a_rule_raises_key_error(harness):
    with pytest.raises(KeyError):
        harness.admit("forgotten")


def test_rules_that_need_a_key_or_token_name_a_scope():
    needs_scope = {need for need in Needs if "{}" in need.value}
    for row in ROUTE_RULES.values():
        for rule in (row.test, row.production):
            assert bool(rule.scope) == (rule.needs in needs_scope)
