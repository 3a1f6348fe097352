# cython: language_level=3, cdivision=True, embedsignature=True, embedsignature.format=python
"""Compiled codec. `_codec_py.py` behaves the same and has the full documentation.

A plan is the layout of a Struct in C, with the offsets of its fields in an instance. Values and
bytes that cannot be handled here go to the pure-Python twin, which raises the error; a failed
attempt has no side effects. Plans are never freed.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from clob.codec import _codec_py, layout as layout_module

# ----- C declarations ------------------------------------------------------------------------

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include "structmember.h"

    typedef unsigned __int128 u128;

    /* Canonical bytes are little-endian; other machines use the pure-Python twin. */
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the compiled codec is for little-endian machines"
    #endif

    /* Inline functions below must be inlined for speed. */
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

    /* Convert an integer of several digits to 64-bit words, digit by digit, which is much faster
       than by bytes. False if it has more than 256 bits. */
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

    /* An ASCII text stores its UTF-8 in the object itself. */
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

    /* Offset of a slot of a Struct type, or -1 if it is not a slot. */
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
    # Cython's integer helpers for all CPython versions.
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
    ctypedef struct Buffer "Py_buffer":
        void* buf
        Py_ssize_t len, itemsize
        Py_ssize_t* strides
        int readonly, ndim
        char* format
    bint is_memoryview "PyMemoryView_Check"(PyObject* value) noexcept
    Buffer* buffer_of "PyMemoryView_GET_BUFFER"(PyObject* view) noexcept
    bint is_tuple "PyTuple_CheckExact"(PyObject* value) noexcept
    Py_ssize_t text_length "PyUnicode_GET_LENGTH"(PyObject* text) noexcept
    Py_ssize_t tuple_size "PyTuple_GET_SIZE"(PyObject* value) noexcept
    PyObject* tuple_item "PyTuple_GET_ITEM"(PyObject* value, Py_ssize_t index) noexcept
    void set_item "PyTuple_SET_ITEM"(PyObject* value, Py_ssize_t index, PyObject* item) noexcept
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
    void clear_error "PyErr_Clear"() noexcept
    void incref "Py_INCREF"(PyObject* value) noexcept
    void decref "Py_DECREF"(PyObject* value) noexcept
    void decref_maybe "Py_XDECREF"(PyObject* value) noexcept
    PyObject* TRUE "Py_True"
    PyObject* FALSE "Py_False"
    PyObject* NONE "Py_None"

# ----- plans ---------------------------------------------------------------------------------

cdef enum:
    # As in clob.codec.layout.Encoding.
    INTEGER = 0
    FLAG = 1
    MEMBER = 2
    TEXT = 3
    BYTES = 4
    ORDER_ID = 5
    STRUCT = 6
    TUPLE = 7
    UNION = 8

    FIELDS_MAX = 32
    NUMBERS_MAX = 256
    STACK_BYTES = 2048
    INTEGER_ROOM = 48           # a 32-byte integer with its length, plus one 64-bit store beyond it
    CACHE_ENTRIES = 4096
    CACHED_MAX = 128            # characters of the longest cached text

# Fields with mostly unique texts, which would evict useful ones from the cache.
cdef frozenset UNCACHED = frozenset(("client_id", "reason", "message"))


cdef struct Plan


cdef struct Form:
    # Encoding of a field, and its offset in an instance.
    Py_ssize_t offset
    int encoding
    bint optional
    bint uncached
    int bit                     # FLAG: its bit; above 0, in the byte of the field before
    int bits                    # FLAG with bit 0: number of flags in the byte
    int num_members
    PyObject** members          # MEMBER: by number; NULL for unused numbers
    Plan* plan                  # STRUCT
    Plan** plans                # UNION: by number; NULL for other kinds
    Form* item                  # TUPLE


cdef struct Plan:
    PyObject* kind
    PyObject* names
    Form* forms
    int count
    int number                  # of the kind; 0 for other Structs
    bint fill_slots             # instances can be constructed slot by slot


@cython.final
cdef class PlanHolder:
    """Wraps a plan as a dictionary value."""

    cdef Plan* plan


cdef dict PLANS = {}
cdef Plan* BY_NUMBER[NUMBERS_MAX]


cdef void* zeroed(size_t count, size_t size) except NULL:
    cdef void* memory = calloc(count or 1, size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef PyObject* permanent(object value) except NULL:
    # Return a reference that is never released.
    Py_INCREF(value)
    return <PyObject*>value


cdef Plan* plan_of(object kind) except NULL:
    # Raises TypeError for types without a layout.
    cdef PyObject* known = dict_get(<PyObject*>PLANS, <PyObject*>kind)
    if known != NULL:
        return (<PlanHolder>known).plan
    cdef tuple layout = layout_module.layout_of(kind)
    cdef Plan* plan = <Plan*>zeroed(1, sizeof(Plan))
    cdef PlanHolder holder = PlanHolder()
    cdef int index
    if len(layout) > FIELDS_MAX:
        raise TypeError(f"{kind.__name__} has more than {FIELDS_MAX} fields")
    plan.kind = permanent(kind)
    plan.names = permanent(kind.__struct_fields__)
    plan.number = layout_module.NUMBERS.get(kind, 0)
    plan.count = len(layout)
    plan.forms = <Form*>zeroed(plan.count, sizeof(Form))
    for index in range(plan.count):
        name, form = layout[index]
        fill_form(&plan.forms[index], form)
        plan.forms[index].uncached = name in UNCACHED
    find_offsets(kind, plan)
    holder.plan = plan
    PLANS[kind] = holder
    return plan


cdef int fill_form(Form* to, object form) except -1:
    cdef int index
    to.encoding = form.encoding
    to.optional = form.optional
    to.bit, to.bits = form.bit, form.bits
    if to.encoding == MEMBER:
        to.num_members = len(form.members)
        to.members = <PyObject**>zeroed(to.num_members, sizeof(PyObject*))
        for index in range(to.num_members):
            if form.members[index] is not None:
                to.members[index] = permanent(form.members[index])
    elif to.encoding == STRUCT:
        to.plan = plan_of(form.kind)
    elif to.encoding == UNION:
        to.plans = <Plan**>zeroed(NUMBERS_MAX, sizeof(Plan*))
        for number in form.kinds:
            to.plans[<int>number] = plan_of(layout_module.KINDS[number])
    elif to.encoding == TUPLE:
        to.item = <Form*>zeroed(1, sizeof(Form))
        fill_form(to.item, form.item)
    return 0


cdef int find_offsets(object kind, Plan* plan) except -1:
    # Reading a field by offset takes a fifth of the time of an attribute lookup, and filling all
    # slots takes half of a constructor call. The offsets are checked on an instance with a
    # different object in each field.
    cdef int index
    cdef tuple names = <tuple>plan.names
    cdef object trial = kind(**{name: object() for name in names})
    cdef object descriptor, value
    for index in range(plan.count):
        descriptor = getattr(kind, names[index])
        value = getattr(trial, names[index])
        plan.forms[index].offset = slot_offset(<PyObject*>descriptor)
        if (
            plan.forms[index].offset < 0
            or slot(<PyObject*>trial, &plan.forms[index]) != <PyObject*>value
        ):
            raise TypeError(f"{kind.__name__} has fields at unknown offsets")
    plan.fill_slots = (
        kind.__basicsize__ == sizeof(PyObject) + plan.count * sizeof(void*)
        and not (<PyTypeObject*>kind).tp_flags & Py_TPFLAGS_HAVE_GC
        and not hasattr(kind, "__post_init__")
    )
    return 0


cdef inline PyObject* slot(PyObject* instance, const Form* form) noexcept:
    return (<PyObject**>(<char*>instance + form.offset))[0]


# ----- encoding ------------------------------------------------------------------------------

cdef struct Writer:
    uint8_t* at
    uint8_t* end
    uint8_t* start
    uint8_t* heap               # NULL while the data fits on the stack


cdef inline void begin(Writer* out, uint8_t* stack) noexcept:
    out.at = out.start = stack
    out.end = stack + STACK_BYTES
    out.heap = NULL


cdef bint grow(Writer* out, size_t more) noexcept:
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


cdef inline bint has_room(Writer* out, size_t more) noexcept:
    return likely(<size_t>(out.end - out.at) >= more) or grow(out, more)


cdef inline void put_byte(Writer* out, uint8_t byte) noexcept:
    out.at[0] = byte
    out.at += 1


cdef inline void put_uint64(Writer* out, uint64_t value) noexcept:
    cdef int width = width_of(value)
    out.at[0] = <uint8_t>width
    store(out.at + 1, value)
    out.at += 1 + width


cdef bint put_large_integer(Writer* out, PyObject* value) noexcept:
    # Write an integer of several digits.
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


cdef inline bint put_integer(Writer* out, PyObject* value) noexcept:
    cdef Py_ssize_t small
    if unlikely(not is_integer(value)) or unlikely(not has_room(out, INTEGER_ROOM)):
        return False
    if likely(is_compact(value)):
        small = compact_value(value)
        if unlikely(small < 0):
            return False
        put_uint64(out, small)
        return True
    return put_large_integer(out, value)


cdef inline bint put_raw(Writer* out, const char* at, Py_ssize_t length) noexcept:
    if unlikely(not has_room(out, length + INTEGER_ROOM)):
        return False
    put_uint64(out, length)
    memcpy(out.at, at, length)
    out.at += length
    return True


cdef bint put_non_ascii_text(Writer* out, PyObject* text) noexcept:
    # Encode to temporary bytes: PyUnicode_AsUTF8 would keep its result as long as the text.
    cdef PyObject* raw = encoded(text, "utf-8", "surrogatepass")
    if raw == NULL:
        return False
    cdef bint done = put_raw(out, PyBytes_AS_STRING(<object>raw), PyBytes_GET_SIZE(<object>raw))
    decref(raw)
    return done


cdef inline bint put_text(Writer* out, PyObject* text) noexcept:
    if unlikely(not is_text(text)):
        return False
    if likely(is_ascii(text)):
        return put_raw(out, ascii_of(text), text_length(text))
    return put_non_ascii_text(out, text)


cdef inline bint put_order_id(Writer* out, PyObject* value) noexcept:
    put_byte(out, is_text(value))
    return put_text(out, value) if is_text(value) else put_integer(out, value)


cdef inline bint put_member(Writer* out, const Form* form, PyObject* value) noexcept:
    cdef int index
    for index in range(form.num_members):
        if form.members[index] == value:
            put_byte(out, <uint8_t>index)
            return True
    return False


cdef bint put_tuple(Writer* out, const Form* item, PyObject* value) noexcept:
    cdef Py_ssize_t index
    if not is_tuple(value):
        return False
    put_uint64(out, tuple_size(value))
    for index in range(tuple_size(value)):
        if not put(out, item, tuple_item(value, index)):
            return False
    return True


cdef bint put_union(Writer* out, Plan** plans, PyObject* value) noexcept:
    cdef int number
    for number in range(NUMBERS_MAX):
        if plans[number] != NULL and plans[number].kind == <PyObject*>type_of(value):
            put_byte(out, <uint8_t>number)
            return put_fields(out, plans[number], value)
    return False


cdef bint put(Writer* out, const Form* form, PyObject* value) noexcept:
    # Return False if the value cannot be encoded.
    if unlikely(not has_room(out, INTEGER_ROOM)):
        return False
    if form.optional:
        put_byte(out, value != NONE)
        if value == NONE:
            return True
    if form.encoding == INTEGER:
        return put_integer(out, value)
    if form.encoding == TEXT:
        return put_text(out, value)
    if form.encoding == MEMBER:
        return put_member(out, form, value)
    if form.encoding == FLAG:
        if form.bit:
            out.at[-1] |= (value == TRUE) << form.bit
        else:
            put_byte(out, value == TRUE)
        return value == TRUE or value == FALSE
    if form.encoding == ORDER_ID:
        return put_order_id(out, value)
    if form.encoding == BYTES:
        return is_raw(value) and put_raw(
            out, PyBytes_AS_STRING(<object>value), PyBytes_GET_SIZE(<object>value)
        )
    if form.encoding == STRUCT:
        return <PyObject*>type_of(value) == form.plan.kind and put_fields(out, form.plan, value)
    if form.encoding == TUPLE:
        return put_tuple(out, form.item, value)
    return put_union(out, form.plans, value)


cdef bint put_fields(Writer* out, const Plan* plan, PyObject* instance) noexcept:
    cdef int index
    cdef PyObject* value
    for index in range(plan.count):
        value = slot(instance, &plan.forms[index])
        if unlikely(value == NULL) or unlikely(not put(out, &plan.forms[index], value)):
            return False
    return True


cdef bint put_all(Writer* out, object values):
    # No Python code runs in this loop, so the list cannot change its length.
    cdef PyObject* holder
    for value in values:
        holder = dict_get(<PyObject*>PLANS, <PyObject*>type_of(<PyObject*>value))
        if holder == NULL or not (<PlanHolder>holder).plan.number:
            return False
        if not has_room(out, INTEGER_ROOM):
            return False
        put_byte(out, <uint8_t>(<PlanHolder>holder).plan.number)
        if not put_fields(out, (<PlanHolder>holder).plan, <PyObject*>value):
            return False
    return True


cdef bytes encoded_struct(const Plan* plan, object value, bint numbered):
    # Return None if the value cannot be encoded.
    cdef uint8_t stack[STACK_BYTES]
    cdef Writer out
    cdef bytes result = None
    begin(&out, stack)
    if numbered:
        put_byte(&out, <uint8_t>plan.number)
    if put_fields(&out, plan, <PyObject*>value):
        result = PyBytes_FromStringAndSize(<char*>out.start, out.at - out.start)
    else:
        clear_error()
    free(out.heap)
    return result


# ----- decoding ------------------------------------------------------------------------------

cdef struct Reader:
    const uint8_t* at
    const uint8_t* end


# Repeated texts, such as makers and tokens, become one object, which saves memory and computes the
# hash once. Two texts with the same cache index replace each other.
cdef PyObject** CACHE = <PyObject**>zeroed(CACHE_ENTRIES, sizeof(PyObject*))


cdef inline bint get_uint64(Reader* data, uint64_t* value) noexcept:
    # Read an integer of at most 64 bits.
    cdef int width
    if unlikely(data.at == data.end):
        return False
    width = data.at[0]
    if width > 8 or data.end - data.at - 1 < width:
        return False
    # A rejected integer leaves the position, from which get_integer reads on.
    if unlikely(width > 0 and data.at[width] == 0):
        return False
    value[0] = 0
    memcpy(value, data.at + 1, width)
    data.at += 1 + width
    return True


cdef PyObject* get_large_integer(Reader* data) noexcept:
    # Read an integer of more than 64 bits.
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


cdef inline PyObject* get_integer(Reader* data) noexcept:
    cdef uint64_t value
    if likely(get_uint64(data, &value)):
        return small_integer(value)
    if data.at < data.end and data.at[0] > 8:
        return get_large_integer(data)
    return NULL


cdef inline bint get_raw(Reader* data, const uint8_t** at, Py_ssize_t* length) noexcept:
    cdef uint64_t size
    if unlikely(not get_uint64(data, &size)):
        return False
    if unlikely(size > <uint64_t>(data.end - data.at)):
        return False
    at[0] = data.at
    length[0] = size
    data.at += size
    return True


cdef inline uint64_t cache_index(const uint8_t* at, Py_ssize_t length) noexcept:
    # Compute the cache index of a text from its last 16 bytes and 8 in the middle.
    cdef uint64_t mixed = length
    cdef Py_ssize_t index
    if length >= 16:
        mixed = (mixed ^ load(at + length - 8)) * 0x9E3779B97F4A7C15ULL
        mixed = (mixed ^ load(at + length - 16)) * 0xC2B2AE3D27D4EB4FULL
        mixed = (mixed ^ load(at + (length >> 1) - 8)) * 0x9E3779B97F4A7C15ULL
    else:
        for index in range(length):
            mixed = (mixed ^ at[index]) * 0x9E3779B97F4A7C15ULL
    return mixed >> 52


cdef PyObject* get_text(Reader* data, bint uncached) noexcept:
    cdef const uint8_t* at = NULL
    cdef Py_ssize_t length = 0
    cdef PyObject** entry
    cdef PyObject* text
    if unlikely(not get_raw(data, &at, &length)):
        return NULL
    # CPython shares empty and one-character texts.
    if length < 2:
        return new_text(<const char*>at, length, "surrogatepass")
    if uncached or length > CACHED_MAX:
        if all_ascii(at, length):
            return new_ascii(at, length)
        return new_text(<const char*>at, length, "surrogatepass")
    entry = CACHE + cache_index(at, length)
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


cdef inline PyObject* get_order_id(Reader* data) noexcept:
    cdef uint8_t is_text
    if unlikely(data.at == data.end) or data.at[0] > 1:
        return NULL
    is_text = data.at[0]
    data.at += 1
    return get_text(data, True) if is_text else get_integer(data)


cdef inline PyObject* get_member(Reader* data, PyObject** members, int num_members) noexcept:
    cdef PyObject* member
    if unlikely(data.at == data.end) or data.at[0] >= num_members:
        return NULL
    member = members[data.at[0]]
    data.at += 1
    if member != NULL:
        incref(member)
    return member


cdef PyObject* get_tuple(Reader* data, const Form* item) noexcept:
    # Each item has at least one byte, which bounds the tuple allocated for a damaged count.
    cdef uint64_t count, index
    cdef PyObject* value
    if not get_uint64(data, &count) or count > <uint64_t>(data.end - data.at):
        return NULL
    cdef PyObject* result = new_tuple(count)
    if result == NULL:
        return NULL
    for index in range(count):
        value = get(data, item)
        if value == NULL:
            decref(result)
            return NULL
        set_item(result, index, value)
    return result


cdef PyObject* get(Reader* data, const Form* form) noexcept:
    # Return a new reference, or NULL if the bytes are not canonical.
    cdef const uint8_t* at = NULL
    cdef Py_ssize_t length = 0
    cdef uint8_t present
    if form.optional:
        if unlikely(data.at == data.end) or data.at[0] > 1:
            return NULL
        present = data.at[0]
        data.at += 1
        if not present:
            incref(NONE)
            return NONE
    if form.encoding == INTEGER:
        return get_integer(data)
    if form.encoding == TEXT:
        return get_text(data, form.uncached)
    if form.encoding == MEMBER:
        return get_member(data, form.members, form.num_members)
    if form.encoding == FLAG:
        return get_flag(data, form)
    if form.encoding == ORDER_ID:
        return get_order_id(data)
    if form.encoding == BYTES:
        return new_bytes(<const char*>at, length) if get_raw(data, &at, &length) else NULL
    if form.encoding == STRUCT:
        return get_fields(data, form.plan)
    if form.encoding == TUPLE:
        return get_tuple(data, form.item)
    return get_numbered(data, form.plans)


cdef PyObject* get_flag(Reader* data, const Form* form) noexcept:
    cdef PyObject* flag
    if form.bit == 0:
        if unlikely(data.at == data.end) or data.at[0] >> form.bits:
            return NULL
        data.at += 1
    flag = TRUE if data.at[-1] >> form.bit & 1 else FALSE
    incref(flag)
    return flag


cdef PyObject* get_numbered(Reader* data, Plan** plans) noexcept:
    cdef const Plan* plan
    if unlikely(data.at == data.end):
        return NULL
    plan = plans[data.at[0]]
    data.at += 1
    return get_fields(data, plan) if plan != NULL else NULL


cdef PyObject* get_fields(Reader* data, const Plan* plan) noexcept:
    cdef PyObject* fields[FIELDS_MAX]
    cdef PyObject* instance = NULL
    cdef int index, count
    for index in range(plan.count):
        fields[index] = get(data, &plan.forms[index])
        if unlikely(fields[index] == NULL):
            break
    else:
        if unlikely(not plan.fill_slots):
            instance = construct(plan, fields)
        else:
            instance = new_instance(<PyTypeObject*>plan.kind)
            if likely(instance != NULL):
                for index in range(plan.count):
                    (<PyObject**>(<char*>instance + plan.forms[index].offset))[0] = fields[index]
                return instance
        index = plan.count
    for count in range(index):
        decref(fields[count])
    return instance


cdef PyObject* construct(const Plan* plan, PyObject** fields) noexcept:
    # Call the constructor.
    cdef PyObject* keywords = new_dict()
    cdef PyObject* instance = NULL
    cdef int index
    if keywords == NULL:
        return NULL
    for index in range(plan.count):
        if dict_set(keywords, tuple_item(plan.names, index), fields[index]):
            break
    else:
        instance = call(plan.kind, <PyObject*>NO_ARGUMENTS, keywords)
    decref(keywords)
    return instance


cdef tuple NO_ARGUMENTS = ()

for _number, _kind in layout_module.KINDS.items():
    BY_NUMBER[<int>_number] = plan_of(_kind)


# ----- public functions ----------------------------------------------------------------------


def encode(value):
    """Encode a command or an event, starting with the number of its kind."""
    cdef PyObject* holder = dict_get(<PyObject*>PLANS, <PyObject*>type_of(<PyObject*>value))
    cdef bytes result = None
    if likely(holder != NULL) and (<PlanHolder>holder).plan.number:
        result = encoded_struct((<PlanHolder>holder).plan, value, True)
    return _codec_py.encode(value) if unlikely(result is None) else result


def encode_all(values):
    """Encode a sequence of commands and events, starting with its length."""
    cdef uint8_t stack[STACK_BYTES]
    cdef Writer out
    cdef bytes result = None
    if type(values) is list or type(values) is tuple:
        begin(&out, stack)
        put_uint64(&out, len(values))
        if put_all(&out, values):
            result = PyBytes_FromStringAndSize(<char*>out.start, out.at - out.start)
        clear_error()
        free(out.heap)
    return _codec_py.encode_all(values) if unlikely(result is None) else result


def write(value):
    """Encode any frozen Struct, without the number of a kind."""
    cdef bytes result = None
    try:
        result = encoded_struct(plan_of(type(value)), value, False)
    except TypeError:
        pass  # the twin raises it
    return _codec_py.write(value) if unlikely(result is None) else result


def decode(data):
    """Decode a command or an event."""
    cdef Reader reader
    cdef PyObject* result = NULL
    cdef object value
    if likely(is_raw(<PyObject*>data)):
        reader.at = <const uint8_t*>PyBytes_AS_STRING(data)
        reader.end = reader.at + PyBytes_GET_SIZE(data)
        result = get_numbered(&reader, BY_NUMBER)
        if likely(result != NULL):
            value = <object>result
            decref(result)
            if likely(reader.at == reader.end):
                return value
    clear_error()
    return _codec_py.decode(data)


cdef inline const uint8_t* start_of(data):
    # The first byte of bytes or of a view as layout_module.is_view describes, else NULL.
    cdef Buffer* buffer
    if likely(is_raw(<PyObject*>data)):
        return <const uint8_t*>PyBytes_AS_STRING(data)
    if not is_memoryview(<PyObject*>data):
        return NULL
    buffer = buffer_of(<PyObject*>data)
    if not buffer.readonly or buffer.ndim != 1 or buffer.format == NULL or buffer.itemsize != 1:
        return NULL
    if buffer.format[0] != c"B" or buffer.strides[0] != 1:
        return NULL
    return <const uint8_t*>buffer.buf


def read(kind, data, offset=0):
    """Decode a Struct at a position in the data."""
    cdef Reader reader
    cdef PyObject* result = NULL
    cdef const uint8_t* start = start_of(data)
    cdef object value
    if start != NULL and type(offset) is int and 0 <= offset <= len(data):
        reader.at = start + <Py_ssize_t>offset
        reader.end = start + <Py_ssize_t>len(data)
        try:
            result = get_fields(&reader, plan_of(kind))
        except TypeError:
            pass  # the twin raises it
        if result != NULL:
            value = <object>result
            decref(result)
            return value, reader.at - start
    clear_error()
    return _codec_py.read(kind, data, offset)


def split(data, offset, end, count):
    """Split bytes into pieces, each preceded by its length in 4 bytes, little-endian."""
    if not is_raw(<PyObject*>data) or not (0 <= offset <= len(data) and 0 <= end <= len(data)):
        return _codec_py.split(data, offset, end, count)
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef Py_ssize_t position = offset, last = end
    cdef uint32_t length
    cdef list pieces = []
    while last - position >= 4 and len(pieces) < count:
        memcpy(&length, at + position, 4)
        position += 4
        if length > last - position:
            return None
        pieces.append(PyBytes_FromStringAndSize(at + position, length))
        position += length
    return tuple(pieces) if position == last and len(pieces) == count else None
