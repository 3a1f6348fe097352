"""Tokens of operators: JWTs with a subject, a scope and an expiry, of exactly one algorithm.

The algorithm is HS256 with a secret, or RS256 or ES256 with a public key. The settings determine
it, never the token.
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
"""Required claims."""
LEEWAY_S: Final = 5
"""Tolerated clock difference to the issuer, seconds."""
TTL_S: Final = 3_600
"""Default lifetime of a token, seconds."""
TTL_MAX_S: Final = 30 * 86_400
"""Maximum lifetime of a token, seconds: a lost one cannot be revoked alone."""
KNOWN_MAX: Final = 256
"""Maximum number of verified tokens in the cache."""
RSA_BITS_MIN: Final = 2_048
"""Minimum length of an RSA key."""
LIFETIME: Final = f"the lifetime must be at most {TTL_MAX_S} s ({TTL_MAX_S // 86_400} days)"
"""The rule about the lifetime, as text."""
CHALLENGE: Final[Headers] = ((b"www-authenticate", b'Bearer realm="clob"'),)
"""The challenge of a rejected token."""


class Claims(NamedTuple):
    """Claims of a verified token."""

    sub: str
    """The operator."""
    scopes: frozenset[str]
    exp_s: int
    """Expiry, Unix seconds."""


class TokenVerifier:
    """Verifies tokens and caches the result."""

    def __init__(self, key: Any, algorithm: str, clock_ms: Callable[[], int]) -> None:
        self._key = key
        self._algorithms = [algorithm]
        self._clock_ms = clock_ms
        self._known: OrderedDict[bytes, Claims] = OrderedDict()

    def read(self, token: bytes) -> Claims:
        """Return the claims of a token.

        Raises:
            ApiError: INVALID_TOKEN, the signature is invalid, a claim is missing or invalid, or
                the token has expired, or its lifetime is above TTL_MAX_S.
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
        try:
            decoded = jwt.decode(
                token,
                self._key,
                algorithms=self._algorithms,
                options={"require": CLAIMS},
                leeway=LEEWAY_S,
            )
        except jwt.PyJWTError as error:
            raise invalid(str(error)) from None
        exp_s, scope = decoded["exp"], decoded["scope"]
        if type(exp_s) is not int or type(decoded["iat"]) is not int:
            raise invalid("exp and iat must be integers")
        if exp_s - decoded["iat"] > TTL_MAX_S:  # iat is not in the future
            raise invalid(f"{LIFETIME}; exp is {exp_s - decoded['iat']} s after iat")
        if type(scope) is not str:
            raise invalid("scope must be a string of words separated by spaces")
        return Claims(decoded["sub"], frozenset(scope.split()), exp_s)


def tokens_of(settings: Settings, folder: Path, clock_ms: Callable[[], int]) -> TokenVerifier:
    """Return the token verifier of a server.

    Args:
        settings: the settings of the server.
        folder: its data folder, where a secret is generated if the settings have no key.
        clock_ms: returns the time, Unix milliseconds.

    Raises:
        SettingsError: the public key cannot be used.
        OSError, ValueError: the secret file cannot be used.
    """
    if settings.jwt_public_key_file:
        return TokenVerifier(*public_key(settings.jwt_public_key_file), clock_ms)
    key = settings.jwt_secret.encode() or secret(folder, TOKENS)
    return TokenVerifier(key, "HS256", clock_ms)


def public_key(file: str) -> tuple[RSAPublicKey | EllipticCurvePublicKey, str]:
    """Read a public key; return it with its algorithm.

    Raises:
        SettingsError: the file cannot be read, or is neither RSA nor P-256.
    """
    try:
        key = load_pem_public_key(Path(file).read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"--jwt-public-key-file {file}: {error}") from None
    if isinstance(key, RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
        return key, "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key, "ES256"
    raise SettingsError(
        f"--jwt-public-key-file {file} must be RSA of {RSA_BITS_MIN} bits or more, or P-256"
    )


def mint(key: bytes, sub: str, scope: str, now_s: int, ttl_s: int = TTL_S) -> str:
    """Return a new token, signed with HS256.

    Raises:
        ValueError: the lifetime is above TTL_MAX_S.
    """
    if ttl_s > TTL_MAX_S:
        raise ValueError(f"{LIFETIME}; got {ttl_s}")
    claims = {"sub": sub, "scope": scope, "iat": now_s, "exp": now_s + ttl_s}
    return jwt.encode(claims, key, algorithm="HS256")


def invalid(reason: str) -> ApiError:
    """Return the rejection of a token."""
    return ApiError("INVALID_TOKEN", f"invalid token: {reason}", headers=CHALLENGE)
