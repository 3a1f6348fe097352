"""Every method of an unmodified py-clob-client: it works, or is answered 404 in words."""

import inspect

import pytest

from tests.server.dialects.polymarket import Market, client_of, error_of
from tests.signings import KEYS

types = pytest.importorskip(
    "py_clob_client.clob_types", reason="py-clob-client is not installed"
)  # fmt: skip

LOCAL = {
    "assert_builder_auth",
    "assert_level_1_auth",
    "assert_level_2_auth",
    "can_builder_auth",
    "clear_tick_size_cache",
    "get_address",
    "get_collateral_address",
    "get_conditional_address",
    "get_exchange_address",
    "get_order_book_hash",
    "set_api_creds",
}
"""Methods without a request."""
ABSENT = {
    "create_readonly_api_key": (),
    "delete_readonly_api_key": ("key",),
    "get_market_trades_events": ("0x12",),
    "get_readonly_api_keys": (),
    "validate_readonly_api_key": ("0x12", "key"),
}
"""Methods whose routes the dialect lacks, with arguments."""
BUILDERS = {"get_builder_trades"}
"""Methods that reject clients without the keys of a builder, before any request."""


@pytest.fixture(scope="module")
def client(live):
    return client_of(live)


@pytest.fixture(scope="module")
def served(live, client):
    """The arguments of each method that works."""
    market = Market(live)
    market.place(0, 40, 100)
    market.place(1, 60, 100)
    token, condition = market.yes, client.get_order_book(market.yes).market
    book = [types.BookParams(token, "BUY")]
    order = types.OrderArgs(token, 0.3, 5, "BUY")
    signed = client.create_order(order)
    order_id = client.post_order(signed)["orderID"]
    return {
        "are_orders_scoring": (types.OrdersScoringParams([order_id]),),
        "calculate_market_price": (token, "BUY", 2, types.OrderType.FOK),
        "cancel": (order_id,),
        "cancel_all": (),
        "cancel_market_orders": (condition, token),
        "cancel_orders": ([order_id],),
        "create_and_post_order": (order,),
        "create_api_key": (),
        "create_market_order": (types.MarketOrderArgs(token, 2, "BUY"),),
        "create_or_derive_api_creds": (),
        "create_order": (order,),
        "derive_api_key": (),
        "drop_notifications": (types.DropNotificationParams(["1"]),),
        "get_api_keys": (),
        "get_balance_allowance": (types.BalanceAllowanceParams(types.AssetType.COLLATERAL),),
        "get_closed_only_mode": (),
        "get_fee_rate_bps": (token,),
        "get_last_trade_price": (token,),
        "get_last_trades_prices": (book,),
        "get_market": (condition,),
        "get_markets": (),
        "get_midpoint": (token,),
        "get_midpoints": (book,),
        "get_neg_risk": (token,),
        "get_notifications": (),
        "get_ok": (),
        "get_order": (order_id,),
        "get_order_book": (token,),
        "get_order_books": (book,),
        "get_orders": (types.OpenOrderParams(market=condition),),
        "get_price": (token, "BUY"),
        "get_prices": (book,),
        "get_sampling_markets": (),
        "get_sampling_simplified_markets": (),
        "get_server_time": (),
        "get_simplified_markets": (),
        "get_spread": (token,),
        "get_spreads": (book,),
        "get_tick_size": (token,),
        "get_trades": (types.TradeParams(market=condition),),
        "is_order_scoring": (types.OrderScoringParams(order_id),),
        "post_heartbeat": (None,),
        "post_order": (client.create_order(order),),
        "post_orders": ([types.PostOrdersArgs(client.create_order(order))],),
        "update_balance_allowance": (types.BalanceAllowanceParams(types.AssetType.COLLATERAL),),
    }


def public_methods(kind):
    return {
        name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    }


def test_every_method_works_or_is_absent(client, served):
    expected = {*served, *ABSENT, *LOCAL, *BUILDERS, "delete_api_key"}
    assert public_methods(type(client)) == expected
    for name, arguments in served.items():
        assert getattr(client, name)(*arguments) is not None


def test_credentials_are_deleted(live):
    assert client_of(live, KEYS[3]).delete_api_key() == "OK"


@pytest.mark.parametrize("name", ABSENT)
def test_method_whose_route_is_absent_says_so(client, name):
    status, text = error_of(getattr(client, name), *ABSENT[name])
    assert status == 404
    assert "is not served: the polymarket dialect has no rfq, rewards, builder" in text


def test_requests_for_quotes_are_absent(client):
    status, text = error_of(client.rfq.rfq_config)
    assert status == 404
    assert text.startswith("/rfq/config is not served: ")
