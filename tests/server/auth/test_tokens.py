"""Tokens: what each must state, the one algorithm that is accepted, and that they end."""

import base64
import hashlib
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from clob_server.api.problems import ApiError
from clob_server.auth.tokens import KNOWN_MAX, LEEWAY_S, TokenVerifier, mint, public_key, tokens_of
from clob_server.settings import Settings, SettingsError

SECRET = b"s" * 32
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(private):
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def now_s():
    return int(time.time())  # noqa: TID251 - that of the library


def claims(**more):
    stated = {"sub": "olga", "scope": "admin", "iat": now_s(), "exp": now_s() + 600, **more}
    return {name: value for name, value in stated.items() if value is not None}


def by_hand(header, stated, key):
    """A token as no library would make it."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, stated)
    ]
    signed = b".".join(parts)
    mac = hmac.new(key, signed, hashlib.sha256).digest() if key else b""
    return signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")


def reader(key=SECRET, algorithm="HS256", clock_ms=lambda: now_s() * 1000):
    return TokenVerifier(key, algorithm, clock_ms)


def refused(tokens, token):
    with pytest.raises(ApiError) as caught:
        tokens.read(token if isinstance(token, bytes) else token.encode())
    assert caught.value.code == "INVALID_TOKEN"
    assert dict(caught.value.headers)[b"www-authenticate"].startswith(b"Bearer")
    return str(caught.value)


def test_a_token_that_was_minted_is_read():
    found = reader().read(mint(SECRET, "olga", "admin more", now_s(), 60).encode())
    assert (found.sub, found.scopes) == ("olga", {"admin", "more"})
    assert 55 <= found.exp_s - now_s() <= 60


@pytest.mark.parametrize("claim", ["sub", "scope", "iat", "exp"])
def test_every_claim_is_required(claim):
    assert claim in refused(reader(), jwt.encode(claims(**{claim: None}), SECRET))


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": "x"},
        {"exp": 9e99},
        {"exp": str(2**40)},
        {"iat": 1.5},
        {"iat": 2**40},
        {"nbf": 2**40},
        {"sub": 7},
        {"scope": ["admin"]},
        {"scope": 7},
        {"aud": "another server"},
    ],
    ids=str,
)
def test_a_claim_of_another_kind_is_refused(wrong):
    refused(reader(), by_hand({"alg": "HS256", "typ": "JWT"}, claims(**wrong), SECRET))


def test_a_token_that_has_ended_is_refused():
    refused(reader(), mint(SECRET, "olga", "admin", now_s() - 3600, 3600 - LEEWAY_S - 1))


def test_a_token_that_was_verified_ends_all_the_same():
    clock = [now_s() * 1000]
    tokens = reader(clock_ms=lambda: clock[0])
    token = mint(SECRET, "olga", "admin", now_s(), 600).encode()
    end_ms = (tokens.read(token).exp_s + LEEWAY_S) * 1000
    clock[0] = end_ms - 1
    tokens.read(token)
    clock[0] = end_ms
    refused(tokens, token)


def test_a_token_is_verified_once(monkeypatch):
    tokens, token = reader(), mint(SECRET, "olga", "admin", now_s(), 600).encode()
    first = tokens.read(token)
    monkeypatch.setattr(jwt, "decode", None)
    assert tokens.read(token) is first


def test_no_more_tokens_are_remembered_than_a_bound():
    tokens = reader()
    for number in range(KNOWN_MAX + 10):
        tokens.read(mint(SECRET, str(number), "admin", now_s(), 600).encode())
    assert len(tokens._known) == KNOWN_MAX


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_with_the_right_secret_is_refused(algorithm):
    refused(reader(), jwt.encode(claims(), SECRET * 2, algorithm=algorithm))
    stated = claims()
    assert reader(SECRET * 2).read(jwt.encode(stated, SECRET * 2).encode()).sub == "olga"


@pytest.mark.parametrize("name", ["none", "None", "NONE", ""])
def test_a_token_that_nobody_signed_is_refused(name):
    refused(reader(), by_hand({"alg": name, "typ": "JWT"}, claims(), None))
    refused(reader(), by_hand({"alg": name, "typ": "JWT"}, claims(), SECRET))


def test_a_token_with_another_secret_or_a_changed_claim_is_refused():
    refused(reader(), mint(b"t" * 32, "olga", "admin", now_s(), 60))
    header, _, signature = mint(SECRET, "olga", "admin", now_s(), 60).split(".")
    _, stated, _ = mint(SECRET, "otto", "admin", now_s(), 60).split(".")
    refused(reader(), f"{header}.{stated}.{signature}")


@pytest.mark.parametrize("token", [b"", b".", b"..", b"a.b.c", b"\xff\xfe", b"x" * 10_000])
def test_what_is_no_token_is_refused(token):
    refused(reader(), token)


@pytest.mark.parametrize(("private", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_a_public_key_stands_for_one_algorithm(tmp_path, private, algorithm):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(private))
    settings = Settings(jwt_public_key_file=str(file))
    tokens = tokens_of(settings, tmp_path, lambda: now_s() * 1000)
    assert tokens.read(jwt.encode(claims(), private, algorithm=algorithm).encode()).sub == "olga"
    assert not (tmp_path / "tokens.key").exists()
    # The public key is no secret: as one of HS256 it would let anybody in.
    refused(tokens, by_hand({"alg": "HS256", "typ": "JWT"}, claims(), pem(private)))
    refused(tokens, by_hand({"alg": "none"}, claims(), None))
    if private is RSA:
        refused(tokens, jwt.encode(claims(), private, algorithm="RS512"))
        refused(tokens, jwt.encode(claims(), private, algorithm="PS256"))
        refused(tokens, jwt.encode(claims(), EC, algorithm="ES256"))


def test_a_key_that_is_named_in_the_token_is_not_looked_for(tmp_path):
    other = rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(pem(RSA))
    tokens = tokens_of(Settings(jwt_public_key_file=str(file)), tmp_path, lambda: now_s() * 1000)
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(other.public_key()))
    headers = {"jwk": jwk, "kid": "../../dev/null", "jku": "http://127.0.0.1:1/"}
    refused(tokens, jwt.encode(claims(), other, algorithm="RS256", headers=headers))


@pytest.mark.parametrize(
    "private",
    [
        rsa.generate_private_key(65537, 1024),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["rsa 1024", "p-384", "ed25519"],
)
def test_a_public_key_of_another_kind_is_refused_at_the_start(tmp_path, private):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(private))
    with pytest.raises(SettingsError, match="P-256"):
        public_key(str(file))


def test_a_public_key_that_is_none_is_refused_at_the_start(tmp_path):
    (tmp_path / "key.pem").write_text("no key")
    for name in ("key.pem", "missing.pem"):
        with pytest.raises(SettingsError, match="jwt-public-key-file"):
            public_key(str(tmp_path / name))


def test_the_secret_of_the_settings_wins_over_the_one_of_the_folder(tmp_path):
    given = tokens_of(Settings(jwt_secret="g" * 32), tmp_path, lambda: now_s() * 1000)
    token = mint(b"g" * 32, "olga", "admin", now_s(), 60).encode()
    assert given.read(token).sub == "olga"
    refused(tokens_of(Settings(), tmp_path, lambda: now_s() * 1000), token)
    made = (tmp_path / "tokens.key").read_bytes()
    again = tokens_of(Settings(), tmp_path, lambda: now_s() * 1000)
    assert again.read(mint(made, "otto", "admin", now_s(), 60).encode()).sub == "otto"
