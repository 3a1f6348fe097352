"""Who may come in, and how often: keys, tokens, and budgets of requests, by the table of authority.

First it is found who asks, so that it is known whose budget pays; then it is asked whether he may.
A key or a token that is sent and bad is paid for by the address.
"""

import ipaddress
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from clob_server.api.problems import ApiError, Headers
from clob_server.auth.api_keys import HEADER, IDS, find_key, secret
from clob_server.auth.policy import AUTHORITY, CHANNELS, Budget, Needs, Rule
from clob_server.auth.rate_limit import MINUTE_MS, PAYERS_MAX, Windows, exceeded, network, payer
from clob_server.auth.tokens import CHALLENGE, TokenVerifier, tokens_of
from clob_server.core.commands import AnyCommand, ApiKey, OrderCharge
from clob_server.core.registry import Registry

if TYPE_CHECKING:
    from clob_server.api.request import ApiRequest
    from clob_server.service import Service

BEARER: Final = b"bearer"
"""The scheme of tokens, in small letters."""
KEY_CHALLENGE: Final[Headers] = ((b"www-authenticate", b'ApiKey header="X-API-Key"'),)
"""What a refusal asks for where a key is needed."""

SUB_MAX: Final = 100
"""How much of an operator's name is written to the log."""

_LOG: Final = logging.getLogger("clob_server.operators")
_AT_THE_DOOR: Final = {Needs.KEY, Needs.KEY_OF_MAKER}
_BY_THE_ROUTE: Final = {Needs.KEY_OF_MAKER, Needs.SIGNATURE_OR_KEY}


def monotonic_ms() -> int:
    """Tell a time that never goes back, milliseconds."""
    return time.monotonic_ns() // 1_000_000


