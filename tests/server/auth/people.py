"""Who comes to a server in the tests of authority, and what each brings with him."""

import base64
import hashlib
import hmac
import json
import time
from contextlib import contextmanager

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.server.auth.bare import MAKER, OTHER
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
    return int(time.time())  # noqa: TID251 - that of the server


def claims(**more):
    """What a token states; a claim that is None is left out."""
    stated = {"sub": "olga", "scope": "admin", "iat": now_s(), "exp": now_s() + 600, **more}
    return {name: value for name, value in stated.items() if value is not None}


def by_hand(header, stated, key, digest=hashlib.sha256):
    """A token as no library would make it."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (header, stated))
    signed = b".".join(part.rstrip(b"=") for part in parts)
    mac = hmac.new(key, signed, digest).digest() if key else b""
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


class Town:
    """A server and all who come to it."""

    def __init__(self, live, environment, secret):
        self.live = live
        self.http = live.http
        self.environment = environment
        self._secret = secret
        self.operator = {"Authorization": f"Bearer {self.token()}"}

    def token(self, **more):
        """A token, right in all that is not asked for otherwise."""
        if self._secret is None:
            return jwt.encode(claims(**more), RSA, algorithm="RS256")
        return jwt.encode(claims(**more), self._secret, algorithm="HS256")

    def of_another_algorithm(self):
        """A token with the right secret or key, and a longer hash."""
        if self._secret is None:
            return jwt.encode(claims(), RSA, algorithm="RS384")
        return by_hand({"alg": "HS384", "typ": "JWT"}, claims(), self._secret, hashlib.sha384)

    def forged(self):
        """A token that would be right if the public key were a secret, or its signer ours."""
        if self._secret is None:
            return by_hand({"alg": "HS256", "typ": "JWT"}, claims(), PEM)
        return jwt.encode(claims(), STRANGER, algorithm="RS256")

    def key(self, **asked):
        """Have a key made, and give what the operator is told of it."""
        body = {"name": "k", "scopes": EVERYTHING, "makers": [MAKER], **asked}
        answer = self.http.post("/api/admin/keys", json=body, headers=self.operator)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def market(self, name):
        """Have a market opened, with the tokens 1 and 2."""
        body = {"marketId": name, "yesTokenId": "1", "noTokenId": "2"}
        answer = self.http.post("/api/admin/markets", json=body, headers=self.operator)
        assert answer.status_code == 200, answer.text

    def revoked(self):
        """A key that was deactivated."""
        made = self.key()
        gone = self.http.delete(f"/api/admin/keys/{made['keyId']}", headers=self.operator)
        assert gone.status_code == 200
        return made["key"]

    def wallets(self):
        """What people have with them, by what one would call it."""
        keys = {
            "a bad key": "clob_" + "0" * 12 + "_" + "0" * 64,
            "a revoked key": self.revoked(),
            "a key of another maker": self.key(makers=[OTHER])["key"],
            "the right key": self.key()["key"],
            "a key without read": self.key(scopes=["trade", "cancel"])["key"],
            "a key without trade": self.key(scopes=["read", "cancel"])["key"],
            "a key without cancel": self.key(scopes=["read", "trade"])["key"],
        }
        tokens = {
            "the right token": self.token(),
            "an expired token": self.token(iat=now_s() - 900, exp=now_s() - 300),
            "a token of another algorithm": self.of_another_algorithm(),
            "a token that nobody signed": by_hand({"alg": "none"}, claims(), None),
            "a token of a confused algorithm": self.forged(),
            "a token of another scope": self.token(scope="reader administrator"),
            "a token without exp": self.token(exp=None),
        }
        return {
            "nothing": {},
            **{name: {"X-API-Key": key} for name, key in keys.items()},
            **{name: {"Authorization": f"Bearer {text}"} for name, text in tokens.items()},
            "a password": {"Authorization": "Basic b2xnYTpvbGdh"},
        }


@contextmanager
def town(folder, environment, **settings):
    """A server with operators: HS256 in the test environment, RS256 in production."""
    data = folder / environment
    if environment == "production":
        (folder / "operators.pem").write_bytes(PEM)
        settings = {**DOMAIN, "jwt_public_key_file": folder / "operators.pem", **settings}
    with live_server(data, environment=environment, **settings) as live:
        yield Town(live, environment, secret_of(data, environment, settings))


def secret_of(data, environment, settings):
    """What tokens are signed with; None where it is a private key."""
    if environment == "production":
        return None
    given = settings.get("jwt_secret", "").encode()
    return given or (data / "tokens.key").read_bytes()
