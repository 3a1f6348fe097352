# cython: language_level=3, cdivision=True, embedsignature=True, embedsignature.format=python
"""The compiled codec: what `_codec_py.py` says, done fast. The twin has the full documentation.

A plan is the layout of a Struct as C reads it, with the places of the fields in an instance. What
cannot be written or read is given to the twin, which raises: nothing here words an error, and
nothing here is changed by one. Plans live as long as the process, like the types they are of.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from clob.codec import _codec_py, layout as layouts

# ----- words of C ----------------------------------------------------------------------------

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include "structmember.h"

    typedef unsigned __int128 u128;

    /* The canonical bytes are little-endian; elsewhere the twin does the work. */
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the compiled codec is for little-endian machines"
    #endif

    /* What is declared inline below is meant to be. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))

    #define codec_likely(x) __builtin_expect(!!(x), 1)
    #define codec_unlikely(x) __builtin_expect(!!(x), 0)

    static inline int codec_width(uint64_t v) { return v ? (71 - __builtin_clzll(v)) >> 3 : 0; }

    static inline uint64_t codec_load(const uint8_t *at) {
        uint64_t value;
        memcpy(&value, at, 8);
        return value;
    }
    static inline void codec_store(uint8_t *at, uint64_t value) { memcpy(at, &value, 8); }

    /* An integer of more than a digit as words, digit by digit; by bytes it takes far longer.
       False where it has more than 256 bits. */
    #if PY_VERSION_HEX < 0x030C0000
    #define codec_digits(v) (((PyLongObject *)(v))->ob_digit)
    #else
    #define codec_digits(v) (((PyLongObject *)(v))->long_value.ob_digit)
    #endif
    static inline int codec_words(PyObject *value, Py_ssize_t count, uint64_t words[6]) {
        if (count > (256 + PyLong_SHIFT - 1) / PyLong_SHIFT) return 0;
        const digit *digits = codec_digits(value);
        memset(words, 0, 6 * sizeof(uint64_t));
        for (Py_ssize_t i = 0; i < count; i++) {
            Py_ssize_t bit = i * PyLong_SHIFT;
            u128 shifted = (u128)digits[i] << (bit & 63);
            words[bit >> 6] |= (uint64_t)shifted;
            words[(bit >> 6) + 1] |= (uint64_t)(shifted >> 64);
        }
        return words[4] == 0;
    }

    static inline PyObject *codec_small(uint64_t value) {
        return PyLong_FromUnsignedLongLong(value);
    }

    /* An integer of at most 128 bits. */
    static inline PyObject *codec_large(uint64_t lo, uint64_t hi) {
        u128 value = ((u128)hi << 64) | lo;
    #if PY_VERSION_HEX < 0x030D0000
        int count = 0;
        for (u128 rest = value; rest; rest >>= PyLong_SHIFT) count++;
        PyLongObject *result = _PyLong_New(count);
        if (result == NULL) return NULL;
        digit *digits = codec_digits(result);
        for (int i = 0; i < count; i++, value >>= PyLong_SHIFT)
            digits[i] = (digit)(value & PyLong_MASK);
        return (PyObject *)result;
    #else
        return PyLong_FromUnsignedNativeBytes(
            &value, sizeof(value), Py_ASNATIVEBYTES_LITTLE_ENDIAN);
    #endif
    }

    static inline PyObject *codec_huge(const uint8_t *at, Py_ssize_t length) {
    #if PY_VERSION_HEX < 0x030D0000
        return _PyLong_FromByteArray(at, length, 1, 0);
    #else
        return PyLong_FromUnsignedNativeBytes(at, length, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
    #endif
    }

    /* The UTF-8 of a text of ASCII characters stands in the object itself. */
    static inline int codec_is_ascii(PyObject *text) { return PyUnicode_IS_COMPACT_ASCII(text); }
    static inline const char *codec_ascii(PyObject *text) {
        return (const char *)PyUnicode_DATA(text);
    }

    static inline int codec_all_ascii(const uint8_t *at, Py_ssize_t length) {
        uint64_t high = 0;
        Py_ssize_t i = 0;
        for (; i + 8 <= length; i += 8) high |= codec_load(at + i);
        for (; i < length; i++) high |= at[i];
        return !(high & 0x8080808080808080u);
    }

    static inline PyObject *codec_new_ascii(const uint8_t *at, Py_ssize_t length) {
        PyObject *text = PyUnicode_New(length, 127);
        if (text != NULL) memcpy(PyUnicode_DATA(text), at, length);
        return text;
    }

    /* The offset of a slot of a Struct type, or -1 where there is no such slot. */
    static inline Py_ssize_t codec_slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    """
    bint likely "codec_likely"(bint x) noexcept nogil
    bint unlikely "codec_unlikely"(bint x) noexcept nogil
    int width_of "codec_width"(uint64_t v) noexcept nogil
    uint64_t load "codec_load"(const uint8_t* at) noexcept nogil
    void store "codec_store"(uint8_t* at, uint64_t value) noexcept nogil
    PyObject* small_integer "codec_small"(uint64_t value) noexcept
    PyObject* large_integer "codec_large"(uint64_t lo, uint64_t hi) noexcept
    PyObject* huge_integer "codec_huge"(const uint8_t* at, Py_ssize_t length) noexcept
    bint words_of "codec_words"(PyObject* value, Py_ssize_t count, uint64_t* words) noexcept
    bint is_ascii "codec_is_ascii"(PyObject* text) noexcept
    const char* ascii_of "codec_ascii"(PyObject* text) noexcept
    bint all_ascii "codec_all_ascii"(const uint8_t* at, Py_ssize_t length) noexcept nogil
    PyObject* new_ascii "codec_new_ascii"(const uint8_t* at, Py_ssize_t length) noexcept
    Py_ssize_t slot_offset "codec_slot_offset"(PyObject* descriptor) noexcept
    # Of Cython's own: what it knows of integers in all versions of CPython.
    bint is_compact "__Pyx_PyLong_IsCompact"(PyObject* value) noexcept
    Py_ssize_t compact_value "__Pyx_PyLong_CompactValue"(PyObject* value) noexcept
    bint is_negative "__Pyx_PyLong_IsNeg"(PyObject* value) noexcept
    Py_ssize_t digit_count "__Pyx_PyLong_DigitCount"(PyObject* value) noexcept

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_HAVE_GC
    PyTypeObject* type_of "Py_TYPE"(PyObject* value) noexcept
    bint is_integer "PyLong_CheckExact"(PyObject* value) noexcept
    bint is_text "PyUnicode_CheckExact"(PyObject* value) noexcept
    bint is_raw "PyBytes_CheckExact"(PyObject* value) noexcept
    bint is_tuple "PyTuple_CheckExact"(PyObject* value) noexcept
    Py_ssize_t text_length "PyUnicode_GET_LENGTH"(PyObject* text) noexcept
    Py_ssize_t tuple_size "PyTuple_GET_SIZE"(PyObject* value) noexcept
    PyObject* tuple_item "PyTuple_GET_ITEM"(PyObject* value, Py_ssize_t place) noexcept
    void set_item "PyTuple_SET_ITEM"(PyObject* value, Py_ssize_t place, PyObject* item) noexcept
    PyObject* new_tuple "PyTuple_New"(Py_ssize_t size) noexcept
    PyObject* new_instance "(PyObject *)_PyObject_New"(PyTypeObject* kind) noexcept
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* at, Py_ssize_t size) noexcept
    PyObject* new_text "PyUnicode_DecodeUTF8"(
        const char* at, Py_ssize_t size, const char* errors
    ) noexcept
    PyObject* encoded "PyUnicode_AsEncodedString"(
        PyObject* text, const char* encoding, const char* errors
    ) noexcept
    PyObject* call "PyObject_Call"(PyObject* kind, PyObject* arguments, PyObject* fields) noexcept
    PyObject* new_dict "PyDict_New"() noexcept
    int dict_set "PyDict_SetItem"(PyObject* fields, PyObject* name, PyObject* value) noexcept
    PyObject* dict_get "PyDict_GetItem"(PyObject* fields, PyObject* key) noexcept
    void forget "PyErr_Clear"() noexcept
    void incref "Py_INCREF"(PyObject* value) noexcept
    void decref "Py_DECREF"(PyObject* value) noexcept
    void decref_maybe "Py_XDECREF"(PyObject* value) noexcept
    PyObject* TRUE "Py_True"
    PyObject* FALSE "Py_False"
    PyObject* NONE "Py_None"

