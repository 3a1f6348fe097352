"""Accounts over HTTP and WebSocket compared with the chain, from the faucet to a reorganisation."""

from contextlib import ExitStack, contextmanager

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.chain_server import wait_until
from tests.chain.settling_server import BUY, SELL, SETTINGS, SettlingServer
from tests.chain.test_server_reorganisations import block_of, remove_from, restartable, until
from tests.chain.wallets import MAX, UNIT, read
from tests.server.feed.connection import Connection
from tests.server.live import live_server

pytestmark = pytest.mark.long
KINDS = ("embedded", "anvil")
LEDGER = ("balance", "reserved", "unsettled", "available")
FINAL_BLOCKS = 12


@contextmanager
def embedded(folder):
    """Yield a function that starts a server with its own chain, or starts it again."""
    lives = ExitStack()
    with ExitStack() as stack:
        stack.callback(lambda: lives.close())

        def start():
            live = lives.enter_context(live_server(folder, chain="embedded", **SETTINGS))
            server = SettlingServer(live)
            server.stop = lives.close
            return server

        yield start


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def start(kind, tmp_path):
    if kind == "embedded":
        context = embedded(tmp_path)
    else:
        context = restartable(tmp_path, chain_final_blocks=FINAL_BLOCKS)
    with context as start:
        yield start


def on_chain(server, user):
    """Return balance and allowance of collateral and of both tokens, as the node answers."""
    contracts, wallet = server.contracts, user.address
    exchange, tokens = contracts.exchange, contracts.conditional_tokens
    is_allowed = read(server, tokens, "isApprovedForAll(address,address)", wallet, exchange)
    allowance = read(server, contracts.collateral, "allowance(address,address)", wallet, exchange)
    found = {contracts.collateral: (server.ledger.collateral(wallet), allowance)}
    for token in server.tokens():
        found[str(token)] = (server.ledger.token(wallet, token) if is_allowed else 0, None)
    return found


class Account:
    """An account of a wallet: over HTTP, kept from the messages of a feed, and on the chain."""

    def __init__(self, server, user, feed):
        self.server, self.user, self.feed, self.kept = server, user, feed, {}
        self.user.node = server
        feed.send(type="subscribe", channel="user", maker=user.address, extended=True)

    def body(self):
        """Return the balances by asset, over HTTP."""
        answer = self.server.http.get(f"/api/accounts/{self.user.address}")
        assert answer.status_code == 200, answer.text
        return {each["asset"]: each for each in answer.json()["balances"]}

    def chain(self):
        """Return balance and allowance on the chain, by asset, over HTTP."""
        found = {}
        for asset, each in self.body().items():
            if each["chain"] is not None:
                allowance = each["chain"]["allowance"]
                amount = None if allowance is None else int(allowance)
                found[asset] = (int(each["chain"]["balance"]), amount)
        return found

    def ledger(self):
        """Return balance, reserved, unsettled and available by asset; none for an empty one."""
        found = {
            asset: tuple(int(each[name]) for name in LEDGER) for asset, each in self.body().items()
        }
        return {asset: amounts for asset, amounts in found.items() if any(amounts)}

    def follow(self, expected):
        """Read messages until those of the account add up to a ledger."""
        while {asset: amounts for asset, amounts in self.kept.items() if any(amounts)} != expected:
            message = self.feed.receive()
            if message["type"] == "account" and message["maker"] == self.user.address:
                for each in message["data"]:
                    self.kept[each["asset"]] = tuple(int(each[name]) for name in LEDGER)

    def agrees(self, reserved=(), unsettled=()):
        """Wait until the server shows the chain's answers and its ledger follows; then the feed.

        Args:
            reserved: amounts that orders reserve, by asset.
            unsettled: amounts of trades that wait for settlement, by asset.

        Returns:
            The ledger.
        """
        reserved, unsettled, seen = dict(reserved), dict(unsettled), {}

        def is_equal():
            chain = on_chain(self.server, self.user)
            seen.clear()
            for asset, (balance, allowance) in chain.items():
                total = balance if allowance is None else min(balance, allowance)
                held = reserved.get(asset, 0), unsettled.get(asset, 0)
                if total or any(held):
                    seen[asset] = (total, *held, total - sum(held))
            return self._shown() == chain and self.ledger() == seen

        wait_until(is_equal)
        self.follow(seen)
        return seen

    def _shown(self):
        """Return the chain's part; an account without a report counts as empty."""
        shown = self.chain()
        none = dict.fromkeys(map(str, self.server.tokens()), (0, None))
        return {self.server.contracts.collateral: (0, 0)} | none | shown


def test_accounts_follow_the_chain_from_the_faucet_to_the_merge(start, kind):
    server = start().set_up()
    collateral = server.contracts.collateral
    user, other = server.user(f"0x{7:064x}"), server.trader(tokens=False)
    server.send_gas(user.address)
    with ExitStack() as stack:
        feed, of_other = (stack.enter_context(Connection(server.live)) for _ in range(2))
        account, buyer = Account(server, user, feed), Account(server, other, of_other)
        server.faucet(user)
        assert account.body() == {}  # it is not known before it has allowed something
        server.allow(user, 100 * UNIT, tokens=False)
        assert account.agrees()[collateral][0] == min(100 * UNIT, account.chain()[collateral][0])
        user.approve_collateral()
        market = server.market()
        server.convert("split", user, market, 8 * UNIT)
        yes, no = map(str, server.tokens())
        assert account.chain().get(yes, (0, None)) == (0, None)
        server.allow_tokens(user, True)
        assert account.agrees()[yes] == (8 * UNIT, 0, 0, 8 * UNIT)
        resting = server.placed(user, SELL, 50, 3 * UNIT)["orderId"]
        account.agrees(reserved={yes: 3 * UNIT})
        owner = server.user(next(a.private_key for a in ACCOUNTS if a.address == server.operator))
        owner.call(server.contracts.exchange, "pause()")
        server.placed(other, BUY, 50, 2 * UNIT)
        account.agrees(reserved={yes: UNIT}, unsettled={yes: 2 * UNIT})
        assert buyer.agrees(unsettled={collateral: UNIT})[collateral][0] == 5 * UNIT
        owner.call(server.contracts.exchange, "unpause()")
        server.until_settled()
        tx = until(server, "settled")["txHash"]
        assert account.agrees(reserved={yes: UNIT})[yes][0] == 6 * UNIT
        assert buyer.agrees()[yes][0] == 2 * UNIT
        server.allow_tokens(user, False)
        wait_until(lambda: server.http.get(f"/api/orders/{resting}").json()["status"] != "partial")
        assert yes not in account.agrees()
        server.allow_tokens(user, True)
        account.agrees()
        user.approve_tokens()
        server.convert("merge", user, market, 4 * UNIT)
        before = account.agrees()
        assert (before[yes][0], before[no][0]) == (2 * UNIT, 4 * UNIT)
        held = buyer.agrees()
    server.stop()
    server = start()
    with ExitStack() as stack:
        feed, of_other = (stack.enter_context(Connection(server.live)) for _ in range(2))
        account, buyer = Account(server, user, feed), Account(server, other, of_other)
        assert (account.agrees(), buyer.agrees()) == (before, held)
        server.allow(user, MAX)
        account.agrees()
        if kind == "anvil":
            remove_from(server, block_of(server, tx))
            wait_until(lambda: server.settlement().difference == 0)
            account.agrees()
            buyer.agrees()
