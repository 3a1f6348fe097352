"""Reads JSON lines: an object or an array of objects per line."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

from clob.replay.io.files import FilePath, Progress, line_blocks
from clob.replay.io.problems import Problems
from clob.replay.io.text import excerpt

Message: TypeAlias = dict[str, Any]
"""An object. Numbers with a decimal point are strings, so that none is rounded."""


def _reject_constant(word: str) -> NoReturn:
    """Reject constants that JSON does not have, such as ``NaN``."""
    raise ValueError(word)


DECODER = json.JSONDecoder(parse_float=str, parse_constant=_reject_constant)
"""Built once: building a decoder takes longer than decoding a line."""

HEARTBEATS = (b"PING", b"PONG")
"""Lines that only kept a connection open."""

BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by readers for a message of the wrong shape."""


def messages(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Message]]:
    """Read a file object by object.

    Args:
        path: the file, compressed or not.
        problems: receives lines that are not JSON or not objects.
        progress: counts every byte read from the disk.

    Yields:
        The number of the line, counted from 1, and the object.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: its compression needs a package that is not installed.
        ReplayFormatError: a line is malformed and the policy is ``"raise"``.
    """
    for first, block in line_blocks(path, problems, progress):
        rows = block.splitlines()
        for line, text in enumerate(rows, first):
            if not text.strip() or text.strip() in HEARTBEATS:
                continue
            try:
                value = DECODER.decode(text.decode("utf-8-sig"))
                objects = value if isinstance(value, list) else [value]
                if not all(isinstance(each, dict) for each in objects):
                    raise ValueError("expected objects")
            except (ValueError, RecursionError):
                cut = line == first + len(rows) - 1 and not block.endswith(b"\n")
                kind = "truncated line" if cut else "unreadable line"
                problems.report(kind, excerpt(text), path, line)
                continue
            for each in objects:
                yield line, each
