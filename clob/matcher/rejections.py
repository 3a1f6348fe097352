"""What a matcher refuses that a book does not know, in words and in order of precedence.

The desk asks here only once something is wrong, so nothing on these pages needs to be fast. Every
``..._refused`` gives the error to raise; the order of the questions is that of :mod:`clob.errors`.
"""

from typing import TYPE_CHECKING

import msgspec

from clob.book import validation
from clob.book.validation import show
from clob.commands import Cancel, Reduce, Replace, Submit
from clob.errors import (
    AmountTooSmallError,
    ClientIdConflictError,
    ClockWentBackError,
    DeadlinePassedError,
    DuplicateOrderError,
    InsufficientBalanceError,
    InvalidCommandError,
    InvalidFeeRateError,
    InvalidTimeError,
    InvariantError,
    MarketNotOpenError,
    NonceTooLowError,
    NotTheMakerError,
    OrderAlreadyUsedError,
    OrderExpiredError,
    OrderNotOpenError,
    RejectedError,
    TokenNotInMarketError,
    TooManyOrdersError,
    UnknownMarketError,
    UnknownOrderError,
)
from clob.events import Event, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.market import Mode
from clob.matcher import complementary
from clob.matcher.amounts import needed
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.units import FEE_RATE_MAX_BPS, TEXT_MAX, TIME_MAX, UINT256_MAX

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MarketState, OrderEntry

# ----- fields --------------------------------------------------------------------------------


def time_refused(now_ms: object, last_ms: int) -> RejectedError:
    """Refuse a time that is none, or that lies before the last one."""
    if type(now_ms) is not int or not 0 <= now_ms <= TIME_MAX:
        return InvalidTimeError(
            f"now_ms must be an integer from 0 to {TIME_MAX}, not {show(now_ms)}"
        )
    return ClockWentBackError(f"now_ms must not be below the last {last_ms}, not {now_ms}")


def check_text(name: str, text: object, shortest: int = 0) -> None:
    """Refuse what is no text, or one of another length than a matcher takes."""
    if type(text) is not str:
        raise InvalidCommandError(f"{name} must be a text, not {show(text)}")
    if not shortest <= len(text) <= TEXT_MAX:
        raise InvalidCommandError(
            f"{name} must have {shortest} to {TEXT_MAX} characters, not {len(text)}"
        )


def check_uint256(name: str, value: object) -> None:
    """Refuse what is no integer that a word of the chain holds."""
    if type(value) is not int or not 0 <= value <= UINT256_MAX:
        raise InvalidCommandError(
            f"{name} must be an integer from 0 to 2**256 - 1, not {show(value)}"
        )


def check_maker(maker: object) -> None:
    """Refuse a maker that is neither a text nor None."""
    if maker is not None:
        check_text("maker", maker)


def check_deadline(command: Submit, now_ms: int) -> None:
    """Refuse a command that arrives too late."""
    deadline = command.deadline_ms
    if type(deadline) is int and 0 <= deadline < now_ms:
        raise DeadlinePassedError(f"the deadline was {deadline}, it is {now_ms}")


def order_of(command: Submit, now_ms: int) -> Order:
    """Take the order of a submission, its fields read once; refuse what is none."""
    check_deadline(command, now_ms)
    try:
        return validation.plain_order(command.order)
    except Exception as error:  # a subclass may do anything when asked
        raise InvalidCommandError(f"the order cannot be read: {show(error)}") from None


def check_submit(command: Submit, order: Order) -> None:
    """Refuse fields of the wrong type or out of range that no book looks at."""
    deadline = command.deadline_ms
    if deadline is not None and (type(deadline) is not int or not 0 <= deadline <= TIME_MAX):
        raise InvalidCommandError(
            f"deadline_ms must be None or an integer from 0 to {TIME_MAX}, not {show(deadline)}"
        )
    check_text("market", command.market)
    if command.client_id is not None:
        check_text("client_id", command.client_id, 1)
    used = command.order_hash
    if used is not None and (type(used) is not bytes or len(used) != 32):
        raise InvalidCommandError(f"order_hash must be None or 32 bytes, not {show(used)}")
    if type(order.id) is str:
        check_text("the order id", order.id)
    if type(order.maker) is str:
        check_text("the maker", order.maker)
    check_text("token", order.token)
    check_text("smart_wallet", order.smart_wallet)
    check_uint256("nonce", order.nonce)
    if type(order.expiration_s) is int and order.expiration_s > UINT256_MAX:
        check_uint256("expiration_s", order.expiration_s)
    if order.collateral is not None:
        check_uint256("collateral", order.collateral)


def check_fee_rate(fee_rate_bps: object) -> None:
    """Refuse a fee rate out of range."""
    if fee_rate_bps is not None and (
        type(fee_rate_bps) is not int or not 0 <= fee_rate_bps <= FEE_RATE_MAX_BPS
    ):
        raise InvalidFeeRateError(
            f"fee_rate_bps must be None or an integer from 0 to {FEE_RATE_MAX_BPS}, "
            f"not {show(fee_rate_bps)}"
        )


