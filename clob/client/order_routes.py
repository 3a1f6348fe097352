"""An order to place, and methods for orders, fills, accounts and gasless operations, one per route.

Bodies are those of ``/openapi.json``; :mod:`~clob.client.trading` builds and signs them.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from clob.client.base import AnySize, ClientBase
from clob.client.calls import CANCEL, ORDER, Call, decoder, pages, route
from clob.client.errors import ResponseError, response_error
from clob.order import Side
from clob.wire.accounts import AccountBody
from clob.wire.operations import (
    DepositAnswer,
    FaucetAnswer,
    MergeAnswer,
    OperationBody,
    RedeemAnswer,
    SplitAnswer,
    UnwrapAnswer,
    WithdrawAnswer,
    WithdrawRequestAnswer,
    WrapAnswer,
)
from clob.wire.orders import (
    CancelledBody,
    CreatedBody,
    DelegateBody,
    InvalidBody,
    MakerFill,
    NonceBody,
    OrderBody,
    OrderWithFills,
    OutlookBody,
    ReplacedBody,
    SwitchBody,
)

Json: TypeAlias = Mapping[str, Any]
"""A JSON object."""

_ORDER: Final = "/api/orders/{orderId}"
CHAIN_PATIENCE: Final = 6
"""Factor of the time-outs of operations, which wait for blocks."""


AnySide: TypeAlias = Side | Literal["BUY", "SELL"]


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


class _BatchResults(msgspec.Struct):
    results: list[msgspec.Raw]


class _Validity(msgspec.Struct):
    valid: bool


class OrderRoutes(ClientBase):
    """Methods for orders, fills, accounts and gasless operations."""

    # ----- placing -----------------------------------------------------------------------------

    @route("create_order", "POST", "/api/orders", ORDER)
    def create_order(self, body: Json) -> Call[CreatedBody]:
        """Place a signed order."""
        return Call(CreatedBody, body=body, is_repeatable=True)

    @route("create_gasless_order", "POST", "/api/orders/gasless", ORDER)
    def create_gasless_order(self, body: Json) -> Call[CreatedBody]:
        """Place an order without a signature; with a ``clientOrderId`` it is repeatable."""
        return Call(CreatedBody, body=body, is_repeatable=is_named(body))

    @route("create_batch", "POST", "/api/orders/batch", ORDER)
    def create_batch(
        self, orders: Sequence[Json], *, atomic: bool = False
    ) -> Call[list[CreatedBody | ResponseError]]:
        """Place up to 20 orders; an error is the result of its order and is not raised."""
        return Call(
            list[CreatedBody | ResponseError],
            body={"orders": orders, "atomic": atomic},
            decode=lambda content: batch_results(content, CreatedBody),
            is_repeatable=all(map(is_named, orders)),
            orders=len(orders),
        )

    @route("replace_order", "POST", f"{_ORDER}/replace", ORDER)
    def replace_order(self, order_id: str, body: Json) -> Call[ReplacedBody]:
        """Cancel an order and place another one: both or neither."""
        return Call(ReplacedBody, (order_id,), body=body, is_repeatable=is_named(body))

    @route("validate_order", "POST", "/api/orders/validate", ORDER)
    def validate_order(self, body: Json) -> Call[OutlookBody | InvalidBody]:
        """Check an order without placing it; a rejection is the result and is not raised."""
        kind: Any = OutlookBody | InvalidBody
        return Call(kind, body=body, decode=read_validity, is_repeatable=True)

    @route("simulate_order", "POST", "/api/orders/simulate")
    def simulate_order(self, body: Json) -> Call[OutlookBody]:
        """Return the trades that an order would make now."""
        return Call(OutlookBody, body=body, is_repeatable=True)

    # ----- cancelling --------------------------------------------------------------------------

    @route("cancel_order", "DELETE", _ORDER, CANCEL)
    def cancel_order(self, order_id: str, body: Json) -> Call[OrderBody]:
        """Cancel an order and return it."""
        return Call(OrderBody, (order_id,), body=body, is_repeatable=True, recover=cancelled_before)

    @route("cancel_orders", "DELETE", "/api/orders", CANCEL)
    def cancel_orders(self, query: Json, body: Json) -> Call[CancelledBody]:
        """Cancel the orders of a maker that pass the filters of the query.

        The count is that of the last attempt; one that was repeated may miss orders that an
        earlier attempt cancelled.
        """
        return Call(CancelledBody, query=query, body=body, is_repeatable=True)

    @route("cancel_batch", "DELETE", "/api/orders/batch", CANCEL)
    def cancel_batch(self, cancels: Sequence[Json]) -> Call[list[OrderBody | ResponseError]]:
        """Cancel up to 20 orders; an error is the result of its order and is not raised."""
        return Call(
            list[OrderBody | ResponseError],
            body={"orders": cancels},
            decode=lambda content: batch_results(content, OrderBody),
            is_repeatable=True,
        )

    @route("reduce_order", "PATCH", _ORDER, CANCEL)
    def reduce_order(self, order_id: str, body: Json) -> Call[OrderBody]:
        """Reduce the remaining size of an order, which keeps its priority."""
        remaining = str(body.get("remaining"))
        return Call(
            OrderBody,
            (order_id,),
            body=body,
            is_repeatable=True,
            recover=lambda error: reduced_before(error, remaining),
        )

    @route("heartbeat", "POST", "/api/orders/heartbeat", CANCEL)
    def heartbeat(self, timeout_ms: int, *, maker: str | None = None) -> Call[SwitchBody]:
        """Keep all orders of a maker for a time; without another heartbeat they are cancelled.

        It is not repeated if its outcome is unknown: a repetition would hide in ``changed`` that
        the switch had fired.

        Args:
            timeout_ms: milliseconds until the next heartbeat at most; 0 awaits none.
            maker: the maker; None is that of the client.
        """
        body = {"maker": maker or self.maker, "timeoutMs": timeout_ms}
        return Call(SwitchBody, body=body)

    @route("set_nonce", "POST", "/api/orders/nonce")
    def post_nonce(self, body: Json) -> Call[NonceBody]:
        """Raise a maker's nonce by a signed request."""
        return Call(NonceBody, body=body)

    @route("set_delegate", "POST", "/api/orders/delegates")
    def post_delegate(self, body: Json) -> Call[DelegateBody]:
        """Allow or remove a delegate of a maker by a signed request."""
        return Call(DelegateBody, body=body)

    # ----- reading -----------------------------------------------------------------------------

    @route("get_order", "GET", _ORDER)
    def order(
        self, order_id: str, *, maker: str | None = None, fills: bool | None = None
    ) -> Call[OrderWithFills]:
        """Return an order.

        Args:
            order_id: its id, its hash, or ``client:`` and its client order id.
            maker: its maker; None is that of the client for ``client:``, and any otherwise.
            fills: whether to add its trades.
        """
        if maker is None and str(order_id).startswith("client:"):
            maker = self.maker
        return Call(OrderWithFills, (order_id,), {"maker": maker, "fills": fills})

    @pages("list_orders", "/api/orders")
    def orders(
        self,
        *,
        maker: str | None = None,
        market: str | None = None,
        token_id: int | str | None = None,
        side: str | None = None,
        status: str | None = None,
        client_order_id: str | None = None,
        min_seq: int | None = None,
        limit: int | None = None,
    ) -> Call[list[OrderBody]]:
        """Iterate over orders of a maker: open ones in order of acceptance, then finished ones.

        Args:
            maker: the maker; None is that of the client.
            market: only orders of this market.
            token_id: only orders of this token.
            side: ``BUY`` or ``SELL``.
            status: ``open`` (default), ``filled``, ``cancelled``, ``expired`` or ``all``.
            client_order_id: only the orders of this name, open or finished.
            min_seq: number of a command that the answer must contain.
            limit: orders per request.
        """
        query = {
            "maker": maker or self.maker,
            "marketId": market,
            "tokenId": token_id,
            "side": side,
            "status": status,
            "clientOrderId": client_order_id,
            "minSeq": min_seq,
            "limit": limit,
        }
        return Call(list[OrderBody], query=query)

    @pages("list_fills", "/api/fills")
    def fills(
        self,
        *,
        maker: str | None = None,
        market: str | None = None,
        after: str | None = None,
        min_seq: int | None = None,
        limit: int | None = None,
    ) -> Call[list[MakerFill]]:
        """Iterate over the trades of a maker, from its point of view.

        Args:
            maker: the maker; None is that of the client.
            market: only trades of this market.
            after: ``cursor`` of the last known fill, or empty text for none: returns later ones,
                the oldest first. None starts with the newest.
            min_seq: number of a command that the answer must contain.
            limit: fills per request.
        """
        query = {
            "maker": maker or self.maker,
            "marketId": market,
            "order": None if after is None else "asc",
            "after": after,
            "minSeq": min_seq,
            "limit": limit,
        }
        return Call(list[MakerFill], query=query)

    @route("get_account", "GET", "/api/accounts/{maker}")
    def account(
        self, maker: str | None = None, *, market: str | None = None, min_seq: int | None = None
    ) -> Call[AccountBody]:
        """Return balances and positions of a wallet.

        Args:
            maker: the wallet; None is that of the client.
            market: only this market.
            min_seq: number of a command that the answer must contain.
        """
        return Call(AccountBody, (maker or self.maker,), {"marketId": market, "minSeq": min_seq})

    # ----- operations on the chain -------------------------------------------------------------

    @route("gasless_split", "POST", "/api/gasless/split")
    def post_split(self, body: Json, *, key: str | None = None) -> Call[SplitAnswer]:
        """Convert collateral into both tokens of a condition."""
        return operation(SplitAnswer, body, key)

    @route("gasless_merge", "POST", "/api/gasless/merge")
    def post_merge(self, body: Json, *, key: str | None = None) -> Call[MergeAnswer]:
        """Convert both tokens of a condition into collateral."""
        return operation(MergeAnswer, body, key)

    @route("gasless_redeem", "POST", "/api/gasless/redeem")
    def post_redeem(self, body: Json, *, key: str | None = None) -> Call[RedeemAnswer]:
        """Redeem the tokens of a resolved condition."""
        return operation(RedeemAnswer, body, key)

    @route("gasless_deposit", "POST", "/api/gasless/deposit")
    def post_deposit(self, body: Json, *, key: str | None = None) -> Call[DepositAnswer]:
        """Move collateral or tokens into escrow."""
        return operation(DepositAnswer, body, key)

    @route("gasless_withdraw_request", "POST", "/api/gasless/withdraw-request")
    def post_withdrawal_request(
        self, body: Json, *, key: str | None = None
    ) -> Call[WithdrawRequestAnswer]:
        """Submit a signed request to withdraw from escrow."""
        return operation(WithdrawRequestAnswer, body, key)

    @route("gasless_withdraw", "POST", "/api/gasless/withdraw")
    def post_withdrawal(self, body: Json, *, key: str | None = None) -> Call[WithdrawAnswer]:
        """Pay a requested withdrawal from escrow."""
        return operation(WithdrawAnswer, body, key)

    @route("gasless_wrap", "POST", "/api/gasless/wrap")
    def post_wrap(self, body: Json, *, key: str | None = None) -> Call[WrapAnswer]:
        """Convert stablecoin into collateral."""
        return operation(WrapAnswer, body, key)

    @route("gasless_unwrap", "POST", "/api/gasless/unwrap")
    def post_unwrap(self, body: Json, *, key: str | None = None) -> Call[UnwrapAnswer]:
        """Convert collateral into stablecoin."""
        return operation(UnwrapAnswer, body, key)

    @route("gasless_faucet", "POST", "/api/gasless/faucet")
    def faucet(self, *, user: str | None = None, key: str | None = None) -> Call[FaucetAnswer]:
        """Send test collateral to a wallet; in the test environment only.

        Args:
            user: the wallet; None is that of the client.
            key: name of the request, which is executed once; None makes a new one.
        """
        return operation(FaucetAnswer, {"user": user or self.maker}, key)

    @route("gasless_operation", "GET", "/api/gasless/operations/{operationId}")
    def operation(self, operation_id: str) -> Call[OperationBody]:
        """Return the state of an operation."""
        return Call(OperationBody, (operation_id,))


