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
    raise ValueError(word)  # JSON has no constants such as NaN


DECODER = json.JSONDecoder(parse_float=str, parse_constant=_reject_constant)
"""Built once: building a decoder takes longer than decoding a line."""

HEARTBEATS = (b"PING", b"PONG")
"""Lines that only kept a connection open."""

BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by readers for a message of the wrong shape."""


def messages(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Message]]:
    """Read a file object by object, each with the number of its line, counted from 1.

    Lines that are not JSON, or not objects, are reported. Raises the errors of
    :func:`~clob.replay.io.files.line_blocks`.
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
