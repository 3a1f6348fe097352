"""Chooses the Book: the compiled one, or the plain-Python twin where that is all there is."""

import os
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clob.book._book_py import Book

    COMPILED: bool
elif os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.book._book_py import Book

    COMPILED: Final = False
else:
    try:
        from clob.book._book_c import Book

        COMPILED: Final = True
    except ImportError as error:
        from clob.book._book_py import Book

        COMPILED: Final = False
        warnings.warn(
            f"clob: the compiled Book is not available ({error}); using the plain-Python one, "
            "which does the same at a tenth of the speed or less. Install a C compiler and "
            "install clob again, or set CLOB_PURE_PYTHON=1 to choose it without this notice.",
            RuntimeWarning,
            stacklevel=2,
        )

__all__ = ["COMPILED", "Book"]
