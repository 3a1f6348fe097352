"""Authenticates, authorises and rate-limits every request, by the table of :mod:`auth.policy`.

The key is identified first, so that its budget is charged; then the rule of the route is checked.
A request with an invalid key or token is charged to its address.
"""

import ipaddress
import logging
from collections.abc import Callable, Mapping
from typing import Final

from clob_server.api.problems import ApiError, Headers
from clob_server.api.request import ApiRequest
from clob_server.auth.api_keys import HEADER, find_key
from clob_server.auth.policy import (
    CHANNEL_RULES,
    POLYMARKET_RULES,
    ROUTE_RULES,
    Budget,
    Needs,
    Rule,
)
from clob_server.auth.rate_limit import RateLimiter
from clob_server.auth.sites import Sites
from clob_server.auth.tokens import CHALLENGE, TokenVerifier
from clob_server.core.commands import ApiKey
from clob_server.core.registry import Registry

BEARER: Final = b"bearer"
"""The authentication scheme of tokens, in lower case."""
KEY_CHALLENGE: Final[Headers] = ((b"www-authenticate", b'ApiKey header="X-API-Key"'),)
"""The challenge of a rejection that asks for a key."""

KEY_NAME: Final = "X-API-Key"
"""The header of a key, as errors name it."""
KEY_FIELD: Final = "apiKey"
"""The field of a key in messages of a WebSocket, as errors name it."""

SUB_MAX: Final = 100
"""The longest part of an operator's name that is logged."""

FORWARDED: Final = frozenset(
    {
        b"forwarded", b"forwarded-for", b"via", b"client-ip", b"true-client-ip", b"x-client-ip",
        b"cluster-client-ip", b"x-cluster-client-ip", b"proxy-client-ip", b"wl-proxy-client-ip",
        b"x-remote-addr", b"x-remote-ip", b"x-originating-ip", b"x-proxyuser-ip", b"x-varnish",
        b"cdn-loop", b"x-amzn-trace-id", b"x-cloud-trace-context", b"do-connecting-ip",
        b"incap-client-ip", b"x-sucuri-clientip", b"ali-cdn-real-ip", b"cdn-src-ip",
    }
)  # fmt: skip
"""Headers of requests that a proxy forwards: HTTP itself, proxies in general, and CDNs."""
FORWARDED_PREFIXES: Final = (
    b"x-forwarded", b"x-real-", b"x-original-", b"x-envoy-", b"x-arr-", b"x-amz-cf-",
    b"cloudfront-", b"cf-", b"fastly-", b"fly-", b"x-akamai-", b"x-azure-", b"x-appengine-",
    b"x-vercel-", b"x-nf-", b"x-cdn-", b"tailscale-",
)  # fmt: skip
"""Beginnings of the names of further such headers; each one belongs to a proxy or a CDN."""

_LOG: Final = logging.getLogger("clob_server.operators")
_CHECKED_ON_ENTRY: Final = {Needs.KEY, Needs.KEY_OF_MAKER}
_CHECKED_BY_THE_ROUTE: Final = {
    Needs.KEY_OF_MAKER,
    Needs.SIGNATURE_OR_KEY,
    Needs.SIGNATURE_OR_KEY_FOR_ACCOUNT,
}


