"""Every rule that rejects a command, in order of precedence, with its message.

One function per command raises the error of the first broken rule; the order is that of
:mod:`clob.errors`. Submissions and cancels come here only after the quick yes-or-no checks of
:mod:`clob.matcher.admission` failed, so nothing in this module has to be fast for them. Rules that
need the resting orders (post-only, fill-or-kill, number of trades) belong to the book; those of
commands about funds are in :mod:`clob.matcher.fund_rejections`.
"""

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from clob import commands, errors
from clob.book import rejections as book_rejections
from clob.book import validation
from clob.book.validation import check_integer, show
from clob.market import PAIR_LOT_WEI, Funds, Limits, Market, Mode
from clob.matcher.amounts import needed
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.units import (
    FEE_RATE_MAX_BPS,
    PRICE_MAX,
    PRICE_MIN,
    SIZE_MAX,
    TEXT_MAX,
    TIME_MAX,
    UINT256_MAX,
)

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.entities import MarketState, OrderEntry
    from clob.matcher.order_index import OrderIndex

BATCH_KINDS = (
    commands.Submit,
    commands.Cancel,
    commands.CancelAll,
    commands.CancelSome,
    commands.Reduce,
    commands.Replace,
)
"""The commands a batch may contain."""

OrderCommand: TypeAlias = commands.Cancel | commands.Reduce | commands.Replace
"""A command about one known order."""

FIXED = ("id", "yes", "no", "lot_wei", "mode", "funds", "collateral", "settles", "complementary")
"""Fields that ``SetMarket`` cannot change, except an empty ``no``."""


# ----- single fields -------------------------------------------------------------------------


def time_rejection(now_ms: object, last_ms: int) -> errors.RejectedError:
    """Return the error for a time that is invalid or earlier than the last command's."""
    if type(now_ms) is not int or not 0 <= now_ms <= TIME_MAX:
        return errors.InvalidTimeError(
            f"now_ms must be an integer from 0 to {TIME_MAX}; got {show(now_ms)}"
        )
    return errors.ClockWentBackError(
        f"now_ms must be at least {last_ms}, the time of the last command; got {now_ms}"
    )


def check_text(name: str, text: object, shortest: int = 0) -> None:
    """Raise ``InvalidCommandError`` unless ``text`` is a str of an accepted length."""
    if type(text) is not str:
        raise errors.InvalidCommandError(f"{name} must be a str; got {show(text)}")
    if not shortest <= len(text) <= TEXT_MAX:
        raise errors.InvalidCommandError(
            f"{name} must have {shortest} to {TEXT_MAX} characters; got {len(text)}"
        )


def check_uint256(name: str, value: object) -> None:
    """Raise ``InvalidCommandError`` unless ``value`` is an unsigned 256-bit integer."""
    if type(value) is not int or not 0 <= value <= UINT256_MAX:
        raise errors.InvalidCommandError(
            f"{name} must be an integer from 0 to 2**256 - 1; got {show(value)}"
        )


def check_maker(maker: object) -> None:
    """Raise ``InvalidCommandError`` unless ``maker`` is None or a str."""
    if maker is not None:
        check_text("maker", maker)


def find_market(state: "OrderIndex", market: object) -> "MarketState":
    """Return a market by its id, or raise ``UnknownMarketError``."""
    market_state = state.markets.get(market) if type(market) is str else None
    if market_state is None:
        check_text("market", market)
        raise errors.UnknownMarketError(f"no market {show(market)}")
    return market_state


def find_book(market_state: "MarketState", token: str) -> "Book":
    """Return the book in which a token trades, or raise ``TokenNotInMarketError``."""
    if token == market_state.yes:
        return market_state.yes_book
    if token == market_state.no:
        return market_state.yes_book if market_state.complementary else market_state.no_book
    raise _token_rejection(market_state, token)


def _token_rejection(market_state: "MarketState", token: object) -> errors.RejectedError:
    no = "a NO token without an id yet" if market_state.no is None else show(market_state.no)
    return errors.TokenNotInMarketError(
        f"token must be one of market {show(market_state.market.id)}: "
        f"{show(market_state.yes)} or {no}; got {show(token)}"
    )


def check_mode(market_state: "MarketState", mode_max: Mode) -> None:
    """Raise ``MarketNotOpenError`` if the market's mode is stricter than ``mode_max``."""
    if market_state.mode > mode_max:
        raise errors.MarketNotOpenError(
            f"market {show(market_state.market.id)} must be in mode {mode_max!r} or less strict; "
            f"it is in {market_state.mode!r}"
        )


