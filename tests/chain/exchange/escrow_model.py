"""A model of the exchange with escrow: predicts each call, without the chain."""

from collections import Counter

from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DELAY_S,
    DEPOSITED,
    ORDER_FILLED,
    WITHDRAWN,
)
from tests.chain.exchange.evm_market import BOSS, BUY, FEES, MAKERS
from tests.chain.wallets import BOMB, BURNS, REVERTS, SLOW_SIGNER

WALLETS = [maker.address for maker in MAKERS]
HOLDERS = (*WALLETS, FEES, BOSS)
CASH = COLLATERAL_ASSET
MOST_FEE_BPS = 1_000
NONCE_STEP_S = 60
REJECTING = (REVERTS, BURNS, BOMB)
"""Codes of wallets that reject tokens and signatures."""


class Accounts:
    """Balances in wallets and in escrow, permissions, and results of trades.

    Each method returns whether a call succeeds, and applies it.

    Args:
        market: the exchange, of which only balances are read.
        reenters: returns the code of a wallet that, while it receives tokens, withdraws
            collateral and YES, and then revokes its request for collateral.
    """

    def __init__(self, market, reenters):
        self._market, self._reenters = market, reenters
        self.wallets = Counter(market.all_balances_of(HOLDERS))
        """Balances by holder and asset."""
        self.escrow = Counter()
        """Balances in escrow by wallet and asset."""
        self.requests = {}
        """Requested amount and time by wallet and asset."""
        self.stray = 0
        """Collateral that the exchange got without a deposit."""
        self.locked = self.wallets_of(market.yes)
        self.codes = dict.fromkeys(HOLDERS, b"")
        self.approved = {(wallet, is_cash): True for wallet in WALLETS for is_cash in (True, False)}
        self.raises = {}
        """Steps and nonces that take effect at them, by maker."""
        self.used = {}
        """Settled size and debit by salt."""
        self.cancelled = {}
        """Seconds from which cancels take effect, by salt."""
        self.ended = {}
        """The event that repeats the result of a trade, by trade id."""
        self.nonces = {}
        """Nonces of signed requests, by wallet and nonce."""
        self.is_paused = False
        self.now_s = 0

    def copy(self):
        """Return a copy, to restore the model after a reorganisation."""
        copied = object.__new__(Accounts)
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, dict) else value)
        return copied

    def wallets_of(self, asset):
        """Return the sum of all wallets."""
        return sum(self.wallets[holder, asset] for holder in HOLDERS)

    # ----- actions of makers -----------------------------------------------------------------

    def deposit(self, sender, wallet, asset, amount):
        """Deposit an asset for a wallet."""
        is_approved = self.approved.get((sender, asset == CASH), False)
        if not is_approved or not 0 < amount <= self.wallets[sender, asset]:
            return False
        self.wallets[sender, asset] -= amount
        self.escrow[wallet, asset] += amount
        return True

    def request(self, wallet, asset, amount):
        """Request a withdrawal."""
        if amount > self.escrow[wallet, asset]:
            return False
        self.requests[wallet, asset] = (amount, self.now_s + DELAY_S)
        return True

    def request_for(self, request, *, is_signed):
        """Request a withdrawal by a signed message.

        Code that calls the exchange has no gas left to accept the signature.
        """
        key = request.wallet, request.nonce
        is_accepted = is_signed or self.codes[request.wallet] == SLOW_SIGNER
        if self.now_s > request.deadline or key in self.nonces or not is_accepted:
            return False
        if not self.request(request.wallet, request.asset, request.amount):
            return False
        self.nonces[key] = True
        return True

    def withdraw(self, _sender, wallet, asset):
        """Withdraw what was requested."""
        amount, due_s = self.requests.get((wallet, asset), (0, 0))
        if amount == 0 or self.now_s < due_s:
            return False
        amount = min(amount, self.escrow[wallet, asset])
        if asset != CASH and amount and not self._accepts(wallet):
            return False
        del self.requests[wallet, asset]
        self.escrow[wallet, asset] -= amount
        self.wallets[wallet, asset] += amount
        if asset != CASH and amount:
            self._called(wallet, inside=True)
        return True

    def transfer(self, sender, to, asset, amount):
        """Transfer an asset between wallets, or to the exchange without a deposit."""
        is_stray = to == self._market.exchange
        if amount > self.wallets[sender, asset]:
            return False
        if asset != CASH and (is_stray or not self._accepts(to)):
            return False
        self.wallets[sender, asset] -= amount
        if is_stray:
            self.stray += amount
        else:
            self.wallets[to, asset] += amount
        if asset != CASH:
            self._called(to)
        return True

    def make_junk(self, wallet, amount):
        """Make tokens of the condition from worthless collateral."""
        if not self._accepts(wallet):
            return False
        self.wallets[wallet, self._market.junk] += amount
        self._called(wallet)
        return True

    def approve(self, wallet, is_cash, is_approved):
        """Approve collateral or tokens for the exchange, or revoke that."""
        self.approved[wallet, is_cash] = is_approved
        return True

    def raise_nonce(self, wallet, nonce):
        """Raise a nonce."""
        raises = self.raises.get(wallet, ())
        if nonce <= (raises[-1][1] if raises else 0):
            return False
        step = -(-(self.now_s + DELAY_S) // NONCE_STEP_S)
        kept = tuple(each for each in raises if each[0] != step)
        self.raises[wallet] = (*kept, (step, nonce))
        return True

    def cancel(self, sender, order):
        """Cancel an order."""
        if sender != order.maker:
            return False
        self.cancelled.setdefault(order.salt, self.now_s + DELAY_S)
        return True

    def pause(self, is_owner):
        """Pause, or resume if it is paused, which only the owner may do."""
        if self.is_paused and not is_owner:
            return False
        self.is_paused = not self.is_paused
        return True

    def rescue(self, is_owner, to, amount):
        """Send stray collateral to a wallet."""
        if not is_owner or amount > self.stray:
            return False
        self.stray -= amount
        self.wallets[to, CASH] += amount
        return True

    def _accepts(self, wallet):
        """Return whether a wallet accepts tokens."""
        return self.codes[wallet] not in REJECTING

    def _called(self, wallet, *, inside=False):
        """Apply the calls that a wallet makes while it receives tokens.

        Inside a call of the exchange, the exchange rejects a withdrawal, but no request.
        """
        if self.codes[wallet] == self._reenters(wallet):
            for asset in (CASH, self._market.yes) if not inside else ():
                self.withdraw(wallet, wallet, asset)
            self.requests.pop((wallet, CASH), None)

    # ----- fills -----------------------------------------------------------------------------

    def settle(self, fill, custody):
        """Return the result of a fill, and apply it: empty, a failure, or a repeated result."""
        if fill.trade_id in self.ended:
            return self.ended[fill.trade_id]
        before = self.wallets, self.escrow, self.locked, self.used, self.requests
        self.wallets, self.escrow = self.wallets.copy(), self.escrow.copy()
        self.used, self.requests = self.used.copy(), self.requests.copy()
        is_done = not self._is_odd(fill) and self._uses(fill) and self._moves(fill, custody)
        if not is_done:
            self.wallets, self.escrow, self.locked, self.used, self.requests = before
        self.ended[fill.trade_id] = "SettledBefore" if is_done else "FailedBefore"
        return "" if is_done else "failure"

    def _is_odd(self, fill):
        """Return whether the orders cannot meet."""
        one, other = fill.resting.order, fill.incoming.order
        if one.token_id == other.token_id:
            return one.token_id == CASH or one.side == other.side
        pair = {self._market.yes, self._market.no}
        return {one.token_id, other.token_id} != pair or one.side != other.side

    def _uses(self, fill):
        """Return whether both orders allow the fill, and count it."""
        return all(
            self._is_signed(party.order)
            and party.fee_rate_bps <= min(party.order.fee_rate_bps, MOST_FEE_BPS)
            and self._is_priced(party.order, price)
            and self._counts(party.order, price, fill.size)
            for party, price in self._legs(fill)
        )

    def _is_signed(self, order):
        """Return whether the signature, nonce, cancel and expiration allow a trade now."""
        step = self.now_s // NONCE_STEP_S
        raised = [nonce for at, nonce in self.raises.get(order.maker, ()) if at <= step]
        is_late = order.expiration_s and self.now_s > order.expiration_s + DELAY_S
        is_cancelled = order.salt in self.cancelled and self.now_s >= self.cancelled[order.salt]
        is_nonce_low = order.nonce < max(raised, default=0)
        if is_late or is_cancelled or is_nonce_low:
            return False
        has_code = bool(self.codes[order.maker])
        return order.signature != UNUSABLE or (has_code and self._accepts(order.maker))

    def _is_priced(self, order, price):
        limit_wei, size = order.maker_amount, order.taker_amount
        if order.side == BUY:
            return price * size < 100 * limit_wei + 100
        return price * limit_wei + 100 > 100 * size

    def _counts(self, order, price, size):
        """Count a fill of an order; return whether the order suffices."""
        filled, debit = self.used.get(order.salt, (0, 0))
        filled += size
        debit += size * price // 100 if order.side == BUY else 0
        self.used[order.salt] = filled, debit
        if order.side == BUY:
            return filled <= order.taker_amount and debit <= order.maker_amount
        return filled <= order.maker_amount

    def _legs(self, fill):
        """Return both orders of a fill with the price of their own token."""
        first, second = fill.resting, fill.incoming
        is_direct = first.order.token_id == second.order.token_id
        return (first, fill.price), (second, fill.price if is_direct else 100 - fill.price)

    def _moves(self, fill, custody):
        """Apply the transfers of a fill if both makers have enough; return whether they do."""
        balances = self.escrow if custody == "escrow" else self.wallets
        legs = self._legs(fill)
        for maker, paid_asset, paid, got_asset, got, fee in self._amounts(fill, legs, custody):
            balances[maker, paid_asset] -= paid
            is_approved = custody == "escrow" or self.approved[maker, paid_asset == CASH]
            if balances[maker, paid_asset] < 0 or not is_approved:
                return False
            balances[maker, got_asset] += got
            balances[FEES, got_asset] += fee
        buyers = [party.order.maker for party, _ in legs if party.order.side == BUY]
        if legs[0][0].order.token_id != self._market.junk:
            self.locked += fill.size * (len(buyers) - 1)
        if custody == "wallet":
            if not all(map(self._accepts, buyers)):
                return False
            for buyer in buyers:
                self._called(buyer, inside=True)
        return True

    def _amounts(self, fill, legs, custody):
        """Return the moves of both makers: maker, asset and amount paid and received, fee.

        Between wallets the buyer pays first.
        """
        size, part = fill.size, fill.size * fill.price // 100
        is_direct = legs[0][0].order.token_id == legs[1][0].order.token_id
        moves = []
        for (party, price), amount in zip(
            legs, (part, part if is_direct else size - part), strict=True
        ):
            order, rate = party.order, party.fee_rate_bps * min(price, 100 - price)
            if order.side == BUY:
                fee = rate * size // (10_000 * price)
                moves.append((order.maker, CASH, amount, order.token_id, size - fee, fee))
            else:
                fee = rate * size // 1_000_000
                moves.append((order.maker, order.token_id, size, CASH, amount - fee, fee))
        return moves if custody == "escrow" else sorted(moves, key=lambda move: move[1] != CASH)

    # ----- comparison ------------------------------------------------------------------------

    def check(self):
        """Compare with the chain, to the wei, per wallet and asset."""
        market, assets = self._market, self._market.assets
        assert market.all_balances_of(HOLDERS) == {
            (holder, asset): self.wallets[holder, asset] for holder in HOLDERS for asset in assets
        }
        assert market.all_escrows_of(HOLDERS) == {
            (holder, asset): self.escrow[holder, asset] for holder in HOLDERS for asset in assets
        }
        totals = {asset: sum(self.escrow[holder, asset] for holder in HOLDERS) for asset in assets}
        assert market.all_totals() == totals
        held = market.all_balances_of([market.exchange, market.tokens])
        stray = {CASH: self.stray}
        for asset, total in totals.items():
            assert held[market.exchange, asset] == total + stray.get(asset, 0)
        yes, no = (totals[token] + self.wallets_of(token) for token in (market.yes, market.no))
        assert yes == no == self.locked == held[market.tokens, CASH]


UNUSABLE = f"0x{'ab' * 65}"
"""A signature that only a wallet with code can accept (EIP-1271)."""


class Rebuilt:
    """Balances in escrow, rebuilt from the logs of the exchange alone."""

    def __init__(self, escrow=(), fee_wallet=FEES):
        self.escrow, self._fee_wallet = dict(escrow), fee_wallet

    def process(self, logs):
        """Apply logs in chain order."""
        for log in logs:
            if DEPOSITED.is_in(log):
                wallet, asset, amount, _ = DEPOSITED.decode(log)
                self._add(wallet, asset, amount)
            elif WITHDRAWN.is_in(log):
                wallet, asset, amount = WITHDRAWN.decode(log)
                self._add(wallet, asset, -amount)
            elif ORDER_FILLED.is_in(log):
                _, maker, wallet, token, side, in_escrow, *amounts = ORDER_FILLED.decode(log)
                if in_escrow:
                    self._fill(maker, wallet, token, side, *amounts)

    def _fill(self, maker, wallet, token, side, paid, received, fee):
        if side == BUY:
            moves = (wallet, CASH, -paid), (maker, token, received), (self._fee_wallet, token, fee)
        else:
            moves = (maker, token, -paid), (wallet, CASH, received), (self._fee_wallet, CASH, fee)
        for move in moves:
            self._add(*move)

    def _add(self, wallet, asset, amount):
        self.escrow[wallet, asset] = self.escrow.get((wallet, asset), 0) + amount
