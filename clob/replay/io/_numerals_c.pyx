# cython: language_level=3, cdivision=True, boundscheck=False, wraparound=False
"""The compiled form of `_numerals_py.py`, which has the documentation.

Eight digits are read as one word here as well, so no branch depends on the length of a cell.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    /* Words are read in little-endian order; other machines use the Python form. */
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the compiled numerals are for little-endian machines"
    #endif

    #define NUMERALS_MARGIN 24

    /* Read up to eight digits before `end`; missing leading digits are zeros.
       Sets bits of `odd` for bytes that are not digits. */
    static inline uint64_t numerals_word(const uint8_t *end, int64_t length, uint64_t *odd) {
        uint64_t digits;
        int shift = length < 8 ? (int)(64 - 8 * length) : 0;
        memcpy(&digits, end - 8, 8);
        digits = (digits ^ 0x3030303030303030u) >> shift << shift;
        *odd |= ((digits + 0x7676767676767676u) | digits) & 0x8080808080808080u;
        digits = (digits * 2561 >> 8) & 0x00FF00FF00FF00FFu;
        digits = (digits * 6553601 >> 16) & 0x0000FFFF0000FFFFu;
        return digits * 42949672960001u >> 32;
    }

    /* Read 1 to 19 digits; return 0 if other bytes occur or the value may not fit. */
    static inline int numerals_digits(const uint8_t *start, const uint8_t *end, uint64_t *value) {
        int64_t length = end - start;
        uint64_t odd = 0, top;
        *value = 0;
        if (length < 1 || length > 19) return 0;
        *value = numerals_word(end, length, &odd);
        if (length > 8) *value += numerals_word(end - 8, length - 8, &odd) * 100000000u;
        if (length > 16) {
            top = numerals_word(end - 16, length - 16, &odd);
            if (top > 921) return 0;
            *value += top * 10000000000000000u;
        }
        return !odd;
    }

    /* Count a byte in a text, in blocks small enough for a counter of one byte. */
    static int64_t numerals_count(const uint8_t *text, int64_t count, uint8_t which) {
        int64_t found = 0;
        while (count > 0) {
            int64_t some = count < 255 ? count : 255;
            uint8_t few = 0;
            for (int64_t place = 0; place < some; place++) few += text[place] == which;
            found += few;
            text += some;
            count -= some;
        }
        return found;
    }

    /* Write the offsets of separators and newlines to `marks`, which is large enough. */
    static void numerals_marks(
        const uint8_t *text, int64_t count, uint8_t separator, int64_t *marks
    ) {
        int64_t place = 0;
    #if defined(__SSE2__)
        __m128i line = _mm_set1_epi8('\\n'), cell = _mm_set1_epi8((char)separator);
        for (; place + 16 <= count; place += 16) {
            __m128i some = _mm_loadu_si128((const __m128i *)(text + place));
            unsigned found = (unsigned)_mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(some, line), _mm_cmpeq_epi8(some, cell)));
            for (; found; found &= found - 1) *marks++ = place + __builtin_ctz(found);
        }
    #endif
        for (; place < count; place++)
            if (text[place] == '\\n' || text[place] == separator) *marks++ = place;
    }
    """
    int MARGIN "NUMERALS_MARGIN"
    bint digits "numerals_digits"(
        const uint8_t* start, const uint8_t* end, uint64_t* value
    ) noexcept nogil
    int64_t count_of "numerals_count"(
        const uint8_t* text, int64_t count, uint8_t which
    ) noexcept nogil
    void find_marks "numerals_marks"(
        const uint8_t* text, int64_t count, uint8_t separator, int64_t* marks
    ) noexcept nogil

cdef uint64_t POWERS[19]
cdef object _power
for _power in range(19):
    POWERS[<int>_power] = 10**_power


