# Executes records: flags, sizes, each kind of event, prefetching, best prices. Plain C.

cdef inline bint reserve_fills(Core* core, const Incoming* incoming, Output* out) noexcept nogil:
    # Make sure that the fills of an order fit.
    cdef Prediction prediction
    cdef size_t room = out.room - out.count
    cdef Fill* fills
    if likely(room >= num_orders(core)):
        return True
    prediction.trades_max = NO_LIMIT
    predict(core, incoming, False, &prediction)
    if prediction.trades <= room:
        return True
    if not out.owned:
        return False
    room = 2 * out.room + prediction.trades
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
    # Reject flags that are unknown or contradict each other.
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
    # An order whose price reaches the other side.
    incoming.policy = (flags & FLAG_POLICY) >> 4
    if incoming.policy == POLICY_NONE:
        incoming.owner = NO_OWNER
    incoming.now_s = second_of(incoming.ts_ns) if core.num_expiring else 0
    if unlikely(kind == KIND_SEED):
        return SEED_CROSSES
    if flags & FLAG_POST_ONLY and first_unexpired(core, incoming) != NIL:
        return POST_ONLY_CROSSES
    if flags & FLAG_FOK and fillable(core, incoming) < incoming.left:
        return NOT_FILLABLE
    if unlikely(not reserve_fills(core, incoming, out)):
        return FILLS_DO_NOT_FIT
    match_order(core, incoming, out)
    return DONE


cdef int reserve_id(Core* core, uint64_t id) noexcept nogil:
    # Reserve the index entry of an id whose place in the window is taken or outside.
    if index_find_in(core, &core.window, id) != NIL:
        return DUPLICATE
    if not index_reserve(core, &core.window, id):
        return NO_MEMORY
    return DONE


cdef int run_new_order(
    Core* core, const Event* event, int kind, uint64_t index, Output* out
) noexcept nogil:
    # A new order: LIMIT, IOC or SEED.
    cdef uint64_t id = id_of(event)
    cdef uint32_t flags = flags_of(event), owner = owner_of(event), side = side_of_event(event)
    cdef uint32_t tick = <uint32_t>price_of(event) - <uint32_t>core.lo
    cdef int64_t lots = lots_of(event)
    cdef u128 left = <u128><uint64_t>lots
    cdef uint32_t level, limit
    cdef bint rests = kind != KIND_IOC and not flags & FLAG_FOK
    cdef Window* window = &core.window
    cdef Incoming incoming
    cdef int rejection
    if unlikely(flags & ~<uint32_t>FLAG_SILENT):
        rejection = check_flags(flags, kind)
        if rejection:
            return rejection
    if unlikely(side > SELL):
        return BAD_SIDE
    if unlikely(id >= FIRST_NUMBER):
        return BAD_ID
    if unlikely(owner >= FIRST_NAMED_OWNER):
        return BAD_OWNER
    if unlikely(tick >= core.num_levels):
        return BAD_PRICE
    # One comparison finds sizes that are too small and too large.
    if unlikely(<uint64_t>lots - 1 >= core.lots_max):
        return BAD_SIZE if lots <= 0 else SIZE_TOO_LARGE
    if rests:
        if (
            id - window.base > window.mask
            or window.slots[id & window.mask] != NIL
            or not above_table(core, id)
        ):
            rejection = reserve_id(core, id)
            if unlikely(rejection):
                return rejection
        if unlikely(not slab_reserve(core)):
            return NO_MEMORY
    level = mirrored(core, side, tick)
    limit = core.num_levels - 1 - level
    if core.sides[1 - side].best <= limit:
        incoming.id, incoming.left, incoming.limit, incoming.side = id, left, limit, side
        incoming.ts_ns, incoming.owner = event.ts_ns, owner
        out.index = index
        rejection = run_cross(core, &incoming, flags, kind, out)
        left = incoming.left
        if unlikely(rejection) or not left:
            return rejection
    elif unlikely(flags & FLAG_FOK):
        return NOT_FILLABLE
    if not rests:
        return DONE
    rest(core, window, id, side, level, left, owner)
    return DONE


