"""Markets of the test environment open with their first order, and get their second token by one.

Nothing opens for an order that would be refused, and orders of one batch see what opens by those
before them (decision 25).
"""

from typing import TYPE_CHECKING, Final

from msgspec import structs

from clob import AddMarket, Market, Matcher, Mode, SetMarket, SetMode, SetNonce
from clob.errors import (
    ClientIdConflictError,
    TokenNotInMarketError,
    TooManyOrdersError,
    UnknownMarketError,
    UnknownOrderError,
)
from clob_server.api.problems import ApiError

if TYPE_CHECKING:
    from clob_server.orders.place import ParsedOrder
    from clob_server.service import Service


class AutoOpening:
    """What opens with the orders that are about to be placed.

    Args:
        service: where.
    """

    def __init__(self, service: "Service") -> None:
        self._service: Final = service
        self._after_seq = -1
        self._opening: dict[str, Market] = {}

    def commands(self, ticket: "ParsedOrder", now_ms: int) -> tuple[AddMarket | SetMarket, ...]:
        """Give what has to be done before an order can be placed; nothing if that is done already.

        Raises:
            ApiError: TOO_MANY_MARKETS.
            RejectedError: the order would be refused all the same, or was read by the rules of a
                market that it does not find.
        """
        command = self.command(ticket, now_ms)
        if command is None:
            return ()
        self._opening[command.market.id] = command.market
        return (command,)

    def command(self, ticket: "ParsedOrder", now_ms: int) -> AddMarket | SetMarket | None:
        """Give what would have to be done, without counting on it."""
        service, name, token = self._service, ticket.instructions.market, ticket.order.token
        matcher = service.exchange.matcher
        if service.engine.seq != self._after_seq:  # what was on its way is done
            self._after_seq, self._opening = service.engine.seq, {}
        command: AddMarket | SetMarket
        before = self._market(matcher, name)
        if before is not None:
            if before.settles:  # the order was read as one for a market that does not
                raise UnknownMarketError(f"market {name!r} has only just opened; send it again")
            if token == before.yes or before.no:
                return None
            command = SetMarket(market=structs.replace(before, no=token), now_ms=now_ms)
        else:
            self._check_room(matcher, name)
            command = AddMarket(market=Market(id=name, yes=token, no=""), now_ms=now_ms)
        refusal = matcher.check(command) if name not in self._opening else None
        if refusal is not None:
            raise TokenNotInMarketError(f"market {name!r} cannot have token {token}: {refusal}")
        check_order(matcher, command.market, ticket, now_ms)
        return command

    def _market(self, matcher: Matcher, name: str) -> Market | None:
        """Give a market as it is, or as it is about to be; None is one that has to open."""
        if name in self._opening:
            return self._opening[name]
        try:
            return matcher.market(name)
        except UnknownMarketError:
            return None

    def _check_room(self, matcher: Matcher, name: str) -> None:
        """Refuse one market too many."""
        most = self._service.settings.markets_max
        if len(matcher.markets) + len(self._opening) >= most:
            raise ApiError(
                "TOO_MANY_MARKETS", f"there are {most} markets; {name!r} cannot be opened"
            )


def check_order(matcher: Matcher, market: Market, ticket: "ParsedOrder", now_ms: int) -> None:
    """Refuse an order that would be refused in a market as it is about to be, its book empty.

    Raises:
        RejectedError: what the engine would refuse it for.
    """
    order, wanted = ticket.order, ticket.instructions
    trial = Matcher()
    trial.apply(AddMarket(market=structs.replace(market, mode=Mode.OPEN), now_ms=0))
    if market.mode is not Mode.OPEN:
        trial.apply(SetMode(market=market.id, mode=market.mode, now_ms=0))
    if matcher.nonce(order.maker):
        trial.apply(SetNonce(maker=order.maker, nonce=matcher.nonce(order.maker), now_ms=0))
    refusal = trial.check(ticket.submit(str(order.id), now_ms))
    if refusal is not None:
        raise refusal
    check_names(matcher, ticket)
    check_room(matcher, order.maker, wanted.market)


def check_room(matcher: Matcher, maker: str, market: str) -> None:
    """Refuse one order too many of a maker in a market."""
    try:
        count = len(matcher.open_orders(maker, market))
    except UnknownMarketError:  # it opens as well
        return
    if count >= matcher.limits.orders_max:
        raise TooManyOrdersError(f"a maker may have {count} orders resting in a market")


def check_names(matcher: Matcher, ticket: "ParsedOrder") -> None:
    """Refuse an order that is called as another of its maker."""
    client_id, maker = ticket.instructions.client_id, ticket.order.maker
    if client_id is None:
        return
    try:
        record = matcher.order_by_client_id(maker, client_id)
    except UnknownOrderError:
        return
    raise ClientIdConflictError(
        f"client id {client_id!r} names order {record.order.id!r}, which is another",
        record.order.id,
    )