class Guard:
    """Looks at every request before its route does.

    Args:
        service: whose requests.
        tick_ms: tells a time that never goes back, milliseconds.
    """

    def __init__(self, service: "Service", tick_ms: Callable[[], int] = monotonic_ms) -> None:
        settings = service.settings
        self.last_used_ms: Final[dict[str, int]] = {}
        """When each key was last used since the start, Unix milliseconds."""
        self._service = service
        self._environment = settings.environment
        self._is_limited = settings.rate_limits
        self._tick_ms = tick_ms
        self._registry = Registry()
        self._requests, self._cancels, self._orders = Windows(), Windows(), Windows()
        self._uncharged: deque[tuple[int, bytes, int]] = deque()
        self._rows = {
            name: (self._check_of(row.rule(self._environment)), row.budget)
            for name, row in AUTHORITY.items()
        }
        self._payer: Callable[[str], bytes]
        self._tokens: TokenVerifier

    def recover(self) -> None:
        """Take up what the log knows: keys, budgets, and the orders created within the last minute.

        Raises:
            SettingsError: the public key of tokens cannot be used.
            OSError, ValueError: a secret cannot.
        """
        service = self._service
        self._registry = registry = service.exchange.registry
        self._tokens = tokens_of(service.settings, service.folder, service.clock_ms)
        named = secret(service.folder, IDS)
        self._payer = lru_cache(PAYERS_MAX)(lambda name: payer(named, network(name)))
        tick_ms, now_ms = self._tick_ms(), service.clock_ms()
        for charged in registry.charges:
            age_ms = max(0, now_ms - charged.now_ms)
            if age_ms < MINUTE_MS:
                self._orders.put(charged.payer, tick_ms - age_ms, charged.count)

    # ----- at the door -------------------------------------------------------------------------

    def admit(self, call: "ApiRequest") -> None:
        """Let a request in, with its key in ``call.key``, or refuse it.

        Raises:
            ApiError: RATE_LIMITED, INVALID_API_KEY, INVALID_TOKEN, API_KEY_REQUIRED,
                TOKEN_REQUIRED, SCOPE_MISSING, NOT_ON_THIS_ENVIRONMENT.
        """
        check, budget = self._rows[call.route.name]
        if HEADER in call.headers:
            try:
                call.key = self.key_of(call.headers)
            except ApiError:
                self.charge_request(None, call.address)
                raise
        if budget is Budget.REQUESTS:
            self.charge_request(call.key, call.address)
        elif budget is Budget.CANCELS:
            self._charge_cancel(call)
        if check is not None:
            check(call)

    def key_of(self, headers: Mapping[bytes, bytes]) -> ApiKey | None:
        """Find the key that a request or a handshake came with.

        Args:
            headers: by their names in small letters.

        Returns:
            The key, which is active; None where none was sent.

        Raises:
            ApiError: INVALID_API_KEY, what was sent is none, or is deactivated, or is one of the
                other environment.
        """
        sent = headers.get(HEADER)
        if sent is None:
            return None
        key = find_key(sent, self._registry.keys)
        if key is None:
            raise bad_key("X-API-Key is no key of this server")
        if key.environment != self._environment:
            raise bad_key(f"key {key.id} is for {key.environment}, not for {self._environment}")
        if key.deactivated_ms is not None:
            raise bad_key(f"key {key.id} was deactivated at {key.deactivated_ms} ms")
        self.last_used_ms[key.id] = self._service.clock_ms()
        return key

    def is_active(self, key: ApiKey) -> bool:
        """Say whether a key that was let in still is."""
        return self._registry.keys[key.id].deactivated_ms is None

    def _check_of(self, rule: Rule) -> "Callable[[ApiRequest], None] | None":
        """Give what looks whether a request keeps a rule; None where there is nothing to see."""
        needs = rule.needs
        if needs in _AT_THE_DOOR:
            return lambda call: check_scope(call.key, rule.scope)
        if needs is Needs.TOKEN:
            return lambda call: self._check_token(call, rule.scope)
        if needs is Needs.TOKEN_FROM_AFAR:
            return lambda call: None if is_near(call) else self._check_token(call, rule.scope)
        return check_absence if needs is Needs.ABSENCE else None

    def _check_token(self, call: "ApiRequest", scope: str) -> None:
        """Refuse a request without a token, with a bad one, or one that is not good for it."""
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
        except ApiError:
            self.charge_request(None, call.address)
            raise
        if call.scope["method"] != "GET":
            _LOG.info(
                "operator",
                extra={
                    "request_id": call.request_id,
                    "sub": claims.sub[:SUB_MAX],
                    "route": call.route.name,
                },
            )

    # ----- for a maker -------------------------------------------------------------------------

    def may_act_for(self, call: "ApiRequest", maker: str) -> None:
        """Refuse that somebody acts for a maker who has not signed for it.

        Args:
            call: the request; its route says what is to be done.
            maker: for whom, as EIP-55 writes him.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        """
        check_maker(AUTHORITY[call.route.name].rule(self._environment), call.key, maker)

    def may_follow(self, key: ApiKey | None, channel: str, maker: str) -> None:
        """Refuse that somebody follows what concerns a maker.

        Args:
            key: the key of the handshake.
            channel: the channel.
            maker: whom, as EIP-55 writes him.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        """
        check_maker(CHANNELS[channel].rule(self._environment), key, maker)

    # ----- how often ---------------------------------------------------------------------------

    def charge_request(self, key: ApiKey | None, address: str) -> None:
        """Take a request out of the budget of a key, or of an address without one.

        Raises:
            ApiError: RATE_LIMITED.
        """
        if self._is_limited:
            budgets = self._registry.budgets
            if key is None:
                limit, name = budgets.anonymous_per_minute, address
            else:
                limit, name = own(key.requests_per_minute, budgets.key_per_minute), key.id
            self._take(self._requests, "requests", name, limit, 1)

    def _charge_cancel(self, call: "ApiRequest") -> None:
        """Take a cancel out of the budget of whoever calls."""
        if self._is_limited:
            limit = self._registry.budgets.cancels_per_minute
            self._take(self._cancels, "cancels", name_of(call), limit, 1)

    def charge_orders(self, call: "ApiRequest", count: int = 1) -> None:
        """Take orders out of the budget of whoever calls, all of them or none.

        Args:
            call: the request.
            count: how many orders it would create.

        Raises:
            ApiError: RATE_LIMITED.
        """
        if not self._is_limited or not count:
            return
        limit = self._registry.budgets.orders_per_minute
        if call.key is not None:
            limit = own(call.key.orders_per_minute, limit)
        tick_ms, who = self._take(self._orders, "orders", name_of(call), limit, count)
        uncharged = self._uncharged
        uncharged.append((tick_ms, who, count))
        while uncharged[0][0] <= tick_ms - MINUTE_MS:
            uncharged.popleft()

    def charges(self, now_ms: int) -> Sequence[AnyCommand]:
        """Give the command that puts what was charged since the last into the log.

        Args:
            now_ms: the time of the command, Unix milliseconds.
        """
        if not self._uncharged:
            return ()
        gone = self._tick_ms() - MINUTE_MS
        counts: dict[bytes, int] = {}
        for tick_ms, who, count in self._uncharged:
            if tick_ms > gone:
                counts[who] = counts.get(who, 0) + count
        self._uncharged.clear()
        return (OrderCharge(charges=tuple(counts.items()), now_ms=now_ms),) if counts else ()

    def _take(
        self, windows: Windows, what: str, name: str, limit: int, count: int
    ) -> tuple[int, bytes]:
        """Take out of a window, and give the time and the payer."""
        tick_ms, who = self._tick_ms(), self._payer(name)
        wait_ms = windows.take(who, limit, tick_ms, count)
        if wait_ms:
            left, clock_ms = windows.left(who, limit), self._service.clock_ms()
            raise exceeded(what, count, limit, left, wait_ms, clock_ms)
        return tick_ms, who


