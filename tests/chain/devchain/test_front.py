"""The HTTP front end: hosts, origins, methods and limits."""

import http.client

import httpx
import pytest

from clob_server.chain.devchain.server import BODY_MAX_BYTES

ASK = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'


def sent(node, method="POST", body=ASK, **headers):
    """Send a request as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, "/", body, given)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """A chain that all tests of this module share."""
    from tests.chain.nodes import running, start_devchain  # noqa: PLC0415

    with running(start_devchain(tmp_path_factory.mktemp("chain"))) as node:
        yield node


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8545", "[::1]:8545"])
def test_loopback_host_names_are_accepted(front, host):
    status, _, body = sent(front, Host=host)
    assert status == 200
    assert b"0x7a69" in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
def test_other_host_names_are_rejected(front, host):
    assert sent(front, Host=host)[0] == 403


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8000"])
def test_loopback_origins_are_allowed(front, origin):
    status, headers, _ = sent(front, Origin=origin)
    assert (status, headers["access-control-allow-origin"]) == (200, origin)
    status, headers, body = sent(front, "OPTIONS", None, Origin=origin)
    assert (status, headers["access-control-allow-origin"], body) == (204, origin, b"")
    assert headers["access-control-allow-headers"] == "content-type"


def test_wallet_extension_origin_is_allowed(front):
    assert sent(front, Origin="chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn")[0] == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example"]
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_other_origins_are_rejected(front, origin, method):
    before = front.ask("eth_blockNumber")
    status, headers, _ = sent(front, method, ASK.replace("eth_chainId", "evm_mine"), Origin=origin)
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert front.ask("eth_blockNumber") == before


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post_is_accepted(front, method):
    status, headers, _ = sent(front, method)
    assert (status, headers["allow"]) == (405, "POST, OPTIONS")


def test_too_long_body_is_rejected(front):
    assert sent(front, body=ASK + " " * BODY_MAX_BYTES)[0] == 413
    assert sent(front, body=ASK + " " * (BODY_MAX_BYTES - len(ASK)))[0] == 200


def test_notification_gets_an_empty_response(front):
    status, _, body = sent(front, body=ASK.replace('"id":1,', ""))
    assert (status, body) == (204, b"")


def test_requests_share_one_connection(front):
    with httpx.Client() as client:
        for _ in range(20):
            answer = client.post(front.url, content=ASK, headers={"content-type": "text/plain"})
            assert answer.json()["result"] == "0x7a69"
            assert answer.headers["content-type"] == "application/json"
