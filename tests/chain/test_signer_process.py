"""The reference signer over HTTP, and a server that signs with it."""

import json
import stat
import subprocess
import sys

import httpx
import pytest
from eth_account import Account

from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from tests.chain.chain_server import ChainServer, wait_until
from tests.chain.nodes import running, start_anvil
from tests.chain.signers import SIGN, signing
from tests.chain.wallets import UNIT
from tests.server.live import environment, live_server

TO = ACCOUNTS[3].address
FIELDS = {
    "from": OPERATOR.address,
    "to": TO,
    "nonce": "0x5",
    "gas": "0x5208",
    "value": "0x1",
    "data": "0x12ab",
    "chainId": "0x7a69",
    "maxFeePerGas": "0x10",
    "maxPriorityFeePerGas": "0x1",
}


@pytest.fixture(scope="module")
def signer(tmp_path_factory):
    """A signer."""
    with signing(tmp_path_factory.mktemp("signer")) as signer:
        yield signer


def request(signer, method, *params, **more):
    """Send a request and return the response without id and version."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}
    answer = httpx.post(signer.url, json=body).json()
    assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", 7)
    return answer


def test_account_is_listed(signer):
    assert request(signer, "eth_accounts") == {"result": [OPERATOR.address.lower()]}


@pytest.mark.parametrize("is_legacy", [False, True])
@pytest.mark.parametrize("without", ["", "to", "value", "chainId"])
def test_transactions_are_signed_like_those_of_eth_account(signer, is_legacy, without):
    fields = {name: value for name, value in FIELDS.items() if name != without}
    if is_legacy:
        del fields["maxFeePerGas"], fields["maxPriorityFeePerGas"]
        fields["gasPrice"] = "0x10"
    raw = request(signer, SIGN, fields)["result"]
    expected = {
        **{name: int(value, 16) for name, value in fields.items() if name not in ("from", "to")},
        "data": fields["data"],
        "to": fields.get("to", b""),
        "value": int(fields.get("value", "0x0"), 16),
        "chainId": 31337,
    }
    signed = Account.sign_transaction(expected, OPERATOR.private_key)
    assert raw == f"0x{bytes(signed.raw_transaction).hex()}"
    assert f"signed 0x{bytes(signed.hash).hex()}: nonce 5, to " in signer.logged()[-1]


@pytest.mark.parametrize(("changes", "code", "words"), [
    ({"from": TO}, -32000, f"no key of the account '{TO}'"),
    ({"from": None}, -32000, "no key of the account None"),
    ({"chainId": "0x1"}, -32000, "signs for chain 31337; got chain 1"),
    ({"chainId": 31337}, -32602, "chainId must be 0x and hex digits; got 31337"),
    ({"nonce": None}, -32602, "nonce must be 0x and hex digits; got None"),
    ({"gas": "21000"}, -32602, "gas must be 0x and hex digits; got '21000'"),
    ({"data": "0x123"}, -32602, "data must be 0x and hex digits"),
    ({"to": "0x12"}, -32602, "to must be 0x and 40 hex digits"),
    ({"to": 5}, -32602, "to must be"),
])  # fmt: skip
def test_invalid_transactions_are_rejected(signer, changes, code, words):
    before = len([line for line in signer.logged() if "signed" in line])
    error = request(signer, SIGN, FIELDS | changes)["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert len([line for line in signer.logged() if "signed" in line]) == before


def test_invalid_requests_are_rejected(signer):
    assert request(signer, "eth_sign", TO, "0x12")["error"]["code"] == -32601
    for params in ([], [1], [FIELDS, FIELDS], {"from": OPERATOR.address}):
        assert request(signer, SIGN, params=params)["error"]["code"] == -32602
    headers = {"content-type": "application/json"}
    for body, code in ((b"{", -32700), (b"[]", -32600), (b"3", -32600), (b"[3]", -32600)):
        answer = httpx.post(signer.url, content=body, headers=headers).json()
        error = answer[0] if isinstance(answer, list) else answer
        assert error["error"]["code"] == code
    batch = [{"id": 1, "method": "eth_accounts"}, {"id": 2, "method": "x"}]
    first, second = httpx.post(signer.url, json=batch).json()
    assert (first["id"], second["id"], second["error"]["code"]) == (1, 2, -32601)


def test_pages_and_large_bodies_are_rejected(signer):
    body = json.dumps({"id": 1, "method": SIGN, "params": [FIELDS]})
    headers = {"content-type": "text/plain"}
    assert httpx.post(signer.url, content=body, headers=headers).status_code == 415
    rebound = {"content-type": "application/json", "host": "page.example:9000"}
    assert httpx.post(signer.url, content=body, headers=rebound).status_code == 421
    large = b" " * (1 << 20) + body.encode()
    headers = {"content-type": "application/json"}
    assert httpx.post(signer.url, content=large, headers=headers).status_code == 413


def test_only_named_recipients_are_signed_for(tmp_path):
    with signing(tmp_path, "--to", TO, "--to", ACCOUNTS[4].address) as signer:
        assert "result" in request(signer, SIGN, FIELDS)
        for to in (ACCOUNTS[5].address, None):
            error = request(signer, SIGN, FIELDS | {"to": to})["error"]
            assert error["message"] == f"the recipient {to or 'none'} is not allowed"


@pytest.mark.parametrize(("mode", "content", "words"), [
    (0o644, OPERATOR.private_key, "holds a secret, but its mode 0644 allows other users"),
    (0o600, "0x12", "must hold 64 hex digits and nothing else"),
    (0o600, "0" * 64, "the operator's key must be 32 bytes in hex"),
])  # fmt: skip
def test_unusable_key_file_is_rejected(tmp_path, mode, content, words):
    path = tmp_path / "signer.key"
    path.write_text(content)
    path.chmod(mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    result = subprocess.run(
        [sys.executable, "-m", "clob_server.chain.signer", path, "--chain-id", "1", "--port", "0"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_signer_ends_with_code_0(tmp_path):
    with signing(tmp_path) as signer:
        pass
    assert signer.process.returncode == 0


def test_server_without_a_key_runs_operations(tmp_path):
    with running(start_anvil()) as node, signing(tmp_path) as signer:
        settings = {"operator_signer": signer.url, "operator_address": OPERATOR.address}
        with live_server(tmp_path / "data", chain=node.url, rate_limits=False, **settings) as live:
            server = ChainServer(live, node.url)
            assert server.operator == OPERATOR.address
            user = server.user(ACCOUNTS[6].private_key)
            server.faucet(user)
            assert server.ledger.collateral(user.address) == 100 * UNIT
            signer.process.kill()
            wait_until(lambda: "signer" in server.admin.admin_chain().detail)
            answer = server.post("/api/gasless/faucet", {"user": user.address})
            assert (answer.status_code, answer.json()["code"]) == (503, "CHAIN_UNAVAILABLE")
            assert "the signer at 127.0.0.1 is unreachable" in answer.json()["detail"]
            assert server.ledger.collateral(user.address) == 100 * UNIT
            assert live.stop() == 0
