"""Balances: resting orders reserve them, trades move them.

Compiled from this text, with the types of ``accounts.pxd``.
"""

from typing import Any

from clob.events import MatchType, Trade
from clob.matcher import rollback
from clob.matcher.entities import Account, MarketState, OrderEntry, PendingTrade
from clob.order import Side

BUY = Side.BUY
MINT = MatchType.MINT


class Accounts:
    """The accounts of all wallets, and the effect of orders and trades on them."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Account] = {}
        # The assets in which a wallet has an account.
        self.assets: dict[str, list[str]] = {}
        # Reverse steps while an atomic batch may be rolled back, the last step last.
        self.undo: list[tuple[Any, Any, Any]] | None = None

    def open_accounts(self, entry: OrderEntry) -> None:
        """Set the accounts that an accepted order pays from and receives to."""
        order, maker_state = entry.order, entry.maker_state
        market_state = maker_state.market_state
        if not maker_state.has_accounts:
            maker_state.has_accounts = True
            maker_state.collateral = self.account(maker_state.maker, market_state.market.collateral)
            maker_state.yes = self.account(maker_state.maker, market_state.yes)
            maker_state.no = self.account(maker_state.maker, market_state.no)
            market_state.makers[maker_state.maker] = maker_state
        tokens = maker_state.yes if entry.is_yes else maker_state.no
        collateral = maker_state.collateral
        if order.smart_wallet:
            collateral = self.account(order.smart_wallet, market_state.market.collateral)
        if order.side is BUY:
            entry.pays, entry.receives = collateral, tokens
        else:
            entry.pays, entry.receives = tokens, collateral

    def account(self, wallet: str, asset: str) -> Account:
        """Return the account of a wallet and asset, created on first use."""
        account = self.accounts.get((wallet, asset))
        if account is None:
            account = self.accounts[wallet, asset] = Account(wallet, asset)
            self.assets.setdefault(wallet, []).append(asset)
        return account

    def pay(
        self,
        market_state: MarketState,
        buyer: OrderEntry,
        seller: OrderEntry,
        event: Trade,
        paid: int,
    ) -> None:
        """Move collateral and tokens of a trade, or hold them until it is settled."""
        if market_state.settles:
            self.save(buyer.pays)
            self.save(seller.pays)
            accounts = (buyer.pays, buyer.receives, seller.pays, seller.receives)
            self.hold_trade(market_state, event, accounts, paid)
            return
        self.move(market_state, buyer.pays, seller.receives, paid, event.seller_fee)
        self.move(market_state, seller.pays, buyer.receives, event.size, event.buyer_fee)

    def pay_paired(
        self, market_state: MarketState, entry: OrderEntry, event: Trade, paid: int, other_seq: int
    ) -> None:
        """Pay for one of the two trades of a mint or merge, which has no counterparty.

        A mint creates tokens and locks the collateral; a merge burns tokens and releases it.
        """
        accounts = self.paired_accounts(entry.pays, entry.receives, event.match_type is MINT)
        if market_state.settles:
            self.save(entry.pays)
            self.hold_trade(market_state, event, accounts, paid)
            self.link_pair(market_state, event.seq, event.match_type, other_seq)
            return
        self.move(market_state, accounts[0], accounts[3], paid, event.seller_fee)
        self.move(market_state, accounts[2], accounts[1], event.size, event.buyer_fee)

    def paired_accounts(
        self, pays: Account, receives: Account, minted: bool
    ) -> tuple[Account, Account, Account, Account]:
        """Return buyer's and seller's accounts, with discarded ones for the missing party."""
        other_pays, other_receives = Account("", receives.asset), Account("", pays.asset)
        if minted:
            return pays, receives, other_pays, other_receives
        return other_pays, other_receives, pays, receives

    def link_pair(
        self, market_state: MarketState, seq: int, match_type: MatchType, other_seq: int
    ) -> None:
        """Mark a pending trade as half of a mint or merge."""
        pending = market_state.pending[seq]
        pending.match_type, pending.other_seq = match_type, other_seq

    def hold_trade(
        self,
        market_state: MarketState,
        event: Trade,
        accounts: tuple[Account, Account, Account, Account],
        paid: int,
    ) -> None:
        """Add a new trade to the pending ones, with its reverse step."""
        amounts = (paid, event.size, event.buyer_fee, event.seller_fee)
        self.add_pending(market_state, event.seq, accounts, amounts)
        if self.undo is not None:
            self.undo.append((rollback.remove_pending, market_state, event.seq))

    def add_pending(
        self,
        market_state: MarketState,
        seq: int,
        accounts: tuple[Account, Account, Account, Account],
        amounts: tuple[int, int, int, int],
    ) -> None:
        """Hold the amounts of a trade until it is settled."""
        pending = PendingTrade(accounts, amounts)
        pending.buyer_pays.unsettled += pending.paid
        pending.seller_pays.unsettled += pending.size
        market_state.pending[seq] = pending

    def move(
        self, market_state: MarketState, payer: Account, payee: Account, amount: int, fee: int
    ) -> None:
        """Move an amount between accounts; the fee goes to the market's fee wallet."""
        self.save(payer)
        self.save(payee)
        payer.balance -= amount
        payee.balance += amount - fee
        if fee:
            collector = self.account(market_state.market.fee_wallet, payer.asset)
            self.save(collector)
            collector.balance += fee

    def reserve(self, entry: OrderEntry, remaining: int) -> None:
        """Set the reserve of a resting order to the amount that ``remaining`` needs."""
        order = entry.order
        needed = remaining * order.price // 100 if order.side is BUY else remaining
        self.save(entry.pays)
        entry.pays.reserved += needed - entry.reserve
        entry.reserve = needed

    def save(self, account: Account) -> None:
        """Add a reverse step for an account that is about to change."""
        if self.undo is not None:
            self.undo.append((rollback.restore, account, account.save()))