def operation(kind: Any, body: Json, key: str | None) -> Call[Any]:
    """Return the call of an operation; its name makes a repetition safe."""
    headers = {"idempotency-key": key or secrets.token_urlsafe(24)}
    return Call(kind, body=body, headers=headers, is_repeatable=True, patience=CHAIN_PATIENCE)


def is_named(body: Json) -> bool:
    """Return whether the server recognises a repetition of an order."""
    return bool(body.get("signature") or body.get("clientOrderId"))


def cancelled_before(error: ResponseError) -> OrderBody | None:
    """Return the order that an earlier attempt cancelled; None otherwise."""
    order = order_in(error) if error.code == "ORDER_NOT_OPEN" else None
    return order if order is not None and order.status == "cancelled" else None


def reduced_before(error: ResponseError, remaining: str) -> OrderBody | None:
    """Return the order that an earlier attempt reduced to a size; None otherwise."""
    is_late = error.code in ("SIZE_NOT_REDUCED", "REMAINING_CHANGED")
    order = order_in(error) if is_late else None
    return order if order is not None and order.remaining == remaining else None


def order_in(error: ResponseError) -> OrderBody | None:
    """Return the order that an error shows; None without one."""
    order = error.body.get("order")
    return None if order is None else msgspec.convert(order, OrderBody)


def batch_results(content: bytes, kind: Any) -> list[Any]:
    """Return the results of a batch, errors included."""
    read, raw = decoder(kind), decoder(_BatchResults)(content).results
    errors = (response_error(bytes(each), 0) for each in raw)
    return [read(each) if error is None else error for each, error in zip(raw, errors, strict=True)]


def read_validity(content: bytes) -> OutlookBody | InvalidBody:
    """Return the result of a validation."""
    kind = OutlookBody if decoder(_Validity)(content).valid else InvalidBody
    body: OutlookBody | InvalidBody = decoder(kind)(content)
    return body
