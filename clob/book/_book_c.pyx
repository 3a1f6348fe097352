# cython: language_level=3, cdivision=True, embedsignature=True, embedsignature.format=python
"""The compiled Book: what `_book_py.py` says, done fast. The twin has the full documentation.

From the bottom up: words of C, records, price ladder, slab, index, matching, batch door, and
the Book itself. Everything above the Book is plain C that neither holds the GIL nor raises:
functions return 0 or the number of a refusal, and whatever can fail for want of memory is done
before anything changes. Sizes are counted in lots, so that records need no conversion.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_ND,
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from clob import errors
from clob import depth as _depth
from clob import events as _events
from clob import ladder as _ladder
from clob import order as _order
from clob.book import rejections as _rejections, state as _state_py, validation as _validation
from clob.errors import BookBusyError, FillsFullError, InvariantError, RunRejectedError
from clob.events import RemovalReason

# ----- words of C ---------------------------------------------------------------------------

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

    /* What is declared inline below is meant to be: a matching loop is compiled several times,
       for what is known where it is called. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))

    #define clob_ctz(x) __builtin_ctzll(x)
    #define clob_likely(x) __builtin_expect(!!(x), 1)
    #define clob_unlikely(x) __builtin_expect(!!(x), 0)
    #define clob_prefetch(p) __builtin_prefetch(p)

    static inline u128 clob_join(uint64_t lo, uint64_t hi) { return ((u128)hi << 64) | lo; }
    static inline uint64_t clob_lo(u128 v) { return (uint64_t)v; }
    static inline uint64_t clob_hi(u128 v) { return (uint64_t)(v >> 64); }

    /* The records of the batch door, laid out as clob.records says. */
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

    /* Another thread may write to the array while a run reads it. A volatile read happens once,
       so that what was checked is what is used. */
    #define clob_once(type, field) (*(const volatile type *)&(field))
    static inline uint8_t clob_kind(const ClobEvent *e) { return clob_once(uint8_t, e->kind); }
    static inline uint8_t clob_side(const ClobEvent *e) { return clob_once(uint8_t, e->side); }
    static inline uint16_t clob_where(const ClobEvent *e) {
        return clob_once(uint16_t, e->instrument);
    }
    static inline uint16_t clob_flags(const ClobEvent *e) { return clob_once(uint16_t, e->flags); }
    static inline int32_t clob_price(const ClobEvent *e) { return clob_once(int32_t, e->price); }
    static inline uint32_t clob_owner(const ClobEvent *e) { return clob_once(uint32_t, e->owner); }
    static inline int64_t clob_size(const ClobEvent *e) { return clob_once(int64_t, e->size); }
    static inline uint64_t clob_id(const ClobEvent *e) { return clob_once(uint64_t, e->order_id); }
    static inline int64_t clob_ts(const ClobEvent *e) { return clob_once(int64_t, e->ts_ns); }

    /* Which of a bucket's twelve tags equal one tag: a mask of twelve bits. */
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

    /* A text that went through PyObject_Hash once keeps its hash; it can be read without the
       GIL from then on. */
    static inline uint64_t clob_text_hash(const PyObject *text) {
        return (uint64_t)((const PyASCIIObject *)text)->hash;
    }

    static inline int clob_text_equal(PyObject *a, PyObject *b) {
        if (a == b) return 1;
        Py_ssize_t length = PyUnicode_GET_LENGTH(a);
        if (length != PyUnicode_GET_LENGTH(b) || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return 0;
        return !memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), length * PyUnicode_KIND(a));
    }

    /* An integer of more than 64 bits, digit by digit; by bytes it takes four times as long. */
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

    /* The offset of a slot of a Struct type, or -1 where there is no such slot. */
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
    # Of Cython's own: what it knows of integers in all versions of CPython.
    bint is_compact "__Pyx_PyLong_IsCompact"(PyObject* value) noexcept
    Py_ssize_t compact_value "__Pyx_PyLong_CompactValue"(PyObject* value) noexcept
    bint is_negative "__Pyx_PyLong_IsNeg"(PyObject* value) noexcept
    Py_ssize_t digit_count "__Pyx_PyLong_DigitCount"(PyObject* value) noexcept
    int PyLong_SHIFT
    # Of CPython, for borrowed references: counting each of them up and down adds up.
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
    uint8_t side_asked "clob_side"(const Event* event) noexcept nogil
    uint16_t instrument_of "clob_where"(const Event* event) noexcept nogil
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

# ----- records ------------------------------------------------------------------------------

cdef enum:
    DONE = 0
    # Refusals, by their numbers in clob.errors.
    BAD_KIND = 2
    BAD_INSTRUCTION = 3
    BAD_SIDE = 4
    BAD_ID = 5
    BAD_OWNER = 6
    BAD_PRICE = 8
    BAD_SIZE = 9
    SIZE_TOO_LARGE = 10
    EXPIRED_ORDER = 11
    DUPLICATE = 12
    UNKNOWN = 13
    NOT_REDUCED = 14
    POST_ONLY_CROSSES = 15
    SEED_CROSSES = 16
    NOT_FILLABLE = 17
    # What ends a run without being a refusal.
    NO_MEMORY = 100
    FILLS_DO_NOT_FIT = 101

    KIND_LIMIT = 0
    KIND_CANCEL = 1
    KIND_REDUCE = 2
    KIND_IOC = 3
    KIND_REPLACE = 4
    KIND_CLEAR = 5
    KIND_SEED = 6
    KIND_TRADE = 16
    KIND_FILL = 17
    KIND_SETTLE = 19

    FLAG_POST_ONLY = 1
    FLAG_FOK = 2
    FLAG_POLICY = 0x70
    FLAG_SILENT = 256 | 512

    POLICY_NONE = 0
    CANCEL_RESTING = 1
    CANCEL_INCOMING = 2
    CANCEL_BOTH = 3
    DECREMENT = 4

    TRADED = 0
    REMOVED = 1
    REDUCED = 2

    FILLED = 0
    CANCELLED = 1
    EXPIRED = 2
    SELF_TRADE = 3
    REPLACED = 4

    BUY = 0
    SELL = 1

cdef enum:
    NIL = 0                     # no slot; slot 0 of the slab is never used
    NOBODY = 0                  # the owner of an order without one
    BUCKET_ENTRIES = 12
    BUCKET_FILL_MAX = 8         # entries a bucket on average, before the table doubles
    ID_REGIONS = 16             # by the first four bits of an id
    WINDOW_MIN = 64
    WINDOW_STEP = 4096          # how far one id may move the window
    FEW = 256                   # events that take no longer than to let go of the GIL pays for
    PREFETCH_FROM = 24_000      # resting orders from which look-ahead pays: the book leaves L2

cdef extern from *:
    # Constants of a width of their own, which an enumeration would not keep.
    uint32_t NO_LEVEL "0xFFFFFFFFu"             # above every level: the best of an empty side
    uint32_t LEVEL_MASK "0x00FFFFFFu"           # in Node.place: the level
    uint32_t EXPIRES "0x40000000u"              # in Node.place: the order has an expiration
    uint32_t HOLDS "0x20000000u"                # in Node.place: a text id or a named owner
    uint32_t SPECIAL "0x60000000u"              # in Node.place: any of the two
    uint32_t FIRST_NAMED_OWNER "0x80000000u"    # owners from here on have a name
    uint32_t STRANGER "0xFFFFFFFFu"             # an owner who has nothing resting
    uint32_t ANY_INSTRUMENT "0x10000u"          # no event is of this one
    uint64_t FIRST_NUMBER "0x8000000000000000u"  # ids from here on are numbers of text ids
    uint64_t NO_ID "0xFFFFFFFFFFFFFFFFu"        # the id in a free slot
    uint64_t NO_HASH "0xFFFFFFFFFFFFFFFFu"      # of a text whose hash was not asked for yet
    size_t NO_LIMIT "((size_t)-1)"              # as many trades as there are
    uint32_t IN_WINDOW "0xFFFFFFFFu"            # in Node.where: not in the table
    uint32_t DISPLACED "0x80000000u"            # in Node.where: not in the bucket of its hash


cdef struct Node:
    # A resting order, 40 bytes.
    uint64_t size_lo
    uint32_t size_hi
    uint32_t next
    uint64_t id
    uint32_t prev
    uint32_t place
    uint32_t owner
    uint32_t where              # its place in the index


cdef struct Extra:
    # What only orders with a text id or an expiration have.
    PyObject* name
    int64_t expiration_s


cdef struct Level:
    u128 total
    uint32_t head
    uint32_t tail
    uint32_t num_orders
    uint32_t spare


cdef struct Ladder:
    # The levels of one side, the best price at the lowest index, and which of them hold orders:
    # a bit a level, a bit a word of those, and a bit a word of those in turn. 64 bytes.
    Level* levels
    uint64_t* words
    uint64_t* groups
    uint64_t top
    uint32_t best
    uint32_t spare[7]


cdef struct Bucket:
    # 64 bytes: twelve entries; the last four tags hold how many entries were passed on.
    uint8_t tags[12]
    uint32_t passed
    uint32_t slots[12]


cdef struct Table:
    # Buckets by a hash of the id, or of the name.
    void* memory
    Bucket* buckets
    uint64_t mask
    uint64_t count
    uint64_t limit              # how many entries before it doubles
    int shift


cdef struct Window:
    # The slots of the ids from base on, for ids that come densely and in order.
    uint32_t* slots
    uint64_t base
    uint64_t mask               # its size, a power of two, less one
    uint64_t reach              # how far ahead of base an id may move it
    uint64_t count


cdef struct Owner:
    PyObject* name
    uint64_t num_orders
    uint32_t next_free


cdef struct Departed:
    PyObject* name
    uint64_t number
    uint32_t owner


cdef struct Effect:
    # What happened to one resting order, for the events.
    u128 size
    u128 resting_left
    u128 incoming_left
    uint64_t id
    PyObject* name
    uint32_t owner
    int32_t price
    uint8_t kind
    uint8_t reason


cdef struct Core:
    Node* nodes
    Extra* extras
    uint64_t capacity           # of nodes and extras, slot 0 included
    uint64_t top                # slots handed out so far
    uint32_t free_slot
    Ladder sides[2]
    uint64_t num_expiring       # resting orders with an expiration
    uint64_t num_held           # resting orders with a text id or a named owner
    Window window
    Window numbers
    Table by_id
    Table by_name
    uint64_t greatest_in_table[ID_REGIONS]  # of the ids of each region, 0 where there is none
    uint64_t seq
    uint64_t next_number
    Owner* owners
    uint64_t owners_capacity
    uint64_t owners_top
    uint32_t owners_free
    Effect* effects
    size_t effects_count
    size_t effects_capacity
    Departed* departed
    size_t departed_count
    size_t departed_capacity
    uint64_t lots_max           # SIZE_MAX in lots, as far as a record can say it
    u128 lot_wei
    uint64_t planned            # the capacity asked for
    uint32_t num_levels
    int32_t lo


cdef struct Incoming:
    uint64_t id
    u128 left
    uint32_t limit              # the last level of the other side it reaches
    uint32_t owner              # NOBODY where nothing is to be prevented
    int side
    int policy
    int64_t now_s
    int64_t ts_ns


cdef struct Output:
    # Where trades go during a run; outside of one, effects are written instead.
    Fill* fills
    size_t count
    size_t room
    uint64_t index
    bint runs
    bint owned
    int code
    uint32_t watch              # an owner, or STRANGER
    bint met                    # an order of that owner traded or was cleared, or fills differ
    const Event* end            # behind the recorded fills to compare with, or NULL
    bint verify                 # fills that differ end it
    bint tells                  # changes of the best prices are taken down
    uint8_t* differs            # where events whose fills differ are marked, or NULL
    uint8_t* kinds              # where the kinds of events go, or NULL
    uint32_t instrument         # the only one of the stretch, or ANY_INSTRUMENT
    uint64_t base               # the number of the first event
    bint passes                 # trades of that owner do not end it
    bint passed                 # there were some


cdef struct Tape:
    # Where changes of the best prices go, and what these were last.
    Best* rows
    size_t count
    size_t room
    int64_t bid_size
    int64_t ask_size
    uint32_t bid                # levels, or NO_LEVEL
    uint32_t ask


cdef inline u128 size_of(const Node* node) noexcept nogil:
    return join(node.size_lo, node.size_hi)


cdef inline void set_size(Node* node, u128 size) noexcept nogil:
    node.size_lo = low(size)
    node.size_hi = <uint32_t>high(size)


cdef inline int side_of(const Node* node) noexcept nogil:
    return <int>(node.place >> 31)


cdef inline uint32_t level_of(const Node* node) noexcept nogil:
    return node.place & LEVEL_MASK


cdef inline uint32_t mirrored(const Core* core, uint32_t side, uint32_t tick) noexcept nogil:
    # The same tick for a sell order, counted from the other end for a buy order; without a
    # branch, which would be mispredicted every other time.
    return tick ^ ((tick ^ (core.num_levels - 1 - tick)) & (side - 1))


cdef inline int32_t price_at(const Core* core, int side, uint32_t level) noexcept nogil:
    # Level 0 is the best there could be: the highest bid, the lowest ask.
    return core.lo + <int32_t>mirrored(core, <uint32_t>side, level)


cdef inline uint32_t level_at(const Core* core, int side, int32_t price) noexcept nogil:
    return mirrored(core, <uint32_t>side, <uint32_t>price - <uint32_t>core.lo)


# ----- price ladder -------------------------------------------------------------------------

cdef bint ladder_create(Ladder* ladder, uint32_t num_levels) noexcept nogil:
    memset(ladder, 0, sizeof(Ladder))
    ladder.best = NO_LEVEL
    ladder.levels = <Level*>calloc(num_levels, sizeof(Level))
    ladder.words = <uint64_t*>calloc((num_levels >> 6) + 1, sizeof(uint64_t))
    ladder.groups = <uint64_t*>calloc((num_levels >> 12) + 1, sizeof(uint64_t))
    return ladder.levels != NULL and ladder.words != NULL and ladder.groups != NULL


cdef void ladder_destroy(Ladder* ladder) noexcept nogil:
    free(ladder.levels)
    free(ladder.words)
    free(ladder.groups)


cdef inline void ladder_raise(Ladder* ladder, uint32_t level) noexcept nogil:
    # A level got its first order.
    ladder.words[level >> 6] |= 1ULL << (level & 63)
    ladder.groups[level >> 12] |= 1ULL << (level >> 6 & 63)
    ladder.top |= 1ULL << (level >> 12)
    if level < ladder.best:
        ladder.best = level


cdef uint32_t ladder_next(const Ladder* ladder, uint32_t level) noexcept nogil:
    # The first level after this one that holds orders.
    cdef uint32_t place = level >> 6
    cdef uint64_t bits = ladder.words[place] >> 1 >> (level & 63)
    if bits:
        return level + 1 + ctz(bits)
    bits = ladder.groups[place >> 6] >> 1 >> (place & 63)
    if bits:
        place += 1 + ctz(bits)
        return place << 6 | ctz(ladder.words[place])
    place >>= 6
    bits = ladder.top >> 1 >> place
    if not bits:
        return NO_LEVEL
    place += 1 + ctz(bits)
    place = place << 6 | ctz(ladder.groups[place])
    return place << 6 | ctz(ladder.words[place])


cdef void ladder_lower(Ladder* ladder, uint32_t level) noexcept nogil:
    # A level lost its last order.
    cdef uint32_t place = level >> 6
    ladder.words[place] &= ~(1ULL << (level & 63))
    if not ladder.words[place]:
        ladder.groups[place >> 6] &= ~(1ULL << (place & 63))
        if not ladder.groups[place >> 6]:
            ladder.top &= ~(1ULL << (place >> 6))
    if level == ladder.best:
        ladder.best = ladder_next(ladder, level)


# ----- slab ---------------------------------------------------------------------------------

cdef bint slab_grow(Core* core, uint64_t capacity) noexcept nogil:
    cdef Node* nodes
    cdef Extra* extras
    if capacity > 0xFFFFFFFEULL:
        return False
    nodes = <Node*>realloc(core.nodes, capacity * sizeof(Node))
    if nodes == NULL:
        return False
    core.nodes = nodes
    if core.extras != NULL:
        extras = <Extra*>realloc(core.extras, capacity * sizeof(Extra))
        if extras == NULL:
            return False
        core.extras = extras
    core.capacity = capacity
    return True


cdef inline bint slab_reserve(Core* core) noexcept nogil:
    # Make sure that one more order finds a slot.
    if likely(core.free_slot != NIL or core.top < core.capacity):
        return True
    return slab_grow(core, core.capacity * 2)


cdef bint extras_reserve(Core* core) noexcept nogil:
    if core.extras == NULL:
        core.extras = <Extra*>malloc(core.capacity * sizeof(Extra))
    return core.extras != NULL


cdef inline uint32_t slab_take(Core* core) noexcept nogil:
    cdef uint32_t slot = core.free_slot
    if slot != NIL:
        core.free_slot = core.nodes[slot].next
    else:
        slot = <uint32_t>core.top
        core.top += 1
    return slot


cdef inline void slab_give(Core* core, uint32_t slot) noexcept nogil:
    # An id that no order has tells a free slot from a used one.
    core.nodes[slot].id = NO_ID
    core.nodes[slot].next = core.free_slot
    core.free_slot = slot


# ----- index: tables of buckets --------------------------------------------------------------

cdef inline uint64_t mix(uint64_t id) noexcept nogil:
    return (id ^ id >> 32) * 0x9E3779B97F4A7C15ULL


cdef inline uint64_t mix_name(PyObject* name) noexcept nogil:
    return text_hash(name) * 0x9E3779B97F4A7C15ULL


cdef inline uint8_t tag_of(uint64_t mixed) noexcept nogil:
    # Eight bits that did not choose the bucket; 0 marks an empty entry.
    cdef uint8_t tag = <uint8_t>(mixed >> 24)
    return tag + (tag == 0)


cdef bint table_create(Table* table, uint64_t orders) noexcept nogil:
    cdef uint64_t buckets = 16
    while buckets * BUCKET_FILL_MAX < orders:
        buckets *= 2
    if buckets > 1 << 26:
        # The place of an entry would not fit Node.where any more.
        return False
    table.memory = calloc(buckets + 1, sizeof(Bucket))
    if table.memory == NULL:
        return False
    table.buckets = <Bucket*>((<uintptr_t>table.memory + 63) & ~<uintptr_t>63)
    table.mask = buckets - 1
    table.count = 0
    table.limit = buckets * BUCKET_FILL_MAX
    table.shift = 64 - ctz(buckets)
    return True


cdef inline uint32_t table_insert(Table* table, uint64_t mixed, uint32_t slot) noexcept nogil:
    # There is room: the fill of the table is bounded. Returns where it went.
    cdef uint64_t place = mixed >> table.shift
    cdef Bucket* bucket = table.buckets + place
    cdef uint32_t empty = tags_equal(bucket.tags, 0)
    cdef uint32_t displaced = 0
    while unlikely(empty == 0):
        bucket.passed += 1
        place = (place + 1) & table.mask
        bucket = table.buckets + place
        empty = tags_equal(bucket.tags, 0)
        displaced = DISPLACED
    bucket.tags[ctz(empty)] = tag_of(mixed)
    bucket.slots[ctz(empty)] = slot
    table.count += 1
    return <uint32_t>place << 4 | ctz(empty) | displaced


cdef inline void table_remove(Table* table, uint64_t mixed, uint32_t slot) noexcept nogil:
    # The slot is in the table.
    cdef uint64_t place = mixed >> table.shift
    cdef uint8_t tag = tag_of(mixed)
    cdef Bucket* bucket
    cdef uint32_t found
    while True:
        bucket = table.buckets + place
        found = tags_equal(bucket.tags, tag)
        while found:
            if bucket.slots[ctz(found)] == slot:
                bucket.tags[ctz(found)] = 0
                table.count -= 1
                return
            found &= found - 1
        bucket.passed -= 1
        place = (place + 1) & table.mask


cdef inline uint32_t table_find(const Core* core, uint64_t mixed, uint64_t id) noexcept nogil:
    cdef const Table* table = &core.by_id
    cdef uint64_t place = mixed >> table.shift
    cdef uint8_t tag = tag_of(mixed)
    cdef const Bucket* bucket
    cdef uint32_t found
    while True:
        bucket = table.buckets + place
        found = tags_equal(bucket.tags, tag)
        while found:
            if likely(core.nodes[bucket.slots[ctz(found)]].id == id):
                return bucket.slots[ctz(found)]
            found &= found - 1
        if likely(bucket.passed == 0):
            return NIL
        place = (place + 1) & table.mask


cdef uint32_t name_find(const Core* core, PyObject* name) noexcept:
    cdef const Table* table = &core.by_name
    cdef uint64_t mixed, place
    cdef uint8_t tag
    cdef const Bucket* bucket
    cdef uint32_t found
    if table.count == 0:
        return NIL
    mixed = mix_name(name)
    place = mixed >> table.shift
    tag = tag_of(mixed)
    while True:
        bucket = table.buckets + place
        found = tags_equal(bucket.tags, tag)
        while found:
            prefetch(core.nodes + bucket.slots[ctz(found)])
            if text_equal(core.extras[bucket.slots[ctz(found)]].name, name):
                return bucket.slots[ctz(found)]
            found &= found - 1
        if likely(bucket.passed == 0):
            return NIL
        place = (place + 1) & table.mask


cdef bint table_grow(Core* core, Table* table, bint by_name, uint64_t orders) noexcept nogil:
    cdef Table grown
    cdef uint64_t place
    cdef int entry
    cdef uint32_t slot
    if not table_create(&grown, orders):
        return False
    for place in range(table.mask + 1):
        for entry in range(BUCKET_ENTRIES):
            if table.buckets[place].tags[entry]:
                slot = table.buckets[place].slots[entry]
                if by_name:
                    table_insert(&grown, mix_name(core.extras[slot].name), slot)
                else:
                    core.nodes[slot].where = table_insert(
                        &grown, mix(core.nodes[slot].id), slot
                    )
    free(table.memory)
    table[0] = grown
    return True


cdef inline bint table_reserve(
    Core* core, Table* table, bint by_name, uint64_t more
) noexcept nogil:
    # Make sure that so many more entries find room.
    if likely(table.count + more <= table.limit):
        return True
    return table_grow(core, table, by_name, max(table.count + more, core.planned))


cdef inline bint above_table(const Core* core, uint64_t id) noexcept nogil:
    # Whether no id so great is in the table, of those that begin as it does. Those that begin
    # otherwise may come from somewhere else, as the orders of a strategy do.
    return id > core.greatest_in_table[id >> 60]


cdef inline void note_in_table(Core* core, uint64_t id) noexcept nogil:
    if above_table(core, id):
        core.greatest_in_table[id >> 60] = id


# ----- index: windows of dense ids ------------------------------------------------------------

cdef inline Window* window_of(Core* core, uint64_t id) noexcept nogil:
    # Text ids have numbers of their own, given in order from FIRST_NUMBER on.
    return &core.numbers if id >= FIRST_NUMBER else &core.window


cdef bint window_resize(Window* window, uint64_t size) noexcept nogil:
    cdef uint64_t id
    cdef uint32_t* slots = <uint32_t*>calloc(size, sizeof(uint32_t))
    if slots == NULL:
        return False
    if window.count:
        for id in range(window.base, window.base + window.mask + 1):
            slots[id & (size - 1)] = window.slots[id & window.mask]
    free(window.slots)
    window.slots = slots
    window.mask = size - 1
    window.reach = size + WINDOW_STEP
    return True


cdef bint window_create(Window* window, uint64_t planned) noexcept nogil:
    cdef uint64_t size = WINDOW_MIN
    while size < 2 * planned:
        size *= 2
    return window_resize(window, size)


cdef void window_slide(Core* core, Window* window, uint64_t steps) noexcept nogil:
    # Orders that stay behind move into the table, where there is room for them.
    cdef uint64_t id, last = window.base + steps
    cdef uint32_t* place
    for id in range(window.base, last):
        place = window.slots + (id & window.mask)
        if place[0] != NIL:
            core.nodes[place[0]].where = table_insert(&core.by_id, mix(id), place[0])
            note_in_table(core, id)
            place[0] = NIL
            window.count -= 1
    window.base = last


cdef bint window_follow(Core* core, Window* window, uint64_t id) noexcept nogil:
    # Bring the window to an id within its reach, or to any if it is empty. False is want of
    # memory.
    cdef uint64_t limit = 4 * max(core.capacity, core.planned), ahead, steps
    if window.count == 0:
        window.base = id
        return True
    ahead = id - window.base
    while ahead > window.mask and window.mask < limit:
        if not window_resize(window, 2 * (window.mask + 1)):
            return False
    if ahead > window.mask:
        steps = ((ahead - window.mask - 1) & ~<uint64_t>63) + 64
        if not table_reserve(core, &core.by_id, False, steps):
            return False
        window_slide(core, window, steps)
    return True


cdef inline uint32_t index_find_in(
    const Core* core, const Window* window, uint64_t id
) noexcept nogil:
    cdef uint32_t slot
    if id - window.base <= window.mask:
        slot = window.slots[id & window.mask]
        if slot != NIL or likely(above_table(core, id)):
            return slot
    if core.by_id.count == 0:
        return NIL
    return table_find(core, mix(id), id)


cdef inline uint32_t index_find(Core* core, uint64_t id) noexcept nogil:
    return index_find_in(core, window_of(core, id), id)


cdef inline bint index_reserve(Core* core, Window* window, uint64_t id) noexcept nogil:
    # Make sure that index_insert finds room for an id.
    cdef uint64_t ahead = id - window.base
    if likely(ahead <= window.mask):
        return True
    if unlikely(ahead < window.reach or window.count == 0):
        return window_follow(core, window, id)
    return table_reserve(core, &core.by_id, False, 1)


cdef void index_insert_far(Core* core, uint64_t id, uint32_t slot) noexcept nogil:
    core.nodes[slot].where = table_insert(&core.by_id, mix(id), slot)
    note_in_table(core, id)


cdef inline void index_insert(
    Core* core, Window* window, uint64_t id, uint32_t slot
) noexcept nogil:
    if id - window.base <= window.mask:
        window.slots[id & window.mask] = slot
        window.count += 1
        core.nodes[slot].where = IN_WINDOW
    else:
        index_insert_far(core, id, slot)


cdef inline void index_remove(Core* core, uint32_t slot) noexcept nogil:
    # The order is in the index.
    cdef uint64_t id = core.nodes[slot].id
    cdef uint32_t where = core.nodes[slot].where
    cdef Window* window
    if where == IN_WINDOW:
        window = window_of(core, id)
        window.slots[id & window.mask] = NIL
        window.count -= 1
        return
    if likely(where < DISPLACED):
        core.by_id.buckets[where >> 4].tags[where & 15] = 0
        core.by_id.count -= 1
    else:
        table_remove(&core.by_id, mix(id), slot)
    if unlikely(core.by_id.count == 0):
        memset(core.greatest_in_table, 0, sizeof(core.greatest_in_table))


# ----- queues -------------------------------------------------------------------------------

cdef inline uint64_t num_orders(const Core* core) noexcept nogil:
    return core.window.count + core.numbers.count + core.by_id.count


cdef inline void queue_append(
    Core* core, Ladder* ladder, uint32_t level, uint32_t slot, u128 size
) noexcept nogil:
    # Link an order last at its level.
    cdef Level* at = ladder.levels + level
    cdef Node* node = core.nodes + slot
    set_size(node, size)
    node.next = NIL
    node.prev = at.tail
    if likely(at.tail != NIL):
        core.nodes[at.tail].next = slot
    else:
        at.head = slot
        ladder_raise(ladder, level)
    at.tail = slot
    at.num_orders += 1
    at.total += size


cdef inline void queue_unlink(Core* core, uint32_t slot) noexcept nogil:
    cdef Node* node = core.nodes + slot
    cdef Ladder* ladder = &core.sides[side_of(node)]
    cdef Level* at = ladder.levels + level_of(node)
    if likely(node.prev != NIL):
        core.nodes[node.prev].next = node.next
    else:
        at.head = node.next
    if likely(node.next != NIL):
        core.nodes[node.next].prev = node.prev
    else:
        at.tail = node.prev
    at.total -= size_of(node)
    at.num_orders -= 1
    if unlikely(at.num_orders == 0):
        ladder_lower(ladder, level_of(node))


cdef void queue_insert(Core* core, uint32_t slot, uint32_t following) noexcept nogil:
    # Link an order in front of one at its level; it is in no queue.
    cdef Node* node = core.nodes + slot
    cdef Level* at = core.sides[side_of(node)].levels + level_of(node)
    node.next = following
    node.prev = core.nodes[following].prev
    core.nodes[following].prev = slot
    if node.prev != NIL:
        core.nodes[node.prev].next = slot
    else:
        at.head = slot
    at.num_orders += 1
    at.total += size_of(node)


cdef void forget_special(Core* core, uint32_t slot) noexcept nogil:
    # An order with an expiration, a text id or a named owner; the last two are the caller's
    # to release.
    cdef Node* node = core.nodes + slot
    if node.place & EXPIRES:
        core.num_expiring -= 1
    if node.place & HOLDS:
        core.num_held -= 1
    if node.id >= FIRST_NUMBER:
        table_remove(&core.by_name, mix_name(core.extras[slot].name), slot)


cdef inline void forget(Core* core, uint32_t slot) noexcept nogil:
    # Give up an order that is out of its queue.
    index_remove(core, slot)
    if unlikely(core.nodes[slot].place & SPECIAL):
        forget_special(core, slot)
    slab_give(core, slot)


cdef void note(
    Core* core, int kind, int reason, uint32_t slot, u128 size, u128 resting_left, u128 left
) noexcept nogil:
    # Take down what happened to an order; there is room for it.
    cdef Node* node = core.nodes + slot
    cdef Effect* effect = core.effects + core.effects_count
    core.effects_count += 1
    effect.kind = <uint8_t>kind
    effect.reason = <uint8_t>reason
    effect.size = size
    effect.resting_left = resting_left
    effect.incoming_left = left
    effect.id = node.id
    effect.name = core.extras[slot].name if node.id >= FIRST_NUMBER else NULL
    effect.owner = node.owner
    effect.price = price_at(core, side_of(node), level_of(node))


cdef void depart(Core* core, uint32_t slot) noexcept nogil:
    # During a run: keep what the GIL is needed to release. There is room for every such order.
    cdef Departed* departed
    cdef Node* node = core.nodes + slot
    if node.place & HOLDS:
        departed = core.departed + core.departed_count
        core.departed_count += 1
        departed.name = core.extras[slot].name if node.id >= FIRST_NUMBER else NULL
        departed.number = node.id
        departed.owner = node.owner


cdef inline void leave(
    Core* core, uint32_t slot, int reason, u128 left, const Output* out
) noexcept nogil:
    # Announce that an order leaves, and give it up. It is out of its queue, or will be.
    core.seq += 1
    if unlikely(not out.runs):
        note(core, REMOVED, reason, slot, 0, left, 0)
    elif unlikely(core.nodes[slot].place & HOLDS):
        depart(core, slot)
    forget(core, slot)


# ----- matching -----------------------------------------------------------------------------

cdef inline bint is_expired(const Core* core, uint32_t slot, int64_t now_s) noexcept nogil:
    return core.nodes[slot].place & EXPIRES and core.extras[slot].expiration_s < now_s


cdef inline bint crosses(const Core* core, const Incoming* incoming) noexcept nogil:
    return core.sides[1 - incoming.side].best <= incoming.limit


cdef bint meet(
    Core* core, uint32_t slot, const Incoming* incoming, u128* left, const Output* out
) noexcept nogil:
    # Deal with a resting order that must not trade: one that expired, or the owner's own. False
    # if there is nothing in the way. The resting order may have left the book, or shrunk.
    cdef Node* node = core.nodes + slot
    cdef u128 have = size_of(node)
    if is_expired(core, slot, incoming.now_s):
        leave(core, slot, EXPIRED, have, out)
        return True
    if incoming.owner == NOBODY or node.owner != incoming.owner:
        return False
    if incoming.policy == DECREMENT and left[0] < have:
        set_size(node, have - left[0])
        core.seq += 1
        if not out.runs:
            note(core, REDUCED, 0, slot, 0, have - left[0], 0)
        left[0] = 0
        return True
    if incoming.policy != CANCEL_INCOMING:
        leave(core, slot, SELF_TRADE, have, out)
    if incoming.policy == DECREMENT:
        left[0] -= have
    elif incoming.policy != CANCEL_RESTING:
        left[0] = 0
    return True


cdef inline uint32_t match_level(
    Core* core, Incoming* incoming, uint32_t level, bint careful, bint runs, Output* out
) noexcept nogil:
    # Trade with the orders of one level, oldest first. Returns the first that is left. What
    # every trade would change in memory is counted here and written at the end.
    cdef Level* at = core.sides[1 - incoming.side].levels + level
    cdef int32_t price = price_at(core, 1 - incoming.side, level)
    cdef uint32_t slot = at.head, following, gone = 0, filled = 0, trades = 0
    cdef uint32_t free_slot = core.free_slot
    cdef u128 left = incoming.left, total = at.total, have, size
    cdef Fill* fill = out.fills + out.count
    cdef Node* node
    cdef bint met = False
    while slot != NIL and left:
        node = core.nodes + slot
        following = node.next
        prefetch(core.nodes + following)
        have = size_of(node)
        if careful:
            core.free_slot = free_slot
            if meet(core, slot, incoming, &left, out):
                free_slot = core.free_slot
                total -= have
                if node.id != NO_ID:
                    total += size_of(node)
                    break
                gone += 1
                slot = following
                continue
        size = have if have < left else left
        left -= size
        total -= size
        trades += 1
        if runs:
            fill.event = out.index
            fill.resting_id = node.id
            fill.incoming_id = incoming.id
            fill.size = <int64_t>low(size)
            fill.price = price
            fill.ts_ns = incoming.ts_ns
            fill += 1
            met |= node.owner == out.watch
        else:
            note(core, TRADED, 0, slot, size, have - size, left)
        if size < have:
            set_size(node, have - size)
            break
        if not runs:
            note(core, REMOVED, FILLED, slot, 0, 0, 0)
        index_remove(core, slot)
        if unlikely(node.place & SPECIAL):
            if runs:
                depart(core, slot)
            forget_special(core, slot)
        node.id = NO_ID
        node.next = free_slot
        free_slot = slot
        filled += 1
        slot = following
    core.free_slot = free_slot
    core.seq += trades + filled
    if runs:
        out.count += trades
        out.met |= met
    incoming.left = left
    at.total = total
    at.num_orders -= gone + filled
    return slot


cdef inline void match_with(
    Core* core, Incoming* incoming, bint careful, bint runs, Output* out
) noexcept nogil:
    # Meet the best resting order as long as there is one within the limit.
    cdef Ladder* ladder = &core.sides[1 - incoming.side]
    cdef uint32_t level, slot
    while incoming.left and ladder.best <= incoming.limit:
        level = ladder.best
        slot = match_level(core, incoming, level, careful, runs, out)
        ladder.levels[level].head = slot
        if slot != NIL:
            core.nodes[slot].prev = NIL
        else:
            ladder.levels[level].tail = NIL
            ladder_lower(ladder, level)


cdef void match_carefully(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, True, out.runs, out)


cdef void match_in_run(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, False, True, out)


cdef void match_for_events(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, False, False, out)


cdef inline void match_order(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    # One source, compiled three times for what is known beforehand.
    if unlikely(incoming.owner != NOBODY or core.num_expiring != 0):
        match_carefully(core, incoming, out)
    elif out.runs:
        match_in_run(core, incoming, out)
    else:
        match_for_events(core, incoming, out)


cdef struct Prospect:
    # What an order would meet.
    u128 found                  # how much it would trade
    size_t trades
    size_t effects
    size_t trades_max           # asked: how many trades are allowed
    u128 fits                   # the size that would make so many


cdef void foresee(
    Core* core, const Incoming* incoming, bint notes, Prospect* prospect
) noexcept nogil:
    # Walk the way match would go, changing nothing; the effects are taken down if asked for.
    cdef const Ladder* ladder = &core.sides[1 - incoming.side]
    cdef uint32_t level = ladder.best, slot
    cdef u128 left = incoming.left, have, size
    cdef const Node* node
    prospect.found = prospect.fits = 0
    prospect.trades = prospect.effects = 0
    while left and level <= incoming.limit:
        slot = ladder.levels[level].head
        while slot != NIL and left:
            node = core.nodes + slot
            have = size_of(node)
            size = 0
            if not is_expired(core, slot, incoming.now_s):
                size = have if have < left else left
                if incoming.owner != NOBODY and node.owner == incoming.owner:
                    if incoming.policy in (CANCEL_INCOMING, CANCEL_BOTH):
                        left = 0
                    elif incoming.policy == DECREMENT:
                        left -= size
                    size = 0
            if size:
                left -= size
                prospect.found += size
                prospect.trades += 1
                if prospect.trades == prospect.trades_max:
                    prospect.fits = incoming.left - left
                prospect.effects += 1
                if notes:
                    note(core, TRADED, 0, slot, size, have - size, left)
            if not size or size == have:
                # It may leave: an effect more, of which only the place in the sequence counts.
                prospect.effects += 1
                if notes and not (
                    incoming.policy == CANCEL_INCOMING and not size
                    and not is_expired(core, slot, incoming.now_s)
                ):
                    note(core, REMOVED, FILLED, slot, 0, 0, 0)
            slot = node.next
        level = ladder_next(ladder, level)


cdef uint32_t first_unexpired(const Core* core, const Incoming* incoming) noexcept nogil:
    # The first order that a limit reaches and that could trade.
    cdef const Ladder* ladder = &core.sides[1 - incoming.side]
    cdef uint32_t level = ladder.best, slot
    while level <= incoming.limit:
        slot = ladder.levels[level].head
        while slot != NIL:
            if not is_expired(core, slot, incoming.now_s):
                return slot
            slot = core.nodes[slot].next
        level = ladder_next(ladder, level)
    return NIL


cdef u128 fillable(Core* core, Incoming* incoming) noexcept nogil:
    # How much of a fill-or-kill order could trade. Meeting an own order ends it, unless that
    # is only cancelled.
    cdef int policy = incoming.policy
    cdef Prospect prospect
    prospect.trades_max = NO_LIMIT
    if policy != CANCEL_RESTING:
        incoming.policy = CANCEL_INCOMING
    foresee(core, incoming, False, &prospect)
    incoming.policy = policy
    return prospect.found


cdef inline uint32_t rest(
    Core* core, Window* window, uint64_t id, int side, uint32_t level, u128 size, uint32_t owner
) noexcept nogil:
    # Put an order into the book; slab and index have room for it.
    cdef uint32_t slot = slab_take(core)
    cdef Node* node = core.nodes + slot
    node.id = id
    node.place = level | <uint32_t>side << 31
    node.owner = owner
    queue_append(core, &core.sides[side], level, slot, size)
    index_insert(core, window, id, slot)
    core.seq += 1
    return slot


cdef inline void remove(Core* core, uint32_t slot, int reason, const Output* out) noexcept nogil:
    queue_unlink(core, slot)
    leave(core, slot, reason, size_of(core.nodes + slot), out)


cdef inline void reduce(Core* core, uint32_t slot, u128 size) noexcept nogil:
    cdef Node* node = core.nodes + slot
    core.sides[side_of(node)].levels[level_of(node)].total -= size_of(node) - size
    set_size(node, size)
    core.seq += 1


cdef void replace(
    Core* core, uint32_t slot, uint32_t level, Incoming* incoming, Output* out
) noexcept nogil:
    # Take an order out and bring it in again; its slot, name and place in the index stay.
    cdef Node* node = core.nodes + slot
    core.seq += 1
    if not out.runs:
        note(core, REMOVED, REPLACED, slot, 0, size_of(node), 0)
    queue_unlink(core, slot)
    match_order(core, incoming, out)
    if incoming.left:
        node.place = (node.place & ~LEVEL_MASK) | level
        queue_append(core, &core.sides[incoming.side], level, slot, incoming.left)
        core.seq += 1
        return
    if out.runs:
        depart(core, slot)
    forget(core, slot)


cdef void clear(Core* core, int reason, const Output* out) noexcept nogil:
    # Bids first, best price first, oldest first.
    cdef int side
    cdef Ladder* ladder
    for side in range(2):
        ladder = &core.sides[side]
        while ladder.best != NO_LEVEL:
            remove(core, ladder.levels[ladder.best].head, reason, out)


# ----- batch door ---------------------------------------------------------------------------

cdef inline bint fits(Core* core, const Incoming* incoming, Output* out) noexcept nogil:
    # Make sure that the fills of an order find room.
    cdef Prospect prospect
    cdef size_t room = out.room - out.count
    cdef Fill* fills
    if likely(room >= num_orders(core)):
        return True
    prospect.trades_max = NO_LIMIT
    foresee(core, incoming, False, &prospect)
    if prospect.trades <= room:
        return True
    if not out.owned:
        return False
    room = 2 * out.room + prospect.trades
    fills = <Fill*>realloc(out.fills, room * sizeof(Fill))
    if fills == NULL:
        return False
    out.fills = fills
    out.room = room
    return True


cdef inline int64_t second_of(int64_t ts_ns) noexcept nogil:
    # Rounded down, also before 1970.
    return ts_ns // 1_000_000_000 - (1 if ts_ns % 1_000_000_000 < 0 else 0)


cdef inline int check_flags(uint32_t flags, int kind) noexcept nogil:
    # Unknown or contradictory flags, or none that speak to the book.
    cdef bint must_rest
    if likely((flags & ~<uint32_t>FLAG_SILENT) == 0):
        return DONE
    if flags & ~<uint32_t>(FLAG_POST_ONLY | FLAG_FOK | FLAG_POLICY | FLAG_SILENT):
        return BAD_INSTRUCTION
    if (flags & FLAG_POLICY) >> 4 > DECREMENT:
        return BAD_INSTRUCTION
    must_rest = flags & FLAG_POST_ONLY or kind == KIND_SEED or kind == KIND_REPLACE
    if must_rest and (flags & FLAG_FOK or kind == KIND_IOC):
        return BAD_INSTRUCTION
    return DONE


cdef inline int check_size(const Core* core, int64_t lots) noexcept nogil:
    if <uint64_t>lots - 1 < core.lots_max:
        return DONE
    return BAD_SIZE if lots <= 0 else SIZE_TOO_LARGE


cdef int run_cross(
    Core* core, Incoming* incoming, uint32_t flags, int kind, Output* out
) noexcept nogil:
    # An order that reaches the other side.
    incoming.policy = (flags & FLAG_POLICY) >> 4
    if incoming.policy == POLICY_NONE:
        incoming.owner = NOBODY
    incoming.now_s = second_of(incoming.ts_ns) if core.num_expiring else 0
    if unlikely(kind == KIND_SEED):
        return SEED_CROSSES
    if flags & FLAG_POST_ONLY and first_unexpired(core, incoming) != NIL:
        return POST_ONLY_CROSSES
    if flags & FLAG_FOK and fillable(core, incoming) < incoming.left:
        return NOT_FILLABLE
    if unlikely(not fits(core, incoming, out)):
        return FILLS_DO_NOT_FIT
    match_order(core, incoming, out)
    return DONE


cdef int admit_id(Core* core, uint64_t id) noexcept nogil:
    # Make room for an id whose place in the window is not simply free.
    if index_find_in(core, &core.window, id) != NIL:
        return DUPLICATE
    if not index_reserve(core, &core.window, id):
        return NO_MEMORY
    return DONE


cdef int run_enter(
    Core* core, const Event* event, int kind, uint64_t index, Output* out
) noexcept nogil:
    # A new order: LIMIT, IOC or SEED.
    cdef uint64_t id = id_of(event)
    cdef uint32_t flags = flags_of(event), owner = owner_of(event), side = side_asked(event)
    cdef uint32_t tick = <uint32_t>price_of(event) - <uint32_t>core.lo
    cdef int64_t lots = lots_of(event)
    cdef u128 left = <u128><uint64_t>lots
    cdef uint32_t slot, level, limit
    cdef bint rests = kind != KIND_IOC and not flags & FLAG_FOK
    cdef Window* window = &core.window
    cdef Node* node
    cdef Incoming incoming
    cdef int refusal
    if unlikely(flags & ~<uint32_t>FLAG_SILENT):
        refusal = check_flags(flags, kind)
        if refusal:
            return refusal
    if unlikely(side > SELL):
        return BAD_SIDE
    if unlikely(id >= FIRST_NUMBER):
        return BAD_ID
    if unlikely(owner >= FIRST_NAMED_OWNER):
        return BAD_OWNER
    if unlikely(tick >= core.num_levels):
        return BAD_PRICE
    # One comparison finds what is too small and what is too large.
    if unlikely(<uint64_t>lots - 1 >= core.lots_max):
        return BAD_SIZE if lots <= 0 else SIZE_TOO_LARGE
    if rests:
        if (
            id - window.base > window.mask
            or window.slots[id & window.mask] != NIL
            or not above_table(core, id)
        ):
            refusal = admit_id(core, id)
            if unlikely(refusal):
                return refusal
        if unlikely(not slab_reserve(core)):
            return NO_MEMORY
    level = mirrored(core, side, tick)
    limit = core.num_levels - 1 - level
    if core.sides[1 - side].best <= limit:
        incoming.id, incoming.left, incoming.limit, incoming.side = id, left, limit, side
        incoming.ts_ns, incoming.owner = event.ts_ns, owner
        out.index = index
        refusal = run_cross(core, &incoming, flags, kind, out)
        left = incoming.left
        if unlikely(refusal) or not left:
            return refusal
    elif unlikely(flags & FLAG_FOK):
        return NOT_FILLABLE
    if not rests:
        return DONE
    slot = slab_take(core)
    node = core.nodes + slot
    node.id = id
    node.place = level | side << 31
    node.owner = owner
    queue_append(core, &core.sides[side], level, slot, left)
    index_insert(core, window, id, slot)
    core.seq += 1
    return DONE


cdef int run_reduce(Core* core, uint32_t slot, int64_t lots) noexcept nogil:
    cdef int refusal = check_size(core, lots)
    if refusal:
        return refusal
    if slot == NIL:
        return UNKNOWN
    if <u128><uint64_t>lots >= size_of(core.nodes + slot):
        return NOT_REDUCED
    reduce(core, slot, <u128><uint64_t>lots)
    return DONE


cdef int run_replace(Core* core, const Event* event, uint32_t slot, Output* out) noexcept nogil:
    cdef uint32_t flags = flags_of(event), level
    cdef int32_t price = price_of(event)
    cdef int64_t lots = lots_of(event), ts_ns = event.ts_ns
    cdef Incoming incoming
    cdef Node* node = core.nodes + slot
    cdef int refusal = check_flags(flags, KIND_REPLACE)
    if refusal:
        return refusal
    if <uint32_t>price - <uint32_t>core.lo >= core.num_levels:
        return BAD_PRICE
    refusal = check_size(core, lots)
    if refusal:
        return refusal
    if slot == NIL:
        return UNKNOWN
    if core.num_expiring and is_expired(core, slot, second_of(ts_ns)):
        return EXPIRED_ORDER
    incoming.id = node.id
    incoming.side = side_of(node)
    incoming.left = <u128><uint64_t>lots
    incoming.ts_ns = ts_ns
    level = level_at(core, incoming.side, price)
    if level == level_of(node) and incoming.left < size_of(node):
        reduce(core, slot, incoming.left)
        return DONE
    incoming.limit = core.num_levels - 1 - level
    incoming.policy = (flags & FLAG_POLICY) >> 4
    incoming.owner = node.owner if incoming.policy != POLICY_NONE else <uint32_t>NOBODY
    incoming.now_s = second_of(ts_ns) if core.num_expiring else 0
    if crosses(core, &incoming):
        if flags & FLAG_POST_ONLY and first_unexpired(core, &incoming) != NIL:
            return POST_ONLY_CROSSES
        if not fits(core, &incoming, out):
            return FILLS_DO_NOT_FIT
    replace(core, slot, level, &incoming, out)
    return DONE


cdef uint32_t find_far(Core* core, uint64_t id) noexcept nogil:
    return index_find(core, id)


cdef int run_cancel(Core* core, uint64_t id, uint32_t guess) noexcept nogil:
    cdef Window* window = &core.window
    cdef uint32_t slot = guess
    if slot == NIL and id - window.base <= window.mask:
        slot = window.slots[id & window.mask]
    if slot == NIL:
        slot = find_far(core, id)
        if unlikely(slot == NIL):
            return UNKNOWN
    index_remove(core, slot)
    queue_unlink(core, slot)
    core.seq += 1
    if unlikely(core.nodes[slot].place & SPECIAL):
        depart(core, slot)
        forget_special(core, slot)
    slab_give(core, slot)
    return DONE


cdef enum:
    # What came of the ordinary case: nothing was done, or all was; aside from the best prices, or
    # perhaps not.
    NOT_DONE = 0
    DONE_ABOVE = 1
    DONE_ASIDE = 2


cdef inline int done_at(const Ladder* ladder, uint32_t level) noexcept nogil:
    # By a level that holds orders, the best or another one; without a branch, which nobody could
    # guess. Levels have 24 bits.
    return DONE_ABOVE + <int>((ladder.best - level) >> 31)


cdef int cross_plain(
    Core* core, const Event* event, uint64_t id, uint64_t lots, uint32_t side, uint32_t limit,
    uint32_t level, uint32_t owner, uint64_t index, Output* out
) noexcept nogil:
    # The part of enter_plain that matches.
    cdef Incoming incoming
    cdef uint32_t slot
    if core.num_expiring or out.room - out.count < num_orders(core):
        return NOT_DONE
    if index_find_in(core, &core.window, id) != NIL:
        return NOT_DONE
    if not index_reserve(core, &core.window, id):
        return NOT_DONE
    incoming.id, incoming.left, incoming.limit, incoming.side = id, <u128>lots, limit, side
    incoming.ts_ns = event.ts_ns
    out.index = index
    match_with(core, &incoming, False, True, out)
    if incoming.left:
        slot = slab_take(core)
        core.nodes[slot].id = id
        core.nodes[slot].place = level | side << 31
        core.nodes[slot].owner = owner
        queue_append(core, &core.sides[side], level, slot, incoming.left)
        index_insert(core, &core.window, id, slot)
        core.seq += 1
    return DONE_ABOVE


cdef int enter_plain(
    Core* core, const Event* event, uint64_t index, Output* out
) noexcept nogil:
    # The ordinary case at full speed: a limit order that is right in every way, without
    # instructions but that not to take. Where nothing was done, run_enter is to see to it.
    cdef uint64_t id = id_of(event), ahead = id - core.window.base, mixed, bucket_place
    cdef uint32_t side = side_asked(event), owner = owner_of(event)
    cdef uint32_t tick = <uint32_t>price_of(event) - <uint32_t>core.lo
    cdef uint64_t lots = <uint64_t>lots_of(event)
    cdef uint32_t slot = core.free_slot, level, limit, found, flags = flags_of(event)
    cdef uint8_t tag
    cdef Node* node
    cdef Bucket* bucket
    if flags & ~<uint32_t>(FLAG_SILENT | FLAG_POST_ONLY) or side > SELL or id >= FIRST_NUMBER:
        return NOT_DONE
    if owner >= FIRST_NAMED_OWNER or tick >= core.num_levels or lots - 1 >= core.lots_max:
        return NOT_DONE
    level = mirrored(core, side, tick)
    limit = core.num_levels - 1 - level
    if slot == NIL:
        return NOT_DONE
    if core.sides[1 - side].best <= limit:
        if flags & FLAG_POST_ONLY:
            return NOT_DONE
        return cross_plain(core, event, id, lots, side, limit, level, owner, index, out)
    node = core.nodes + slot
    if ahead <= core.window.mask:
        if core.window.slots[id & core.window.mask] != NIL or not above_table(core, id):
            return NOT_DONE
        core.window.slots[id & core.window.mask] = slot
        core.window.count += 1
        node.where = IN_WINDOW
    else:
        if ahead < core.window.reach or core.window.count == 0:
            return NOT_DONE
        if core.by_id.count >= core.by_id.limit:
            return NOT_DONE
        mixed = mix(id)
        tag = tag_of(mixed)
        bucket_place = mixed >> core.by_id.shift
        bucket = core.by_id.buckets + bucket_place
        if tags_equal(bucket.tags, tag) or bucket.passed:
            return NOT_DONE
        found = tags_equal(bucket.tags, 0)
        if found == 0:
            return NOT_DONE
        bucket.tags[ctz(found)] = tag
        bucket.slots[ctz(found)] = slot
        core.by_id.count += 1
        note_in_table(core, id)
        node.where = <uint32_t>bucket_place << 4 | ctz(found)
    core.free_slot = node.next
    node.id = id
    node.place = level | side << 31
    node.owner = owner
    queue_append(core, &core.sides[side], level, slot, <u128>lots)
    core.seq += 1
    return done_at(&core.sides[side], level)


cdef int take_plain(
    Core* core, const Event* event, uint64_t index, Output* out
) noexcept nogil:
    # As enter_plain, for an order that never rests.
    cdef uint32_t side = side_asked(event)
    cdef uint32_t tick = <uint32_t>price_of(event) - <uint32_t>core.lo
    cdef uint64_t lots = <uint64_t>lots_of(event), id = id_of(event)
    cdef Incoming incoming
    if flags_of(event) & ~<uint32_t>FLAG_SILENT or side > SELL or id >= FIRST_NUMBER:
        return NOT_DONE
    if (
        owner_of(event) >= FIRST_NAMED_OWNER or tick >= core.num_levels
        or lots - 1 >= core.lots_max
    ):
        return NOT_DONE
    incoming.limit = core.num_levels - 1 - mirrored(core, side, tick)
    if core.sides[1 - side].best > incoming.limit:
        return DONE_ASIDE
    if core.num_expiring or out.room - out.count < num_orders(core):
        return NOT_DONE
    incoming.id, incoming.left, incoming.side = id, <u128>lots, side
    incoming.ts_ns = event.ts_ns
    out.index = index
    match_in_run(core, &incoming, out)
    return DONE_ABOVE


cdef int cancel_plain(Core* core, uint64_t id, uint32_t guess) noexcept nogil:
    # The ordinary case at full speed: an order that is where its id says, without a text id,
    # owner or expiration, and not alone at its price.
    cdef uint32_t slot = guess, found, level
    cdef uint64_t mixed
    cdef Node* node
    cdef Ladder* ladder
    cdef Level* at
    cdef Bucket* bucket
    if slot == NIL:
        if id - core.window.base <= core.window.mask:
            slot = core.window.slots[id & core.window.mask]
        elif core.by_id.count:
            mixed = mix(id)
            bucket = core.by_id.buckets + (mixed >> core.by_id.shift)
            found = tags_equal(bucket.tags, tag_of(mixed))
            if found:
                slot = bucket.slots[ctz(found)]
    node = core.nodes + slot
    ladder = &core.sides[node.place >> 31]
    level = level_of(node)
    at = ladder.levels + level
    if node.id != id or node.place & SPECIAL or at.num_orders == 1:
        return NOT_DONE
    if node.where == IN_WINDOW:
        core.window.slots[id & core.window.mask] = NIL
        core.window.count -= 1
    else:
        if node.where >= DISPLACED or core.by_id.count == 1:
            return NOT_DONE
        core.by_id.buckets[node.where >> 4].tags[node.where & 15] = 0
        core.by_id.count -= 1
    if node.prev != NIL:
        core.nodes[node.prev].next = node.next
    else:
        at.head = node.next
    if node.next != NIL:
        core.nodes[node.next].prev = node.prev
    else:
        at.tail = node.prev
    at.total -= size_of(node)
    at.num_orders -= 1
    core.seq += 1
    slab_give(core, slot)
    return done_at(ladder, level)


cdef int run_rare(
    Core* core, const Event* event, int kind, uint32_t guess, Output* out
) noexcept nogil:
    cdef uint32_t slot = guess
    if kind == KIND_CLEAR:
        clear(core, CANCELLED, out)
        return DONE
    if kind > KIND_REPLACE:
        return DONE if KIND_TRADE <= kind <= KIND_SETTLE else BAD_KIND
    if slot == NIL:
        slot = index_find(core, id_of(event))
    if kind == KIND_REDUCE:
        return run_reduce(core, slot, lots_of(event))
    return run_replace(core, event, slot, out)


cdef inline void look_16_ahead(const Core* core, const Event* event) noexcept nogil:
    # Fetch the bucket, or the place in the window, of an order to come.
    cdef uint64_t id = id_of(event)
    if id - core.window.base <= core.window.mask:
        prefetch(core.window.slots + (id & core.window.mask))
    elif core.by_id.count:
        prefetch(core.by_id.buckets + (mix(id) >> core.by_id.shift))


cdef inline uint32_t look_8_ahead(const Core* core, const Event* event) noexcept nogil:
    # Guess the slot of an order to come by its tag alone, and fetch its node.
    cdef uint64_t id = id_of(event), mixed
    cdef uint32_t slot = NIL, found
    cdef const Bucket* bucket
    if kind_of(event) == KIND_LIMIT:
        return NIL
    if id - core.window.base <= core.window.mask:
        slot = core.window.slots[id & core.window.mask]
    elif core.by_id.count:
        mixed = mix(id)
        bucket = core.by_id.buckets + (mixed >> core.by_id.shift)
        found = tags_equal(bucket.tags, tag_of(mixed))
        if found:
            slot = bucket.slots[ctz(found)]
    prefetch(core.nodes + slot)
    return slot


cdef inline void look_4_ahead(const Core* core, uint32_t guess) noexcept nogil:
    # Fetch the neighbours of an order to come, which its removal will relink.
    if guess != NIL:
        prefetch(core.nodes + core.nodes[guess].prev)
        prefetch(core.nodes + core.nodes[guess].next)


cdef inline void look_around(Core* core, uint32_t slot) noexcept nogil:
    # Fetch what the removal of an order will touch besides itself.
    cdef Window* window = window_of(core, core.nodes[slot].id)
    prefetch(window.slots + (core.nodes[slot].id & window.mask))
    look_4_ahead(core, slot)


cdef inline uint32_t look_ahead(
    const Core* core, const Event* event, uint32_t* guesses, Py_ssize_t index
) noexcept nogil:
    # Returns a slot that holds the order of an event, or NIL where that is not known for sure.
    cdef uint32_t guess = guesses[index & 15]
    look_16_ahead(core, event + 16)
    guesses[(index + 8) & 15] = look_8_ahead(core, event + 8)
    look_4_ahead(core, guesses[(index + 4) & 15])
    # An id that no order has marks a free slot, so that equal ids prove the guess.
    if core.nodes[guess].id == id_of(event) and id_of(event) < NO_ID:
        return guess
    return NIL


cdef inline int64_t lots_at(const Ladder* ladder, uint32_t level) noexcept nogil:
    # How much rests at a level, as far as a record can say it.
    cdef u128 total
    if level == NO_LEVEL:
        return 0
    total = ladder.levels[level].total
    return <int64_t>low(total) if total <= <u128>0x7FFFFFFFFFFFFFFFULL else 0x7FFFFFFFFFFFFFFFLL


cdef void tape_start(const Core* core, Tape* tape) noexcept nogil:
    # Look at the best prices as they are.
    tape.bid, tape.ask = core.sides[BUY].best, core.sides[SELL].best
    tape.bid_size = lots_at(&core.sides[BUY], tape.bid)
    tape.ask_size = lots_at(&core.sides[SELL], tape.ask)


cdef void tape_write(
    const Core* core, Tape* tape, const Event* event, uint64_t index
) noexcept nogil:
    # Take down the best prices, which an event has changed and the tape knows already.
    cdef Best* row = tape.rows + tape.count
    row.event = index
    row.ts_ns = ts_of(event)
    row.bid_size, row.ask_size = tape.bid_size, tape.ask_size
    row.bid = core.lo - 1 if tape.bid == NO_LEVEL else price_at(core, BUY, tape.bid)
    row.ask = core.lo + <int32_t>core.num_levels
    if tape.ask != NO_LEVEL:
        row.ask = price_at(core, SELL, tape.ask)
    row.instrument = event.instrument
    tape.count += 1


cdef inline bint tape_moves(const Core* core, Tape* tape) noexcept nogil:
    # Look at the best prices again; say whether they are others than before.
    cdef uint32_t bid = core.sides[BUY].best, ask = core.sides[SELL].best
    cdef int64_t bid_size = lots_at(&core.sides[BUY], bid)
    cdef int64_t ask_size = lots_at(&core.sides[SELL], ask)
    # One question instead of four, the answers to which nobody can guess.
    if not (
        <uint64_t>(bid_size ^ tape.bid_size) | <uint64_t>(ask_size ^ tape.ask_size)
        | (bid ^ tape.bid) | (ask ^ tape.ask)
    ):
        return False
    tape.bid, tape.ask, tape.bid_size, tape.ask_size = bid, ask, bid_size, ask_size
    return True


cdef inline bint follows_fill(const Event* event, const Event* end) noexcept nogil:
    # Whether the next event is a recorded fill.
    return event + 1 < end and kind_of(event + 1) == KIND_FILL


cdef inline const Event* behind_recorded(
    const Event* event, const Event* end, const Fill* fill, const Fill* behind
) noexcept nogil:
    # The event behind the fills recorded right behind a command, or NULL if its own are others.
    event += 1
    while event < end and kind_of(event) == KIND_FILL:
        if fill == behind or fill.resting_id != id_of(event):
            return NULL
        if fill.size != lots_of(event) or fill.price != price_of(event):
            return NULL
        fill += 1
        event += 1
    return event if fill == behind else NULL


cdef inline Py_ssize_t run_through(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status,
    Output* out, Tape* tape, bint advances, bint tells
) noexcept nogil:
    # Returns the index of the first event that was neither executed nor, with a status array,
    # refused and passed over. One source, compiled three times for what is known beforehand.
    cdef const Event* event = events + start
    cdef const Event* behind
    cdef Py_ssize_t index = start, ask = start
    cdef uint32_t guesses[16]
    cdef uint32_t guess
    cdef int code, kind, done
    cdef bint ahead = False
    cdef size_t before = 0
    cdef uint8_t* kinds = out.kinds
    cdef uint32_t alone = out.instrument & 0xFFFF
    cdef uint32_t mask = 0 if out.instrument == ANY_INSTRUMENT else 0xFFFF
    cdef uint64_t base = out.base
    memset(guesses, 0, sizeof(guesses))
    if tells and tape.room == 0:
        return start
    while index < stop:
        if advances and unlikely((instrument_of(event) ^ alone) & mask):
            return index
        if unlikely(index >= ask):
            # Whether look-ahead pays is asked now and then; the last events do without.
            ask = (index | 511) + 1
            ahead = num_orders(core) >= PREFETCH_FROM and ask + 16 <= stop
        prefetch(event + 32)
        guess = look_ahead(core, event, guesses, index) if ahead else <uint32_t>NIL
        kind = kind_of(event)
        if advances and kinds != NULL:
            kinds[index] = <uint8_t>kind
        if advances and KIND_TRADE <= kind <= KIND_SETTLE:
            # What was recorded says nothing to the book.
            if status != NULL:
                status[index] = DONE
            event += 1
            index += 1
            continue
        if advances:
            before = out.count
        code = DONE
        done = DONE_ABOVE
        if kind == KIND_LIMIT:
            done = enter_plain(core, event, base + index, out)
            if not done:
                code = run_enter(core, event, kind, base + index, out)
        elif kind == KIND_CANCEL:
            done = cancel_plain(core, id_of(event), guess)
            if not done:
                code = run_cancel(core, id_of(event), guess)
        elif kind == KIND_IOC:
            done = take_plain(core, event, base + index, out)
            if not done:
                code = run_enter(core, event, kind, base + index, out)
        elif kind == KIND_SEED:
            code = run_enter(core, event, kind, base + index, out)
        else:
            out.index = base + index
            code = run_rare(core, event, kind, guess, out)
            if advances and kind == KIND_CLEAR and out.watch != STRANGER:
                out.met = True
                stop = index + 1
        if unlikely(not mark(status, index, code)):
            out.code = code
            return index
        if tells and done != DONE_ASIDE and tape_moves(core, tape):
            tape_write(core, tape, event, base + index)
            if unlikely(tape.count == tape.room):
                stop = index + 1
        if advances and (out.count != before or follows_fill(event, out.end)):
            behind = event + 1
            if event < out.end:
                behind = behind_recorded(
                    event, out.end, out.fills + before, out.fills + out.count
                )
                if unlikely(behind == NULL):
                    if out.differs != NULL:
                        out.differs[index] = 1
                    if out.verify:
                        out.met = True
                    else:
                        behind = event + 1
            if unlikely(out.met):
                if not out.passes or behind == NULL:
                    return index + 1
                out.met, out.passed = False, True
            if not ahead:
                # Those fills were looked at and say nothing to the book.
                while event + 1 < behind and index + 1 < stop:
                    if unlikely((instrument_of(event + 1) ^ alone) & mask):
                        break
                    event += 1
                    index += 1
                    if kinds != NULL:
                        kinds[index] = KIND_FILL
                    mark(status, index, DONE)
        event += 1
        index += 1
    return index


cdef Py_ssize_t run_events(
    Core* core, const Event* events, Py_ssize_t count, uint8_t* status, Output* out
) noexcept nogil:
    return run_through(core, events, 0, count, status, out, NULL, False, False)


cdef Py_ssize_t run_stretch(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status,
    Output* out
) noexcept nogil:
    return run_through(core, events, start, stop, status, out, NULL, True, False)


cdef Py_ssize_t run_telling(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status,
    Output* out, Tape* tape
) noexcept nogil:
    tape_start(core, tape)
    return run_through(core, events, start, stop, status, out, tape, True, True)


cdef Py_ssize_t first_after(
    const Event* events, Py_ssize_t start, Py_ssize_t stop, int64_t until_ns
) noexcept nogil:
    # Where the events end that are not later than a time.
    cdef Py_ssize_t index = start
    while index < stop and ts_of(events + index) <= until_ns:
        index += 1
    return index


cdef Py_ssize_t run_span(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, bint timed,
    int64_t until_ns, uint8_t* status, Output* out, Tape* tape
) noexcept nogil:
    # A stretch up to a time, with best prices taken down or without.
    if timed:
        stop = first_after(events, start, stop, until_ns)
    if out.tells:
        return run_telling(core, events, start, stop, status, out, tape)
    return run_stretch(core, events, start, stop, status, out)


cdef inline bint mark(uint8_t* status, Py_ssize_t index, int code) noexcept nogil:
    # Write down what came of an event; False where the run cannot go on.
    if unlikely(code >= NO_MEMORY):
        return False
    if status != NULL:
        status[index] = <uint8_t>code
        return True
    return code == DONE


# ----- between Python and C -------------------------------------------------------------------

# As C variables these are there at once; a global name is looked up in a dictionary each time.
cdef object Order = _order.Order
cdef object SelfTrade = _order.SelfTrade
cdef object OrderAdded = _events.OrderAdded
cdef object OrderReduced = _events.OrderReduced
cdef object OrderRemoved = _events.OrderRemoved
cdef object Trade = _events.Trade
cdef object Level_ = _depth.Level
cdef object Resting = _depth.Resting
cdef object maker_of = _order.maker_of
cdef object GTC = _order.TimeInForce.GTC
cdef object GTD = _order.TimeInForce.GTD
cdef object IOC = _order.TimeInForce.IOC
cdef object FOK = _order.TimeInForce.FOK
cdef object SIDE_BUY = _order.Side.BUY
cdef object SIDE_SELL = _order.Side.SELL
cdef object NO_POLICY = SelfTrade.NONE
cdef object ZERO = 0
cdef object YES = True
cdef object NO = False
cdef object REASON_CANCELLED = RemovalReason.CANCELLED
cdef tuple REASONS = (
    RemovalReason.FILLED,
    RemovalReason.CANCELLED,
    RemovalReason.EXPIRED,
    RemovalReason.SELF_TRADE,
    RemovalReason.REPLACED,
)
cdef u128 SIZE_MAX = join(0xFFFFFFFFFFFFFFFFULL, 0xFFFFFFFFULL)

cdef enum:
    # Places of the fields of an Order in ORDER_FIELDS.
    AT_ID
    AT_TOKEN
    AT_MAKER
    AT_SIDE
    AT_PRICE
    AT_SIZE
    AT_TIF
    AT_EXPIRATION
    AT_POST_ONLY
    AT_SELF_TRADE
    NUM_FIELDS

cdef tuple ORDER_FIELDS = (
    "id",
    "token",
    "maker",
    "side",
    "price",
    "size",
    "time_in_force",
    "expiration_s",
    "post_only",
    "self_trade",
)
cdef Py_ssize_t ORDER_OFFSETS[NUM_FIELDS]


cdef bint find_offsets(object kind, tuple names, Py_ssize_t* offsets) except -1:
    # Where a Struct keeps its fields. Reading one there takes a fifth of an attribute lookup, and
    # writing all of them half of a constructor's call. Whether that may be done is tried on an
    # instance whose every field is an object of its own.
    cdef int place
    cdef object descriptor, value
    cdef object trial = kind(**{name: object() for name in names})
    for place in range(len(names)):
        descriptor = kind.__dict__.get(names[place])
        offsets[place] = slot_offset(<PyObject*>descriptor) if descriptor is not None else -1
        if offsets[place] < 0:
            return False
    for place in range(len(names)):
        value = getattr(trial, names[place])
        if (<PyObject**>(<char*><PyObject*>trial + offsets[place]))[0] != <PyObject*>value:
            return False
    return True


cdef struct Layout:
    # A Struct type that can be built field by field, if its places are known.
    Py_ssize_t offsets[14]
    int count
    bint known


cdef int find_layout(object kind, Layout* layout) except -1:
    cdef tuple names = kind.__struct_fields__
    layout.count = len(names)
    layout.known = False
    if layout.count <= 14 and kind.__basicsize__ == sizeof(PyObject) + layout.count * sizeof(void*):
        layout.known = not (<PyTypeObject*>kind).tp_flags & Py_TPFLAGS_HAVE_GC and find_offsets(
            kind, names, layout.offsets
        )
    return 0


cdef bint OFFSETS_KNOWN = find_offsets(Order, ORDER_FIELDS, ORDER_OFFSETS)
cdef Layout ADDED_LAYOUT, REMOVED_LAYOUT, TRADE_LAYOUT
find_layout(OrderAdded, &ADDED_LAYOUT)
find_layout(OrderRemoved, &REMOVED_LAYOUT)
find_layout(Trade, &TRADE_LAYOUT)


cdef inline object build(object kind, const Layout* layout, PyObject** fields):
    # An instance of a Struct type with these fields, in their order.
    cdef int place
    cdef object instance
    if unlikely(not layout.known):
        return kind(*[<object>fields[place] for place in range(layout.count)])
    instance = PyObject_New(<PyTypeObject*>kind)
    for place in range(layout.count):
        Py_INCREF(<object>fields[place])
        (<PyObject**>(<char*><PyObject*>instance + layout.offsets[place]))[0] = fields[place]
    return instance


cdef inline int know_hash(PyObject* text) except -1:
    # A text that was not looked up before has no hash yet.
    if text_hash(text) == NO_HASH:
        hash(<object>text)
    return 0


cdef inline bint as_i64(PyObject* value, int64_t* result) noexcept:
    # An integer from 0 to 2**63 - 1.
    cdef int overflow = 0
    if not is_integer(value):
        return False
    if likely(is_compact(value)):
        result[0] = compact_value(value)
    else:
        result[0] = to_i64(value, &overflow)
    return overflow == 0 and result[0] >= 0


cdef inline size_t limit_of(object trades_max) except? 0:
    # How many trades are allowed; None is as many as there are.
    cdef int64_t limit
    if trades_max is None:
        return NO_LIMIT
    if likely(as_i64(<PyObject*>trades_max, &limit)) and likely(limit > 0):
        return <size_t>limit
    _validation.check_trades_max(trades_max)
    return NO_LIMIT


cdef inline bint as_size(PyObject* value, u128* result) noexcept:
    # A size in wei, 1 to SIZE_MAX; what has a digit more than those 96 bits need is larger.
    if not is_integer(value) or is_negative(value):
        return False
    if digit_count(value) * PyLong_SHIFT > 96 + PyLong_SHIFT:
        return False
    result[0] = <u128><object>value
    return 0 < result[0] <= SIZE_MAX


cdef void* replica(
    void* old, const void* source, uint64_t capacity, uint64_t count, size_t size
) except NULL:
    # A copy of the first entries of an array, with its room, in place of the old one.
    cdef void* copy = malloc(capacity * size)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, source, count * size)
    free(old)
    return copy


cdef void copy_ladder(Ladder* to, const Ladder* source, uint32_t num_levels) noexcept:
    # Both have the same number of levels.
    memcpy(to.levels, source.levels, num_levels * sizeof(Level))
    memcpy(to.words, source.words, ((num_levels >> 6) + 1) * sizeof(uint64_t))
    memcpy(to.groups, source.groups, ((num_levels >> 12) + 1) * sizeof(uint64_t))
    to.top, to.best = source.top, source.best


cdef int copy_table(Table* to, const Table* source) except -1:
    cdef Table copy
    if not table_create(&copy, (source.mask + 1) * BUCKET_FILL_MAX):
        raise MemoryError
    free(to.memory)
    to[0] = copy
    memcpy(to.buckets, source.buckets, (source.mask + 1) * sizeof(Bucket))
    to.count = source.count
    return 0


cdef int copy_window(Window* to, const Window* source) except -1:
    to.slots = <uint32_t*>replica(
        to.slots, source.slots, source.mask + 1, source.mask + 1, sizeof(uint32_t)
    )
    to.base, to.mask, to.count = source.base, source.mask, source.count
    to.reach = source.reach
    return 0


cdef inline list unwatched(list events):
    # The collector need not look at a list of events: none of them can be part of a cycle.
    # Watched, a program that keeps its events would pay a third of its time for it.
    PyObject_GC_UnTrack(<PyObject*>events)
    return events


cdef object PLAIN_ARRAY = None
cdef object EVENT_TYPE = None
cdef object FILL_TYPE = None
cdef object STATUS_TYPE = None
cdef object BEST_TYPE = None


cdef int know_types() except -1:
    # What the arrays of a stretch nearly always are; NumPy is not imported before one is seen.
    global PLAIN_ARRAY, EVENT_TYPE, FILL_TYPE, STATUS_TYPE, BEST_TYPE
    if PLAIN_ARRAY is None:
        types = _validation.known_types()
        _, EVENT_TYPE, FILL_TYPE, STATUS_TYPE, BEST_TYPE = types
        PLAIN_ARRAY = types[0]
    return 0


cdef struct Loan:
    # The memory of the arrays of a stretch, and how many of them are to be given back.
    Py_buffer views[6]
    Py_buffer* taken[6]
    int count
    bint given[6]               # which of them there are


cdef bint borrow(Loan* loan, int place, object array, object dtype, int flags) except -1:
    # Take the memory of an array that is plain, and of just this dtype. False where it is not.
    cdef Py_buffer* view = loan.views + place
    loan.given[place] = array is not None
    if array is None:
        return True
    if type(array) is not PLAIN_ARRAY or array.dtype is not dtype:
        return False
    try:
        PyObject_GetBuffer(array, view, flags | PyBUF_ND)
    except (ValueError, BufferError):
        return False
    loan.taken[loan.count] = view
    loan.count += 1
    return view.ndim == 1 and (view.itemsize == 1 or <uintptr_t>view.buf % 8 == 0)


cdef bint apart(const Loan* loan) noexcept:
    # Whether no two arrays share memory.
    cdef int one, other
    cdef uintptr_t begin, end
    for one in range(loan.count):
        begin = <uintptr_t>loan.taken[one].buf
        end = begin + loan.taken[one].len
        for other in range(one + 1, loan.count):
            if begin < <uintptr_t>loan.taken[other].buf + loan.taken[other].len:
                if <uintptr_t>loan.taken[other].buf < end:
                    return False
    return True


cdef void give_back(Loan* loan) noexcept:
    while loan.count:
        loan.count -= 1
        PyBuffer_Release(loan.taken[loan.count])


cdef object borrow_all(
    Loan* loan, object events, object fills, object status, object bests, object kinds,
    object differs
):
    # Borrow the memory of the arrays of a stretch: at once where they are as always, else after
    # they were looked at closely. Returns the fills as a plain array.
    cdef Py_ssize_t count
    know_types()
    if (
        borrow(loan, 0, events, EVENT_TYPE, 0)
        and events is not None
        and borrow(loan, 1, fills, FILL_TYPE, PyBUF_WRITABLE)
        and fills is not None
        and borrow(loan, 2, status, STATUS_TYPE, PyBUF_WRITABLE)
        and borrow(loan, 3, bests, BEST_TYPE, PyBUF_WRITABLE)
        and borrow(loan, 4, kinds, STATUS_TYPE, PyBUF_WRITABLE)
        and borrow(loan, 5, differs, STATUS_TYPE, PyBUF_WRITABLE)
    ):
        count = loan.views[0].len // <Py_ssize_t>sizeof(Event)
        if (
            (status is None or loan.views[2].len >= count)
            and (kinds is None or loan.views[4].len >= count)
            and (differs is None or loan.views[5].len >= count)
            and apart(loan)
        ):
            return fills
    give_back(loan)
    arrays = _validation.check_advance(events, fills, status, bests, kinds, differs)
    for place, array in enumerate(arrays):
        loan.given[<int>place] = array is not None
        if array is not None:
            PyObject_GetBuffer(
                array, loan.views + <int>place, PyBUF_WRITABLE if place else PyBUF_SIMPLE
            )
            loan.taken[loan.count] = loan.views + <int>place
            loan.count += 1
    return arrays[1]


@cython.final
@cython.internal
@cython.no_gc_clear
cdef class Lent:
    """Arrays lent to books, which hold their memory until this is let go."""

    cdef Loan loan
    cdef object fills

    def __dealloc__(self):
        """Give the memory back."""
        give_back(&self.loan)


cdef struct Admission:
    # A new order that broke no rule that can be judged without the resting orders.
    Incoming incoming
    PyObject* name              # its text id, or NULL
    PyObject* maker
    PyObject* price_given
    PyObject* size
    int64_t expiration_s
    uint32_t level
    int32_t price
    bint rests
    bint post_only
    bint fok


@cython.final
@cython.no_gc_clear
cdef class Book:
    """The order book of one outcome token: price-time priority on a grid of integer prices.

    Commands go in, events come out; a refused command raises and changes nothing. This is the
    compiled book; every method is documented with its twin in the reference.
    """

    cdef Core core
    cdef bint busy
    cdef readonly int lo
    """The lowest price of the grid, in ticks."""
    cdef readonly int hi
    """The highest price of the grid, in ticks."""
    cdef readonly str token
    """The token of the book; empty for any."""
    cdef readonly str market
    """What events and depth name as their market."""
    cdef readonly object lot_wei
    """What every size is a multiple of, in wei."""
    cdef dict makers
    cdef dict departed
    cdef uint32_t seen_owners[1024]

    def __cinit__(self, lo=1, hi=99, token="", lot_wei=1, capacity=0, market=""):
        cdef Core* core = &self.core
        _validation.check_book(lo, hi, token, lot_wei, capacity, market)
        self.lo, self.hi, self.lot_wei = lo, hi, lot_wei
        self.token, self.market = token, market
        self.makers = {}
        self.departed = {}
        core.lo = lo
        core.num_levels = hi - lo + 1
        core.lot_wei = <u128>lot_wei
        core.lots_max = min(<object>SIZE_MAX // lot_wei, 2**63 - 1)
        core.planned = capacity
        if not window_create(&core.window, capacity) or not window_create(&core.numbers, capacity):
            raise MemoryError
        core.capacity = max(<uint64_t>capacity, <uint64_t>63) + 1
        core.top = 1
        core.next_number = FIRST_NUMBER
        core.effects_capacity = 64
        core.nodes = <Node*>malloc(core.capacity * sizeof(Node))
        if core.nodes != NULL:
            # Slot 0 is no order's; who looks before he asks finds one that is never plain.
            memset(core.nodes, 0, sizeof(Node))
            core.nodes[NIL].id = NO_ID
            core.nodes[NIL].place = SPECIAL
        core.effects = <Effect*>malloc(core.effects_capacity * sizeof(Effect))
        if core.nodes == NULL or core.effects == NULL:
            raise MemoryError
        if not table_create(&core.by_id, 0) or not table_create(&core.by_name, 0):
            raise MemoryError
        if not ladder_create(&core.sides[BUY], core.num_levels):
            raise MemoryError
        if not ladder_create(&core.sides[SELL], core.num_levels):
            raise MemoryError

    def __dealloc__(self):
        cdef Core* core = &self.core
        cdef uint64_t slot
        if core.extras != NULL and core.nodes != NULL:
            for slot in range(1, core.top):
                if core.nodes[slot].id != NO_ID and core.nodes[slot].id >= FIRST_NUMBER:
                    Py_XDECREF(core.extras[slot].name)
        for slot in range(core.owners_top):
            Py_XDECREF(core.owners[slot].name)
        ladder_destroy(&core.sides[BUY])
        ladder_destroy(&core.sides[SELL])
        free(core.nodes)
        free(core.extras)
        free(core.window.slots)
        free(core.numbers.slots)
        free(core.by_id.memory)
        free(core.by_name.memory)
        free(core.owners)
        free(core.effects)
        free(core.departed)

    # ----- helpers: values --------------------------------------------------------------------

    cdef inline int enter(self) except -1:
        if unlikely(self.busy):
            raise BookBusyError
        self.busy = True
        return 0

    cdef inline object wei(self, u128 lots):
        return integer(lots * self.core.lot_wei)

    cdef inline u128 lots(self, object size):
        # Of a size that was checked.
        cdef u128 value = <u128>size
        return value // self.core.lot_wei

    cdef inline object id_at(self, uint32_t slot):
        if self.core.nodes[slot].id >= FIRST_NUMBER:
            return <object>self.core.extras[slot].name
        return self.core.nodes[slot].id

    cdef inline object maker_at(self, uint32_t owner):
        if owner >= FIRST_NAMED_OWNER:
            return <object>self.core.owners[owner - FIRST_NAMED_OWNER].name
        return maker_of(owner)

    cdef inline int64_t expiration_at(self, uint32_t slot):
        if self.core.nodes[slot].place & EXPIRES:
            return self.core.extras[slot].expiration_s
        return 0

    cdef object resting_at(self, uint32_t slot):
        cdef Node* node = self.core.nodes + slot
        return Resting(
            self.id_at(slot),
            SIDE_SELL if side_of(node) else SIDE_BUY,
            price_at(&self.core, side_of(node), level_of(node)),
            self.wei(size_of(node)),
            self.maker_at(node.owner),
            self.expiration_at(slot),
        )

    cdef uint32_t find(self, object order_id) except NIL:
        # The slot of a resting order, by its id or its number.
        cdef uint32_t slot
        cdef uint64_t number
        cdef int64_t small
        if PyUnicode_CheckExact(order_id):
            know_hash(<PyObject*>order_id)
            slot = name_find(&self.core, <PyObject*>order_id)
        elif as_i64(<PyObject*>order_id, &small):
            slot = index_find(&self.core, <uint64_t>small)
        else:
            _validation.check_id(order_id)
            number = order_id
            slot = index_find(&self.core, number)
        if unlikely(slot == NIL):
            raise _rejections.unknown(order_id)
        return slot

    # ----- helpers: owners --------------------------------------------------------------------

    cdef uint32_t find_owner(self, str maker) except? NIL:
        # The number of a maker, STRANGER where he has nothing resting.
        cdef object number
        cdef uint32_t* seen = self.seen_owners + (<uintptr_t><PyObject*>maker >> 4 & 1023)
        # The very text that is kept as the name of an owner needs no look-up.
        if seen[0] and self.core.owners[seen[0] - 1].name == <PyObject*>maker:
            return FIRST_NAMED_OWNER + seen[0] - 1
        if not maker:
            return NOBODY
        number = self.makers.get(maker)
        if number is None:
            if maker[0] == "o":
                number = _order.owner_number(maker)
            return STRANGER if number is None else number
        seen[0] = <uint32_t>number - FIRST_NAMED_OWNER + 1
        return number

    cdef uint32_t hold_owner(self, str maker) except? NIL:
        # The number of a maker who gets one more resting order.
        cdef Core* core = &self.core
        cdef uint32_t owner = self.find_owner(maker), place
        cdef Owner* grown
        cdef uint64_t capacity
        if owner == STRANGER:
            place = core.owners_free
            if place == 0:
                if core.owners_top == core.owners_capacity:
                    capacity = max(<uint64_t>16, core.owners_capacity * 2)
                    grown = <Owner*>realloc(core.owners, capacity * sizeof(Owner))
                    if grown == NULL:
                        raise MemoryError
                    core.owners = grown
                    core.owners_capacity = capacity
                place = <uint32_t>core.owners_top + 1
            self.makers[maker] = FIRST_NAMED_OWNER + place - 1
            if place == core.owners_free:
                core.owners_free = core.owners[place - 1].next_free
            else:
                core.owners_top += 1
            Py_INCREF(maker)
            core.owners[place - 1].name = <PyObject*>maker
            core.owners[place - 1].num_orders = 0
            owner = FIRST_NAMED_OWNER + place - 1
        if owner >= FIRST_NAMED_OWNER:
            core.owners[owner - FIRST_NAMED_OWNER].num_orders += 1
        return owner

    cdef int release(self, PyObject* name, uint32_t owner) except -1:
        # Let go of what hung on an order that left.
        cdef Owner* entry
        cdef object maker
        Py_XDECREF(name)
        if owner < FIRST_NAMED_OWNER:
            return 0
        entry = self.core.owners + (owner - FIRST_NAMED_OWNER)
        entry.num_orders -= 1
        if entry.num_orders == 0:
            maker = <object>entry.name
            entry.name = NULL
            entry.next_free = self.core.owners_free
            self.core.owners_free = owner - FIRST_NAMED_OWNER + 1
            Py_DECREF(maker)
            del self.makers[maker]
        return 0

    cdef int drop(self, uint32_t slot) except -1:
        # Take out an order whose removal is announced already.
        cdef PyObject* name = NULL
        cdef uint32_t owner = self.core.nodes[slot].owner
        if self.core.nodes[slot].id >= FIRST_NUMBER:
            name = self.core.extras[slot].name
        queue_unlink(&self.core, slot)
        forget(&self.core, slot)
        self.core.seq += 1
        return self.release(name, owner)

    # ----- helpers: orders that come in -------------------------------------------------------

    cdef bint read_order(self, PyObject* order, object now_ms, Admission* to) except -1:
        # Read an Order field by field; False where any of it breaks a rule.
        cdef PyObject* fields[NUM_FIELDS]
        cdef PyObject* item
        cdef int place
        cdef int64_t price = 0, now = 0
        cdef object value
        for place in range(NUM_FIELDS):
            if likely(OFFSETS_KNOWN):
                fields[place] = (<PyObject**>(<char*>order + ORDER_OFFSETS[place]))[0]
            else:
                # The order itself goes on holding what is borrowed here.
                value = getattr(<object>order, ORDER_FIELDS[place])
                fields[place] = <PyObject*>value
            if fields[place] == NULL:
                return False
        if not as_i64(<PyObject*>now_ms, &now):
            return False
        to.incoming.now_s = now // 1000
        if not self.read_instructions(fields, to):
            return False
        if fields[AT_SIDE] == <PyObject*>SIDE_BUY:
            to.incoming.side = BUY
        elif fields[AT_SIDE] == <PyObject*>SIDE_SELL:
            to.incoming.side = SELL
        else:
            return False
        item = fields[AT_ID]
        to.name = NULL
        if is_text(item):
            if text_length(item) == 0:
                return False
            know_hash(item)
            to.name = item
            # The bucket arrives while the rest is checked.
            prefetch(
                self.core.by_name.buckets + (mix_name(to.name) >> self.core.by_name.shift)
            )
        elif not as_i64(item, <int64_t*>&to.incoming.id):
            return False
        to.maker = fields[AT_MAKER]
        if not is_text(to.maker):
            return False
        if fields[AT_TOKEN] != <PyObject*>self.token:
            if len(self.token) and <object>fields[AT_TOKEN] != self.token:
                return False
        to.price_given = fields[AT_PRICE]
        if not is_integer(to.price_given) or digit_count(to.price_given) * PyLong_SHIFT > 63:
            return False
        price = to_i64(to.price_given, &place) if not is_compact(to.price_given) else (
            compact_value(to.price_given)
        )
        if not self.lo <= price <= self.hi:
            return False
        to.price = <int32_t>price
        to.size = fields[AT_SIZE]
        if not as_size(to.size, &to.incoming.left):
            return False
        if self.core.lot_wei != 1:
            if to.incoming.left % self.core.lot_wei != 0:
                return False
            to.incoming.left = to.incoming.left // self.core.lot_wei
        return to.expiration_s == 0 or to.incoming.now_s <= to.expiration_s

    cdef inline bint read_instructions(self, PyObject** fields, Admission* to) except -1:
        cdef PyObject* item = fields[AT_TIF]
        to.fok = item == <PyObject*>FOK
        to.rests = item == <PyObject*>GTC or item == <PyObject*>GTD
        if not to.rests and not to.fok and item != <PyObject*>IOC:
            return False
        to.post_only = fields[AT_POST_ONLY] == <PyObject*>YES
        if to.post_only:
            if not to.rests:
                return False
        elif fields[AT_POST_ONLY] != <PyObject*>NO:
            return False
        to.expiration_s = 0
        if not as_i64(fields[AT_EXPIRATION], &to.expiration_s):
            if not is_integer(fields[AT_EXPIRATION]) or is_negative(fields[AT_EXPIRATION]):
                return False
            to.expiration_s = 0x7FFFFFFFFFFFFFFF
        if item == <PyObject*>GTD and to.expiration_s == 0:
            return False
        to.incoming.policy = POLICY_NONE
        item = fields[AT_SELF_TRADE]
        if item != <PyObject*>None and item != <PyObject*>NO_POLICY:
            if type(<object>item) is not SelfTrade:
                return False
            to.incoming.policy = <object>item
        return True

    cdef object admit(self, object order, object now_ms, Admission* to):
        # Check a new order by the rules that need no look at the resting ones. Returns the order
        # that was read, whose fields the admission borrows: it must be held as long as that.
        if type(order) is not Order:
            order = _validation.plain_order(order)
        if unlikely(not self.read_order(<PyObject*>order, now_ms, to)):
            # The checks know the order of precedence and the words.
            _validation.check_order(order, self, now_ms)
            raise InvariantError(f"the checks let pass what the book cannot read: {order!r}")
        to.level = level_at(&self.core, to.incoming.side, to.price)
        to.incoming.limit = self.core.num_levels - 1 - to.level
        return order

    cdef int refuse_duplicate(self, Admission* order) except -1:
        cdef uint32_t slot
        if order.name != NULL:
            slot = name_find(&self.core, order.name)
        else:
            slot = index_find(&self.core, order.incoming.id)
        if unlikely(slot != NIL):
            raise _rejections.duplicate(
                <object>order.name if order.name != NULL else order.incoming.id
            )
        return 0

    cdef int refuse_crossing(
        self, const Incoming* incoming, int32_t price, bint post_only
    ) except -1:
        # A post-only order that would trade, or an order to be rested that reaches the others.
        cdef Core* core = &self.core
        cdef uint32_t level = core.sides[1 - incoming.side].best
        cdef uint32_t slot
        cdef object refusal = _rejections.would_cross if post_only else _rejections.seed_would_cross
        if not crosses(core, incoming):
            return 0
        if post_only:
            slot = first_unexpired(core, incoming)
            if slot == NIL:
                return 0
            level = level_of(core.nodes + slot)
        raise refusal(
            SIDE_SELL if incoming.side else SIDE_BUY,
            price,
            price_at(core, 1 - incoming.side, level),
        )

    cdef int refuse_by_book(self, Admission* order) except -1:
        # What only the resting orders can refuse.
        cdef u128 found
        if order.rests:
            self.refuse_duplicate(order)
        if order.post_only:
            self.refuse_crossing(&order.incoming, order.price, True)
        if order.fok:
            found = fillable(&self.core, &order.incoming)
            if found < order.incoming.left:
                raise _rejections.not_fillable(order.price, self.wei(found), <object>order.size)
        return 0

    cdef int reserve_place(self, Admission* order) except -1:
        # Make sure that resting the order cannot fail.
        cdef Core* core = &self.core
        if not slab_reserve(core):
            raise MemoryError
        if order.name != NULL:
            order.incoming.id = core.next_number
            if not table_reserve(core, &core.by_name, True, 1):
                raise MemoryError
        if not index_reserve(
            core, window_of(core, order.incoming.id), order.incoming.id
        ):
            raise MemoryError
        if (order.name != NULL or order.expiration_s) and not extras_reserve(core):
            raise MemoryError
        return 0

    cdef int reserve_effects(
        self, const Incoming* incoming, size_t more, size_t trades_max
    ) except -1:
        # Make sure that what happens to the orders met is allowed and can be taken down.
        cdef Prospect prospect
        cdef size_t needed = more
        cdef Effect* effects
        self.core.effects_count = 0
        if crosses(&self.core, incoming):
            prospect.trades_max = trades_max
            foresee(&self.core, incoming, False, &prospect)
            if unlikely(prospect.trades > trades_max):
                raise _rejections.too_many_trades(
                    prospect.trades, trades_max, self.wei(prospect.fits)
                )
            needed += prospect.effects
        if likely(needed <= self.core.effects_capacity):
            return 0
        effects = <Effect*>realloc(self.core.effects, 2 * needed * sizeof(Effect))
        if effects == NULL:
            raise MemoryError
        self.core.effects = effects
        self.core.effects_capacity = 2 * needed
        return 0

    cdef uint32_t place(self, Admission* order, uint32_t owner) noexcept:
        # Rest what is left of an order.
        cdef Core* core = &self.core
        cdef Incoming* incoming = &order.incoming
        cdef uint32_t slot = rest(
            core,
            window_of(core, incoming.id),
            incoming.id,
            incoming.side,
            order.level,
            incoming.left,
            owner,
        )
        if order.name != NULL or order.expiration_s:
            core.extras[slot].name = order.name
            core.extras[slot].expiration_s = order.expiration_s
        if order.name != NULL:
            Py_INCREF(<object>order.name)
            table_insert(&core.by_name, mix_name(order.name), slot)
            core.next_number += 1
        if order.expiration_s:
            core.nodes[slot].place |= EXPIRES
            core.num_expiring += 1
        if order.name != NULL or owner >= FIRST_NAMED_OWNER:
            core.nodes[slot].place |= HOLDS
            core.num_held += 1
        return slot

    cdef object added(self, uint32_t slot, object price, object remaining):
        cdef Node* node = self.core.nodes + slot
        cdef object seq = self.core.seq, order_id = self.id_at(slot)
        cdef PyObject* fields[7]
        fields[0] = <PyObject*>seq
        fields[1] = <PyObject*>self.market
        fields[2] = <PyObject*>self.token
        fields[3] = <PyObject*>order_id
        fields[4] = <PyObject*>SIDE_SELL if side_of(node) else <PyObject*>SIDE_BUY
        fields[5] = <PyObject*>price
        fields[6] = <PyObject*>remaining
        return build(OrderAdded, &ADDED_LAYOUT, fields)

    cdef object removed(self, object seq, object order_id, object reason, object remaining):
        cdef PyObject* fields[6]
        fields[0] = <PyObject*>seq
        fields[1] = <PyObject*>self.market
        fields[2] = <PyObject*>self.token
        fields[3] = <PyObject*>order_id
        fields[4] = <PyObject*>reason
        fields[5] = <PyObject*>remaining
        return build(OrderRemoved, &REMOVED_LAYOUT, fields)

    cdef list announce(self, uint64_t seq, object order_id, object maker, int side):
        # Turn the effects into events, numbered from seq + 1 on.
        cdef list events = []
        cdef size_t place
        for place in range(self.core.effects_count):
            seq += 1
            events.append(self.event(self.core.effects + place, seq, order_id, maker, side))
        return events

    cdef object event(
        self, const Effect* effect, uint64_t seq, object order_id, object maker, int side
    ):
        cdef object resting_id = <object>effect.name if effect.name != NULL else effect.id
        cdef object resting_left = self.wei(effect.resting_left)
        if effect.kind == REDUCED:
            return OrderReduced(seq, self.market, self.token, resting_id, resting_left)
        if effect.kind == REMOVED:
            return self.removed(seq, resting_id, REASONS[effect.reason], resting_left)
        return self.traded(effect, seq, resting_id, resting_left, order_id, maker, side)

    cdef object traded(
        self,
        const Effect* effect,
        object seq,
        object resting_id,
        object resting_left,
        object order_id,
        object maker,
        int side,
    ):
        cdef object resting_maker = self.maker_at(effect.owner)
        cdef object price = effect.price, size = self.wei(effect.size)
        cdef object incoming_left = self.wei(effect.incoming_left)
        cdef PyObject* fields[14]
        fields[0] = <PyObject*>seq
        fields[1] = <PyObject*>self.market
        fields[2] = <PyObject*>self.token
        fields[3] = <PyObject*>resting_id
        fields[4] = <PyObject*>order_id
        fields[5] = <PyObject*>price
        fields[6] = <PyObject*>size
        fields[7] = <PyObject*>resting_maker if side else <PyObject*>maker
        fields[8] = <PyObject*>maker if side else <PyObject*>resting_maker
        fields[9] = <PyObject*>resting_left
        fields[10] = <PyObject*>incoming_left
        fields[11] = <PyObject*>SIDE_SELL if side else <PyObject*>SIDE_BUY
        # A book charges nothing.
        fields[12] = fields[13] = <PyObject*>ZERO
        return build(Trade, &TRADE_LAYOUT, fields)

    cdef int release_effects(self) except -1:
        # Let go of the orders that left; a replaced one has not.
        cdef size_t place
        cdef Effect* effect
        for place in range(self.core.effects_count):
            effect = self.core.effects + place
            if effect.kind == REMOVED and effect.reason != REPLACED:
                self.release(effect.name, effect.owner)
        self.core.effects_count = 0
        return 0

    # ----- commands ---------------------------------------------------------------------------

    def submit(self, order, now_ms=0, trades_max=None):
        """Match an order against the book; rest what is left of it."""
        self.enter()
        try:
            return self._submit(order, now_ms, limit_of(trades_max))
        finally:
            self.busy = False

    cdef list _submit(self, object order, object now_ms, size_t trades_max):
        cdef Admission new
        cdef Output out
        cdef uint32_t owner = NOBODY, slot
        cdef uint64_t seq
        cdef bint crossing
        cdef u128 size
        cdef list events
        order = self.admit(order, now_ms, &new)
        if new.incoming.policy != POLICY_NONE:
            owner = self.find_owner(<str>new.maker)
        new.incoming.owner = owner
        self.refuse_by_book(&new)
        crossing = crosses(&self.core, &new.incoming)
        if new.rests:
            self.reserve_place(&new)
        if crossing:
            self.reserve_effects(&new.incoming, 0, trades_max)
        if new.rests:
            owner = self.hold_owner(<str>new.maker)
            if new.incoming.policy != POLICY_NONE:
                new.incoming.owner = owner
        seq = self.core.seq
        size = new.incoming.left
        if crossing:
            memset(&out, 0, sizeof(out))
            match_order(&self.core, &new.incoming, &out)
        slot = self.place(&new, owner) if new.rests and new.incoming.left else <uint32_t>NIL
        if not self.core.effects_count:
            if slot != NIL:
                return unwatched([self.added(slot, <object>new.price_given, <object>new.size)])
            if new.rests:
                self.release(NULL, owner)
            return []
        try:
            events = self.announce(seq, order.id, <object>new.maker, new.incoming.side)
            if slot != NIL:
                events.append(
                    self.added(
                        slot,
                        <object>new.price_given,
                        <object>new.size if new.incoming.left == size
                        else self.wei(new.incoming.left),
                    )
                )
        finally:
            self.release_effects()
            if new.rests and slot == NIL:
                self.release(NULL, owner)
        return unwatched(events)

    def rest(self, order, now_ms=0, before=None):
        """Rest an order without matching, as when a book is restored from a snapshot."""
        self.enter()
        try:
            return self._rest(order, now_ms, before)
        finally:
            self.busy = False

    cdef list _rest(self, object order, object now_ms, object before):
        cdef Admission new
        cdef uint32_t owner, slot, following = NIL
        order = self.admit(order, now_ms, &new)
        if not new.rests:
            raise errors.InvalidInstructionError(
                f"an order to rest cannot be {order.time_in_force!r}"
            )
        self.refuse_duplicate(&new)
        if before is not None:
            following = self.find(before)
            if (
                side_of(self.core.nodes + following) != new.incoming.side
                or level_of(self.core.nodes + following) != new.level
            ):
                raise _rejections.other_queue(self.id_at(following))
        self.refuse_crossing(&new.incoming, new.price, False)
        self.reserve_place(&new)
        owner = self.hold_owner(<str>new.maker)
        slot = self.place(&new, owner)
        if following != NIL:
            queue_unlink(&self.core, slot)
            queue_insert(&self.core, slot, following)
        return unwatched([self.added(slot, <object>new.price_given, <object>new.size)])

    def cancel(self, order_id, now_ms=0, reason=RemovalReason.CANCELLED):
        """Take an order out of the book."""
        self.enter()
        try:
            return self._cancel(order_id, now_ms, reason)
        finally:
            self.busy = False

    cdef list _cancel(self, object order_id, object now_ms, object reason):
        cdef int64_t now
        cdef uint32_t slot
        cdef object event
        if not as_i64(<PyObject*>now_ms, &now):
            _validation.check_time(now_ms)
        if reason is not REASON_CANCELLED:
            _validation.check_reason(reason)
        slot = self.find(order_id)
        # What the removal will touch arrives while the event is built.
        look_around(&self.core, slot)
        event = self.removed(
            self.core.seq + 1,
            self.id_at(slot),
            reason,
            self.wei(size_of(self.core.nodes + slot)),
        )
        self.drop(slot)
        return unwatched([event])

    def reduce(self, order_id, size, now_ms=0):
        """Make an order smaller; it keeps its place in the queue."""
        self.enter()
        try:
            _validation.check_time(now_ms)
            _validation.check_id(order_id)
            _validation.check_size(size, self.lot_wei)
            return self._reduce(self.find(order_id), size)
        finally:
            self.busy = False

    cdef list _reduce(self, uint32_t slot, object size):
        cdef object event
        if self.lots(size) >= size_of(self.core.nodes + slot):
            raise _rejections.not_reduced(size, self.wei(size_of(self.core.nodes + slot)))
        event = OrderReduced(
            self.core.seq + 1, self.market, self.token, self.id_at(slot), size
        )
        reduce(&self.core, slot, self.lots(size))
        return unwatched([event])

    def replace(
        self,
        order_id,
        price,
        size,
        now_ms=0,
        post_only=False,
        self_trade=None,
        trades_max=None,
    ):
        """Give an order another price or size."""
        cdef size_t limit
        self.enter()
        try:
            _validation.check_time(now_ms)
            _validation.check_policy(post_only, self_trade)
            limit = limit_of(trades_max)
            _validation.check_id(order_id)
            _validation.check_price(price, self.lo, self.hi)
            _validation.check_size(size, self.lot_wei)
            return self._replace(
                self.find(order_id),
                price,
                size,
                now_ms // 1000,
                post_only,
                self_trade or 0,
                limit,
            )
        finally:
            self.busy = False

    cdef list _replace(
        self,
        uint32_t slot,
        int32_t price,
        object size,
        int64_t now_s,
        bint post_only,
        int policy,
        size_t trades_max,
    ):
        cdef Core* core = &self.core
        cdef Node* node = core.nodes + slot
        cdef Incoming incoming
        cdef Output out
        cdef uint32_t level
        cdef uint64_t seq
        cdef uint32_t owner = node.owner
        cdef PyObject* name = core.extras[slot].name if node.id >= FIRST_NUMBER else NULL
        cdef list events
        if is_expired(core, slot, now_s):
            raise _rejections.expired(core.extras[slot].expiration_s, now_s)
        incoming.id = node.id
        incoming.side = side_of(node)
        incoming.left = self.lots(size)
        incoming.policy = policy
        incoming.owner = node.owner if policy != POLICY_NONE else <uint32_t>NOBODY
        incoming.now_s = now_s
        level = level_at(core, incoming.side, price)
        incoming.limit = core.num_levels - 1 - level
        if level == level_of(node) and incoming.left < size_of(node):
            return self._reduce(slot, size)
        if post_only:
            self.refuse_crossing(&incoming, price, True)
        self.reserve_effects(&incoming, 1, trades_max)
        seq = core.seq
        memset(&out, 0, sizeof(out))
        replace(core, slot, level, &incoming, &out)
        try:
            events = self.announce(
                seq,
                <object>name if name != NULL else incoming.id,
                self.maker_at(owner),
                incoming.side,
            )
            if incoming.left:
                events.append(self.added(slot, price, self.wei(incoming.left)))
        finally:
            self.release_effects()
            if not incoming.left:
                self.release(name, owner)
        return unwatched(events)

    def expire(self, now_ms):
        """Remove every order whose expiration has passed."""
        self.enter()
        try:
            _validation.check_time(now_ms)
            if self.core.num_expiring == 0:
                return []
            return self.remove_all(True, now_ms // 1000, RemovalReason.EXPIRED)
        finally:
            self.busy = False

    def clear(self, reason=RemovalReason.CANCELLED):
        """Remove every order."""
        self.enter()
        try:
            _validation.check_reason(reason)
            return self.remove_all(False, 0, reason)
        finally:
            self.busy = False

    cdef list remove_all(self, bint expired_only, int64_t now_s, object reason):
        # Announce first: building events can fail, taking the orders out cannot.
        cdef list slots = self.slots(expired_only, now_s)
        cdef list events = []
        cdef uint64_t seq = self.core.seq
        cdef uint32_t slot
        for slot in slots:
            seq += 1
            events.append(
                self.removed(
                    seq,
                    self.id_at(slot),
                    reason,
                    self.wei(size_of(self.core.nodes + slot)),
                )
            )
        for slot in slots:
            self.drop(slot)
        return events

    cdef list slots(self, bint expired_only=False, int64_t now_s=0):
        # The resting orders: bids first, best price first, oldest first.
        cdef Core* core = &self.core
        cdef list slots = []
        cdef int side
        cdef uint32_t level, slot
        for side in range(2):
            level = core.sides[side].best
            while level != NO_LEVEL:
                slot = core.sides[side].levels[level].head
                while slot != NIL:
                    if not expired_only or is_expired(core, slot, now_s):
                        slots.append(slot)
                    slot = core.nodes[slot].next
                level = ladder_next(&core.sides[side], level)
        return slots

    # ----- the batch door ---------------------------------------------------------------------

    def run(self, events, fills=None, status=None):
        """Execute a batch of records."""
        self.enter()
        try:
            events, fills, status = _validation.check_arrays(events, fills, status)
            return self._run(events, fills, status)
        finally:
            self.busy = False

    def seed(self, events):
        """Rest a batch of orders without matching."""
        self.enter()
        try:
            events = _validation.check_seed(events)
            self._run(events, None, None)
            return len(events)
        finally:
            self.busy = False

    cdef object _run(self, object events, object fills, object status):
        cdef Core* core = &self.core
        cdef Py_buffer event_view, fill_view, status_view
        cdef Output out
        cdef Py_ssize_t count = len(events), done
        cdef uint8_t* marks = NULL
        cdef Event* rows
        self.departed = {}
        self.reserve_departed()
        memset(&out, 0, sizeof(out))
        out.runs = True
        out.owned = fills is None
        if out.owned:
            out.room = max(1024, count // 4)
            out.fills = <Fill*>malloc(out.room * sizeof(Fill))
            if out.fills == NULL:
                raise MemoryError
        PyObject_GetBuffer(events, &event_view, PyBUF_SIMPLE)
        if not out.owned:
            PyObject_GetBuffer(fills, &fill_view, PyBUF_WRITABLE)
            out.fills = <Fill*>fill_view.buf
            out.room = fill_view.len // sizeof(Fill)
        if status is not None:
            PyObject_GetBuffer(status, &status_view, PyBUF_WRITABLE)
            marks = <uint8_t*>status_view.buf
        rows = <Event*>event_view.buf
        with nogil:
            done = run_events(core, rows, count, marks, &out)
        PyBuffer_Release(&event_view)
        if not out.owned:
            PyBuffer_Release(&fill_view)
        if status is not None:
            PyBuffer_Release(&status_view)
        self.release_departed()
        fills = self.filled(&out, fills)
        if done < count:
            if out.code == NO_MEMORY:
                raise MemoryError(f"the book cannot grow; the run stopped before event {done}")
            if out.code == FILLS_DO_NOT_FIT:
                raise FillsFullError(done, fills)
            raise RunRejectedError(done, errors.REFUSALS[out.code].code, fills)
        return fills

    def advance(
        self, events, fills, *, status=None, bests=None, kinds=None, differs=None, base=0,
        instrument=None, watch=0, passes=False, verify=False, start=0, stop=None, until_ns=None
    ):
        """Execute a stretch of a batch, as far as time and room go."""
        cdef Loan loan
        self.enter()
        loan.count = 0
        try:
            fills = borrow_all(&loan, events, fills, status, bests, kinds, differs)
            return self.go(
                &loan, fills, 0, 0, None, base, instrument, watch, passes, verify, start, stop,
                until_ns,
            )
        finally:
            give_back(&loan)
            self.busy = False

    @staticmethod
    def lend(events, fills, *, status=None, bests=None, kinds=None, differs=None):
        """Check arrays once for many stretches."""
        cdef Lent lent = Lent.__new__(Lent)
        lent.fills = borrow_all(&lent.loan, events, fills, status, bests, kinds, differs)
        return lent

    def proceed(
        self, Lent lent not None, filled, told, most, base, instrument, watch, bint passes,
        bint verify, start, stop, until_ns, /
    ):
        """Execute a stretch of what was lent."""
        self.enter()
        try:
            return self.go(
                &lent.loan, lent.fills, filled, told, most, base, instrument, watch, passes,
                verify, start, stop, until_ns,
            )
        finally:
            self.busy = False

    cdef tuple go(
        self, Loan* loan, object fills, object filled, object told, object most, object base,
        object instrument, object watch, bint passes, bint verify, object start, object stop,
        object until_ns
    ):
        cdef Core* core = &self.core
        cdef Output out
        cdef Tape tape
        cdef const Event* rows = <const Event*>loan.views[0].buf
        cdef Py_ssize_t count = loan.views[0].len // <Py_ssize_t>sizeof(Event)
        cdef int64_t first = 0, last = count, until = 0, owner = 0, alone = ANY_INSTRUMENT, zero = 0
        cdef int64_t fill = 0, best = 0, room = 0x7FFFFFFFFFFFFFFFLL, reach
        cdef int64_t fill_room = loan.views[1].len // <Py_ssize_t>sizeof(Fill), best_room = 0
        cdef Py_ssize_t done
        cdef uint8_t* marks = NULL
        cdef bint tells = loan.given[3], timed = until_ns is not None
        if tells:
            best_room = loan.views[3].len // <Py_ssize_t>sizeof(Best)
        if not (
            as_i64(<PyObject*>start, &first)
            and (stop is None or as_i64(<PyObject*>stop, &last))
            and (not timed or as_i64(<PyObject*>until_ns, &until))
            and as_i64(<PyObject*>watch, &owner)
            and as_i64(<PyObject*>base, &zero)
            and (
                instrument is None
                or as_i64(<PyObject*>instrument, &alone) and alone < <int64_t>ANY_INSTRUMENT
            )
            and as_i64(<PyObject*>filled, &fill)
            and as_i64(<PyObject*>told, &best)
            and (most is None or as_i64(<PyObject*>most, &room))
            and 0 <= first <= last <= count
            and 0 <= owner < <int64_t>FIRST_NAMED_OWNER
            and fill <= fill_room
            and best <= best_room
        ):
            _validation.check_span(count, start, stop, until_ns)
            _validation.check_stretch(watch, instrument, base)
            _validation.check_written(filled, fill_room, told, best_room, most)
        if self.departed:
            self.departed = {}
        self.reserve_departed()
        memset(&out, 0, sizeof(out))
        memset(&tape, 0, sizeof(tape))
        out.runs = True
        out.fills = <Fill*>loan.views[1].buf + fill
        out.room = fill_room - fill
        out.watch = <uint32_t>owner if owner else STRANGER
        out.instrument = <uint32_t>alone
        out.base = <uint64_t>zero
        out.passes = passes
        out.verify = verify
        if loan.given[2]:
            marks = <uint8_t*>loan.views[2].buf
        if loan.given[4]:
            out.kinds = <uint8_t*>loan.views[4].buf
        if loan.given[5]:
            out.differs = <uint8_t*>loan.views[5].buf
        if verify or out.differs != NULL:
            out.end = rows + count
        if tells and room:
            out.tells = True
            tape.rows = <Best*>loan.views[3].buf + best
            tape.room = min(best_room - best, room)
        reach = min(last, first + FEW)
        if timed:
            reach = first_after(rows, first, reach, until)
        if reach < first + FEW:
            done = run_span(core, rows, first, reach, False, until, marks, &out, &tape)
        else:
            with nogil:
                done = run_span(core, rows, first, last, timed, until, marks, &out, &tape)
        self.release_departed()
        if out.code == NO_MEMORY:
            raise MemoryError(f"the book cannot grow; the run stopped before event {done}")
        if out.code != DONE and out.code != FILLS_DO_NOT_FIT:
            raise RunRejectedError(
                done, errors.REFUSALS[out.code].code, fills[fill : fill + <int64_t>out.count]
            )
        out.met |= out.passed
        return (
            done, fill + <int64_t>out.count, best + <int64_t>tape.count, YES if out.met else NO
        )

    cdef object filled(self, Output* out, object fills):
        # The fills of a run as an array, at the head of the caller's if there is one.
        cdef Py_buffer view
        if not out.owned:
            return fills[: out.count]
        try:
            fills = _validation.empty_fills(out.count)
            PyObject_GetBuffer(fills, &view, PyBUF_WRITABLE)
            memcpy(view.buf, out.fills, out.count * sizeof(Fill))
            PyBuffer_Release(&view)
        finally:
            free(out.fills)
        return fills

    cdef int reserve_departed(self) except -1:
        # A run cannot bring in orders that hold Python objects, so no more of them can leave.
        cdef Core* core = &self.core
        cdef Departed* departed
        core.departed_count = 0
        if core.num_held > core.departed_capacity:
            departed = <Departed*>realloc(core.departed, core.num_held * sizeof(Departed))
            if departed == NULL:
                raise MemoryError
            core.departed = departed
            core.departed_capacity = core.num_held
        return 0

    cdef int release_departed(self) except -1:
        # Keep the text ids of the orders that left, and let go of all else of them.
        cdef size_t place
        cdef Departed* departed
        for place in range(self.core.departed_count):
            departed = self.core.departed + place
            if departed.name != NULL:
                self.departed[departed.number] = <object>departed.name
            self.release(departed.name, departed.owner)
        self.core.departed_count = 0
        return 0

    # ----- what would be ----------------------------------------------------------------------

    def simulate(self, order, now_ms=0, trades_max=None):
        """Say which trades an order would get; nothing changes."""
        self.enter()
        try:
            return self._simulate(order, now_ms, limit_of(trades_max))
        finally:
            self.busy = False

    cdef list _simulate(self, object order, object now_ms, size_t trades_max):
        cdef Admission new
        cdef Prospect prospect
        cdef list events
        order = self.admit(order, now_ms, &new)
        new.incoming.owner = NOBODY
        if new.incoming.policy != POLICY_NONE:
            new.incoming.owner = self.find_owner(<str>new.maker)
        self.refuse_by_book(&new)
        self.reserve_effects(&new.incoming, 0, trades_max)
        prospect.trades_max = NO_LIMIT
        foresee(&self.core, &new.incoming, True, &prospect)
        events = self.announce(
            self.core.seq, order.id, <object>new.maker, new.incoming.side
        )
        self.core.effects_count = 0
        return [event for event in events if type(event) is Trade]

    def fork(self):
        """Make an independent copy, with the same state and hash."""
        self.enter()
        try:
            return self._fork()
        finally:
            self.busy = False

    def __copy__(self):
        """Make an independent copy, with the same state and hash."""
        return self.fork()

    cdef Book _fork(self):
        cdef Book twin = Book(
            self.lo, self.hi, self.token, self.lot_wei, 0, self.market
        )
        cdef Core* core = &twin.core
        cdef Core* own = &self.core
        cdef uint64_t slot
        cdef int side
        copy_table(&core.by_id, &own.by_id)
        copy_table(&core.by_name, &own.by_name)
        copy_window(&core.window, &own.window)
        copy_window(&core.numbers, &own.numbers)
        memcpy(
            core.greatest_in_table, own.greatest_in_table, sizeof(core.greatest_in_table)
        )
        for side in range(2):
            copy_ladder(&core.sides[side], &own.sides[side], own.num_levels)
        core.nodes = <Node*>replica(core.nodes, own.nodes, own.capacity, own.top, sizeof(Node))
        core.capacity = own.capacity
        if own.extras != NULL:
            core.extras = <Extra*>replica(
                NULL, own.extras, own.capacity, own.top, sizeof(Extra)
            )
        if own.owners != NULL:
            core.owners = <Owner*>replica(
                NULL, own.owners, own.owners_capacity, own.owners_top, sizeof(Owner)
            )
            core.owners_capacity = own.owners_capacity
        twin.makers = self.makers.copy()
        twin.departed = self.departed.copy()
        # From here on nothing can fail, so that every reference counted is one held.
        core.top = own.top
        core.free_slot = own.free_slot
        core.num_expiring = own.num_expiring
        core.num_held = own.num_held
        core.seq = own.seq
        core.next_number = own.next_number
        core.owners_top = own.owners_top
        core.owners_free = own.owners_free
        core.planned = own.planned
        for slot in range(1, core.top):
            if core.nodes[slot].id != NO_ID and core.nodes[slot].id >= FIRST_NUMBER:
                Py_INCREF(<object>core.extras[slot].name)
        for slot in range(core.owners_top):
            if core.owners[slot].name != NULL:
                Py_INCREF(<object>core.owners[slot].name)
        return twin

    # ----- questions --------------------------------------------------------------------------

    @property
    def seq(self):
        """The number of the last event; 0 before the first."""
        self.enter()
        self.busy = False
        return self.core.seq

    @seq.setter
    def seq(self, value):
        """Go on from another number, as where several books share one sequence."""
        cdef int64_t number
        self.enter()
        self.busy = False
        if not as_i64(<PyObject*>value, &number):
            raise ValueError(f"seq must be an integer from 0 to {2**63 - 1}, not {value!r}")
        self.core.seq = <uint64_t>number

    @property
    def best_bid(self):
        """The highest price of a resting buy order, or None."""
        return self.best(BUY)

    @property
    def best_ask(self):
        """The lowest price of a resting sell order, or None."""
        return self.best(SELL)

    cdef object best(self, int side):
        self.enter()
        self.busy = False
        if self.core.sides[side].best == NO_LEVEL:
            return None
        return price_at(&self.core, side, self.core.sides[side].best)

    def __len__(self):
        """How many orders rest."""
        self.enter()
        self.busy = False
        return num_orders(&self.core)

    def __contains__(self, order_id):
        """Whether an order rests, asked by its id or its number."""
        self.enter()
        self.busy = False
        if type(order_id) is str:
            hash(order_id)
            return name_find(&self.core, <PyObject*>order_id) != NIL
        if type(order_id) is not int or not 0 <= order_id < 2**64:
            return False
        return index_find(&self.core, order_id) != NIL

    def depth(self, limit=None):
        """Take a picture of the book."""
        self.enter()
        try:
            if limit is not None and limit < 0:
                raise ValueError(f"limit must be 0 or more, not {limit}")
            return self.picture(limit)
        finally:
            self.busy = False

    cdef object picture(self, object limit):
        return _depth.Depth(
            self.market,
            self.token,
            self.core.seq,
            self.levels(BUY, limit),
            self.levels(SELL, limit),
        )

    cdef tuple levels(self, int side, object limit):
        cdef const Ladder* own = &self.core.sides[side]
        cdef uint32_t level = own.best
        cdef const Level* at
        cdef list levels = []
        while level != NO_LEVEL and (limit is None or len(levels) < limit):
            at = own.levels + level
            levels.append(
                Level_(price_at(&self.core, side, level), self.total(at.total), at.num_orders)
            )
            level = ladder_next(own, level)
        return tuple(levels)

    cdef object total(self, u128 lots):
        # A sum of sizes may be too large for wei in 128 bits, never for lots.
        cdef object total = lots
        return total * self.lot_wei

    def order(self, order_id):
        """Look at one resting order."""
        self.enter()
        try:
            return self.resting_at(self.find(order_id))
        finally:
            self.busy = False

    def orders(self):
        """List all resting orders: bids first, best price first, oldest first."""
        self.enter()
        try:
            return [self.resting_at(slot) for slot in self.slots()]
        finally:
            self.busy = False

    def ids(self):
        """List the ids of all resting orders: bids first, best price first, oldest first."""
        self.enter()
        try:
            return [self.id_at(slot) for slot in self.slots()]
        finally:
            self.busy = False

    def behind(self, order_id):
        """Give the id of the order right behind one in its queue, or None."""
        cdef uint32_t slot
        self.enter()
        try:
            slot = self.core.nodes[self.find(order_id)].next
            return None if slot == NIL else self.id_at(slot)
        finally:
            self.busy = False

    def ahead(self, order_id):
        """Say what stands in front of an order at its price."""
        cdef uint32_t slot
        cdef uint64_t num_orders = 0
        cdef u128 lots = 0
        self.enter()
        try:
            slot = self.core.nodes[self.find(order_id)].prev
            while slot != NIL:
                num_orders += 1
                lots += size_of(self.core.nodes + slot)
                slot = self.core.nodes[slot].prev
            return _depth.Ahead(num_orders, self.total(lots))
        finally:
            self.busy = False

    def number_of(self, order_id):
        """Give the number that stands for an order in records."""
        self.enter()
        try:
            _validation.check_id(order_id)
            if type(order_id) is int and order_id < 2**63:
                return order_id
            return self.core.nodes[self.find(order_id)].id
        finally:
            self.busy = False

    def id_of(self, number):
        """Give the id that a number in a record stands for."""
        self.enter()
        try:
            _validation.check_number(number)
            if number < 2**63:
                return number
            if number in self.departed:
                return self.departed[number]
            return self.id_at(self.find(number))
        finally:
            self.busy = False

    def check(self):
        """Check all invariants of the book."""
        self.enter()
        try:
            self._check()
        finally:
            self.busy = False

    cdef int _check(self) except -1:
        cdef Core* core = &self.core
        cdef uint64_t expiring = 0, held = 0, named = 0, free_slots = 0
        cdef uint32_t slot, place
        cdef list slots = self.slots()
        cdef dict owners = {}
        self.check_ladder(BUY)
        self.check_ladder(SELL)
        if core.sides[BUY].best != NO_LEVEL and core.sides[SELL].best != NO_LEVEL and not (
            price_at(core, BUY, core.sides[BUY].best) < price_at(core, SELL, core.sides[SELL].best)
        ):
            raise InvariantError("the book is crossed")
        for slot in slots:
            expiring += core.nodes[slot].place & EXPIRES != 0
            held += core.nodes[slot].place & HOLDS != 0
            named += core.nodes[slot].id >= FIRST_NUMBER
            if core.nodes[slot].owner >= FIRST_NAMED_OWNER:
                owners[core.nodes[slot].owner] = owners.get(core.nodes[slot].owner, 0) + 1
            if index_find(core, core.nodes[slot].id) != slot:
                raise InvariantError(f"slot {slot} is queued but not indexed")
            if core.nodes[slot].id >= FIRST_NUMBER and (
                name_find(core, core.extras[slot].name) != slot
            ):
                raise InvariantError(f"slot {slot} is not found by its text id")
        if (expiring, held) != (core.num_expiring, core.num_held):
            raise InvariantError("the counts of orders that expire or hold objects are off")
        if core.by_name.count != named:
            raise InvariantError("the table of text ids has entries of no order")
        if core.by_id.count + core.window.count + core.numbers.count != <uint64_t>len(slots):
            raise InvariantError("the index of ids has entries of no order")
        slot = core.free_slot
        while slot != NIL:
            free_slots += 1
            slot = core.nodes[slot].next
        if free_slots + len(slots) + 1 != core.top:
            raise InvariantError("a slot is neither used nor free")
        for owner in owners:
            place = owner
            if core.owners[place - FIRST_NAMED_OWNER].num_orders != owners[owner]:
                raise InvariantError(f"the orders of owner {owner} are miscounted")
        if sorted(self.makers.values()) != sorted(owners):
            raise InvariantError("the owners are not those of the resting orders")
        return 0

    cdef int check_ladder(self, int side) except -1:
        cdef const Ladder* own = &self.core.sides[side]
        cdef uint32_t level, slot, prev, best = NO_LEVEL
        cdef uint64_t num_orders
        cdef u128 total
        cdef const Node* node
        for level in range(self.core.num_levels):
            num_orders = 0
            total = 0
            prev = NIL
            slot = own.levels[level].head
            while slot != NIL:
                node = self.core.nodes + slot
                if node.prev != prev or side_of(node) != side or level_of(node) != level:
                    raise InvariantError(f"slot {slot} is linked wrongly")
                if size_of(node) == 0:
                    raise InvariantError(f"slot {slot} has nothing left")
                num_orders += 1
                total += size_of(node)
                prev = slot
                slot = node.next
            if own.levels[level].tail != prev or own.levels[level].num_orders != num_orders:
                raise InvariantError(f"level {level} is miscounted")
            if own.levels[level].total != total:
                raise InvariantError(f"the total of level {level} is off")
            if (own.words[level >> 6] >> (level & 63) & 1) != (num_orders != 0):
                raise InvariantError(f"the bit of level {level} is wrong")
            if num_orders and best == NO_LEVEL:
                best = level
        for level in range((self.core.num_levels + 63) >> 6):
            if (own.groups[level >> 6] >> (level & 63) & 1) != (own.words[level] != 0):
                raise InvariantError(f"the bit of word {level} is wrong")
        for level in range((self.core.num_levels + 4095) >> 12):
            if (own.top >> level & 1) != (own.groups[level] != 0):
                raise InvariantError(f"the bit of group {level} is wrong")
        if own.best != best:
            raise InvariantError("the best level of a side is wrong")
        return 0

    def state_bytes(self):
        """Write the whole state in canonical bytes, queue order included."""
        self.enter()
        try:
            return self._state_bytes()
        finally:
            self.busy = False

    def state_hash(self):
        """Hash the canonical bytes, BLAKE2b of 32 bytes; equal hashes mean equal futures."""
        return _state_py.digest(self.state_bytes())

    cdef bytes _state_bytes(self):
        cdef Core* core = &self.core
        cdef list pieces = [
            _state_py.encode_head(
                self.lo,
                self.hi,
                self.lot_wei,
                self.token,
                self.market,
                core.seq,
                core.next_number,
            )
        ]
        cdef dict makers = {}
        cdef int side
        cdef uint32_t level, count
        for side in range(2):
            count = 0
            level = core.sides[side].best
            while level != NO_LEVEL:
                count += 1
                level = ladder_next(&core.sides[side], level)
            pieces.append(PyBytes_FromStringAndSize(<char*>&count, 4))
            level = core.sides[side].best
            while level != NO_LEVEL:
                self.encode_level(pieces, makers, side, level)
                level = ladder_next(&core.sides[side], level)
        return b"".join(pieces)

    cdef int encode_level(self, list pieces, dict makers, int side, uint32_t level) except -1:
        cdef const Level* at = self.core.sides[side].levels + level
        cdef int32_t price = price_at(&self.core, side, level)
        cdef uint32_t slot = at.head
        cdef char head[8]
        memcpy(head, &price, 4)
        memcpy(head + 4, &at.num_orders, 4)
        pieces.append(PyBytes_FromStringAndSize(head, 8))
        while slot != NIL:
            self.encode_order(pieces, makers, slot)
            slot = self.core.nodes[slot].next
        return 0

    cdef int encode_order(self, list pieces, dict makers, uint32_t slot) except -1:
        # The canonical bytes are little-endian; so are the machines this is compiled for.
        cdef const Node* node = self.core.nodes + slot
        cdef u128 wei = size_of(node) * self.core.lot_wei
        cdef int64_t expiration_s = self.expiration_at(slot)
        cdef char fixed[24]
        cdef bytes maker = makers.get(node.owner)
        if maker is None:
            maker = makers[node.owner] = _state_py.encode_text(self.maker_at(node.owner))
        if node.id >= FIRST_NUMBER:
            pieces.append(b"\x01")
            pieces.append(_state_py.encode_text(<object>self.core.extras[slot].name))
        else:
            pieces.append(b"\x00")
        memcpy(fixed, &node.id, 8)
        memcpy(fixed + 8, &wei, 16)
        pieces.append(PyBytes_FromStringAndSize(fixed, 24))
        pieces.append(maker)
        pieces.append(PyBytes_FromStringAndSize(<char*>&expiration_s, 8))
        return 0

    def __repr__(self):
        """Draw the ladder of the best ten prices a side."""
        self.enter()
        try:
            return _ladder.ladder(self.picture(None), num_orders(&self.core))
        finally:
            self.busy = False

    def _repr_html_(self):
        """Draw the ladder for a notebook."""
        self.enter()
        try:
            return _ladder.ladder_html(self.picture(None), num_orders(&self.core))
        finally:
            self.busy = False
