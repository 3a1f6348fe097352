"""State of a client: its wallet, and facts of the server that it reads once."""

import math
import operator
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from clob.client.errors import ConnectionFailedError, InvalidCallError, unexpected
from clob.client.market_routes import MarketRoutes
from clob.client.signer import AnySigned, AnySigner, WalletSigner, signer_of
from clob.client.steps import Method, NodeRequest, SendFailedError, Steps
from clob.signing import Domain, fields
from clob.units import tokens
from clob.wire.markets import MarketBody

AnySize: TypeAlias = int | str
"""A size: an int in wei, or a str with a decimal number of tokens, such as ``"2.5"``."""

WORD: Final = 32
"""Bytes of a number that a contract returns."""
CLOCK_FRESH_MS: Final = 60_000
"""Age of a reading of the server's time after which it is read again."""


def whole(name: str, value: int, unit: str) -> int:
    """Return an argument that must be a whole number.

    Raises:
        InvalidCallError: it is not; it is never rounded.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    text = f"{name} must be an int, {unit}; got {value!r}"
    if isinstance(value, datetime):
        text += ", and a datetime with a time zone has timestamp(), in seconds"
    raise InvalidCallError(text)


def size_in_wei(name: str, size: AnySize) -> int:
    """Return a size in wei.

    Raises:
        InvalidCallError: neither an int nor a decimal number.
    """
    try:
        if isinstance(size, str):
            return tokens(size)
        if not isinstance(size, bool):
            return operator.index(size)
    except (TypeError, ValueError):
        pass
    raise InvalidCallError(
        f"{name} must be an int in wei or a decimal str in tokens, such as '2.5'; got {size!r}"
    )


class ClockReading(NamedTuple):
    """A reading of the server's time; the wall clock of the client is not used."""

    ahead_ms: float
    """Server's time less the monotonic clock of the client."""
    round_trip_ms: float
    """Time from the request to the response."""
    read_ms: float
    """Time of the reading, by the monotonic clock."""

    @property
    def error_ms(self) -> int:
        """Most by which the server's time is later: its reading took either way."""
        return math.ceil(self.round_trip_ms / 2)

    def now_ms(self) -> int:
        """Return the server's time, Unix milliseconds."""
        return int(time.monotonic_ns() / 1e6 + self.ahead_ms)


def text_in(result: bytes) -> str:
    """Return the text that a contract returned: offset, length, bytes."""
    length = int.from_bytes(result[WORD : 2 * WORD])
    return result[2 * WORD : 2 * WORD + length].decode(errors="replace")


