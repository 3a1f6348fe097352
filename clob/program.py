"""Behaviour that all programs share: standard streams, Ctrl-C, the option ``--version``."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import clob

DONE: Final = 0
UNWRITABLE: Final = 2
"""Exit code if standard output cannot be written to."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as in shells."""


def run_program(name: str, act: Callable[[], int]) -> int:
    """Run a program with standard streams that can be used, and write out its output.

    Args:
        name: the first word of its error lines.
        act: parses arguments, runs and returns the exit code.

    Returns:
        The exit code; 0 if the reader of a pipe, ``head`` for example, ended before the output, 2
        if standard output cannot be written to, 130 after Ctrl-C.
    """
    open_closed_streams()
    try:
        code = act()
        print_text("", flush=True)
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return INTERRUPTED
    except OutputFailedError as failed:
        discard_output()
        if isinstance(failed.__cause__, BrokenPipeError):
            return DONE
        sys.stderr.write(f"{name}: {failed}\n")
        return UNWRITABLE
    return code


class OutputFailedError(Exception):
    """Standard output cannot be written to; the cause is the error of the operating system."""


def print_text(text: str, *, flush: bool = False) -> None:
    """Write text to standard output; characters outside its encoding become question marks.

    Raises:
        OutputFailedError: standard output cannot be written to.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        if flush:
            sys.stdout.flush()
    except OSError as error:
        raise OutputFailedError(f"standard output: {error.strerror or error}") from error


def open_closed_streams() -> None:
    """Open the null device in place of standard streams that the caller of the program closed.

    Otherwise the next file or socket has the number of the stream, and receives its output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for good


def discard_output() -> None:
    """Discard what is left of standard output, so that the interpreter does not fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class VersionAction(argparse.Action):
    """Prints a line about the installation and exits.

    The line has what a report of a problem needs. Engine and signatures are imported for it alone.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        text = "show version, engine, signatures, Python and machine, and exit"
        super().__init__(option_strings, dest, nargs=0, help=text)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the line and exit with 0."""
        print_text(describe(parser.prog) + "\n")
        parser.exit()


def describe(program: str) -> str:
    """Describe the installation in one line that begins with a program and its version."""
    from clob.book import COMPILED as BOOK_COMPILED  # noqa: PLC0415
    from clob.matcher.compiled import COMPILED  # noqa: PLC0415
    from clob.signing.secp import BACKEND  # noqa: PLC0415

    names = {True: "compiled", False: "plain Python"}
    book, matcher = names[BOOK_COMPILED], names[COMPILED]
    engine = book if book == matcher else f"book {book}, matcher {matcher}"
    return (
        f"{program} {clob.__version__} (engine {engine}; signatures {BACKEND}; "
        f"{platform.python_implementation()} {platform.python_version()}; "
        f"{platform.system()} {platform.machine()})"
    )
