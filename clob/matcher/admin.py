"""Commands about markets: add one, change its terms or its mode, change the limits."""

from typing import TYPE_CHECKING

import msgspec

from clob.book.validation import show
from clob.commands import AddMarket, SetLimits, SetMarket, SetMode
from clob.errors import InvalidCommandError, InvalidMarketError, MarketExistsError, RejectedError
from clob.events import Event, OrderRemoved, RemovalReason
from clob.market import Funds, Limits, Market, Mode
from clob.matcher import complementary, rejections
from clob.order import SelfTrade
from clob.units import FEE_RATE_MAX_BPS, SIZE_MAX, TEXT_MAX, TIME_MAX

if TYPE_CHECKING:
    from clob.matcher.engine import Engine

FIXED = ("id", "yes", "no", "lot_wei", "mode", "funds", "collateral", "settles", "complementary")
"""What ``SetMarket`` cannot change, but for a ``no`` that was left open."""


def check_market(market: Market) -> None:
    """Refuse a market that cannot be.

    Raises:
        InvalidMarketError: a field is of the wrong type or out of range, or two contradict.
    """
    if type(market) is not Market:
        raise InvalidMarketError(f"a Market is needed, not {show(market)}")
    for name in ("id", "yes", "no", "fee_wallet", "collateral"):
        try:
            rejections.check_text(name, getattr(market, name), 0 if name == "no" else 1)
        except RejectedError as error:
            raise InvalidMarketError(str(error)) from None
    if len({market.yes, market.no, market.collateral}) != 3:
        raise InvalidMarketError(
            f"yes, no and collateral must differ, not {show(market.yes)}, {show(market.no)} "
            f"and {show(market.collateral)}"
        )
    for name, kind in (("mode", Mode), ("self_trade", SelfTrade), ("funds", Funds)):
        if type(getattr(market, name)) is not kind:
            raise InvalidMarketError(
                f"{name} must be a {kind.__name__}, not {show(getattr(market, name))}"
            )
    for name in ("lot_wei", "min_size"):
        _check_range(name, getattr(market, name), 1, SIZE_MAX)
    for name in ("resting_fee_rate_bps", "incoming_fee_rate_bps"):
        _check_range(name, getattr(market, name), 0, FEE_RATE_MAX_BPS)
    for name in ("settles", "complementary"):
        if type(getattr(market, name)) is not bool:
            raise InvalidMarketError(
                f"{name} must be True or False, not {show(getattr(market, name))}"
            )
    if market.settles and market.funds is not Funds.ACCOUNTS:
        raise InvalidMarketError("a market that settles needs Funds.ACCOUNTS, not Funds.NONE")
    if market.funds is Funds.ACCOUNTS and not market.no:
        raise InvalidMarketError(
            f"no must have 1 to {TEXT_MAX} characters in a market with Funds.ACCOUNTS, not 0"
        )
    if market.complementary:
        _check_complementary(market)


def _check_complementary(market: Market) -> None:
    """Refuse a complementary market without a pair of tokens, or whose halves could be uneven."""
    if not market.no:
        raise InvalidMarketError(
            f"no must have 1 to {TEXT_MAX} characters in a complementary market, not 0"
        )
    if market.lot_wei % complementary.LOT_WEI:
        raise InvalidMarketError(
            f"lot_wei must be a multiple of {complementary.LOT_WEI} in a complementary market, "
            f"not {market.lot_wei}"
        )