class ClientBase(MarketRoutes):
    """Wallet of a client, signing domain, time of the server, and terms of its markets.

    Args:
        signer: signs orders and requests; None sends unsigned ones.
        maker: wallet that trades; None is that of the signer. If it differs, the signer is its
            delegate.
        rpc_url: JSON-RPC address of a node; None is that of the development chain.
        timeout_s: longest wait for a connection or a response, per attempt.
        deadline_s: longest time of a call, with all attempts and waits; 0 for one attempt.
        respects_limits: whether to wait before a request that would exceed the rate limit.
    """

    def __init__(
        self,
        signer: AnySigner | None,
        maker: str | None,
        rpc_url: str | None,
        timeout_s: float,
        deadline_s: float,
        *,
        respects_limits: bool,
    ) -> None:
        super().__init__(timeout_s, deadline_s, respects_limits=respects_limits)
        self.signer: Final[WalletSigner | None] = signer_of(signer)
        """Signs orders and requests; None sends unsigned ones."""
        self.nonce: int = 0
        """Nonce of signed orders without one of their own; ``set_nonce`` raises it."""
        self.rpc_url: Final = rpc_url
        """JSON-RPC address of a node; None is that of the development chain."""
        self._maker: Final = None if maker is None else fields.address("maker", maker)
        self._domain: Domain | None = None
        self._clock: ClockReading | None = None
        self._markets: Final[dict[str, MarketBody]] = {}

    @property
    def maker(self) -> str:
        """Wallet that trades.

        Raises:
            InvalidCallError: the client has neither a maker nor a signer.
        """
        if self._maker is not None:
            return self._maker
        if self.signer is None:
            raise InvalidCallError("this needs a wallet: pass signer, or maker, to the client")
        return self.signer.address

    @property
    def signs_for_maker(self) -> bool:
        """Whether the signer is the maker itself."""
        return self.signer is not None and self.signer.address == self.maker

    # ----- facts of the server -----------------------------------------------------------------

    def read_domain(self) -> Steps[Domain]:
        """Return the domain of signatures, read from the server once."""
        if self._domain is None:
            info = yield from MarketRoutes.info(self)
            terms: Mapping[str, Any] = info.eip712
            self._domain = Domain(
                terms["name"], terms["version"], terms["chainId"], terms.get("verifyingContract")
            )
        return self._domain

    def read_market(self, market_id: str) -> Steps[MarketBody]:
        """Return a market; its token ids and terms are read once both tokens are known."""
        market = self._markets.get(market_id)
        if market is None or market.no_token_id is None:
            market = self._markets[market_id] = yield from MarketRoutes.market(self, market_id)
        return market

    def read_token(self, market_id: str, token: str | int) -> Steps[int]:
        """Return a token id: that of ``YES`` or ``NO``, or the number itself.

        Raises:
            InvalidCallError: neither an outcome nor a number, or NO has no id yet.
        """
        if isinstance(token, int) and not isinstance(token, bool):
            return token
        if not isinstance(token, str):
            raise InvalidCallError(f"token must be YES, NO or a token id; got {token!r}")
        if token.isascii() and token.isdigit():
            return int(token)
        if token.upper() not in ("YES", "NO"):
            raise InvalidCallError(f"token must be YES, NO or a token id; got {token!r}")
        market = yield from self.read_market(market_id)
        name = market.yes_token_id if token.upper() == "YES" else market.no_token_id
        if name is None:
            raise InvalidCallError(f"market {market_id} has no NO token yet; pass its id")
        return int(name)

    def read_condition(self, market: str) -> Steps[MarketBody]:
        """Return a market with a condition on the chain.

        Raises:
            InvalidCallError: it has none.
        """
        terms = yield from self.read_market(market)
        if terms.condition_id is None:
            raise InvalidCallError(f"market {market} has no condition on a chain")
        return terms

    # ----- time --------------------------------------------------------------------------------

    @Method
    def sync_clock(self) -> Steps[int]:
        """Read the server's time again and return it, Unix milliseconds.

        The client does this before a signature with a time, once a minute. It is needed after the
        time of a server was moved.
        """
        begin_ms = time.monotonic_ns() / 1e6
        body = yield from MarketRoutes.server_time(self)
        end_ms = time.monotonic_ns() / 1e6
        ahead_ms = body.now_ms - (begin_ms + end_ms) / 2
        self._clock = ClockReading(ahead_ms, end_ms - begin_ms, end_ms)
        return body.now_ms

    def read_clock(self) -> Steps["ClockReading"]:
        """Return a reading of the server's time that is not older than a minute."""
        now_ms = time.monotonic_ns() / 1e6
        if self._clock is None or now_ms - self._clock.read_ms > CLOCK_FRESH_MS:
            yield from ClientBase.sync_clock(self)
        assert self._clock is not None
        return self._clock

    def read_now_ms(self) -> Steps[int]:
        """Return the server's time, Unix milliseconds, as accurate as half a round trip."""
        return (yield from self.read_clock()).now_ms()

    # ----- signatures --------------------------------------------------------------------------

    def sign(self, message: AnySigned) -> Steps[AnySigned]:
        """Sign a struct by the signer.

        Raises:
            InvalidCallError: the client has no signer.
        """
        if self.signer is None:
            raise InvalidCallError("this needs a signature: pass signer to the client")
        return (yield from self.signer.signed(message, (yield from self.read_domain())))

    # ----- the chain -------------------------------------------------------------------------

    def call_contract(self, url: str, contract: str, data: str) -> Steps[bytes]:
        """Call a function of a contract at a node.

        Raises:
            ConnectionFailedError: the node cannot be reached.
            UnexpectedReplyError: the node does not return a result.
        """
        host = urlsplit(url).hostname  # the rest may contain a key
        params = [{"to": contract, "data": data}, "latest"]
        content = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": params}
        try:
            reply = yield NodeRequest(url, msgspec.json.encode(content), self.timeout_s)
        except SendFailedError as error:
            raise ConnectionFailedError(f"the node {host} has no answer: {error}") from None
        try:
            result = bytes.fromhex(msgspec.json.decode(reply.content)["result"].removeprefix("0x"))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
            result = b""
        if len(result) < WORD:
            start = reply.content[:200].decode(errors="replace")
            text = f"the node {host} cannot read the contract {contract}"
            raise unexpected(f"{text} (status {reply.status})", start)
        return result
