"""Codec of canonical bytes: the compiled implementation, or its pure-Python twin.

The format is documented in :mod:`clob.codec.layout`.
"""

import os
from typing import TYPE_CHECKING

from clob.codec._codec_py import decode, encode, encode_all, read, split, write

CODEC_COMPILED: bool = False

if not TYPE_CHECKING and os.environ.get("CLOB_PURE_PYTHON") != "1":
    try:
        from clob.codec._codec_c import decode, encode, encode_all, read, split, write

        CODEC_COMPILED = True
    except ImportError:  # clob.book warns about it
        pass

__all__ = ["CODEC_COMPILED", "decode", "encode", "encode_all", "read", "split", "write"]
