"""The proxy injects the configured faults and forwards everything else."""

import httpx
import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.nodes import NodeError, result_of
from tests.chain.people import Person, receipt_of
from tests.chain.proxy import (
    RECEIPT,
    SEND,
    Delay,
    Drop,
    DropAnswer,
    Insist,
    Meanwhile,
    Raw,
    Reject,
    Result,
    Swallow,
    WrongId,
    calldata_of,
    in_front_of,
)

ADA, BOB = (account.address for account in ACCOUNTS[3:5])
KEY = ACCOUNTS[3].private_key


class Through:
    """A node behind a proxy."""

    def __init__(self, http, url):
        self.http, self.url = http, url

    def ask(self, method, *params):
        return result_of(self.http, self.url, method, params)


@pytest.fixture
def proxy(anvil):
    with in_front_of(anvil) as proxy:
        yield proxy


@pytest.fixture
def through(proxy):
    with httpx.Client() as http:
        yield Through(http, proxy.url)


def test_unaffected_calls_are_forwarded_also_in_batches(proxy, through):
    assert through.ask("eth_chainId") == "0x7a69"
    asked = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": []}
        for number, method in enumerate(["eth_chainId", "eth_blockNumber"])
    ]
    answers = through.http.post(proxy.url, json=asked).json()
    assert [answer["result"] for answer in answers] == ["0x7a69", "0x0"]
    assert proxy.calls == ["eth_chainId", "eth_chainId", "eth_blockNumber"]


def test_dropped_call_is_not_forwarded_and_dropped_answer_is(proxy, through):
    with proxy.inject(Drop("evm_mine")), pytest.raises(httpx.TransportError):
        through.ask("evm_mine")
    assert through.ask("eth_blockNumber") == "0x0"
    with proxy.inject(DropAnswer("evm_mine")), pytest.raises(httpx.TransportError):
        through.ask("evm_mine")
    assert through.ask("eth_blockNumber") == "0x1"


def test_delayed_call_is_answered(proxy, through):
    with proxy.inject(Delay(0.2)), pytest.raises(httpx.ReadTimeout):
        through.http.post(proxy.url, json={"id": 1, "method": "eth_chainId"}, timeout=0.05)
    assert through.ask("eth_chainId") == "0x7a69"


def test_raw_and_wrong_id_responses(proxy, through):
    with proxy.inject(Raw(500, b"oops")):
        answer = through.http.post(proxy.url, json={"id": 1, "method": "eth_chainId"})
    assert (answer.status_code, answer.text) == (500, "oops")
    with proxy.inject(WrongId("eth_chainId")), pytest.raises(AssertionError):
        through.ask("eth_chainId")


def test_fault_ends_after_its_number_of_calls(proxy, through):
    with proxy.inject(Reject(-32000, "no", "eth_chainId", times=2)) as fault:
        for _ in range(2):
            with pytest.raises(NodeError, match="no"):
                through.ask("eth_chainId")
        assert through.ask("eth_chainId") == "0x7a69"
    assert fault.hits == 2


def test_swallowed_transaction_returns_its_hash_only(proxy, through):
    raw = Person(through, KEY).sign(BOB, value=1)
    with proxy.inject(Swallow()):
        hashed = through.ask(SEND, raw)
    assert through.ask(RECEIPT, hashed) is None
    assert through.ask(SEND, raw) == hashed
    assert receipt_of(through, hashed)["status"] == "0x1"
    with proxy.inject(Result(None, RECEIPT)):
        assert through.ask(RECEIPT, hashed) is None


def test_error_with_forwarding_accepts_the_transaction(proxy, through):
    raw = Person(through, KEY).sign(BOB, value=1)
    rejection = Reject(-32000, "nonce too low", SEND, forwards=True)
    with proxy.inject(rejection), pytest.raises(NodeError, match="nonce too low"):
        through.ask(SEND, raw)
    assert through.ask("eth_getTransactionCount", ADA, "pending") == "0x1"


def test_fault_can_select_transactions_by_calldata(proxy, through):
    ada = Person(through, KEY)
    done = []
    with proxy.inject(Meanwhile(lambda: done.append(1), calldata=b"\x01\x02")) as fault:
        ada.send(BOB, b"\x01")
        assert not done
        ada.send(BOB, b"\x01\x02\x03")
    assert (done, fault.hits) == ([1], 1)
    assert calldata_of({"method": SEND, "params": [ada.sign(BOB, b"\x07")]}) == b"\x07"


def test_underpriced_replacement_is_rejected(proxy, through, anvil):
    anvil.ask("evm_setAutomine", False)
    ada = Person(through, KEY)
    raw = ada.sign(BOB, value=1, nonce=0)
    with proxy.inject(Insist(10)) as fault:
        hashed = through.ask(SEND, raw)
        through.ask("anvil_dropTransaction", hashed)
        assert through.ask(SEND, raw) == hashed
        with pytest.raises(NodeError, match="underpriced"):
            through.ask(SEND, ada.sign(BOB, value=2, nonce=0))
    assert (fault.rejected, fault.raised) == ([0], [])
