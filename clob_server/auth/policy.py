"""Access rules of every route and channel; the guard and the documentation use the same table.

A route without a row accepts no request. Rules about the maker are checked by the route, through
the guard, once it has read the maker from the request.
"""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from clob_server.settings import TEST

READ: Final = "read"
"""Scope of a key that may view orders."""
TRADE: Final = "trade"
"""Scope of a key that may place orders."""
CANCEL: Final = "cancel"
"""Scope of a key that may cancel orders."""
SCOPES: Final = (READ, TRADE, CANCEL)
"""All scopes of keys."""
ADMIN: Final = "admin"
"""Scope of an operator's token."""
METRICS: Final = "metrics"
"""Scope of a token that may read the metrics."""
TOKEN_SCOPES: Final = (ADMIN, METRICS)
"""All scopes of tokens."""


class Needs(enum.Enum):
    """Credentials that a rule requires; the value is its text in the documentation."""

    NOTHING = "nothing"
    """No credentials."""
    SIGNATURE = "the maker's signature"
    """The maker's signature in the body; any client may deliver it."""
    MAKER_ADDRESS = "the maker's address"
    """The address of the order's maker in the request."""
    KEY = "a key, scope `{}`"
    """An API key."""
    KEY_OF_MAKER = "a key, scope `{}`, bound to the maker"
    """An API key that is bound to the maker."""
    SIGNATURE_OR_KEY = "the maker's signature, or a key, scope `{}`, bound to the maker"
    """Either one; in a batch, checked for each order."""
    SIGNATURE_OR_KEY_FOR_ACCOUNT = (
        "nothing; to check the maker's account its signature, or a key, scope `{}`, bound to it"
    )
    """Without either the request reads public data only."""
    TOKEN = "a token, scope `{}`"
    """An operator's token."""
    TOKEN_UNLESS_LOCAL = "a token, scope `{}`; nothing from loopback"
    """A token, except for requests from the same machine that no proxy forwarded."""
    WALLET_HEADERS = "the wallet's signature in the headers"
    """Headers of the polymarket dialect that the wallet signed."""
    CREDENTIALS = "the wallet's credentials in the headers"
    """Headers of the polymarket dialect, signed with the secret of the wallet's credentials."""
    UNAVAILABLE = "not available"
    """The route does not exist in this environment."""


class Rule(NamedTuple):
    """An access rule."""

    needs: Needs
    scope: str = ""
    """The required scope of the key or token; empty for rules without one."""

    @property
    def text(self) -> str:
        """The rule as text, for the documentation."""
        return self.needs.value.format(self.scope)


class Budget(enum.Enum):
    """The rate limit that a request is charged to."""

    REQUESTS = "requests"
    """Requests of the key or address."""
    CANCELS = "cancels"
    """Cancels of the key or address."""
    NONE = "none"
    """Not charged; a rejected token is charged to the requests of the address."""


class RouteRule(NamedTuple):
    """Access rules and rate limit of a route or channel."""

    test: Rule
    """Rule of the test environment."""
    production: Rule
    """Rule of the production environment."""
    budget: Budget = Budget.REQUESTS
    creates_order: bool = False
    """Whether a request also counts as one created order."""
    any_host: bool = False
    """Whether every ``Host`` is accepted, for probes, which use addresses and container names."""
    own_pages: bool = False
    """Whether pages of other sites are rejected even if ``cors_origins`` lists them."""

    def rule(self, environment: str) -> Rule:
        """Return the rule of an environment."""
        return self.test if environment == TEST else self.production


OPEN: Final = Rule(Needs.NOTHING)
"""Rule without credentials."""
SIGNED: Final = Rule(Needs.SIGNATURE)
"""Rule of signed requests."""

_OPEN: Final = RouteRule(OPEN, OPEN)
_PROBE: Final = RouteRule(OPEN, OPEN, Budget.NONE, any_host=True)
_PAGE: Final = RouteRule(OPEN, OPEN, Budget.NONE)
"""Pages and their files: one visit takes some twenty requests, each answered from memory."""
_SIGNED: Final = RouteRule(SIGNED, SIGNED)
_NEW_ORDER: Final = RouteRule(SIGNED, SIGNED, creates_order=True)
_READ: Final = RouteRule(OPEN, Rule(Needs.KEY, READ))
_GASLESS: Final = RouteRule(OPEN, Rule(Needs.KEY_OF_MAKER, TRADE))
_CANCEL: Final = RouteRule(
    Rule(Needs.MAKER_ADDRESS), Rule(Needs.SIGNATURE_OR_KEY, CANCEL), Budget.CANCELS
)
_OPERATOR: Final = RouteRule(Rule(Needs.TOKEN, ADMIN), Rule(Needs.TOKEN, ADMIN), Budget.NONE)
_DEV_WALLET: Final = RouteRule(OPEN, Rule(Needs.UNAVAILABLE), own_pages=True)
_METRICS: Final = Rule(Needs.TOKEN_UNLESS_LOCAL, METRICS)

NO_ROUTE: Final = "refused"
"""Route name of requests without a matching path or method."""

