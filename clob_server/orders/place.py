"""Places orders: from the body of a request to one command, and from its result to the reply.

Checks run in the order of :data:`clob_server.api.problems.PROBLEMS`: fields, amounts, market and
token, cancels and permissions on the chain, signature. The matcher does the rest.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from clob import Event, Market, Order, OrderAdded, Rejected, RejectedError, Side, Submit, Trade
from clob.errors import OrderAlreadyUsedError, UnknownOrderError
from clob.signing import (
    ZERO_ADDRESS,
    Domain,
    InvalidFieldError,
    InvalidSignatureError,
    SignedOrder,
    SignerNotAuthorisedError,
    amounts_of,
    fields,
    order_hash,
    to_order,
    verify,
)
from clob.signing.fields import received
from clob.status import OrderStatus, status_of
from clob.units import FEE_RATE_MAX_BPS
from clob.wire.orders import NO_SIGNATURE, CreatedBody, TradeSummary
from clob_server.api.faults import check_wallet, fault, missing, read_wallet
from clob_server.api.options import (
    EXPIRATION_MAX_S,
    OPTIONAL,
    OrderOptions,
    check_expiration,
    read_options,
)
from clob_server.api.request import ApiRequest, Reply, reply
from clob_server.auth.guard import Guard
from clob_server.chain.events import WalletHolding
from clob_server.core.commands import SignatureRecord
from clob_server.core.ids import Ids
from clob_server.core.lifecycle import Lifecycle, Phase
from clob_server.core.rejections import MarketStalledError
from clob_server.core.sequencer import Committed, NewOrder, QueuedCommand, Work
from clob_server.core.serialize import is_own
from clob_server.core.state import ServerState
from clob_server.orders import resource
from clob_server.orders.lookup import OrderLookup
from clob_server.orders.permissions import Permissions
from clob_server.orders.resource import is_placeholder
from clob_server.settings import Settings

NO_ID: Final = "?"
"""The id of an order before the sequencer assigns one."""

PLACEHOLDER: Final = (
    "signature has only zeros, which stands for an order without a signature; sign the order, or "
    "send it to POST /api/orders/gasless"
)

Placed: TypeAlias = Reply | Awaitable[Reply] | QueuedCommand
"""The result of placing an order: a command to commit, or the reply to an order sent again."""

_encode: Final = msgspec.json.Encoder().encode
_encode_record: Final = msgspec.msgpack.Encoder().encode


class ParsedOrder(msgspec.Struct, frozen=True, gc=False):
    """An order that was read, for a market that can take it."""

    order: Order
    """The order, without its id."""
    options: OrderOptions
    opens_market: bool
    """Whether its market, or its token in the market, opens with it."""
    signed: SignedOrder | None = None
    """The signed order; None for an order without a signature."""
    order_hash: bytes | None = None
    """The hash that was signed."""
    takes_nonce: bool = False
    """Whether its nonce is the maker's at the time of its arrival."""

    def submit(self, attachment: bytes | None = None, now_ms: int = 0) -> Submit:
        """Return the command that places the order."""
        options = self.options
        return Submit(
            market=options.market,
            order=self.order,
            client_id=options.client_id,
            order_hash=self.order_hash,
            deadline_ms=options.deadline_ms,
            attachment=attachment,
            now_ms=now_ms,
        )

    def new(self, payer: bytes | None = None, opener: bytes | None = None) -> NewOrder:
        """Return the order for the sequencer, with its signature record attached.

        Args:
            payer: the budget that it was charged to.
            opener: the client that pays for its market; None unless the market opens with it.
        """
        signed, attachment = self.signed, None
        if signed is not None:
            record = SignatureRecord(
                signer=signed.signer,
                salt=str(signed.salt),
                taker=signed.taker,
                signature_type=signed.signature_type,
                signature=bytes.fromhex(signed.signature[2:]),
            )
            attachment = _encode_record(record)
        return NewOrder(self.submit(attachment), opener, payer)


