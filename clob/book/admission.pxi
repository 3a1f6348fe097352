# New orders: owners, reading and checking an Order, rejections, reserving memory.

cdef uint32_t find_owner(Book self, str maker) except? NIL:
    # The number of a maker, UNKNOWN_OWNER if it has no resting orders.
    cdef object number
    cdef uint32_t* seen = self.seen_owners + (<uintptr_t><PyObject*>maker >> 4 & (SEEN_OWNERS - 1))
    # The very object that is stored as the name of an owner needs no lookup.
    if seen[0] and self.core.owners[seen[0] - 1].name == <PyObject*>maker:
        return FIRST_NAMED_OWNER + seen[0] - 1
    if not maker:
        return NO_OWNER
    number = self.makers.get(maker)
    if number is None:
        if maker[0] == "o":
            number = _order.owner_number(maker)
        return UNKNOWN_OWNER if number is None else number
    seen[0] = <uint32_t>number - FIRST_NAMED_OWNER + 1
    return number


cdef uint32_t hold_owner(Book self, str maker) except? NIL:
    # Count one more resting order of a maker, and return its number.
    cdef Core* core = &self.core
    cdef uint32_t owner = find_owner(self, maker), place
    cdef Owner* grown
    cdef uint64_t capacity
    if owner == UNKNOWN_OWNER:
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


cdef int release_order(Book self, PyObject* name, uint32_t owner) except -1:
    # Release the Python objects of an order that left.
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


cdef int drop_order(Book self, uint32_t slot) except -1:
    # Remove an order whose event was already built.
    cdef PyObject* name = NULL
    cdef uint32_t owner = self.core.nodes[slot].owner
    if self.core.nodes[slot].id >= FIRST_NUMBER:
        name = self.core.extras[slot].name
    queue_unlink(&self.core, slot)
    free_order(&self.core, slot)
    self.core.seq += 1
    return release_order(self, name, owner)


cdef struct NewOrder:
    # A new order that passed every rule that does not depend on the resting orders.
    Incoming incoming
    PyObject* name              # its text id, or NULL
    PyObject* maker
    PyObject* price_object
    PyObject* size
    int64_t expiration_s
    uint32_t level
    int32_t price
    bint rests
    bint post_only
    bint fok