cdef int run_reduce(Core* core, uint32_t slot, int64_t lots) noexcept nogil:
    cdef int rejection = check_size(core, lots)
    if rejection:
        return rejection
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
    cdef int rejection = check_flags(flags, KIND_REPLACE)
    if rejection:
        return rejection
    if <uint32_t>price - <uint32_t>core.lo >= core.num_levels:
        return BAD_PRICE
    rejection = check_size(core, lots)
    if rejection:
        return rejection
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
    incoming.owner = node.owner if incoming.policy != POLICY_NONE else <uint32_t>NO_OWNER
    incoming.now_s = second_of(ts_ns) if core.num_expiring else 0
    if crosses(core, &incoming):
        if flags & FLAG_POST_ONLY and first_unexpired(core, &incoming) != NIL:
            return POST_ONLY_CROSSES
        if not reserve_fills(core, &incoming, out):
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
        record_departed(core, slot)
        unindex_special(core, slot)
    slab_free(core, slot)
    return DONE


cdef enum:
    # Results of the quick path: nothing was done; all was done, and the best price or its size may
    # have changed; or all was done away from the best price.
    NOT_DONE = 0
    DONE_AT_BEST = 1
    DONE_AWAY = 2


cdef inline int done_at(const Ladder* ladder, uint32_t level) noexcept nogil:
    # Branch-free, since the branch is unpredictable. Levels have 24 bits.
    return DONE_AT_BEST + <int>((ladder.best - level) >> 31)


cdef inline int quick_cross(
    Core* core, const Event* event, uint64_t id, uint64_t lots, uint32_t side, uint32_t limit,
    uint32_t level, uint32_t owner, uint64_t index, Output* out
) noexcept nogil:
    # The part of quick_limit that matches.
    cdef Incoming incoming
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
        rest(core, &core.window, id, side, level, incoming.left, owner)
    return DONE_AT_BEST


cdef inline int quick_limit(
    Core* core, const Event* event, uint64_t index, Output* out
) noexcept nogil:
    # The quick path: a valid limit order without instructions other than post-only. After NOT_DONE
    # nothing has changed, and run_new_order handles the event.
    cdef uint64_t id = id_of(event), ahead = id - core.window.base, mixed, bucket_place
    cdef uint32_t side = side_of_event(event), owner = owner_of(event)
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
        return quick_cross(core, event, id, lots, side, limit, level, owner, index, out)
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
        if tags_equal(bucket.tags, tag) or bucket.overflowed:
            return NOT_DONE
        found = tags_equal(bucket.tags, 0)
        if found == 0:
            return NOT_DONE
        bucket.tags[ctz(found)] = tag
        bucket.slots[ctz(found)] = slot
        core.by_id.count += 1
        update_greatest(core, id)
        node.where = <uint32_t>bucket_place << 4 | ctz(found)
    core.free_slot = node.next
    node.id = id
    node.place = level | side << 31
    node.owner = owner
    queue_append(core, &core.sides[side], level, slot, <u128>lots)
    core.seq += 1
    return done_at(&core.sides[side], level)


cdef int quick_ioc(Core* core, const Event* event, uint64_t index, Output* out) noexcept nogil:
    # As quick_limit, for an order that never rests.
    cdef uint32_t side = side_of_event(event)
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
        return DONE_AWAY
    if core.num_expiring or out.room - out.count < num_orders(core):
        return NOT_DONE
    incoming.id, incoming.left, incoming.side = id, <u128>lots, side
    incoming.ts_ns = event.ts_ns
    out.index = index
    match_in_run(core, &incoming, out)
    return DONE_AT_BEST


cdef inline int quick_cancel(Core* core, uint64_t id, uint32_t guess) noexcept nogil:
    # The quick path: the slot holds the order of this id, without text id, named owner or
    # expiration, and it is not alone at its price.
    cdef uint32_t slot = guess if guess != NIL else likely_slot(core, id)
    cdef uint32_t level
    cdef Node* node
    cdef Ladder* ladder
    cdef Level* at
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
    level_unlink(core, at, node)
    core.seq += 1
    slab_free(core, slot)
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


cdef inline void prefetch_bucket(const Core* core, const Event* event) noexcept nogil:
    # Prefetch the bucket or the window entry of a later event.
    cdef uint64_t id = id_of(event)
    if id - core.window.base <= core.window.mask:
        prefetch(core.window.slots + (id & core.window.mask))
    elif core.by_id.count:
        prefetch(core.by_id.buckets + (mix(id) >> core.by_id.shift))


cdef inline uint32_t prefetch_node(const Core* core, const Event* event) noexcept nogil:
    # Guess the slot of a later event by its tag alone, and prefetch its node.
    cdef uint32_t slot
    if kind_of(event) == KIND_LIMIT:
        return NIL
    slot = likely_slot(core, id_of(event))
    prefetch(core.nodes + slot)
    return slot


cdef inline void prefetch_neighbours(const Core* core, uint32_t guess) noexcept nogil:
    # Prefetch the neighbours of a later order, which its removal relinks.
    if guess != NIL:
        prefetch(core.nodes + core.nodes[guess].prev)
        prefetch(core.nodes + core.nodes[guess].next)


