# The commands of a book, and the events they return.

# ----- events -------------------------------------------------------------------------------

cdef inline list untracked(list events):
    # Events cannot be part of a cycle, so the garbage collector need not track their list. Tracked
    # lists cost a third of the time of a program that keeps its events.
    PyObject_GC_UnTrack(<PyObject*>events)
    return events


cdef object added_event(Book self, uint32_t slot, object price, object remaining):
    cdef Node* node = self.core.nodes + slot
    cdef object seq = self.core.seq, order_id = order_id_at(self, slot)
    cdef PyObject* fields[7]
    fields[0] = <PyObject*>seq
    fields[1] = <PyObject*>self.market
    fields[2] = <PyObject*>self.token
    fields[3] = <PyObject*>order_id
    fields[4] = <PyObject*>SIDE_SELL if side_of(node) else <PyObject*>SIDE_BUY
    fields[5] = <PyObject*>price
    fields[6] = <PyObject*>remaining
    return build(OrderAdded, &ADDED_LAYOUT, fields)


cdef object removed_event(Book self, object seq, object order_id, object reason, object remaining):
    cdef PyObject* fields[6]
    fields[0] = <PyObject*>seq
    fields[1] = <PyObject*>self.market
    fields[2] = <PyObject*>self.token
    fields[3] = <PyObject*>order_id
    fields[4] = <PyObject*>reason
    fields[5] = <PyObject*>remaining
    return build(OrderRemoved, &REMOVED_LAYOUT, fields)


cdef list effect_events(Book self, uint64_t seq, object order_id, object maker, int side):
    # Turn the effects into events, numbered from seq + 1.
    cdef list events = []
    cdef size_t place
    for place in range(self.core.effects_count):
        seq += 1
        events.append(effect_event(self, self.core.effects + place, seq, order_id, maker, side))
    return events


cdef object effect_event(
    Book self, const Effect* effect, uint64_t seq, object order_id, object maker, int side
):
    cdef object resting_id = <object>effect.name if effect.name != NULL else effect.id
    cdef object resting_left = to_wei(self, effect.resting_left)
    if effect.kind == REDUCED:
        return OrderReduced(seq, self.market, self.token, resting_id, resting_left)
    if effect.kind == REMOVED:
        return removed_event(self, seq, resting_id, REASONS[effect.reason], resting_left)
    return trade_event(self, effect, seq, resting_id, resting_left, order_id, maker, side)


cdef object trade_event(
    Book self, const Effect* effect, object seq, object resting_id, object resting_left,
    object order_id, object maker, int side
):
    cdef object resting_maker = maker_at(self, effect.owner)
    cdef object price = effect.price, size = to_wei(self, effect.size)
    cdef object incoming_left = to_wei(self, effect.incoming_left)
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
    # A book charges no fees.
    fields[12] = fields[13] = <PyObject*>ZERO
    return build(Trade, &TRADE_LAYOUT, fields)


cdef int release_effects(Book self) except -1:
    # Release the objects of the orders that left; a replaced order keeps them.
    cdef size_t place
    cdef Effect* effect
    for place in range(self.core.effects_count):
        effect = self.core.effects + place
        if effect.kind == REMOVED and effect.reason != REPLACED:
            release_order(self, effect.name, effect.owner)
    self.core.effects_count = 0
    return 0


# ----- commands -----------------------------------------------------------------------------

