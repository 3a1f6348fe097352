"""Reads JSON lines: an object on each line, or an array of them; what is no JSON is reported."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

from clob.replay.cells import excerpt
from clob.replay.files import FilePath, Progress, line_blocks
from clob.replay.problems import Problems

Message: TypeAlias = dict[str, Any]
"""An object. Numbers with a point are text, so that none is rounded."""


def _refuse(word: str) -> NoReturn:
    """Refuse what JSON does not know, as ``NaN``."""
    raise ValueError(word)


DECODER = json.JSONDecoder(parse_float=str, parse_constant=_refuse)
"""Made once: most of the time of a line would go into making one."""

HEARTBEATS = (b"PING", b"PONG")
"""Lines that only kept a connection open."""

BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What is raised by a message that has not the shape it should."""


def messages(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Message]]:
    """Read a file object by object.

    Args:
        path: the file, compressed or not.
        problems: where lines are reported that are no JSON, or none of objects.
        progress: is told of every byte read from the disk.

    Yields:
        The number of the line, counted from 1, and the object.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is compressed in a way that needs a package.
        ReplayFormatError: a line is broken and the policy is to raise.
    """
    for first, block in line_blocks(path, problems, progress):
        rows = block.splitlines()
        for line, text in enumerate(rows, first):
            if not text.strip() or text.strip() in HEARTBEATS:
                continue
            try:
                value = DECODER.decode(text.decode("utf-8-sig"))
                found = value if isinstance(value, list) else [value]
                if not all(isinstance(each, dict) for each in found):
                    raise ValueError("no object")
            except (ValueError, RecursionError):
                cut = line == first + len(rows) - 1 and not block.endswith(b"\n")
                problems.report(
                    "truncated line" if cut else "unreadable line", excerpt(text), path, line
                )
                continue
            for each in found:
                yield line, each
