"""Operators' tokens: JWTs with a subject, a scope and an end, signed by exactly one algorithm.

HS256 with a secret, or RS256 or ES256 with a public key. Which one it is follows from the settings,
never from the token.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from clob_server.api.problems import ApiError, Headers
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.settings import Settings, SettingsError

CLAIMS: Final = ["sub", "exp", "iat", "scope"]
"""What every token states."""
LEEWAY_S: Final = 5
"""How far the clock of who made a token may be from ours."""
TTL_S: Final = 3_600
"""How long a token is good, unless it is asked for otherwise."""
KNOWN_MAX: Final = 256
"""How many tokens are remembered as verified."""
RSA_BITS_MIN: Final = 2_048
"""How long an RSA key must be."""
CHALLENGE: Final[Headers] = ((b"www-authenticate", b'Bearer realm="clob"'),)
"""What a refusal asks for."""


class Claims(NamedTuple):
    """What a token states."""

    sub: str
    """Whose it is."""
    scopes: frozenset[str]
    """What it is good for."""
    exp_s: int
    """When it ends, Unix seconds."""


class TokenVerifier:
    """Reads tokens, each verified once.

    Args:
        key: the secret, or the public key.
        algorithm: the only one that is accepted.
        clock_ms: tells the time, Unix milliseconds.
    """

    def __init__(self, key: Any, algorithm: str, clock_ms: Callable[[], int]) -> None:
        self._key = key
        self._algorithms = [algorithm]
        self._clock_ms = clock_ms
        self._known: OrderedDict[bytes, Claims] = OrderedDict()

    def read(self, token: bytes) -> Claims:
        """Read a token.

        Raises:
            ApiError: INVALID_TOKEN, it is not signed as it must be, states too little, or has
                ended.
        """
        digest = hashlib.sha256(token).digest()
        claims = self._known.get(digest)
        if claims is None:
            claims = self._known[digest] = self._verify(token)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        if self._clock_ms() >= (claims.exp_s + LEEWAY_S) * 1000:
            del self._known[digest]
            raise invalid("Signature has expired")
        return claims

    def _verify(self, token: bytes) -> Claims:
        """Verify a token."""
        try:
            found = jwt.decode(
                token,
                self._key,
                algorithms=self._algorithms,
                options={"require": CLAIMS},
                leeway=LEEWAY_S,
            )
        except jwt.PyJWTError as error:
            raise invalid(str(error)) from None
        exp_s, scope = found["exp"], found["scope"]
        if type(exp_s) is not int or type(found["iat"]) is not int:
            raise invalid("exp and iat must be integers")
        if type(scope) is not str:
            raise invalid("scope must be words with spaces between them")
        return Claims(found["sub"], frozenset(scope.split()), exp_s)


def tokens_of(settings: Settings, folder: Path, clock_ms: Callable[[], int]) -> TokenVerifier:
    """Make what reads the tokens of a server.

    Args:
        settings: how it is run.
        folder: its data folder, where the secret is made if the settings have no key.
        clock_ms: tells the time, Unix milliseconds.

    Raises:
        SettingsError: the public key cannot be used.
        OSError, ValueError: the secret cannot.
    """
    if settings.jwt_public_key_file:
        return TokenVerifier(*public_key(settings.jwt_public_key_file), clock_ms)
    key = settings.jwt_secret.encode() or secret(folder, TOKENS)
    return TokenVerifier(key, "HS256", clock_ms)


def public_key(file: str) -> tuple[RSAPublicKey | EllipticCurvePublicKey, str]:
    """Read the public key of tokens, and give the algorithm that belongs to it.

    Raises:
        SettingsError: it cannot be read, or is neither RSA nor P-256.
    """
    try:
        found = load_pem_public_key(Path(file).read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"--jwt-public-key-file {file}: {error}") from None
    if isinstance(found, RSAPublicKey) and found.key_size >= RSA_BITS_MIN:
        return found, "RS256"
    if isinstance(found, EllipticCurvePublicKey) and isinstance(found.curve, SECP256R1):
        return found, "ES256"
    raise SettingsError(
        f"--jwt-public-key-file {file} must be RSA of {RSA_BITS_MIN} bits or more, or P-256"
    )


def mint(key: bytes, sub: str, scope: str, now_s: int, ttl_s: int = TTL_S) -> str:
    """Make a token.

    Args:
        key: the secret.
        sub: whose it is.
        scope: what it is good for, words with spaces between them.
        now_s: the time, Unix seconds.
        ttl_s: how long it is good.
    """
    claims = {"sub": sub, "scope": scope, "iat": now_s, "exp": now_s + ttl_s}
    return jwt.encode(claims, key, algorithm="HS256")


def invalid(why: str) -> ApiError:
    """Refuse a token."""
    return ApiError("INVALID_TOKEN", f"the token is not valid: {why}", headers=CHALLENGE)
