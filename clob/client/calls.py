"""A call of a route: its request, its attempts, and its result.

An attempt is repeated if that cannot execute a write twice: if the request was certainly not
executed (no connection, 429, or a 503 that states it), or if the server recognises a repetition (a
signed order by its hash, an unsigned one by its ``clientOrderId``, an operation by its
``Idempotency-Key``, a cancel by the state of the order).
"""

import functools
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Concatenate, Final, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    OutcomeUnknownError,
    RateLimitedError,
    ResponseError,
    foreign_error,
    response_error,
    unexpected,
)
from clob.client.steps import (
    HttpReply,
    HttpRequest,
    Item,
    ItemSteps,
    IteratorMethod,
    Method,
    Pause,
    SendFailedError,
    Steps,
)

T = TypeVar("T")
P = ParamSpec("P")
AnySender = TypeVar("AnySender", bound="RequestSender")

REQUESTS: Final = "requests"
ORDERS: Final = "orders"
CANCELS: Final = "cancels"

FREE: Final[Mapping[str, int]] = {}
READ: Final[Mapping[str, int]] = {REQUESTS: 1}
ORDER: Final[Mapping[str, int]] = {REQUESTS: 1, ORDERS: 1}
CANCEL: Final[Mapping[str, int]] = {CANCELS: 1}
"""Numbers of requests by budget that a call is charged for."""

BACKOFF_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
UNSURE: Final = ("OUTCOME_UNKNOWN", "INTERNAL")
"""Codes of requests that may have been executed."""
JSON: Final[Mapping[str, str]] = {"content-type": "application/json"}
NO_HEADERS: Final[Mapping[str, str]] = {}
NEXT_CURSOR: Final = "x-next-cursor"

HEADER: Final = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')
ASK_AGAIN_S: Final = 0.05
"""Seconds to wait for the responses of requests that are under way."""

_encode: Final = msgspec.json.Encoder().encode


class RouteInfo(NamedTuple):
    """A route of the interface."""

    operation: str
    """Name in ``/openapi.json``."""
    method: str
    template: str
    """Path with ``{parameters}``."""
    costs: Mapping[str, int]
    """What a request is charged for."""


class Call(Generic[T]):
    """A request to a route.

    Args:
        result: type of the JSON of the result.
        path: values of the parameters in the path.
        query: parameters of the query; None is absent.
        body: JSON of the body; None sends none.
        decode: reads the content instead.
        headers: further headers.
        is_repeatable: whether the server recognises a repetition; None is True for reads.
        recover: returns the result if an error of a repetition shows that an earlier attempt was
            executed; otherwise None.
        orders: number of new orders for the rate limit; None is that of the route.
        patience: factor of the time-outs, for requests that wait for a chain.
    """

    __slots__ = (
        "body", "decode", "headers", "is_repeatable", "orders", "path", "patience", "query",
        "recover",
    )  # fmt: skip

    def __init__(
        self,
        result: type[T],
        path: tuple[str, ...] = (),
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        decode: Callable[[bytes], T] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        is_repeatable: bool | None = None,
        recover: Callable[[ResponseError], T | None] | None = None,
        orders: int | None = None,
        patience: int = 1,
    ) -> None:
        kind: Any = result
        self.decode: Final[Callable[[bytes], T]] = decode or decoder(kind)
        self.path: Final = path
        self.query: Final = query
        self.body: Final = body
        self.headers: Final = headers
        self.is_repeatable: Final = is_repeatable
        self.recover: Final = recover
        self.orders: Final = orders
        self.patience: Final = patience

    def target(self, route: RouteInfo, cursor: str | None = None) -> str:
        """Return path and query."""
        path = route.template
        if self.path:
            parts = path.split("{")
            path = parts[0] + "".join(
                in_path(value, part) + part.partition("}")[2]
                for value, part in zip(self.path, parts[1:], strict=True)
            )
        given = {name: in_query(v) for name, v in (self.query or {}).items() if v is not None}
        if cursor is not None:
            given["cursor"] = cursor
        return f"{path}?{urlencode(given)}" if given else path

    def costs(self, route: RouteInfo) -> Mapping[str, int]:
        """Return what the request is charged for."""
        return route.costs if self.orders is None else {REQUESTS: 1, ORDERS: self.orders}


