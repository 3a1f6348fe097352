"""Who may do what: one table, from which the guard works and the documentation is drawn.

A route without a row is not let in at all. What a rule asks about the maker of a request is asked
by the route itself, through the guard, once it has read who that is.
"""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from clob_server.settings import TEST

READ: Final = "read"
"""The scope of a key that may look at orders."""
TRADE: Final = "trade"
"""The scope of a key that may place orders."""
CANCEL: Final = "cancel"
"""The scope of a key that may cancel them."""
SCOPES: Final = (READ, TRADE, CANCEL)
"""Every scope that a key may have."""
ADMIN: Final = "admin"
"""The scope of a token that may do what an operator does."""


class Needs(enum.Enum):
    """What a request has to come with."""

    NOTHING = "nothing"
    """Anybody may."""
    SIGNATURE = "the maker's signature"
    """Whoever has it, it is in the body."""
    NAME = "the maker's name"
    """Whoever names the maker, whose order it must be."""
    KEY = "a key, scope `{}`"
    """An API key."""
    KEY_OF_MAKER = "a key, scope `{}`, bound to the maker"
    """An API key for this maker."""
    SIGNATURE_OR_KEY = "the maker's signature, or a key, scope `{}`, bound to the maker"
    """Either of them; each order of a batch by itself."""
    TOKEN = "a token, scope `{}`"
    """An operator's token."""
    TOKEN_FROM_AFAR = "a token, scope `{}`; nothing from loopback"
    """An operator's token, but for who is on the same machine."""
    ABSENCE = "not there"
    """Nobody may."""


class Rule(NamedTuple):
    """What is asked of who wants something."""

    needs: Needs
    """What the request has to come with."""
    scope: str = ""
    """The scope of that."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return self.needs.value.format(self.scope)


class Budget(enum.Enum):
    """What a request is counted against."""

    REQUESTS = "requests"
    """The requests of its key or address."""
    CANCELS = "cancels"
    """The cancels of its key or address, and nothing else."""
    NONE = "none"
    """Nothing; of a token that is refused, the requests of the address."""


class RouteRule(NamedTuple):
    """The rules of a route."""

    test: Rule
    """In the test environment."""
    production: Rule
    """In production."""
    budget: Budget = Budget.REQUESTS
    """The budget that a request counts against."""
    creates_order: bool = False
    """Whether a request also counts as one created order."""

    def rule(self, environment: str) -> Rule:
        """Give the rule of an environment."""
        return self.test if environment == TEST else self.production


OPEN: Final = Rule(Needs.NOTHING)
"""The rule of what anybody may."""
SIGNED: Final = Rule(Needs.SIGNATURE)
"""The rule of what somebody signed."""

_ANYBODY: Final = RouteRule(OPEN, OPEN)
_WATCHED: Final = RouteRule(OPEN, OPEN, Budget.NONE)
_SIGNED: Final = RouteRule(SIGNED, SIGNED)
_NEW_ORDER: Final = RouteRule(SIGNED, SIGNED, creates_order=True)
_READ: Final = RouteRule(OPEN, Rule(Needs.KEY, READ))
_GASLESS: Final = RouteRule(OPEN, Rule(Needs.KEY_OF_MAKER, TRADE))
_CANCEL: Final = RouteRule(Rule(Needs.NAME), Rule(Needs.SIGNATURE_OR_KEY, CANCEL), Budget.CANCELS)
_OPERATOR: Final = RouteRule(Rule(Needs.TOKEN, ADMIN), Rule(Needs.TOKEN, ADMIN), Budget.NONE)
_METRICS: Final = Rule(Needs.TOKEN_FROM_AFAR, ADMIN)

NO_ROUTE: Final = "refused"
"""The name of what is asked where there is no route, or none for the method."""

AUTHORITY: Final[Mapping[str, RouteRule]] = {
    "create_order": _NEW_ORDER,
    "create_gasless_order": _GASLESS._replace(creates_order=True),
    "create_batch": RouteRule(OPEN, Rule(Needs.SIGNATURE_OR_KEY, TRADE)),
    "validate_order": _ANYBODY._replace(creates_order=True),
    "simulate_order": _ANYBODY,
    "get_order": _READ,
    "list_orders": _READ,
    "cancel_order": _CANCEL,
    "cancel_batch": _CANCEL,
    "set_nonce": _SIGNED,
    "set_delegate": _SIGNED,
    "get_orderbook": _ANYBODY,
    "get_trades": _ANYBODY,
    "list_markets": _ANYBODY,
    "get_market": _ANYBODY,
    "gasless_split": _GASLESS,
    "gasless_merge": _GASLESS,
    "gasless_redeem": _GASLESS,
    "gasless_operation": _READ,
    "gasless_faucet": RouteRule(OPEN, Rule(Needs.ABSENCE)),
    "root": _ANYBODY,
    "health": _WATCHED,
    "ready": _WATCHED,
    "metrics": RouteRule(_METRICS, _METRICS, Budget.NONE),
    "openapi": _ANYBODY,
    "asyncapi": _ANYBODY,
    "docs": _ANYBODY,
    "admin_page": _ANYBODY,
    "web_file": _ANYBODY,
    "admin_list_keys": _OPERATOR,
    "admin_create_key": _OPERATOR,
    "admin_deactivate_key": _OPERATOR,
    "admin_delete_key": _OPERATOR,
    "admin_list_markets": _OPERATOR,
    "admin_create_market": _OPERATOR,
    "admin_change_market": _OPERATOR,
    "admin_open_market": _OPERATOR,
    "admin_halt_market": _OPERATOR,
    "admin_cancel_only_market": _OPERATOR,
    "admin_resolve_market": _OPERATOR,
    "admin_chain": _OPERATOR,
    "admin_settlement": _OPERATOR,
    "admin_list_operations": _OPERATOR,
    "admin_retry_operation": _OPERATOR,
    "admin_get_limits": _OPERATOR,
    "admin_set_limits": _OPERATOR,
    "admin_engine": _OPERATOR,
    "admin_cancel_order": _OPERATOR,
    NO_ROUTE: _ANYBODY,
}
"""The rules of every route, by its name."""

CHANNELS: Final[Mapping[str, RouteRule]] = {
    "orderbook": _ANYBODY,
    "user": RouteRule(Rule(Needs.NAME), Rule(Needs.KEY_OF_MAKER, READ)),
    "settlement": _ANYBODY,
}
"""The rules of every channel of the WebSocket; a key comes with the handshake."""
