"""Errors and warnings of readers and backtests, and the import of optional packages."""

import importlib
from typing import Any

from clob.errors import ClobError, PackageMissingError


class ReplayFormatError(ClobError, code="REPLAY_FORMAT"):
    """A file is not a valid recording or is incomplete; the message says where."""

    skippable: bool = False
    """Whether ``on_problem="warn"`` reports the problem and continues."""


class PortfolioError(ClobError, code="PORTFOLIO"):
    """A portfolio cannot do an operation; nothing was changed."""


class SweepError(ClobError, code="SWEEP"):
    """A sweep cannot start or go on; the message names the stream, strategy, setting or worker."""


class ReplayWarning(UserWarning):
    """The input is broken and the reader continued, as ``on_problem`` requested."""


def need(package: str, purpose: str, install: str) -> Any:
    """Import an optional package.

    Args:
        package: its import name; may be dotted.
        purpose: what needs it, as the start of the error text.
        install: the argument for ``pip install``.

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
