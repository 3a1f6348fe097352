"""A run against a server: its requests, wallets, and a market whose book is empty."""

import json
import secrets
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import httpx

from clob.client.http import base_of, headers_of
from clob.order import Side
from clob.signing import Domain
from clob.testing.conformance.checks import (
    CheckFailedError,
    CheckSkippedError,
    UnusableServerError,
    expect,
    expect_that,
    shown,
)
from clob.testing.conformance.wallet import ONE, MarketIds, Wallet

WAITS_MAX: Final = 20
"""Waits for the rate limit per request."""
WAIT_MAX_S: Final = 65
"""Longest wait for it, in seconds."""
STATUS: Final = {
    "ORDER_NOT_OPEN": 409,
    "INVALID_JSON": 400,
    "METHOD_NOT_ALLOWED": 405,
    "NOT_THE_MAKER": 403,
    "UNKNOWN_MARKET": 404,
    "UNKNOWN_ORDER": 404,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "NOT_FOUND": 404,
}
"""Status by code; 422 for all others (``docs/reference/http.md``)."""


class Options(NamedTuple):
    """Options of a run."""

    url: str
    """Base address of the server."""
    ws_url: str | None = None
    """Address of its WebSocket; None is the base address with ``/ws``."""
    market: str | None = None
    """Market to use; None opens new ones."""
    api_key: str | None = None
    """Sent as ``X-API-Key``."""
    admin_token: str | None = None
    """Token of the operator, to open markets by the route of the operator."""
    domain: dict[str, Any] | None = None
    """EIP-712 domain; None reads it from ``GET /``."""
    timeout_s: float = 10.0
    """Longest wait for a response or a message, in seconds."""


class ServerAnswer(NamedTuple):
    """A response."""

    request: str
    """Method and path of the request."""
    status: int
    """Status."""
    headers: Mapping[str, str]
    """Headers."""
    body: Any
    """JSON, or the text if it is not JSON."""


class Placed(NamedTuple):
    """An order that was placed, to remove it after the check."""

    wallet: Wallet
    """Its maker."""
    order_id: str
    """Its id."""


