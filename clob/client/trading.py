"""Methods of a client in the words of a trader: buy, sell, replace, reduce, cancel.

They add the signature, the token id, the salt and the time of the server.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from clob.client.base import AnySize, size_in_wei, whole
from clob.client.errors import (
    InvalidCallError,
    ResponseError,
)
from clob.client.funds import Funds
from clob.client.order_routes import OrderRoutes
from clob.client.steps import Method, Pause, Steps
from clob.order import Side
from clob.signing import (
    Signed,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    amounts_of,
)
from clob.signing.messages import BOTH_SIDES
from clob.signing.order import ZERO_ADDRESS
from clob.wire.orders import (
    CancelledBody,
    CreatedBody,
    DelegateBody,
    InvalidBody,
    NonceBody,
    OrderBody,
    OutlookBody,
    ReplacedBody,
)

AnySide: TypeAlias = Side | Literal["BUY", "SELL"]
T = TypeVar("T")

CLIENT: Final = "client:"
SALT_BITS: Final = 64
SIGNINGS: Final = 3
"""Attempts to sign a time that the server accepts."""
TICK_MS: Final = 1
"""Resolution of the times of orders and requests."""
TICKS_S: Final = 0.003
"""Time from the signature of a cancel of all orders to its arrival at least."""


class LimitOrderOptions(TypedDict, total=False):
    """Options of an order; all may be absent."""

    time_in_force: Literal["GTC", "GTD", "IOC", "FOK"]
    """Handling of the size that does not trade at once. GTC, the default: it rests."""
    post_only: bool
    """Whether to reject the order if it would trade at once."""
    self_trade: str
    """Handling of trades with own orders: ``NONE``, ``CANCEL_RESTING``, ``CANCEL_INCOMING``,
    ``CANCEL_BOTH`` or ``DECREMENT``; absent is that of the market."""
    client_order_id: str
    """The maker's name for the order, at most 64 characters."""
    expires_in_s: int
    """Seconds for which it may trade, by the server's time; makes it GTD."""
    expiration_s: int
    """Last Unix second in which it may trade; makes it GTD."""
    deadline_ms: int
    """Reject the order if it arrives after this Unix millisecond."""
    nonce: int
    """Nonce of the maker; a higher one cancels the order. Absent is ``nonce`` of the client in a
    signed order and that of the maker in an unsigned one."""
    fee_rate_bps: int
    """Highest fee rate, in basis points; absent is 0 in a signed order and that of the market in an
    unsigned one."""
    smart_wallet: str
    """Wallet that pays and receives the collateral; with a signature only in a market that
    settles."""


class LimitOrder(msgspec.Struct, frozen=True):
    """An order to place."""

    market: str
    """Market id."""
    token: str | int
    """``YES``, ``NO`` or a token id."""
    side: AnySide
    """Buy or sell."""
    price: int
    """Cents, 1 to 99."""
    size: AnySize
    """An int in wei, or a str in tokens, such as ``"2.5"``."""
    options: LimitOrderOptions = msgspec.field(default_factory=LimitOrderOptions)
    """Options by name, see :class:`LimitOrderOptions`."""


JSON_NAMES: Final = {
    "time_in_force": "timeInForce",
    "post_only": "postOnly",
    "self_trade": "selfTrade",
    "client_order_id": "clientOrderId",
    "deadline_ms": "deadlineMs",
    "smart_wallet": "smartWallet",
}
"""Names in JSON of the options that are not signed."""
UNITS: Final = {
    "expires_in_s": "seconds",
    "expiration_s": "Unix seconds",
    "deadline_ms": "Unix milliseconds",
    "nonce": "0 or more",
    "fee_rate_bps": "basis points",
}
"""Units of the options that are whole numbers."""
OPTIONS: Final = frozenset(LimitOrderOptions.__annotations__)
"""Names of all options."""


def side_of(side: AnySide) -> Side:
    """Return a side.

    Raises:
        InvalidCallError: neither a side nor its name.
    """
    if isinstance(side, Side):
        return side
    if side not in Side.__members__:
        raise InvalidCallError(f"side must be BUY or SELL; got {side!r}")
    return Side[side]


def expected_remaining(size: AnySize | None) -> dict[str, str]:
    """Return the field with the remaining size that an order must have; none for any size."""
    return {} if size is None else {"ifRemaining": str(size_in_wei("if_remaining", size))}


