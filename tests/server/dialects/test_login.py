"""Credentials that wallets derive, and requests that are signed with them."""

import time
import uuid
from base64 import urlsafe_b64decode

import pytest

from clob.signing import ZERO_ADDRESS
from clob_server.core.registry import Registry
from clob_server.dialects.polymarket.credentials import CredentialStore
from tests.server.dialects.polymarket import client_of, dialect_server, error_of
from tests.signings import KEYS


def headers_of(client, method, path, **changed):
    """Return the headers that the client signs a request with, some of them changed."""
    from py_clob_client.clob_types import RequestArgs  # noqa: PLC0415 - may be missing
    from py_clob_client.headers.headers import create_level_2_headers  # noqa: PLC0415

    made = create_level_2_headers(client.signer, client.creds, RequestArgs(method, path))
    return {**made, **changed}


def test_credentials_are_the_same_for_each_wallet_and_nonce(live):
    client = client_of(live, KEYS[0], login=False)
    first = client.create_api_key()
    assert client.derive_api_key() == client.create_api_key() == first
    assert client.derive_api_key(0) == first
    others = [client.derive_api_key(7), client_of(live, KEYS[1], login=False).derive_api_key()]
    for other in others:
        assert {other.api_key, other.api_secret, other.api_passphrase}.isdisjoint(
            {first.api_key, first.api_secret, first.api_passphrase}
        )
    assert str(uuid.UUID(first.api_key)) == first.api_key
    assert (
        len(urlsafe_b64decode(first.api_secret)) == len(bytes.fromhex(first.api_passphrase)) == 32
    )


def test_credentials_survive_a_restart_and_deleted_ones_stay_deleted(tmp_path):
    with dialect_server(tmp_path) as live:
        client = client_of(live, KEYS[0])
        deleted = client_of(live, KEYS[0], login=False)
        deleted.set_api_creds(deleted.derive_api_key(5))
        assert deleted.delete_api_key() == "OK"
        assert live.stop() == 0
    assert (tmp_path / "dialect.key").stat().st_mode & 0o777 == 0o600
    with dialect_server(tmp_path) as live:
        again = client_of(live, KEYS[0])
        assert again.creds == client.creds
        assert again.get_api_keys() == {"apiKeys": [client.creds.api_key]}
        deleted.host = live.url
        assert error_of(deleted.get_api_keys)[0] == 401
        status, text = error_of(again.derive_api_key, 5)
        assert (status, text) == (
            401, "the credentials of nonce 5 were deleted; use another nonce"
        )  # fmt: skip


def test_request_signed_with_credentials_is_accepted(live):
    client = client_of(live)
    assert client.get_closed_only_mode() == {"closed_only": False}
    assert client.get_api_keys() == {"apiKeys": [client.creds.api_key]}


@pytest.mark.parametrize(
    "name", ["POLY_ADDRESS", "POLY_SIGNATURE", "POLY_TIMESTAMP", "POLY_API_KEY", "POLY_PASSPHRASE"]
)
def test_missing_header_is_rejected_by_name(live, name):
    headers = headers_of(client_of(live), "GET", "/auth/api-keys")
    del headers[name]
    answer = live.http.get("/auth/api-keys", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, f"the header {name} is missing")


def test_changed_headers_are_rejected(live):
    client, path = client_of(live, KEYS[0]), "/auth/api-keys"
    other = client_of(live, KEYS[1])
    now_s = int(time.time())  # noqa: TID251 - the server uses this clock
    cases = [
        {"POLY_ADDRESS": other.get_address()},
        {"POLY_ADDRESS": ZERO_ADDRESS},
        {"POLY_API_KEY": other.creds.api_key},
        {"POLY_API_KEY": "key"},
        {"POLY_PASSPHRASE": other.creds.api_passphrase},
        {"POLY_PASSPHRASE": "é"},
        {"POLY_SIGNATURE": "é"},
        {"POLY_SIGNATURE": headers_of(other, "GET", path)["POLY_SIGNATURE"]},
        {"POLY_SIGNATURE": headers_of(client, "POST", path)["POLY_SIGNATURE"]},
        {"POLY_SIGNATURE": headers_of(client, "GET", "/order")["POLY_SIGNATURE"]},
        {"POLY_TIMESTAMP": str(now_s - 3)},
        {"POLY_TIMESTAMP": str(now_s - 3_600)},
        {"POLY_TIMESTAMP": "now"},
    ]
    for changed in cases:
        raw = headers_of(client, "GET", path, **changed)
        sent = [(key.encode(), value.encode("latin-1")) for key, value in raw.items()]
        answer = live.http.get(path, headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (401, "INVALID_API_KEY"), changed


def test_wallet_must_sign_for_its_own_address_and_this_chain(live):
    from py_clob_client.headers.headers import create_level_1_headers  # noqa: PLC0415

    client, other = client_of(live, KEYS[0]), client_of(live, KEYS[1])
    for signer, changed in (
        (client.signer, {"POLY_ADDRESS": other.get_address()}),
        (client.signer, {"POLY_NONCE": "1"}),
        (client.signer, {"POLY_NONCE": str(2**48)}),
        (client.signer, {"POLY_NONCE": "-1"}),
        (client.signer, {"POLY_NONCE": "0" * 200 + "9" * 20}),
        (client.signer, {"POLY_SIGNATURE": "0x"}),
        (client.signer, {"POLY_TIMESTAMP": "1"}),
    ):
        headers = {**create_level_1_headers(signer, 0), **changed}
        answer = live.http.get("/auth/derive-api-key", headers=headers)
        assert answer.status_code in (401, 422), changed
        assert answer.json()["code"] in ("INVALID_API_KEY", "INVALID_FIELD")
    client.signer.chain_id = 137
    status, text = error_of(client.derive_api_key)
    assert status == 401
    assert "signature" in text


def test_credentials_of_another_secret_are_unknown():
    first, second = (CredentialStore(bytes([number]) * 32, Registry()) for number in (1, 2))
    made = first.of(ZERO_ADDRESS, 2**48 - 1)
    assert first.find(made.key, made.passphrase) == made
    assert second.find(made.key, made.passphrase) is None
    assert first.find(made.key.upper(), made.passphrase) is None
    assert first.find(made.key, made.passphrase[:-2]) is None
    assert first.find("", "") is None


def test_pages_of_allowed_origins_may_send_the_headers(tmp_path):
    headers = "poly_address, poly_signature, poly_timestamp, poly_nonce, poly_api_key, "
    asking = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"{headers}poly_passphrase, content-type",
    }
    for dialect, status in (("polymarket", 200), ("none", 400)):
        settings = {"dialect": dialect, "cors_origins": ("https://app.example",)}
        if dialect == "none":
            settings |= {"chain_id": 31337}
        with dialect_server(tmp_path / dialect, **settings) as live:
            answer = live.http.options("/order", headers=asking)
            assert answer.status_code == status
