"""Compilation of C and C++ sources of the benchmarks, on first use."""

import ctypes
import hashlib
import os
import subprocess
from pathlib import Path

from benchmarks.workload import cache_dir


def compiled(name: str, command: tuple[str, ...], *sources: Path) -> ctypes.CDLL:
    """Return a shared library; compile it unless the cache has it for these sources and flags.

    Args:
        name: prefix of the library's file name.
        command: compiler and flags.
        sources: the file to compile, then the files that it includes.
    """
    text = b"".join(path.read_bytes() for path in sources) + " ".join(command).encode()
    path = cache_dir() / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.so")
        subprocess.run([*command, "-o", part, sources[0]], check=True)
        part.replace(path)
    return ctypes.CDLL(str(path))
