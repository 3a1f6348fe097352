"""A market of the exchange contract on an in-process EVM, with four funded makers."""

from clob.order import Side
from clob.signing import Domain, SignedOrder, order_hash, sign
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.abi import Function, revert_reason
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, WALLETS
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DEPOSIT,
    ESCROW_OF,
    FAILED,
    FAILED_BEFORE,
    REGISTER,
    SETTLED,
    SETTLED_BEFORE,
)
from tests.chain.contracts.calls import (
    APPROVE,
    APPROVE_ALL,
    BALANCE,
    MAX,
    MINT,
    PREPARE,
    ROOT,
    SEND_TOKENS,
    SPLIT,
    TOKENS,
    TRANSFER,
    WRAP,
)
from tests.chain.contracts.evm import CHAIN_ID, Evm
from tests.chain.signed_fills import Party, SettlementFill, encode_settle

BOSS = OPERATOR.address
OWNER = ACCOUNTS[0].address
FEES = ACCOUNTS[8].address
PAUSER = ACCOUNTS[1].address
MAKERS = WALLETS[:4]
KEYS = {account.address: account.private_key for account in ACCOUNTS}
ONE = 10**18
START = 1_000 * ONE
BUY, SELL = Side.BUY, Side.SELL
ESCROWED = Function("escrowed(uint256)", returns="uint256")

CREATION_TYPES = ["string", "string", *["address"] * 6]


def creation_args(name, version, addresses):
    """Return the constructor arguments: domain, contracts and roles."""
    contracts = addresses.collateral, addresses.conditional_tokens
    return [name, version, *contracts, OWNER, BOSS, FEES, PAUSER]


class EvmMarket:
    """The contracts, a condition with both tokens, and makers with collateral and tokens.

    Args:
        evm: where they are; None for an in-process EVM.
    """

    def __init__(self, evm=None):
        self.evm = evm or Evm()
        self.addresses = self.evm.deploy_all()
        self.tokens = self.addresses.conditional_tokens
        self.wrapped = self.addresses.collateral
        args = creation_args("clob", "1", self.addresses)
        self.exchange = self.evm.deploy(OWNER, "Exchange", CREATION_TYPES, args)
        self.domain = Domain("clob", "1", CHAIN_ID, self.exchange)
        self.question = token_ids.question_id("Will it be so?")
        self.condition = token_ids.condition_id(BOSS, self.question)
        self.yes, self.no = token_ids.token_ids(self.wrapped, self.condition)
        self.trades = 0
        self.salt = 0
        self._begin()

    def _begin(self):
        """Open the market and fund the makers."""
        dollar = self.addresses.stablecoin
        self.do(BOSS, self.tokens, PREPARE, BOSS, self.question, 2)
        self.do(BOSS, self.exchange, REGISTER, self.condition)
        self.do(BOSS, dollar, APPROVE, self.wrapped, MAX)
        self.do(BOSS, self.wrapped, APPROVE, self.tokens, MAX)
        self.do(BOSS, dollar, MINT, BOSS, 10_000 * 10**6)
        self.do(BOSS, self.wrapped, WRAP, BOSS, 10_000 * 10**6)
        args = (self.wrapped, ROOT, self.condition, [1, 2], 4 * START)
        self.do(BOSS, self.tokens, SPLIT, *args)
        for maker in MAKERS:
            self.do(BOSS, self.wrapped, TRANSFER, maker.address, START)
            for token in (self.yes, self.no):
                move = (BOSS, maker.address, token, START, b"")
                self.do(BOSS, self.tokens, SEND_TOKENS, *move)
            self.do(maker.address, self.wrapped, APPROVE, self.exchange, MAX)
            self.do(maker.address, self.tokens, APPROVE_ALL, self.exchange, True)

    def do(self, *call):
        """Send a call that must succeed and return its logs."""
        return self.evm.do(*call).logs

    def at(self, now_s):
        """Set the time of the EVM."""
        self.evm.set_time(now_s)

    # ----- orders ----------------------------------------------------------------------------

    def order(self, maker, side, price, size, token=None, *, key=None, **fields):
        """Return a signed order."""
        self.salt += 1
        fields = {"signature_type": 1, **fields}
        order = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            maker=maker,
            token_id=self.yes if token is None else token,
            salt=self.salt,
            **fields,
        )
        return sign(order, self.domain, key or KEYS[fields.get("signer", maker)])

    def order_hash(self, order):
        """Return the hash of an order."""
        return order_hash(order, self.domain)

    def fill(self, resting, incoming, price, size, **more):
        """Return a fill of orders or parties."""
        self.trades += 1
        resting, incoming = (
            one if isinstance(one, Party) else Party(order=one) for one in (resting, incoming)
        )
        more = {"trade_id": self.trades, **more}
        return SettlementFill(price=price, size=size, resting=resting, incoming=incoming, **more)

    def settle(self, *fills, sender=BOSS, custody="wallet"):
        """Settle fills and return the revert reason of each; empty if it was settled."""
        outcome = self.evm.send(sender, self.exchange, encode_settle(fills, custody))
        assert outcome.reason == "", outcome.reason
        return [self._verdict(fill, outcome.logs) for fill in fills]

    def _verdict(self, fill, logs):
        """Return the result of a fill from the logs; empty if it was settled."""
        matches = []
        for log in logs:
            for event in (SETTLED, FAILED, SETTLED_BEFORE, FAILED_BEFORE):
                if event.is_in(log):
                    values = event.decode(log)
                    if values[0] == fill.trade_id:
                        matches.append((event, values))
        [(event, values)] = matches
        if event is SETTLED:
            assert values[3:] == (fill.price, fill.size)
            return ""
        return revert_reason(values[1]) if event is FAILED else event.name

    # ----- escrow ----------------------------------------------------------------------------

    def deposit(self, wallet, asset, amount, sender=None):
        """Deposit an asset for a wallet."""
        self.do(sender or wallet, self.exchange, DEPOSIT, wallet, asset, amount)

    def escrow(self, wallet, asset=COLLATERAL_ASSET):
        """Return the escrow of a wallet: balance, requested amount, time of the withdrawal."""
        return self.evm.ask(self.exchange, ESCROW_OF, wallet, asset)

    def escrows(self, wallet):
        """Return the balances in escrow of a wallet: collateral, YES, NO."""
        return tuple(self.escrow(wallet, asset)[0] for asset in self.assets)

    @property
    def assets(self):
        """The assets in escrow: collateral, YES, NO."""
        return COLLATERAL_ASSET, self.yes, self.no

    def totals(self):
        """Return the sums of all escrow by asset."""
        return tuple(self.evm.ask(self.exchange, ESCROWED, asset) for asset in self.assets)

    # ----- balances --------------------------------------------------------------------------

    def balances(self, address):
        """Return a wallet's balances: collateral, YES, NO."""
        return (
            self.evm.ask(self.wrapped, BALANCE, address),
            self.evm.ask(self.tokens, TOKENS, address, self.yes),
            self.evm.ask(self.tokens, TOKENS, address, self.no),
        )

    def all_balances(self):
        """Return all balances, including those of the contracts."""
        wallets = (*[maker.address for maker in MAKERS], BOSS, FEES, self.exchange, self.tokens)
        return {address: self.balances(address) for address in wallets}

    def changes(self, before):
        """Return the changed balances."""
        now = self.all_balances()
        changed = {
            address: tuple(
                new - old for new, old in zip(now[address], before[address], strict=True)
            )
            for address in now
        }
        return {address: change for address, change in changed.items() if any(change)}