cdef list submit_order(Book self, object order, object now_ms, size_t trades_max):
    cdef NewOrder new
    cdef Output out
    cdef uint32_t owner = NO_OWNER, slot
    cdef uint64_t seq
    cdef bint crossing
    cdef u128 size
    cdef object remaining
    cdef list events
    order = admit(self, order, now_ms, &new)
    if new.incoming.policy != POLICY_NONE:
        owner = find_owner(self, <str>new.maker)
    new.incoming.owner = owner
    reject_by_book(self, &new)
    crossing = crosses(&self.core, &new.incoming)
    if new.rests:
        reserve_slot(self, &new)
    if crossing:
        reserve_effects(self, &new.incoming, 0, trades_max)
    if new.rests:
        owner = hold_owner(self, <str>new.maker)
        if new.incoming.policy != POLICY_NONE:
            new.incoming.owner = owner
    seq = self.core.seq
    size = new.incoming.left
    if crossing:
        memset(&out, 0, sizeof(out))
        match_order(&self.core, &new.incoming, &out)
    slot = rest_admitted(self, &new, owner) if new.rests and new.incoming.left else <uint32_t>NIL
    if not self.core.effects_count:
        if slot != NIL:
            return untracked([added_event(self, slot, <object>new.price_object, <object>new.size)])
        if new.rests:
            release_order(self, NULL, owner)
        return []
    try:
        events = effect_events(self, seq, order.id, <object>new.maker, new.incoming.side)
        if slot != NIL:
            remaining = <object>new.size
            if new.incoming.left != size:
                remaining = to_wei(self, new.incoming.left)
            events.append(added_event(self, slot, <object>new.price_object, remaining))
    finally:
        release_effects(self)
        if new.rests and slot == NIL:
            release_order(self, NULL, owner)
    return untracked(events)


cdef list rest_order(Book self, object order, object now_ms, object before):
    cdef NewOrder new
    cdef uint32_t owner, slot, following = NIL
    order = admit(self, order, now_ms, &new)
    if not new.rests:
        raise errors.InvalidInstructionError(
            f"rest needs time_in_force GTC or GTD; got {order.time_in_force!r}"
        )
    reject_duplicate(self, &new)
    if before is not None:
        following = find_slot(self, before)
        if (
            side_of(self.core.nodes + following) != new.incoming.side
            or level_of(self.core.nodes + following) != new.level
        ):
            raise _rejections.other_queue(order_id_at(self, following))
    reject_crossing(self, &new.incoming, new.price, False)
    reserve_slot(self, &new)
    owner = hold_owner(self, <str>new.maker)
    slot = rest_admitted(self, &new, owner)
    if following != NIL:
        queue_unlink(&self.core, slot)
        queue_insert(&self.core, slot, following)
    return untracked([added_event(self, slot, <object>new.price_object, <object>new.size)])


cdef struct Row:
    # As clob.book.state.ROW.
    uint64_t size_lo
    uint32_t size_hi
    int32_t price
    int64_t expiration_s
    uint32_t maker
    uint32_t side


cdef bint read_row(Book self, PyObject* order_id, const Row* row, NewOrder* to) except -1:
    # Read an order to rest; False if it breaks a rule, or its fields are not plain.
    cdef u128 size = join(row.size_lo, row.size_hi)
    if not (self.lo <= row.price <= self.hi and row.side <= 1 and row.expiration_s >= 0):
        return False
    if not 0 < size <= SIZE_MAX or size % self.core.lot_wei != 0:
        return False
    to.name = NULL
    if is_text(order_id):
        if text_length(order_id) == 0:
            return False
        ensure_hash(order_id)
        to.name = order_id
    elif not as_i64(order_id, <int64_t*>&to.incoming.id):
        return False
    to.incoming.side = row.side
    to.incoming.left = size // self.core.lot_wei
    to.incoming.owner = NO_OWNER
    to.incoming.now_s = 0
    to.expiration_s = row.expiration_s
    to.level = level_at(&self.core, row.side, row.price)
    to.incoming.limit = self.core.num_levels - 1 - to.level
    return not crosses(&self.core, &to.incoming)


cdef int rest_rows(Book self, list ids, bytes rows, list makers) except -1:
    cdef NewOrder new
    cdef const Row* row = <const Row*><const char*>rows
    cdef Py_ssize_t place
    cdef PyObject* order_id
    cdef PyObject* ahead
    if len(rows) != len(ids) * <Py_ssize_t>sizeof(Row):
        raise ValueError(f"expected {sizeof(Row)} bytes per order; got {len(rows)} for {len(ids)}")
    for place in range(len(ids)):
        order_id = <PyObject*>ids[place]
        if place + 8 < len(ids):
            ahead = <PyObject*>ids[place + 8]
            if is_text(ahead):
                ensure_hash(ahead)
                prefetch(self.core.by_name.buckets + (mix_name(ahead) >> self.core.by_name.shift))
        if unlikely(not read_row(self, order_id, row + place, &new)):
            # rest_order knows the order of the rules and the texts.
            fields = _state_py.ROW.unpack_from(rows, place * sizeof(Row))
            order = _state_py.order_of(<object>order_id, fields, self.token, makers)
            rest_order(self, order, 0, None)
            continue
        reject_duplicate(self, &new)
        reserve_slot(self, &new)
        rest_admitted(self, &new, hold_owner(self, <str?>makers[row[place].maker]))
    return 0


