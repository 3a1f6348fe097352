"""JSON-RPC client over HTTP, and the errors of a node.

A loopback node is reached over a minimal HTTP client: a request costs 0.1 ms instead of 1.1 ms with
httpx, and a merge needs seven. Other nodes are reached with httpx, which supports TLS and proxies.
Node URLs often contain API keys, so messages name only the host.
"""

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

import httptools
import httpx
import msgspec

RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest response of a node, bytes. Decoded JSON may need 25 times as much memory."""


class ResponseTooLargeError(Exception):
    """The body of a response is larger than :data:`RESPONSE_BYTES_MAX`."""


class LoopbackTransport:
    """Posts JSON to a loopback address over connections that stay open."""

    def __init__(self, parts: SplitResult) -> None:
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        path = parts.path or "/"
        target = f"{path}?{parts.query}" if parts.query else path
        self._head = (
            f"POST {target} HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\n"
            "content-type: application/json\r\naccept: application/json\r\ncontent-length: "
        ).encode()
        self._free: list[_Connection] = []

    async def post(self, content: bytes) -> tuple[int, bytes]:
        """Send a request and return status and body of the response.

        Raises:
            OSError: no connection, or it was closed.
            ResponseTooLargeError: the body is larger than ``RESPONSE_BYTES_MAX``.
        """
        data = b"%b%d\r\n\r\n%b" % (self._head, len(content), content)
        while self._free:
            connection = self._free.pop()
            try:
                return await self._exchange(connection, data)
            except ConnectionError:
                if connection.has_received:  # otherwise it was closed while unused: use another
                    raise
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, self._host, self._port)
        return await self._exchange(connection, data)

    async def _exchange(self, connection: "_Connection", data: bytes) -> tuple[int, bytes]:
        """Send a request over a connection, and keep the connection for the next one."""
        try:
            answer = await connection.request(data)
        except BaseException:
            connection.close()
            raise
        if connection.stays_open:
            self._free.append(connection)
        else:
            connection.close()
        return answer

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._free:
            connection.close()
        self._free.clear()


class _Connection(asyncio.Protocol):
    """One connection: request, response, next request."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._num_bytes = 0
        self.has_received: bool = False
        """Whether data arrived since the last request."""
        self.stays_open: bool = False
        """Whether another request may follow."""

    async def request(self, data: bytes) -> tuple[int, bytes]:
        """Send a request and wait for the response."""
        self.has_received = self.stays_open = False
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection was closed")
        self._body = bytearray()
        self._num_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answer

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # ----- asyncio protocol ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        self._num_bytes += len(data)
        if self._num_bytes > RESPONSE_BYTES_MAX:  # headers count, since the parser collects them
            self._fail(ResponseTooLargeError())
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"invalid HTTP response: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        """Raise an error in the waiting request."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # ----- httptools callbacks ---------------------------------------------------------------

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        """Return the response to the waiting request."""
        self.stays_open = self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), bytes(self._body)))


LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Loopback hosts."""
BUSY: Final = 429
"""HTTP status of a node with too many requests."""
BROKEN: Final = 500
"""From this HTTP status on, the node is unavailable."""
CLOSED: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""httpx errors of a connection that the node has closed or reset."""
SHOWN: Final = 200
"""Maximum number of characters of a node's message that is repeated."""

INTEGER_END: Final = 2**63
"""First number that :func:`integer` rejects; the outbox stores 64 bits."""
JSON_TYPES: Final[Mapping[type, str]] = {dict: "object", list: "array", bool: "boolean"}
"""Names of types in messages."""

MALFORMED: Final = (
    LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError,
)  # fmt: skip
"""Errors from reading a response that is not as expected."""

_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_BYTES: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*")

RpcRequest: TypeAlias = tuple[str, Sequence[Any]]
"""Method and parameters."""


class NodeError(Exception):
    """A request to a node failed."""


class NodeUnreachableError(NodeError):
    """The node did not respond, not in time, or with an HTTP error."""


class NodeInvalidResponseError(NodeError):
    """The node returned an invalid JSON-RPC response."""


