"""A server with a chain, used over HTTP and JSON-RPC."""

import time
from types import SimpleNamespace

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.nodes import result_of
from tests.chain.wallets import Ledger, User, Wallet
from tests.server.meta.operators import operator_of

PATIENCE_S = 60
WHALE = ACCOUNTS[8].private_key
RETRY = 503
GAS_WEI = 10**18


class ChainServer:
    """A server with a chain.

    Args:
        live: the server.
        url: URL of the node; None to use the one that the server publishes.
    """

    def __init__(self, live, url=None):
        self.live = live
        self.http = live.http
        wait_until(lambda: self.chain()["state"] == "ready")
        chain = self.chain()
        self.url = url or chain["rpcUrl"]
        self.operator = chain["operator"]
        self.contracts = SimpleNamespace(
            stablecoin=chain["stablecoin"],
            collateral=chain["collateral"],
            conditional_tokens=chain["conditionalTokens"],
        )
        self.ledger = Ledger(self, self.contracts)

    def chain(self):
        """Return the chain section of the root endpoint."""
        answer = self.http.get("/")
        assert answer.status_code == 200, answer.text
        return answer.json()["chain"]

    def ask(self, method, *params):
        """Send a request to the node."""
        return result_of(self.http, self.url, method, params)

    def user(self, key):
        """Return a user with this key."""
        return User(self, key, self.contracts, self.operator)

    def send_gas(self, address):
        """Send ether for gas to an address."""
        Wallet(self, WHALE).send(address, value=GAS_WEI)

    # ----- requests to the server ------------------------------------------------------------

    def post(self, path, body, key=None):
        """Send a request and return the HTTP response."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.http.post(path, json=body, headers=headers)

    def done(self, path, body, key=None):
        """Send a request that must succeed and return its answer."""
        answer = self.post(path, body, key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def done_at_last(self, path, body, key):
        """Repeat a request while the server responds with 503, until it succeeds."""
        wait_until(lambda: self.post(path, body, key).status_code != RETRY)
        return self.done(path, body, key)

    def faucet(self, user, key=None):
        """Request collateral."""
        return self.done("/api/gasless/faucet", {"user": user.address}, key)

    def convert(self, kind, user, market, amount, key=None):
        """Request a split or merge in a market."""
        return self.done(f"/api/gasless/{kind}", conversion(user, market, amount), key)

    def redeem(self, user, market, key=None):
        """Request the redemption of a resolved market's tokens."""
        body = {"user": user.address, "conditionId": market["conditionId"]}
        return self.done("/api/gasless/redeem", body, key)

    def order(self, user, market, side, price, size, token=None):
        """Place an unsigned order."""
        body = {
            "maker": user.address,
            "marketId": market["marketId"],
            "tokenId": token or market["yesTokenId"],
            "side": side,
            "price": price,
            "size": str(size),
        }
        return self.done("/api/orders/gasless", body)

    # ----- administration --------------------------------------------------------------------

    @property
    def admin(self):
        """Client of the operator."""
        return operator_of(self.live)

    def open_market(self, name, question):
        """Open a market, wait until it is on the chain, and return it."""
        self.admin.admin_create_market(name, {"question": question})
        self.wait_for(name, "prepared")
        return self.http.get(f"/api/markets/{name}").json()

    def resolve(self, name, outcome):
        """Resolve a market and wait until the outcome is on the chain."""
        self.admin.admin_resolve_market(name, outcome)
        self.wait_for(name, "reported")

    def wait_for(self, name, state):
        """Wait until a market has a chain state."""
        wait_until(lambda: self.http.get(f"/api/markets/{name}").json()["chain"] == state)

    def operations(self):
        """Return all operations of the admin API."""
        return list(self.admin.admin_list_operations(limit=100))


def conversion(user, market, amount):
    """Return the body of a split or merge."""
    return {
        "user": user.address,
        "amount": str(amount),
        "conditionId": market["conditionId"],
        "yesTokenId": market["yesTokenId"],
        "noTokenId": market["noTokenId"],
    }


def production_settings(url, chain_id, key_file, contracts, exchange):
    """Return the settings of a production server over a node with deployed contracts."""
    return {
        "environment": "production",
        "chain": url,
        "chain_id": chain_id,
        "operator_key_file": key_file,
        "stablecoin": contracts.stablecoin,
        "collateral": contracts.collateral,
        "conditional_tokens": contracts.conditional_tokens,
        "eip712_name": "clob",
        "eip712_version": "1",
        "verifying_contract": exchange,
    }


def wait_until(condition):
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
