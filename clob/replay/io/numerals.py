"""Selects the compiled number parser, or the NumPy one if it is not built or not wanted."""

import os
from typing import TYPE_CHECKING

from clob.replay.io._numerals_py import MARGIN, NEWLINE, Integers, Mask

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay.io._numerals_py import decimal_fractions, marks_of, whole_numbers
else:
    try:
        from clob.replay.io._numerals_c import decimal_fractions, marks_of, whole_numbers
    except ImportError:
        from clob.replay.io._numerals_py import decimal_fractions, marks_of, whole_numbers

__all__ = [
    "MARGIN",
    "NEWLINE",
    "Integers",
    "Mask",
    "decimal_fractions",
    "marks_of",
    "whole_numbers",
]