cdef inline void prefetch_removal(Core* core, uint32_t slot) noexcept nogil:
    # Prefetch the index entry and the neighbours of an order, which its removal changes.
    cdef Window* window = window_of(core, core.nodes[slot].id)
    prefetch(window.slots + (core.nodes[slot].id & window.mask))
    prefetch_neighbours(core, slot)


cdef inline uint32_t prefetch_ahead(
    const Core* core, const Event* event, uint32_t* guesses, Py_ssize_t index
) noexcept nogil:
    # Return the slot of the order of an event, or NIL if the guess is not certain.
    cdef uint32_t guess = guesses[index & 15]
    prefetch_bucket(core, event + 16)
    guesses[(index + 8) & 15] = prefetch_node(core, event + 8)
    prefetch_neighbours(core, guesses[(index + 4) & 15])
    # Free slots have the id NO_ID, so equal ids prove the guess.
    if core.nodes[guess].id == id_of(event) and id_of(event) < NO_ID:
        return guess
    return NIL


cdef inline int64_t lots_at(const Ladder* ladder, uint32_t level) noexcept nogil:
    # The size at a level, at most what a record can hold.
    cdef u128 total
    if level == NO_LEVEL:
        return 0
    total = ladder.levels[level].total
    return <int64_t>low(total) if total <= <u128>0x7FFFFFFFFFFFFFFFULL else 0x7FFFFFFFFFFFFFFFLL


cdef void bests_start(const Core* core, BestWriter* bests) noexcept nogil:
    # Read the current best prices.
    bests.bid, bests.ask = core.sides[BUY].best, core.sides[SELL].best
    bests.bid_size = lots_at(&core.sides[BUY], bests.bid)
    bests.ask_size = lots_at(&core.sides[SELL], bests.ask)


cdef void bests_write(
    const Core* core, BestWriter* bests, const Event* event, uint64_t index
) noexcept nogil:
    # Write a row with the best prices, which bests_changed has just read.
    cdef Best* row = bests.rows + bests.count
    row.event = index
    row.ts_ns = ts_of(event)
    row.bid_size, row.ask_size = bests.bid_size, bests.ask_size
    row.bid = core.lo - 1 if bests.bid == NO_LEVEL else price_at(core, BUY, bests.bid)
    row.ask = core.lo + <int32_t>core.num_levels
    if bests.ask != NO_LEVEL:
        row.ask = price_at(core, SELL, bests.ask)
    row.instrument = event.instrument
    bests.count += 1


cdef inline bint bests_changed(const Core* core, BestWriter* bests) noexcept nogil:
    # Read the best prices again; return whether they or their sizes changed.
    cdef uint32_t bid = core.sides[BUY].best, ask = core.sides[SELL].best
    cdef int64_t bid_size = lots_at(&core.sides[BUY], bid)
    cdef int64_t ask_size = lots_at(&core.sides[SELL], ask)
    # One test instead of four unpredictable ones.
    if not (
        <uint64_t>(bid_size ^ bests.bid_size) | <uint64_t>(ask_size ^ bests.ask_size)
        | (bid ^ bests.bid) | (ask ^ bests.ask)
    ):
        return False
    bests.bid, bests.ask, bests.bid_size, bests.ask_size = bid, ask, bid_size, ask_size
    return True


cdef inline bint precedes_recorded_fill(const Event* event, const Event* end) noexcept nogil:
    # Whether the next event is a recorded fill.
    return event + 1 < end and kind_of(event + 1) == KIND_FILL


cdef inline const Event* end_of_recorded_fills(
    const Event* event, const Event* end, const Fill* fill, const Fill* behind
) noexcept nogil:
    # The end of the fills recorded after a command, or NULL if they differ from its own.
    event += 1
    while event < end and kind_of(event) == KIND_FILL:
        if fill == behind or fill.resting_id != id_of(event):
            return NULL
        if fill.size != lots_of(event) or fill.price != price_of(event):
            return NULL
        fill += 1
        event += 1
    return event if fill == behind else NULL


