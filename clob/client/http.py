"""The two clients: the input and output of the methods, by httpx."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar, Unpack
from urllib.request import getproxies, proxy_bypass

import httpx

from clob.client.admin_routes import AdminRoutes
from clob.client.calls import JSON
from clob.client.connection import checked_headers, header, lasting_reason
from clob.client.errors import InvalidCallError
from clob.client.feed import BlockingFeed, Feed, FeedOptions
from clob.client.signer import AnySigner
from clob.client.steps import (
    Awaiting,
    Blocking,
    DigestToSign,
    HttpReply,
    HttpRequest,
    NodeRequest,
    SendFailedError,
    Step,
    awaited,
)
from clob.client.trading import Trading

TIMEOUT_S: Final = 10.0
DEADLINE_S: Final = 30.0

NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Failures before the request was sent."""
AnyHttp = TypeVar("AnyHttp", httpx.Client, httpx.AsyncClient)


def headers_of(
    api_key: str | None, token: str | None, headers: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the headers of every request.

    Raises:
        InvalidCallError: one cannot be sent.
    """
    made = {"accept": "application/json"}
    if api_key is not None:
        made["x-api-key"] = header("api_key", api_key)
    if token is not None:
        made["authorization"] = f"Bearer {header('token', token)}"
    return {**made, **checked_headers(headers)}


def address_of(name: str, url: str) -> httpx.URL:
    """Read an address of http or https.

    Raises:
        InvalidCallError: it is not one.
    """
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidCallError(f"{name} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InvalidCallError(
            f"{name} must begin with http:// or https:// and a host; got {url!r}"
        )
    return parts


def base_of(url: str) -> str:
    """Return the base URL of a server without a slash at its end.

    Raises:
        InvalidCallError: it is not an address of http or https.
    """
    parts = address_of("url", url)
    if parts.query or parts.fragment:
        raise InvalidCallError(f"url must end with the host or a path, without ? or #; got {url!r}")
    return url.rstrip("/")


def reply_of(response: httpx.Response) -> HttpReply:
    """Return the parts of a response that the client reads."""
    return HttpReply(response.status_code, response.headers, response.content)


def failure_of(error: httpx.RequestError, step: HttpRequest | NodeRequest) -> SendFailedError:
    """Return the error of a request without a response.

    Raises:
        InvalidCallError: a header cannot be sent.
    """
    if isinstance(error, httpx.LocalProtocolError):  # its text may contain a key
        raise InvalidCallError("a header has characters that HTTP does not allow") from None
    lasting = lasting_reason(error) if isinstance(error, httpx.ConnectError) else None
    return SendFailedError(
        reason_of(error, lasting, step.timeout_s),
        was_sent=not isinstance(error, NEVER_SENT),
        is_temporary=lasting is None,
    )


def reason_of(error: httpx.RequestError, lasting: str | None, timeout_s: float) -> str:
    """Return the reason for which a request has no response; it contains no key."""
    url = error.request.url
    name = f"{url.scheme}://{url.netloc.decode()}"
    through = ""
    proxy = getproxies().get(url.scheme)
    if proxy and not proxy_bypass(url.host):
        through = f" through the proxy {proxy.rpartition('@')[2]} of the environment"
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return f"no connection to {name}{through} within {timeout_s:g} s"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer from {name}{through} within {timeout_s:g} s"
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return f"no connection to {name}{through}: {lasting or error}"
    return f"the connection to {name}{through} ended before the answer: {error}"


def other_failure(error: Exception, http: httpx.Client | httpx.AsyncClient) -> Exception:
    """Return the error of a request that httpx cannot send."""
    if isinstance(error, httpx.InvalidURL):
        return InvalidCallError(f"the request has no valid address: {error}")
    if http.is_closed:
        return InvalidCallError("the client is closed; make another one")
    if "loop" in str(error):
        return InvalidCallError("an AsyncClient works in one event loop; make one in each")
    return error


def check_clients(rpc_url: str | None, http: object, kind: type[object]) -> None:
    """Check the address of a node and the client of httpx.

    Raises:
        InvalidCallError: one cannot be used.
    """
    if rpc_url is not None:
        address_of("rpc_url", rpc_url)
    if http is not None and not isinstance(http, kind):
        raise InvalidCallError(f"http must be an httpx.{kind.__name__}; got {type(http).__name__}")


def http_client(kind: type[AnyHttp]) -> AnyHttp:
    """Return a client of httpx with the proxies and certificates of the environment.

    Raises:
        InvalidCallError: they cannot be used.
    """
    try:
        return kind()
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise InvalidCallError(
            "the proxies (HTTP_PROXY and others) or certificates (SSL_CERT_FILE) of the "
            f"environment cannot be used: {error}"
        ) from error


def sent(client: "Client | AsyncClient", step: HttpRequest | NodeRequest) -> dict[str, Any]:
    """Return the arguments of a request."""
    if isinstance(step, HttpRequest):
        return {
            "method": step.method,
            "url": client.url + step.target,
            "content": step.content,
            "headers": {**client.headers, **step.headers},
            "timeout": step.timeout_s,
        }
    return {
        "method": "POST",
        "url": step.url,
        "content": step.content,
        "headers": JSON,
        "timeout": step.timeout_s,
    }


class Client(Blocking, Trading, AdminRoutes):
    """A client of a server, for one thread at a time or several.

    Use it as a context manager, or call :meth:`close`.

    Args:
        url: address of the server; may have a path, behind a proxy.
        signer: private key, account of eth-account, or
            :class:`~clob.client.signer.WalletSigner`; None sends unsigned orders.
        maker: wallet that trades; None is that of the signer.
        rpc_url: JSON-RPC address of a node of the chain, from which ``sign_permit`` reads; None is
            that of the development chain. It receives no header and no key of the client.
        api_key: key of an operator, sent as ``X-API-Key``.
        token: token of an operator, for the ``admin_`` methods.
        headers: further headers of every request.
        timeout_s: longest wait for a connection, or for the next part of a response.
        deadline_s: longest time of a call, with all attempts and waits; 0 for one attempt.
        respects_limits: whether to wait before a request that would exceed the rate limit.
        http: an own ``httpx.Client``, for proxies, certificates and pools; it keeps its
            settings and is not closed. None makes one, which reads the proxies of the environment.

    Raises:
        InvalidKeyError: the key is not a private key.
        InvalidAddressError: the maker is not an address.
    """

    def __init__(
        self,
        url: str,
        *,
        signer: AnySigner | None = None,
        maker: str | None = None,
        rpc_url: str | None = None,
        api_key: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        respects_limits: bool = True,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(
            signer, maker, rpc_url, timeout_s, deadline_s, respects_limits=respects_limits
        )
        self.url: Final = base_of(url)
        """Address of the server, without a slash at its end."""
        self.headers: Final[Mapping[str, str]] = headers_of(api_key, token, headers)
        """Headers of every request."""
        self._http: Final = http_client(httpx.Client) if http is None else http
        check_clients(rpc_url, http, httpx.Client)
        self._owns_http: Final = http is None

    def execute(self, step: Step) -> Any:
        """Execute a step and return its result."""
        if isinstance(step, HttpRequest | NodeRequest):
            try:
                response = self._http.request(**sent(self, step))
            except httpx.RequestError as error:
                raise failure_of(error, step) from error
            except (RuntimeError, httpx.InvalidURL) as error:
                raise other_failure(error, self._http) from None
            return reply_of(response)
        if isinstance(step, DigestToSign):
            return step.sign(step.digest)
        time.sleep(step.seconds)
        return None

    def feed(self, **options: Unpack[FeedOptions]) -> BlockingFeed:
        """Return a feed of the server, with the headers of the client; open it by ``with``.

        Args:
            options: see :class:`~clob.client.feed.FeedOptions`.
        """
        return BlockingFeed(self.url, headers=self.headers, **options)

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(Awaiting, Trading, AdminRoutes):
    """A client of a server for an event loop: the methods of :class:`Client` are awaited.

    Use it as an asynchronous context manager, or await :meth:`close`. Arguments are those of
    :class:`Client`; ``http`` is an ``httpx.AsyncClient``, and the callback of a
    :class:`~clob.client.signer.WalletSigner` may be a coroutine function.
    """

    def __init__(
        self,
        url: str,
        *,
        signer: AnySigner | None = None,
        maker: str | None = None,
        rpc_url: str | None = None,
        api_key: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        respects_limits: bool = True,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(
            signer, maker, rpc_url, timeout_s, deadline_s, respects_limits=respects_limits
        )
        self.url: Final = base_of(url)
        """Address of the server, without a slash at its end."""
        self.headers: Final[Mapping[str, str]] = headers_of(api_key, token, headers)
        """Headers of every request."""
        self._http: Final = http_client(httpx.AsyncClient) if http is None else http
        check_clients(rpc_url, http, httpx.AsyncClient)
        self._owns_http: Final = http is None

    async def execute(self, step: Step) -> Any:
        """Execute a step and return its result."""
        if isinstance(step, HttpRequest | NodeRequest):
            try:
                response = await self._http.request(**sent(self, step))
            except httpx.RequestError as error:
                raise failure_of(error, step) from error
            except (RuntimeError, httpx.InvalidURL) as error:
                raise other_failure(error, self._http) from None
            return reply_of(response)
        if isinstance(step, DigestToSign):
            return await awaited(step.sign(step.digest))
        await asyncio.sleep(step.seconds)
        return None

    def feed(self, **options: Unpack[FeedOptions]) -> Feed:
        """Return a feed of the server, with the headers of the client; open it by ``async with``.

        Args:
            options: see :class:`~clob.client.feed.FeedOptions`.
        """
        return Feed(self.url, headers=self.headers, **options)

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
