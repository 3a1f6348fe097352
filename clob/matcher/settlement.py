"""Commands about funds: what a wallet has, and what became of trades on their way to settlement."""

from typing import TYPE_CHECKING

from clob.book.validation import show
from clob.commands import SetBalance, Settled, SettleFailed
from clob.errors import InvalidCommandError, UnknownTradeError
from clob.events import Event, RemovalReason
from clob.matcher import rejections
from clob.matcher.amend import by_number, of_maker, remove

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import Account, MarketState, OrderEntry, PendingTrade


def refuse_set_balance(desk: "Engine", command: SetBalance, now_ms: int) -> None:
    """Refuse what names no account or no amount."""
    rejections.check_text("wallet", command.wallet)
    rejections.check_text("asset", command.asset, 1)
    rejections.check_uint256("amount", command.amount)


def set_balance(desk: "Engine", command: SetBalance, now_ms: int) -> list[Event]:
    """Let a wallet have so much, and take out what it no longer covers, the newest first."""
    account = desk.account(command.wallet, command.asset)
    account.balance = command.amount
    events: list[Event] = []
    if account.balance >= account.reserved + account.unsettled:
        return events
    for entry in reversed(_paid_from(desk, account)):
        if account.balance >= account.reserved + account.unsettled:
            break
        events += remove(desk, [entry], RemovalReason.SETTLEMENT, now_ms)
    return events


def _paid_from(desk: "Engine", account: "Account") -> list["OrderEntry"]:
    """List the resting orders that hold something of an account, in the sequence of acceptance."""
    own = [e for venue in desk.venues.values() for e in of_maker(venue, account.wallet)]
    entries = {entry.number: entry for entry in (*own, *account.guests.values())}
    return by_number(entry for entry in entries.values() if entry.pays is account)


def _check_number(seq: object) -> None:
    """Refuse what is no number of a trade."""
    if type(seq) is not int:
        raise InvalidCommandError(f"a trade is named by its seq, not {show(seq)}")


def _check_waits(venue: "MarketState", seq: int) -> None:
    """Refuse a trade that does not wait to be settled."""
    if seq not in venue.pending:
        raise UnknownTradeError(
            f"no trade {show(seq)} of market {show(venue.market.id)} waits to be settled"
        )


def _check_whole(venue: "MarketState", seq: int, trades: tuple[int, ...]) -> None:
    """Refuse half of a mint or a merge: without the other, the tokens would not be covered."""
    held = venue.pending.get(seq)
    if held is not None and held.other and held.other not in trades:
        raise InvalidCommandError(
            f"trade {seq} is half of a mint or a merge and is settled together with trade "
            f"{held.other}, not alone"
        )


def _released(venue: "MarketState", seq: int) -> "PendingTrade":
    """Let a trade wait no more, and hold nothing."""
    held = venue.pending.pop(seq)
    held.buyer_pays.unsettled -= held.paid
    held.seller_pays.unsettled -= held.size
    return held


def refuse_settled(desk: "Engine", command: Settled, now_ms: int) -> None:
    """Refuse where any of the trades does not wait, or is named twice."""
    if type(command.trades) is not tuple:
        raise InvalidCommandError(f"trades must be a tuple, not {show(command.trades)}")
    for seq in command.trades:
        _check_number(seq)
    if len(set(command.trades)) != len(command.trades):
        raise InvalidCommandError("a trade is settled once, and one is named twice")
    venue = rejections.venue_of(desk, command.market)
    for seq in command.trades:
        _check_whole(venue, seq, command.trades)
    for seq in command.trades:
        _check_waits(venue, seq)


def settled(desk: "Engine", command: Settled, now_ms: int) -> list[Event]:
    """Let what the trades hold change hands."""
    venue = desk.venues[command.market]
    for seq in command.trades:
        held = _released(venue, seq)
        desk.move(venue, held.buyer_pays, held.seller_receives, held.paid, held.seller_fee)
        desk.move(venue, held.seller_pays, held.buyer_receives, held.size, held.buyer_fee)
    return []


def refuse_settle_failed(desk: "Engine", command: SettleFailed, now_ms: int) -> None:
    """Refuse a trade that does not wait."""
    if command.wallet is not None:
        rejections.check_text("wallet", command.wallet)
    rejections.check_text("reason", command.reason)
    _check_number(command.trade)
    _check_waits(rejections.venue_of(desk, command.market), command.trade)


def settle_failed(desk: "Engine", command: SettleFailed, now_ms: int) -> list[Event]:
    """Give back what a trade holds; take out the orders of the wallet to blame."""
    venue = desk.venues[command.market]
    held = _released(venue, command.trade)
    if held.other:
        _released(venue, held.other)
    if command.wallet is None:
        return []
    payer = desk.accounts.get((command.wallet, venue.market.collateral))
    guests = payer.guests.values() if payer else ()
    paid_for = [entry for entry in guests if entry.trader.venue is venue]
    entries = {entry.number: entry for entry in of_maker(venue, command.wallet) + paid_for}
    return remove(desk, by_number(entries.values()), RemovalReason.SETTLEMENT, now_ms)
