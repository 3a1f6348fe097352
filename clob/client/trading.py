"""Methods of a client in the words of a trader: buy, sell, replace, cancel, split, wrap, deposit.

They add the signature, the token id, the salt and the time of the server.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias, TypeVar, Unpack

import msgspec

from clob.client.base import WORD, AnySize, size_in_wei, text_in, whole
from clob.client.errors import (
    InvalidCallError,
    ResponseError,
    UnavailableError,
    UnexpectedReplyError,
)
from clob.client.order_routes import (
    JSON_NAMES,
    OPTIONS,
    UNITS,
    AnySide,
    LimitOrder,
    LimitOrderOptions,
    OrderRoutes,
)
from clob.client.steps import Method, Pause, Steps
from clob.order import Side
from clob.signing import (
    Domain,
    Signed,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedPermit,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    SignedWithdrawal,
    amounts_of,
)
from clob.signing.messages import BOTH_SIDES
from clob.signing.order import ZERO_ADDRESS
from clob.wire.operations import (
    DepositAnswer,
    MergeAnswer,
    Permit,
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
    NonceBody,
    OrderBody,
    OutlookBody,
    ReplacedBody,
)

T = TypeVar("T")

CLIENT: Final = "client:"
SALT_BITS: Final = 64
SIGNINGS: Final = 3
"""Attempts to sign a time that the server accepts."""
TICK_MS: Final = 1
"""Resolution of the times of orders and requests."""
TICKS_S: Final = 0.003
"""Time from the signature of a cancel of all orders to its arrival at least."""


AnyPermit: TypeAlias = bool | int | Permit
PermitToken: TypeAlias = Literal["collateral", "stablecoin"]

PERMIT_S: Final = 3_600
"""Seconds for which a permit or a request to withdraw is valid."""
NONCE_BITS: Final = 128
"""Random bits of the nonce of a request to withdraw."""
COLLATERAL: Final = "collateral"
"""The asset in escrow that is not an outcome token."""
NONCES: Final = "0x7ecebe00"
NAME: Final = "0x06fdde03"
VERSION: Final = "0x54fd4d50"
"""Functions of a token with permits: ``nonces(address)``, ``name()`` and ``version()``."""
SCALE: Final = "0x9d8e2177"
"""Function of the collateral: ``UNIT()``, its wei for the smallest unit of the stablecoin."""


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


class Trading(OrderRoutes):
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
            options: see :class:`~clob.client.LimitOrderOptions`.

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

    # ----- collateral and tokens ---------------------------------------------------------------

    @Method
    def split(
        self, market: str, amount: AnySize, *, permit: AnyPermit = False
    ) -> Steps[SplitAnswer]:
        """Convert collateral of the maker into the same amount of both tokens of a market.

        The maker must have approved the operator for its collateral, or sign a permit.

        Args:
            market: a market with a condition on the chain.
            amount: an int in wei, or a str in units.
            permit: True to sign one for the amount that is valid for an hour; its last Unix second;
                or the result of :meth:`sign_permit`. It is used if the approval is too small.
        """
        body = yield from self.conversion(market, amount)
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_split(self, body))

    @Method
    def wrap(self, amount: AnySize, *, permit: AnyPermit = False) -> Steps[WrapAnswer]:
        """Convert stablecoin of the maker into collateral; the operator needs an approval of it.

        Args:
            amount: amount of collateral, an int in wei, or a str in units; a multiple of the
                smallest unit of the stablecoin.
            permit: see :meth:`split`; for the stablecoin, if that has permits.
        """
        body = {"user": self.maker, "amount": str(size_in_wei("amount", amount))}
        yield from self.add_permit(body, amount, permit, "stablecoin")
        return (yield from OrderRoutes.post_wrap(self, body))

    @Method
    def unwrap(self, amount: AnySize, *, permit: AnyPermit = False) -> Steps[UnwrapAnswer]:
        """Convert collateral of the maker into stablecoin; see :meth:`wrap` and :meth:`split`."""
        body = {"user": self.maker, "amount": str(size_in_wei("amount", amount))}
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_unwrap(self, body))

    def add_permit(
        self, body: dict[str, Any], amount: AnySize, permit: AnyPermit, token: PermitToken
    ) -> Steps[None]:
        """Add a permit to the body of an operation; sign it unless it is signed."""
        if permit is True:
            permit = yield from Trading.sign_permit(self, amount, token=token)
        elif permit is not False and not isinstance(permit, Permit):
            permit = yield from Trading.sign_permit(self, amount, deadline_s=permit, token=token)
        if isinstance(permit, Permit):
            body["permit"] = msgspec.to_builtins(permit)

    @Method
    def sign_permit(
        self, amount: AnySize, *, deadline_s: int | None = None, token: PermitToken = "collateral"
    ) -> Steps[Permit]:
        """Sign an approval of a token for the operator (EIP-2612), without a transaction.

        The number of earlier permits, and the name of the token, are read from a node, see
        ``rpc_url`` of the client.

        Args:
            amount: amount of collateral, an int in wei, or a str in units.
            deadline_s: last Unix second; None is an hour from now, by the server's time.
            token: ``collateral``, or the ``stablecoin`` that it wraps.

        Raises:
            InvalidCallError: the client does not sign for the maker itself, or there is no node.
            UnavailableError: the chain is not ready.
            ConnectionFailedError: the node cannot be reached.
            UnexpectedReplyError: the node does not know the token, or it has no permits.
        """
        value = size_in_wei("amount", amount)
        if self.signer is None or not self.signs_for_maker:
            raise InvalidCallError(
                "a permit needs the key of the maker itself: pass it as signer to the client"
            )
        chain = (yield from OrderRoutes.info(self)).chain
        if chain is None:
            raise InvalidCallError("this server has no chain, so there is no collateral")
        contract = chain.stablecoin if token == "stablecoin" else chain.collateral
        if contract is None or chain.collateral is None or chain.operator is None:
            text = f"the chain is {chain.state}"
            raise UnavailableError("CHAIN_UNAVAILABLE", text, status=503, retryable=True)
        url = self.rpc_url or chain.rpc_url
        if url is None:
            raise InvalidCallError(
                "a permit needs a node of the chain: pass its JSON-RPC address as rpc_url to the "
                "client"
            )
        owner = self.maker
        nonce = yield from self.call_contract(url, contract, f"{NONCES}{owner[2:]:0>64}")
        name = yield from self.call_contract(url, contract, NAME)
        version = "1"
        if token == "stablecoin":
            scale = yield from self.call_contract(url, chain.collateral, SCALE)
            value //= max(1, int.from_bytes(scale[:WORD]))
            with suppress(UnexpectedReplyError):  # a token without this function has the first one
                version = text_in((yield from self.call_contract(url, contract, VERSION)))
        if deadline_s is None:
            deadline_s = (yield from self.read_now_ms()) // 1000 + PERMIT_S
        unsigned = SignedPermit(
            owner=owner,
            spender=chain.operator,
            value=value,
            nonce=int.from_bytes(nonce[:WORD]),
            deadline=whole("deadline_s", deadline_s, "Unix seconds"),
        )
        domain = Domain(text_in(name), version, chain.id, contract)
        signed = (yield from self.signer.signed(unsigned, domain)).signature
        return Permit(
            value=str(value),
            deadline=str(unsigned.deadline),
            v=27 + int(signed[-2:], 16) % 27,
            r=signed[:66],
            s=f"0x{signed[66:-2]}",
        )

    @Method
    def merge(self, market: str, amount: AnySize) -> Steps[MergeAnswer]:
        """Convert the same amount of both tokens of a market into collateral; see :meth:`split`."""
        body = yield from self.conversion(market, amount)
        return (yield from OrderRoutes.post_merge(self, body))

    @Method
    def redeem(self, market: str) -> Steps[RedeemAnswer]:
        """Redeem all tokens of the maker of a resolved market."""
        condition_id = (yield from self.read_condition(market)).condition_id
        body = {"user": self.maker, "conditionId": condition_id}
        return (yield from OrderRoutes.post_redeem(self, body))

    # ----- escrow ------------------------------------------------------------------------------

    @Method
    def deposit(
        self,
        amount: AnySize,
        token: int | str | None = None,
        *,
        permit: bool | int | Permit = False,
    ) -> Steps[DepositAnswer]:
        """Move collateral or tokens of the maker into its escrow, for escrow markets.

        The maker must have approved the operator for them; for collateral it may sign a permit.

        Args:
            amount: an int in wei, or a str in units.
            token: the outcome token; None for collateral.
            permit: as in :meth:`split`.
        """
        body = {"user": self.maker, "asset": COLLATERAL if token is None else str(token)}
        body["amount"] = str(size_in_wei("amount", amount))
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_deposit(self, body))

    @Method
    def request_withdrawal(
        self, amount: AnySize, token: int | str | None = None
    ) -> Steps[WithdrawRequestAnswer]:
        """Sign and send a request to withdraw from escrow, which replaces an earlier one.

        The amount covers no more orders; :meth:`withdraw` pays it after the delay of the contract.

        Args:
            amount: an int in wei, or a str in units; 0 ends the request.
            token: the outcome token; None for collateral.

        Raises:
            InvalidCallError: the client does not sign for the maker itself.
        """
        if self.signer is None or not self.signs_for_maker:
            raise InvalidCallError(
                "a request to withdraw needs the key of the maker itself: pass it as signer to the "
                "client"
            )
        signed = yield from self.sign(
            SignedWithdrawal(
                wallet=self.maker,
                asset=0 if token is None else int(token),
                amount=size_in_wei("amount", amount),
                nonce=secrets.randbits(NONCE_BITS),
                deadline=(yield from self.read_now_ms()) // 1000 + PERMIT_S,
            )
        )
        body = {
            "user": self.maker,
            "asset": COLLATERAL if token is None else str(token),
            "amount": str(signed.amount),
            "nonce": str(signed.nonce),
            "deadline": str(signed.deadline),
            "signature": signed.signature,
        }
        return (yield from OrderRoutes.post_withdrawal_request(self, body))

    @Method
    def withdraw(self, token: int | str | None = None) -> Steps[WithdrawAnswer]:
        """Pay a requested withdrawal to the maker, once its delay has passed.

        Args:
            token: the outcome token; None for collateral.
        """
        body = {"user": self.maker, "asset": COLLATERAL if token is None else str(token)}
        return (yield from OrderRoutes.post_withdrawal(self, body))

    def conversion(self, market: str, amount: AnySize) -> Steps[dict[str, Any]]:
        """Return the body of a split or a merge."""
        wei = size_in_wei("amount", amount)
        terms = yield from self.read_condition(market)
        return {
            "user": self.maker,
            "amount": str(wei),
            "conditionId": terms.condition_id,
            "yesTokenId": terms.yes_token_id,
            "noTokenId": terms.no_token_id,
        }

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
