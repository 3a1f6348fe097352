"""Chooses who hashes and recovers: compiled over libsecp256k1, or plain Python.

The choice is made by trying them on known signatures, and :data:`BACKEND` tells it.
"""

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any, Final

from clob.signing import _secp_py
from clob.signing.errors import Verdict

EMPTY_HASH: Final = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
"""The Keccak-256 of nothing."""


def works(backend: Any) -> bool:
    """Say whether a backend hashes and recovers rightly, and refuses what is no signature."""
    if not all(hasattr(backend, name) for name in _secp_py.__all__):
        return False
    if backend.keccak256(b"").hex() != EMPTY_HASH:
        return False
    for digest, signature, signer in _secp_py.KNOWN:
        off_curve = f"0x{_secp_py.OFF_CURVE.hex()}{signature[66:]}"
        if backend.recover(bytes.fromhex(digest), off_curve) != Verdict.NOT_RECOVERABLE:
            return False
        found = backend.recover(bytes.fromhex(digest), signature)
        if not isinstance(found, bytes) or found.hex() != signer:
            return False
    return True


def chosen() -> Any:
    """Take the fastest backend that works."""
    if os.environ.get("CLOB_PURE_PYTHON") != "1":
        try:
            compiled = importlib.import_module("clob.signing._secp_c")
            if works(compiled):
                return compiled
        except (ImportError, AttributeError):
            pass  # no compiler; no coincurve, or not the one that this was made for
    if _secp_py.BACKEND == "eth_keys":
        warnings.warn(
            "clob: coincurve is not available; signatures are checked in plain Python, a hundred "
            "times slower",
            RuntimeWarning,
            stacklevel=2,
        )
    return _secp_py


if TYPE_CHECKING:
    from clob.signing._secp_py import (
        BACKEND,
        checksummed,
        digest_of,
        hash_struct,
        judge,
        judge_all,
        keccak256,
        personal_digest,
        read,
        recover,
    )
else:
    backend = chosen()
    BACKEND = backend.BACKEND
    checksummed, keccak256, recover = backend.checksummed, backend.keccak256, backend.recover
    read, hash_struct, digest_of = backend.read, backend.hash_struct, backend.digest_of
    personal_digest, judge, judge_all = backend.personal_digest, backend.judge, backend.judge_all

__all__ = [
    "BACKEND",
    "checksummed",
    "digest_of",
    "hash_struct",
    "judge",
    "judge_all",
    "keccak256",
    "personal_digest",
    "read",
    "recover",
]
