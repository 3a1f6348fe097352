"""Finds the cells of a text and reads the numbers in them, with NumPy.

Eight digits are read as one 64-bit word, so a block costs some array operations and no Python per
line. No value passes through a floating-point number.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
"""One integer for each row."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Selects rows."""

MARGIN = 24
"""Bytes before the first cell of a text, so that three words can end in the cell."""

DIGITS_MAX = 19
"""Longer numbers do not fit 63 bits."""

TOP_MAX = 921
"""The highest number before the last sixteen digits whose sum always fits 63 bits."""

NEWLINE, MINUS, POINT, ZERO = b"\n"[0], b"-"[0], b"."[0], b"0"[0]

ZEROS = np.uint64(0x3030303030303030)
OVER_NINE = np.uint64(0x7676767676767676)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTES_EVEN, SHORTS_EVEN = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
TENS, HUNDREDS, MYRIADS = np.uint64(2561), np.uint64(6553601), np.uint64(42949672960001)


def marks_of(text: bytes, separator: int) -> tuple[Integers, int]:
    """Return the offsets of separators and newlines, in order, and the number of newlines."""
    every = np.frombuffer(text, np.uint8)
    ends = every == NEWLINE
    return np.flatnonzero((every == separator) | ends), int(np.count_nonzero(ends))


def whole_numbers(
    text: bytes, before: Integers, behind: Integers, signed: bool
) -> tuple[Integers, Mask | None]:
    """Read cells of digits. O(cells).

    Args:
        text: ``MARGIN`` arbitrary bytes, then the cells.
        before: the offset of the byte before each cell.
        behind: the offset of the byte after each cell.
        signed: whether a minus sign is allowed.

    Returns:
        The numbers, up to 9,219,999,999,999,999,999; a mask of cells that are not numbers and
        whose value is undefined, or None if there are no such cells.
    """
    every, start = np.frombuffer(text, np.uint8), before + 1
    minus = _minus(every, start) if signed else None
    value, bad = _digits(every, start if minus is None else start + minus, behind)
    return _with_sign(value, minus), bad if bad.any() else None


def decimal_fractions(
    text: bytes, before: Integers, behind: Integers, places: int, signed: bool
) -> tuple[Integers, Mask | None]:
    """Read cells of digits with an optional decimal point, as integers of ``10**-places``.

    ``places`` is 0 to 18; further digits must be zeros. The other arguments and the mask are those
    of :func:`whole_numbers`. The numbers have up to 19 digits and are below 2**63. O(cells).
    """
    every, start = np.frombuffer(text, np.uint8), before + 1
    minus = _minus(every, start) if signed else None
    if minus is not None:
        start = start + minus
    point = _points(every, start, behind)
    stop = np.minimum(point + 1 + places, behind)
    scale = 10 ** np.arange(places + 1, dtype=np.int64)
    value, bad = _digits(every, start, point)
    value = value * scale[places]
    has = np.flatnonzero(stop - point > 1)
    fraction, odd = _digits(every, point[has] + 1, stop[has])
    value[has] += fraction * scale[places - (stop - point - 1)[has]]
    bad[has] |= odd
    for row in np.flatnonzero(stop < behind).tolist():
        bad[row] |= bool((every[int(stop[row]) : int(behind[row])] != ZERO).any())
    # Nineteen digits beyond 63 bits still fit 64 and appear as negative numbers.
    bad |= (point - start + places > DIGITS_MAX) | (value < 0)
    return _with_sign(value, minus), bad if bad.any() else None


def _minus(every: npt.NDArray[np.uint8], start: Integers) -> Mask | None:
    """Return a mask of the cells that start with a minus sign, or None if none does."""
    minus: Mask = every[start] == MINUS
    return minus if minus.any() else None


def _with_sign(value: Integers, minus: Mask | None) -> Integers:
    """Negate the numbers after a minus sign."""
    if minus is None:
        return value
    signs: Integers = 1 - 2 * minus.astype(np.int64)
    signs *= value
    return signs


def _points(every: npt.NDArray[np.uint8], start: Integers, end: Integers) -> Integers:
    """Return the offset of the decimal point of each cell, or its end if it has none."""
    if len(start):
        # Usually all points are at the same distance; `_digits` rejects an earlier point.
        guess = start + max(every[start[0] : end[0]].tobytes().find(POINT), 0)
        if bool((guess < end).all()) and bool((every[guess] == POINT).all()):
            return guess
    point = end.copy()
    missing = np.ones(len(start), np.bool_)
    for step in range(int((end - start).max(initial=0))):
        place = start + step
        here = missing & (every[np.minimum(place, end)] == POINT)
        point[here] = place[here]
        missing &= ~here
        if not missing.any():
            break
    return point


def _digits(every: npt.NDArray[np.uint8], start: Integers, end: Integers) -> tuple[Integers, Mask]:
    """Read the digits from ``start`` to ``end``; also return a mask of cells with other bytes."""
    length = end - start
    longest = int(length.max(initial=0))
    bad = (length < 1) | (length > DIGITS_MAX)
    if longest <= 1:
        digit = every[start] - np.uint8(ZERO)
        return digit.astype(np.int64), bad | (digit > 9)
    words = np.ndarray(len(every) - 7, "<u8", every, strides=(1,))
    value = np.zeros(len(start), np.int64)
    for word in range((min(longest, DIGITS_MAX) + 7) // 8):
        digits = _word(words, end, length, word)
        bad |= ((digits + OVER_NINE) | digits) & HIGH_BITS != 0
        part = _value(digits)
        if word == 2:
            bad |= part > TOP_MAX
        value += part * 10 ** (8 * word)
    return value, bad


def _word(
    words: npt.NDArray[np.uint64], end: Integers, length: Integers, word: int
) -> npt.NDArray[np.uint64]:
    """Return up to eight digits of each cell as the bytes of a word, counted from the end."""
    shift = 64 * (word + 1) - 8 * length
    np.maximum(shift, 0, out=shift)
    # A shift by 64 bits or more is undefined; such a word has no digits and is zeroed below.
    shift = (shift & 63).view(np.uint64)
    digits: npt.NDArray[np.uint64] = words[end - 8 * (word + 1)]
    digits ^= ZEROS
    digits >>= shift
    digits <<= shift
    if word:
        digits[length <= 8 * word] = 0
    return digits


def _value(digits: npt.NDArray[np.uint64]) -> Integers:
    """Convert words of eight digits to numbers, in place."""
    digits *= TENS
    digits >>= np.uint64(8)
    digits &= BYTES_EVEN
    digits *= HUNDREDS
    digits >>= np.uint64(16)
    digits &= SHORTS_EVEN
    digits *= MYRIADS
    digits >>= np.uint64(32)
    return digits.view(np.int64)
