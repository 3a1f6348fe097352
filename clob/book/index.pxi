# From an order id to its slot: hash tables of buckets, and windows of dense ids. Plain C.

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
        # The place of an entry would no longer fit into Node.where.
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
    # The table has room, since its fill is bounded. Returns the place of the entry.
    cdef uint64_t place = mixed >> table.shift
    cdef Bucket* bucket = table.buckets + place
    cdef uint32_t empty = tags_equal(bucket.tags, 0)
    cdef uint32_t displaced = 0
    while unlikely(empty == 0):
        bucket.overflowed += 1
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
        bucket.overflowed -= 1
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
        if likely(bucket.overflowed == 0):
            return NIL
        place = (place + 1) & table.mask


cdef inline uint32_t likely_slot(const Core* core, uint64_t id) noexcept nogil:
    # The slot of an id in the window or, by its tag alone, in the table; NIL if there is none.
    cdef uint64_t mixed
    cdef uint32_t found
    cdef const Bucket* bucket
    if id - core.window.base <= core.window.mask:
        return core.window.slots[id & core.window.mask]
    if core.by_id.count:
        mixed = mix(id)
        bucket = core.by_id.buckets + (mixed >> core.by_id.shift)
        found = tags_equal(bucket.tags, tag_of(mixed))
        if found:
            return bucket.slots[ctz(found)]
    return NIL


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
        if likely(bucket.overflowed == 0):
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
                    core.nodes[slot].where = table_insert(&grown, mix(core.nodes[slot].id), slot)
    free(table.memory)
    table[0] = grown
    return True


cdef inline bint table_reserve(
    Core* core, Table* table, bint by_name, uint64_t more
) noexcept nogil:
    # Make sure that the table has room for this many more entries.
    if likely(table.count + more <= table.limit):
        return True
    return table_grow(core, table, by_name, max(table.count + more, core.planned))


cdef inline bint above_table(const Core* core, uint64_t id) noexcept nogil:
    # Whether the id is greater than all ids of its region in the table. Regions keep the ids of
    # different sources apart, for example those of a strategy.
    return id > core.greatest_in_table[id >> 60]


cdef inline void update_greatest(Core* core, uint64_t id) noexcept nogil:
    if above_table(core, id):
        core.greatest_in_table[id >> 60] = id


# ----- windows of dense ids -----------------------------------------------------------------

cdef inline Window* window_of(Core* core, uint64_t id) noexcept nogil:
    # Text ids get numbers of their own, in order, starting at FIRST_NUMBER.
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
    # Orders that fall out of the window move into the table, which has room for them.
    cdef uint64_t id, last = window.base + steps
    cdef uint32_t* place
    for id in range(window.base, last):
        place = window.slots + (id & window.mask)
        if place[0] != NIL:
            core.nodes[place[0]].where = table_insert(&core.by_id, mix(id), place[0])
            update_greatest(core, id)
            place[0] = NIL
            window.count -= 1
    window.base = last


cdef bint window_follow(Core* core, Window* window, uint64_t id) noexcept nogil:
    # Move the window to an id within its reach, or to any id if it is empty. False if out of
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
    # Make sure that index_insert has room for an id.
    cdef uint64_t ahead = id - window.base
    if likely(ahead <= window.mask):
        return True
    if unlikely(ahead < window.reach or window.count == 0):
        return window_follow(core, window, id)
    return table_reserve(core, &core.by_id, False, 1)


cdef void index_insert_far(Core* core, uint64_t id, uint32_t slot) noexcept nogil:
    core.nodes[slot].where = table_insert(&core.by_id, mix(id), slot)
    update_greatest(core, id)


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


# ----- memory of a book ---------------------------------------------------------------------

cdef bint core_create(Core* core) noexcept nogil:
    # Allocate everything that resting orders need. False if out of memory; nodes are NULL until
    # all is there.
    if not window_create(&core.window, core.planned):
        return False
    if not window_create(&core.numbers, core.planned):
        return False
    if not table_create(&core.by_id, 0) or not table_create(&core.by_name, 0):
        return False
    if not ladder_create(&core.sides[BUY], core.num_levels):
        return False
    if not ladder_create(&core.sides[SELL], core.num_levels):
        return False
    core.capacity = max(core.planned + 1, <uint64_t>SLOTS_MIN)
    core.nodes = <Node*>malloc(core.capacity * sizeof(Node))
    if core.nodes == NULL:
        return False
    # Slot 0 holds no order; its flags keep unchecked lookups off the quick path.
    memset(core.nodes, 0, sizeof(Node))
    core.nodes[NIL].id = NO_ID
    core.nodes[NIL].place = SPECIAL
    return True


cdef void core_destroy(Core* core) noexcept nogil:
    # Free it, so that core_create may try again.
    ladder_destroy(&core.sides[BUY])
    ladder_destroy(&core.sides[SELL])
    free(core.nodes)
    free(core.window.slots)
    free(core.numbers.slots)
    free(core.by_id.memory)
    free(core.by_name.memory)
    core.nodes = NULL
    core.window.slots = core.numbers.slots = NULL
    core.by_id.memory = core.by_name.memory = NULL
