"""A complete day of a new user over HTTP and JSON-RPC, with balances read from the chain."""

import pytest
from eth_utils import keccak

from tests.chain.chain_server import ChainServer
from tests.chain.chains import hashes_of
from tests.chain.nodes import running, start_anvil
from tests.chain.wallets import STABLE_UNIT, UNIT
from tests.server.live import live_server

BUY, SELL = 0, 1
ADA, BOB = (f"0x{keccak(text=name).hex()}" for name in ("Ada", "Bob"))


@pytest.fixture(params=["embedded", "anvil"])
def server(request, tmp_path):
    if request.param == "embedded":
        with live_server(tmp_path, chain="embedded", chain_port=0, rate_limits=False) as live:
            yield ChainServer(live)
        return
    with (
        running(start_anvil()) as node,
        live_server(tmp_path, chain=node.url, rate_limits=False) as live,
    ):
        yield ChainServer(live, node.url)


class Accounts:
    """Balances of users, in tokens."""

    def __init__(self, server, market, *users):
        self.ledger, self.users = server.ledger, users
        self.operator = server.operator
        self.tokens = [int(market[f"{name}TokenId"]) for name in ("yes", "no")]

    def check(self, *expected):
        """Compare collateral, YES and NO of each user; the operator must have nothing."""
        balances = [self.of(user.address) for user in self.users]
        assert balances == [tuple(amount * UNIT for amount in each) for each in expected]
        assert self.of(self.operator) == (0, 0, 0)
        supplies = [self.ledger.supply(token) for token in self.tokens]
        assert supplies == [sum(each[side] for each in balances) for side in (1, 2)]

    def of(self, address):
        """Return collateral, YES and NO of an address, in wei."""
        held = (self.ledger.token(address, token) for token in self.tokens)
        return (self.ledger.collateral(address), *held)


def check_happened(server, answer, count):
    """Check that an answer has the hashes of ``count`` successful transactions."""
    hashes = hashes_of(answer)
    assert len(set(hashes)) == count
    for hashed in hashes:
        assert server.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"


def test_faucet_split_trade_merge_and_redeem(server):
    market = server.open_market("rain", "Will it rain tomorrow?")
    ada, bob = server.user(ADA), server.user(BOB)
    accounts = Accounts(server, market, ada, bob)
    is_embedded = server.chain()["rpcUrl"] is not None
    if not is_embedded:  # the faucet sends no ether there
        server.send_gas(ada.address)
        server.send_gas(bob.address)
    for user in (ada, bob):
        answer = server.faucet(user)
        check_happened(server, answer, 3 if is_embedded else 2)
        assert answer["amount"] == 100
        user.approve_collateral()
        user.approve_tokens()
    accounts.check((100, 0, 0), (100, 0, 0))

    check_happened(server, server.convert("split", ada, market, 60 * UNIT), 4)
    accounts.check((40, 60, 60), (100, 0, 0))

    resting = server.order(ada, market, SELL, 40, 25 * UNIT)
    reply = server.order(bob, market, BUY, 45, 10 * UNIT)
    assert reply["matched"]
    [trade] = reply["trades"]
    assert (trade["price"], trade["size"], trade["txHash"]) == (40, str(10 * UNIT), None)
    order = server.http.get(f"/api/orders/{resting['orderId']}").json()
    assert order["filledTokens"] == str(10 * UNIT)
    accounts.check((40, 60, 60), (100, 0, 0))

    ada.send_token(bob.address, int(market["yesTokenId"]), 10 * UNIT)
    bob.send_collateral(ada.address, 4 * UNIT)
    accounts.check((44, 50, 60), (96, 10, 0))

    check_happened(server, server.convert("merge", ada, market, 30 * UNIT), 4)
    accounts.check((74, 20, 30), (96, 10, 0))

    server.resolve("rain", "yes")
    paid = server.redeem(bob, market)
    check_happened(server, paid, 3)
    assert paid["amount"] == str(10 * UNIT)
    accounts.check((74, 20, 30), (106, 0, 0))
    paid = server.redeem(ada, market)
    check_happened(server, paid, 4)
    assert paid["amount"] == str(20 * UNIT)
    accounts.check((94, 0, 0), (106, 0, 0))

    ledger, contracts = server.ledger, server.contracts
    assert ledger.collateral(contracts.conditional_tokens) == 0
    assert ledger.wrapped_supply() == 200 * UNIT
    assert ledger.stable(contracts.collateral) == 200 * STABLE_UNIT
    assert {each.status for each in server.operations()} == {"done"}
    check_metrics(server)


def check_metrics(server):
    """Check the counts of operations in the metrics."""
    text = server.http.get("/metrics").text
    for kind, count in {"faucet": 2, "split": 1, "merge": 1, "redeem": 2}.items():
        assert f'clob_operations_total{{kind="{kind}",outcome="done"}} {count}.0' in text
    assert "clob_chain_up 1.0" in text
    assert "clob_chain_stuck 0.0" in text