class NodeResponseTooLargeError(NodeInvalidResponseError):
    """The node returned more than :data:`RESPONSE_BYTES_MAX`."""


class NodeRejectedError(NodeError):
    """The node returned a JSON-RPC error.

    Args:
        code: error code.
        message: error message.
        data: error data; of a reverted call, hex digits.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message[:SHOWN]} ({code})")
        self.code: Final[int] = code
        self.message: Final[str] = message
        self.data: Final[object] = data


Reply: TypeAlias = Any | NodeRejectedError
"""Result of one request of a batch, or the error of the node."""


class HttpxTransport:
    """Posts JSON to any address, with httpx."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = httpx.URL(url)
        # Without compression, a small body cannot become a large one.
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        self._http = httpx.AsyncClient(timeout=timeout_s, headers=headers)

    async def post(self, content: bytes) -> tuple[int, bytes]:
        """Send a request like :meth:`LoopbackTransport.post`."""
        try:
            try:
                return await self._exchange(content)
            except CLOSED:  # perhaps closed while unused
                return await self._exchange(content)
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except httpx.HTTPError as error:
            raise ConnectionError(str(error)) from error

    async def _exchange(self, content: bytes) -> tuple[int, bytes]:
        """Send a request, and read the response as far as it may reach."""
        body = bytearray()
        async with self._http.stream("POST", self._url, content=content) as answer:
            async for data in answer.aiter_raw():
                if len(body) + len(data) > RESPONSE_BYTES_MAX:
                    raise ResponseTooLargeError
                body += data
        return answer.status_code, bytes(body)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class NodeClient(ABC):
    """A JSON-RPC client of a node, or of several nodes of one chain."""

    host: str
    """Host of the node, or the hosts of all, for messages."""

    async def ask(self, method: str, *params: Any) -> Any:
        """Send one request and return its result.

        Raises:
            NodeUnreachableError, NodeInvalidResponseError, NodeRejectedError: the request failed.
        """
        (reply,) = await self.batch([(method, params)])
        return result(reply)

    @abstractmethod
    async def batch(self, requests: Sequence[RpcRequest]) -> list[Reply]:
        """Send several requests as one batch and return their results in the same order.

        JSON-RPC errors are returned, not raised.

        Raises:
            NodeUnreachableError, NodeInvalidResponseError: no response, or an invalid one.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


class Rpc(NodeClient):
    """JSON-RPC client of one node.

    Args:
        url: URL of the node, http or https.
        timeout_s: time for a request with its whole response, seconds.
        is_near: whether to use the minimal HTTP client; None to use it for loopback hosts.
        name: its name in messages.

    Raises:
        ValueError: not an http or https URL.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = 10.0,
        *,
        is_near: bool | None = None,
        name: str = "node",
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of the {name} must start with http:// or https://")
        self.host: str = parts.hostname
        if is_near is None:
            is_near = parts.scheme == "http" and parts.hostname in LOOPBACK
        self._transport: LoopbackTransport | HttpxTransport = (
            LoopbackTransport(parts) if is_near else HttpxTransport(url, timeout_s)
        )
        self._name = f"the {name} at {parts.hostname}"
        self._timeout_s = timeout_s
        self._number = 0

    async def batch(self, requests: Sequence[RpcRequest]) -> list[Reply]:
        """Send the requests in one HTTP request; see :class:`NodeClient`."""
        first = self._number
        self._number += len(requests)
        messages = [
            {"jsonrpc": "2.0", "id": first + place, "method": method, "params": list(params)}
            for place, (method, params) in enumerate(requests)
        ]
        content = msgspec.json.encode(messages[0] if len(messages) == 1 else messages)
        response = await self._post(content)
        answers = response if isinstance(response, list) else [response]
        by_id = {
            answer["id"]: answer
            for answer in answers
            if isinstance(answer, dict) and type(answer.get("id")) is int
        }
        return [self._reply(by_id.get(first + place), response) for place in range(len(messages))]

    async def _post(self, content: bytes) -> Any:
        """Post a request and decode the JSON of the response."""
        node = self._name
        try:
            async with asyncio.timeout(self._timeout_s):
                status, answer = await self._transport.post(content)
        except ResponseTooLargeError as error:
            text = f"{node} responded with more than {RESPONSE_BYTES_MAX} bytes"
            raise NodeResponseTooLargeError(text) from error
        except TimeoutError as error:
            raise NodeUnreachableError(f"{node} did not respond in time") from error
        except OSError as error:
            raise NodeUnreachableError(f"{node} is unreachable: {words_of(error)}") from error
        if status >= BROKEN or status == BUSY:
            raise NodeUnreachableError(f"{node} responded with HTTP status {status}")
        try:
            return msgspec.json.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            text = f"{node} responded with invalid JSON (HTTP status {status})"
            raise NodeInvalidResponseError(text) from error

    def _reply(self, answer: Any, response: object) -> Reply:
        """Return the result or the error of one response."""
        if answer is None:
            error = response.get("error") if isinstance(response, Mapping) else None
            if isinstance(error, Mapping):  # an error for the whole batch has no id
                return read_error(error)
            raise self._invalid("no response to a request")
        if isinstance(error := answer.get("error"), Mapping):
            return read_error(error)
        if "result" not in answer:
            raise self._invalid("a response with neither result nor error")
        return answer["result"]

    def _invalid(self, problem: str) -> NodeInvalidResponseError:
        return NodeInvalidResponseError(f"{self._name} returned {problem}")

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


