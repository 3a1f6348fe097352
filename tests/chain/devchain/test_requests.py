"""JSON-RPC 2.0: what is no request, what is half a request, batches and notifications."""

import apsw
import pytest

from clob_server.chain.devchain.methods import METHODS
from clob_server.chain.devchain.server import BATCH_MAX
from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.devchain.senders import Sender

ASK = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
NONSENSE = [
    [{}],
    [[]],
    ["0x"],
    ["0xzz"],
    [-1],
    [1.5],
    [2**300],
    ["x" * 5000],
    [True],
    [{"from": 5}, {}],
    [{"to": "0x12"}, "latest"],
    ["0x" + "11" * 20, "0x" + "f" * 64],
    ["0x" + "11" * 20, {"blockHash": "0x" + "00" * 32}],
    ["0x" + "11" * 20, {"blockNumber": None}],
    ["0x" + "11" * 20, "no such block"],
    ["0x" + "11" * 32, 5],
    [{"topics": 5}],
    [{"topics": [[["0x"]]]}],
    [{"address": ["0x"] * 2000}],
    ["0x5", "latest", [101]],
    ["0x5", "latest", [5, 4]],
    ["0x5", "latest", ["x"]],
    [1, 2, 3, 4, 5],
]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b'{"id":1,}', b"\xff\xfe", b'"\xff"', b"[" * 100_000, b"{}x", b"NaN"],
)
def test_what_is_no_json_is_a_parse_error(asked, body):
    told = asked.post(body)
    assert told["id"] is None
    assert told["error"]["code"] == -32700


@pytest.mark.parametrize(
    "body",
    [
        1,
        "eth_chainId",
        None,
        True,
        [],
        {},
        {**ASK, "jsonrpc": "1.0"},
        {**ASK, "jsonrpc": 2.0},
        {"id": 1, "method": "eth_chainId"},
        {"jsonrpc": "2.0", "id": 1},
        {**ASK, "method": 5},
        {**ASK, "method": None},
        {**ASK, "id": {}},
        {**ASK, "id": [1]},
        {**ASK, "id": True},
    ],
)
def test_what_is_no_request_is_said_to_be_none(asked, body):
    told = asked.post(body)
    assert told["error"]["code"] == -32600
    assert told["jsonrpc"] == "2.0"


@pytest.mark.parametrize("number", [0, -1, 2**70, 1.5, "", "a", None])
def test_the_id_comes_back_as_it_was(asked, number):
    told = asked.post({**ASK, "id": number})
    assert told == {"jsonrpc": "2.0", "id": number, "result": "0x7a69"}


def test_a_method_that_is_not_there(asked):
    assert asked.post({**ASK, "method": "eth_mine"})["error"]["code"] == -32601
    long = asked.post({**ASK, "method": "x" * 10_000})["error"]
    assert len(long["message"]) < 200


@pytest.mark.parametrize("given", [{"a": 1}, "latest", 5, [1], ["latest"], [None, 1]])
def test_parameters_that_a_method_does_not_take(asked, given):
    assert asked.post({**ASK, "params": given})["error"]["code"] == -32602


@pytest.mark.parametrize("given", [[], None])
def test_no_parameters_may_be_left_out(asked, given):
    assert asked.post({**ASK, "params": given})["result"] == "0x7a69"


def test_a_notification_is_done_and_not_answered(asked):
    assert asked.post({"jsonrpc": "2.0", "method": "evm_mine"}) is None
    assert asked.ask("eth_blockNumber") == "0x1"
    assert asked.post([{"jsonrpc": "2.0", "method": "evm_mine"}] * 2) is None
    assert asked.ask("eth_blockNumber") == "0x3"
    assert asked.post({"jsonrpc": "2.0", "method": "no_such"}) is None


def test_a_batch_is_answered_in_its_order_and_item_by_item(asked):
    told = asked.post(
        [{**ASK, "id": "a"}, 5, {**ASK, "method": "x", "id": "b"}, {**ASK, "id": "c"}]
    )
    assert [each["id"] for each in told] == ["a", None, "b", "c"]
    assert [each.get("error", {}).get("code") for each in told] == [None, -32600, -32601, None]


def test_a_batch_that_is_too_long_is_refused_whole(asked):
    assert len(asked.post([ASK] * BATCH_MAX)) == BATCH_MAX
    assert asked.post([ASK] * (BATCH_MAX + 1))["error"]["code"] == -32600


@pytest.mark.parametrize("method", sorted(METHODS))
def test_no_nonsense_breaks_a_method(asked, method):
    for params in NONSENSE:
        told = asked.post({**ASK, "method": method, "params": params})
        assert "result" in told or told["error"]["code"] in (-32602, -32000, 3), params


def test_what_a_method_did_wrong_changes_nothing_and_is_an_internal_error(
    asked, monkeypatch, caplog
):
    def broken(chain, given):
        chain.store.add("INSERT INTO facts VALUES('broken', 1)")
        raise ZeroDivisionError("inside")

    monkeypatch.setitem(METHODS, "eth_chainId", broken)
    assert asked.post(ASK)["error"]["code"] == -32603
    assert "eth_chainId failed" in caplog.text
    asked.ask("evm_mine")
    assert asked.store.row("SELECT 1 FROM facts WHERE name='broken'") is None


def test_a_disk_that_is_full_for_a_while(asked, monkeypatch, caplog):
    raw = Sender().sign(ACCOUNTS[4].address, value=5)
    before = asked.ask("eth_getBalance", ACCOUNTS[4].address, "latest")
    with monkeypatch.context() as patched:

        def full():
            raise apsw.FullError("database or disk is full")

        patched.setattr(asked.store, "_write", full)
        for _ in range(2):
            error = asked.refused("eth_sendRawTransaction", raw)
            assert error["code"] == -32603
            assert "disk is full" in error["message"]
    assert asked.ask("eth_blockNumber") == "0x0"
    assert asked.ask("eth_getBalance", ACCOUNTS[4].address, "latest") == before
    hashed = asked.ask("eth_sendRawTransaction", raw)
    assert asked.ask("eth_getTransactionReceipt", hashed)["blockNumber"] == "0x1"
    assert (
        int(asked.ask("eth_getBalance", ACCOUNTS[4].address, "latest"), 16) == int(before, 16) + 5
    )
    assert "eth_sendRawTransaction failed" in caplog.text
