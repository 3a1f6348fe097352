# Everything that reads a book without changing it: depth, checks, canonical bytes, copies.

cdef object best_price(Book self, int side):
    self.acquire_to_read()
    self.busy = False
    if self.core.sides[side].best == NO_LEVEL:
        return None
    return price_at(&self.core, side, self.core.sides[side].best)


cdef tuple best_of_others(Book self, object owner):
    cdef int64_t number = 0
    if not (
        as_i64(<PyObject*>owner, &number) and 0 < number < <int64_t>FIRST_NAMED_OWNER
    ):
        raise ValueError(f"owner must be an integer from 1 to {2**31 - 1}; got {owner!r}")
    self.acquire_to_read()
    self.busy = False
    return other_best(&self.core, BUY, number), other_best(&self.core, SELL, number)


cdef object other_best(const Core* core, int side, uint32_t owner):
    # Own orders are often the whole best level, so their queue is read up to the first other order.
    cdef const Ladder* own = &core.sides[side]
    cdef uint32_t level = own.best, slot
    while level != NO_LEVEL:
        slot = own.levels[level].head
        while slot != NIL and core.nodes[slot].owner == owner:
            slot = core.nodes[slot].next
        if slot != NIL:
            return price_at(core, side, level)
        level = ladder_next(own, level)
    return None


cdef u128 lots_ahead(const Core* core, uint32_t slot, uint64_t* num_orders) noexcept nogil:
    """Return the lots ahead of an order in its queue, and count their orders."""
    cdef u128 lots = 0
    slot = core.nodes[slot].prev
    while slot != NIL:
        num_orders[0] += 1
        lots += size_of(core.nodes + slot)
        slot = core.nodes[slot].prev
    return lots


cdef object depth_of(Book self, object limit):
    return _depth.Depth(
        self.market, self.token, self.core.seq,
        depth_levels(self, BUY, limit), depth_levels(self, SELL, limit)
    )


cdef tuple depth_levels(Book self, int side, object limit):
    cdef const Ladder* own = &self.core.sides[side]
    cdef uint32_t level = own.best
    cdef const Level* at
    cdef list levels = []
    while level != NO_LEVEL and (limit is None or len(levels) < limit):
        at = own.levels + level
        levels.append(
            DepthLevel(price_at(&self.core, side, level), total_wei(self, at.total), at.num_orders)
        )
        level = ladder_next(own, level)
    return tuple(levels)


cdef int check_book(Book self) except -1:
    cdef Core* core = &self.core
    cdef uint64_t expiring = 0, held = 0, named = 0, free_slots = 0
    cdef uint32_t slot, place
    cdef list slots = resting_slots(self)
    cdef dict owners = {}
    check_ladder(self, BUY)
    check_ladder(self, SELL)
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
            raise InvariantError(f"slot {slot} is in a queue but not in the index")
        if core.nodes[slot].id >= FIRST_NUMBER and (
            name_find(core, core.extras[slot].name) != slot
        ):
            raise InvariantError(f"slot {slot} is missing from the table of text ids")
    if (expiring, held) != (core.num_expiring, core.num_held):
        raise InvariantError("the counts of expiring orders or of Python objects are wrong")
    if core.by_name.count != named:
        raise InvariantError("the table of text ids has entries without an order")
    if core.by_id.count + core.window.count + core.numbers.count != <uint64_t>len(slots):
        raise InvariantError("the index of ids has entries without an order")
    slot = core.free_slot
    while slot != NIL:
        free_slots += 1
        slot = core.nodes[slot].next
    if free_slots + len(slots) + 1 != core.top:
        raise InvariantError("a slot is neither in use nor free")
    for owner in owners:
        place = owner
        if core.owners[place - FIRST_NAMED_OWNER].num_orders != owners[owner]:
            raise InvariantError(f"the order count of owner {owner} is wrong")
    if sorted(self.makers.values()) != sorted(owners):
        raise InvariantError("the owners do not match the resting orders")
    return 0


cdef int check_ladder(Book self, int side) except -1:
    cdef const Ladder* own = &self.core.sides[side]
    cdef uint32_t level, slot, prev, best = NO_LEVEL
    cdef uint64_t num_orders
    cdef u128 total
    cdef const Node* node
    if own.levels == NULL:
        if own.best != NO_LEVEL:
            raise InvariantError("a book without memory has a best level")
        return 0
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
                raise InvariantError(f"slot {slot} has size 0")
            num_orders += 1
            total += size_of(node)
            prev = slot
            slot = node.next
        if own.levels[level].tail != prev or own.levels[level].num_orders != num_orders:
            raise InvariantError(f"the order count or tail of level {level} is wrong")
        if own.levels[level].total != total:
            raise InvariantError(f"the total of level {level} is wrong")
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


