"""JSON-RPC 2.0: invalid requests, batches and notifications."""

import apsw
import pytest

from clob_server.chain.devchain.methods import METHODS
from clob_server.chain.devchain.server import BATCH_MAX
from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.devchain.senders import Sender

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
INVALID_PARAMS = [
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
def test_invalid_json_is_a_parse_error(rpc, body):
    response = rpc.post(body)
    assert response["id"] is None
    assert response["error"]["code"] == -32700


@pytest.mark.parametrize(
    "body",
    [
        1,
        "eth_chainId",
        None,
        True,
        [],
        {},
        {**REQUEST, "jsonrpc": "1.0"},
        {**REQUEST, "jsonrpc": 2.0},
        {"id": 1, "method": "eth_chainId"},
        {"jsonrpc": "2.0", "id": 1},
        {**REQUEST, "method": 5},
        {**REQUEST, "method": None},
        {**REQUEST, "id": {}},
        {**REQUEST, "id": [1]},
        {**REQUEST, "id": True},
    ],
)
def test_invalid_request_is_reported(rpc, body):
    response = rpc.post(body)
    assert response["error"]["code"] == -32600
    assert response["jsonrpc"] == "2.0"


@pytest.mark.parametrize("number", [0, -1, 2**70, 1.5, "", "a", None])
def test_id_is_returned_unchanged(rpc, number):
    response = rpc.post({**REQUEST, "id": number})
    assert response == {"jsonrpc": "2.0", "id": number, "result": "0x7a69"}


def test_unknown_method_is_reported(rpc):
    assert rpc.post({**REQUEST, "method": "eth_mine"})["error"]["code"] == -32601
    long = rpc.post({**REQUEST, "method": "x" * 10_000})["error"]
    assert len(long["message"]) < 200


@pytest.mark.parametrize("params", [{"a": 1}, "latest", 5, [1], ["latest"], [None, 1]])
def test_invalid_parameters_are_reported(rpc, params):
    assert rpc.post({**REQUEST, "params": params})["error"]["code"] == -32602


@pytest.mark.parametrize("params", [[], None])
def test_empty_parameters_may_be_omitted(rpc, params):
    assert rpc.post({**REQUEST, "params": params})["result"] == "0x7a69"


def test_notification_is_executed_without_a_response(rpc):
    assert rpc.post({"jsonrpc": "2.0", "method": "evm_mine"}) is None
    assert rpc.ask("eth_blockNumber") == "0x1"
    assert rpc.post([{"jsonrpc": "2.0", "method": "evm_mine"}] * 2) is None
    assert rpc.ask("eth_blockNumber") == "0x3"
    assert rpc.post({"jsonrpc": "2.0", "method": "no_such"}) is None


def test_batch_results_are_in_order(rpc):
    response = rpc.post(
        [{**REQUEST, "id": "a"}, 5, {**REQUEST, "method": "x", "id": "b"}, {**REQUEST, "id": "c"}]
    )
    assert [each["id"] for each in response] == ["a", None, "b", "c"]
    assert [each.get("error", {}).get("code") for each in response] == [None, -32600, -32601, None]


def test_too_long_batch_is_rejected(rpc):
    assert len(rpc.post([REQUEST] * BATCH_MAX)) == BATCH_MAX
    assert rpc.post([REQUEST] * (BATCH_MAX + 1))["error"]["code"] == -32600


@pytest.mark.parametrize("method", sorted(METHODS))
def test_invalid_parameters_raise_only_rpc_errors(rpc, method):
    for params in INVALID_PARAMS:
        response = rpc.post({**REQUEST, "method": method, "params": params})
        assert "result" in response or response["error"]["code"] in (-32602, -32000, 3), params


def test_failed_method_is_an_internal_error_and_changes_nothing(rpc, monkeypatch, caplog):
    def broken(chain, params):
        chain.store.add("INSERT INTO facts VALUES('broken', 1)")
        raise ZeroDivisionError("inside")

    monkeypatch.setitem(METHODS, "eth_chainId", broken)
    assert rpc.post(REQUEST)["error"]["code"] == -32603
    assert "eth_chainId failed" in caplog.text
    rpc.ask("evm_mine")
    assert rpc.store.row("SELECT 1 FROM facts WHERE name='broken'") is None


def test_full_disk_is_reported_and_recovered_from(rpc, monkeypatch, caplog):
    raw = Sender().sign(ACCOUNTS[4].address, value=5)
    before = rpc.ask("eth_getBalance", ACCOUNTS[4].address, "latest")
    with monkeypatch.context() as patched:

        def full():
            raise apsw.FullError("database or disk is full")

        patched.setattr(rpc.store, "_write", full)
        for _ in range(2):
            error = rpc.rejected("eth_sendRawTransaction", raw)
            assert error["code"] == -32603
            assert "disk is full" in error["message"]
    assert rpc.ask("eth_blockNumber") == "0x0"
    assert rpc.ask("eth_getBalance", ACCOUNTS[4].address, "latest") == before
    hashed = rpc.ask("eth_sendRawTransaction", raw)
    assert rpc.ask("eth_getTransactionReceipt", hashed)["blockNumber"] == "0x1"
    assert int(rpc.ask("eth_getBalance", ACCOUNTS[4].address, "latest"), 16) == int(before, 16) + 5
    assert "eth_sendRawTransaction failed" in caplog.text