def venue_of(desk: "Engine", market: object) -> "MarketState":
    """Give a market; refuse what is none."""
    venue = desk.venues.get(market) if type(market) is str else None
    if venue is None:
        check_text("market", market)
        raise UnknownMarketError(f"there is no market {show(market)}")
    return venue


def book_of(venue: "MarketState", token: str) -> "Book":
    """Give the book in which a token trades; refuse what the market does not have."""
    if token == venue.yes:
        return venue.yes_book
    if token == venue.no:
        return venue.yes_book if venue.complementary else venue.no_book
    raise token_refused(venue, token)


def token_refused(venue: "MarketState", token: object) -> RejectedError:
    """Refuse a token that is none of the market's two."""
    no = "one that is not named yet" if venue.no is None else show(venue.no)
    return TokenNotInMarketError(
        f"market {show(venue.market.id)} has the tokens {show(venue.yes)} and {no}, "
        f"not {show(token)}"
    )


# ----- submissions ---------------------------------------------------------------------------


def submit_refused(desk: "Engine", command: Submit, order: Order, now_ms: int) -> RejectedError:
    """Give the first rule that a submission breaks, the book's own on resting orders excepted."""
    try:
        _check_alone(desk, command, order, now_ms)
        _check_names(desk, command, order)
        _check_standing(desk, desk.venues[command.market], order)
    except RejectedError as error:
        return error
    raise InvariantError(f"the desk refused what breaks no rule: {command!r}")


def _check_alone(desk: "Engine", command: Submit, order: Order, now_ms: int) -> None:
    """Check what depends on the market alone."""
    check_deadline(command, now_ms)
    check_submit(command, order)
    venue, expired = venue_of(desk, command.market), None
    try:
        book = venue.no_book if order.token == venue.no else venue.yes_book
        validation.check_order(order, book, now_ms)
    except TokenNotInMarketError:
        raise token_refused(venue, order.token) from None
    except OrderExpiredError as error:
        expired = error
    check_min_size(venue, order.size)
    check_fee_rate(order.fee_rate_bps)
    if expired:
        raise expired


def check_min_size(venue: "MarketState", size: int) -> None:
    """Refuse a size below the smallest one of the market."""
    if size < venue.min_size:
        raise AmountTooSmallError(
            f"size must be at least {venue.min_size} wei in market "
            f"{show(venue.market.id)}, not {size}"
        )


def _check_names(desk: "Engine", command: Submit, order: Order) -> None:
    """Check that hash, client id and id are new."""
    used = desk.used.get(command.order_hash) if command.order_hash is not None else None
    if used is not None:
        order_id = used.order.id if hasattr(used, "order") else None
        which = "an order whose details are gone" if order_id is None else f"order {show(order_id)}"
        raise OrderAlreadyUsedError(f"this signed order was accepted before, as {which}", order_id)
    known = None
    if command.client_id is not None:
        known = desk.clients.get((order.maker, command.client_id))
    if known is not None:
        words = f"client id {show(command.client_id)} names order {show(known.order.id)}"
        if _same_body(known, command, order):
            raise OrderAlreadyUsedError(f"{words}, which is the same", known.order.id)
        raise ClientIdConflictError(f"{words}, which is another", known.order.id)
    if order.id in desk.entries:
        raise DuplicateOrderError(f"there is an order {show(order.id)} already")


def _same_body(known: "OrderEntry", command: Submit, order: Order) -> bool:
    """Say whether two orders say the same, whatever they are called."""
    same = msgspec.structs.replace(order, id=known.given.id) == known.given
    return same and known.trader.venue.market.id == command.market


def _check_standing(desk: "Engine", venue: "MarketState", order: Order) -> None:
    """Check what depends on the mode of the market and on what the maker has."""
    check_mode(venue, Mode.OPEN)
    nonce = desk.nonces.get(order.maker, 0)
    if order.nonce < nonce:
        raise NonceTooLowError(f"nonce must be at least the maker's {nonce}, not {order.nonce}")
    trader = venue.traders.get(order.maker)
    rests = order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
    if trader and rests and trader.count >= desk.orders_max:
        raise TooManyOrdersError(
            f"a maker may have {desk.orders_max} orders resting in a market, not one more"
        )
    if venue.has_accounts:
        raise _not_covered(desk, venue, order)


def _not_covered(desk: "Engine", venue: "MarketState", order: Order) -> RejectedError:
    """Refuse an order that needs more than its wallet has available."""
    buys = order.side is Side.BUY
    wallet = (order.smart_wallet or order.maker) if buys else order.maker
    asset = venue.market.collateral if buys else order.token
    return balance_refused(desk, wallet, asset, needed(order, order.size, order.price), 0)