cdef bytes state_bytes_of(Book self):
    cdef Core* core = &self.core
    cdef list pieces = [
        _state_py.encode_head(
            self.lo, self.hi, self.lot_wei, self.token, self.market, core.seq, core.next_number
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
            encode_level(self, pieces, makers, side, level)
            level = ladder_next(&core.sides[side], level)
    return b"".join(pieces)


cdef int encode_level(Book self, list pieces, dict makers, int side, uint32_t level) except -1:
    cdef const Level* at = self.core.sides[side].levels + level
    cdef int32_t price = price_at(&self.core, side, level)
    cdef uint32_t slot = at.head
    cdef char head[8]
    memcpy(head, &price, 4)
    memcpy(head + 4, &at.num_orders, 4)
    pieces.append(PyBytes_FromStringAndSize(head, 8))
    while slot != NIL:
        encode_order(self, pieces, makers, slot)
        slot = self.core.nodes[slot].next
    return 0


cdef int encode_order(Book self, list pieces, dict makers, uint32_t slot) except -1:
    # The canonical bytes are little-endian, as are the supported machines.
    cdef const Node* node = self.core.nodes + slot
    cdef u128 wei = size_of(node) * self.core.lot_wei
    cdef int64_t expiration_s = expiration_at(self, slot)
    cdef char fixed[24]
    cdef bytes maker = makers.get(node.owner)
    if maker is None:
        maker = makers[node.owner] = _state_py.encode_text(maker_at(self, node.owner))
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


# ----- copies -------------------------------------------------------------------------------

cdef void* copy_array(
    void* old, const void* source, uint64_t capacity, uint64_t count, size_t size
) except NULL:
    # Copy the first entries of an array into a new one of full capacity; free the old one.
    cdef void* copy = malloc(capacity * size)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, source, count * size)
    free(old)
    return copy


cdef void copy_ladder(Ladder* to, const Ladder* source, uint32_t num_levels) noexcept:
    # Both ladders have the same number of levels.
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
    to.slots = <uint32_t*>copy_array(
        to.slots, source.slots, source.mask + 1, source.mask + 1, sizeof(uint32_t)
    )
    to.base, to.mask, to.count = source.base, source.mask, source.count
    to.reach = source.reach
    return 0


cdef Book fork_book(Book self):
    cdef Book twin = Book(self.lo, self.hi, self.token, self.lot_wei, 0, self.market)
    cdef Core* core = &twin.core
    cdef Core* own = &self.core
    cdef uint64_t slot
    cdef int side
    core.seq = own.seq
    core.next_number = own.next_number
    core.planned = own.planned
    twin.departed = self.departed.copy()
    if own.nodes == NULL:
        return twin
    twin.reserve()
    copy_table(&core.by_id, &own.by_id)
    copy_table(&core.by_name, &own.by_name)
    copy_window(&core.window, &own.window)
    copy_window(&core.numbers, &own.numbers)
    memcpy(core.greatest_in_table, own.greatest_in_table, sizeof(core.greatest_in_table))
    for side in range(2):
        copy_ladder(&core.sides[side], &own.sides[side], own.num_levels)
    core.nodes = <Node*>copy_array(core.nodes, own.nodes, own.capacity, own.top, sizeof(Node))
    core.capacity = own.capacity
    if own.extras != NULL:
        core.extras = <Extra*>copy_array(NULL, own.extras, own.capacity, own.top, sizeof(Extra))
    if own.owners != NULL:
        core.owners = <Owner*>copy_array(
            NULL, own.owners, own.owners_capacity, own.owners_top, sizeof(Owner)
        )
        core.owners_capacity = own.owners_capacity
    twin.makers = self.makers.copy()
    # Nothing below can fail, so every counted reference is held.
    core.top = own.top
    core.free_slot = own.free_slot
    core.num_expiring = own.num_expiring
    core.num_held = own.num_held
    core.owners_top = own.owners_top
    core.owners_free = own.owners_free
    for slot in range(1, core.top):
        if core.nodes[slot].id != NO_ID and core.nodes[slot].id >= FIRST_NUMBER:
            Py_INCREF(<object>core.extras[slot].name)
    for slot in range(core.owners_top):
        if core.owners[slot].name != NULL:
            Py_INCREF(<object>core.owners[slot].name)
    return twin
