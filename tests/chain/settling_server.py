"""A server whose trades settle on a chain, and traders that sign their own orders."""

import itertools
from types import SimpleNamespace

from eth_utils import keccak

from clob.order import Side
from clob.signing import Domain, SignedOrder, sign
from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from tests.chain.chain_server import ChainServer, wait_until
from tests.chain.server_mirror import LogAccounts
from tests.chain.wallets import MAX, UNIT

BUY, SELL = Side.BUY, Side.SELL
SETTINGS = {"chain_port": 0, "rate_limits": False, "log_level": "error", "settle_every_s": 0.05}
SOURCE = f"0x{keccak(text='the source of all').hex()}"
FAUCETS, SPLIT_UNITS = 5, 200
SETTLED = f"0x{keccak(text='Settled(uint256,bytes32,bytes32,uint256,uint256)').hex()}"

_numbers = itertools.count(1)


class SettlingServer(ChainServer):
    """A server with a chain and a market ``rain`` whose trades settle.

    Args:
        live: the server.
        url: URL of the node; None to use the one that the server publishes.
        names: prefix of traders' names, to distinguish runs.
    """

    def __init__(self, live, url=None, names=""):
        super().__init__(live, url)
        self.contracts.exchange = self.chain()["exchange"]
        chain_id = int(self.ask("eth_chainId"), 16)
        self.domain = Domain("clob", "1", chain_id, self.contracts.exchange)
        self.books = LogAccounts(SimpleNamespace(node=self, contracts=self.contracts))
        self.source = self.user(SOURCE)
        self.names = names

    def set_up(self, **terms):
        """Open the market and provide funds to distribute to traders."""
        self.send_gas(self.source.address)
        for _ in range(FAUCETS):
            self.faucet(self.source)
        self.source.approve_collateral()
        self.open_settling("rain", **terms)
        self.convert("split", self.source, self.market(), SPLIT_UNITS * UNIT)
        return self

    def open_settling(self, name, **terms):
        """Open a market whose trades settle, and wait until it is prepared on the chain."""
        terms = {"question": f"Will it {name}?", "settles": True, **terms}
        self.admin.admin_create_market(name, terms)
        self.wait_for(name, "prepared")

    def market(self, name="rain"):
        """Return a market."""
        return self.http.get(f"/api/markets/{name}").json()

    # ----- traders -----------------------------------------------------------------------------

    def trader(self, units=5, *, allows=True, tokens=True):
        """Return a trader with these units of collateral and of both tokens."""
        user = self.user(f"0x{keccak(text=f'{self.names}{next(_numbers)}').hex()}")
        self.send_gas(user.address)
        if units:
            self.source.send_collateral(user.address, units * UNIT)
            for token in self.tokens() if tokens else ():
                self.source.send_token(user.address, token, units * UNIT)
        if allows:
            self.allow(user)
        return user

    def allow(self, user, amount=MAX, *, tokens=True):
        """Approve collateral and tokens for the exchange."""
        exchange = self.contracts.exchange
        user.call(self.contracts.collateral, "approve(address,uint256)", exchange, amount)
        self.allow_tokens(user, tokens)

    def allow_tokens(self, user, allowed):
        """Approve tokens for the exchange, or revoke that."""
        contract, exchange = self.contracts.conditional_tokens, self.contracts.exchange
        user.call(contract, "setApprovalForAll(address,bool)", exchange, allowed)

    def tokens(self, name="rain"):
        """Return both token ids of a market."""
        market = self.market(name)
        return int(market["yesTokenId"]), int(market["noTokenId"])

    # ----- orders ------------------------------------------------------------------------------

    def signed(self, user, side, price, size=UNIT, *, token=None, key=None, **fields):
        """Return the body of a signed order."""
        order = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            token_id=token or self.tokens()[0],
            **{"maker": user.address, "salt": next(_numbers), "signature_type": 1, **fields},
        )
        return {**sign(order, self.domain, key or user.key).to_json(), "marketId": "rain"}

    def place(self, user, side, price, size=UNIT, **fields):
        """Place a signed order and return the HTTP response."""
        return self.http.post("/api/orders", json=self.signed(user, side, price, size, **fields))

    def placed(self, user, side, price, size=UNIT, **fields):
        """Place a signed order that must be accepted, once the server knows the wallet's funds."""
        answers = []

        def has_funds():
            answers.append(self.place(user, side, price, size, **fields))
            return answers[-1].json().get("code") != "INSUFFICIENT_BALANCE"

        wait_until(has_funds)
        assert answers[-1].status_code == 200, answers[-1].text
        return answers[-1].json()

    def trade(self, buyer, seller, price=50, size=UNIT, count=1):
        """Make trades."""
        for _ in range(count):
            self.placed(seller, SELL, price, size)
            self.placed(buyer, BUY, price, size)

    # ----- settlement --------------------------------------------------------------------------

    def settlement(self):
        """Return the settlement status of the admin API."""
        return self.admin.admin_settlement()

    def until_settled(self):
        """Wait until no trade is pending and return the settlement status."""
        statuses = []

        def is_settled():
            statuses.append(self.settlement())
            return statuses[-1].pending == statuses[-1].submitted == 0

        wait_until(is_settled)
        return statuses[-1]

    def quiet(self):
        """Wait until no trade is pending and all relevant blocks were processed."""
        self.until_settled()
        account = self.trader(1)  # once it can trade, all earlier events were processed
        self.placed(account, SELL, 99)
        return self.until_settled()

    def settlements_by_id(self, name="rain"):
        """Return settlement and transaction of a market's trades, by id."""
        trades = self.http.get(f"/api/markets/{name}/trades", params={"limit": 100}).json()
        return {each["id"]: (each["settlement"], each["txHash"]) for each in trades}


def accounts_of(folder):
    """Recover the state from a server's log; return it and its non-zero balances."""
    log = SqliteLog(folder)
    try:
        exchange, *_ = recover(log)
    finally:
        log.close()
    exchange.matcher.audit()
    return exchange, {
        account: held.balance
        for account, held in exchange.matcher.balances().items()
        if held.balance
    }


def settled_numbers(server):
    """Return the trade ids of all Settled events of the chain."""
    query = {"address": server.contracts.exchange, "fromBlock": "0x0", "toBlock": "latest"}
    return [
        int(log["topics"][1], 16) % 2**128
        for log in server.ask("eth_getLogs", query)
        if log["topics"][0] == SETTLED
    ]
