"""The order book: the compiled ``Book``, or the plain-Python one if it is not built."""

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
            f"clob: the compiled Book is not available ({error}); using the plain-Python Book, "
            "which is ten times slower or more. Install a C compiler and reinstall clob, or set "
            "CLOB_PURE_PYTHON=1 to select it without this warning.",
            RuntimeWarning,
            stacklevel=2,
        )

__all__ = ["COMPILED", "Book"]