def read_error(error: Mapping[str, Any]) -> NodeRejectedError:
    """Read a JSON-RPC error."""
    code = error.get("code")
    code = code if isinstance(code, int) and abs(code) < INTEGER_END else 0
    message = error.get("message", "")
    return NodeRejectedError(code, message if isinstance(message, str) else "", error.get("data"))


def result(reply: Reply) -> Any:
    """Return the result of a request of a batch.

    Raises:
        NodeRejectedError: the node returned an error.
    """
    if isinstance(reply, NodeRejectedError):
        raise reply
    return reply


def words_of(error: OSError) -> str:
    """Return the reason of a failed connection, without names of Python."""
    return os.strerror(error.errno) if error.errno else str(error) or "the connection was closed"


@contextmanager
def parsing() -> Iterator[None]:
    """Convert errors from reading a malformed response.

    Raises:
        NodeInvalidResponseError: a member of the response is missing or has another type.
    """
    try:
        yield
    except MALFORMED as error:
        is_missing = isinstance(error, KeyError)
        problem = f"{error.args[0]} is missing" if is_missing else "a member has another type"
        text = f"malformed response of the node: {problem:.{SHOWN}}"
        raise NodeInvalidResponseError(text) from error


def number(value: object) -> int:
    """Read a JSON-RPC number of up to 256 bits, ``0x`` and hex digits.

    Raises:
        NodeInvalidResponseError: any other value.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value, 16)
    raise NodeInvalidResponseError(f"expected a hex number from the node; got {shown(value)}")


def integer(value: object) -> int:
    """Read a JSON-RPC number that fits in 63 bits: of a block, nonce, index, status or gas.

    Raises:
        NodeInvalidResponseError: any other value.
    """
    read = number(value)
    if read < INTEGER_END:
        return read
    raise NodeInvalidResponseError(f"expected a number below 2**63; got {shown(value)}")


def shown(value: object) -> str:
    """Return the start of a text, or the JSON type of another value, for messages."""
    if isinstance(value, str):
        return repr(value[:SHOWN])
    return "null" if value is None else f"a JSON {JSON_TYPES.get(type(value), 'number')}"


def content(value: object) -> bytes:
    """Read JSON-RPC bytes, ``0x`` and hex digits.

    Raises:
        NodeInvalidResponseError: any other value.
    """
    if isinstance(value, str) and _BYTES.fullmatch(value):
        return bytes.fromhex(value[2:])
    raise NodeInvalidResponseError(f"expected hex bytes from the node; got {shown(value)}")
