"""The proxy injects the configured faults and forwards everything else."""

import httpx
import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.nodes import NodeError, result_of
from tests.chain.proxy import (
    RECEIPT,
    SEND,
    Delay,
    Drop,
    DropAnswer,
    DropTransaction,
    Raw,
    Reject,
    RequireHigherFees,
    Result,
    RunBefore,
    WrongId,
    calldata_of,
    proxy_to,
)
from tests.chain.wallets import Wallet, receipt_of

ADA, BOB = (account.address for account in ACCOUNTS[3:5])
KEY = ACCOUNTS[3].private_key


class ProxiedNode:
    """A node behind a proxy."""

    def __init__(self, http, url):
        self.http, self.url = http, url

    def ask(self, method, *params):
        return result_of(self.http, self.url, method, params)


@pytest.fixture
def proxy(anvil):
    with proxy_to(anvil) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy):
    with httpx.Client() as http:
        yield ProxiedNode(http, proxy.url)


def test_unaffected_calls_are_forwarded_also_in_batches(proxy, proxied):
    assert proxied.ask("eth_chainId") == "0x7a69"
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": []}
        for number, method in enumerate(["eth_chainId", "eth_blockNumber"])
    ]
    answers = proxied.http.post(proxy.url, json=batch).json()
    assert [answer["result"] for answer in answers] == ["0x7a69", "0x0"]
    assert proxy.calls == ["eth_chainId", "eth_chainId", "eth_blockNumber"]


def test_dropped_call_is_not_forwarded_and_dropped_answer_is(proxy, proxied):
    with proxy.inject(Drop("evm_mine")), pytest.raises(httpx.TransportError):
        proxied.ask("evm_mine")
    assert proxied.ask("eth_blockNumber") == "0x0"
    with proxy.inject(DropAnswer("evm_mine")), pytest.raises(httpx.TransportError):
        proxied.ask("evm_mine")
    assert proxied.ask("eth_blockNumber") == "0x1"


def test_delayed_call_is_answered(proxy, proxied):
    with proxy.inject(Delay(0.2)), pytest.raises(httpx.ReadTimeout):
        proxied.http.post(proxy.url, json={"id": 1, "method": "eth_chainId"}, timeout=0.05)
    assert proxied.ask("eth_chainId") == "0x7a69"


def test_raw_and_wrong_id_responses(proxy, proxied):
    with proxy.inject(Raw(500, b"oops")):
        answer = proxied.http.post(proxy.url, json={"id": 1, "method": "eth_chainId"})
    assert (answer.status_code, answer.text) == (500, "oops")
    with proxy.inject(WrongId("eth_chainId")), pytest.raises(AssertionError):
        proxied.ask("eth_chainId")


def test_fault_ends_after_its_number_of_calls(proxy, proxied):
    with proxy.inject(Reject(-32000, "no", "eth_chainId", times=2)) as fault:
        for _ in range(2):
            with pytest.raises(NodeError, match="no"):
                proxied.ask("eth_chainId")
        assert proxied.ask("eth_chainId") == "0x7a69"
    assert fault.hits == 2


def test_swallowed_transaction_returns_its_hash_only(proxy, proxied):
    raw = Wallet(proxied, KEY).sign(BOB, value=1)
    with proxy.inject(DropTransaction()):
        hashed = proxied.ask(SEND, raw)
    assert proxied.ask(RECEIPT, hashed) is None
    assert proxied.ask(SEND, raw) == hashed
    assert receipt_of(proxied, hashed)["status"] == "0x1"
    with proxy.inject(Result(None, RECEIPT)):
        assert proxied.ask(RECEIPT, hashed) is None


def test_error_with_forwarding_accepts_the_transaction(proxy, proxied):
    raw = Wallet(proxied, KEY).sign(BOB, value=1)
    rejection = Reject(-32000, "nonce too low", SEND, forwards=True)
    with proxy.inject(rejection), pytest.raises(NodeError, match="nonce too low"):
        proxied.ask(SEND, raw)
    assert proxied.ask("eth_getTransactionCount", ADA, "pending") == "0x1"


def test_fault_can_select_transactions_by_calldata(proxy, proxied):
    ada = Wallet(proxied, KEY)
    calls = []
    with proxy.inject(RunBefore(lambda: calls.append(1), calldata=b"\x01\x02")) as fault:
        ada.send(BOB, b"\x01")
        assert not calls
        ada.send(BOB, b"\x01\x02\x03")
    assert (calls, fault.hits) == ([1], 1)
    assert calldata_of({"method": SEND, "params": [ada.sign(BOB, b"\x07")]}) == b"\x07"


def test_underpriced_replacement_is_rejected(proxy, proxied, anvil):
    anvil.ask("evm_setAutomine", False)
    ada = Wallet(proxied, KEY)
    raw = ada.sign(BOB, value=1, nonce=0)
    with proxy.inject(RequireHigherFees(10)) as fault:
        hashed = proxied.ask(SEND, raw)
        proxied.ask("anvil_dropTransaction", hashed)
        assert proxied.ask(SEND, raw) == hashed
        with pytest.raises(NodeError, match="underpriced"):
            proxied.ask(SEND, ada.sign(BOB, value=2, nonce=0))
    assert (fault.rejected, fault.raised) == ([0], [])