def check_min_size(market_state: "MarketState", size: int) -> None:
    """Raise ``AmountTooSmallError`` if ``size`` is below the market's minimum."""
    if size < market_state.min_size:
        raise errors.AmountTooSmallError(
            f"size must be at least {market_state.min_size} wei in market "
            f"{show(market_state.market.id)}; got {size}"
        )


# ----- Submit --------------------------------------------------------------------------------


def submit_rejection(
    state: "OrderIndex", command: commands.Submit, order: Order, now_ms: int
) -> errors.RejectedError:
    """Return the error of the first rule that a submission breaks.

    The time was checked before. Rules about resting orders follow in the book.
    """
    try:
        check_deadline(command, now_ms)
        _check_submit_fields(command, order)
        market_state = find_market(state, command.market)
        _check_order(market_state, order, now_ms)
        _check_unused(state, command, order)
        check_mode(market_state, Mode.OPEN)
        _check_nonce(state, order)
        _check_order_count(state, market_state, order)
        if market_state.has_accounts:
            _check_covered(state, market_state, order)
    except errors.RejectedError as error:
        return error
    raise errors.InvariantError(f"admission rejected a command that breaks no rule: {command!r}")


def plain_order(command: commands.Submit, now_ms: int) -> Order:
    """Return the order of a submission as a plain ``Order``, each field read once.

    Raises:
        DeadlinePassedError: the deadline is checked before the order.
        InvalidCommandError: the order cannot be read.
    """
    check_deadline(command, now_ms)
    try:
        return validation.plain_order(command.order)
    except Exception as error:  # properties of a subclass may raise anything
        raise errors.InvalidCommandError(f"the order cannot be read: {show(error)}") from None


def check_deadline(command: commands.Submit, now_ms: int) -> None:
    """Raise ``DeadlinePassedError`` if the command's deadline is over."""
    deadline = command.deadline_ms
    if type(deadline) is int and 0 <= deadline < now_ms:
        raise errors.DeadlinePassedError(f"deadline_ms was {deadline}; the time is {now_ms}")


def _check_submit_fields(command: commands.Submit, order: Order) -> None:
    deadline = command.deadline_ms
    if deadline is not None and (type(deadline) is not int or not 0 <= deadline <= TIME_MAX):
        raise errors.InvalidCommandError(
            f"deadline_ms must be None or an integer from 0 to {TIME_MAX}; got {show(deadline)}"
        )
    check_text("market", command.market)
    if command.client_id is not None:
        check_text("client_id", command.client_id, 1)
    order_hash = command.order_hash
    if order_hash is not None and (type(order_hash) is not bytes or len(order_hash) != 32):
        raise errors.InvalidCommandError(
            f"order_hash must be None or 32 bytes; got {show(order_hash)}"
        )
    if command.attachment is not None and type(command.attachment) is not bytes:
        raise errors.InvalidCommandError(
            f"attachment must be None or bytes; got {show(command.attachment)}"
        )
    if type(order.id) is str:
        check_text("id", order.id)
    if type(order.maker) is str:
        check_text("maker", order.maker)
    check_text("token", order.token)
    check_text("smart_wallet", order.smart_wallet)
    check_uint256("nonce", order.nonce)
    if type(order.expiration_s) is int and order.expiration_s > UINT256_MAX:
        check_uint256("expiration_s", order.expiration_s)
    if order.collateral is not None:
        check_uint256("collateral", order.collateral)


def _check_order(market_state: "MarketState", order: Order, now_ms: int) -> None:
    """Check an order against the terms of its market.

    Size and fee rate precede the expiration, which :func:`validation.check_order` checks with the
    book's other rules, so its error is raised last.
    """
    expired = None
    try:
        is_no = order.token == market_state.no
        book = market_state.no_book if is_no else market_state.yes_book
        validation.check_order(order, book, now_ms)
    except errors.TokenNotInMarketError:
        raise _token_rejection(market_state, order.token) from None
    except errors.OrderExpiredError as error:
        expired = error
    check_min_size(market_state, order.size)
    rate = order.fee_rate_bps
    if rate is not None and (type(rate) is not int or not 0 <= rate <= FEE_RATE_MAX_BPS):
        raise errors.InvalidFeeRateError(
            f"fee_rate_bps must be None or an integer from 0 to {FEE_RATE_MAX_BPS}; "
            f"got {show(rate)}"
        )
    if expired:
        raise expired