class Guard:
    """Admits or rejects requests."""

    def __init__(
        self,
        registry: Registry,
        environment: str,
        limiter: RateLimiter,
        tokens: TokenVerifier,
        clock_ms: Callable[[], int],
        sites: Sites | None = None,
    ) -> None:
        self.last_used_ms: Final[dict[str, int]] = {}
        """When each key was last used since the start, Unix milliseconds."""
        self.limiter: Final = limiter
        self._registry = registry
        self._environment = environment
        self._tokens = tokens
        self._clock_ms = clock_ms
        self._sites = sites or Sites()
        self.check_site: Final = self._sites.check
        """Checks ``Host`` and ``Origin`` of a request or a handshake; see :meth:`Sites.check`."""
        self._rules = {
            name: (
                self._check_of(row.rule(environment)), row.budget, row.creates_order, row.any_host,
                row.own_pages,
            )
            for name, row in (*ROUTE_RULES.items(), *POLYMARKET_RULES.items())
        }  # fmt: skip

    # ----- on entry ----------------------------------------------------------------------------

    def admit(self, call: ApiRequest) -> None:
        """Admit a request and store its key in ``call.key``, or reject it.

        Raises:
            ApiError: HOST_NOT_ALLOWED, ORIGIN_NOT_ALLOWED, RATE_LIMITED, INVALID_API_KEY,
                INVALID_TOKEN, API_KEY_REQUIRED, TOKEN_REQUIRED, SCOPE_MISSING,
                NOT_ON_THIS_ENVIRONMENT.
        """
        check, budget, creates_order, any_host, own_pages = self._rules[call.route]
        self.check_site(call.headers, any_host=any_host, own_pages=own_pages)
        sent = call.headers.get(HEADER)
        if sent is not None:
            try:
                call.key = self.key_of(sent)
            except ApiError:
                call.usage = self.limiter.charge(None, call.address, Budget.REQUESTS)
                raise
        if check is None:
            call.usage = self.limiter.charge(
                call.key, call.address, budget, creates_order=creates_order
            )
            return
        call.usage = self.limiter.charge(call.key, call.address, budget)
        check(call)
        if creates_order:
            self.limiter.charge_orders(call.key, call.address, usage=call.usage)

    def key_of_handshake(self, headers: Mapping[bytes, bytes], address: str) -> ApiKey | None:
        """Return the active key of a handshake; None without one.

        Raises:
            ApiError: RATE_LIMITED, INVALID_API_KEY, as :meth:`key_of_message`.
        """
        sent = headers.get(HEADER)
        return None if sent is None else self.key_of_message(sent, address, KEY_NAME)

    def key_of_message(self, sent: bytes, address: str, name: str = KEY_FIELD) -> ApiKey:
        """Return the active key of a message; an invalid one counts as a request of the address.

        Raises:
            ApiError: RATE_LIMITED, the address has no requests left; INVALID_API_KEY, as
                :meth:`key_of`.
        """
        try:
            return self.key_of(sent, name)
        except ApiError:
            self.limiter.charge(None, address, Budget.REQUESTS)
            raise

    def key_of(self, sent: bytes, name: str = KEY_NAME) -> ApiKey:
        """Return the active key that was sent in a header or field.

        Raises:
            ApiError: INVALID_API_KEY, the key is unknown, deactivated, or of the other environment.
        """
        key = find_key(sent, self._registry.keys)
        if key is None:
            raise bad_key(f"{name} is not a key of this server")
        if key.environment != self._environment:
            raise bad_key(f"key {key.id} is for {key.environment}, not for {self._environment}")
        if key.deactivated_ms is not None:
            raise bad_key(f"key {key.id} was deactivated at {key.deactivated_ms} ms")
        self.last_used_ms[key.id] = self._clock_ms()
        return key

    def is_active(self, key: ApiKey) -> bool:
        """Return whether an admitted key has not been deactivated since."""
        return self._registry.keys[key.id].deactivated_ms is None

    def charge_request(self, key: ApiKey | None, address: str) -> None:
        """Count a request, such as a message of a WebSocket, against a key or an address.

        Raises:
            ApiError: RATE_LIMITED.
        """
        self.limiter.charge(key, address, Budget.REQUESTS)

    def _check_of(self, rule: Rule) -> Callable[[ApiRequest], None] | None:
        """Return the function that checks a rule on entry; None if there is nothing to check."""
        needs = rule.needs
        if needs in _CHECKED_ON_ENTRY:
            return lambda call: check_scope(call.key, rule.scope)
        if needs is Needs.TOKEN:
            return lambda call: self._check_token(call, rule.scope)
        if needs is Needs.TOKEN_UNLESS_LOCAL:
            return lambda call: (
                None if self._is_local(call) else self._check_token(call, rule.scope)
            )
        return reject_absent if needs is Needs.UNAVAILABLE else None

    def _is_local(self, call: ApiRequest) -> bool:
        """Return whether a program on this machine sent a request, and no web page or proxy."""
        return is_local(call) and self._sites.allows_host(call.headers.get(b"host"))

    def _check_token(self, call: ApiRequest, scope: str) -> None:
        """Reject a request without a valid token of a scope."""
        try:
            scheme, _, token = call.headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != BEARER:
                raise ApiError(
                    "TOKEN_REQUIRED",
                    "Authorization must be Bearer and a token",
                    headers=CHALLENGE,
                )
            claims = self._tokens.read(token.strip())
            if scope not in claims.scopes:
                raise ApiError("SCOPE_MISSING", f"the token must have the scope {scope}")
            call.operator = claims.sub
        except ApiError:
            self.limiter.charge(None, call.address, Budget.REQUESTS)
            raise
        if call.scope["method"] != "GET":
            _LOG.info(
                "operator",
                extra={
                    "request_id": call.request_id,
                    "sub": claims.sub[:SUB_MAX],
                    "route": call.route,
                },
            )

    # ----- for a maker -------------------------------------------------------------------------

    def may_act_for(self, call: ApiRequest, maker: str, route: str = "") -> None:
        """Check that a request without the maker's signature may act for it.

        Args:
            call: the request.
            maker: the maker.
            route: the route whose rule applies; empty for that of the request.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        """
        check_maker(ROUTE_RULES[route or call.route].rule(self._environment), call.key, maker)

    def may_follow(self, key: ApiKey | None, channel: str, maker: str) -> None:
        """Check that a WebSocket may subscribe to a channel of a maker.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        """
        check_maker(CHANNEL_RULES[channel].rule(self._environment), key, maker, KEY_FIELD)

    def may_arm(self, key: ApiKey | None, address: str, maker: str) -> None:
        """Count a cancel, and check that a WebSocket may have the orders of a maker cancelled.

        Raises:
            ApiError: RATE_LIMITED, API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        """
        self.limiter.charge(key, address, Budget.CANCELS)
        check_maker(ROUTE_RULES["heartbeat"].rule(self._environment), key, maker, KEY_FIELD)


