"""Authentication of requests: headers that a wallet signed (L1), or its credentials (L2).

Both have a timestamp in Unix seconds, at most a minute from the server's time.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import ClassVar, Final

from clob import RejectedError
from clob.signing import Domain, Field, Schema, Signed, fields, verify
from clob.signing.fields import received
from clob.signing.schema import Written
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.core.commands import DeactivateCredentials
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.credentials import NONCE_MAX, Credentials
from clob_server.http.server import Request

WINDOW_S: Final = 60
"""Largest distance of a timestamp from the server's time."""
STATEMENT: Final = "This message attests that I control the given wallet"
"""The message that a wallet signs."""
HEADERS: Final = (
    *("POLY_ADDRESS", "POLY_SIGNATURE", "POLY_TIMESTAMP"),
    *("POLY_NONCE", "POLY_API_KEY", "POLY_PASSPHRASE"),
)
"""The headers of both ways."""

_ADDRESS: Final = b"poly_address"
_SIGNATURE: Final = b"poly_signature"
_TIMESTAMP: Final = b"poly_timestamp"
_NONCE: Final = b"poly_nonce"
_KEY: Final = b"poly_api_key"
_PASSPHRASE: Final = b"poly_passphrase"


class ClobAuth(Signed, frozen=True, kw_only=True, gc=False):
    """The struct that a wallet signs to derive its credentials."""

    SCHEMA: ClassVar[Schema] = Schema(
        "ClobAuth",
        (
            Field("address", "address", "address", fields.address, Written.AS_IT_IS),
            Field("timestamp", "string", "timestamp", fields.text, Written.AS_IT_IS),
            Field("nonce", "uint256", "nonce"),
            Field("message", "string", "message", fields.text, Written.AS_IT_IS),
        ),
        owner="address",
    )

    address: str
    """The wallet."""
    timestamp: str
    """Time of signing, Unix seconds in decimal digits."""
    nonce: int
    """Number of the credentials."""
    message: str = STATEMENT


def auth_domain(chain_id: int) -> Domain:
    """Return the EIP-712 domain of :class:`ClobAuth`."""
    return Domain("ClobAuthDomain", "1", chain_id)


# ----- headers -------------------------------------------------------------------------------


def authenticated(polymarket: Polymarket, call: Request) -> Credentials:
    """Return the credentials that a request was signed with (L2).

    The signature is the HMAC of timestamp, method, path and body under the secret.

    Raises:
        ApiError: API_KEY_REQUIRED, a header is missing; INVALID_API_KEY.
    """
    address, key, passphrase = (header(call, name) for name in (_ADDRESS, _KEY, _PASSPHRASE))
    signature, timestamp = header(call, _SIGNATURE), read_timestamp(polymarket, call)
    credentials = polymarket.credentials.find(key, passphrase)
    if credentials is None or address.lower() != credentials.address.lower():
        raise invalid("POLY_API_KEY and POLY_PASSPHRASE are no active credentials of POLY_ADDRESS")
    path: str = call.scope["path"]
    message = f"{timestamp}{call.scope['method']}{path}".encode() + call.body
    if not hmac.compare_digest(hmac_of(credentials.secret, message), signature.encode()):
        raise invalid(
            "POLY_SIGNATURE must be the HMAC-SHA256 of POLY_TIMESTAMP, method, path and body under "
            "the secret, in base64 for URLs"
        )
    return credentials


def hmac_of(secret: str, message: bytes) -> bytes:
    """Return the signature of a request."""
    return urlsafe_b64encode(hmac.digest(urlsafe_b64decode(secret), message, hashlib.sha256))


def signed_wallet(polymarket: Polymarket, call: Request) -> Credentials:
    """Return the credentials of the wallet that signed the headers (L1).

    Raises:
        ApiError: API_KEY_REQUIRED, a header is missing; INVALID_API_KEY, the wallet did not sign,
            or the credentials were deactivated; INVALID_FIELD, the nonce is too large.
    """
    timestamp, nonce = read_timestamp(polymarket, call), header(call, _NONCE)
    is_number = nonce.isascii() and nonce.isdigit() and len(nonce) <= len(str(NONCE_MAX))
    if not is_number or int(nonce) > NONCE_MAX:
        rule = f"POLY_NONCE must be an integer from 0 to {NONCE_MAX}; got {received(nonce[:99])}"
        raise ApiError("INVALID_FIELD", rule)
    try:
        address = fields.address("POLY_ADDRESS", header(call, _ADDRESS))
        auth = ClobAuth(
            address=address,
            timestamp=timestamp,
            nonce=int(nonce),
            signature=header(call, _SIGNATURE),
        )
        verify(auth, auth_domain(polymarket.server.settings.chain_id))
    except RejectedError as error:
        raise invalid(str(error)) from None
    credentials = polymarket.credentials.of(address, int(nonce))
    if not polymarket.credentials.is_active(credentials):
        raise invalid(f"the credentials of nonce {nonce} were deleted; use another nonce")
    return credentials


def read_timestamp(polymarket: Polymarket, call: Request) -> str:
    """Return the timestamp of the headers, checked against the server's time."""
    text, now_s = header(call, _TIMESTAMP), polymarket.server.clock_ms() // 1000
    if not (text.isascii() and text.isdigit()) or abs(int(text[:99]) - now_s) > WINDOW_S:
        raise invalid(
            f"POLY_TIMESTAMP must be Unix seconds within {WINDOW_S} s of {now_s}; "
            f"got {received(text[:99])}"
        )
    return text


def header(call: Request, name: bytes) -> str:
    """Return a header.

    Raises:
        ApiError: API_KEY_REQUIRED, it is missing.
    """
    value = call.headers.get(name)
    if not value:
        raise ApiError("API_KEY_REQUIRED", f"the header {name.decode().upper()} is missing")
    return value.decode("latin-1")


def invalid(reason: str) -> ApiError:
    """Return the rejection of headers."""
    return ApiError("INVALID_API_KEY", reason)


# ----- routes --------------------------------------------------------------------------------


def api_key(polymarket: Polymarket, call: Request) -> Reply:
    """Return the credentials of a wallet; creating and deriving them are the same."""
    return reply(signed_wallet(polymarket, call).to_json())


def api_keys(polymarket: Polymarket, call: Request) -> Reply:
    """List the key of the request: others are derived, and not stored."""
    return reply({"apiKeys": [authenticated(polymarket, call).key]})


async def delete_api_key(polymarket: Polymarket, call: Request) -> Reply:
    """Deactivate the credentials of the request."""
    credentials = authenticated(polymarket, call)
    await polymarket.server.sequencer.submit(
        lambda now_ms: DeactivateCredentials(
            address=credentials.address, nonce=credentials.nonce, now_ms=now_ms
        )
    )
    return reply("OK")


def closed_only(polymarket: Polymarket, call: Request) -> Reply:
    """Return that the wallet may open positions."""
    authenticated(polymarket, call)
    return reply({"closed_only": False})
