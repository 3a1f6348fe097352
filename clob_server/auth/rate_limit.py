"""Rate limits: sliding windows of a minute per API key or address, exact to the millisecond.

No 60 seconds contain more than the limit. The clock is monotonic. A payer is the API key or address
that a request is charged to; memory is bounded, since only the most recent payers are tracked.
"""

import hashlib
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final

import msgspec

from clob_server.api.problems import ApiError
from clob_server.auth.policy import Budget
from clob_server.core.commands import ApiKey, OrderCharge
from clob_server.core.state import ServerState

MINUTE_MS: Final = 60_000
"""The length of a window."""
PAYERS_MAX: Final = 16_384
"""Maximum number of payers tracked per kind of limit."""
PAYER_BYTES: Final = 8
"""Length of a payer's hashed name."""

_NETWORK_BITS: Final = 64


def monotonic_ms() -> int:
    """Return the time of a clock that never goes back, milliseconds."""
    return time.monotonic_ns() // 1_000_000


class RateLimiter:
    """Counts requests, cancels and created orders per API key or address (decision 32).

    Created orders are also written to the log, as one ``OrderCharge`` per batch, so that their
    windows survive a restart.

    Args:
        state: has the limits, and the orders of the last minute.
        secret: hashes payers, so that the log does not name addresses.
        clock_ms: returns the time, Unix milliseconds.
        is_on: whether limits are enforced.
        processes: processes that answer clients; each enforces its part of the request budgets.
        tick_ms: returns the time of a clock that never goes back, milliseconds.
    """

    def __init__(
        self,
        state: ServerState,
        secret: bytes,
        clock_ms: Callable[[], int],
        *,
        is_on: bool = True,
        processes: int = 1,
        tick_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._state, self._registry = state, state.registry
        self._keys: dict[bytes, str] = {}
        self._clock_ms = clock_ms
        self._is_on = is_on
        self._processes = processes
        self._tick_ms = tick_ms
        self._requests, self._cancels, self._orders = Windows(), Windows(), Windows()
        self._uncharged: deque[tuple[int, bytes, int]] = deque()
        self._payer = lru_cache(PAYERS_MAX)(lambda name: payer_of(secret, network(name)))
        state.on_recharge = self._recharge
        self._count_logged()

    def payer(self, key: ApiKey | None, address: str) -> bytes:
        """Return the hashed name of the key or address that a request is charged to."""
        return self._payer(address if key is None else key.id)

    def charge(
        self, key: ApiKey | None, address: str, budget: Budget, *, creates_order: bool = False
    ) -> "Usage | None":
        """Count a request against a budget, and the order that it creates.

        Returns:
            The usage that the reply shows; None for a request without a limit.

        Raises:
            ApiError: RATE_LIMITED.
        """
        if not self._is_on or budget is Budget.NONE:
            return None
        budgets, tick_ms = self._registry.budgets, self._tick_ms()
        payer = self._payer(address if key is None else key.id)
        if budget is Budget.CANCELS:
            limit, windows = budgets.cancels_per_minute, self._cancels
        else:
            limit, windows = budgets.anonymous_per_minute, self._requests
            if key is not None:
                limit = _own(key.requests_per_minute, budgets.key_per_minute)
            if self._processes > 1:
                limit = max(1, limit // self._processes)
        wait_ms = windows.take(payer, limit, tick_ms)
        if wait_ms:
            raise self._exceeded(budget.value, windows, payer, limit, 1, wait_ms)
        usage = Usage(payer, budget.value, limit, windows.of(payer), tick_ms)
        if creates_order:
            self._charge_orders(key, payer, 1, tick_ms, usage)
        return usage

    def charge_orders(
        self, key: ApiKey | None, address: str, count: int = 1, usage: "Usage | None" = None
    ) -> None:
        """Count orders that a request would create, all of them or none.

        ``usage`` is that of the request, which shows the orders as well from now on.

        Raises:
            ApiError: RATE_LIMITED.
        """
        if self._is_on and count:
            payer = self._payer(address if key is None else key.id)
            self._charge_orders(key, payer, count, self._tick_ms(), usage)

    def charge_payer(self, payer: bytes) -> None:
        """Count an order that another node has read, which is not in the log yet.

        Raises:
            ApiError: RATE_LIMITED.
        """
        if self._is_on:
            self._charge_orders(self._key_of(payer), payer, 1, self._tick_ms(), None)

    def _key_of(self, payer: bytes) -> ApiKey | None:
        """Return the key of a budget, if it has one of its own."""
        keys = self._registry.keys
        if len(self._keys) != len(keys):
            self._keys = {self._payer(name): name for name in keys}
        return keys.get(self._keys.get(payer, ""))

    def take_over(self) -> None:
        """Continue with the orders that the log has, as a new process does."""
        self._uncharged.clear()
        self._orders = Windows()
        self._count_logged()

    def _count_logged(self) -> None:
        """Count the orders of the last minute in the log."""
        tick, now_ms = self._tick_ms(), self._clock_ms()
        for charged in self._state.charges:
            age_ms = max(0, now_ms - charged.now_ms)
            if age_ms < MINUTE_MS:
                self._orders.put(charged.payer, tick - age_ms, charged.count)

    def charge_work(self, usage: "Usage | None", count: int) -> None:
        """Count the work that a request turned out to be, in requests, even beyond the limit."""
        if usage is not None and count:
            usage.taken.extend(repeat(self._tick_ms(), min(count, usage.limit)))

    def header_lines(self, usage: "Usage") -> bytes:
        """Return the headers of the limit with less left, as lines of HTTP/1.1."""
        name, limit, taken = usage.name, usage.limit, usage.taken
        left, orders = limit - len(taken), usage.orders
        if orders is not None and usage.orders_limit - len(orders) <= left:
            name, limit, taken = "orders", usage.orders_limit, orders
            left = limit - len(taken)
        if left < 0:  # a large request was charged for its work
            left = 0
        wait_s = -((usage.now_ms - taken[0] - MINUTE_MS) // 1000) if taken else 0
        return header_template(name, limit) % (
            left,
            wait_s,
            left,
            self._clock_ms() // 1000 + wait_s,
        )

    def _recharge(self, payer: bytes, count: int) -> None:
        """Count one order less, or more; the state has this in its charges."""
        self._orders.put(payer, self._tick_ms(), count)

    def _charge_orders(
        self, key: ApiKey | None, payer: bytes, count: int, tick_ms: int, usage: "Usage | None"
    ) -> None:
        """Count orders, and queue them for the log."""
        limit = self._registry.budgets.orders_per_minute
        if key is not None:
            limit = _own(key.orders_per_minute, limit)
        wait_ms = self._orders.take(payer, limit, tick_ms, count)
        if wait_ms:
            raise self._exceeded("orders", self._orders, payer, limit, count, wait_ms)
        if usage is not None:
            usage.orders, usage.orders_limit = self._orders.of(payer), limit
        uncharged = self._uncharged
        uncharged.append((tick_ms, payer, count))
        while uncharged[0][0] <= tick_ms - MINUTE_MS:
            uncharged.popleft()

    def take_charges(
        self, now_ms: int, payers: Sequence[bytes | None] = ()
    ) -> Sequence[OrderCharge]:
        """Return the command that logs the orders charged since the last call, if there are any.

        Args:
            now_ms: the time of the batch, Unix milliseconds.
            payers: the payer of each order in the batch, None for none.
        """
        paid = tuple(payers) if any(payers) else ()
        if not self._uncharged and not paid:
            return ()
        oldest = self._tick_ms() - MINUTE_MS
        counts: dict[bytes, int] = {}
        for tick_ms, payer, count in self._uncharged:
            if tick_ms > oldest:
                counts[payer] = counts.get(payer, 0) + count
        self._uncharged.clear()
        if not counts and not paid:
            return ()
        return (OrderCharge(charges=tuple(counts.items()), payers=paid, now_ms=now_ms),)

    def _exceeded(
        self, name: str, windows: "Windows", payer: bytes, limit: int, count: int, wait_ms: int
    ) -> ApiError:
        """Return the rejection of a request beyond a limit."""
        return exceeded(name, count, limit, windows.left(payer, limit), wait_ms, self._clock_ms())


class Usage(msgspec.Struct, gc=False):
    """The usage of a payer, as replies show it."""

    payer: bytes
    name: str
    """The limit of the request: ``requests`` or ``cancels``."""
    limit: int
    taken: deque[int]
    """The times of its usage within the last minute."""
    now_ms: int
    """The time of the request, by the clock of the windows."""
    orders: deque[int] | None = None
    """The times of its orders; None for a request that creates none."""
    orders_limit: int = 0


class Windows:
    """Usage of each payer within the last minute; the least recent payers are evicted."""

    def __init__(self, payers_max: int = PAYERS_MAX) -> None:
        self._payers_max = payers_max
        self._taken: OrderedDict[bytes, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of tracked payers."""
        return len(self._taken)

    def take(self, payer: bytes, limit: int, now_ms: int, count: int = 1) -> int:
        """Take ``count`` from a window, all or nothing. Amortised O(1).

        Args:
            payer: the payer of the request.
            limit: the maximum per minute.
            now_ms: the monotonic time, milliseconds.
            count: the amount to take.

        Returns:
            0 if it was taken; else the milliseconds until it can be taken, a whole minute if
            ``count`` is above the limit.
        """
        taken = self._taken.get(payer)
        if taken is None:
            taken = self._add(payer)
        else:
            self._taken.move_to_end(payer)
        oldest = now_ms - MINUTE_MS
        while taken and taken[0] <= oldest:
            taken.popleft()
        over = len(taken) + count - limit
        if over > 0:
            return MINUTE_MS if count > limit else taken[over - 1] - oldest
        if count == 1:
            taken.append(now_ms)
        else:
            taken.extend(repeat(now_ms, count))
        return 0

    def left(self, payer: bytes, limit: int) -> int:
        """Return the amount that was left to a payer at its last attempt."""
        return max(0, limit - len(self._taken.get(payer, ())))

    def of(self, payer: bytes) -> deque[int]:
        """Return the times of the usage of a payer that was charged."""
        return self._taken[payer]

    def put(self, payer: bytes, now_ms: int, count: int) -> None:
        """Add usage even beyond the limit, or take the latest back if ``count`` is negative.

        The times of a payer must not decrease.
        """
        taken = self._taken.get(payer)
        if taken is None:
            taken = self._add(payer)
        taken.extend(repeat(now_ms, count))
        for _ in range(min(-count, len(taken))):
            taken.pop()

    def _add(self, payer: bytes) -> deque[int]:
        """Add a window, and evict the least recent one if there are too many."""
        if len(self._taken) >= self._payers_max:
            self._taken.popitem(last=False)
        taken = self._taken[payer] = deque()
        return taken


def payer_of(secret: bytes, name: str) -> bytes:
    """Return the name of a payer, which cannot be reversed without the secret."""
    digest = hashlib.blake2b(name.encode(), key=secret, person=b"payer", digest_size=PAYER_BYTES)
    return digest.digest()


def network(address: str) -> str:
    """Return the name shared by one budget: an IPv4 address, or the /64 of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _NETWORK_BITS:x}::/{_NETWORK_BITS}"


def exceeded(name: str, count: int, limit: int, left: int, wait_ms: int, clock_ms: int) -> ApiError:
    """Return the rejection of a request beyond a limit, with the headers for the next attempt."""
    wait_s = -(-wait_ms // 1000)
    reset_s = -(-(clock_ms + wait_ms) // 1000)
    return ApiError(
        "RATE_LIMITED",
        f"at most {limit} {name} per minute; got {count} more, retry in {wait_s} s"
        if count <= limit
        else f"at most {limit} {name} per minute; {count} at once can never be accepted",
        headers=(
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit", b'"%b";r=%d;t=%d' % (name.encode(), left, wait_s)),
            (b"ratelimit-policy", b'"%b";q=%d;w=60' % (name.encode(), limit)),
            (b"x-ratelimit-limit", b"%d" % limit),
            (b"x-ratelimit-remaining", b"%d" % left),
            (b"x-ratelimit-reset", b"%d" % reset_s),
        ),
    )


@lru_cache(1_024)
def header_template(name: str, limit: int) -> bytes:
    """Return the headers of a limit without the numbers left, seconds, left, Unix seconds."""
    return (
        b'ratelimit: "%b";r=%%d;t=%%d\r\nratelimit-policy: "%b";q=%d;w=60\r\n'
        b"x-ratelimit-limit: %d\r\nx-ratelimit-remaining: %%d\r\nx-ratelimit-reset: %%d\r\n"
    ) % (name.encode(), name.encode(), limit, limit)


def _own(limit: int | None, common: int) -> int:
    """Return the limit of a key: its own, or else the common one."""
    return common if limit is None else limit