# ----- plans ---------------------------------------------------------------------------------

cdef enum:
    # As in clob.codec.layout.What.
    INTEGER = 0
    FLAG = 1
    WORD = 2
    TEXT = 3
    RAW = 4
    ORDER_ID = 5
    STRUCT = 6
    MANY = 7
    ANY_OF = 8

    FIELDS_MAX = 32
    NUMBERS_MAX = 256
    STACK_BYTES = 2048
    INTEGER_ROOM = 48           # an integer of 32 bytes with its length, and a word beyond
    CACHE_ENTRIES = 4096
    CACHED_MAX = 128            # characters of the longest text that is kept

# Texts that do not come again would only push others out of the cache.
cdef frozenset FRESH = frozenset(("client_id", "reason", "message"))


cdef struct Plan


cdef struct Form:
    # How the values of a field are written, and where an instance has them.
    Py_ssize_t offset
    int what
    bint optional
    bint fresh
    int bit                     # of a flag: which of its byte; but for 0, of the field before
    int bits                    # of the first flag of a byte: how many it holds
    int num_members
    PyObject** members          # of a word, by number; NULL where there is none
    Plan* plan                  # of a Struct
    Plan** plans                # of a union, by number; NULL where there is none
    Form* item                  # of a tuple


cdef struct Plan:
    PyObject* kind
    PyObject* names
    Form* forms
    int count
    int number                  # of the kind; 0 is none
    bint built                  # an instance can be put together slot by slot


