"""Who has what: orders hold it while they rest, trades move it. The lower half of the desk.

Compiled as it stands, like the desk, with the types of ``_accounts_c.pxd``.
"""

from typing import Any

from clob.events import MatchType, Trade
from clob.matcher import rollback
from clob.matcher.entities import Account, MarketState, OrderEntry, PendingTrade
from clob.order import Side

BUY = Side.BUY
MINT = MatchType.MINT


class Accounts:
    """The accounts of all wallets, and what orders and trades do to them."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Account] = {}
        # While a batch may have to be taken back: how, the last step first.
        self.undo: list[tuple[Any, Any, Any]] | None = None

    def open_accounts(self, entry: OrderEntry) -> None:
        """Give an accepted order the accounts it pays from and receives to."""
        order, trader = entry.order, entry.trader
        venue = trader.venue
        if not trader.has_accounts:
            trader.has_accounts = True
            trader.collateral = self.account(trader.maker, venue.market.collateral)
            trader.yes = self.account(trader.maker, venue.yes)
            trader.no = self.account(trader.maker, venue.no)
            venue.traders[trader.maker] = trader
        tokens = trader.yes if entry.is_yes else trader.no
        collateral = trader.collateral
        if order.smart_wallet:
            collateral = self.account(order.smart_wallet, venue.market.collateral)
        if order.side is BUY:
            entry.pays, entry.receives = collateral, tokens
        else:
            entry.pays, entry.receives = tokens, collateral

    def account(self, wallet: str, asset: str) -> Account:
        """Give the account of a wallet, made where there is none."""
        account = self.accounts.get((wallet, asset))
        if account is None:
            account = self.accounts[wallet, asset] = Account(wallet, asset)
        return account

    def pay(
        self, venue: MarketState, buyer: OrderEntry, seller: OrderEntry, event: Trade, paid: int
    ) -> None:
        """Move collateral and tokens, or hold them until the trade is settled."""
        if venue.settles:
            self.touch(buyer.pays)
            self.touch(seller.pays)
            accounts = (buyer.pays, buyer.receives, seller.pays, seller.receives)
            self.wait(venue, event, accounts, paid)
            return
        self.move(venue, buyer.pays, seller.receives, paid, event.seller_fee)
        self.move(venue, seller.pays, buyer.receives, event.size, event.buyer_fee)

    def pay_half(
        self, venue: MarketState, entry: OrderEntry, event: Trade, paid: int, other: int
    ) -> None:
        """Pay for one of the two trades of a mint or a merge, whose other party is nobody.

        What nobody pays is made, what nobody receives is gone: the collateral of a mint is locked
        where the tokens are made, and that of a merge comes from there.
        """
        accounts = self.beside_nobody(entry.pays, entry.receives, event.match_type is MINT)
        if venue.settles:
            self.touch(entry.pays)
            self.wait(venue, event, accounts, paid)
            self.bind(venue, event.seq, event.match_type, other)
            return
        self.move(venue, accounts[0], accounts[3], paid, event.seller_fee)
        self.move(venue, accounts[2], accounts[1], event.size, event.buyer_fee)

    def beside_nobody(
        self, pays: Account, receives: Account, minted: bool
    ) -> tuple[Account, Account, Account, Account]:
        """Give the four accounts of half a mint or a merge: a party's two, and nobody's."""
        nobody_pays, nobody_receives = Account("", receives.asset), Account("", pays.asset)
        if minted:
            return pays, receives, nobody_pays, nobody_receives
        return nobody_pays, nobody_receives, pays, receives

    def bind(self, venue: MarketState, seq: int, match_type: MatchType, other: int) -> None:
        """Let a trade that waits be half of a mint or a merge."""
        held = venue.pending[seq]
        held.match_type, held.other = match_type, other

    def wait(
        self,
        venue: MarketState,
        event: Trade,
        accounts: tuple[Account, Account, Account, Account],
        paid: int,
    ) -> None:
        """Let a trade that was just made wait for its settlement."""
        amounts = (paid, event.size, event.buyer_fee, event.seller_fee)
        self.hold(venue, event.seq, accounts, amounts)
        if self.undo is not None:
            self.undo.append((rollback.unhold, venue, event.seq))

    def hold(
        self,
        venue: MarketState,
        seq: int,
        accounts: tuple[Account, Account, Account, Account],
        amounts: tuple[int, int, int, int],
    ) -> None:
        """Let a trade wait for its settlement, and hold what it moves."""
        held = PendingTrade(accounts, amounts)
        held.buyer_pays.unsettled += held.paid
        held.seller_pays.unsettled += held.size
        venue.pending[seq] = held

    def move(
        self, venue: MarketState, payer: Account, payee: Account, amount: int, fee: int
    ) -> None:
        """Move an amount from one account to another, less a fee that goes to the fee wallet."""
        self.touch(payer)
        self.touch(payee)
        payer.balance -= amount
        payee.balance += amount - fee
        if fee:
            collector = self.account(venue.market.fee_wallet, payer.asset)
            self.touch(collector)
            collector.balance += fee

    def reserve(self, entry: OrderEntry, remaining: int) -> None:
        """Hold what so much of a resting order needs, and no more."""
        order = entry.order
        needed = remaining * order.price // 100 if order.side is BUY else remaining
        self.touch(entry.pays)
        entry.pays.reserved += needed - entry.reserve
        entry.reserve = needed

    def touch(self, account: Account) -> None:
        """Keep an account as it is, where a batch may have to be taken back."""
        if self.undo is not None:
            self.undo.append((rollback.restore, account, account.saved()))