# ----- rate limits ------------------------------------------------------------------------------


class Allowance:
    """The known state of a budget."""

    __slots__ = ("left", "renews_s", "under_way")

    def __init__(self) -> None:
        self.left: int | None = None
        """Requests left after the newest response; None before the first."""
        self.renews_s: float = 0.0
        """Time at which more are left, seconds of the caller's clock."""
        self.under_way: int = 0
        """Requests without a response."""

    def wait_s(self, count: int, now_s: float) -> float:
        """Return the seconds until ``count`` requests may be sent; 0 for now."""
        if self.left is None or self.left - self.under_way >= count:
            return 0
        if now_s < self.renews_s:
            return self.renews_s - now_s
        return ASK_AGAIN_S if self.under_way else 0  # the next response states the number


class BudgetLimiter:
    """The budgets of a client at a server: ``requests``, ``orders`` and ``cancels``."""

    def __init__(self) -> None:
        self._budgets: Final = {name: Allowance() for name in (REQUESTS, ORDERS, CANCELS)}
        self._lock: Final = threading.Lock()

    def acquire(self, costs: Mapping[str, int], now_s: float) -> float:
        """Take requests from their budgets, all or none.

        Args:
            costs: number of requests by budget.
            now_s: time, seconds.

        Returns:
            0 if they were taken; otherwise the seconds until the next attempt.
        """
        with self._lock:
            wait_s = 0.0
            for name, count in costs.items():
                wait_s = max(wait_s, self._budgets[name].wait_s(count, now_s))
            if not wait_s:
                for name, count in costs.items():
                    self._budgets[name].under_way += count
            return wait_s

    def settle(self, costs: Mapping[str, int], headers: Mapping[str, str], now_s: float) -> None:
        """Count the response to requests that were taken; without headers, its absence.

        Args:
            costs: as in ``acquire``.
            headers: of the response; ``RateLimit`` states the budget with less left.
            now_s: time, seconds.
        """
        found = HEADER.match(headers.get("ratelimit", "")) if costs else None
        with self._lock:
            for name, count in costs.items():
                budget = self._budgets[name]
                budget.under_way -= count
                if found and found[1] == name:
                    budget.left = int(found[2])
                    budget.renews_s = now_s + int(found[3])
                elif budget.left is not None:
                    budget.left = max(0, budget.left - count)


# ----- clients ----------------------------------------------------------------------------------


class RequestSender:
    """The part of a client that sends requests.

    Args:
        timeout_s: longest wait for a connection or a response, per attempt.
        deadline_s: longest time of a call, with all attempts and waits; 0 for one attempt.
        respects_limits: whether to wait before a request that would exceed the rate limit.
    """

    def __init__(self, timeout_s: float, deadline_s: float, *, respects_limits: bool) -> None:
        self.timeout_s: Final = seconds("timeout_s", timeout_s)
        self.deadline_s: Final = seconds("deadline_s", deadline_s, or_zero=True)
        self.limiter: Final = BudgetLimiter() if respects_limits else None

    def __reduce__(self) -> NoReturn:
        """Raise: a client belongs to a process."""
        raise TypeError(
            "a client has connections and cannot be pickled or copied; make another one"
        )


# ----- attempts ----------------------------------------------------------------------------------


