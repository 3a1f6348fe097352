"""API keys: how one is made, how it is written, and how the one that was sent is recognised.

``clob_{id}_{secret}``: 12 and 64 hexadecimal digits, so that scanners of secrets find a lost one.
The secret is shown once; what is kept is the SHA-256 of the whole.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clob_server.core.commands import ApiKey
from clob_server.core.ids import KEY_BYTES

HEADER: Final = b"x-api-key"
"""The header that a key is sent in."""
ID_BYTES: Final = 6
"""How many random bytes an id has."""
SECRET_BYTES: Final = 32
"""How many random bytes a secret has."""
NAME_MAX: Final = 100
"""How long the name of a key may be."""

_BEGIN: Final = "clob_"
_ID: Final = slice(len(_BEGIN), len(_BEGIN) + 2 * ID_BYTES)
_LENGTH: Final = len(_BEGIN) + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES
_NOBODY: Final = bytes(32)


def new_key() -> tuple[str, str, bytes]:
    """Draw a key.

    Returns:
        Its id, the whole key, and the hash that is kept of it.
    """
    key_id = secrets.token_hex(ID_BYTES)
    whole = f"{_BEGIN}{key_id}_{secrets.token_hex(SECRET_BYTES)}"
    return key_id, whole, hash_of(whole.encode())


def hash_of(whole: bytes) -> bytes:
    """Give what is kept of a key."""
    return hashlib.sha256(whole).digest()


def find_key(sent: bytes, keys: Mapping[str, ApiKey]) -> ApiKey | None:
    """Find the key that was sent, active or not.

    It takes the same steps whether there is a key of that id or not, and compares in constant time.

    Args:
        sent: the whole key.
        keys: the keys there are, by id.
    """
    if len(sent) != _LENGTH:
        return None
    key = keys.get(sent[_ID].decode("latin-1"))
    kept = _NOBODY if key is None else key.hash
    return key if hmac.compare_digest(hash_of(sent), kept) else None


IDS: Final = "ids.key"
"""The file of the key that ids are drawn with."""
TOKENS: Final = "tokens.key"
"""The file of the secret that tokens are signed with, where the settings have none."""
MODE: Final = 0o600
"""Who may read them."""


def secret(folder: Path, name: str, num_bytes: int = KEY_BYTES) -> bytes:
    """Give a secret, made and synced to disk if it is not there.

    Args:
        folder: the data folder.
        name: the file.
        num_bytes: how long it is.

    Raises:
        OSError: it can neither be read nor made.
        ValueError: what is in the file has another length.
    """
    path = folder / name
    if not path.exists():
        aside = path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as file:
            file.write(secrets.token_bytes(num_bytes))
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    found = path.read_bytes()
    if len(found) != num_bytes:
        raise ValueError(f"{path} must have {num_bytes} bytes, not {len(found)}")
    return found


# MERGED clob_server.auth.api_keys: The secrets in the data folder: made at the first start, readable by their owner alone.