@dataclass(slots=True, eq=False)
class OrderPlacement:
    """Reads, checks and places orders."""

    settings: Settings
    domain: Domain
    """The EIP-712 domain that orders are signed for."""
    state: ServerState
    ids: Ids
    lifecycle: Lifecycle
    guard: Guard
    lookup: OrderLookup
    submit: Callable[[Work], Awaitable[Committed]]
    """Commits a command; returns its rejection."""
    permissions: Permissions
    operator: Callable[[], str | None]
    """Returns the operator of the chain; None while it is unknown."""
    holding: Callable[[str, str], WalletHolding | None] = lambda wallet, asset: None
    """Returns the last report of an account by the chain."""
    ask_for: Callable[[Iterable[str]], Awaitable[object] | None] = lambda wallets: None
    """Returns the reading of wallets that the chain worker has dropped, or None."""
    _is_strict: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_strict = self.settings.price_policy == "strict"

    # ----- requests ----------------------------------------------------------------------------

    def create_signed(self, call: ApiRequest) -> Placed:
        """Place a signed order."""
        if self.lifecycle.phase is not Phase.READY:
            self.lifecycle.check_open()
        parsed = self.read_signed(call.object())
        self.check_signature(parsed)
        return self.place(call, parsed)

    def create_gasless(self, call: ApiRequest) -> Placed:
        """Place an order without a signature."""
        self.lifecycle.check_open()
        parsed = self.read_gasless(call.object())
        self.guard.may_act_for(call, parsed.order.maker)
        return self.place(call, parsed)

    def place(self, call: ApiRequest, parsed: ParsedOrder) -> Placed:
        """Return the command that places an order, or the first reply to it (decision 23)."""
        accepted = self.accepted_as(parsed)
        if accepted is not None:
            return self._reply_again(accepted)
        opener = self.opener(call) if parsed.opens_market else None
        queued = QueuedCommand(parsed.new(call.payer, opener), partial(self._reply, parsed))
        reading = self.reading((parsed,))
        return queued if reading is None else self._place_later(reading, queued)

    def reading(self, parsed: Iterable[ParsedOrder]) -> Awaitable[object] | None:
        """Return the reading of the wallets of orders that the chain worker dropped; None mostly.

        Their accounts are empty until then.
        """
        settles = self.state.settles
        if not settles:
            return None
        orders = [each.order for each in parsed if each.options.market in settles]
        if not orders:
            return None
        return self.ask_for(wallet for each in orders for wallet in wallets_of(each))

    async def _place_later(self, reading: Awaitable[object], queued: QueuedCommand) -> Reply:
        """Place an order after the wallets of its maker were read."""
        await reading
        placed: Placed = queued.then(await self.submit(queued.work))
        assert not isinstance(placed, QueuedCommand)
        return placed if isinstance(placed, Reply) else await placed

    def opener(self, call: ApiRequest) -> bytes:
        """Return the client that a market counts for which opens with an order of a request."""
        return self.guard.limiter.payer(call.key, call.address)

    # ----- reading -----------------------------------------------------------------------------

    def read(self, body: dict[str, Any], *, is_complete: bool = True) -> ParsedOrder:
        """Read an order of either kind: with a price and no signature it is a gasless one.

        Args:
            body: the order in JSON.
            is_complete: whether a signed order must have its signature.

        Raises:
            RejectedError, ApiError: as :meth:`read_gasless` or :meth:`read_signed`.
        """
        if "price" in body and is_placeholder(body.get("signature")):
            return self.read_gasless(body)
        return self.read_signed(body, is_complete=is_complete)

    def read_signed(self, body: dict[str, Any], *, is_complete: bool = True) -> ParsedOrder:
        """Read a signed order; :meth:`check_signature` checks its signature.

        Raises:
            RejectedError: a field of the order is invalid, or the amounts are not a price.
            ApiError: INVALID_FIELD, a field is unknown or missing, or an option is invalid;
                INVALID_ADDRESS, the maker or its wallet is the zero address; ORDER_CANCELLED or
                WALLET_NOT_ALLOWED in a market that settles.
            UnknownMarketError, TokenNotInMarketError: and the market does not open by itself.
        """
        is_plain = body.keys() <= resource.SIGNED  # most orders
        if not is_plain:
            resource.check_known(body)
        try:
            signed = SignedOrder.from_json(body)
        except InvalidFieldError as error:
            raise resource.with_rule(body, error) from None
        if is_complete and not signed.signature and body.get("signature") is None:
            raise missing("signature", resource.RULES["signature"])
        if signed.maker == ZERO_ADDRESS:
            check_wallet("maker", signed.maker)
        if signed.expiration_s >= EXPIRATION_MAX_S:
            check_expiration(signed.expiration_s)
        name = body.get("marketId")
        market = self.state.markets.get(name) if type(name) is str else None
        if market is not None and OPTIONAL.isdisjoint(body):  # most orders
            options = OrderOptions(market.id)
        else:
            options = read_options(body)
        settles = market is not None and market.settles
        wallet = body.get("smartWallet") if settles and not is_plain else None
        order = to_order(
            signed,
            id=NO_ID,
            strict=self._is_strict,
            settles=settles,
            operators=self._takers() if settles else self.settings.operators,
            time_in_force=options.time_in_force,
            post_only=options.post_only,
            self_trade=options.self_trade,
            smart_wallet=read_wallet("smartWallet", wallet) if wallet else "",
        )
        opens_market = market is None or (order.token != market.yes and order.token != market.no)
        if opens_market:
            self._check_opens(options.market, market, order.token)
        digest = order_hash(signed, self.domain)
        if not is_plain:
            resource.check_signed(body, order, repeats=digest in self.state.used_hashes)
        if settles:
            self.permissions.check_not_cancelled(digest)
            self.permissions.check_wallet(order)
        self.permissions.check_maker(order, settles=settles)
        return ParsedOrder(order, options, opens_market, signed, digest)

    def read_gasless(self, body: dict[str, Any]) -> ParsedOrder:
        """Read an order without a signature (specification, "create a gasless order").

        ``expiration``, ``feeRateBps`` and ``nonce`` have the meaning that they have in a signed
        order; without a nonce the order gets the maker's current one.

        Raises:
            RejectedError: a field of the order is invalid, or its size costs nothing at its price.
            ApiError: INVALID_FIELD, a field is unknown, missing or not neutral, or an option is
                invalid; INVALID_ADDRESS, a wallet is the zero address; INVALID_FEE_RATE;
                GASLESS_NOT_ALLOWED or WALLET_NOT_ALLOWED in a market that settles.
            UnknownMarketError, TokenNotInMarketError: and the market does not open by itself.
        """
        is_plain = body.keys() <= resource.GASLESS
        if not is_plain:
            resource.check_known(body)
        get = body.get
        maker, wallet, nonce = read_wallet("maker", get("maker")), get("smartWallet"), get("nonce")
        token = str(fields.uint("tokenId", resource.required(body, "tokenId")))
        side = fields.side("side", resource.required(body, "side"))
        price = resource.required(body, "price")
        size = fields.amount("size", resource.required(body, "size"))
        options = read_options(body)
        expiration_s, fee_rate_bps = read_terms(body)
        maker_amount, taker_amount = amounts_of(side, price, size)
        order = Order(
            id=NO_ID,
            token=token,
            maker=maker,
            side=Side(side),
            price=price,
            size=size,
            time_in_force=options.time_in_force,
            expiration_s=expiration_s,
            post_only=options.post_only,
            self_trade=options.self_trade,
            nonce=self.permissions.nonce(maker) if nonce is None else fields.uint("nonce", nonce),
            collateral=maker_amount if side == Side.BUY else taker_amount,
            fee_rate_bps=fee_rate_bps,
            smart_wallet="" if wallet is None else read_wallet("smartWallet", wallet),
        )
        if not is_plain:
            resource.check_gasless(body, order, (maker_amount, taker_amount))
        market = self.state.markets.get(options.market)
        opens_market = market is None or (token != market.yes and token != market.no)
        if opens_market:
            self._check_opens(options.market, market, token)
        if market is not None and market.settles:
            self.permissions.check_unsigned(order)
            self.permissions.check_maker(order, settles=True)
        return ParsedOrder(order, options, opens_market, takes_nonce=nonce is None)

    def _takers(self) -> tuple[str, ...]:
        """Return the takers that an order of a market that settles may name."""
        operator = self.operator()
        return () if operator is None else (operator,)

    def _check_opens(self, name: str, market: Market | None, token: str) -> None:
        """Check that a market, or a token in a market, may open with an order."""
        if market is None:
            if not self.settings.opens_markets:
                self.state.matcher.market(name)  # raises UnknownMarketError
        elif market.no or not self.settings.opens_markets:
            self.state.matcher.depth(name, token, 0)  # raises TokenNotInMarketError

    def check_signature(self, parsed: ParsedOrder) -> None:
        """Check that the signer signed, and may sign for the maker. About 45 us.

        Raises:
            InvalidSignatureError: the signature is not the signer's.
            SignerNotAuthorisedError: the signer may not sign for the maker.
        """
        signed = parsed.signed
        if signed is None:
            return
        market = parsed.options.market
        try:
            verify(
                signed,
                self.domain,
                digest=parsed.order_hash,
                delegates=partial(self.permissions.may_sign, market),
            )
        except SignerNotAuthorisedError as rejection:
            if market in self.state.settles:
                raise self.permissions.with_call(signed, rejection) from None
            raise
        except InvalidSignatureError as rejection:
            if signed.signature == NO_SIGNATURE:
                raise fault("signature", PLACEHOLDER, "INVALID_SIGNATURE") from None
            rejection.args = (f"{rejection}; POST /api/orders/validate explains a wrong signature",)
            raise

    # ----- replies -----------------------------------------------------------------------------

    def _reply(self, parsed: ParsedOrder, committed: Committed) -> Placed:
        """Return the reply to an order that was committed.

        Raises:
            RejectedError: the matcher rejected it.
        """
        events, command = committed.outcome, committed.command
        if isinstance(events, RejectedError):
            if isinstance(events, OrderAlreadyUsedError):  # it was sent twice at the same time
                accepted = self.accepted_as(parsed)
                if accepted is not None:
                    return self._reply_again(accepted)
            raise self.explained(parsed.order, parsed.options.market, events)
        assert type(command) is Submit
        trades: list[TradeSummary] = []
        status = OrderStatus.OPEN
        if not just_rests(events):
            number, traded = committed.num_trades, None
            for event in events:
                if isinstance(event, Trade):
                    number, traded = number + 1, event
                    if type(event) is Trade or is_own(event):
                        trades.append(
                            TradeSummary(
                                id=self.ids.trade(command.now_ms, number),
                                price=event.price,
                                size=str(event.size),
                                tx_hash=None,
                            )
                        )
            status = status_after(events, traded)
        body = CreatedBody(
            success=True,
            order_id=str(command.order.id),
            matched=bool(trades),
            trades=trades,
            status=status,
        )
        return Reply(_encode(body))

    def explained(self, order: Order, name: str, rejection: RejectedError) -> RejectedError:
        """Return a rejection by the matcher, with its reason or remedy in a market that settles."""
        market, stall = self.state.markets.get(name), self.state.registry.stalls.get(name)
        if stall is not None and rejection.code == "MARKET_NOT_OPEN":
            return MarketStalledError(
                f"market {name} accepts cancels only until it opens again by itself: {stall.reason}"
            )
        if market is None or not market.settles or rejection.code != "INSUFFICIENT_BALANCE":
            return rejection
        buys = order.side is Side.BUY
        wallet = (order.smart_wallet or order.maker) if buys else order.maker
        holding = self.holding(wallet, market.collateral if buys else order.token)
        return self.permissions.with_remedy(order, market, rejection, holding)

    async def _reply_again(self, order_ref: str) -> Reply:
        """Return the first reply to an order that was accepted before."""
        return reply(await first_reply(self.lookup, order_ref))

    def accepted_as(self, parsed: ParsedOrder) -> str | None:
        """Return the hash or id of the order that this one repeats; None if it is new.

        A signed order is identified by its hash. Another one repeats the order with the same client
        id if everything else is the same as well.
        """
        matcher, options = self.state.matcher, parsed.options
        if parsed.order_hash in self.state.used_hashes:
            assert parsed.order_hash is not None
            return f"0x{parsed.order_hash.hex()}"
        if options.client_id is None:
            return None
        try:
            record = matcher.order_by_client_id(parsed.order.maker, options.client_id)
        except UnknownOrderError:
            return None
        before = record.order
        same = replace(parsed.order, id=before.id)
        if parsed.takes_nonce:
            same = replace(same, nonce=before.nonce)
        return str(before.id) if same == before and record.market == options.market else None


