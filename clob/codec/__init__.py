"""Chooses the codec of the canonical bytes: the compiled one, or the plain-Python twin.

What the bytes are stands in :mod:`clob.codec.layout`.
"""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clob.codec._codec_py import decode, encode, encode_all, read, split, write

    CODEC_COMPILED: bool
elif os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.codec._codec_py import decode, encode, encode_all, read, split, write

    CODEC_COMPILED: Final = False
else:
    try:
        from clob.codec._codec_c import decode, encode, encode_all, read, split, write

        CODEC_COMPILED: Final = True
    except ImportError:  # clob.book says so already
        from clob.codec._codec_py import decode, encode, encode_all, read, split, write

        CODEC_COMPILED: Final = False

__all__ = ["CODEC_COMPILED", "decode", "encode", "encode_all", "read", "split", "write"]