def exchange(
    sender: RequestSender, route: RouteInfo, call: Call[T], cursor: str | None = None
) -> Generator[HttpRequest | Pause, Any, HttpReply | T]:
    """Send a request, repeatedly if that is safe; return the successful response.

    Returns:
        The response; or the result of ``call.recover``.

    Raises:
        ResponseError: the server rejected the request.
        ConnectionFailedError: no attempt reached the server, or a read has no response.
        OutcomeUnknownError: a write may have been executed.
    """
    is_read = route.method == "GET"
    repeatable = is_read if call.is_repeatable is None else call.is_repeatable
    request = HttpRequest(
        route.method,
        call.target(route, cursor),
        None if call.body is None else encoded(call.body),
        call.headers if call.body is None else {**JSON, **call.headers},
        sender.timeout_s * call.patience,
    )
    costs, end_s = call.costs(route), time.monotonic() + sender.deadline_s * call.patience
    attempts, is_unsure = 0, False
    while True:
        if sender.limiter is not None and costs:
            yield from wait_for_budget(sender.limiter, costs, end_s)
        attempts += 1
        reply, error, was_executed = yield from attempt(sender, request, costs)
        if error is None:
            assert reply is not None
            return reply
        if is_unsure and call.recover is not None and isinstance(error, ResponseError):
            recovered = call.recover(error)
            if recovered is not None:
                return recovered
        may_help = is_temporary(error) or (was_executed is None and not is_read)
        is_unsure = is_unsure or (was_executed is None and not is_read)
        pause_s = backoff_s(attempts, error)
        is_safe = repeatable or was_executed is False
        if may_help and is_safe and time.monotonic() + pause_s < end_s:
            yield Pause(pause_s)
            continue
        if is_unsure and (was_executed is None or may_help):
            raise unknown(route, error, attempts) from error
        raise error


def attempt(
    sender: RequestSender, request: HttpRequest, costs: Mapping[str, int]
) -> Generator[HttpRequest, HttpReply, tuple[HttpReply | None, ClientError | None, bool | None]]:
    """Send a request once.

    Returns:
        The response; the error, None after success; whether a failed request was executed, None if
        that is unknown.
    """
    headers: Mapping[str, str] = NO_HEADERS
    try:
        reply = yield request
        headers = reply.headers
    except SendFailedError as failure:
        failed = ConnectionFailedError(str(failure))
        failed.retryable = failure.is_temporary
        return None, failed, None if failure.was_sent else False
    finally:
        if sender.limiter is not None and costs:
            sender.limiter.settle(costs, headers, time.monotonic())
    if reply.status < 300:
        return reply, None, True
    wait_s = seconds_of(headers.get("retry-after", ""))
    error = response_error(reply.content, reply.status, wait_s)
    if error is None:
        is_final = reply.status < 500 and reply.status != 408
        location = reply.headers.get("location", "") if reply.status < 400 else ""
        error = foreign_error(reply.status, wait_s, location)
        return reply, error, False if is_final else None
    return reply, error, None if error.code in UNSURE else False


def wait_for_budget(
    limiter: BudgetLimiter, costs: Mapping[str, int], end_s: float
) -> Generator[Pause, Any, None]:
    """Wait until the rate limit allows a request, and take it.

    Raises:
        RateLimitedError: the wait is longer than the deadline of the call.
    """
    while wait_s := limiter.acquire(costs, time.monotonic()):
        if time.monotonic() + wait_s > end_s:
            raise RateLimitedError(
                "RATE_LIMITED",
                f"the rate limit allows the next of {' and '.join(costs)} in {wait_s:.0f} s, which "
                "is after the deadline of the call; nothing was sent",
                status=429,
                retryable=True,
                retry_after_s=int(wait_s) + 1,
            )
        yield Pause(wait_s)


def is_temporary(error: ClientError) -> bool:
    """Return whether the same request may succeed later."""
    return error.retryable if isinstance(error, ResponseError | ConnectionFailedError) else True


def backoff_s(attempts: int, error: ClientError) -> float:
    """Return the seconds to the next attempt: exponential with jitter, at least Retry-After."""
    longest: float = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** min(attempts - 1, 10))
    jitter = secrets.randbelow(1_000) / 1_000
    least = error.retry_after_s if isinstance(error, ResponseError) else None
    return (least or 0) + longest * (1 + jitter) / 2


def seconds_of(retry_after: str) -> int | None:
    """Read ``Retry-After``; None if it is absent or a date."""
    return int(retry_after) if retry_after.isascii() and retry_after.isdigit() else None