def wallets_of(order: Order) -> tuple[str, ...]:
    """Return the wallets of an order: its maker, and the one that pays or is paid for it."""
    return (order.maker, order.smart_wallet) if order.smart_wallet else (order.maker,)


def read_terms(body: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the expiration, and the highest fee rate, of an order without a signature.

    Raises:
        InvalidFieldError: one is not an integer of 0 or more.
        ApiError: INVALID_FIELD, the expiration is not in seconds; INVALID_FEE_RATE.
    """
    expiration, rate = body.get("expiration"), body.get("feeRateBps")
    expiration_s = 0 if expiration is None else fields.uint("expiration", expiration)
    check_expiration(expiration_s)
    if rate is None:
        return expiration_s, None
    rate = fields.uint("feeRateBps", rate)
    if rate > FEE_RATE_MAX_BPS:
        text = f"feeRateBps must be from 0 to {FEE_RATE_MAX_BPS}; got {received(rate)}"
        raise fault("feeRateBps", text, "INVALID_FEE_RATE")
    return expiration_s, rate


async def first_reply(lookup: OrderLookup, order_ref: str) -> CreatedBody:
    """Return the body of the reply that an order, named by hash or id, got when it was accepted.

    Raises:
        OrderAlreadyUsedError: its details are no longer stored.
    """
    order = await lookup.find(order_ref)
    if order is None:
        raise OrderAlreadyUsedError(
            f"order {order_ref} was accepted before; its details are no longer stored"
        )
    trades = await lookup.history.first_trades(order)
    return CreatedBody(
        success=True,
        order_id=order.id,
        matched=bool(trades),
        trades=trades,
        status=order.status,
        duplicate=True,
    )


def just_rests(events: Sequence[Event | Rejected]) -> bool:
    """Return whether an order came to rest without a trade, as most do."""
    return len(events) == 1 and type(events[0]) is OrderAdded


def status_after(events: Sequence[Event | Rejected], traded: Trade | None) -> OrderStatus:
    """Return the status of an order from the events of its submission and their last trade."""
    if traded is not None and not traded.incoming_remaining:
        return OrderStatus.FILLED
    resting = bool(events) and type(events[-1]) is OrderAdded
    return status_of(traded=traded is not None, left=True, resting=resting)
