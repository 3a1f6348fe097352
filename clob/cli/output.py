"""Output of the commands of ``clob``: lines, errors, a progress bar, exit codes."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clob.errors import ClobError
from clob.program import print_text

if TYPE_CHECKING:
    from clob.replay.io.files import Progress
    from clob.replay.io.problems import Problems

DONE, CHECK_FAILED, UNUSABLE = 0, 1, 2
"""Exit codes."""

NS_PER_S = 1_000_000_000

Show: TypeAlias = Callable[[int], None]
"""Sets a progress bar to a number of events."""


class UnusableError(Exception):
    """An argument or file is unusable; the text is printed."""


def write(text: str) -> None:
    """Write a line to standard output; characters outside its encoding become question marks."""
    print_text(f"{text}\n")


def complain(error: Exception | str) -> None:
    """Write an error to standard error as one line, with its code if it has one."""
    text = with_code(error) if isinstance(error, ClobError) else error
    sys.stderr.write(f"clob: {text}\n")


def with_code(error: ClobError) -> str:
    """Return the text of an error after its code; the texts of the client begin with it."""
    text = str(error)
    return text if text.startswith(f"{error.code}:") else f"{error.code}: {text}"


def describe_error(
    paths: Sequence[Path], error: OSError | ClobError, code: str = "FILE_UNREADABLE"
) -> str:
    """Describe an error about one of some files; ``code`` is that of an operating system error."""
    if isinstance(error, OSError):
        return f"{code}: {printable(str(error.filename or paths[0]))}: {error.strerror or error}"
    text = str(error)
    if getattr(error, "skippable", False):
        text += "; --policy warn reports such problems and continues"
    # Texts of readers begin with the name of the file, without its folder, and without the suffix
    # of its compression if they are about all of it.
    for path in paths:
        for begin in (path.name, path.stem):
            if begin and text.startswith(f"{begin}:"):
                return f"{error.code}: {printable(str(path))}{text[len(begin) :]}"
    return f"{error.code}: {printable(', '.join(map(str, paths)))}: {text}"


def check_writable(path: Path, read: Sequence[Path]) -> None:
    """Check that a file can be written, before a long run that reads other files.

    Raises:
        UnusableError: the path is one of ``read``, is a folder, has no folder, or is not writable.
    """
    why = ""
    if any(path.exists() and file.exists() and path.samefile(file) for file in read):
        why = "the file is an input of this command"
    elif not path.parent.is_dir():
        why = os.strerror(errno.ENOENT)
    elif path.is_dir():
        why = os.strerror(errno.EISDIR)
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = os.strerror(errno.EACCES)
    if why:
        raise UnusableError(f"FILE_UNWRITABLE: {printable(str(path))}: {why}")


def check_all_writable(paths: Sequence[Path | None], read: Sequence[Path]) -> None:
    """Check each output of a command with :func:`check_writable`; None is an unused option.

    Raises:
        UnusableError: also, two of the paths are the same file.
    """
    seen: set[str] = set()
    for path in filter(None, paths):
        check_writable(path, read)
        if os.path.realpath(path) in seen:
            why = "the file is another output of this command"
            raise UnusableError(f"FILE_UNWRITABLE: {printable(str(path))}: {why}")
        seen.add(os.path.realpath(path))


def printable(text: str) -> str:
    """Escape text from a file so that it cannot control the terminal."""
    return text if text.isprintable() else ascii(text)


def write_columns(lines: Sequence[tuple[str, str]]) -> None:
    """Write titles and texts in two columns; skip empty texts."""
    for title, text in lines:
        if text:
            write(f"{title:<10} {text}")


def report_problems(problems: "Problems") -> None:
    """Write the problems that readers skipped to standard error."""
    if not len(problems):
        return
    for problem in problems.kept:
        complain(printable(str(problem)))
    counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(problems.counts.items()))
    cost = "later fills and best prices may differ from the recording"
    complain(f"{len(problems):,} problems skipped: {counts}; {cost}")


# ----- progress ------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(name: str, bytes_read: "Progress", events: int = 0) -> Iterator[Show | None]:
    """Show a progress bar on a terminal if tqdm is installed.

    The bar shows events per second and the time left, from the number of events if known, else
    from the bytes read.

    Yields:
        The function that updates the bar, or None.
    """
    bar = _bar(name, events, bytes_read) if sys.stderr.isatty() else None
    if bar is None:
        yield None
        return
    began_ns = time.perf_counter_ns()

    def show(done: int) -> None:
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
    """Return a bar, or None if tqdm is not installed."""
    try:
        import tqdm  # noqa: PLC0415 - optional, for terminals only
    except ImportError:
        return None
    total = events or bytes_read.total_bytes or None
    unit = " events" if events else "B"
    return tqdm.tqdm(desc=name, total=total, unit=unit, unit_scale=True, leave=False)
