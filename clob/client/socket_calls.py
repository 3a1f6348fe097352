"""Requests of the HTTP interface over a WebSocket: their texts, answers and repetition.

The answer of a request may be lost with its connection. The next connection sends the same text
again if the server recognises a repetition, so that it is executed once; otherwise its outcome is
unknown. No input and output, and no clock.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from clob.client.calls import NO_HEADERS, UNSURE, encoded
from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    OutcomeUnknownError,
    RequestRejectedError,
    ResponseError,
    UnexpectedReplyError,
    foreign_error,
    response_error,
)
from clob.client.order_routes import cancelled_before, is_named
from clob.wire.accounts import AccountBody
from clob.wire.info import TimeBody
from clob.wire.messages import Message
from clob.wire.orders import (
    CancelledBody,
    CreatedBody,
    DelegateBody,
    MakerFill,
    NonceBody,
    OrderBody,
    OrderWithFills,
    OutlookBody,
    ReplacedBody,
    SwitchBody,
)

READS: Final = ("get_order", "list_orders", "list_fills", "get_account", "get_time")
"""Operations that change nothing."""
PLACING: Final = ("create_order", "create_gasless_order", "replace_order")
"""Operations whose repetition the server recognises if the order is signed or has a name."""
CANCELLING: Final = ("cancel_order", "cancel_orders", "cancel_batch")
"""Operations whose repetition changes nothing more."""
REPEAT_S: Final = 0.5
"""Least seconds until a request is sent again that the server could not execute."""
RESULTS: Final[Mapping[str, Any]] = {
    "create_order": CreatedBody,
    "create_gasless_order": CreatedBody,
    "replace_order": ReplacedBody,
    "simulate_order": OutlookBody,
    "cancel_order": OrderBody,
    "cancel_orders": CancelledBody,
    "reduce_order": OrderBody,
    "heartbeat": SwitchBody,
    "set_nonce": NonceBody,
    "set_delegate": DelegateBody,
    "get_order": OrderWithFills,
    "list_orders": list[OrderBody],
    "list_fills": list[MakerFill],
    "get_account": AccountBody,
    "get_time": TimeBody,
}
"""Types of the results; those of other operations are decoded JSON."""

_decoders: Final = {name: msgspec.json.Decoder(kind).decode for name, kind in RESULTS.items()}
_decode_any: Final = msgspec.json.Decoder().decode


class RawSocketResponse(Message, frozen=True, kw_only=True, tag="response", gc=False):
    """A :class:`~clob.wire.messages.SocketResponse` whose body is not decoded yet."""

    id: str | int
    """Id of the request."""
    status: int
    """Status of the HTTP response."""
    headers: dict[str, str]
    """Headers of the HTTP response, by lower-case name."""
    body: msgspec.Raw
    """Body of the HTTP response."""


class SocketCall:
    """A request without an answer."""

    __slots__ = (
        "attempts",
        "content",
        "deadline_s",
        "future",
        "headers",
        "is_repeatable",
        "is_sent",
        "operation",
    )

    def __init__(
        self, operation: str, content: bytes, deadline_s: float, *, is_repeatable: bool
    ) -> None:
        self.operation: Final = operation
        self.content: Final = content
        self.deadline_s: Final = deadline_s
        self.is_repeatable: Final = is_repeatable
        self.is_sent: bool = False
        """Whether the current connection sent it."""
        self.attempts: int = 0
        """Number of times that it was sent."""
        self.headers: Mapping[str, str] = NO_HEADERS
        """Headers of the newest answer."""
        self.future: Final[asyncio.Future[Any]] = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        """Return the length of the message, in bytes."""
        return len(self.content)

    def to_send(self) -> bytes:
        """Return the message, for a connection that sends it now."""
        self.is_sent = True
        self.attempts += 1
        return self.content

    def fail(self, error: ClientError) -> None:
        """End with an error."""
        if not self.future.done():
            self.future.set_exception(error)

    def fail_unanswered(self, reason: str) -> None:
        """End with the error of a request that got no answer."""
        if self.attempts and self.operation not in READS:
            self.fail(OutcomeUnknownError(f"{self.operation} has no answer: {reason}"))
        else:
            self.fail(ConnectionFailedError(f"{self.operation} was not answered: {reason}"))


class SocketCalls:
    """The requests of a feed, over all its connections."""

    def __init__(self) -> None:
        self._open: dict[int, SocketCall] = {}

    def __len__(self) -> int:
        """Return the number of requests without an answer."""
        return len(self._open)

    def add(
        self,
        request_id: int,
        operation: str,
        params: Mapping[str, Any] | None,
        body: Any,
        api_key: str | None,
        deadline_s: float,
    ) -> SocketCall:
        """Return a new request, which is not sent yet."""
        fields: dict[str, Any] = {"type": "request", "id": request_id, "operation": operation}
        if params:
            fields["params"] = params
        if body is not None:
            fields["body"] = body
        if api_key is not None:
            fields["apiKey"] = api_key
        repeats, content = is_repeatable(operation, body), encoded(fields)
        call = SocketCall(operation, content, deadline_s, is_repeatable=repeats)
        self._open[request_id] = call
        return call

    def remove(self, request_id: int) -> None:
        """Forget a request; its answer is ignored."""
        self._open.pop(request_id, None)

    def unsent(self) -> list[SocketCall]:
        """Return the requests that the current connection has not sent, oldest first."""
        return [each for each in self._open.values() if not each.is_sent]

    def on_response(
        self, response: RawSocketResponse, now_s: float
    ) -> tuple[SocketCall, float] | None:
        """End the request of an answer.

        Returns:
            The request and the seconds to wait if it is to be sent again: if the answer states that
            it was not executed yet, or if a repetition is recognised; otherwise None.
        """
        call = self._open.get(response.id) if type(response.id) is int else None
        if call is None or call.future.done():
            return None
        call.headers = response.headers
        try:
            call.future.set_result(result_of(call, response))
        except ResponseError as error:
            is_unsure = error.code in UNSURE and call.operation not in READS
            wait_s = max(error.retry_after_s or 0, REPEAT_S)
            may_repeat = call.is_repeatable or not is_unsure
            if error.retryable and may_repeat and now_s + wait_s < call.deadline_s:
                call.is_sent = False
                return call, wait_s
            if is_unsure or (error.retryable and call.attempts > 1):
                call.fail_unanswered(str(error))
            else:
                call.fail(error)
        except ClientError as error:
            call.fail(error)
        return None

    def on_too_large(self) -> None:
        """End the longest request that was sent: the server closed the connection for its size."""
        longest = max((each for each in self._open.values() if each.is_sent), default=None, key=len)
        if longest is not None:
            text = f"the server accepts no message of {len(longest)} bytes"
            longest.fail(RequestRejectedError("BODY_TOO_LARGE", text, status=413))
            longest.is_sent = False
            self._open = {name: each for name, each in self._open.items() if each is not longest}

    def on_cut(self) -> None:
        """Keep the requests that can be sent again, and end the others."""
        for request_id, call in tuple(self._open.items()):
            if call.is_sent and not call.is_repeatable:
                call.fail_unanswered("the connection ended")
                self.remove(request_id)
            call.is_sent = False

    def expire(self, now_s: float, reason: str) -> None:
        """End the requests whose time is over."""
        for request_id, call in tuple(self._open.items()):
            if call.deadline_s <= now_s:
                call.fail_unanswered(reason)
                self.remove(request_id)


def is_repeatable(operation: str, body: Any) -> bool:
    """Return whether the server executes a request once, also if it is sent again."""
    if operation in READS or operation in CANCELLING:
        return True
    if not isinstance(body, Mapping):
        return False
    if operation == "create_batch":
        return all(map(is_named, body.get("orders", ())))
    return operation in PLACING and is_named(body)


def result_of(call: SocketCall, response: RawSocketResponse) -> Any:
    """Return the result of a request.

    Raises:
        ResponseError: the server rejected it.
        UnexpectedReplyError: the answer is not of the documented form.
    """
    if response.status < 400:
        try:
            return _decoders.get(call.operation, _decode_any)(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as reason:
            text = f"the answer to {call.operation} is not of the documented form: {reason}"
            raise UnexpectedReplyError(text) from reason
    wait = response.headers.get("retry-after", "")
    wait_s = int(wait) if wait.isdigit() else None
    error = response_error(bytes(response.body), response.status, wait_s)
    if error is None:
        raise foreign_error(response.status, wait_s)
    before = cancelled_before(error) if call.attempts > 1 else None
    if call.operation == "cancel_order" and before is not None:
        return before  # by an attempt whose answer was lost
    raise error
