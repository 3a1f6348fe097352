"""The backend for hashing and recovery: compiled with libsecp256k1, or plain Python.

The compiled one is used if it recovers known signatures; :data:`BACKEND` names the choice.
"""

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from clob.signing import _secp_py
from clob.signing.errors import Verdict
from clob.signing.keccak import EMPTY_HASH


def is_correct(backend: Any) -> bool:
    """Return whether a backend hashes and recovers correctly and rejects an invalid signature."""
    if not all(hasattr(backend, name) for name in _secp_py.__all__):
        return False
    if backend.keccak256(b"").hex() != EMPTY_HASH:
        return False
    for digest, signature, signer in _secp_py.KNOWN:
        off_curve = f"0x{_secp_py.OFF_CURVE.hex()}{signature[66:]}"
        if backend.recover(bytes.fromhex(digest), off_curve) != Verdict.NOT_RECOVERABLE:
            return False
        address = backend.recover(bytes.fromhex(digest), signature)
        if not isinstance(address, bytes) or address.hex() != signer:
            return False
    return True


def choose_backend() -> Any:
    """Return the fastest backend that is correct."""
    if os.environ.get("CLOB_PURE_PYTHON") != "1":
        try:
            compiled = importlib.import_module("clob.signing._secp_c")
            if is_correct(compiled):
                return compiled
        except (ImportError, AttributeError):
            pass  # not built, or coincurve is missing or incompatible
    if _secp_py.BACKEND == "eth_keys":
        warnings.warn(
            "clob: coincurve is not available; signatures are verified in plain Python, a hundred "
            "times slower",
            RuntimeWarning,
            stacklevel=2,
        )
    return _secp_py


if TYPE_CHECKING:
    from clob.signing._secp_py import *  # noqa: F403 - the backends have the same names
else:
    _backend = choose_backend()
    globals().update({name: getattr(_backend, name) for name in _secp_py.__all__})