def is_local(call: ApiRequest) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    if any(name in FORWARDED or name.startswith(FORWARDED_PREFIXES) for name in call.headers):
        return False
    try:
        return ipaddress.ip_address(call.address).is_loopback
    except ValueError:
        return False


def reject_absent(call: ApiRequest) -> None:
    """Reject a route that this environment does not have."""
    raise ApiError(
        "NOT_ON_THIS_ENVIRONMENT", f"{call.scope['path']:.99} is not on this environment"
    )


def check_scope(key: ApiKey | None, scope: str, name: str = KEY_NAME) -> None:
    """Reject a missing key, which is sent as ``name``, or one without a scope."""
    if key is None:
        raise ApiError(
            "API_KEY_REQUIRED",
            f"{name} must be a key with the scope {scope}",
            headers=KEY_CHALLENGE,
        )
    if scope not in key.scopes:
        raise ApiError(
            "SCOPE_MISSING", f"key {key.id} must have the scope {scope}; it has {list(key.scopes)}"
        )


def check_maker(rule: Rule, key: ApiKey | None, maker: str, name: str = KEY_NAME) -> None:
    """Reject a key that is not bound to a maker, where the rule asks for one."""
    if rule.needs not in _CHECKED_BY_THE_ROUTE:
        return
    check_scope(key, rule.scope, name)
    if key is not None and maker not in key.makers:
        raise ApiError("MAKER_NOT_ALLOWED", f"key {key.id} is not bound to maker {maker}")


def is_bound(key: ApiKey | None, scope: str, maker: str) -> bool:
    """Return whether a key has a scope and is bound to a maker."""
    return key is not None and scope in key.scopes and maker in key.makers


def bad_key(reason: str) -> ApiError:
    """Return the rejection of a key."""
    return ApiError("INVALID_API_KEY", reason, headers=KEY_CHALLENGE)
