# C code and declarations that Cython has no words for: 128-bit integers, event fields, text.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
    object PyObject_New "(PyObject *)_PyObject_New"(PyTypeObject* kind)
    unsigned long Py_TPFLAGS_HAVE_GC
    void PyObject_GC_UnTrack(void* op)


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include "structmember.h"
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    typedef unsigned __int128 u128;

    /* Functions declared inline are always inlined: a matching loop is compiled several times,
       each time for constants known at the call. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))

    #define clob_ctz(x) __builtin_ctzll(x)
    #define clob_likely(x) __builtin_expect(!!(x), 1)
    #define clob_unlikely(x) __builtin_expect(!!(x), 0)
    #define clob_prefetch(p) __builtin_prefetch(p)

    static inline u128 clob_join(uint64_t lo, uint64_t hi) { return ((u128)hi << 64) | lo; }
    static inline uint64_t clob_lo(u128 v) { return (uint64_t)v; }
    static inline uint64_t clob_hi(u128 v) { return (uint64_t)(v >> 64); }

    /* The records of the batch interface, in the layout of clob.records. */
    typedef struct {
        int64_t ts_ns, recv_ns; uint64_t seq, order_id; int64_t size; uint32_t owner;
        int32_t price; uint16_t instrument; uint8_t kind, side; uint16_t flags;
    } ClobEvent;
    typedef struct {
        uint64_t event, resting_id, incoming_id; int64_t size; int32_t price; int64_t ts_ns;
    } ClobFill;
    typedef struct {
        uint64_t event; int64_t ts_ns, bid_size, ask_size; int32_t bid, ask; uint16_t instrument;
    } ClobBest;

    /* Another thread may write to the array during a run. A volatile read happens once, so the
       value that was checked is the value used. */
    #define clob_once(type, field) (*(const volatile type *)&(field))
    static inline uint8_t clob_kind(const ClobEvent *e) { return clob_once(uint8_t, e->kind); }
    static inline uint8_t clob_side(const ClobEvent *e) { return clob_once(uint8_t, e->side); }
    static inline uint16_t clob_instrument(const ClobEvent *e) {
        return clob_once(uint16_t, e->instrument);
    }
    static inline uint16_t clob_flags(const ClobEvent *e) { return clob_once(uint16_t, e->flags); }
    static inline int32_t clob_price(const ClobEvent *e) { return clob_once(int32_t, e->price); }
    static inline uint32_t clob_owner(const ClobEvent *e) { return clob_once(uint32_t, e->owner); }
    static inline int64_t clob_size(const ClobEvent *e) { return clob_once(int64_t, e->size); }
    static inline uint64_t clob_id(const ClobEvent *e) { return clob_once(uint64_t, e->order_id); }
    static inline int64_t clob_ts(const ClobEvent *e) { return clob_once(int64_t, e->ts_ns); }

    /* A mask of twelve bits: which of a bucket's tags equal a tag. */
    static inline uint32_t clob_tags_equal(const uint8_t *tags, uint8_t tag) {
    #if defined(__SSE2__)
        __m128i all = _mm_load_si128((const __m128i *)tags);
        return _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8((char)tag))) & 0xFFF;
    #else
        uint32_t mask = 0;
        for (int i = 0; i < 12; i++) mask |= (uint32_t)(tags[i] == tag) << i;
        return mask;
    #endif
    }

    /* PyObject_Hash stores the hash in the text; from then on it can be read without the GIL. */
    static inline uint64_t clob_text_hash(const PyObject *text) {
        return (uint64_t)((const PyASCIIObject *)text)->hash;
    }

    static inline int clob_text_equal(PyObject *a, PyObject *b) {
        if (a == b) return 1;
        Py_ssize_t length = PyUnicode_GET_LENGTH(a);
        if (length != PyUnicode_GET_LENGTH(b) || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return 0;
        return !memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), length * PyUnicode_KIND(a));
    }

    /* A Python integer of up to 128 bits, digit by digit; conversion by bytes is 4 times slower. */
    static inline PyObject *clob_integer(u128 value) {
        if (!(value >> 64)) return PyLong_FromUnsignedLongLong((uint64_t)value);
    #if PY_VERSION_HEX < 0x030D0000
        int count = 0;
        for (u128 rest = value; rest; rest >>= PyLong_SHIFT) count++;
        PyLongObject *result = _PyLong_New(count);
        if (result == NULL) return NULL;
    #if PY_VERSION_HEX < 0x030C0000
        digit *digits = result->ob_digit;
    #else
        digit *digits = result->long_value.ob_digit;
    #endif
        for (int i = 0; i < count; i++, value >>= PyLong_SHIFT)
            digits[i] = (digit)(value & PyLong_MASK);
        return (PyObject *)result;
    #else
        return PyLong_FromUnsignedNativeBytes(
            &value, sizeof(value), Py_ASNATIVEBYTES_NATIVE_ENDIAN);
    #endif
    }

    /* The offset of a slot of a Struct type, or -1 if the type has no such slot. */
    static inline Py_ssize_t clob_slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    """
    ctypedef unsigned long long u128 "u128"
    int ctz "clob_ctz"(uint64_t x) noexcept nogil
    bint likely "clob_likely"(bint x) noexcept nogil
    bint unlikely "clob_unlikely"(bint x) noexcept nogil
    void prefetch "clob_prefetch"(const void* p) noexcept nogil
    u128 join "clob_join"(uint64_t lo, uint64_t hi) noexcept nogil
    uint64_t low "clob_lo"(u128 v) noexcept nogil
    uint64_t high "clob_hi"(u128 v) noexcept nogil
    object integer "clob_integer"(u128 value)
    # Cython's own helpers, which cover the integers of all versions of CPython.
    bint is_compact "__Pyx_PyLong_IsCompact"(PyObject* value) noexcept
    Py_ssize_t compact_value "__Pyx_PyLong_CompactValue"(PyObject* value) noexcept
    bint is_negative "__Pyx_PyLong_IsNeg"(PyObject* value) noexcept
    Py_ssize_t digit_count "__Pyx_PyLong_DigitCount"(PyObject* value) noexcept
    int PyLong_SHIFT
    # On borrowed references: counting each of them up and down costs measurable time.
    bint is_integer "PyLong_CheckExact"(PyObject* value) noexcept
    bint is_text "PyUnicode_CheckExact"(PyObject* value) noexcept
    Py_ssize_t text_length "PyUnicode_GET_LENGTH"(PyObject* text) noexcept
    int64_t to_i64 "PyLong_AsLongLongAndOverflow"(PyObject* value, int* overflow) noexcept

    ctypedef struct Event "ClobEvent":
        int64_t ts_ns
        uint16_t instrument

    ctypedef struct Fill "ClobFill":
        uint64_t event
        uint64_t resting_id
        uint64_t incoming_id
        int64_t size
        int32_t price
        int64_t ts_ns

    ctypedef struct Best "ClobBest":
        uint64_t event
        int64_t ts_ns
        int64_t bid_size
        int64_t ask_size
        int32_t bid
        int32_t ask
        uint16_t instrument

    uint8_t kind_of "clob_kind"(const Event* event) noexcept nogil
    uint8_t side_of_event "clob_side"(const Event* event) noexcept nogil
    uint16_t instrument_of "clob_instrument"(const Event* event) noexcept nogil
    uint16_t flags_of "clob_flags"(const Event* event) noexcept nogil
    int32_t price_of "clob_price"(const Event* event) noexcept nogil
    uint32_t owner_of "clob_owner"(const Event* event) noexcept nogil
    int64_t lots_of "clob_size"(const Event* event) noexcept nogil
    uint64_t id_of "clob_id"(const Event* event) noexcept nogil
    int64_t ts_of "clob_ts"(const Event* event) noexcept nogil
    uint32_t tags_equal "clob_tags_equal"(const uint8_t* tags, uint8_t tag) noexcept nogil
    uint64_t text_hash "clob_text_hash"(const PyObject* text) noexcept nogil
    bint text_equal "clob_text_equal"(PyObject* a, PyObject* b) noexcept
    Py_ssize_t slot_offset "clob_slot_offset"(PyObject* descriptor) noexcept
