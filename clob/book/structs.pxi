# Constants and structs of the compiled book, and the accessors of its nodes.

cdef enum:
    DONE = 0
    # Rejections, by their numbers in clob.errors.
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
    # Reasons that end a run without rejecting an event.
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
    NO_OWNER = 0                # the owner of an order without a maker
    BUCKET_ENTRIES = 12
    BUCKET_FILL_MAX = 8         # average entries per bucket at which the table doubles
    ID_REGIONS = 16             # regions of ids, by their highest four bits
    WINDOW_MIN = 64
    SLOTS_MIN = 64              # slots of a book without a planned capacity
    EFFECTS_MIN = 64
    SEEN_OWNERS = 1024          # names of owners whose numbers are found without a lookup
    WINDOW_STEP = 4096          # how far one id may move the window
    GIL_EVENTS_MIN = 256        # fewer events take less time than releasing the GIL
    PREFETCH_FROM = 24_000      # resting orders above which prefetching pays: the book outgrows L2

cdef extern from *:
    # Constants with a width, which an enum would lose.
    uint32_t NO_LEVEL "0xFFFFFFFFu"             # above all levels: the best of an empty side
    uint32_t LEVEL_MASK "0x00FFFFFFu"           # in Node.place: the level
    uint32_t EXPIRES "0x40000000u"              # in Node.place: the order has an expiration
    uint32_t HOLDS "0x20000000u"                # in Node.place: a text id or a named owner
    uint32_t SPECIAL "0x60000000u"              # in Node.place: either of the two
    uint32_t FIRST_NAMED_OWNER "0x80000000u"    # owners from here on have a name
    uint32_t UNKNOWN_OWNER "0xFFFFFFFFu"        # an owner without resting orders
    uint32_t ANY_INSTRUMENT "0x10000u"          # greater than the instrument of any event
    uint64_t FIRST_NUMBER "0x8000000000000000u"  # ids from here on are numbers of text ids
    uint64_t NO_ID "0xFFFFFFFFFFFFFFFFu"        # the id in a free slot
    uint64_t NO_HASH "0xFFFFFFFFFFFFFFFFu"      # the hash of a text before its first lookup
    size_t NO_LIMIT "((size_t)-1)"              # no limit on trades
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
    # Only for orders with a text id or an expiration.
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
    # one bit per level, one per word of those bits, one per word of the words. 64 bytes.
    Level* levels
    uint64_t* words
    uint64_t* groups
    uint64_t top
    uint32_t best
    uint32_t spare[7]


cdef struct Bucket:
    # 64 bytes: twelve entries, and how many entries overflowed into later buckets.
    uint8_t tags[12]
    uint32_t overflowed
    uint32_t slots[12]


cdef struct Table:
    # Buckets by a hash of the id or the text id.
    void* memory
    Bucket* buckets
    uint64_t mask
    uint64_t count
    uint64_t limit              # entries at which it doubles
    int shift


cdef struct Window:
    # Slots by id, from base on, for ids that are dense and ascending.
    uint32_t* slots
    uint64_t base
    uint64_t mask               # its size, a power of two, minus one
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
    # A change to one resting order, from which an event is built.
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
    uint64_t capacity           # nodes and extras allocated, slot 0 included
    uint64_t top                # slots used so far
    uint32_t free_slot
    Ladder sides[2]
    uint64_t num_expiring       # resting orders with an expiration
    uint64_t num_held           # resting orders with a text id or a named owner
    Window window
    Window numbers
    Table by_id
    Table by_name
    uint64_t greatest_in_table[ID_REGIONS]  # the greatest id of each region, 0 if none
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
    uint64_t lots_max           # SIZE_MAX in lots, at most what a record can hold
    u128 lot_wei
    uint64_t planned            # the capacity the caller asked for
    uint32_t num_levels
    int32_t lo


cdef struct Incoming:
    uint64_t id
    u128 left
    uint32_t limit              # the last level of the other side within its price
    uint32_t owner              # NO_OWNER if self-trades are allowed
    int side
    int policy
    int64_t now_s
    int64_t ts_ns


cdef struct Output:
    # Where the trades of a run are written; other calls write effects instead.
    Fill* fills
    size_t count
    size_t room
    uint64_t index
    bint runs
    bint owned
    int code
    uint32_t watch              # an owner, or UNKNOWN_OWNER
    bint hit                    # the watched owner traded or the book was cleared, or fills differ
    const Event* end            # end of the events with recorded fills to compare, or NULL
    bint verify                 # differing fills end the run
    bint writes_bests           # write changes of the best prices
    uint8_t* differs            # a byte per event, set if its fills differ; or NULL
    uint8_t* kinds              # where the kinds of events are written, or NULL
    uint32_t instrument         # the only instrument of the range, or ANY_INSTRUMENT
    uint64_t base               # the number of the first event
    bint passes                 # trades of the watched owner do not end the run
    bint was_hit                # such trades happened


cdef struct BestWriter:
    # Where changes of the best prices are written, and the last prices and sizes.
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
    # The tick itself for a sell order, counted from the other end for a buy order. Branch-free,
    # since a branch would be mispredicted every other time.
    return tick ^ ((tick ^ (core.num_levels - 1 - tick)) & (side - 1))


cdef inline int32_t price_at(const Core* core, int side, uint32_t level) noexcept nogil:
    # Level 0 is the best possible price: the highest bid or the lowest ask.
    return core.lo + <int32_t>mirrored(core, <uint32_t>side, level)


cdef inline uint32_t level_at(const Core* core, int side, int32_t price) noexcept nogil:
    return mirrored(core, <uint32_t>side, <uint32_t>price - <uint32_t>core.lo)
