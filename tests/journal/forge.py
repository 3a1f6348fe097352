"""Frames with arbitrary content and a valid chain hash, as a broken writer could write them."""

import hashlib
import struct

from clob.journal.frames import ZERO_HASH


def chained(unchained, previous=ZERO_HASH):
    """Append the chain hash to the bytes of a frame."""
    return unchained + hashlib.blake2b(previous + unchained, digest_size=32).digest()


def forged(inner, *, magic=b"CLOBFRM", version=2, length=None):
    """Return a frame with this content and a valid chain hash."""
    length = len(inner) + 32 if length is None else length
    return chained(magic + bytes((version,)) + struct.pack("<I", length) + inner)


def commands_of(*raws):
    """Encode the command section of a frame."""
    return b"".join(struct.pack("<I", len(raw)) + raw for raw in raws)
