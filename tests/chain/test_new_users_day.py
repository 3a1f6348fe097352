"""A complete day of a new user over HTTP and JSON-RPC, with balances read from the chain."""

import pytest
from eth_utils import keccak

from tests.chain.nodes import running, start_anvil
from tests.chain.people import STABLE_UNIT, UNIT
from tests.chain.venues import Venue
from tests.chain.worlds import hashes_of
from tests.server.live import live_server

BUY, SELL = 0, 1
ADA, BOB = (f"0x{keccak(text=name).hex()}" for name in ("Ada", "Bob"))


@pytest.fixture(params=["embedded", "anvil"])
def venue(request, tmp_path):
    if request.param == "embedded":
        with live_server(tmp_path, chain="embedded", chain_port=0, rate_limits=False) as live:
            yield Venue(live)
        return
    with (
        running(start_anvil()) as node,
        live_server(tmp_path, chain=node.url, rate_limits=False) as live,
    ):
        yield Venue(live, node.url)


class Accounts:
    """Balances of users, in tokens."""

    def __init__(self, venue, market, *people):
        self.ledger, self.people = venue.ledger, people
        self.operator = venue.operator
        self.tokens = [int(market[f"{name}TokenId"]) for name in ("yes", "no")]

    def check(self, *wanted):
        """Compare collateral, YES and NO of each user; the operator must have nothing."""
        found = [self.of(user.address) for user in self.people]
        assert found == [tuple(amount * UNIT for amount in each) for each in wanted]
        assert self.of(self.operator) == (0, 0, 0)
        supplies = [self.ledger.supply(token) for token in self.tokens]
        assert supplies == [sum(each[side] for each in found) for side in (1, 2)]

    def of(self, address):
        """Return collateral, YES and NO of an address, in wei."""
        held = (self.ledger.token(address, token) for token in self.tokens)
        return (self.ledger.collateral(address), *held)


def check_happened(venue, answer, count):
    """Check that an answer names this many successful transactions."""
    hashes = hashes_of(answer)
    assert len(set(hashes)) == count
    for hashed in hashes:
        assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"


def test_faucet_split_trade_merge_and_redeem(venue):
    market = venue.open_market("rain", "Will it rain tomorrow?")
    ada, bob = venue.user(ADA), venue.user(BOB)
    accounts = Accounts(venue, market, ada, bob)
    is_embedded = venue.chain()["rpcUrl"] is not None
    if not is_embedded:  # the faucet sends no ether there
        venue.send_gas(ada.address)
        venue.send_gas(bob.address)
    for user in (ada, bob):
        answer = venue.faucet(user)
        check_happened(venue, answer, 3 if is_embedded else 2)
        assert answer["amount"] == 100
        user.approve_collateral()
        user.approve_tokens()
    accounts.check((100, 0, 0), (100, 0, 0))

    check_happened(venue, venue.convert("split", ada, market, 60 * UNIT), 4)
    accounts.check((40, 60, 60), (100, 0, 0))

    resting = venue.order(ada, market, SELL, 40, 25 * UNIT)
    taken = venue.order(bob, market, BUY, 45, 10 * UNIT)
    assert taken["matched"]
    [trade] = taken["trades"]
    assert (trade["price"], trade["size"], trade["txHash"]) == (40, str(10 * UNIT), None)
    shown = venue.http.get(f"/api/orders/{resting['orderId']}").json()
    assert shown["filledTokens"] == str(10 * UNIT)
    accounts.check((40, 60, 60), (100, 0, 0))

    ada.send_token(bob.address, int(market["yesTokenId"]), 10 * UNIT)
    bob.send_collateral(ada.address, 4 * UNIT)
    accounts.check((44, 50, 60), (96, 10, 0))

    check_happened(venue, venue.convert("merge", ada, market, 30 * UNIT), 4)
    accounts.check((74, 20, 30), (96, 10, 0))

    venue.resolve("rain", "yes")
    paid = venue.redeem(bob, market)
    check_happened(venue, paid, 3)
    assert paid["amount"] == str(10 * UNIT)
    accounts.check((74, 20, 30), (106, 0, 0))
    paid = venue.redeem(ada, market)
    check_happened(venue, paid, 4)
    assert paid["amount"] == str(20 * UNIT)
    accounts.check((94, 0, 0), (106, 0, 0))

    ledger, places = venue.ledger, venue.contracts
    assert ledger.collateral(places.conditional_tokens) == 0
    assert ledger.wrapped_supply() == 200 * UNIT
    assert ledger.stable(places.collateral) == 200 * STABLE_UNIT
    assert {each["status"] for each in venue.operations()} == {"done"}
    check_metrics(venue)


def check_metrics(venue):
    """Check the metrics."""
    text = venue.http.get("/metrics").text
    for kind, count in {"faucet": 2, "split": 1, "merge": 1, "redeem": 2}.items():
        assert f'clob_operations_total{{kind="{kind}",outcome="done"}} {count}.0' in text
    assert "clob_chain_up 1.0" in text
    assert "clob_chain_stuck 0.0" in text
