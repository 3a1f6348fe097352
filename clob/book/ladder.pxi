# The price ladder of one side, and the slab that holds the orders. Plain C, without the GIL.

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
    memset(ladder, 0, sizeof(Ladder))
    ladder.best = NO_LEVEL


cdef inline void ladder_set(Ladder* ladder, uint32_t level) noexcept nogil:
    # A level received its first order.
    ladder.words[level >> 6] |= 1ULL << (level & 63)
    ladder.groups[level >> 12] |= 1ULL << (level >> 6 & 63)
    ladder.top |= 1ULL << (level >> 12)
    if level < ladder.best:
        ladder.best = level


cdef uint32_t ladder_next(const Ladder* ladder, uint32_t level) noexcept nogil:
    # The next level that holds orders, or NO_LEVEL.
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


cdef void ladder_clear(Ladder* ladder, uint32_t level) noexcept nogil:
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
    # Make sure that a slot is available for one more order.
    if likely(core.free_slot != NIL or core.top < core.capacity):
        return True
    return slab_grow(core, core.capacity * 2)


cdef bint extras_reserve(Core* core) noexcept nogil:
    if core.extras == NULL:
        core.extras = <Extra*>malloc(core.capacity * sizeof(Extra))
    return core.extras != NULL


cdef inline uint32_t slab_allocate(Core* core) noexcept nogil:
    cdef uint32_t slot = core.free_slot
    if slot != NIL:
        core.free_slot = core.nodes[slot].next
    else:
        slot = <uint32_t>core.top
        core.top += 1
    return slot


cdef inline void slab_free(Core* core, uint32_t slot) noexcept nogil:
    # The id NO_ID marks a free slot.
    core.nodes[slot].id = NO_ID
    core.nodes[slot].next = core.free_slot
    core.free_slot = slot