def _check_unused(state: "OrderIndex", command: commands.Submit, order: Order) -> None:
    """Check that order hash, client id and order id are new."""
    used = state.used_hashes.get(command.order_hash) if command.order_hash is not None else None
    if used is not None:
        order_id = None if type(used) is tuple else state.peek(used).order.id
        which = "an order no longer kept" if order_id is None else f"order {show(order_id)}"
        raise errors.OrderAlreadyUsedError(
            f"this signed order was already accepted as {which}", order_id
        )
    known = None
    if command.client_id is not None:
        known = state.client_ids.get((order.maker, command.client_id))
    if known is not None:
        known = state.peek(known)
        message = f"client_id {show(command.client_id)} already belongs to order"
        if _is_same_order(known, command, order):
            raise errors.OrderAlreadyUsedError(
                f"{message} {show(known.order.id)}, which is identical", known.order.id
            )
        raise errors.ClientIdConflictError(
            f"{message} {show(known.order.id)}, which differs", known.order.id
        )
    if order.id in state.entries:
        raise errors.DuplicateOrderError(f"order {show(order.id)} already exists")


def _is_same_order(known: "OrderEntry", command: commands.Submit, order: Order) -> bool:
    """Return whether a known order equals a submitted one in all fields but the id."""
    is_same = msgspec.structs.replace(order, id=known.submitted.id) == known.submitted
    return is_same and known.maker_state.market_state.market.id == command.market


def _check_nonce(state: "OrderIndex", order: Order) -> None:
    nonce = state.nonces.get(order.maker, 0)
    if order.nonce < nonce:
        raise errors.NonceTooLowError(
            f"nonce must be at least {nonce}, the maker's current one; got {order.nonce}"
        )


def _check_order_count(state: "OrderIndex", market_state: "MarketState", order: Order) -> None:
    maker_state = market_state.makers.get(order.maker)
    rests = order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
    if maker_state and rests and maker_state.count >= state.orders_max:
        raise errors.TooManyOrdersError(
            f"a maker may have at most {state.orders_max} resting orders in a market; "
            f"{show(order.maker)} has {maker_state.count}"
        )


def _check_covered(state: "OrderIndex", market_state: "MarketState", order: Order) -> None:
    buys = order.side is Side.BUY
    wallet = (order.smart_wallet or order.maker) if buys else order.maker
    asset = market_state.market.collateral if buys else order.token
    _check_balance(state, wallet, asset, needed(order, order.size, order.price), 0)


def _check_balance(state: "OrderIndex", wallet: str, asset: str, needs: int, held: int) -> None:
    """Check that a wallet has an amount available.

    ``held`` is the amount the order reserves already; a replacement releases it first.
    """
    account = state.accounts.get((wallet, asset))
    balance, reserved, unsettled = 0, 0, 0
    if account is not None:
        balance, unsettled = account.balance, account.unsettled
        reserved = account.reserved - held
    available = balance - reserved - unsettled
    if needs > available:
        raise errors.InsufficientBalanceError(
            f"{show(wallet)} has {available} wei of {show(asset)} available, "
            f"{needs} needed; {reserved} reserved, {unsettled} unsettled of {balance}"
        )


# ----- Cancel, Reduce, Replace ---------------------------------------------------------------


def cancel_rejection(state: "OrderIndex", command: commands.Cancel) -> errors.RejectedError:
    """Return the error of the first rule that a cancel breaks."""
    try:
        check_cancel(state, command)
    except errors.RejectedError as error:
        return error
    raise errors.InvariantError(f"admission rejected a command that breaks no rule: {command!r}")


def check_cancel(state: "OrderIndex", command: commands.Cancel) -> None:
    """Raise the error of the first rule that a cancel breaks."""
    _check_market_and_maker(state, command)
    validation.check_id(command.order_id)
    _find_order(state, command, Mode.CANCEL_ONLY)


def check_reduce(state: "OrderIndex", command: commands.Reduce, now_ms: int) -> None:
    """Raise the error of the first rule that a reduction breaks."""
    _check_market_and_maker(state, command)
    validation.check_id(command.order_id)
    validation.check_size(command.size, _lot_of(state, command))
    entry = _find_order(state, command, Mode.CANCEL_ONLY)
    if command.size >= entry.remaining:
        raise book_rejections.not_reduced(command.size, entry.remaining)


