"""A fingerprint of all that came of a replay, the same wherever and however it is run.

Each kind of row has a hash of its own, so that it does not matter in which pieces they come; the
digest is the hash of those. Numbers are hashed as little-endian bytes of their width without
padding, exact integers beyond 64 bits as decimal text.
"""

import hashlib
from typing import Any

import numpy as np

from clob.replay.recording import Records

DIGEST_BYTES = 32


class Section:
    """The hash of one kind of row.

    Args:
        name: what the rows are.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        """What the rows are."""
        self.rows: int = 0
        """How many there were."""
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def update(self, rows: Records) -> None:
        """Take in more rows, a structured array."""
        self.rows += len(rows)
        self._hash.update(_canonical(rows))

    def digest(self) -> bytes:
        """Give the hash of the name, the number of rows and all of them."""
        head = f"{self.name} {self.rows} ".encode()
        return hashlib.blake2b(head + self._hash.digest(), digest_size=DIGEST_BYTES).digest()


def combined(sections: list[Section]) -> str:
    """Give the digest of several kinds of rows, in hexadecimal digits. Their order matters."""
    whole = b"".join(section.digest() for section in sections)
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).hexdigest()


def _canonical(rows: Records) -> bytes | memoryview:
    """Write rows as bytes that are the same on every machine."""
    names = rows.dtype.names or ()
    if any(rows.dtype[name].kind in "OU" for name in names):
        return "".join(f"{row}\n" for row in rows.tolist()).encode()
    packed = np.empty(len(rows), [(name, _little(rows.dtype[name])) for name in names])
    for name in names:
        packed[name] = rows[name]
    return packed.view(np.uint8).data


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give a dtype in little-endian order."""
    return dtype.newbyteorder("<")
