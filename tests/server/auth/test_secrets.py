"""Nothing secret is written down, not in the most talkative logs and not in the data folder."""

from pathlib import Path

import pytest

from clob.signing import SignedOrder, sign
from tests.server.auth.people import town
from tests.signings import DOMAIN, KEYS, address_of


def pieces(secret):
    """Cut a secret into pieces that would each give something away; the id of a key would not."""
    return [secret[begin : begin + 24] for begin in range(18, len(secret) - 24, 24)]


def do_everything(here):
    """Do all sorts of things with secrets, and give the keys, the tokens and the signatures."""
    made = [here.key(), here.key(makers=[])]
    keys = [each["key"] for each in made] + [here.revoked(), f"clob_{'1' * 12}_{'2' * 64}"]
    tokens = [here.token(), here.token(scope="none"), here.of_another_algorithm(), "x." * 40]
    maker = address_of(KEYS[0])
    order = SignedOrder(maker=maker, signer=maker, token_id=1, maker_amount=50, taker_amount=100)
    body = {**sign(order, DOMAIN, KEYS[0]).to_json(), "marketId": "m"}
    spoiled = {**body, "signature": body["signature"][:-4] + "ffff"}
    for key in keys:
        for token in tokens:
            headers = {"X-API-Key": key, "Authorization": f"Bearer {token}"}
            for path in ("/", "/api/orders", "/api/admin/keys", "/metrics"):
                here.http.get(path, headers=headers)
            for given in (body, spoiled, {**body, "key": key}):
                here.http.post("/api/orders", json=given, headers=headers)
            here.http.post("/api/admin/keys", content=f"{{{key}", headers=headers)
            here.http.post("/api/admin/keys", json={"name": key, token: 1}, headers=headers)
    for each in made:
        here.http.delete(f"/api/admin/keys/{each['keyId']}", headers=here.operator)
    return keys, tokens, [body["signature"], spoiled["signature"]]


@pytest.fixture
def written(tmp_path, capfd):
    """What was sent in secret, what the server wrote to its log, and its data folder."""
    with town(tmp_path, "test", rate_limits=False, log_level="debug", access_log=True) as here:
        sent = do_everything(here)
        assert here.live.stop() == 0
        return sent, capfd.readouterr().err, here.live.folder


def test_nothing_secret_is_in_the_logs_and_no_key_and_no_token_in_the_data_folder(written):
    (keys, tokens, signatures), log, folder = written
    assert log.count("/api/admin/keys") > 10
    assert "olga" in log  # an operator is named, with what he did
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