class Trading(Funds):
    """Methods in the words of a trader."""

    # ----- placing -----------------------------------------------------------------------------

    @Method
    def buy(
        self,
        market: str,
        token: str | int,
        *,
        price: int,
        size: AnySize,
        **options: Unpack[LimitOrderOptions],
    ) -> Steps[CreatedBody]:
        """Buy tokens of an outcome.

        With a signer the order is signed. Without one it is unsigned, which needs an API key in
        production. It is placed once, also if a response is lost and the client repeats it.

        Args:
            market: market id.
            token: ``YES``, ``NO`` or a token id.
            price: highest price, cents, 1 to 99.
            size: an int in wei, or a str in tokens, such as ``"2.5"``.
            options: see :class:`LimitOrderOptions`.

        Raises:
            ClientError: see :mod:`clob.client.errors`.
            RejectedError: a price, a size or an address is invalid; nothing was sent.
        """
        order = LimitOrder(market, token, Side.BUY, price, size, options)
        return (yield from Trading.place(self, order))

    @Method
    def sell(
        self,
        market: str,
        token: str | int,
        *,
        price: int,
        size: AnySize,
        **options: Unpack[LimitOrderOptions],
    ) -> Steps[CreatedBody]:
        """Sell tokens of an outcome; see :meth:`buy`. ``price`` is the lowest price."""
        order = LimitOrder(market, token, Side.SELL, price, size, options)
        return (yield from Trading.place(self, order))

    @Method
    def place(self, order: LimitOrder) -> Steps[CreatedBody]:
        """Place an order; see :meth:`buy`."""
        body = yield from self.body_of(order)
        send = OrderRoutes.create_gasless_order if self.signer is None else OrderRoutes.create_order
        return (yield from send(self, body))

    @Method
    def place_batch(
        self, orders: Sequence[LimitOrder], *, atomic: bool = False
    ) -> Steps[list[CreatedBody | ResponseError]]:
        """Place up to 20 orders in one request, with one result each.

        Args:
            orders: the orders.
            atomic: whether to place all or none.

        Returns:
            The results in the order of ``orders``; an error is returned and not raised.
        """
        bodies: list[dict[str, Any]] = []
        for order in orders:
            bodies += [(yield from self.body_of(order))]
        return (yield from OrderRoutes.create_batch(self, bodies, atomic=atomic))

    @Method
    def replace(
        self, order_id: str, order: LimitOrder, *, if_remaining: AnySize | None = None
    ) -> Steps[ReplacedBody]:
        """Cancel an order and place another one of the same market and token: both or neither.

        Args:
            order_id: id, hash, or ``client:`` and the client order id of the order to cancel.
            order: the new order.
            if_remaining: remaining size that the old order must have: an int in wei, or a str in
                tokens. REMAINING_CHANGED rejects the request otherwise.
        """
        body = (yield from self.body_of(order)) | expected_remaining(if_remaining)

        def send(cancel: dict[str, Any]) -> Steps[ReplacedBody]:
            signature = {
                name: cancel[name] for name in ("timestamp", "signature") if name in cancel
            }
            more = {"cancel": signature} if signature else {}
            return (yield from OrderRoutes.replace_order(self, order_id, {**body, **more}))

        return (yield from self.with_time(self.cancel_of(order_id), send))

    @Method
    def validate(self, order: LimitOrder) -> Steps[OutlookBody | InvalidBody]:
        """Check an order without placing it; counts as a new order for the rate limit."""
        return (yield from OrderRoutes.validate_order(self, (yield from self.body_of(order))))

    @Method
    def simulate(self, order: LimitOrder) -> Steps[OutlookBody]:
        """Return the trades that an order would make now."""
        return (yield from OrderRoutes.simulate_order(self, (yield from self.body_of(order))))

    # ----- cancelling --------------------------------------------------------------------------

    @Method
    def cancel(self, order_id: str) -> Steps[OrderBody]:
        """Cancel an order and return it.

        Args:
            order_id: id, hash, or ``client:`` and the client order id.
        """

        def send(body: dict[str, Any]) -> Steps[OrderBody]:
            return OrderRoutes.cancel_order(self, order_id, body)

        return (yield from self.with_time(self.cancel_of(order_id), send))

    @Method
    def cancel_some(self, order_ids: Sequence[str]) -> Steps[list[OrderBody | ResponseError]]:
        """Cancel up to 20 orders in one request, with one result each.

        Returns:
            The results in the order of ``order_ids``; an error is returned and not raised.
        """
        bodies: list[dict[str, Any]] = []
        for order_id in order_ids:
            body = yield from self.authority(self.cancel_of(order_id))
            bodies.append({**body, "orderId": order_id})
        return (yield from OrderRoutes.cancel_batch(self, bodies))

    @Method
    def cancel_all(
        self,
        market: str | None = None,
        *,
        token: str | int | None = None,
        side: AnySide | None = None,
    ) -> Steps[CancelledBody]:
        """Cancel all orders of the maker, or those that pass the filters, in one command.

        A signed request reaches the orders that were acknowledged before the call, and a copy of
        it reaches no later ones.

        Args:
            market: only orders of this market.
            token: only orders of this token: ``YES`` or ``NO`` of the market, or a token id.
            side: only buy or only sell orders.
        """
        token_id = None
        if token is not None:
            if market is None and str(token).upper() in ("YES", "NO"):
                raise InvalidCallError(f"token {token} needs its market: pass market, too")
            token_id = str((yield from self.read_token(market or "", token)))
        which = None if side is None else side_of(side)
        query = {
            "marketId": market,
            "tokenId": token_id,
            "side": None if which is None else which.name,
            "all": True if market is None and token_id is None and which is None else None,
        }

        def message(now_ms: int) -> Signed:
            error_ms = 0 if self._clock is None else self._clock.error_ms
            return SignedCancelAll(
                maker=self.maker,
                market_id=market or "",
                token_id=token_id or "",
                side=BOTH_SIDES if which is None else which,
                timestamp_ms=now_ms + error_ms + TICK_MS,
            )

        def send(body: dict[str, Any]) -> Steps[CancelledBody]:
            # The signed time must not be before any order that the maker knows of, and has to be
            # in the past where the request arrives.
            if "signature" in body:
                under_way_s = (yield from self.read_clock()).round_trip_ms / 2_000
                if under_way_s < TICKS_S:
                    yield Pause(TICKS_S - under_way_s)
            return (yield from OrderRoutes.cancel_orders(self, query, body))

        return (yield from self.with_time(message, send))

    @Method
    def reduce(
        self, order_id: str, remaining: AnySize, *, if_remaining: AnySize | None = None
    ) -> Steps[OrderBody]:
        """Reduce the remaining size of an order, which keeps its priority, and return it.

        Args:
            order_id: id, hash, or ``client:`` and the client order id.
            remaining: the new remaining size, above 0: an int in wei, or a str in tokens.
            if_remaining: remaining size that it must have now. REMAINING_CHANGED rejects the
                request otherwise.
        """
        wei = size_in_wei("remaining", remaining)
        more = {"remaining": str(wei), **expected_remaining(if_remaining)}

        def message(now_ms: int) -> Signed:
            return SignedReduce(
                order_id=order_id, maker=self.maker, remaining=wei, timestamp_ms=now_ms
            )

        def send(body: dict[str, Any]) -> Steps[OrderBody]:
            return OrderRoutes.reduce_order(self, order_id, {**body, **more})

        return (yield from self.with_time(message, send))

    @Method
    def set_nonce(self, nonce: int) -> Steps[NonceBody]:
        """Raise the nonce of the maker, which cancels all orders signed with a lower one."""
        message = yield from self.sign(SignedSetNonce(maker=self.maker, nonce=nonce))
        done = yield from OrderRoutes.post_nonce(self, message.to_json())
        self.nonce: int = max(self.nonce, nonce)
        return done

    @Method
    def set_delegate(
        self, delegate: str, *, nonce: int, allowed: bool = True
    ) -> Steps[DelegateBody]:
        """Allow a wallet to sign orders for the maker, or remove it.

        Args:
            delegate: address of the wallet.
            nonce: a number above that of the previous change.
            allowed: whether it may sign.
        """
        message = yield from self.sign(
            SignedSetDelegate(maker=self.maker, delegate=delegate, allowed=allowed, nonce=nonce)
        )
        return (yield from OrderRoutes.post_delegate(self, message.to_json()))

    # ----- bodies ------------------------------------------------------------------------------

    def body_of(self, order: LimitOrder) -> Steps[dict[str, Any]]:
        """Return the body that places an order, signed if the client has a signer.

        Raises:
            InvalidCallError: the token, the size or an option is invalid.
            RejectedError: another value is invalid.
        """
        if not isinstance(order, LimitOrder):
            raise InvalidCallError(f"an order must be a LimitOrder; got {order!r}")
        options, side = order.options, side_of(order.side)
        if not options.keys() <= OPTIONS:
            raise InvalidCallError(
                f"an order has no option {', '.join(sorted(options.keys() - OPTIONS))}; "
                f"its options are {', '.join(sorted(OPTIONS))}"
            )
        for name, unit in UNITS.items():
            if name in options:
                whole(name, options[name], unit)  # type: ignore[literal-required]
        size = size_in_wei("size", order.size)
        amounts_of(side, whole("price", order.price, "cents from 1 to 99"), size)
        body: dict[str, Any] = {"marketId": order.market}
        for name, json_name in JSON_NAMES.items():
            if name in options:
                body[json_name] = options[name]  # type: ignore[literal-required]
        token_id = yield from self.read_token(order.market, order.token)
        expiration_s = yield from self.expiration_of(options)
        if expiration_s:
            body.setdefault("timeInForce", "GTD")
        if self.signer is None:
            return {**body, **self.unsigned(order, options, side, token_id, size, expiration_s)}
        unsigned = SignedOrder.from_price_size(
            side=side,
            price=order.price,
            size=size,
            maker=self.maker,
            signer=self.signer.address,
            taker=ZERO_ADDRESS,
            token_id=token_id,
            salt=secrets.randbits(SALT_BITS),
            expiration_s=expiration_s,
            nonce=options.get("nonce", self.nonce),
            fee_rate_bps=options.get("fee_rate_bps", 0),
        )
        return {**(yield from self.sign(unsigned)).to_json(), **body}

    def unsigned(
        self,
        order: LimitOrder,
        options: LimitOrderOptions,
        side: Side,
        token_id: int,
        size: int,
        expiration_s: int,
    ) -> dict[str, Any]:
        """Return the fields of an unsigned order, with a name that makes a repetition safe."""
        fields: dict[str, Any] = {
            "maker": self.maker,
            "tokenId": str(token_id),
            "side": int(side),
            "price": order.price,
            "size": str(size),
            "clientOrderId": options.get("client_order_id") or secrets.token_urlsafe(16),
        }
        if expiration_s:
            fields["expiration"] = expiration_s
        if "nonce" in options:
            fields["nonce"] = str(options["nonce"])
        if "fee_rate_bps" in options:
            fields["feeRateBps"] = options["fee_rate_bps"]
        return fields

    def expiration_of(self, options: LimitOrderOptions) -> Steps[int]:
        """Return the last Unix second in which an order may trade; 0 for no end."""
        if "expires_in_s" in options:
            if "expiration_s" in options:
                raise InvalidCallError("an order has expires_in_s or expiration_s, not both")
            return (yield from self.read_now_ms()) // 1000 + options["expires_in_s"]
        return options.get("expiration_s", 0)

    # ----- authority to cancel -----------------------------------------------------------------

    def cancel_of(self, order_id: str) -> Callable[[int], Signed]:
        """Return the function that makes the message of a cancel at a time."""
        return lambda now_ms: SignedCancel(order_id=order_id, maker=self.maker, timestamp_ms=now_ms)

    def authority(self, message: Callable[[int], Signed]) -> Steps[dict[str, Any]]:
        """Return the maker, with a signature and its time if the client signs for it."""
        if not self.signs_for_maker:
            return {"maker": self.maker}
        signed = (yield from self.sign(message((yield from self.read_now_ms())))).to_json()
        return {name: signed[name] for name in ("maker", "timestamp", "signature")}

    def with_time(
        self, message: Callable[[int], Signed], send: Callable[[dict[str, Any]], Steps[T]]
    ) -> Steps[T]:
        """Send a request with a signed time; read the server's time again if it is rejected."""
        for _ in range(SIGNINGS - 1):
            body = yield from self.authority(message)
            try:
                return (yield from send(body))
            except ResponseError as error:
                if error.code != "TIMESTAMP_OUT_OF_WINDOW":
                    raise
            yield from Trading.sync_clock(self)
        return (yield from send((yield from self.authority(message))))