def balance_refused(
    desk: "Engine", wallet: str, asset: str, needs: int, held: int
) -> RejectedError:
    """Say what is available of an asset, what is reserved and what is needed.

    ``held`` is what the order holds already and would get back first.
    """
    account = desk.accounts.get((wallet, asset))
    balance, reserved, unsettled = 0, 0, 0
    if account is not None:
        balance, unsettled = account.balance, account.unsettled
        reserved = account.reserved - held
    return InsufficientBalanceError(
        f"{show(wallet)} has {balance - reserved - unsettled} wei of {show(asset)} available, "
        f"{needs} needed; {reserved} reserved, {unsettled} unsettled of {balance}"
    )


# ----- orders that are there -----------------------------------------------------------------


def check_mode(venue: "MarketState", mode_max: Mode) -> None:
    """Refuse where the market allows less."""
    if venue.mode > mode_max:
        raise MarketNotOpenError(
            f"market {show(venue.market.id)} must be {mode_max!r} or less strict, "
            f"not {venue.mode!r}"
        )


def order_refused(
    desk: "Engine", command: Cancel | Reduce | Replace, mode_max: Mode
) -> RejectedError:
    """Give the first rule on the order that a maker's command about it breaks."""
    try:
        check_order_command(desk, command, mode_max)
    except RejectedError as error:
        return error
    raise InvariantError(f"the desk refused what breaks no rule: {command!r}")


def check_order_command(desk: "Engine", command: Cancel | Reduce | Replace, mode_max: Mode) -> None:
    """Refuse a command that does not lead to an order its maker may change."""
    check_market_and_maker(desk, command)
    validation.check_id(command.order_id)
    entry_of(desk, command, mode_max)


def check_market_and_maker(desk: "Engine", command: Cancel | Reduce | Replace) -> None:
    """Refuse a market or a maker that cannot be."""
    check_text("market", command.market)
    check_maker(command.maker)
    if command.market:
        venue_of(desk, command.market)


def entry_of(desk: "Engine", command: Cancel | Reduce | Replace, mode_max: Mode) -> "OrderEntry":
    """Find the order a command is about; its id is a text or an integer."""
    entry = desk.entries.get(command.order_id)
    if entry is None or command.market not in ("", entry.trader.venue.market.id):
        where = f" in market {show(command.market)}" if command.market else ""
        raise UnknownOrderError(f"there is no order {show(command.order_id)}{where}")
    if command.maker is not None and command.maker != entry.trader.maker:
        raise NotTheMakerError(
            f"order {show(command.order_id)} is not of maker {show(command.maker)}"
        )
    if not entry.resting:
        raise OrderNotOpenError(
            f"order {show(command.order_id)} is finished: {entry.removal}", command.order_id
        )
    if command.maker is not None or mode_max is Mode.OPEN:
        check_mode(entry.trader.venue, mode_max)
    return entry


# ----- what became of it ---------------------------------------------------------------------


def with_policy(order: Order, policy: SelfTrade) -> Order:
    """Give an order that leaves self-trade open the policy of its market."""
    return msgspec.structs.replace(order, self_trade=policy)


def why_gone(entry: "OrderEntry", events: list[Event]) -> RemovalReason:
    """Say why something is left of an order that does not rest.

    A book announces nothing of it. It is ``FILLED`` where self-trade made it smaller and all the
    rest traded, as with an order that was reduced; ``SELF_TRADE`` where its maker's own order ended
    it; ``CANCELLED`` where an order that never rests found no more to trade with.
    """
    trades = [event for event in events if isinstance(event, Trade)]
    if trades and not trades[-1].incoming_remaining:
        return RemovalReason.FILLED
    order, venue = entry.order, entry.trader.venue
    policy = order.self_trade or venue.self_trade
    if order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD):
        return RemovalReason.SELF_TRADE
    own = [
        event
        for event in events
        if isinstance(event, OrderReduced)
        or (isinstance(event, OrderRemoved) and event.reason is RemovalReason.SELF_TRADE)
    ]
    ended = False
    if policy is SelfTrade.CANCEL_BOTH:
        ended = bool(own)
    elif policy is SelfTrade.DECREMENT:
        lost = sum(event.remaining for event in own if isinstance(event, OrderRemoved))
        ended = lost == entry.remaining or any(isinstance(event, OrderReduced) for event in own)
    elif policy is SelfTrade.CANCEL_INCOMING:
        ended = _still_crosses(venue, complementary.on_grid(entry, order))
    return RemovalReason.SELF_TRADE if ended else RemovalReason.CANCELLED


def _still_crosses(venue: "MarketState", order: Order) -> bool:
    """Say whether an order of the other side stands within the limit of an order."""
    book = venue.turn
    best = book.best_ask if order.side is Side.BUY else book.best_bid
    if best is None:
        return False
    return best <= order.price if order.side is Side.BUY else best >= order.price