def name_of(call: "ApiRequest") -> str:
    """Say who pays for a request: its key, or its address."""
    return call.address if call.key is None else call.key.id


def own(number: int | None, common: int) -> int:
    """Give the number of a key's own, or the one that counts for all."""
    return common if number is None else number


def is_near(call: "ApiRequest") -> bool:
    """Say whether a request comes from this machine, and not through a proxy on it."""
    headers = call.headers
    if b"x-forwarded-for" in headers or b"forwarded" in headers:
        return False
    try:
        return ipaddress.ip_address(call.address).is_loopback
    except ValueError:
        return False


def check_absence(call: "ApiRequest") -> None:
    """Refuse what is not there."""
    raise ApiError("NOT_ON_THIS_ENVIRONMENT", f"{call.route.path} is not on this environment")


def check_scope(key: ApiKey | None, scope: str) -> None:
    """Refuse who has no key, or one that is not good for it."""
    if key is None:
        raise ApiError(
            "API_KEY_REQUIRED",
            f"X-API-Key must be a key with the scope {scope}",
            headers=KEY_CHALLENGE,
        )
    if scope not in key.scopes:
        raise ApiError(
            "SCOPE_MISSING", f"key {key.id} must have the scope {scope}, not {list(key.scopes)}"
        )


def check_maker(rule: Rule, key: ApiKey | None, maker: str) -> None:
    """Refuse who has no key that is bound to a maker, where the rule asks for it."""
    if rule.needs not in _BY_THE_ROUTE:
        return
    check_scope(key, rule.scope)
    if key is not None and maker not in key.makers:
        raise ApiError("MAKER_NOT_ALLOWED", f"key {key.id} is not bound to maker {maker}")


def bad_key(why: str) -> ApiError:
    """Refuse a key."""
    return ApiError("INVALID_API_KEY", why, headers=KEY_CHALLENGE)
