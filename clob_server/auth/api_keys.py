"""API keys, and the secret files in the data folder.

A key is ``clob_{id}_{secret}`` with 12 and 64 hexadecimal digits, a format that secret scanners
can find. It is shown once; the server stores only its SHA-256. The secret files are generated at
the first start, readable by their owner only.
"""

import hashlib
import hmac
import os
import secrets
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from clob_server.core.commands import ApiKey
from clob_server.core.ids import KEY_BYTES
from clob_server.log.files import check_private

HEADER: Final = b"x-api-key"
"""The request header of a key."""
ID_BYTES: Final = 6
"""Random bytes of an id."""
SECRET_BYTES: Final = 32
"""Random bytes of a secret."""
NAME_MAX: Final = 100
"""Maximum length of a key's name."""

IDS: Final = "ids.key"
"""File of the key that generates order and trade ids."""
TOKENS: Final = "tokens.key"
"""File of the secret that signs tokens if the settings have none."""
MODE: Final = 0o600
"""File permissions: owner only."""

_PREFIX: Final = "clob_"
_ID: Final = slice(len(_PREFIX), len(_PREFIX) + 2 * ID_BYTES)
_LENGTH: Final = len(_PREFIX) + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES
_NO_HASH: Final = bytes(32)


def new_key() -> tuple[str, str, bytes]:
    """Generate a key.

    Returns:
        Its id, the whole key, and the hash to store.
    """
    key_id = secrets.token_hex(ID_BYTES)
    whole = f"{_PREFIX}{key_id}_{secrets.token_hex(SECRET_BYTES)}"
    return key_id, whole, hash_of(whole.encode())


def hash_of(whole: bytes) -> bytes:
    """Return the stored hash of a key."""
    return hashlib.sha256(whole).digest()


def find_key(sent: bytes, keys: Mapping[str, ApiKey]) -> ApiKey | None:
    """Return the stored key that matches a sent one, active or not, or None.

    Takes the same steps whether the id exists or not, and compares in constant time.
    """
    if len(sent) != _LENGTH:
        return None
    key = keys.get(sent[_ID].decode("latin-1"))
    kept = _NO_HASH if key is None else key.hash
    return key if hmac.compare_digest(hash_of(sent), kept) else None


def ids_key(folder: Path, count_orders: Callable[[], int]) -> bytes:
    """Read the key that generates ids; it is generated for a log without orders only.

    Args:
        folder: the data folder.
        count_orders: returns the number of orders in its log; called if the file is missing.

    Raises:
        OSError: the file is missing although the log has orders, cannot be read or created, or
            other users may use it.
        ValueError: the file has another length.
    """
    path = folder / IDS
    num_orders = 0 if path.exists() else count_orders()
    if num_orders:
        quoted = shlex.quote(str(path))
        raise FileNotFoundError(
            f"{path} is missing, but the log has {num_orders} orders, and the ids of their trades "
            "follow from it; restore it from a backup of the folder, or accept that all ids "
            "of earlier trades change, with: "
            f"(umask 077; head -c {KEY_BYTES} /dev/urandom > {quoted})"
        )
    return secret(folder, IDS)


def secret(folder: Path, name: str, num_bytes: int = KEY_BYTES) -> bytes:
    """Read a secret file, generating it and syncing it to disk if it does not exist.

    Raises:
        OSError: the file can neither be read nor created, or other users may use it.
        ValueError: the file has another length.
    """
    path = folder / name
    if not path.exists():
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb"
        ) as file:
            file.write(secrets.token_bytes(num_bytes))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    check_private(path)
    raw = path.read_bytes()
    if len(raw) != num_bytes:
        raise ValueError(f"{path} must have {num_bytes} bytes; got {len(raw)}")
    return raw