cdef inline Py_ssize_t execute(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status,
    Output* out, BestWriter* bests, bint advances, bint writes_bests
) noexcept nogil:
    # Return the index of the first event that was neither executed nor, with a status array,
    # rejected and skipped. One source, compiled three times for the constants of each case.
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
    if writes_bests and bests.room == 0:
        return start
    while index < stop:
        if advances and unlikely((instrument_of(event) ^ alone) & mask):
            return index
        if unlikely(index >= ask):
            # Decide now and then whether prefetching pays; the last events go without.
            ask = (index | 511) + 1
            ahead = num_orders(core) >= PREFETCH_FROM and ask + 16 <= stop
        prefetch(event + 32)
        guess = prefetch_ahead(core, event, guesses, index) if ahead else <uint32_t>NIL
        kind = kind_of(event)
        if advances and KIND_TRADE <= kind <= KIND_SETTLE:
            # Recorded events do not change the book.
            if kinds != NULL:
                kinds[index] = <uint8_t>kind
            if status != NULL:
                status[index] = DONE
            event += 1
            index += 1
            continue
        if advances:
            before = out.count
        code = DONE
        done = DONE_AT_BEST
        if kind == KIND_LIMIT:
            done = quick_limit(core, event, base + index, out)
            if not done:
                code = run_new_order(core, event, kind, base + index, out)
        elif kind == KIND_CANCEL:
            done = quick_cancel(core, id_of(event), guess)
            if not done:
                code = run_cancel(core, id_of(event), guess)
        elif kind == KIND_IOC:
            done = quick_ioc(core, event, base + index, out)
            if not done:
                code = run_new_order(core, event, kind, base + index, out)
        elif kind == KIND_SEED:
            code = run_new_order(core, event, kind, base + index, out)
        else:
            out.index = base + index
            code = run_rare(core, event, kind, guess, out)
            if advances and kind == KIND_CLEAR and out.watch != UNKNOWN_OWNER:
                out.hit = True
                stop = index + 1
        if unlikely(not write_status(status, index, code)):
            out.code = code
            return index
        if advances and kinds != NULL:
            kinds[index] = <uint8_t>kind
        if writes_bests and done != DONE_AWAY and bests_changed(core, bests):
            bests_write(core, bests, event, base + index)
            if unlikely(bests.count == bests.room):
                stop = index + 1
        if advances and (out.count != before or precedes_recorded_fill(event, out.end)):
            behind = event + 1
            if event < out.end:
                behind = end_of_recorded_fills(
                    event, out.end, out.fills + before, out.fills + out.count
                )
                if unlikely(behind == NULL):
                    if out.differs != NULL:
                        out.differs[index] = 1
                    if out.verify:
                        out.hit = True
                    else:
                        behind = event + 1
            if unlikely(out.hit):
                if not out.passes or behind == NULL:
                    return index + 1
                out.hit, out.was_hit = False, True
            if not ahead:
                # The fills just compared do not change the book.
                while event + 1 < behind and index + 1 < stop:
                    if unlikely((instrument_of(event + 1) ^ alone) & mask):
                        break
                    event += 1
                    index += 1
                    if kinds != NULL:
                        kinds[index] = KIND_FILL
                    write_status(status, index, DONE)
        event += 1
        index += 1
    return index


cdef Py_ssize_t run_events(
    Core* core, const Event* events, Py_ssize_t count, uint8_t* status, Output* out
) noexcept nogil:
    return execute(core, events, 0, count, status, out, NULL, False, False)


cdef Py_ssize_t run_without_bests(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status, Output* out
) noexcept nogil:
    return execute(core, events, start, stop, status, out, NULL, True, False)


cdef Py_ssize_t run_with_bests(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, uint8_t* status,
    Output* out, BestWriter* bests
) noexcept nogil:
    bests_start(core, bests)
    return execute(core, events, start, stop, status, out, bests, True, True)


cdef Py_ssize_t first_after(
    const Event* events, Py_ssize_t start, Py_ssize_t stop, int64_t until_ns
) noexcept nogil:
    # The index of the first event later than a time.
    cdef Py_ssize_t index = start
    while index < stop and ts_of(events + index) <= until_ns:
        index += 1
    return index


cdef Py_ssize_t run_until(
    Core* core, const Event* events, Py_ssize_t start, Py_ssize_t stop, bint timed,
    int64_t until_ns, uint8_t* status, Output* out, BestWriter* bests
) noexcept nogil:
    # Execute a range up to a time, with or without writing best prices.
    if timed:
        stop = first_after(events, start, stop, until_ns)
    if out.writes_bests:
        return run_with_bests(core, events, start, stop, status, out, bests)
    return run_without_bests(core, events, start, stop, status, out)


cdef inline bint write_status(uint8_t* status, Py_ssize_t index, int code) noexcept nogil:
    # Write the status of an event; False if the run cannot go on.
    if unlikely(code >= NO_MEMORY):
        return False
    if status != NULL:
        status[index] = <uint8_t>code
        return True
    return code == DONE
