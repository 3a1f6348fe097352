"""A guard without a server, with clocks that tests control."""

from clob_server.api.request import ApiRequest, RequestIds
from clob_server.auth.api_keys import IDS, new_key, secret
from clob_server.auth.guard import Guard
from clob_server.auth.rate_limit import RateLimiter
from clob_server.auth.tokens import tokens_of
from clob_server.core.commands import AddKey, ApiKey
from clob_server.core.state import ServerState
from clob_server.settings import Settings

NOW_MS = 1_800_000_000_000
MAKER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


class GuardHarness:
    """A guard with its dependencies, a wall clock and a monotonic clock."""

    def __init__(self, folder, exchange=None, now_ms=NOW_MS, tick_ms=5_000_000, **settings):
        self.settings = Settings(**settings)
        self.folder = folder
        self.exchange = exchange or ServerState()
        self.now_ms = now_ms
        self.tick_ms = tick_ms
        self.limiter = RateLimiter(
            self.exchange,
            secret(folder, IDS),
            self.clock_ms,
            is_on=self.settings.rate_limits,
            tick_ms=lambda: self.tick_ms,
        )
        tokens = tokens_of(self.settings, folder, self.clock_ms)
        self.guard = Guard(
            self.exchange.registry,
            self.settings.environment,
            self.limiter,
            tokens,
            self.clock_ms,
        )

    def clock_ms(self):
        return self.now_ms

    def advance_ms(self, elapsed_ms):
        """Advance both clocks."""
        self.now_ms += elapsed_ms
        self.tick_ms += elapsed_ms

    def add_key(self, **more):
        """Add a key; return the whole key and the stored one."""
        key_id, whole, hashed = new_key()
        key = {
            "id": key_id,
            "hash": hashed,
            "name": "a key",
            "environment": self.settings.environment,
            "scopes": ("read", "trade", "cancel"),
            "makers": (MAKER,),
            "created_ms": NOW_MS,
        }
        key = ApiKey(**{**key, **more})
        self.exchange.apply(AddKey(key=key, now_ms=NOW_MS))
        return whole, key

    def call(self, route="get_orderbook", key=None, address="192.0.2.1", headers=()):
        """Return a request that was not admitted yet."""
        headers = {"host": "localhost", **dict(headers)}
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        if key is not None:
            sent.append((b"x-api-key", key.encode()))
        scope = {"headers": sent, "client": (address, 1), "path": "/", "method": "GET"}
        return ApiRequest(route, scope, RequestIds())

    def admit(self, *arguments, **options):
        """Admit or reject a request."""
        call = self.call(*arguments, **options)
        self.guard.admit(call)
        return call