def marks_of(bytes text not None, uint8_t separator):
    """Find separators and newlines."""
    cdef const uint8_t* every = text
    cdef Py_ssize_t count = len(text)
    cdef int64_t lines = count_of(every, count, c"\n"), others = 0
    if separator != c"\n":
        others = count_of(every, count, separator)
    marks = np.empty(lines + others, np.int64)
    cdef int64_t[::1] room = marks
    if lines + others:
        with nogil:
            find_marks(every, count, separator, &room[0])
    return marks, lines


def whole_numbers(
    bytes text not None, const int64_t[:] before not None, const int64_t[:] behind not None,
    bint signed
):
    """Read cells of digits."""
    cdef const uint8_t* every = text
    cdef const uint8_t* start
    cdef int64_t size = len(text)
    cdef Py_ssize_t row, count = len(before)
    cdef uint64_t value
    cdef bint minus, fine, all_fine = True
    numbers, bad = np.empty(count, np.int64), np.zeros(count, np.bool_)
    cdef int64_t[::1] to = numbers
    cdef uint8_t[::1] odd = bad.view(np.uint8)
    check_same(count, len(behind))
    with nogil:
        for row in range(count):
            check_cell(before[row], behind[row], size)
            start = every + before[row] + 1
            minus = signed and start[0] == c"-"
            fine = digits(start + minus, every + behind[row], &value)
            to[row] = <int64_t>(0 - value if minus else value)
            odd[row] = not fine
            all_fine &= fine
    return numbers, None if all_fine else bad


def decimal_fractions(
    bytes text not None, const int64_t[:] before not None, const int64_t[:] behind not None,
    int places, bint signed
):
    """Read cells of digits with an optional decimal point as integers of a unit."""
    cdef const uint8_t* every = text
    cdef const uint8_t* start
    cdef const uint8_t* point
    cdef const uint8_t* stop
    cdef const uint8_t* end
    cdef int64_t size = len(text)
    cdef Py_ssize_t row, count = len(before), guess = 0
    cdef uint64_t value, fraction
    cdef bint minus, fine, all_fine = True
    if not 0 <= places < 19:
        raise ValueError(f"places must be 0 to 18; got {places}")
    numbers, bad = np.empty(count, np.int64), np.zeros(count, np.bool_)
    cdef int64_t[::1] to = numbers
    cdef uint8_t[::1] odd = bad.view(np.uint8)
    check_same(count, len(behind))
    with nogil:
        for row in range(count):
            check_cell(before[row], behind[row], size)
            start, end = every + before[row] + 1, every + behind[row]
            minus = signed and start[0] == c"-"
            start += minus
            # Usually at the same distance as in the cell before; `digits` rejects earlier ones.
            point = start + guess
            if point >= end or point[0] != c".":
                point = start
                while point < end and point[0] != c".":
                    point += 1
                guess = point - start
            fine = digits(start, point, &value) and point - start + places <= 19
            stop = min(point + 1 + places, end)
            if fine:
                value *= POWERS[places]
            if stop > point + 1:
                fine &= digits(point + 1, stop, &fraction)
                value += fraction * POWERS[places - (stop - point - 1)]
            while stop < end:
                fine &= stop[0] == c"0"
                stop += 1
            fine &= value <= 0x7FFFFFFFFFFFFFFFULL
            to[row] = <int64_t>(0 - value if minus else value)
            odd[row] = not fine
            all_fine &= fine
    return numbers, None if all_fine else bad


cdef int check_same(Py_ssize_t befores, Py_ssize_t behinds) except -1:
    if befores != behinds:
        raise ValueError(f"before and behind must be equally long; got {befores} and {behinds}")
    return 0


cdef inline int check_cell(int64_t before, int64_t behind, int64_t size) except -1 nogil:
    # A cell must be inside the text, with the margin before it.
    if not MARGIN - 1 <= before < behind < size:
        with gil:
            raise IndexError(f"cell {before} to {behind} is outside the text of {size} bytes")
    return 0
