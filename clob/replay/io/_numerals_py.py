"""Finds the cells of a text and reads the numbers in them: what it means, by whole arrays.

Eight digits are read as one 64-bit word, so a block costs some array operations and no Python per
line. Nothing here goes through a floating-point number.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
"""One integer for each row."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Which rows are meant."""

MARGIN = 24
"""How many bytes stand before the first cell of a text, so that three words can end in it."""

DIGITS_MAX = 19
"""No number of more digits fits 63 bits."""

TOP_MAX = 921
"""The highest number before the last sixteen digits that surely fits 63 bits."""

NEWLINE, MINUS, POINT, ZERO = b"\n"[0], b"-"[0], b"."[0], b"0"[0]

ZEROS = np.uint64(0x3030303030303030)
OVER_NINE = np.uint64(0x7676767676767676)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTES_EVEN, SHORTS_EVEN = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
TENS, HUNDREDS, MYRIADS = np.uint64(2561), np.uint64(6553601), np.uint64(42949672960001)


def marks_of(text: bytes, separator: int) -> tuple[Integers, int]:
    """Find what parts cells. O(bytes).

    Args:
        text: any bytes.
        separator: the byte that parts the cells of a line.

    Returns:
        Where separators and ends of lines stand, in order; how many of them are ends of lines.
    """
    every = np.frombuffer(text, np.uint8)
    ends = every == NEWLINE
    return np.flatnonzero((every == separator) | ends), int(np.count_nonzero(ends))


def whole_numbers(
    text: bytes, before: Integers, behind: Integers, signed: bool
) -> tuple[Integers, Mask | None]:
    """Read cells of digits. O(cells).

    Args:
        text: ``MARGIN`` bytes of any kind, then the cells.
        before: of each cell the place of the byte in front of it.
        behind: of each cell the place of the byte behind it.
        signed: whether a minus may stand before the digits.

    Returns:
        The numbers, up to 9,219,999,999,999,999,999; which cells hold none, the number of which
        means nothing, or None if all do.
    """
    every, start = np.frombuffer(text, np.uint8), before + 1
    minus = _minus(every, start) if signed else None
    value, bad = _digits(every, start if minus is None else start + minus, behind)
    return _with_sign(value, minus), bad if bad.any() else None


def decimal_fractions(
    text: bytes, before: Integers, behind: Integers, places: int, signed: bool
) -> tuple[Integers, Mask | None]:
    """Read cells of digits with a decimal point or without, as whole numbers of a unit. O(cells).

    Args:
        text: as in :func:`whole_numbers`.
        before: as there.
        behind: as there.
        places: how many digits behind the point a unit is, 0 to 18; digits beyond must be zeros.
        signed: whether a minus may stand before the digits.

    Returns:
        The numbers, that without its point of up to 19 digits and below 2**63; which cells hold
        none, as there.
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
    # Nineteen digits that do not fit 63 bits fit 64, and so come out negative.
    bad |= (point - start + places > DIGITS_MAX) | (value < 0)
    return _with_sign(value, minus), bad if bad.any() else None


def _minus(every: npt.NDArray[np.uint8], start: Integers) -> Mask | None:
    """Tell which cells begin with a minus; None if none does."""
    minus: Mask = every[start] == MINUS
    return minus if minus.any() else None


def _with_sign(value: Integers, minus: Mask | None) -> Integers:
    """Turn the numbers behind a minus round."""
    if minus is None:
        return value
    signs: Integers = 1 - 2 * minus.astype(np.int64)
    signs *= value
    return signs


def _points(every: npt.NDArray[np.uint8], start: Integers, end: Integers) -> Integers:
    """Find the decimal point of each cell, or its end where it has none."""
    if len(start):
        # Most often all points stand at the same distance; `_digits` refuses any before it.
        guess = start + max(every[start[0] : end[0]].tobytes().find(POINT), 0)
        if bool((guess < end).all()) and bool((every[guess] == POINT).all()):
            return guess
    point = end.copy()
    missing = np.ones(len(start), np.bool_)
    for step in range(int((end - start).max(initial=0))):
        place = start + step
        found = missing & (every[np.minimum(place, end)] == POINT)
        point[found] = place[found]
        missing &= ~found
        if not missing.any():
            break
    return point


def _digits(every: npt.NDArray[np.uint8], start: Integers, end: Integers) -> tuple[Integers, Mask]:
    """Read digits from ``start`` to ``end``, and tell where something else stands."""
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
    """Give up to eight digits of each cell as the bytes of a word, counted from the end."""
    shift = 64 * (word + 1) - 8 * length
    np.maximum(shift, 0, out=shift)
    # A shift by 64 bits or more is undefined; such a word has no digit and becomes zero below.
    shift = (shift & 63).view(np.uint64)
    digits: npt.NDArray[np.uint64] = words[end - 8 * (word + 1)]
    digits ^= ZEROS
    digits >>= shift
    digits <<= shift
    if word:
        digits[length <= 8 * word] = 0
    return digits


def _value(digits: npt.NDArray[np.uint64]) -> Integers:
    """Turn words of eight digits into numbers; the words are used up."""
    digits *= TENS
    digits >>= np.uint64(8)
    digits &= BYTES_EVEN
    digits *= HUNDREDS
    digits >>= np.uint64(16)
    digits &= SHORTS_EVEN
    digits *= MYRIADS
    digits >>= np.uint64(32)
    return digits.view(np.int64)
