"""The errors of reading recorded order flow, and of backtests."""

import importlib
from typing import Any

from clob.errors import ClobError


class ReplayFormatError(ClobError):
    """A file is no recording, or not a whole one; the message says where it fails."""

    code = "REPLAY_FORMAT"


class PackageMissingError(ClobError):
    """A format needs a package that is not installed; the message says how to get it."""

    code = "PACKAGE_MISSING"


class PortfolioError(ClobError):
    """A portfolio cannot do what was asked of it; nothing was changed."""

    code = "PORTFOLIO"


class ReplayWarning(UserWarning):
    """Input is broken and the reader went on, because it was told to."""


def need(package: str, purpose: str, install: str) -> Any:
    """Import a package.

    Args:
        package: the name it is imported by; may be dotted.
        purpose: what it is needed for, as the beginning of a sentence.
        install: what ``pip install`` is to be told.

    Returns:
        The module.

    Raises:
        PackageMissingError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        top = package.partition(".")[0]
        if (error.name or "").partition(".")[0] != top:
            raise
        raise PackageMissingError(
            f'{purpose} needs {top}, which is not installed: pip install "{install}"'
        ) from error


# MERGED clob.replay.errors: Imports packages that only some formats need, and says how to get one that is missing.
