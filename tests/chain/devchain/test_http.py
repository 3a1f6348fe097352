"""HTTP: hosts, origins, methods and limits."""

import http.client

import httpx
import pytest

from clob_server.chain.devchain.server import BODY_MAX_BYTES
from tests.chain.nodes import running, start_devchain

REQUEST = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'


def send(node, method="POST", body=REQUEST, **headers):
    """Send a request with exactly these headers; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, "/", body, fields)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A chain shared by the tests of this module."""
    with running(start_devchain(tmp_path_factory.mktemp("chain"))) as node:
        yield node


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8545", "[::1]:8545"])
def test_loopback_host_names_are_accepted(node, host):
    status, _, body = send(node, Host=host)
    assert status == 200
    assert b"0x7a69" in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
def test_other_host_names_are_rejected(node, host):
    assert send(node, Host=host)[0] == 403


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8000"])
def test_loopback_origins_are_allowed(node, origin):
    status, headers, _ = send(node, Origin=origin)
    assert (status, headers["access-control-allow-origin"]) == (200, origin)
    status, headers, body = send(node, "OPTIONS", None, Origin=origin)
    assert (status, headers["access-control-allow-origin"], body) == (204, origin, b"")
    assert headers["access-control-allow-headers"] == "content-type"


def test_wallet_extension_origin_is_allowed(node):
    assert send(node, Origin="chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn")[0] == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example"]
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_other_origins_are_rejected(node, origin, method):
    before = node.ask("eth_blockNumber")
    status, headers, _ = send(
        node, method, REQUEST.replace("eth_chainId", "evm_mine"), Origin=origin
    )
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert node.ask("eth_blockNumber") == before


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post_is_accepted(node, method):
    status, headers, _ = send(node, method)
    assert (status, headers["allow"]) == (405, "POST, OPTIONS")


def test_too_long_body_is_rejected(node):
    assert send(node, body=REQUEST + " " * BODY_MAX_BYTES)[0] == 413
    assert send(node, body=REQUEST + " " * (BODY_MAX_BYTES - len(REQUEST)))[0] == 200


def test_notification_gets_an_empty_response(node):
    status, _, body = send(node, body=REQUEST.replace('"id":1,', ""))
    assert (status, body) == (204, b"")


def test_requests_share_one_connection(node):
    with httpx.Client() as client:
        for _ in range(20):
            answer = client.post(node.url, content=REQUEST, headers={"content-type": "text/plain"})
            assert answer.json()["result"] == "0x7a69"
            assert answer.headers["content-type"] == "application/json"
