"""A server with an escrow market, and traders that deposit."""

from eth_abi import decode

from clob.signing import SignedWithdrawal, sign
from tests.chain.chain_server import wait_until
from tests.chain.settling_server import SettlingServer
from tests.chain.wallets import MAX, UNIT, calldata

COLLATERAL = 0
CLOCK = "/api/test/clock"
DELAY_S = 300


class EscrowServer(SettlingServer):
    """A server with a chain and an escrow market ``rain``."""

    def set_up(self, **terms):
        """Open the market and provide funds to distribute to traders."""
        return super().set_up(custody="escrow", **terms)

    @property
    def escrow(self):
        """The asset of collateral in escrow."""
        return f"escrow:{self.contracts.collateral}"

    # ----- on the chain ------------------------------------------------------------------------

    def depositor(self, units=5, *, tokens=True, deposits=True):
        """Return a trader whose funds are in escrow."""
        user = self.trader(units, tokens=tokens)
        for asset in (COLLATERAL, *(self.tokens() if tokens else ())) if deposits else ():
            self.deposit(user, asset, units * UNIT)
        return user

    def deposit(self, user, asset=COLLATERAL, amount=UNIT, wallet=None):
        """Deposit directly; return the receipt."""
        signature = "deposit(address,uint256,uint256)"
        owner = (wallet or user).address
        return user.call(self.contracts.exchange, signature, owner, asset, amount)

    def request(self, user, asset=COLLATERAL, amount=UNIT):
        """Request a withdrawal directly; return the receipt."""
        signature = "requestWithdrawal(uint256,uint256)"
        return user.call(self.contracts.exchange, signature, asset, amount)

    def withdraw(self, user, asset=COLLATERAL, *, fails=False):
        """Withdraw directly; return the receipt."""
        signature = "withdraw(address,uint256)"
        return user.call(self.contracts.exchange, signature, user.address, asset, fails=fails)

    def escrow_of(self, user, asset=COLLATERAL):
        """Return balance and requested amount in escrow, as the contract reports them."""
        return self.escrow_at(user.address, asset)

    def escrow_at(self, address, asset=COLLATERAL):
        """Return balance and requested amount of an address in escrow."""
        data = calldata("escrowOf(address,uint256)", address, asset)
        call = {"to": self.contracts.exchange, "data": f"0x{data.hex()}"}
        answer = bytes.fromhex(self.ask("eth_call", call, "latest")[2:])
        balance, requested, _ = decode(["uint256"] * 3, answer)
        return balance, requested

    def pass_delay(self, seconds=DELAY_S + 1):
        """Move the time of server and chain past the delay."""
        assert self.done(CLOCK, {"advanceMs": seconds * 1_000})["chain"] == "moved"

    # ----- at the server -----------------------------------------------------------------------

    def signed_request(self, user, amount, asset=COLLATERAL, nonce=1, deadline=MAX):
        """Return the body of a signed request to withdraw."""
        message = SignedWithdrawal(
            wallet=user.address, asset=asset, amount=amount, nonce=nonce, deadline=deadline
        )
        return {
            "user": user.address,
            "asset": "collateral" if asset == COLLATERAL else str(asset),
            "amount": str(amount),
            "nonce": str(nonce),
            "deadline": str(deadline),
            "signature": sign(message, self.domain, user.key).signature,
        }

    def account(self, user, asset=None):
        """Return the entry of an account, by default of collateral in escrow; None without one."""
        body = self.http.get(f"/api/accounts/{user.address}").json()
        return next(
            (each for each in body["balances"] if each["asset"] == (asset or self.escrow)), None
        )

    def until_available(self, user, amount, asset=None):
        """Wait until an amount is available to a user, and return the entry."""

        def has_it():
            found = self.account(user, asset)
            return int(found["available"] if found else 0) == amount

        wait_until(has_it)
        return self.account(user, asset)
