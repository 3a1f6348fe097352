# The queue of a level, and what leaves the book: effects and departed orders. Plain C.

cdef inline uint64_t num_orders(const Core* core) noexcept nogil:
    return core.window.count + core.numbers.count + core.by_id.count


cdef inline void queue_append(
    Core* core, Ladder* ladder, uint32_t level, uint32_t slot, u128 size
) noexcept nogil:
    # Append an order to the queue of its level.
    cdef Level* at = ladder.levels + level
    cdef Node* node = core.nodes + slot
    set_size(node, size)
    node.next = NIL
    node.prev = at.tail
    if likely(at.tail != NIL):
        core.nodes[at.tail].next = slot
    else:
        at.head = slot
        ladder_set(ladder, level)
    at.tail = slot
    at.num_orders += 1
    at.total += size


cdef inline void level_unlink(Core* core, Level* at, const Node* node) noexcept nogil:
    # Unlink an order from its level, whose bit stays set.
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


cdef inline void queue_unlink(Core* core, uint32_t slot) noexcept nogil:
    cdef Node* node = core.nodes + slot
    cdef Ladder* ladder = &core.sides[side_of(node)]
    cdef Level* at = ladder.levels + level_of(node)
    level_unlink(core, at, node)
    if unlikely(at.num_orders == 0):
        ladder_clear(ladder, level_of(node))


cdef void queue_insert(Core* core, uint32_t slot, uint32_t following) noexcept nogil:
    # Link an order in front of another one of its level; it is in no queue yet.
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


cdef void unindex_special(Core* core, uint32_t slot) noexcept nogil:
    # An order with an expiration, a text id or a named owner. The caller releases the objects.
    cdef Node* node = core.nodes + slot
    if node.place & EXPIRES:
        core.num_expiring -= 1
    if node.place & HOLDS:
        core.num_held -= 1
    if node.id >= FIRST_NUMBER:
        table_remove(&core.by_name, mix_name(core.extras[slot].name), slot)


cdef inline void free_order(Core* core, uint32_t slot) noexcept nogil:
    # Free an order that is already out of its queue.
    index_remove(core, slot)
    if unlikely(core.nodes[slot].place & SPECIAL):
        unindex_special(core, slot)
    slab_free(core, slot)


cdef void add_effect(
    Core* core, int kind, int reason, uint32_t slot, u128 size, u128 resting_left, u128 left
) noexcept nogil:
    # Store a change to an order; the array has room.
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


cdef void record_departed(Core* core, uint32_t slot) noexcept nogil:
    # Keep the objects of an order until the run holds the GIL again; the array has room.
    cdef Departed* departed
    cdef Node* node = core.nodes + slot
    if node.place & HOLDS:
        departed = core.departed + core.departed_count
        core.departed_count += 1
        departed.name = core.extras[slot].name if node.id >= FIRST_NUMBER else NULL
        departed.number = node.id
        departed.owner = node.owner


cdef inline void finish_removal(
    Core* core, uint32_t slot, int reason, u128 left, const Output* out
) noexcept nogil:
    # Record the removal of an order and free it. The caller unlinks it from its queue.
    core.seq += 1
    if unlikely(not out.runs):
        add_effect(core, REMOVED, reason, slot, 0, left, 0)
    elif unlikely(core.nodes[slot].place & HOLDS):
        record_departed(core, slot)
    free_order(core, slot)