ROUTE_RULES: Final[Mapping[str, RouteRule]] = {
    "create_order": _NEW_ORDER,
    "create_gasless_order": _GASLESS._replace(creates_order=True),
    "create_batch": RouteRule(OPEN, Rule(Needs.SIGNATURE_OR_KEY, TRADE)),
    "validate_order": RouteRule(OPEN, Rule(Needs.SIGNATURE_OR_KEY, TRADE), creates_order=True),
    "simulate_order": RouteRule(OPEN, Rule(Needs.SIGNATURE_OR_KEY_FOR_ACCOUNT, TRADE)),
    "get_order": _READ,
    "list_orders": _READ,
    "list_fills": _READ,
    "get_account": _READ,
    "cancel_order": _CANCEL,
    "cancel_batch": _CANCEL,
    "cancel_orders": _CANCEL,
    "reduce_order": _CANCEL,
    "replace_order": _CANCEL._replace(budget=Budget.REQUESTS, creates_order=True),
    "heartbeat": RouteRule(
        Rule(Needs.MAKER_ADDRESS), Rule(Needs.KEY_OF_MAKER, CANCEL), Budget.CANCELS
    ),
    "set_nonce": _SIGNED,
    "set_delegate": _SIGNED,
    "get_orderbook": _OPEN,
    "get_trades": _OPEN,
    "get_candles": _OPEN,
    "get_ticker": _OPEN,
    "list_tickers": _OPEN,
    "list_markets": _OPEN,
    "get_market": _OPEN,
    "gasless_split": _GASLESS,
    "gasless_merge": _GASLESS,
    "gasless_redeem": _GASLESS,
    "gasless_deposit": _GASLESS,
    "gasless_withdraw_request": _GASLESS,
    "gasless_withdraw": _GASLESS,
    "gasless_wrap": _GASLESS,
    "gasless_unwrap": _GASLESS,
    "gasless_operation": _READ,
    "gasless_faucet": RouteRule(OPEN, Rule(Needs.UNAVAILABLE)),
    "root": _OPEN,
    "health": _PROBE,
    "ready": _PROBE,
    "get_time": _OPEN,
    "advance_clock": RouteRule(OPEN, Rule(Needs.UNAVAILABLE)),
    "list_dev_wallets": _DEV_WALLET,
    "sign_with_dev_wallet": _DEV_WALLET,
    "send_from_dev_wallet": _DEV_WALLET,
    "call_contracts": _DEV_WALLET,
    "get_receipt": _DEV_WALLET,
    "metrics": RouteRule(_METRICS, _METRICS, Budget.NONE, any_host=True),
    "openapi": _OPEN,
    "asyncapi": _OPEN,
    "docs": _PAGE,
    "trading_page": _PAGE,
    "admin_page": _PAGE,
    "web_file": _PAGE,
    "admin_list_keys": _OPERATOR,
    "admin_create_key": _OPERATOR,
    "admin_deactivate_key": _OPERATOR,
    "admin_delete_key": _OPERATOR,
    "admin_list_markets": _OPERATOR,
    "admin_create_market": _OPERATOR,
    "admin_get_market": _OPERATOR,
    "admin_change_market": _OPERATOR,
    "admin_open_market": _OPERATOR,
    "admin_halt_market": _OPERATOR,
    "admin_cancel_only_market": _OPERATOR,
    "admin_resolve_market": _OPERATOR,
    "admin_remove_market": _OPERATOR,
    "admin_chain": _OPERATOR,
    "admin_settlement": _OPERATOR,
    "admin_list_operations": _OPERATOR,
    "admin_retry_operation": _OPERATOR,
    "admin_backup": _OPERATOR,
    "admin_backup_frames": _OPERATOR,
    "admin_backup_snapshot": _OPERATOR,
    "admin_get_limits": _OPERATOR,
    "admin_set_limits": _OPERATOR,
    "admin_engine": _OPERATOR,
    "admin_get_clock": _OPERATOR,
    "admin_accept_clock": _OPERATOR,
    "admin_cancel_order": _OPERATOR,
    NO_ROUTE: _OPEN,
}
"""Rules of every route, by route name."""

WALLET: Final = Rule(Needs.WALLET_HEADERS)
CREDENTIALS: Final = Rule(Needs.CREDENTIALS)

_ACCOUNT: Final = RouteRule(CREDENTIALS, CREDENTIALS)
_CANCELS: Final = RouteRule(CREDENTIALS, CREDENTIALS, Budget.CANCELS)

_ABSENT: Final = (
    *("rfq", "rewards", "builder", "builder_key"),
    *("readonly_key", "readonly_key_list", "readonly_key_check"),
    *("price_history", "live_activity"),
)
_VERBS: Final = ("get", "post", "put", "delete")
POLYMARKET_RULES: Final[Mapping[str, RouteRule]] = {
    f"polymarket_{name}": rule
    for names, rule in (
        (
            "time markets sampling_markets simplified_markets sampling_simplified_markets market "
            "tick_size neg_risk fee_rate book books price prices midpoint midpoints spread spreads "
            "last_trade_price last_trades_prices",
            _OPEN,
        ),
        ("create_api_key derive_api_key", RouteRule(WALLET, WALLET)),
        (
            "api_keys delete_api_key closed_only create_orders get_order list_orders trades "
            "balance_allowance update_balance_allowance order_scoring orders_scoring "
            "notifications drop_notifications",
            _ACCOUNT,
        ),
        ("create_order", _ACCOUNT._replace(creates_order=True)),
        ("cancel_order cancel_orders cancel_all cancel_market_orders heartbeat", _CANCELS),
        (" ".join(f"{part}_{verb}" for part in _ABSENT for verb in _VERBS), _OPEN),
    )
    for name in names.split()
}
"""Rules of the routes of the polymarket dialect, by route name."""

CHANNEL_RULES: Final[Mapping[str, RouteRule]] = {
    "orderbook": _OPEN,
    "user": RouteRule(Rule(Needs.MAKER_ADDRESS), Rule(Needs.KEY_OF_MAKER, READ)),
    "settlement": _OPEN,
    "ticker": _OPEN,
    "candles": _OPEN,
}
"""Rules of every WebSocket channel; the key is sent in the handshake or the subscription."""