@cython.final
cdef class Planned:
    """Holds a plan in a dictionary."""

    cdef Plan* plan


cdef dict PLANS = {}
cdef Plan* BY_NUMBER[NUMBERS_MAX]


cdef void* zeroed(size_t count, size_t size) except NULL:
    cdef void* memory = calloc(count or 1, size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef PyObject* kept(object thing) except NULL:
    # A reference that is never given back.
    Py_INCREF(thing)
    return <PyObject*>thing


cdef Plan* plan_of(object kind) except NULL:
    # Raises TypeError for what has no layout.
    cdef PyObject* found = dict_get(<PyObject*>PLANS, <PyObject*>kind)
    if found != NULL:
        return (<Planned>found).plan
    cdef tuple layout = layouts.layout_of(kind)
    cdef Plan* plan = <Plan*>zeroed(1, sizeof(Plan))
    cdef Planned planned = Planned()
    cdef int place
    if len(layout) > FIELDS_MAX:
        raise TypeError(f"{kind.__name__} has more than {FIELDS_MAX} fields")
    plan.kind = kept(kind)
    plan.names = kept(kind.__struct_fields__)
    plan.number = layouts.NUMBERS.get(kind, 0)
    plan.count = len(layout)
    plan.forms = <Form*>zeroed(plan.count, sizeof(Form))
    for place in range(plan.count):
        name, form = layout[place]
        fill_form(&plan.forms[place], form)
        plan.forms[place].fresh = name in FRESH
    find_offsets(kind, plan)
    planned.plan = plan
    PLANS[kind] = planned
    return plan


cdef int fill_form(Form* to, object form) except -1:
    cdef int place
    to.what = form.what
    to.optional = form.optional
    to.bit, to.bits = form.bit, form.bits
    if to.what == WORD:
        to.num_members = len(form.members)
        to.members = <PyObject**>zeroed(to.num_members, sizeof(PyObject*))
        for place in range(to.num_members):
            if form.members[place] is not None:
                to.members[place] = kept(form.members[place])
    elif to.what == STRUCT:
        to.plan = plan_of(form.kind)
    elif to.what == ANY_OF:
        to.plans = <Plan**>zeroed(NUMBERS_MAX, sizeof(Plan*))
        for number in form.kinds:
            to.plans[<int>number] = plan_of(layouts.KINDS[number])
    elif to.what == MANY:
        to.item = <Form*>zeroed(1, sizeof(Form))
        fill_form(to.item, form.item)
    return 0


cdef int find_offsets(object kind, Plan* plan) except -1:
    # Reading a field at its place takes a fifth of an attribute lookup, and writing all of them
    # half of a constructor's call. Whether that may be done is tried on an instance whose every
    # field is an object of its own.
    cdef int place
    cdef tuple names = <tuple>plan.names
    cdef object trial = kind(**{name: object() for name in names})
    cdef object descriptor, value
    for place in range(plan.count):
        descriptor = getattr(kind, names[place])
        value = getattr(trial, names[place])
        plan.forms[place].offset = slot_offset(<PyObject*>descriptor)
        if (
            plan.forms[place].offset < 0
            or slot(<PyObject*>trial, &plan.forms[place]) != <PyObject*>value
        ):
            raise TypeError(f"{kind.__name__} keeps its fields elsewhere")
    plan.built = (
        kind.__basicsize__ == sizeof(PyObject) + plan.count * sizeof(void*)
        and not (<PyTypeObject*>kind).tp_flags & Py_TPFLAGS_HAVE_GC
        and not hasattr(kind, "__post_init__")
    )
    return 0


cdef inline PyObject* slot(PyObject* instance, const Form* form) noexcept:
    return (<PyObject**>(<char*>instance + form.offset))[0]


# ----- writing -------------------------------------------------------------------------------

cdef struct Out:
    uint8_t* at
    uint8_t* end
    uint8_t* start
    uint8_t* heap               # NULL while the stack is enough


cdef inline void begin(Out* out, uint8_t* stack) noexcept:
    out.at = out.start = stack
    out.end = stack + STACK_BYTES
    out.heap = NULL


cdef bint grow(Out* out, size_t more) noexcept:
    cdef size_t used = out.at - out.start
    cdef size_t room = 2 * (used + more)
    cdef uint8_t* memory = <uint8_t*>realloc(out.heap, room)
    if memory == NULL:
        return False
    if out.heap == NULL:
        memcpy(memory, out.start, used)
    out.heap = out.start = memory
    out.at = memory + used
    out.end = memory + room
    return True


cdef inline bint has_room(Out* out, size_t more) noexcept:
    return likely(<size_t>(out.end - out.at) >= more) or grow(out, more)


cdef inline void put_byte(Out* out, uint8_t byte) noexcept:
    out.at[0] = byte
    out.at += 1


cdef inline void put_word(Out* out, uint64_t value) noexcept:
    cdef int width = width_of(value)
    out.at[0] = <uint8_t>width
    store(out.at + 1, value)
    out.at += 1 + width


cdef bint put_words(Out* out, PyObject* value) noexcept:
    # An integer of more than a digit.
    cdef uint64_t words[6]
    cdef int top = 3, width
    if is_negative(value) or not words_of(value, digit_count(value), words):
        return False
    while top and not words[top]:
        top -= 1
    width = 8 * top + width_of(words[top])
    out.at[0] = <uint8_t>width
    memcpy(out.at + 1, words, 32)
    out.at += 1 + width
    return True


cdef inline bint put_integer(Out* out, PyObject* value) noexcept:
    cdef Py_ssize_t small
    if unlikely(not is_integer(value)) or unlikely(not has_room(out, INTEGER_ROOM)):
        return False
    if likely(is_compact(value)):
        small = compact_value(value)
        if unlikely(small < 0):
            return False
        put_word(out, small)
        return True
    return put_words(out, value)


cdef inline bint put_raw(Out* out, const char* at, Py_ssize_t length) noexcept:
    if unlikely(not has_room(out, length + INTEGER_ROOM)):
        return False
    put_word(out, length)
    memcpy(out.at, at, length)
    out.at += length
    return True


cdef bint put_wide_text(Out* out, PyObject* text) noexcept:
    # Not through the UTF-8 that a text can keep: it would stay for as long as the text.
    cdef PyObject* raw = encoded(text, "utf-8", "surrogatepass")
    if raw == NULL:
        return False
    cdef bint done = put_raw(out, PyBytes_AS_STRING(<object>raw), PyBytes_GET_SIZE(<object>raw))
    decref(raw)
    return done


cdef inline bint put_text(Out* out, PyObject* text) noexcept:
    if unlikely(not is_text(text)):
        return False
    if likely(is_ascii(text)):
        return put_raw(out, ascii_of(text), text_length(text))
    return put_wide_text(out, text)


cdef inline bint put_order_id(Out* out, PyObject* value) noexcept:
    put_byte(out, is_text(value))
    return put_text(out, value) if is_text(value) else put_integer(out, value)


cdef inline bint put_member(Out* out, const Form* form, PyObject* value) noexcept:
    cdef int place
    for place in range(form.num_members):
        if form.members[place] == value:
            put_byte(out, <uint8_t>place)
            return True
    return False


cdef bint put_many(Out* out, const Form* item, PyObject* value) noexcept:
    cdef Py_ssize_t place
    if not is_tuple(value):
        return False
    put_word(out, tuple_size(value))
    for place in range(tuple_size(value)):
        if not put(out, item, tuple_item(value, place)):
            return False
    return True


cdef bint put_any_of(Out* out, Plan** plans, PyObject* value) noexcept:
    cdef int number
    for number in range(NUMBERS_MAX):
        if plans[number] != NULL and plans[number].kind == <PyObject*>type_of(value):
            put_byte(out, <uint8_t>number)
            return put_fields(out, plans[number], value)
    return False


cdef bint put(Out* out, const Form* form, PyObject* value) noexcept:
    # False where it cannot be written.
    if unlikely(not has_room(out, INTEGER_ROOM)):
        return False
    if form.optional:
        put_byte(out, value != NONE)
        if value == NONE:
            return True
    if form.what == INTEGER:
        return put_integer(out, value)
    if form.what == TEXT:
        return put_text(out, value)
    if form.what == WORD:
        return put_member(out, form, value)
    if form.what == FLAG:
        if form.bit:
            out.at[-1] |= (value == TRUE) << form.bit
        else:
            put_byte(out, value == TRUE)
        return value == TRUE or value == FALSE
    if form.what == ORDER_ID:
        return put_order_id(out, value)
    if form.what == RAW:
        return is_raw(value) and put_raw(
            out, PyBytes_AS_STRING(<object>value), PyBytes_GET_SIZE(<object>value)
        )
    if form.what == STRUCT:
        return <PyObject*>type_of(value) == form.plan.kind and put_fields(out, form.plan, value)
    if form.what == MANY:
        return put_many(out, form.item, value)
    return put_any_of(out, form.plans, value)


cdef bint put_fields(Out* out, const Plan* plan, PyObject* instance) noexcept:
    cdef int place
    cdef PyObject* value
    for place in range(plan.count):
        value = slot(instance, &plan.forms[place])
        if unlikely(value == NULL) or unlikely(not put(out, &plan.forms[place], value)):
            return False
    return True


cdef bint put_all(Out* out, object values):
    # No Python code runs in here, so that the list stays as long as it is.
    cdef PyObject* found
    for value in values:
        found = dict_get(<PyObject*>PLANS, <PyObject*>type_of(<PyObject*>value))
        if found == NULL or not (<Planned>found).plan.number or not has_room(out, INTEGER_ROOM):
            return False
        put_byte(out, <uint8_t>(<Planned>found).plan.number)
        if not put_fields(out, (<Planned>found).plan, <PyObject*>value):
            return False
    return True


cdef bytes written(const Plan* plan, object value, bint numbered):
    # None where it cannot be written.
    cdef uint8_t stack[STACK_BYTES]
    cdef Out out
    cdef bytes result = None
    begin(&out, stack)
    if numbered:
        put_byte(&out, <uint8_t>plan.number)
    if put_fields(&out, plan, <PyObject*>value):
        result = PyBytes_FromStringAndSize(<char*>out.start, out.at - out.start)
    else:
        forget()
    free(out.heap)
    return result


# ----- reading -------------------------------------------------------------------------------

cdef struct In:
    const uint8_t* at
    const uint8_t* end


# Texts that come again and again, such as makers and tokens, are one object: it takes less memory,
# and its hash is known. What two texts that fall together cost is a miss.
cdef PyObject** CACHE = <PyObject**>zeroed(CACHE_ENTRIES, sizeof(PyObject*))


cdef inline bint get_word(In* data, uint64_t* value) noexcept:
    # An integer of at most 64 bits.
    cdef int width
    if unlikely(data.at == data.end):
        return False
    width = data.at[0]
    if width > 8 or data.end - data.at - 1 < width:
        return False
    value[0] = 0
    memcpy(value, data.at + 1, width)
    data.at += 1 + width
    return width == 0 or data.at[-1] != 0


cdef PyObject* get_wide_integer(In* data) noexcept:
    # An integer of more than 64 bits.
    cdef uint64_t words[2]
    cdef const uint8_t* start = data.at + 1
    cdef int width = data.at[0]
    if width > 32 or data.end - start < width or start[width - 1] == 0:
        return NULL
    data.at = start + width
    if width > 16:
        return huge_integer(start, width)
    words[1] = 0
    memcpy(words, start, width)
    return large_integer(words[0], words[1])


cdef inline PyObject* get_integer(In* data) noexcept:
    cdef uint64_t value
    if likely(get_word(data, &value)):
        return small_integer(value)
    if data.at < data.end and data.at[0] > 8:
        return get_wide_integer(data)
    return NULL


cdef inline bint get_raw(In* data, const uint8_t** at, Py_ssize_t* length) noexcept:
    cdef uint64_t announced
    if unlikely(not get_word(data, &announced)):
        return False
    if unlikely(announced > <uint64_t>(data.end - data.at)):
        return False
    at[0] = data.at
    length[0] = announced
    data.at += announced
    return True


cdef inline uint64_t place_of(const uint8_t* at, Py_ssize_t length) noexcept:
    # Where in the cache a text belongs, by its last 16 bytes and 8 in the middle.
    cdef uint64_t mixed = length
    cdef Py_ssize_t place
    if length >= 16:
        mixed = (mixed ^ load(at + length - 8)) * 0x9E3779B97F4A7C15ULL
        mixed = (mixed ^ load(at + length - 16)) * 0xC2B2AE3D27D4EB4FULL
        mixed = (mixed ^ load(at + (length >> 1) - 8)) * 0x9E3779B97F4A7C15ULL
    else:
        for place in range(length):
            mixed = (mixed ^ at[place]) * 0x9E3779B97F4A7C15ULL
    return mixed >> 52


cdef PyObject* get_text(In* data, bint fresh) noexcept:
    cdef const uint8_t* at = NULL
    cdef Py_ssize_t length = 0
    cdef PyObject** entry
    cdef PyObject* text
    if unlikely(not get_raw(data, &at, &length)):
        return NULL
    # Python has texts of one character and less already.
    if length < 2:
        return new_text(<const char*>at, length, "surrogatepass")
    if fresh or length > CACHED_MAX:
        if all_ascii(at, length):
            return new_ascii(at, length)
        return new_text(<const char*>at, length, "surrogatepass")
    entry = CACHE + place_of(at, length)
    text = entry[0]
    if text != NULL and text_length(text) == length and not memcmp(ascii_of(text), at, length):
        incref(text)
        return text
    if not all_ascii(at, length):
        return new_text(<const char*>at, length, "surrogatepass")
    text = new_ascii(at, length)
    if text != NULL:
        incref(text)
        entry[0], text = text, entry[0]
        decref_maybe(text)
        return entry[0]
    return NULL


cdef inline PyObject* get_order_id(In* data) noexcept:
    cdef uint8_t is_text
    if unlikely(data.at == data.end) or data.at[0] > 1:
        return NULL
    is_text = data.at[0]
    data.at += 1
    return get_text(data, True) if is_text else get_integer(data)


cdef inline PyObject* get_member(In* data, PyObject** members, int num_members) noexcept:
    cdef PyObject* member
    if unlikely(data.at == data.end) or data.at[0] >= num_members:
        return NULL
    member = members[data.at[0]]
    data.at += 1
    if member != NULL:
        incref(member)
    return member


cdef PyObject* get_many(In* data, const Form* item) noexcept:
    # Each item takes a byte at least, so that no count makes room beyond what it brings.
    cdef uint64_t count, place
    cdef PyObject* value
    if not get_word(data, &count) or count > <uint64_t>(data.end - data.at):
        return NULL
    cdef PyObject* result = new_tuple(count)
    if result == NULL:
        return NULL
    for place in range(count):
        value = get(data, item)
        if value == NULL:
            decref(result)
            return NULL
        set_item(result, place, value)
    return result


cdef PyObject* get(In* data, const Form* form) noexcept:
    # A new reference, or NULL where the bytes are not canonical.
    cdef const uint8_t* at = NULL
    cdef Py_ssize_t length = 0
    cdef uint8_t given
    if form.optional:
        if unlikely(data.at == data.end) or data.at[0] > 1:
            return NULL
        given = data.at[0]
        data.at += 1
        if not given:
            incref(NONE)
            return NONE
    if form.what == INTEGER:
        return get_integer(data)
    if form.what == TEXT:
        return get_text(data, form.fresh)
    if form.what == WORD:
        return get_member(data, form.members, form.num_members)
    if form.what == FLAG:
        return get_flag(data, form)
    if form.what == ORDER_ID:
        return get_order_id(data)
    if form.what == RAW:
        return new_bytes(<const char*>at, length) if get_raw(data, &at, &length) else NULL
    if form.what == STRUCT:
        return get_fields(data, form.plan)
    if form.what == MANY:
        return get_many(data, form.item)
    return get_numbered(data, form.plans)


cdef PyObject* get_flag(In* data, const Form* form) noexcept:
    cdef PyObject* flag
    if form.bit == 0:
        if unlikely(data.at == data.end) or data.at[0] >> form.bits:
            return NULL
        data.at += 1
    flag = TRUE if data.at[-1] >> form.bit & 1 else FALSE
    incref(flag)
    return flag


cdef PyObject* get_numbered(In* data, Plan** plans) noexcept:
    cdef const Plan* plan
    if unlikely(data.at == data.end):
        return NULL
    plan = plans[data.at[0]]
    data.at += 1
    return get_fields(data, plan) if plan != NULL else NULL


cdef PyObject* get_fields(In* data, const Plan* plan) noexcept:
    cdef PyObject* fields[FIELDS_MAX]
    cdef PyObject* instance = NULL
    cdef int place, count
    for place in range(plan.count):
        fields[place] = get(data, &plan.forms[place])
        if unlikely(fields[place] == NULL):
            break
    else:
        if unlikely(not plan.built):
            instance = made(plan, fields)
        else:
            instance = new_instance(<PyTypeObject*>plan.kind)
            if likely(instance != NULL):
                for place in range(plan.count):
                    (<PyObject**>(<char*>instance + plan.forms[place].offset))[0] = fields[place]
                return instance
        place = plan.count
    for count in range(place):
        decref(fields[count])
    return instance


cdef PyObject* made(const Plan* plan, PyObject** fields) noexcept:
    # An instance by its constructor.
    cdef PyObject* named = new_dict()
    cdef PyObject* instance = NULL
    cdef int place
    if named == NULL:
        return NULL
    for place in range(plan.count):
        if dict_set(named, tuple_item(plan.names, place), fields[place]):
            break
    else:
        instance = call(plan.kind, <PyObject*>NO_ARGUMENTS, named)
    decref(named)
    return instance


cdef tuple NO_ARGUMENTS = ()

for _number, _kind in layouts.KINDS.items():
    BY_NUMBER[<int>_number] = plan_of(_kind)


# ----- what is public ------------------------------------------------------------------------


def encode(value):
    """Write a command or an event, the number of its kind first."""
    cdef PyObject* found = dict_get(<PyObject*>PLANS, <PyObject*>type_of(<PyObject*>value))
    cdef bytes result = None
    if likely(found != NULL) and (<Planned>found).plan.number:
        result = written((<Planned>found).plan, value, True)
    return _codec_py.encode(value) if unlikely(result is None) else result


def encode_all(values):
    """Write commands or events one after the other, and how many they are in front."""
    cdef uint8_t stack[STACK_BYTES]
    cdef Out out
    cdef bytes result = None
    if type(values) is list or type(values) is tuple:
        begin(&out, stack)
        put_word(&out, len(values))
        if put_all(&out, values):
            result = PyBytes_FromStringAndSize(<char*>out.start, out.at - out.start)
        forget()
        free(out.heap)
    return _codec_py.encode_all(values) if unlikely(result is None) else result


def write(value):
    """Write any frozen Struct of this package, without the number of a kind."""
    cdef bytes result = None
    try:
        result = written(plan_of(type(value)), value, False)
    except TypeError:
        pass  # the twin says why
    return _codec_py.write(value) if unlikely(result is None) else result


def decode(data):
    """Read a command or an event."""
    cdef In bytes_in
    cdef PyObject* found = NULL
    cdef object value
    if likely(is_raw(<PyObject*>data)):
        bytes_in.at = <const uint8_t*>PyBytes_AS_STRING(data)
        bytes_in.end = bytes_in.at + PyBytes_GET_SIZE(data)
        found = get_numbered(&bytes_in, BY_NUMBER)
        if likely(found != NULL):
            value = <object>found
            decref(found)
            if likely(bytes_in.at == bytes_in.end):
                return value
    forget()
    return _codec_py.decode(data)


def read(kind, data, offset=0):
    """Read a Struct that stands among other bytes."""
    cdef In bytes_in
    cdef PyObject* found = NULL
    cdef const uint8_t* start
    cdef object value
    if is_raw(<PyObject*>data) and type(offset) is int and 0 <= offset <= len(data):
        start = <const uint8_t*>PyBytes_AS_STRING(data)
        bytes_in.at = start + <Py_ssize_t>offset
        bytes_in.end = start + PyBytes_GET_SIZE(data)
        try:
            found = get_fields(&bytes_in, plan_of(kind))
        except TypeError:
            pass  # the twin says why
        if found != NULL:
            value = <object>found
            decref(found)
            return value, bytes_in.at - start
    forget()
    return _codec_py.read(kind, data, offset)


def split(data, offset, end, count):
    """Cut pieces out of bytes, each with its length in 4 bytes in front, lowest first."""
    if not is_raw(<PyObject*>data) or not (0 <= offset <= len(data) and 0 <= end <= len(data)):
        return _codec_py.split(data, offset, end, count)
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef Py_ssize_t place = offset, last = end
    cdef uint32_t length
    cdef list pieces = []
    while last - place >= 4 and len(pieces) < count:
        memcpy(&length, at + place, 4)
        place += 4
        if length > last - place:
            return None
        pieces.append(PyBytes_FromStringAndSize(at + place, length))
        place += length
    return tuple(pieces) if place == last and len(pieces) == count else None
