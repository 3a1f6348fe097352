"""From an order that a client sends to a command of the engine, and from its outcome to the answer.

Checks stand in the sequence of :data:`clob_server.api.problems.PROBLEMS`: the fields, what they mean,
market and token, what the maker said on the chain, the signature. What is left is for the engine.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from clob import Event, Market, Order, OrderAdded, Rejected, RejectedError, Side, Submit, Trade
from clob.errors import OrderAlreadyUsedError, UnknownMarketError, UnknownOrderError
from clob.signing import (
    SignedOrder,
    SignerNotAuthorisedError,
    amounts_of,
    fields,
    order_hash,
    to_order,
    verify,
)
from clob.signing.signed_struct import read_address
from clob.status import OrderStatus, status_of
from clob_server.api.options import OrderOptions, missing, read_instructions
from clob_server.api.request import Outcome, QueuedCommand, Reply, reply
from clob_server.api.schemas import CreatedBody
from clob_server.core.commands import AnyCommand, SignatureRecord
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import summaries
from clob_server.orders.lookup import find_order
from clob_server.orders.permissions import (
    check_not_cancelled,
    check_unsigned,
    may_sign,
    not_delegate,
)

if TYPE_CHECKING:
    from clob_server.service import Service

NOT_YET: Final = "?"
"""The id of an order before it has one."""


class ParsedOrder(msgspec.Struct, frozen=True, gc=False):
    """An order that has been read, and is for a market that can take it."""

    order: Order
    """The order, but for its id."""
    instructions: OrderOptions
    """What is wanted of it."""
    opens: bool
    """If its market, or the token in it, is not there yet and opens with it."""
    signed: SignedOrder | None = None
    """What was signed; None where nobody did."""
    order_hash: bytes | None = None
    """The hash of that."""

    def submit(self, order_id: str, now_ms: int) -> Submit:
        """Give the command that places it."""
        wanted = self.instructions
        return Submit(
            market=wanted.market,
            order=structs.replace(self.order, id=order_id),
            client_id=wanted.client_id,
            order_hash=self.order_hash,
            deadline_ms=wanted.deadline_ms,
            now_ms=now_ms,
        )

    def papers(self, order_id: str, now_ms: int) -> tuple[SignatureRecord, ...]:
        """Give what came with it and the engine does not look at; nothing where nobody signed."""
        signed = self.signed
        if signed is None:
            return ()
        return (
            SignatureRecord(
                order_id=order_id,
                signer=signed.signer,
                salt=str(signed.salt),
                taker=signed.taker,
                signature_type=signed.signature_type,
                signature=bytes.fromhex(signed.signature[2:]),
                now_ms=now_ms,
            ),
        )

    def commands(self, service: "Service", now_ms: int) -> tuple[AnyCommand, ...]:
        """Give the commands that place it, with its id; the last is the order.

        Raises:
            ClobError: its market cannot be opened for it.
        """
        opening = service.openings.commands(self, now_ms) if self.opens else ()
        order_id = service.ids.order(now_ms, service.next_order_number())
        return (*opening, *self.papers(order_id, now_ms), self.submit(order_id, now_ms))


# ----- reading -------------------------------------------------------------------------------


def read_order(service: "Service", body: Mapping[str, Any]) -> ParsedOrder:
    """Read an order of either kind: one that has a price and no signature is a gasless one.

    Raises:
        RejectedError, ApiError: as for the kind it is.
    """
    gasless = "price" in body and "signature" not in body
    return read_gasless(service, body) if gasless else read_signed(service, body)


def read_signed(service: "Service", body: Mapping[str, Any]) -> ParsedOrder:
    """Read a signed order; its signature is for :func:`check_signature`.

    Raises:
        RejectedError: a field of the order is wrong, or the amounts mean no price.
        ApiError: INVALID_FIELD, what is said beside it is wrong; ORDER_CANCELLED.
        UnknownMarketError, TokenNotInMarketError: no such market, and it does not open by itself.
    """
    signed = SignedOrder.from_json(body)
    wanted = read_instructions(body)
    settings, settles = service.settings, wanted.market in service.exchange.settles
    order = to_order(
        signed,
        id=NOT_YET,
        strict=settings.price_policy == "strict",
        settles=settles,
        operators=takers(service) if settles else settings.operators,
        time_in_force=wanted.time_in_force,
        post_only=wanted.post_only,
        self_trade=wanted.self_trade,
    )
    opens = not is_listed(service, wanted.market, order.token)
    hashed = order_hash(signed, service.domain)
    if settles:
        check_not_cancelled(service, hashed)
    return ParsedOrder(order, wanted, opens, signed, hashed)


def takers(service: "Service") -> tuple[str, ...]:
    """Give who else than anybody may be the taker of an order whose trades settle."""
    operator = service.chain.operator
    return () if operator is None else (operator,)


def read_gasless(service: "Service", body: Mapping[str, Any]) -> ParsedOrder:
    """Read an order that nobody signed (specification, "create a gasless order").

    Raises:
        RejectedError: a field of the order is wrong, or its size costs nothing at its price.
        ApiError: INVALID_FIELD, what is said beside it is wrong; GASLESS_NOT_ALLOWED,
            WALLET_NOT_ALLOWED, where trades settle and the maker or the wallet does not allow it.
        UnknownMarketError, TokenNotInMarketError: no such market, and it does not open by itself.
    """
    given = body.get
    maker, wallet = read_address("maker", given("maker")), given("smartWallet")
    if wallet is not None:
        wallet = read_address("smartWallet", wallet)
    token = str(fields.uint("tokenId", given("tokenId")))
    side = fields.side("side", given("side"))
    price, size = given("price"), fields.amount("size", given("size"))
    if price is None:
        raise missing("price", "must be an integer of cents, 1 to 99")
    wanted = read_instructions(body)
    maker_amount, taker_amount = amounts_of(side, price, size)
    order = Order(
        id=NOT_YET,
        token=token,
        maker=maker,
        side=Side(side),
        price=price,
        size=size,
        time_in_force=wanted.time_in_force,
        post_only=wanted.post_only,
        self_trade=wanted.self_trade,
        nonce=service.exchange.matcher.nonce(maker),
        collateral=maker_amount if side == Side.BUY else taker_amount,
        smart_wallet=wallet or "",
    )
    opens = not is_listed(service, wanted.market, token)
    if wanted.market in service.exchange.settles:
        check_unsigned(service, order)
    return ParsedOrder(order, wanted, opens)


def is_listed(service: "Service", market: str, token: str) -> bool:
    """Say whether a market is there and has a token; False is only where it may open by itself.

    Raises:
        UnknownMarketError: there is no such market.
        TokenNotInMarketError: it has both of its tokens, and this is neither.
    """
    matcher = service.exchange.matcher
    try:
        found: Market = matcher.market(market)
    except UnknownMarketError:
        if service.settings.is_test:
            return False
        raise
    if token == found.yes or token == found.no:
        return True
    if found.no or not service.settings.is_test:
        matcher.depth(market, token, 0)  # says which tokens it has
    return False


def check_signature(service: "Service", ticket: ParsedOrder) -> None:
    """Check that the signer signed, and that he may. About 45 us.

    Raises:
        InvalidSignatureError: he did not.
        SignerNotAuthorisedError: he may not sign for the maker.
    """
    signed = ticket.signed
    if signed is None:
        return
    market = ticket.instructions.market
    try:
        verify(
            signed,
            service.domain,
            digest=ticket.order_hash,
            delegates=partial(may_sign, service, market),
        )
    except SignerNotAuthorisedError as refusal:
        if market in service.exchange.settles:
            raise not_delegate(service, signed, refusal) from None
        raise


# ----- placing -------------------------------------------------------------------------------


def place(service: "Service", ticket: ParsedOrder) -> Outcome:
    """Have an order placed, and say what came of it.

    One that was accepted before gets its first answer again (decision 23).

    Raises:
        RejectedError: the engine refuses it; once it has been asked.
    """
    known = accepted_as(service, ticket)
    if known is not None:
        return repeat(service, known)
    return QueuedCommand(partial(ticket.commands, service), partial(placed, service, ticket))


def placed(service: "Service", ticket: ParsedOrder, done: Committed) -> Outcome:
    """Say what came of an order.

    Raises:
        RejectedError: the engine has refused it.
    """
    outcome, command = done.outcome, done.command
    if isinstance(outcome, RejectedError):
        if isinstance(outcome, OrderAlreadyUsedError):  # it came twice at once
            known = accepted_as(service, ticket)
            if known is not None:
                return repeat(service, known)
        raise outcome
    assert type(command) is Submit
    trades, status = [], OrderStatus.OPEN
    if not just_rests(outcome):
        trades = summaries(outcome, service.ids, command.now_ms, done.num_trades)
        status = status_after(outcome)
    return reply(
        CreatedBody(
            success=True,
            order_id=str(command.order.id),
            matched=bool(trades),
            trades=trades,
            status=status,
        )
    )


async def repeat(service: "Service", known: str) -> Reply:
    """Answer again as when an order was accepted; see :func:`first_answer`."""
    return reply(await first_answer(service, known))


def just_rests(events: Sequence[Event | Rejected]) -> bool:
    """Say whether all that happened is that an order came to rest, as most do."""
    return len(events) == 1 and type(events[0]) is OrderAdded


def status_after(events: Sequence[Event | Rejected]) -> OrderStatus:
    """Give the status of an order from the events of its submission."""
    trades = [event for event in events if isinstance(event, Trade)]
    return status_of(
        traded=bool(trades),
        left=not trades or trades[-1].incoming_remaining > 0,
        resting=bool(events) and type(events[-1]) is OrderAdded,
    )


def accepted_as(service: "Service", ticket: ParsedOrder) -> str | None:
    """Give the hash or the id of the order that this was accepted as before; None if it was not.

    A signed order is known by its hash. Another one is the same if its maker has called it the same
    and it says the same.
    """
    matcher, wanted = service.exchange.matcher, ticket.instructions
    if ticket.order_hash is not None and matcher.is_used(ticket.order_hash):
        return f"0x{ticket.order_hash.hex()}"
    if wanted.client_id is None:
        return None
    try:
        record = matcher.order_by_client_id(ticket.order.maker, wanted.client_id)
    except UnknownOrderError:
        return None
    before = record.order
    same = structs.replace(ticket.order, id=before.id)
    if ticket.signed is None:  # it has whatever nonce its maker has when it comes
        same = structs.replace(same, nonce=before.nonce)
    return str(before.id) if same == before and record.market == wanted.market else None


async def first_answer(service: "Service", order_ref: str) -> CreatedBody:
    """Say again what was said when an order was accepted.

    Args:
        service: where.
        order_ref: its hash or its id.

    Raises:
        OrderAlreadyUsedError: its details have left the store.
    """
    found = await find_order(service, order_ref)
    if found is None:
        raise OrderAlreadyUsedError(f"order {order_ref} was accepted before; its details are gone")
    trades = await service.history.first_trades(found)
    return CreatedBody(
        success=True,
        order_id=found.id,
        matched=bool(trades),
        trades=trades,
        status=found.status,
        duplicate=True,
    )
