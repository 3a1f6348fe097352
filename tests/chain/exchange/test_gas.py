"""Gas of settlements: equal on every node and in the documentation."""

import re
from pathlib import Path

import pytest

from clob.order import Side
from clob.signing import Domain, SignedOrder, sign
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.contracts import artifact
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.abi import encode
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, create_address
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DEPOSIT,
    REGISTER,
    REQUEST_WITHDRAWAL,
    SETTLED,
    WITHDRAW,
)
from clob_server.chain.operations.deploy import TEST_DOLLAR, wrapper_of
from tests.chain.contracts import calls
from tests.chain.exchange.evm_market import CREATION_TYPES, creation_args
from tests.chain.settlements import now_s
from tests.chain.signed_fills import Party, SettlementFill, encode_settle
from tests.chain.wallets import Wallet

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "exchange.md"
BOSS, OWNER = OPERATOR, ACCOUNTS[0]
EXCHANGE = create_address(OWNER.address, 0)
QUESTION = token_ids.question_id("What does it cost?")
CONDITION = token_ids.condition_id(BOSS.address, QUESTION)
YES, NO = token_ids.token_ids(DEVELOPMENT.collateral, CONDITION)
SIZE, PRICE, GIVEN_WEI, NUM_FILLS = 100 * 0x0101010101010101, 50, 10**17, 25
DOMAIN = Domain("clob", "1", 31337, EXCHANGE)


class Market:
    """The contracts and a market on a node, and funded makers."""

    def __init__(self, node):
        self.node = node
        self.boss, self.owner = (Wallet(node, one.private_key) for one in (BOSS, OWNER))
        self.gas = {}
        self.num_trades = 0
        dollar, wrapped = DEVELOPMENT.stablecoin, DEVELOPMENT.collateral
        tokens = DEVELOPMENT.conditional_tokens
        for name, args in (
            ("ConditionalTokens", b""),
            ("TestDollar", TEST_DOLLAR),
            ("WrappedCollateral", wrapper_of(dollar)),
        ):
            self.boss.send("", artifact(name).creation + args, gas=6_000_000)
        args = creation_args("clob", "1", DEVELOPMENT)
        creation = artifact("Exchange").creation + encode(CREATION_TYPES, args)
        self.keep("deploy: Exchange", self.owner.send("", creation, gas=6_000_000))
        for to, call in (
            (dollar, calls.APPROVE.encode(wrapped, calls.MAX)),
            (wrapped, calls.APPROVE.encode(tokens, calls.MAX)),
            (tokens, calls.PREPARE.encode(BOSS.address, QUESTION, 2)),
            (dollar, calls.MINT.encode(BOSS.address, 10**13)),
            (wrapped, calls.WRAP.encode(BOSS.address, 10**13)),
            (tokens, calls.SPLIT.encode(wrapped, calls.ROOT, CONDITION, [1, 2], 10**5 * SIZE)),
        ):
            self.boss.send(to, call)
        learnt = self.boss.send(EXCHANGE, REGISTER.encode(CONDITION))
        self.keep("settle: registerCondition", learnt)

    def keep(self, name, receipt, trades=1):
        """Record the gas of a transaction per trade."""
        self.gas[name] = int(receipt["gasUsed"], 16) // trades

    def maker(self, number):
        """Return a maker with ample funds who has approved the exchange."""
        wallet = Wallet(self.node, f"0x{0xC10B << 64 | number:064x}")
        self.boss.send(wallet.address, value=GIVEN_WEI)
        wrapped, tokens = DEVELOPMENT.collateral, DEVELOPMENT.conditional_tokens
        self.boss.send(wrapped, calls.TRANSFER.encode(wallet.address, 1_000 * SIZE))
        for token in (YES, NO):
            move = (BOSS.address, wallet.address, token, 1_000 * SIZE, b"")
            self.boss.send(tokens, calls.SEND_TOKENS.encode(*move))
        wallet.send(wrapped, calls.APPROVE.encode(EXCHANGE, calls.MAX))
        wallet.send(tokens, calls.APPROVE_ALL.encode(EXCHANGE, True))
        return wallet

    def order(self, maker, side, token=YES, *, salt):
        """Return a signed order for four times the size of a fill."""
        made = SignedOrder.from_price_size(
            side=side, price=PRICE, size=4 * SIZE, maker=maker.address, token_id=token, salt=salt
        )
        return Party(order=sign(made, DOMAIN, maker.key))

    def deposit(self, wallet):
        """Deposit a tenth of the funds of a maker."""
        for asset, name in ((COLLATERAL_ASSET, "collateral"), (YES, "a token"), (NO, "a token")):
            receipt = wallet.send(EXCHANGE, DEPOSIT.encode(wallet.address, asset, 100 * SIZE))
            self.keep(f"escrow: deposit {name}", receipt)

    def withdraw(self, wallet):
        """Withdraw collateral from escrow."""
        request = REQUEST_WITHDRAWAL.encode(COLLATERAL_ASSET, SIZE)
        self.keep("escrow: requestWithdrawal", wallet.send(EXCHANGE, request))
        self.node.ask("evm_setNextBlockTimestamp", hex(now_s(self.node) + 300))
        receipt = self.boss.send(EXCHANGE, WITHDRAW.encode(wallet.address, COLLATERAL_ASSET))
        self.keep("escrow: withdraw collateral", receipt)

    def settle(self, name, pairs, custody="wallet"):
        """Settle a fill of each pair of orders in one transaction."""
        fills = []
        for resting, incoming in pairs:
            self.num_trades += 1
            price = {"price": PRICE, "size": SIZE}
            ends = {"resting": resting, "incoming": incoming}
            fills.append(SettlementFill(trade_id=0x010101 + self.num_trades, **price, **ends))
        receipt = self.boss.send(EXCHANGE, encode_settle(fills, custody), gas=16_000_000)
        settled = [SETTLED.decode(log)[0] for log in receipt["logs"] if SETTLED.is_in(log)]
        assert settled == [fill.trade_id for fill in fills]
        kind = "settle" if custody == "wallet" else "escrow"
        self.keep(f"{kind}: {name}", receipt, len(fills))


