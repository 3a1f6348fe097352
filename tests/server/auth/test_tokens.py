"""Tokens: required claims, the accepted algorithm, and expiry."""

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
from clob_server.auth.tokens import (
    KNOWN_MAX,
    LEEWAY_S,
    TTL_MAX_S,
    TokenVerifier,
    mint,
    public_key,
    tokens_of,
)
from clob_server.settings import Settings, SettingsError

SECRET = b"s" * 32
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(private):
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def now_s():
    return int(time.time())  # noqa: TID251 - the library uses this clock


def claims(**more):
    values = {"sub": "olga", "scope": "admin", "iat": now_s(), "exp": now_s() + 600, **more}
    return {name: value for name, value in values.items() if value is not None}


def encode_token(header, payload, key):
    """Return a token with any header, which libraries would reject."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, payload)
    ]
    signed = b".".join(parts)
    mac = hmac.new(key, signed, hashlib.sha256).digest() if key else b""
    return signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")


def reader(key=SECRET, algorithm="HS256", clock_ms=lambda: now_s() * 1000):
    return TokenVerifier(key, algorithm, clock_ms)


def rejected(tokens, token):
    with pytest.raises(ApiError) as caught:
        tokens.read(token if isinstance(token, bytes) else token.encode())
    assert caught.value.code == "INVALID_TOKEN"
    assert dict(caught.value.headers)[b"www-authenticate"].startswith(b"Bearer")
    return str(caught.value)


def test_minted_token_is_accepted():
    result = reader().read(mint(SECRET, "olga", "admin more", now_s(), 60).encode())
    assert (result.sub, result.scopes) == ("olga", {"admin", "more"})
    assert 55 <= result.exp_s - now_s() <= 60


@pytest.mark.parametrize("claim", ["sub", "scope", "iat", "exp"])
def test_every_claim_is_required(claim):
    assert claim in rejected(reader(), jwt.encode(claims(**{claim: None}), SECRET))


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
def test_invalid_claim_is_rejected(wrong):
    rejected(reader(), encode_token({"alg": "HS256", "typ": "JWT"}, claims(**wrong), SECRET))


def test_expired_token_is_rejected():
    rejected(reader(), mint(SECRET, "olga", "admin", now_s() - 3600, 3600 - LEEWAY_S - 1))


def test_lifetime_has_a_maximum():
    begin = now_s()
    reader().read(jwt.encode(claims(iat=begin, exp=begin + TTL_MAX_S), SECRET).encode())
    text = rejected(reader(), jwt.encode(claims(iat=begin, exp=begin + TTL_MAX_S + 1), SECRET))
    assert f"at most {TTL_MAX_S} s (30 days); exp is {TTL_MAX_S + 1} s after iat" in text
    future = {"iat": begin + 3600, "exp": begin + TTL_MAX_S + 3600}
    rejected(reader(), jwt.encode(claims(**future), SECRET))
    mint(SECRET, "olga", "admin", begin, TTL_MAX_S)
    with pytest.raises(ValueError, match=f"at most {TTL_MAX_S} s"):
        mint(SECRET, "olga", "admin", begin, TTL_MAX_S + 1)


def test_cached_token_expires():
    clock = [now_s() * 1000]
    tokens = reader(clock_ms=lambda: clock[0])
    token = mint(SECRET, "olga", "admin", now_s(), 600).encode()
    end_ms = (tokens.read(token).exp_s + LEEWAY_S) * 1000
    clock[0] = end_ms - 1
    tokens.read(token)
    clock[0] = end_ms
    rejected(tokens, token)


def test_token_is_verified_once(monkeypatch):
    tokens, token = reader(), mint(SECRET, "olga", "admin", now_s(), 600).encode()
    first = tokens.read(token)
    monkeypatch.setattr(jwt, "decode", None)
    assert tokens.read(token) is first


def test_number_of_cached_tokens_is_bounded():
    tokens = reader()
    for number in range(KNOWN_MAX + 10):
        tokens.read(mint(SECRET, str(number), "admin", now_s(), 600).encode())
    assert len(tokens._known) == KNOWN_MAX


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_other_algorithm_with_the_right_secret_is_rejected(algorithm):
    rejected(reader(), jwt.encode(claims(), SECRET * 2, algorithm=algorithm))
    stated = claims()
    assert reader(SECRET * 2).read(jwt.encode(stated, SECRET * 2).encode()).sub == "olga"


@pytest.mark.parametrize("name", ["none", "None", "NONE", ""])
def test_unsigned_token_is_rejected(name):
    rejected(reader(), encode_token({"alg": name, "typ": "JWT"}, claims(), None))
    rejected(reader(), encode_token({"alg": name, "typ": "JWT"}, claims(), SECRET))


def test_token_with_another_secret_or_a_changed_claim_is_rejected():
    rejected(reader(), mint(b"t" * 32, "olga", "admin", now_s(), 60))
    header, _, signature = mint(SECRET, "olga", "admin", now_s(), 60).split(".")
    _, stated, _ = mint(SECRET, "otto", "admin", now_s(), 60).split(".")
    rejected(reader(), f"{header}.{stated}.{signature}")


@pytest.mark.parametrize("token", [b"", b".", b"..", b"a.b.c", b"\xff\xfe", b"x" * 10_000])
def test_malformed_token_is_rejected(token):
    rejected(reader(), token)


@pytest.mark.parametrize(("private", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_public_key_allows_one_algorithm(tmp_path, private, algorithm):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(private))
    settings = Settings(jwt_public_key_file=str(file))
    tokens = tokens_of(settings, tmp_path, lambda: now_s() * 1000)
    assert tokens.read(jwt.encode(claims(), private, algorithm=algorithm).encode()).sub == "olga"
    assert not (tmp_path / "tokens.key").exists()
    # The public key must not work as an HS256 secret.
    rejected(tokens, encode_token({"alg": "HS256", "typ": "JWT"}, claims(), pem(private)))
    rejected(tokens, encode_token({"alg": "none"}, claims(), None))
    if private is RSA:
        rejected(tokens, jwt.encode(claims(), private, algorithm="RS512"))
        rejected(tokens, jwt.encode(claims(), private, algorithm="PS256"))
        rejected(tokens, jwt.encode(claims(), EC, algorithm="ES256"))


def test_key_named_in_the_token_is_ignored(tmp_path):
    other = rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(pem(RSA))
    tokens = tokens_of(Settings(jwt_public_key_file=str(file)), tmp_path, lambda: now_s() * 1000)
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(other.public_key()))
    headers = {"jwk": jwk, "kid": "../../dev/null", "jku": "http://127.0.0.1:1/"}
    rejected(tokens, jwt.encode(claims(), other, algorithm="RS256", headers=headers))


@pytest.mark.parametrize(
    "private",
    [
        rsa.generate_private_key(65537, 1024),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["rsa 1024", "p-384", "ed25519"],
)
def test_unsupported_public_key_is_rejected_at_start(tmp_path, private):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(private))
    with pytest.raises(SettingsError, match="P-256"):
        public_key(str(file))


def test_invalid_public_key_file_is_rejected_at_start(tmp_path):
    (tmp_path / "key.pem").write_text("no key")
    for name in ("key.pem", "missing.pem"):
        with pytest.raises(SettingsError, match="jwt-public-key-file"):
            public_key(str(tmp_path / name))


def test_secret_of_the_settings_overrides_the_generated_one(tmp_path):
    configured = tokens_of(Settings(jwt_secret="g" * 32), tmp_path, lambda: now_s() * 1000)
    token = mint(b"g" * 32, "olga", "admin", now_s(), 60).encode()
    assert configured.read(token).sub == "olga"
    rejected(tokens_of(Settings(), tmp_path, lambda: now_s() * 1000), token)
    made = (tmp_path / "tokens.key").read_bytes()
    generated = tokens_of(Settings(), tmp_path, lambda: now_s() * 1000)
    assert generated.read(mint(made, "otto", "admin", now_s(), 60).encode()).sub == "otto"
