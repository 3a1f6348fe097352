"""Frames of any content, their chain hash right: what only a broken writer would write."""

import hashlib
import struct

from clob.journal.frames import ZERO_HASH


def chained(unchained, previous=ZERO_HASH):
    """Put the right chain hash behind whatever is given."""
    return unchained + hashlib.blake2b(previous + unchained, digest_size=32).digest()


def forged(inner, *, magic=b"CLOBFRM", version=2, length=None):
    """A frame of any content, its chain hash right."""
    length = len(inner) + 32 if length is None else length
    return chained(magic + bytes((version,)) + struct.pack("<I", length) + inner)


def commands_of(*raws):
    """Commands as a frame has them, whatever they are."""
    return b"".join(struct.pack("<I", len(raw)) + raw for raw in raws)
