"""Imports packages that only some formats need, and says how to get one that is missing."""

import importlib
from typing import Any

from clob.replay.errors import PackageMissingError


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