cdef list cancel_order(Book self, object order_id, object now_ms, object reason):
    cdef int64_t now
    cdef uint32_t slot
    cdef object event
    if not as_i64(<PyObject*>now_ms, &now):
        _validation.check_time(now_ms)
    if reason is not REASON_CANCELLED:
        _validation.check_reason(reason)
    slot = find_slot(self, order_id)
    # Prefetch for the removal while the event is built.
    prefetch_removal(&self.core, slot)
    event = removed_event(
        self, self.core.seq + 1, order_id_at(self, slot), reason,
        to_wei(self, size_of(self.core.nodes + slot))
    )
    drop_order(self, slot)
    return untracked([event])


cdef list reduce_order(Book self, uint32_t slot, object size):
    cdef object event
    if to_lots(self, size) >= size_of(self.core.nodes + slot):
        raise _rejections.not_reduced(size, to_wei(self, size_of(self.core.nodes + slot)))
    event = OrderReduced(self.core.seq + 1, self.market, self.token, order_id_at(self, slot), size)
    reduce(&self.core, slot, to_lots(self, size))
    return untracked([event])


cdef list replace_order(
    Book self, uint32_t slot, int32_t price, object size, int64_t now_s, bint post_only,
    int policy, size_t trades_max
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
    incoming.left = to_lots(self, size)
    incoming.policy = policy
    incoming.owner = node.owner if policy != POLICY_NONE else <uint32_t>NO_OWNER
    incoming.now_s = now_s
    level = level_at(core, incoming.side, price)
    incoming.limit = core.num_levels - 1 - level
    if level == level_of(node) and incoming.left < size_of(node):
        return reduce_order(self, slot, size)
    if post_only:
        reject_crossing(self, &incoming, price, True)
    reserve_effects(self, &incoming, 1, trades_max)
    seq = core.seq
    memset(&out, 0, sizeof(out))
    replace(core, slot, level, &incoming, &out)
    try:
        events = effect_events(
            self, seq, <object>name if name != NULL else incoming.id, maker_at(self, owner),
            incoming.side
        )
        if incoming.left:
            events.append(added_event(self, slot, price, to_wei(self, incoming.left)))
    finally:
        release_effects(self)
        if not incoming.left:
            release_order(self, name, owner)
    return untracked(events)


cdef list remove_all(Book self, bint expired_only, int64_t now_s, object reason):
    # Build the events first: that can fail, removing the orders cannot.
    cdef list slots = resting_slots(self, expired_only, now_s)
    cdef list events = []
    cdef uint64_t seq = self.core.seq
    cdef uint32_t slot
    for slot in slots:
        seq += 1
        events.append(
            removed_event(
                self, seq, order_id_at(self, slot), reason,
                to_wei(self, size_of(self.core.nodes + slot))
            )
        )
    for slot in slots:
        drop_order(self, slot)
    return events


cdef list simulate_order(Book self, object order, object now_ms, size_t trades_max):
    cdef NewOrder new
    cdef Prediction prediction
    cdef list events
    order = admit(self, order, now_ms, &new)
    new.incoming.owner = NO_OWNER
    if new.incoming.policy != POLICY_NONE:
        new.incoming.owner = find_owner(self, <str>new.maker)
    reject_by_book(self, &new)
    reserve_effects(self, &new.incoming, 0, trades_max)
    prediction.trades_max = NO_LIMIT
    predict(&self.core, &new.incoming, True, &prediction)
    events = effect_events(self, self.core.seq, order.id, <object>new.maker, new.incoming.side)
    self.core.effects_count = 0
    return [event for event in events if type(event) is Trade]