class CheckSession:
    """Requests to a server, and the state that checks share.

    Args:
        options: address and options.

    Raises:
        UnusableServerError: no server answers at the address.
    """

    def __init__(self, options: Options) -> None:
        self.options: Final = options
        """Options of the run."""
        base = base_of(options.url)
        self.ws_url: Final = options.ws_url or f"{base.replace('http', 'ws', 1)}/ws"
        """Address of the WebSocket."""
        self._http: Final = httpx.Client(
            base_url=base,
            timeout=options.timeout_s,
            headers=headers_of(options.api_key, None, None),
        )
        self._placed: Final[list[Placed]] = []
        self._market: MarketIds | None = None
        self._ahead_ms: int | None = None
        try:
            self.info: Final[dict[str, Any]] = self._read_info()
        except CheckFailedError as error:
            self.close()
            raise UnusableServerError(f"no answer from {base}: {error.received}") from None
        self.domain: Final = self._read_domain()
        """Domain of signatures."""

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _read_info(self) -> dict[str, Any]:
        body = self.request("GET", "/").body
        return body if isinstance(body, dict) else {}

    def _read_domain(self) -> Domain:
        """Return the domain of signatures, from the options or the server."""
        terms = self.options.domain or self.info.get("eip712")
        if not isinstance(terms, dict) or not {"name", "version", "chainId"} <= terms.keys():
            self.close()
            raise UnusableServerError(
                "the EIP-712 domain is unknown: GET / has no eip712 with name, version and "
                "chainId; use --domain"
            )
        return Domain(
            terms["name"], str(terms["version"]), terms["chainId"], terms.get("verifyingContract")
        )

    # ----- requests --------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerAnswer:
        """Send a request and return the response; wait while a rate limit rejects it.

        Raises:
            CheckFailedError: no response.
            CheckSkippedError: the server requires an API key.
        """
        if body is not None:
            content = json.dumps(body).encode()
            headers = {"content-type": "application/json", **(headers or {})}
        name = f"{method} {path}"
        response = self._send(name, method, path, params, content, headers)
        for _ in range(WAITS_MAX):
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
            wait_s = min(int(response.headers.get("retry-after", "1")), WAIT_MAX_S)
            sys.stderr.write(f"clob-conformance: rate limit reached; waiting {wait_s} s\n")
            time.sleep(wait_s)
            response = self._send(name, method, path, params, content, headers)
        reply = ServerAnswer(name, response.status_code, response.headers, body_of(response))
        if reply.status == httpx.codes.UNAUTHORIZED and not self.options.api_key:
            raise CheckSkippedError(f"{name} needs an API key: use --api-key-file")
        return reply

    def _send(self, name: str, *request: Any) -> httpx.Response:
        """Send a request.

        Raises:
            CheckFailedError: no response.
        """
        method, path, params, content, headers = request
        try:
            return self._http.request(method, path, params=params, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise CheckFailedError(name, f"no answer: {error}", "an answer") from None

    def read(self, path: str, **params: Any) -> Any:
        """Return the body of a ``GET`` with status 200.

        Raises:
            CheckFailedError: another status.
        """
        return good(self.request("GET", path, params=params))

    def create(self, wallet: Wallet, body: dict[str, Any]) -> ServerAnswer:
        """Send a new signed order; remember it, to cancel it after the check."""
        reply = self.request("POST", "/api/orders", body)
        if isinstance(reply.body, dict) and isinstance(reply.body.get("orderId"), str):
            self._placed.append(Placed(wallet, reply.body["orderId"]))
        return reply

    def place(
        self,
        wallet: Wallet,
        market: MarketIds,
        side: Side = Side.BUY,
        price: int = 50,
        size: int = ONE,
        **more: Any,
    ) -> dict[str, Any]:
        """Place a signed order; return the response.

        Raises:
            CheckFailedError: the order is rejected.
        """
        body: dict[str, Any] = good(
            self.create(wallet, wallet.order(market, side, price, size, **more))
        )
        return body

    def cancel(self, wallet: Wallet, order_id: str) -> ServerAnswer:
        """Cancel an order by a signature of its maker."""
        body = wallet.cancel(order_id, self.now_ms())
        return self.request("DELETE", f"/api/orders/{order_id}", body)

    def order(self, order_id: str) -> dict[str, Any]:
        """Return an order."""
        body: dict[str, Any] = self.read(f"/api/orders/{order_id}")
        return body

    def book(self, market: MarketIds, token: int | str | None = None) -> dict[str, Any]:
        """Return the order book of a token; None is YES."""
        name = str(market.yes if token is None else token)
        body: dict[str, Any] = self.read(f"/api/markets/{market.id}/orderbook", tokenId=name)
        return body

    def trades(self, market: MarketIds, **params: Any) -> list[dict[str, Any]]:
        """Return the newest trades of a market."""
        body: list[dict[str, Any]] = self.read(f"/api/markets/{market.id}/trades", **params)
        return body

    # ----- state -----------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the server, Unix milliseconds; the local time without such a route."""
        local_ms = time.time_ns() // 10**6
        if self._ahead_ms is None:
            reply = self.request("GET", "/api/time")
            known = reply.body.get("nowMs") if isinstance(reply.body, dict) else None
            self._ahead_ms = known - local_ms if isinstance(known, int) else 0
        return local_ms + self._ahead_ms

    def wallet(self) -> Wallet:
        """Return a wallet with a new key."""
        return Wallet(self.domain)

    def market(self) -> MarketIds:
        """Return a market whose books are empty.

        Raises:
            CheckSkippedError: the market of ``--market`` has orders of others, or terms under which
                the checks do not hold.
            UnusableServerError: no market can be opened.
        """
        if self._market is None:
            self._market = self._known(self.options.market) if self.options.market else self._open()
        elif not self._is_empty(self._market) and not self.options.market:
            self._market = self._open()
        if self.options.market and not self._is_empty(self._market):
            raise CheckSkippedError(f"market {self._market.id} has orders of others")
        return self._market

    def _is_empty(self, market: MarketIds) -> bool:
        books = [self.book(market, token) for token in (market.yes, market.no)]
        return not any(book["bids"] or book["asks"] for book in books)

    def _known(self, name: str) -> MarketIds:
        """Return a market that exists."""
        reply = self.request("GET", f"/api/markets/{name}")
        body = reply.body if isinstance(reply.body, dict) else {}
        tokens = body.get("yesTokenId"), body.get("noTokenId")
        if reply.status != httpx.codes.OK or None in tokens:
            raise UnusableServerError(f"market {name} is unknown or has no NO token yet")
        if body.get("settlement") == "chain" or body.get("complementary"):
            raise UnusableServerError(
                f"market {name} settles on a chain or is complementary; use one that does not"
            )
        return MarketIds(name, int(str(tokens[0])), int(str(tokens[1])))

    def _open(self) -> MarketIds:
        """Open a market: by the route of the operator, or by its first orders."""
        yes = secrets.randbits(60) + 1
        market = MarketIds(f"conformance-{secrets.token_hex(5)}", yes, yes + 1)
        if self.options.admin_token:
            body = {"marketId": market.id, "yesTokenId": str(yes), "noTokenId": str(yes + 1)}
            token = {"authorization": f"Bearer {self.options.admin_token}"}
            reply = self.request("POST", "/api/admin/markets", body, headers=token)
            if reply.status != httpx.codes.OK:
                raise UnusableServerError(f"no market can be opened: {shown(reply.body)}")
            return market
        wallet = self.wallet()
        for token_id in (market.yes, market.no):
            reply = self.create(wallet, wallet.order(market, Side.BUY, 1, token=token_id))
            if reply.status != httpx.codes.OK:
                raise UnusableServerError(
                    f"no market opens by its first order: {shown(reply.body)}; use --market or "
                    "--admin-token-file"
                )
            self.cancel(wallet, reply.body["orderId"])
        return market

    def tidy(self) -> None:
        """Cancel the orders that the check left, so that the next one finds an empty book."""
        while self._placed:
            placed = self._placed.pop()
            try:
                self.cancel(placed.wallet, placed.order_id)
            except (CheckFailedError, CheckSkippedError):
                continue


def body_of(response: httpx.Response) -> Any:
    """Return the JSON of a response, or its text."""
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text


def good(reply: ServerAnswer) -> Any:
    """Return the body of a response with status 200.

    Raises:
        CheckFailedError: another status.
    """
    received = f"{reply.status} {shown(reply.body)}"
    if reply.status != httpx.codes.OK:
        raise CheckFailedError(f"status of {reply.request}", received, "200")
    return reply.body


def expect_rejected(reply: ServerAnswer, code: str, path: str | None = None) -> dict[str, Any]:
    """Expect a rejection with a code and its status; return the problem.

    Args:
        reply: the response.
        code: expected code.
        path: expected field of the first error; None for any.

    Raises:
        CheckFailedError: another status, code or field.
    """
    subject = f"answer of {reply.request}"
    expected = f"{STATUS.get(code, 422)} {code}"
    is_problem = isinstance(reply.body, dict)
    received_code = reply.body.get("code") if is_problem else None
    received = f"{reply.status} {received_code or shown(reply.body)}"
    if received != expected:
        raise CheckFailedError(subject, received, expected)
    if path is not None:
        errors = reply.body.get("errors")
        expect_that(f"errors of {reply.request}", bool(errors), errors, "at least one error")
        expect(f"field of the error of {reply.request}", errors[0].get("path"), path)
    problem: dict[str, Any] = reply.body
    return problem
