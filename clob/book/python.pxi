# Conversions between Python objects and the C structs of the book.

# As C variables these are read directly; a global name costs a dictionary lookup each time.
cdef object Order = _order.Order
cdef object SelfTrade = _order.SelfTrade
cdef object OrderAdded = _events.OrderAdded
cdef object OrderReduced = _events.OrderReduced
cdef object OrderRemoved = _events.OrderRemoved
cdef object Trade = _events.Trade
cdef object DepthLevel = _depth.Level
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
    # Indices of the fields of an Order in ORDER_FIELDS.
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
    # Offsets of the fields of a Struct. Reading a field there takes a fifth of an attribute lookup,
    # and writing all of them half of a constructor call. An instance with a distinct object in
    # every field proves the offsets first.
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
    # A Struct type that can be built field by field, if its offsets are known.
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
    # Build an instance of a Struct type from its fields, in order.
    cdef int place
    cdef object instance
    if unlikely(not layout.known):
        return kind(*[<object>fields[place] for place in range(layout.count)])
    instance = PyObject_New(<PyTypeObject*>kind)
    for place in range(layout.count):
        Py_INCREF(<object>fields[place])
        (<PyObject**>(<char*><PyObject*>instance + layout.offsets[place]))[0] = fields[place]
    return instance


cdef inline int ensure_hash(PyObject* text) except -1:
    # A text that was never looked up has no hash yet.
    if text_hash(text) == NO_HASH:
        hash(<object>text)
    return 0


cdef inline bint as_signed(PyObject* value, int64_t* result) noexcept:
    # An integer of 64 bits with sign.
    cdef int overflow = 0
    if not is_integer(value):
        return False
    if likely(is_compact(value)):
        result[0] = compact_value(value)
    else:
        result[0] = to_i64(value, &overflow)
    return overflow == 0


cdef inline bint as_i64(PyObject* value, int64_t* result) noexcept:
    # An integer from 0 to 2**63 - 1.
    return as_signed(value, result) and result[0] >= 0


cdef inline size_t limit_of(object trades_max) except? 0:
    # The number of trades allowed; None is no limit.
    cdef int64_t limit
    if trades_max is None:
        return NO_LIMIT
    if likely(as_i64(<PyObject*>trades_max, &limit)) and likely(limit > 0):
        return <size_t>limit
    _validation.check_trades_max(trades_max)
    return NO_LIMIT


cdef inline bint as_size(PyObject* value, u128* result) noexcept:
    # A size in wei, 1 to SIZE_MAX. More digits than 96 bits need are rejected at once.
    if not is_integer(value) or is_negative(value):
        return False
    if digit_count(value) * PyLong_SHIFT > 96 + PyLong_SHIFT:
        return False
    result[0] = <u128><object>value
    return 0 < result[0] <= SIZE_MAX


cdef inline object to_wei(Book self, u128 lots):
    return integer(lots * self.core.lot_wei)


cdef inline u128 to_lots(Book self, object size):
    # The size was checked.
    cdef u128 value = <u128>size
    return value // self.core.lot_wei


cdef object total_wei(Book self, u128 lots):
    # The sum of a level may exceed 128 bits in wei, never in lots.
    cdef object total = lots
    return total * self.lot_wei


cdef inline object order_id_at(Book self, uint32_t slot):
    if self.core.nodes[slot].id >= FIRST_NUMBER:
        return <object>self.core.extras[slot].name
    return self.core.nodes[slot].id


cdef inline object maker_at(Book self, uint32_t owner):
    if owner >= FIRST_NAMED_OWNER:
        return <object>self.core.owners[owner - FIRST_NAMED_OWNER].name
    return maker_of(owner)


cdef inline int64_t expiration_at(Book self, uint32_t slot):
    if self.core.nodes[slot].place & EXPIRES:
        return self.core.extras[slot].expiration_s
    return 0


cdef object resting_order(Book self, uint32_t slot):
    cdef Node* node = self.core.nodes + slot
    return Resting(
        order_id_at(self, slot), SIDE_SELL if side_of(node) else SIDE_BUY,
        price_at(&self.core, side_of(node), level_of(node)), to_wei(self, size_of(node)),
        maker_at(self, node.owner), expiration_at(self, slot)
    )


cdef uint32_t find_slot(Book self, object order_id) except NIL:
    # The slot of a resting order, by id or number.
    cdef uint32_t slot
    cdef uint64_t number
    cdef int64_t small
    if PyUnicode_CheckExact(order_id):
        ensure_hash(<PyObject*>order_id)
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


cdef list resting_slots(Book self, bint expired_only=False, int64_t now_s=0):
    # The slots of resting orders: bids first, best price first, oldest first.
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