def costs(node):
    """Settle trades of different wallets and return the gas of each kind."""
    market = Market(node)
    makers = [market.maker(number) for number in range(1, 2 * NUM_FILLS + 1)]
    settle_all(market, makers, "wallet")
    for maker in makers:
        market.deposit(maker)
    settle_all(market, makers, "escrow")
    market.withdraw(makers[0])
    return market.gas


def settle_all(market, makers, custody):
    """Settle every kind of trade in one custody."""
    buyers, sellers = makers[:NUM_FILLS], makers[NUM_FILLS:]
    salt = 0x0101010101010101 + (custody == "escrow")
    pairs = [
        (market.order(buyer, Side.BUY, salt=salt), market.order(seller, Side.SELL, salt=salt))
        for buyer, seller in zip(buyers, sellers, strict=True)
    ]
    market.settle("two fresh orders, of 25", pairs, custody)
    market.settle("two orders partly filled, of 25", pairs, custody)
    market.settle("two orders partly filled, alone", pairs[:1], custody)
    one, other = buyers[0], sellers[0]
    for name, side in (("mint", Side.BUY), ("merge", Side.SELL)):
        ends = (other, one) if side is Side.BUY else (one, other)
        orders = market.order(ends[0], side, salt=salt), market.order(ends[1], side, NO, salt=salt)
        market.settle(f"{name}, two fresh orders, alone", [orders], custody)


def written():
    """Return the gas table of the page."""
    rows = re.findall(r"^\| `(\w+: .+?)` \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: int(gas.replace(",", "")) for name, gas in rows}


@pytest.mark.long
@pytest.mark.skipif(not PAGE.exists(), reason="not here: the documentation")
def test_gas_equals_the_documentation(node):
    assert costs(node) == written()


@pytest.mark.skipif(not PAGE.exists(), reason="not here: the documentation")
def test_documented_gas_is_within_the_limits():
    gas = written()
    assert gas["settle: two fresh orders, of 25"] <= 130_000
    assert gas["settle: two orders partly filled, of 25"] <= 95_000
    assert gas["escrow: two fresh orders, of 25"] <= 110_000
    assert gas["escrow: two orders partly filled, of 25"] <= 75_000
