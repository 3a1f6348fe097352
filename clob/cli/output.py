"""What the commands of ``clob`` write with: lines, complaints, a progress bar, exit codes."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay.io.files import Progress
    from clob.replay.io.problems import Problems

DONE, CHECK_FAILED, UNUSABLE = 0, 1, 2
"""The exit codes."""

NS_PER_S = 1_000_000_000

Show: TypeAlias = Callable[[int], None]
"""Moves a progress bar on; takes how many events are done."""


class UnusableError(Exception):
    """Something that was asked for cannot be used; the text is for whoever asked."""


def write(text: str) -> None:
    """Write a line to standard output, with question marks for what it cannot express.

    Args:
        text: the line, without its end.
    """
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def complain(error: Exception | str) -> None:
    """Write a line to standard error, with the code of an error that has one.

    Args:
        error: what went wrong.
    """
    code = f"{error.code}: " if isinstance(error, ClobError) else ""
    sys.stderr.write(f"clob: {code}{error}\n")


def told_of(
    paths: Sequence[Path], error: OSError | ClobError, code: str = "FILE_UNREADABLE"
) -> str:
    """Say what is wrong with one of some files, with the whole of its path.

    Args:
        paths: the files.
        error: what went wrong.
        code: what an error of the system is called.
    """
    if isinstance(error, OSError):
        return f"{code}: {printable(str(error.filename or paths[0]))}: {error.strerror or error}"
    text = str(error)
    # What readers report begins with the name of the file, of which the folder is missing.
    begin = text.partition(":")[0]
    for path in paths:
        if begin and path.name.startswith(begin):
            return f"{error.code}: {printable(str(path.with_name(begin)))}{text[len(begin) :]}"
    return f"{error.code}: {printable(', '.join(map(str, paths)))}: {text}"


def refuse_place(path: Path, read: Sequence[Path]) -> None:
    """Refuse to write where nothing can be written, before hours are spent on what would be.

    Args:
        path: the file that is to be written.
        read: the files that are read meanwhile.

    Raises:
        UnusableError: it is one of those; its folder is none; it is a folder itself; or one of both
            may not be written to.
    """
    why = ""
    if any(path.exists() and file.exists() and path.samefile(file) for file in read):
        why = "it is what is read"
    elif not path.parent.is_dir():
        why = os.strerror(errno.ENOENT)
    elif path.is_dir():
        why = os.strerror(errno.EISDIR)
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = os.strerror(errno.EACCES)
    if why:
        raise UnusableError(f"FILE_UNWRITABLE: {printable(str(path))}: {why}")


def printable(text: str) -> str:
    """Write a text out of a file so that it cannot steer the terminal.

    Args:
        text: any text.
    """
    return text if text.isprintable() else ascii(text)


def tell(lines: Sequence[tuple[str, str]]) -> None:
    """Write titles and what belongs to them in two columns; what is empty is left out.

    Args:
        lines: each a title and a text.
    """
    for title, text in lines:
        if text:
            write(f"{title:<10} {text}")


def tell_problems(problems: "Problems") -> None:
    """Write to standard error what was wrong with files whose readers went on.

    Args:
        problems: their problems.
    """
    if not len(problems):
        return
    for problem in problems.kept:
        complain(printable(str(problem)))
    counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(problems.counts.items()))
    complain(f"{len(problems):,} problems passed over: {counts}")


# ----- progress ------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(name: str, bytes_read: "Progress", events: int = 0) -> Iterator[Show | None]:
    """Give a progress bar if somebody watches and tqdm is there to draw it, else None.

    It shows events in a second, and the time left: by the number of all events where that is
    known, else by the bytes of the files that were read.

    Args:
        name: what to call it.
        bytes_read: how far the reading is.
        events: how many events there are in all, 0 where nobody knows.

    Yields:
        What moves the bar on.
    """
    bar = _bar(name, events, bytes_read) if sys.stderr.isatty() else None
    if bar is None:
        yield None
        return
    began_ns = time.perf_counter_ns()

    def show(done: int) -> None:
        """Move the bar to where the work is."""
        if events:
            bar.update(done - bar.n)
            return
        rate = done * NS_PER_S // max(time.perf_counter_ns() - began_ns, 1)
        bar.set_postfix_str(f"{rate:,} events/s", refresh=False)
        bar.total = bytes_read.total_bytes or None
        bar.update(bytes_read.done_bytes - bar.n)

    with bar:
        yield show


def _bar(name: str, events: int, bytes_read: "Progress") -> Any:
    """Make the bar, or give None where tqdm is not installed."""
    try:
        import tqdm  # noqa: PLC0415 - optional, and of use on a terminal only
    except ImportError:
        return None
    total = events or bytes_read.total_bytes or None
    unit = " events" if events else "B"
    return tqdm.tqdm(desc=name, total=total, unit=unit, unit_scale=True, leave=False)