def _check_range(name: str, value: object, least: int, most: int) -> None:
    """Refuse a number that is none, or out of range."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidMarketError(
            f"{name} must be an integer from {least} to {most}, not {show(value)}"
        )


def refuse_add_market(desk: "Engine", command: AddMarket, now_ms: int) -> None:
    """Refuse a market that cannot be, or that is there."""
    market = command.market
    check_market(market)
    check_tokens(desk, market)
    if market.id in desk.venues:
        raise MarketExistsError(f"there is a market {show(market.id)} already")


def check_tokens(desk: "Engine", market: Market) -> None:
    """Refuse tokens and collateral that are something else already."""
    for token in (market.yes, market.no):
        if token in desk.tokens and desk.tokens[token] != market.id:
            raise InvalidMarketError(
                f"token {show(token)} is in market {show(desk.tokens[token])} already"
            )
    if market.collateral in desk.tokens:
        raise InvalidMarketError(f"collateral {show(market.collateral)} is a token of a market")
    for venue in desk.venues.values():
        if venue.market.collateral in (market.yes, market.no):
            raise InvalidMarketError(
                f"token {show(venue.market.collateral)} is the collateral of market "
                f"{show(venue.market.id)}"
            )


def add_market(desk: "Engine", command: AddMarket, now_ms: int) -> list[Event]:
    """Open a market."""
    desk.open_venue(command.market)
    return []


def refuse_set_market(desk: "Engine", command: SetMarket, now_ms: int) -> None:
    """Refuse terms that cannot be, or that cannot be changed."""
    market = command.market
    check_market(market)
    before = rejections.venue_of(desk, market.id).market
    for name in FIXED:
        if name == "no" and not before.no:
            continue
        if getattr(before, name) != getattr(market, name):
            raise InvalidMarketError(
                f"{name} of market {show(before.id)} stays {show(getattr(before, name))}, "
                f"not {show(getattr(market, name))}"
            )
    if market.no != before.no:
        check_tokens(desk, market)


def set_market(desk: "Engine", command: SetMarket, now_ms: int) -> list[Event]:
    """Change the terms of a market; name its NO token where it had none."""
    market = command.market
    venue = desk.venues[market.id]
    if market.no != venue.market.no:
        desk.name_no(market)
    venue.adopt(market)
    return []


def refuse_set_mode(desk: "Engine", command: SetMode, now_ms: int) -> None:
    """Refuse a mode that is none, and any after the last."""
    if type(command.mode) is not Mode:
        raise InvalidCommandError(f"mode must be a Mode, not {show(command.mode)}")
    venue = rejections.venue_of(desk, command.market)
    if command.mode is not Mode.RESOLVED:
        rejections.check_mode(venue, Mode.HALTED)


def set_mode(desk: "Engine", command: SetMode, now_ms: int) -> list[Event]:
    """Change what a market allows; where it is resolved, remove every order."""
    venue = desk.venues[command.market]
    venue.adopt(msgspec.structs.replace(venue.market, mode=command.mode))
    if command.mode is not Mode.RESOLVED:
        return []
    events: list[Event] = []
    for book in (venue.yes_book,) if venue.complementary else (venue.yes_book, venue.no_book):
        venue.hand_over(book)
        events += book.clear(RemovalReason.MARKET)
    if venue.complementary:
        complementary.told(desk, venue, events, True)
    for event in events:
        if isinstance(event, OrderRemoved):
            desk.finish(desk.entries[event.order_id], event.reason)
    return events


def refuse_set_limits(desk: "Engine", command: SetLimits, now_ms: int) -> None:
    """Refuse limits that cannot be."""
    check_limits(command.limits)


def check_limits(limits: Limits) -> None:
    """Refuse what is no limits, or one below 1 or beyond 63 bits."""
    if type(limits) is not Limits:
        raise InvalidCommandError(f"a Limits is needed, not {show(limits)}")
    for name in Limits.__struct_fields__:
        value = getattr(limits, name)
        if type(value) is not int or not 1 <= value <= TIME_MAX:
            raise InvalidCommandError(
                f"{name} must be an integer from 1 to {TIME_MAX}, not {show(value)}"
            )


def set_limits(desk: "Engine", command: SetLimits, now_ms: int) -> list[Event]:
    """Change the limits."""
    desk.adopt_limits(command.limits)
    return []
