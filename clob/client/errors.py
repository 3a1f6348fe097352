"""Errors of the client, each with a stable code and, where there is one, a hint.

A server that rejects a request states a code, which is that of the error. The classes group the
codes by the reaction to them; :attr:`ResponseError.code` is exact.
"""

from functools import partial
from typing import Any, Final

import msgspec

from clob.errors import ClobError

HINTS: Final = {
    "RATE_LIMITED": "an operator can raise the limits of an API key",
    "NO_FAUCET": "get stablecoin elsewhere, and call wrap",
    "FAUCET_LIMIT": "the faucet has a daily allowance",
    "INVALID_API_KEY": "the key is unknown, deactivated, or of another environment",
    "API_KEY_REQUIRED": "pass api_key, or a signer if the maker can sign the request",
    "TOKEN_REQUIRED": "pass token, an operator's token (clob-server token)",
    "INVALID_TOKEN": "create a new token with clob-server token",
    "SCOPE_MISSING": "ask the operator for a key with this scope",
    "MAKER_NOT_ALLOWED": "ask the operator to bind the key to the maker, or sign the request",
    "SIGNER_NOT_AUTHORISED": "the maker permits a signer with set_delegate",
    "INVALID_SIGNATURE": "validate_order explains the difference to the signed data",
    "TIMESTAMP_OUT_OF_WINDOW": "call sync_clock after the server's time was moved",
    "ORDER_NOT_OPEN": "it was filled or cancelled before; order has its state",
    "SIZE_NOT_REDUCED": "a fill was faster; order has its state",
    "POST_ONLY_WOULD_CROSS": "the market moved through the price; read the book again",
    "AMOUNT_TOO_SMALL": "an int is in wei; a str, such as '2.5', is in tokens",
    "CLIENT_ID_CONFLICT": "use a client order id once",
    "INSUFFICIENT_BALANCE": "get collateral, approve the exchange, or cancel other orders",
    "NOT_APPROVED": "the wallet has to approve the operator first",
    "MARKET_NOT_OPEN": "market(...).mode states the reason",
    "MARKET_STALLED": "it opens again by itself; market(...).stalled states the reason",
    "WITHDRAWAL_NOT_DUE": "the body of the error has the Unix second, from",
    "UNKNOWN_MARKET": "markets() lists the markets",
    "NOT_ON_THIS_ENVIRONMENT": "this exists on servers of the test environment only",
    "OUTCOME_UNKNOWN": "repeat the same order, or read orders() and fills()",
    "CLOCK_UNSURE": "reads and heartbeats still work",
}
"""Advice by code, for the text of an error."""


class ClientError(ClobError, code="CLIENT_ERROR"):
    """Base class of the errors of the client."""

    hint: str = ""
    """Advice; empty without one."""

    def __str__(self) -> str:
        """Return the code, the description and the hint."""
        text = f"{self.code}: {super().__str__()}"
        return f"{text} ({self.hint})" if self.hint else text


class InvalidCallError(ClientError, code="INVALID_CALL"):
    """The arguments cannot become a request; nothing was sent."""


class UnexpectedReplyError(ClientError, code="UNEXPECTED_REPLY"):
    """A successful reply is not of the documented form; the request was executed."""


class ConnectionFailedError(ClientError, code="CONNECTION_FAILED"):
    """The server cannot be reached, or does not answer; a write was certainly not executed."""

    hint: str = "is the server running, and the address right?"
    retryable: bool = True
    """Whether another attempt may succeed; not with an unknown host or certificate."""


class OutcomeUnknownError(ClientError, code="OUTCOME_UNKNOWN"):
    """A write was sent and its outcome is unknown, also after the repetitions that are safe."""

    hint: str = HINTS["OUTCOME_UNKNOWN"]


class StreamOverflowError(ClientError, code="STREAM_OVERFLOW"):
    """A program reads the messages of a feed more slowly than they arrive; some are lost."""

    hint: str = "read faster, or read books and own orders, which stay complete"


class InvalidFieldInfo(msgspec.Struct, frozen=True):
    """A field that the server rejects."""

    path: str
    """Path of the field, in JSON names; empty for the whole request."""
    message: str
    """Description of the error."""


