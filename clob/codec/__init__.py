"""Codec of canonical bytes: the compiled implementation, or its pure-Python twin.

The format is documented in :mod:`clob.codec.layout`.
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
    except ImportError:  # clob.book warns about it
        from clob.codec._codec_py import decode, encode, encode_all, read, split, write

        CODEC_COMPILED: Final = False

__all__ = ["CODEC_COMPILED", "decode", "encode", "encode_all", "read", "split", "write"]
