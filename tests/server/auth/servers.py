"""Servers with an operator, and valid and invalid credentials for them."""

import base64
import hashlib
import hmac
import json
import time
from contextlib import contextmanager

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.server.auth.guard_harness import MAKER, OTHER
from tests.server.live import live_server
from tests.signings import EXCHANGE

RSA = rsa.generate_private_key(65537, 2048)
STRANGER = rsa.generate_private_key(65537, 2048)
PEM = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
DOMAIN = {
    "eip712_name": "clob",
    "eip712_version": "1",
    "chain_id": 31337,
    "verifying_contract": EXCHANGE,
}
EVERYTHING = ["read", "trade", "cancel"]


def now_s():
    return int(time.time())  # noqa: TID251 - the server uses this clock


def claims(**more):
    """Return the claims of a token; a claim set to None is left out."""
    values = {"sub": "olga", "scope": "admin", "iat": now_s(), "exp": now_s() + 600, **more}
    return {name: value for name, value in values.items() if value is not None}


def encode_token(header, payload, key, digest=hashlib.sha256):
    """Return a token with any header, which libraries would reject."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (header, payload))
    signed = b".".join(part.rstrip(b"=") for part in parts)
    mac = hmac.new(key, signed, digest).digest() if key else b""
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


class OperatedServer:
    """A server, its operator, and credentials of clients."""

    def __init__(self, live, environment, secret):
        self.live = live
        self.http = live.http
        self.environment = environment
        self._secret = secret
        self.operator = {"Authorization": f"Bearer {self.token()}"}

    def token(self, **more):
        """Return a token that is valid except for the given claims."""
        if self._secret is None:
            return jwt.encode(claims(**more), RSA, algorithm="RS256")
        return jwt.encode(claims(**more), self._secret, algorithm="HS256")

    def token_of_other_algorithm(self):
        """Return a token signed with the right key and a longer hash."""
        if self._secret is None:
            return jwt.encode(claims(), RSA, algorithm="RS384")
        return encode_token({"alg": "HS384", "typ": "JWT"}, claims(), self._secret, hashlib.sha384)

    def forged_token(self):
        """Return a token signed with the public key as a secret, or by another signer."""
        if self._secret is None:
            return encode_token({"alg": "HS256", "typ": "JWT"}, claims(), PEM)
        return jwt.encode(claims(), STRANGER, algorithm="RS256")

    def key(self, **fields):
        """Create a key; return the response of the operator route."""
        body = {"name": "k", "scopes": EVERYTHING, "makers": [MAKER], **fields}
        answer = self.http.post("/api/admin/keys", json=body, headers=self.operator)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def open_market(self, name):
        """Open a market with the tokens 1 and 2."""
        body = {"marketId": name, "yesTokenId": "1", "noTokenId": "2"}
        answer = self.http.post("/api/admin/markets", json=body, headers=self.operator)
        assert answer.status_code == 200, answer.text

    def deactivated_key(self):
        """Return a deactivated key."""
        created = self.key()
        path = f"/api/admin/keys/{created['keyId']}"
        assert self.http.delete(path, headers=self.operator).status_code == 200
        return created["key"]

    def credentials(self):
        """Return request headers by the name of the credential."""
        keys = {
            "a bad key": "clob_" + "0" * 12 + "_" + "0" * 64,
            "a deactivated key": self.deactivated_key(),
            "a key of another maker": self.key(makers=[OTHER])["key"],
            "the right key": self.key()["key"],
            "a key without read": self.key(scopes=["trade", "cancel"])["key"],
            "a key without trade": self.key(scopes=["read", "cancel"])["key"],
            "a key without cancel": self.key(scopes=["read", "trade"])["key"],
        }
        tokens = {
            "the right token": self.token(),
            "an expired token": self.token(iat=now_s() - 900, exp=now_s() - 300),
            "a token of another algorithm": self.token_of_other_algorithm(),
            "an unsigned token": encode_token({"alg": "none"}, claims(), None),
            "a token of a confused algorithm": self.forged_token(),
            "a token of another scope": self.token(scope="reader administrator"),
            "a token for metrics": self.token(scope="metrics"),
            "a token without exp": self.token(exp=None),
        }
        return {
            "nothing": {},
            **{name: {"X-API-Key": key} for name, key in keys.items()},
            **{name: {"Authorization": f"Bearer {text}"} for name, text in tokens.items()},
            "a password": {"Authorization": "Basic b2xnYTpvbGdh"},
        }


@contextmanager
def operated_server(folder, environment, **settings):
    """Run a server with operator tokens: HS256 in the test environment, RS256 in production."""
    data = folder / environment
    if environment == "production":
        (folder / "operators.pem").write_bytes(PEM)
        settings = {**DOMAIN, "jwt_public_key_file": folder / "operators.pem", **settings}
    with live_server(data, environment=environment, **settings) as live:
        yield OperatedServer(live, environment, token_secret(data, environment, settings))


def token_secret(data, environment, settings):
    """Return the secret that signs tokens; None if a private key does."""
    if environment == "production":
        return None
    configured = settings.get("jwt_secret", "").encode()
    return configured or (data / "tokens.key").read_bytes()