def check_replace(state: "OrderIndex", command: commands.Replace, now_ms: int) -> None:
    """Raise the error of the first rule that a replacement breaks, except the book's own rules."""
    _check_market_and_maker(state, command)
    validation.check_policy(command.post_only, command.self_trade)
    validation.check_id(command.order_id)
    validation.check_price(command.price, PRICE_MIN, PRICE_MAX)
    validation.check_size(command.size, _lot_of(state, command))
    known = find_entry(state, command.order_id)
    if known is not None:
        check_min_size(known.maker_state.market_state, command.size)
        if known.resting and 0 < known.order.expiration_s < now_ms // 1000:
            raise book_rejections.expired(known.order.expiration_s, now_ms // 1000)
    entry = _find_order(state, command, Mode.OPEN)
    if entry.maker_state.market_state.has_accounts:
        account, needs = entry.pays, needed(entry.order, command.size, command.price)
        _check_balance(state, account.wallet, account.asset, needs, entry.reserve)


def _check_market_and_maker(state: "OrderIndex", command: OrderCommand) -> None:
    check_text("market", command.market)
    check_maker(command.maker)
    if command.market:
        find_market(state, command.market)


def _lot_of(state: "OrderIndex", command: commands.Reduce | commands.Replace) -> int:
    """Return the lot of the order's market; 1 for an unknown order, which is rejected later."""
    entry = find_entry(state, command.order_id)
    return entry.maker_state.market_state.market.lot_wei if entry else 1


def find_entry(state: "OrderIndex", order_id: str | int) -> "OrderEntry | None":
    """Return the entry of an order, only to read it; None if it is unknown."""
    found = state.entries.get(order_id)
    return None if found is None else state.peek(found)


def _find_order(state: "OrderIndex", command: OrderCommand, mode_max: Mode) -> "OrderEntry":
    """Return the resting order of a command that its maker may change now, or raise."""
    entry = find_entry(state, command.order_id)
    if entry is None or command.market not in ("", entry.maker_state.market_state.market.id):
        where = f" in market {show(command.market)}" if command.market else ""
        raise errors.UnknownOrderError(f"no order {show(command.order_id)}{where}")
    if command.maker is not None and command.maker != entry.maker_state.maker:
        raise errors.NotTheMakerError(
            f"order {show(command.order_id)} does not belong to maker {show(command.maker)}"
        )
    if not entry.resting:
        raise errors.OrderNotOpenError(
            f"order {show(command.order_id)} is finished: {entry.removal}", command.order_id
        )
    if command.maker is not None or mode_max is Mode.OPEN:
        check_mode(entry.maker_state.market_state, mode_max)
    return entry


# ----- CancelAll, CancelSome, SetNonce, Expire -----------------------------------------------


def check_cancel_all(state: "OrderIndex", command: commands.CancelAll, now_ms: int) -> None:
    """Raise if the market is unknown, or does not allow its makers to cancel."""
    check_maker(command.maker)
    if command.market is not None:
        market_state = find_market(state, command.market)
        if command.maker is not None:
            check_mode(market_state, Mode.CANCEL_ONLY)


def check_cancel_some(state: "OrderIndex", command: commands.CancelSome, now_ms: int) -> None:
    """Raise if a filter is invalid, or its market does not allow its makers to cancel."""
    check_maker(command.maker)
    if command.token is not None:
        check_text("token", command.token, 1)
    if command.side is not None and type(command.side) is not Side:
        raise errors.InvalidCommandError(f"side must be a Side or None; got {show(command.side)}")
    if command.accepted_until_ms is not None:
        until_ms = command.accepted_until_ms
        check_integer("accepted_until_ms", until_ms, 0, TIME_MAX, errors.InvalidCommandError)
    market_state = market_of_filters(state, command.market, command.token)
    if market_state is not None and command.maker is not None:
        check_mode(market_state, Mode.CANCEL_ONLY)


def market_of_filters(
    state: "OrderIndex", market: str | None, token: str | None
) -> "MarketState | None":
    """Return the only market that can pass the filters, None for all; raise if none can."""
    if market is None and token is not None:
        market = state.tokens.get(token)
        if market is None:
            raise errors.TokenNotInMarketError(f"no market has token {show(token)}")
    if market is None:
        return None
    market_state = find_market(state, market)
    if token is not None:
        find_book(market_state, token)
    return market_state


def check_set_nonce(state: "OrderIndex", command: commands.SetNonce, now_ms: int) -> None:
    """Raise unless the nonce is above the maker's current one."""
    check_text("maker", command.maker)
    check_uint256("nonce", command.nonce)
    nonce = state.nonces.get(command.maker, 0)
    if command.nonce <= nonce:
        raise errors.NonceTooLowError(
            f"nonce must be above {nonce}, the maker's current one; got {command.nonce}"
        )


def check_expire(state: "OrderIndex", command: commands.Expire, now_ms: int) -> None:
    """Accept every ``Expire``: its time, the only field, was checked before."""


# ----- AddMarket, SetMarket, SetMode, RemoveMarket, SetLimits --------------------------------


def check_add_market(state: "OrderIndex", command: commands.AddMarket, now_ms: int) -> None:
    """Raise if the market is invalid or its id or a token is taken."""
    market = command.market
    check_market(market)
    check_tokens(state, market)
    if market.id in state.markets:
        raise errors.MarketExistsError(f"market {show(market.id)} already exists")


def check_market(market: Market) -> None:
    """Raise ``InvalidMarketError`` for a field of the wrong type or range, or a contradiction."""
    if type(market) is not Market:
        raise errors.InvalidMarketError(f"market must be a Market; got {show(market)}")
    for name in ("id", "yes", "no", "fee_wallet", "collateral"):
        try:
            check_text(name, getattr(market, name), 0 if name == "no" else 1)
        except errors.RejectedError as error:
            raise errors.InvalidMarketError(str(error)) from None
    if len({market.yes, market.no, market.collateral}) != 3:
        raise errors.InvalidMarketError(
            f"yes, no and collateral must differ; got {show(market.yes)}, {show(market.no)} "
            f"and {show(market.collateral)}"
        )
    for name, kind in (("mode", Mode), ("self_trade", SelfTrade), ("funds", Funds)):
        if type(getattr(market, name)) is not kind:
            raise errors.InvalidMarketError(
                f"{name} must be a {kind.__name__}; got {show(getattr(market, name))}"
            )
    for name in ("lot_wei", "min_size"):
        check_integer(name, getattr(market, name), 1, SIZE_MAX, errors.InvalidMarketError)
    for name in ("resting_fee_rate_bps", "incoming_fee_rate_bps"):
        rate = getattr(market, name)
        check_integer(name, rate, 0, FEE_RATE_MAX_BPS, errors.InvalidMarketError)
    for name in ("settles", "complementary"):
        if type(getattr(market, name)) is not bool:
            raise errors.InvalidMarketError(
                f"{name} must be True or False; got {show(getattr(market, name))}"
            )
    if market.settles and market.funds is not Funds.ACCOUNTS:
        raise errors.InvalidMarketError("settles=True needs funds=Funds.ACCOUNTS; got Funds.NONE")
    if market.funds is Funds.ACCOUNTS and not market.no:
        raise errors.InvalidMarketError(
            f"no must have 1 to {TEXT_MAX} characters in a market with Funds.ACCOUNTS; got 0"
        )
    if market.complementary:
        _check_complementary(market)


def _check_complementary(market: Market) -> None:
    """Check that a complementary market has both tokens and lots that split evenly."""
    if not market.no:
        raise errors.InvalidMarketError(
            f"no must have 1 to {TEXT_MAX} characters in a complementary market; got 0"
        )
    if market.lot_wei % PAIR_LOT_WEI:
        raise errors.InvalidMarketError(
            f"lot_wei must be a multiple of {PAIR_LOT_WEI} in a complementary market; "
            f"got {market.lot_wei}"
        )


def check_tokens(state: "OrderIndex", market: Market) -> None:
    """Raise ``InvalidMarketError`` for a token or collateral that has another role already."""
    for token in (market.yes, market.no):
        if token in state.tokens and state.tokens[token] != market.id:
            raise errors.InvalidMarketError(
                f"token {show(token)} already belongs to market {show(state.tokens[token])}"
            )
    if market.collateral in state.tokens:
        raise errors.InvalidMarketError(
            f"collateral must not be the token of a market; got {show(market.collateral)}"
        )
    if market.yes in state.collaterals or market.no in state.collaterals:
        other = next(
            each.market
            for each in state.markets.values()
            if each.market.collateral in (market.yes, market.no)
        )
        raise errors.InvalidMarketError(
            f"token {show(other.collateral)} is the collateral of market {show(other.id)}"
        )


def check_set_market(state: "OrderIndex", command: commands.SetMarket, now_ms: int) -> None:
    """Raise if the terms are invalid or change a fixed field."""
    market = command.market
    check_market(market)
    current = find_market(state, market.id).market
    for name in FIXED:
        if name == "no" and not current.no:
            continue
        if getattr(current, name) != getattr(market, name):
            raise errors.InvalidMarketError(
                f"{name} of market {show(current.id)} cannot change: it is "
                f"{show(getattr(current, name))}; got {show(getattr(market, name))}"
            )
    if market.no != current.no:
        check_tokens(state, market)


def check_set_mode(state: "OrderIndex", command: commands.SetMode, now_ms: int) -> None:
    """Raise for an invalid mode, and for any other mode once the market is resolved."""
    if type(command.mode) is not Mode:
        raise errors.InvalidCommandError(f"mode must be a Mode; got {show(command.mode)}")
    market_state = find_market(state, command.market)
    if command.mode is not Mode.RESOLVED:
        check_mode(market_state, Mode.HALTED)


def check_remove_market(state: "OrderIndex", command: commands.RemoveMarket, now_ms: int) -> None:
    """Raise unless the market is resolved and none of its trades waits for settlement."""
    market_state = find_market(state, command.market)
    if market_state.mode is not Mode.RESOLVED:
        raise errors.MarketNotOpenError(
            f"market {show(command.market)} must be in mode {Mode.RESOLVED!r} to be removed; "
            f"it is in {market_state.mode!r}"
        )
    if market_state.pending:
        raise errors.MarketNotOpenError(
            f"market {show(command.market)} must have no trades that wait for settlement to be "
            f"removed; it has {len(market_state.pending)}"
        )


def check_set_limits(state: "OrderIndex", command: commands.SetLimits, now_ms: int) -> None:
    """Raise if a limit is invalid."""
    check_limits(command.limits)


def check_limits(limits: Limits) -> None:
    """Raise ``InvalidCommandError`` unless every limit is an integer from 1 to ``TIME_MAX``."""
    if type(limits) is not Limits:
        raise errors.InvalidCommandError(f"limits must be a Limits; got {show(limits)}")
    for name in Limits.__struct_fields__:
        check_integer(name, getattr(limits, name), 1, TIME_MAX, errors.InvalidCommandError)


# ----- ResetClock ----------------------------------------------------------------------------


def check_reset_clock(state: "OrderIndex", command: commands.ResetClock, now_ms: int) -> None:
    """Raise for an invalid time, which may be before the last one, or a malformed hash."""
    if type(now_ms) is not int or not 0 <= now_ms <= TIME_MAX:
        raise time_rejection(now_ms, 0)
    if type(command.spent) is not tuple:
        raise errors.InvalidCommandError(f"spent must be a tuple; got {show(command.spent)}")
    for each in command.spent:
        if type(each) is not commands.SpentHash:
            raise errors.InvalidCommandError(f"spent may contain SpentHash; got {show(each)}")
        if type(each.order_hash) is not bytes or len(each.order_hash) != 32:
            raise errors.InvalidCommandError(
                f"order_hash must be 32 bytes; got {show(each.order_hash)}"
            )
        check_text("maker", each.maker)
        check_uint256("nonce", each.nonce)
        check_uint256("expiration_s", each.expiration_s)


# ----- Batch ---------------------------------------------------------------------------------


def check_batch(state: "OrderIndex", command: commands.Batch, now_ms: int) -> None:
    """Raise for a batch that is malformed, empty or too large."""
    if type(command.commands) is not tuple or type(command.atomic) is not bool:
        raise errors.InvalidCommandError(
            "commands must be a tuple and atomic must be True or False"
        )
    for inner in command.commands:
        if type(inner) not in BATCH_KINDS:
            names = ", ".join(kind.__name__ for kind in BATCH_KINDS)
            raise errors.InvalidCommandError(f"commands may contain {names}; got {show(inner)}")
        name = "now_ms of a command in a batch"
        check_integer(name, inner.now_ms, 0, TIME_MAX, errors.InvalidCommandError)
    if not 1 <= len(command.commands) <= state.limits.batch_max:
        raise errors.BatchTooLargeError(
            f"a batch must have 1 to {state.limits.batch_max} commands; got {len(command.commands)}"
        )
