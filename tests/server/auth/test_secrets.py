"""No secret is written to the debug log or the data folder."""

from pathlib import Path

import pytest

from clob.signing import SignedOrder, sign
from tests.server.auth.servers import operated_server
from tests.signings import DOMAIN, KEYS, address_of


def pieces(secret):
    """Split a secret into parts, without the public id of a key."""
    return [secret[begin : begin + 24] for begin in range(18, len(secret) - 24, 24)]


def send_secrets(server):
    """Send requests with secrets; return the keys, tokens and signatures."""
    made = [server.key(), server.key(makers=[])]
    keys = [each["key"] for each in made] + [
        server.deactivated_key(),
        f"clob_{'1' * 12}_{'2' * 64}",
    ]
    tokens = [
        server.token(),
        server.token(scope="none"),
        server.token_of_other_algorithm(),
        "x." * 40,
    ]
    maker = address_of(KEYS[0])
    order = SignedOrder(maker=maker, signer=maker, token_id=1, maker_amount=50, taker_amount=100)
    body = {**sign(order, DOMAIN, KEYS[0]).to_json(), "marketId": "m"}
    tampered = {**body, "signature": body["signature"][:-4] + "ffff"}
    for key in keys:
        for token in tokens:
            headers = {"X-API-Key": key, "Authorization": f"Bearer {token}"}
            for path in ("/", "/api/orders", "/api/admin/keys", "/metrics"):
                server.http.get(path, headers=headers)
            for order_body in (body, tampered, {**body, "key": key}):
                server.http.post("/api/orders", json=order_body, headers=headers)
            server.http.post("/api/admin/keys", content=f"{{{key}", headers=headers)
            server.http.post("/api/admin/keys", json={"name": key, token: 1}, headers=headers)
    for each in made:
        server.http.delete(f"/api/admin/keys/{each['keyId']}", headers=server.operator)
    return keys, tokens, [body["signature"], tampered["signature"]]


@pytest.fixture
def written(tmp_path, capfd):
    """Return the secrets sent, the log of the server and its data folder."""
    with operated_server(
        tmp_path, "test", rate_limits=False, log_level="debug", access_log=True
    ) as server:
        sent = send_secrets(server)
        assert server.live.stop() == 0
        return sent, capfd.readouterr().err, server.live.folder


def test_logs_contain_no_secret_and_data_folder_no_key_or_token(written):
    (keys, tokens, signatures), log, folder = written
    assert log.count("/api/admin/keys") > 10
    assert "olga" in log  # operators are logged by name with their actions
    assert "admin_create_key" in log
    for secret in (*keys, *tokens, *signatures):
        assert pieces(secret)
        for piece in pieces(secret):
            assert piece not in log
    for name in ("tokens.key", "ids.key"):
        raw = (folder / name).read_bytes()
        assert raw.hex() not in log
        assert repr(raw) not in log
    for path in filter(Path.is_file, folder.rglob("*")):
        kept = path.read_bytes()
        for piece in (each for secret in (*keys, *tokens) for each in pieces(secret)):
            assert piece.encode() not in kept, path
        for key in keys:
            assert bytes.fromhex(key[18:]) not in kept, path
