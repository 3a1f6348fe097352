"""The option ``--version`` of all programs: version, engine, signatures, Python and machine."""

import argparse
import platform
import sys
from collections.abc import Sequence
from typing import Any

import clob


class VersionAction(argparse.Action):
    """Prints a line about the installation and exits.

    The line has what a report of a problem needs. Engine and signatures are imported for it alone.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        text = "show version, engine, signatures, Python and machine, and exit"
        super().__init__(option_strings, dest, nargs=0, help=text)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the line and exit with 0."""
        sys.stdout.write(describe(parser.prog) + "\n")
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
