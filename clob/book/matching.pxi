# Matching and its prediction, resting, reducing and replacing. Plain C, without the GIL.

cdef inline bint is_expired(const Core* core, uint32_t slot, int64_t now_s) noexcept nogil:
    return core.nodes[slot].place & EXPIRES and core.extras[slot].expiration_s < now_s


cdef inline bint crosses(const Core* core, const Incoming* incoming) noexcept nogil:
    return core.sides[1 - incoming.side].best <= incoming.limit


cdef bint resolve_untradable(
    Core* core, uint32_t slot, const Incoming* incoming, u128* left, const Output* out
) noexcept nogil:
    # Handle a resting order that must not trade: it expired, or it has the same owner. False if
    # it may trade. Otherwise it was removed or reduced.
    cdef Node* node = core.nodes + slot
    cdef u128 have = size_of(node)
    if is_expired(core, slot, incoming.now_s):
        finish_removal(core, slot, EXPIRED, have, out)
        return True
    if incoming.owner == NO_OWNER or node.owner != incoming.owner:
        return False
    if incoming.policy == DECREMENT and left[0] < have:
        set_size(node, have - left[0])
        core.seq += 1
        if not out.runs:
            add_effect(core, REDUCED, 0, slot, 0, have - left[0], 0)
        left[0] = 0
        return True
    if incoming.policy != CANCEL_INCOMING:
        finish_removal(core, slot, SELF_TRADE, have, out)
    if incoming.policy == DECREMENT:
        left[0] -= have
    elif incoming.policy != CANCEL_RESTING:
        left[0] = 0
    return True


cdef inline uint32_t match_level(
    Core* core, Incoming* incoming, uint32_t level, bint careful, bint runs, Output* out
) noexcept nogil:
    # Trade with the orders of one level, oldest first; return the first one left. Counters that
    # every trade changes are kept in registers and written once at the end.
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
            if resolve_untradable(core, slot, incoming, &left, out):
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
            add_effect(core, TRADED, 0, slot, size, have - size, left)
        if size < have:
            set_size(node, have - size)
            break
        if not runs:
            add_effect(core, REMOVED, FILLED, slot, 0, 0, 0)
        index_remove(core, slot)
        if unlikely(node.place & SPECIAL):
            if runs:
                record_departed(core, slot)
            unindex_special(core, slot)
        node.id = NO_ID
        node.next = free_slot
        free_slot = slot
        filled += 1
        slot = following
    core.free_slot = free_slot
    core.seq += trades + filled
    if runs:
        out.count += trades
        out.hit |= met
    incoming.left = left
    at.total = total
    at.num_orders -= gone + filled
    return slot


cdef inline void match_with(
    Core* core, Incoming* incoming, bint careful, bint runs, Output* out
) noexcept nogil:
    # Match against the best resting order while its price is within the limit.
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
            ladder_clear(ladder, level)


cdef void match_carefully(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, True, out.runs, out)


cdef void match_in_run(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, False, True, out)


cdef void match_for_events(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    match_with(core, incoming, False, False, out)


cdef inline void match_order(Core* core, Incoming* incoming, Output* out) noexcept nogil:
    # One source, compiled three times for the constants of each case.
    if unlikely(incoming.owner != NO_OWNER or core.num_expiring != 0):
        match_carefully(core, incoming, out)
    elif out.runs:
        match_in_run(core, incoming, out)
    else:
        match_for_events(core, incoming, out)


cdef struct Prediction:
    # What an incoming order would trade.
    u128 traded                 # total size it would trade
    size_t trades
    size_t effects
    size_t trades_max           # input: the number of trades allowed
    u128 size_at_max            # the size that makes exactly trades_max trades


cdef void predict(
    Core* core, const Incoming* incoming, bint notes, Prediction* prediction
) noexcept nogil:
    # Walk the same path as matching without changing anything; write effects if requested.
    cdef const Ladder* ladder = &core.sides[1 - incoming.side]
    cdef uint32_t level = ladder.best, slot
    cdef u128 left = incoming.left, have, size
    cdef const Node* node
    prediction.traded = prediction.size_at_max = 0
    prediction.trades = prediction.effects = 0
    while left and level <= incoming.limit:
        slot = ladder.levels[level].head
        while slot != NIL and left:
            node = core.nodes + slot
            have = size_of(node)
            size = 0
            if not is_expired(core, slot, incoming.now_s):
                size = have if have < left else left
                if incoming.owner != NO_OWNER and node.owner == incoming.owner:
                    if incoming.policy in (CANCEL_INCOMING, CANCEL_BOTH):
                        left = 0
                    elif incoming.policy == DECREMENT:
                        left -= size
                    size = 0
            if size:
                left -= size
                prediction.traded += size
                prediction.trades += 1
                if prediction.trades == prediction.trades_max:
                    prediction.size_at_max = incoming.left - left
                prediction.effects += 1
                if notes:
                    add_effect(core, TRADED, 0, slot, size, have - size, left)
            if not size or size == have:
                # It may be removed: one more effect, of which only the sequence number counts.
                prediction.effects += 1
                if notes and not (
                    incoming.policy == CANCEL_INCOMING and not size
                    and not is_expired(core, slot, incoming.now_s)
                ):
                    add_effect(core, REMOVED, FILLED, slot, 0, 0, 0)
            slot = node.next
        level = ladder_next(ladder, level)


cdef uint32_t first_unexpired(const Core* core, const Incoming* incoming) noexcept nogil:
    # The first order within the limit that could trade.
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
    # How much of a fill-or-kill order could trade. An own resting order ends the walk, unless the
    # policy only cancels it.
    cdef int policy = incoming.policy
    cdef Prediction prediction
    prediction.trades_max = NO_LIMIT
    if policy != CANCEL_RESTING:
        incoming.policy = CANCEL_INCOMING
    predict(core, incoming, False, &prediction)
    incoming.policy = policy
    return prediction.traded


cdef inline uint32_t rest(
    Core* core, Window* window, uint64_t id, int side, uint32_t level, u128 size, uint32_t owner
) noexcept nogil:
    # Add an order to the book; slab and index have room.
    cdef uint32_t slot = slab_allocate(core)
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
    finish_removal(core, slot, reason, size_of(core.nodes + slot), out)


cdef inline void reduce(Core* core, uint32_t slot, u128 size) noexcept nogil:
    cdef Node* node = core.nodes + slot
    core.sides[side_of(node)].levels[level_of(node)].total -= size_of(node) - size
    set_size(node, size)
    core.seq += 1


cdef void replace(
    Core* core, uint32_t slot, uint32_t level, Incoming* incoming, Output* out
) noexcept nogil:
    # Remove an order and submit it again; its slot, name and index entry stay.
    cdef Node* node = core.nodes + slot
    core.seq += 1
    if not out.runs:
        add_effect(core, REMOVED, REPLACED, slot, 0, size_of(node), 0)
    queue_unlink(core, slot)
    match_order(core, incoming, out)
    if incoming.left:
        node.place = (node.place & ~LEVEL_MASK) | level
        queue_append(core, &core.sides[incoming.side], level, slot, incoming.left)
        core.seq += 1
        return
    if out.runs:
        record_departed(core, slot)
    free_order(core, slot)


cdef void clear(Core* core, int reason, const Output* out) noexcept nogil:
    # Bids first, best price first, oldest first.
    cdef int side
    cdef Ladder* ladder
    for side in range(2):
        ladder = &core.sides[side]
        while ladder.best != NO_LEVEL:
            remove(core, ladder.levels[ladder.best].head, reason, out)