cdef bint read_order(Book self, PyObject* order, object now_ms, NewOrder* to) except -1:
    # Read an Order field by field; False if a field breaks a rule.
    cdef PyObject* fields[NUM_FIELDS]
    cdef PyObject* item
    cdef int place
    cdef int64_t price = 0, now = 0
    cdef object value
    for place in range(NUM_FIELDS):
        if likely(OFFSETS_KNOWN):
            fields[place] = (<PyObject**>(<char*>order + ORDER_OFFSETS[place]))[0]
        else:
            # The order keeps a reference to the value borrowed here.
            value = getattr(<object>order, ORDER_FIELDS[place])
            fields[place] = <PyObject*>value
        if fields[place] == NULL:
            return False
    if not as_i64(<PyObject*>now_ms, &now):
        return False
    to.incoming.now_s = now // 1000
    if not read_instructions(self, fields, to):
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
        ensure_hash(item)
        to.name = item
        # The bucket arrives during the remaining checks.
        prefetch(self.core.by_name.buckets + (mix_name(to.name) >> self.core.by_name.shift))
    elif not as_i64(item, <int64_t*>&to.incoming.id):
        return False
    to.maker = fields[AT_MAKER]
    if not is_text(to.maker):
        return False
    if fields[AT_TOKEN] != <PyObject*>self.token:
        if len(self.token) and <object>fields[AT_TOKEN] != self.token:
            return False
    to.price_object = fields[AT_PRICE]
    if not is_integer(to.price_object) or digit_count(to.price_object) * PyLong_SHIFT > 63:
        return False
    price = to_i64(to.price_object, &place) if not is_compact(to.price_object) else (
        compact_value(to.price_object)
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


cdef inline bint read_instructions(Book self, PyObject** fields, NewOrder* to) except -1:
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


cdef object admit(Book self, object order, object now_ms, NewOrder* to):
    # Check the rules that do not depend on resting orders. Returns the plain Order whose fields
    # the result borrows: the caller must hold it as long.
    if type(order) is not Order:
        order = _validation.plain_order(order)
    if unlikely(not read_order(self, <PyObject*>order, now_ms, to)):
        # check_order knows the order of the rules and the texts.
        _validation.check_order(order, self, now_ms)
        raise InvariantError(f"check_order accepted an order that the book cannot read: {order!r}")
    to.level = level_at(&self.core, to.incoming.side, to.price)
    to.incoming.limit = self.core.num_levels - 1 - to.level
    return order


cdef int reject_duplicate(Book self, NewOrder* order) except -1:
    cdef uint32_t slot
    if order.name != NULL:
        slot = name_find(&self.core, order.name)
    else:
        slot = index_find(&self.core, order.incoming.id)
    if unlikely(slot != NIL):
        raise _rejections.duplicate(<object>order.name if order.name != NULL else order.incoming.id)
    return 0


cdef int reject_crossing(
    Book self, const Incoming* incoming, int32_t price, bint post_only
) except -1:
    # Reject a post-only order that would trade, or an order to rest that crosses the book.
    cdef Core* core = &self.core
    cdef uint32_t level = core.sides[1 - incoming.side].best
    cdef uint32_t slot
    cdef object rejection = _rejections.would_cross if post_only else _rejections.seed_would_cross
    if not crosses(core, incoming):
        return 0
    if post_only:
        slot = first_unexpired(core, incoming)
        if slot == NIL:
            return 0
        level = level_of(core.nodes + slot)
    raise rejection(
        SIDE_SELL if incoming.side else SIDE_BUY, price, price_at(core, 1 - incoming.side, level)
    )


cdef int reject_by_book(Book self, NewOrder* order) except -1:
    # The rules that depend on the resting orders.
    cdef u128 found
    if order.rests:
        reject_duplicate(self, order)
    if order.post_only:
        reject_crossing(self, &order.incoming, order.price, True)
    if order.fok:
        found = fillable(&self.core, &order.incoming)
        if found < order.incoming.left:
            raise _rejections.not_fillable(order.price, to_wei(self, found), <object>order.size)
    return 0


cdef int reserve_slot(Book self, NewOrder* order) except -1:
    # Make sure that resting the order cannot fail.
    cdef Core* core = &self.core
    if not slab_reserve(core):
        raise MemoryError
    if order.name != NULL:
        order.incoming.id = core.next_number
        if not table_reserve(core, &core.by_name, True, 1):
            raise MemoryError
    if not index_reserve(core, window_of(core, order.incoming.id), order.incoming.id):
        raise MemoryError
    if (order.name != NULL or order.expiration_s) and not extras_reserve(core):
        raise MemoryError
    return 0


cdef int reserve_effects(
    Book self, const Incoming* incoming, size_t more, size_t trades_max
) except -1:
    # Check the limit on trades, and make room for the effects.
    cdef Prediction prediction
    cdef size_t needed = more, room
    cdef Effect* effects
    self.core.effects_count = 0
    if crosses(&self.core, incoming):
        prediction.trades_max = trades_max
        predict(&self.core, incoming, False, &prediction)
        if unlikely(prediction.trades > trades_max):
            raise _rejections.too_many_trades(
                prediction.trades, trades_max, to_wei(self, prediction.size_at_max)
            )
        needed += prediction.effects
    if likely(needed <= self.core.effects_capacity):
        return 0
    room = max(2 * needed, <size_t>EFFECTS_MIN)
    effects = <Effect*>realloc(self.core.effects, room * sizeof(Effect))
    if effects == NULL:
        raise MemoryError
    self.core.effects = effects
    self.core.effects_capacity = room
    return 0


cdef uint32_t rest_admitted(Book self, NewOrder* order, uint32_t owner) noexcept:
    # Rest the remainder of an order.
    cdef Core* core = &self.core
    cdef Incoming* incoming = &order.incoming
    cdef uint32_t slot = rest(
        core, window_of(core, incoming.id), incoming.id, incoming.side, order.level, incoming.left,
        owner
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
