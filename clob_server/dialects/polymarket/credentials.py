"""API credentials that wallets derive: a key, a secret and a passphrase.

They follow from a secret of the server, the wallet and a nonce, so none are stored. The key
contains the nonce and the passphrase the wallet, since a WebSocket sends nothing else.
"""

import hashlib
import hmac
import uuid
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from clob.signing.secp import checksummed
from clob_server.core.registry import Registry

FILE: Final = "dialect.key"
"""File of the server's secret."""
NONCE_MAX: Final = 2**48 - 1
"""Largest nonce of credentials."""

_NONCE_BYTES: Final = 6
_TAG_BYTES: Final = 10
_ADDRESS_BYTES: Final = 20
_PASSPHRASE_BYTES: Final = 32


class Credentials(NamedTuple):
    """Credentials of a wallet."""

    address: str
    """The wallet, in EIP-55 form."""
    nonce: int
    key: str
    """A UUID."""
    secret: str
    """32 bytes in base64 for URLs, the key of the signatures of requests."""
    passphrase: str
    """32 bytes in hex."""

    def to_json(self) -> dict[str, str]:
        """Return the JSON that the clients read."""
        return {"apiKey": self.key, "secret": self.secret, "passphrase": self.passphrase}


class CredentialStore:
    """Derives credentials, and recognises them.

    Args:
        secret: the secret of the server, 32 bytes.
        registry: has the credentials that were deactivated.
    """

    def __init__(self, secret: bytes, registry: Registry) -> None:
        self._secret: Final = secret
        self._registry: Final = registry

    def of(self, address: str, nonce: int) -> Credentials:
        """Return the credentials of a wallet for a nonce, at most :data:`NONCE_MAX`."""
        wallet = bytes.fromhex(address[2:])
        number = nonce.to_bytes(_NONCE_BYTES)
        tag = self._derive(b"key", wallet, number)[:_TAG_BYTES]
        check = self._derive(b"passphrase", wallet, number)[: _PASSPHRASE_BYTES - _ADDRESS_BYTES]
        return Credentials(
            address=address,
            nonce=nonce,
            key=str(uuid.UUID(bytes=tag + number)),
            secret=urlsafe_b64encode(self._derive(b"secret", wallet, number)).decode(),
            passphrase=(wallet + check).hex(),
        )

    def find(self, key: str, passphrase: str) -> Credentials | None:
        """Return the active credentials with this key and passphrase; None if there are none."""
        try:
            nonce = int.from_bytes(uuid.UUID(key).bytes[_TAG_BYTES:])
            wallet = bytes.fromhex(passphrase)[:_ADDRESS_BYTES]
            found = self.of(checksummed(wallet), nonce)
        except ValueError:
            return None
        is_same = hmac.compare_digest(
            (found.key + found.passphrase).encode(), (key + passphrase).encode()
        )
        return found if is_same and self.is_active(found) else None

    def is_active(self, credentials: Credentials) -> bool:
        """Return whether credentials have not been deactivated."""
        pair = (credentials.address, credentials.nonce)
        return pair not in self._registry.deactivated

    def _derive(self, purpose: bytes, wallet: bytes, nonce: bytes) -> bytes:
        """Return 32 bytes for a purpose."""
        return hmac.digest(self._secret, purpose + wallet + nonce, hashlib.sha256)