def unknown(route: RouteInfo, error: ClientError, attempts: int) -> OutcomeUnknownError:
    """Return the error of a write whose outcome is unknown."""
    times = "once" if attempts == 1 else f"{attempts} times"
    return OutcomeUnknownError(f"{route.operation} was sent {times}, last with {error}")


# ----- results -----------------------------------------------------------------------------------


@functools.cache
def decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return the decoder of a type; unknown fields are ignored."""
    return msgspec.json.Decoder(kind).decode


def read(decode: Callable[[bytes], T], reply: HttpReply | T) -> T:
    """Return the result in a response.

    Raises:
        UnexpectedReplyError: it is not of the documented form.
    """
    if not isinstance(reply, HttpReply):
        return reply
    try:
        return decode(reply.content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        start = reply.content[:200].decode(errors="replace")
        raise unexpected(str(error), start) from error


def encoded(body: object) -> bytes:
    """Return a body as JSON.

    Raises:
        InvalidCallError: it cannot be JSON.
    """
    try:
        return _encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidCallError(f"the body cannot become JSON: {error}") from None


def in_path(value: object, part: str) -> str:
    """Return the text of a parameter in a path.

    Args:
        value: the parameter.
        part: the template from its name on.

    Raises:
        InvalidCallError: it is not a text, or would name another path.
    """
    if not isinstance(value, str) or value in ("", ".", ".."):
        name = part.partition("}")[0]
        raise InvalidCallError(f"{name} must be a str that names one thing; got {value!r}")
    return quote(value, safe="")


def seconds(name: str, value: object, *, or_zero: bool = False) -> float:
    """Return a limit of a time.

    Raises:
        InvalidCallError: it is not a finite number above 0, or 0 where ``or_zero``.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (0 < value < math.inf or (or_zero and value == 0)):  # type: ignore[operator]
        return value  # type: ignore[return-value]
    least = "0 or more" if or_zero else "above 0"
    raise InvalidCallError(f"{name} must be a number of seconds {least}; got {value!r}")


def in_query(value: Any) -> str:
    """Return the text of a parameter."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# ----- decorators --------------------------------------------------------------------------------

ROUTES: Final[dict[str, RouteInfo]] = {}
"""Every route that the client has a method for, by operation."""


def route(
    operation: str, method: str, template: str, costs: Mapping[str, int] = READ
) -> Callable[[Callable[Concatenate[AnySender, P], Call[T]]], Method[AnySender, P, T]]:
    """Turn a function that returns a call into a method of both clients."""
    info = ROUTES[operation] = RouteInfo(operation, method, template, costs)

    def decorate(function: Callable[Concatenate[AnySender, P], Call[T]]) -> Method[AnySender, P, T]:
        def steps(sender: AnySender, /, *arguments: P.args, **named: P.kwargs) -> Steps[T]:
            call = function(sender, *arguments, **named)
            return read(call.decode, (yield from exchange(sender, info, call)))

        functools.update_wrapper(steps, function)
        return Method(steps)

    return decorate


def pages(
    operation: str, template: str, costs: Mapping[str, int] = READ
) -> Callable[
    [Callable[Concatenate[AnySender, P], Call[list[T]]]], IteratorMethod[AnySender, P, T]
]:
    """Turn a function that returns the call of a list into an iterator over all its pages."""
    info = ROUTES[operation] = RouteInfo(operation, "GET", template, costs)

    def decorate(
        function: Callable[Concatenate[AnySender, P], Call[list[T]]],
    ) -> IteratorMethod[AnySender, P, T]:
        def steps(sender: AnySender, /, *arguments: P.args, **named: P.kwargs) -> ItemSteps[T]:
            call, cursor = function(sender, *arguments, **named), None
            while True:
                reply = yield from exchange(sender, info, call, cursor)
                for each in read(call.decode, reply):
                    yield Item(each)
                cursor = reply.headers.get(NEXT_CURSOR) if isinstance(reply, HttpReply) else None
                if cursor is None:
                    return

        functools.update_wrapper(steps, function)
        return IteratorMethod(steps)

    return decorate
