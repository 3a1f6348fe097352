"""Reads JSON: an object or an array of objects per line, or objects over several lines."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

from clob.replay.io.files import LINE_BYTES_MAX, FilePath, Progress, line_blocks
from clob.replay.io.problems import Problems
from clob.replay.io.text import excerpt

Message: TypeAlias = dict[str, Any]
"""An object. Numbers with a decimal point are strings, so that none is rounded."""


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(word)  # JSON has no constants such as NaN


DECODER = json.JSONDecoder(parse_float=str, parse_constant=_reject_constant)
"""Built once: building a decoder takes longer than decoding a line."""

PYTHON_WORDS = re.compile(r"values to unpack|invalid literal|digits? for integer|surrogate")
"""In the texts of errors that Python raises, not a reader."""

HEARTBEATS = (b"PING", b"PONG")
"""Lines that only kept a connection open."""

OPENINGS = (b"{", b"[")
"""The first line of objects that are spread over several lines."""

_BETWEEN = re.compile(r"[\s,\[\]]*")
"""Characters between two objects that are spread over several lines."""

BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by readers for a message of the wrong shape."""


def reason_of(error: Exception) -> str:
    """Return one of ``BROKEN`` as a clause about the message.

    >>> reason_of(KeyError("id")), reason_of(ValueError("size must be 0 or more, got -1"))
    ("the field 'id' is missing", 'size must be 0 or more, got -1')
    """
    if isinstance(error, KeyError):
        return f"the field {str(error)[:80]} is missing"
    if isinstance(error, ValueError) and not PYTHON_WORDS.search(str(error)):
        return str(error)
    return "a field has another type or length than in the format"


def messages(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Message]]:
    """Read a file object by object, each with the number of its line, counted from 1.

    The objects are one per line, alone or in arrays, or spread over several lines, as programs
    write them for people. Lines that are not JSON, or not objects, are reported. Raises the errors
    of :func:`~clob.replay.io.files.line_blocks`.
    """
    starts, before = True, b""
    blocks = line_blocks(path, problems, progress)
    for first, block in blocks:
        rows = block.splitlines()
        if starts and next((row for row in rows if row.strip()), b"").strip() in OPENINGS:
            yield from _spread(path, problems, b"".join((block, *(more for _, more in blocks))))
            return
        starts = False
        for line, text in enumerate(rows, first):
            if not text.strip() or text.strip() in HEARTBEATS:
                continue
            if text == before:
                problems.remark("line that repeats the one before")
            before = text
            try:
                value = DECODER.decode(text.decode("utf-8"))
                objects = value if isinstance(value, list) else [value]
                if not all(isinstance(each, dict) for each in objects):
                    raise ValueError("expected objects")
            except (ValueError, RecursionError):
                cut = line == first + len(rows) - 1 and not block.endswith(b"\n")
                kind = "truncated line" if cut else "unreadable line"
                reason = f"expected a JSON object or an array of them, got {excerpt(text)}"
                problems.report(kind, reason, path, line)
                continue
            for each in objects:
                yield line, each


def _spread(path: FilePath, problems: Problems, content: bytes) -> Iterator[tuple[int, Message]]:
    """Read objects that are spread over several lines, alone or in an array."""
    if len(content) > LINE_BYTES_MAX:
        text = f"objects over several lines must have at most {LINE_BYTES_MAX:,} bytes in total, "
        problems.report("endless line", text + "write one per line", path, 1)
        return
    text = content.decode("utf-8", "replace")
    place, line, counted = 0, 1, 0
    while (start := _BETWEEN.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, start), start
        try:
            value, place = DECODER.raw_decode(text, start)
            if not isinstance(value, dict):
                raise ValueError("expected an object")
        except (ValueError, RecursionError):
            got = excerpt(text[start : start + 100].encode())
            reason = f"expected a JSON object, got {got}; the rest of the file is not read"
            problems.report("unreadable line", reason, path, line)
            return
        yield line, value
