"""Compiles what a benchmark has in C or C++, on first use."""

import ctypes
import hashlib
import os
import subprocess
from pathlib import Path

from benchmarks.workload import cache_dir


def compiled(name: str, command: tuple[str, ...], *sources: Path) -> ctypes.CDLL:
    """Give a shared library, compiled if these sources have not been with these flags.

    Args:
        name: what its file begins with.
        command: the compiler and its flags.
        sources: the first is compiled, the others are included by it.
    """
    text = b"".join(path.read_bytes() for path in sources) + " ".join(command).encode()
    path = cache_dir() / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.so")
        subprocess.run([*command, "-o", part, sources[0]], check=True)
        part.replace(path)
    return ctypes.CDLL(str(path))
