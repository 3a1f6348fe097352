"""The secrets in the data folder: made at the first start, readable by their owner alone."""

import os
import secrets
from pathlib import Path
from typing import Final

from clob_server.ids import KEY_BYTES

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
