"""Opens markets in the test environment: with their first order, or with their second token.

An order that would be rejected opens no market. The client whose order opened a market is part of
the state, so that the number of markets per client is limited; :mod:`clob_server.orders.retire`
removes unused ones. The orders of a batch see the markets that open for those before them (decision
25).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from clob import AddMarket, Market, Matcher, Mode, SetMarket, SetMode, SetNonce, Submit
from clob.errors import (
    ClientIdConflictError,
    TokenNotInMarketError,
    TooManyOrdersError,
    UnknownMarketError,
    UnknownOrderError,
)
from clob.signing.fields import received
from clob_server.api.options import MIN_SIZE_WEI
from clob_server.api.problems import ApiError
from clob_server.core.commands import AnyCommand, RecordOpener
from clob_server.core.sequencer import Opening
from clob_server.core.state import ServerState


class AutoOpening:
    """Opens markets for orders, and limits their number in all and per client.

    Args:
        state: the server's state.
        markets_max: markets that orders have opened and that are not resolved, at most.
        per_client_max: of these, the markets that one client has opened, at most.
    """

    def __init__(self, state: ServerState, markets_max: int, per_client_max: int) -> None:
        self._state = state
        self._markets_max = markets_max
        self._per_client_max = per_client_max
        self._reserved: set[str] = set()

    def __call__(
        self, submit: Submit, opener: bytes, opening: dict[str, Opening], now_ms: int
    ) -> tuple[AnyCommand, ...]:
        """Return the commands that an order needs before it; none if its market is open already.

        Args:
            submit: the order.
            opener: the client of the order, as the rate limits name it.
            opening: the markets that earlier orders of the batch open; this one is added.
            now_ms: the time, Unix milliseconds.

        Raises:
            ApiError: TOO_MANY_MARKETS.
            RejectedError: the order would be rejected in the market, or the market opened after the
                order was read, with other rules.
        """
        state, name, token = self._state, submit.market, submit.order.token
        market = opening[name].market if name in opening else state.markets.get(name)
        command: AddMarket | SetMarket
        before: tuple[AnyCommand, ...] = ()
        if name in self._reserved:
            raise UnknownMarketError(
                f"market {received(name)} is being created; send the order again"
            )
        if market is None:
            self._check_count(name, opener, opening)
            command = AddMarket(
                market=Market(id=name, yes=token, no="", min_size=MIN_SIZE_WEI), now_ms=now_ms
            )
            before = (RecordOpener(market=name, payer=opener, now_ms=now_ms),)
        elif market.settles:  # the order was read by the rules of a market that does not settle
            raise UnknownMarketError(
                f"market {received(name)} has just opened; send the order again"
            )
        elif token == market.yes or market.no:
            return ()
        else:
            command = SetMarket(market=structs.replace(market, no=token), now_ms=now_ms)
        rejection = None if name in opening else state.matcher.check(command)
        if rejection is not None:
            raise TokenNotInMarketError(
                f"market {received(name)} cannot have token {token}: {rejection}"
            )
        check_order(state.matcher, command.market, submit, now_ms)
        first = opening[name].opener if name in opening else opener
        opening[name] = Opening(command.market, first)
        return (*before, command)

    @contextmanager
    def reserved(self, name: str) -> Iterator[None]:
        """Open no market of this name within the block, in which an operator creates it."""
        self._reserved.add(name)
        try:
            yield
        finally:
            self._reserved.discard(name)

    def _check_count(self, name: str, opener: bytes, opening: dict[str, Opening]) -> None:
        """Reject a market beyond the limits; resolved ones do not count."""
        state = self._state
        payers = [each.opener for each in opening.values() if each.market.id not in state.markets]
        rule = None
        if len(state.openers) + len(payers) >= self._markets_max:
            rule = f"orders have opened {self._markets_max} markets, the most allowed"
        elif state.num_opened[opener] + payers.count(opener) >= self._per_client_max:
            rule = f"this client has opened {self._per_client_max} markets, the most allowed"
        if rule is not None:
            raise ApiError("TOO_MANY_MARKETS", f"market {received(name)} cannot be opened: {rule}")


def check_order(matcher: Matcher, market: Market, submit: Submit, now_ms: int) -> None:
    """Reject an order that would be rejected in a market that is about to open, its book empty.

    Raises:
        RejectedError: the rejection by the matcher.
    """
    order = submit.order
    trial = Matcher()
    trial.apply(AddMarket(market=structs.replace(market, mode=Mode.OPEN), now_ms=0))
    if market.mode is not Mode.OPEN:
        trial.apply(SetMode(market=market.id, mode=market.mode, now_ms=0))
    if matcher.nonce(order.maker):
        trial.apply(SetNonce(maker=order.maker, nonce=matcher.nonce(order.maker), now_ms=0))
    rejection = trial.check(structs.replace(submit, now_ms=now_ms))
    if rejection is not None:
        raise rejection
    _check_client_id(matcher, submit)
    _check_order_count(matcher, order.maker, submit.market)


def _check_order_count(matcher: Matcher, maker: str, market: str) -> None:
    try:
        count = len(matcher.open_orders(maker, market))
    except UnknownMarketError:  # it opens with this order
        return
    if count >= matcher.limits.orders_max:
        raise TooManyOrdersError(
            f"a maker may have {matcher.limits.orders_max} orders resting in a market; "
            f"{maker} has {count}"
        )


def _check_client_id(matcher: Matcher, submit: Submit) -> None:
    if submit.client_id is None:
        return
    try:
        known = matcher.order_by_client_id(submit.order.maker, submit.client_id).order.id
    except UnknownOrderError:
        return
    raise ClientIdConflictError(
        f"client id {received(submit.client_id)} already names order {known}", known
    )
