"""Every rule that rejects a command about funds, in order of precedence, with its message."""

from typing import TYPE_CHECKING

from clob import commands, errors
from clob.book.validation import check_integer, show
from clob.events import MatchType
from clob.matcher.rejections import check_text, check_uint256, find_market
from clob.units import SIZE_MAX

if TYPE_CHECKING:
    from clob.matcher.entities import MarketState
    from clob.matcher.order_index import OrderIndex


def check_set_balance(state: "OrderIndex", command: commands.SetBalance, now_ms: int) -> None:
    """Raise for an invalid wallet, asset or amount."""
    check_text("wallet", command.wallet)
    check_text("asset", command.asset, 1)
    check_uint256("amount", command.amount)


def check_settled(state: "OrderIndex", command: commands.Settled, now_ms: int) -> None:
    """Raise if a trade is not pending, is named twice, or its paired trade is missing."""
    if type(command.trades) is not tuple:
        raise errors.InvalidCommandError(f"trades must be a tuple; got {show(command.trades)}")
    for seq in command.trades:
        _check_trade_seq(seq)
    if len(set(command.trades)) != len(command.trades):
        raise errors.InvalidCommandError("trades must not contain a trade twice")
    market_state = find_market(state, command.market)
    for seq in command.trades:
        _check_paired(market_state, seq, command.trades)
    for seq in command.trades:
        _check_pending(market_state, seq)


def check_settle_failed(state: "OrderIndex", command: commands.SettleFailed, now_ms: int) -> None:
    """Raise for invalid fields or a trade that is not pending."""
    if command.wallet is not None:
        check_text("wallet", command.wallet)
    check_text("reason", command.reason)
    _check_trade_seq(command.trade)
    _check_pending(find_market(state, command.market), command.trade)


def check_reopen(state: "OrderIndex", command: commands.Reopen, now_ms: int) -> None:
    """Raise for invalid terms, a trade that never was or is pending, or half of a pair."""
    if type(command.trades) is not tuple or type(command.settled) is not bool:
        raise errors.InvalidCommandError("trades must be a tuple and settled must be True or False")
    for trade in command.trades:
        _check_terms(trade)
    by_seq = {trade.seq: trade for trade in command.trades}
    if len(by_seq) != len(command.trades):
        raise errors.InvalidCommandError("trades must not contain a trade twice")
    market_state = find_market(state, command.market)
    for trade in command.trades:
        _check_reopened(market_state, trade, by_seq.get(trade.other_seq))


def _check_terms(trade: object) -> None:
    """Check the fields of a trade by themselves."""
    if type(trade) is not commands.ReopenedTrade:
        raise errors.InvalidCommandError(f"a trade must be a ReopenedTrade; got {show(trade)}")
    _check_trade_seq(trade.seq)
    _check_trade_seq(trade.other_seq)
    check_text("token", trade.token, 1)
    kind = trade.match_type
    if type(kind) is not MatchType:
        raise errors.InvalidCommandError(f"match_type must be a MatchType; got {show(kind)}")
    missing = {MatchType.MERGE: "buyer", MatchType.MINT: "seller"}.get(kind, "no one")
    for name in ("buyer_pays", "buyer_receives", "seller_pays", "seller_receives"):
        check_text(name, wallet := getattr(trade, name))
        if wallet and name.startswith(missing):
            text = f"{name} must be empty in a {kind.value}; got {show(wallet)}"
            raise errors.InvalidCommandError(text)
    check_integer("size", trade.size, 1, SIZE_MAX, errors.InvalidCommandError)
    check_integer("paid", trade.paid, 0, trade.size, errors.InvalidCommandError)
    check_integer("buyer_fee", trade.buyer_fee, 0, trade.size, errors.InvalidCommandError)
    check_integer("seller_fee", trade.seller_fee, 0, trade.paid, errors.InvalidCommandError)


def _check_reopened(
    market_state: "MarketState",
    trade: commands.ReopenedTrade,
    other: commands.ReopenedTrade | None,
) -> None:
    """Check the terms of a trade against its market and its other half."""
    market, seq, direct = market_state.market, trade.seq, trade.match_type is MatchType.DIRECT
    halves = None if other is None else (other.other_seq, other.match_type, other.size)
    paired = market_state.complementary and not direct and other is not trade
    text = ""
    if not market.settles:
        text = f"market {show(market.id)} does not settle"
    elif not 1 <= seq <= market_state.seq_book.seq or seq in market_state.pending:
        text = f"trade {show(seq)} of market {show(market.id)} has no result to withdraw"
        raise errors.UnknownTradeError(text)
    elif trade.token not in (market.yes, market.no):
        text = f"token must be a token of market {show(market.id)}; got {show(trade.token)}"
    elif (trade.other_seq or not direct) and not (
        paired and halves == (seq, trade.match_type, trade.size)
    ):
        text = f"trade {seq} and its other half {show(trade.other_seq)} are inconsistent"
    if text:
        raise errors.InvalidCommandError(text)


def _check_trade_seq(seq: object) -> None:
    if type(seq) is not int:
        raise errors.InvalidCommandError(
            f"a trade must be the integer seq of its event; got {show(seq)}"
        )


def _check_pending(market_state: "MarketState", seq: int) -> None:
    if seq not in market_state.pending:
        raise errors.UnknownTradeError(
            f"trade {show(seq)} of market {show(market_state.market.id)} is not waiting for "
            "settlement"
        )


def _check_paired(market_state: "MarketState", seq: int, trades: tuple[int, ...]) -> None:
    """Check that both trades of a mint or merge settle together: one alone is not covered."""
    pending = market_state.pending.get(seq)
    if pending is not None and pending.other_seq and pending.other_seq not in trades:
        raise errors.InvalidCommandError(
            f"trade {seq} is half of a mint or merge and must settle together with trade "
            f"{pending.other_seq}"
        )