class ResponseError(ClientError, code="ERROR_RESPONSE"):
    """The server rejected a request, which changed nothing.

    Its subclasses are families of codes; a code without a family has this class.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = 0,
        faults: tuple[InvalidFieldInfo, ...] = (),
        retryable: bool = False,
        retry_after_s: int | None = None,
        request_id: str = "",
        body: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail: str = detail
        """Description: the rule, the value and the limit."""
        self.status: int = status
        """HTTP status; of an item of a batch, that of the same request on its own."""
        self.faults: tuple[InvalidFieldInfo, ...] = faults
        """The invalid fields."""
        self.retryable: bool = retryable
        """Whether the same request may succeed later."""
        self.retry_after_s: int | None = retry_after_s
        """Seconds to wait before the next attempt; None if the server does not state them."""
        self.request_id: str = request_id
        """Id of the request in the logs of the server."""
        self.body: dict[str, Any] = body or {}
        """All fields of the response, such as ``orderId`` or ``order`` of some codes."""
        self.hint: str = HINTS.get(code, "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts of a copy, for other processes."""
        parts = {
            name: getattr(self, name)
            for name in ("status", "faults", "retryable", "retry_after_s", "request_id", "body")
        }
        return partial(type(self), **parts), (self.code, self.detail), {"hint": self.hint}

    @property
    def field(self) -> str:
        """Path of the first invalid field, in JSON names; empty if none is named."""
        return self.faults[0].path if self.faults else ""


class RequestRejectedError(ResponseError):
    """A rule rejects the request (400, 409, 422 and other 4xx)."""


class UnauthorisedError(ResponseError):
    """A key, a token, a scope or a permission is missing or invalid (401, 403)."""


class RateLimitedError(ResponseError):
    """More requests than the limit allows (429); ``retry_after_s`` states the wait."""


class NotFoundError(ResponseError):
    """The market, order, operation or route does not exist (404)."""


class UnavailableError(ResponseError):
    """The server cannot execute the request now (408, 5xx)."""


class ReportedProblem(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an error response as far as the client reads it."""

    code: str
    detail: str = ""
    status: int = 0
    errors: tuple[InvalidFieldInfo, ...] = ()
    request_id: str = ""
    retryable: bool = False


_DECODE: Final = msgspec.json.Decoder(ReportedProblem).decode


def response_error(
    content: bytes, status: int, retry_after_s: int | None = None
) -> ResponseError | None:
    """Return the error of a problem body; None if the content is not one."""
    try:
        problem = _DECODE(content)
        body: dict[str, Any] = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):  # also of another form
        return None
    return family(problem.status or status)(
        problem.code,
        problem.detail,
        status=problem.status or status,
        faults=problem.errors,
        retryable=problem.retryable,
        retry_after_s=retry_after_s,
        request_id=problem.request_id,
        body=body,
    )


def foreign_error(
    status: int, retry_after_s: int | None = None, location: str = ""
) -> ResponseError:
    """Return the error of a response without a problem body, such as that of a proxy.

    Args:
        status: status of the response.
        retry_after_s: seconds to wait; None if the response does not state them.
        location: address to which it redirects; empty if it does not.
    """
    retryable = status in (408, 429, 502, 503, 504)
    detail = f"the answer has status {status} and is not of this server's form"
    if location:
        detail = f"the answer redirects to {location}; redirects are not followed: use that server"
    error = family(status)(
        f"HTTP_{status}", detail, status=status, retryable=retryable, retry_after_s=retry_after_s
    )
    error.hint = "a proxy on the way, or an address that is not that of the server"
    return error


def unexpected(text: str, start: str) -> UnexpectedReplyError:
    """Return the error of content that is not of the documented form.

    Args:
        text: description of the difference.
        start: begin of the content.
    """
    is_page = start.lstrip().startswith("<")
    error = UnexpectedReplyError(f"{text}; the answer begins with {start}")
    error.hint = (
        "that is a page for browsers: is the address that of the server?"
        if is_page
        else "the server may be of another version than this client"
    )
    return error


def family(status: int) -> type[ResponseError]:
    """Return the class of the errors with a status."""
    if status in (401, 403):
        return UnauthorisedError
    if status == 404:
        return NotFoundError
    if status == 429:
        return RateLimitedError
    if status == 408 or status >= 500:
        return UnavailableError
    return RequestRejectedError if status >= 400 else ResponseError
