# cython: language_level=3, cdivision=True, annotation_typing=False
"""Compiled version of snapshot_orders.py, which has the documentation.

Plain orders are read from the bytes straight into the indexes and the book, without an Order or an
entry each, and written without an OrderSnapshot each; those asleep are copied. All others go the
way of snapshot_orders.py: invalid ones, for which it raises, those with rare values, those of
complementary markets and, when read, those of markets with accounts.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from clob.codec import write
from clob.codec.layout import form_of
from clob.matcher.entities cimport MakerState, MarketState, Order, OrderEntry, prefetch
from clob.matcher.order_index cimport OrderIndex
from clob.matcher.state_records import Text
from clob.order import SelfTrade, Side, TimeInForce

cdef extern from "Python.h":
    str new_text "PyUnicode_New"(Py_ssize_t size, unsigned int maximum)
    void* text_data "PyUnicode_DATA"(object text)
    bint is_ascii "PyUnicode_IS_COMPACT_ASCII"(object text)
    Py_ssize_t text_length "PyUnicode_GET_LENGTH"(object text)
    PyObject* dict_get "PyDict_GetItemWithError"(dict table, object key) except? NULL

cdef extern from *:
    """
    typedef unsigned __int128 clob_u128;
    static inline int clob_width(uint64_t value) {
        return value ? (71 - __builtin_clzll(value)) >> 3 : 0;
    }
    """
    ctypedef unsigned long long u128 "clob_u128"
    int width_of "clob_width"(uint64_t value) noexcept nogil

cdef enum:
    CHUNK = 256                 # orders that enter the book together
    INTEGER_BYTES_MAX = 32      # as in clob.codec.layout
    BITS_PER_NUMBER = 256       # most bits per number of a set of bits, the size of one in a set
    PIECE = 1024                # orders that are written together
    NEAR = 64                   # orders that are loaded into the CPU cache together
    INTEGER_ROOM = 24           # an integer of 128 bits, and one 64-bit store beyond it

cdef extern from *:
    uint64_t TIME_MAX "0x7FFFFFFFFFFFFFFFu"
    uint64_t PRICE_MAX "0x7FFFFFFFu"


cdef struct Row:
    # As clob.book.state.ROW: an order for a book, except its id.
    uint64_t size_lo
    uint32_t size_hi
    int32_t price
    int64_t expiration_s
    uint32_t maker
    uint32_t side


cdef struct Span:
    const uint8_t* at
    Py_ssize_t length


cdef struct Plain:
    # The fields of an OrderSnapshot that the indexes need.
    Row row
    uint64_t id                 # unless it has a name
    Span name
    uint64_t maker
    uint64_t number
    Span client_id              # `at` is NULL if there is none
    Span order_hash


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


cdef inline bint take_byte(Cursor* data, uint64_t limit, uint8_t* value) noexcept nogil:
    # A byte below the limit.
    if data.at == data.end or data.at[0] >= limit:
        return False
    value[0] = data.at[0]
    data.at += 1
    return True


cdef inline bint take_wide(Cursor* data, int width_max, uint64_t* words) noexcept nogil:
    # An integer of at most width_max bytes, into 16 bytes.
    cdef int width
    if data.at == data.end:
        return False
    width = data.at[0]
    if width > width_max or data.end - data.at - 1 < width or (width and data.at[width] == 0):
        return False
    words[0] = words[1] = 0
    memcpy(words, data.at + 1, width)
    data.at += 1 + width
    return True


cdef inline bint take(Cursor* data, uint64_t most, uint64_t* value) noexcept nogil:
    # An integer up to a limit.
    cdef uint64_t words[2]
    if not take_wide(data, 8, words) or words[0] > most:
        return False
    value[0] = words[0]
    return True


cdef inline bint skip_integer(Cursor* data) noexcept nogil:
    cdef int width
    if data.at == data.end:
        return False
    width = data.at[0]
    if width > INTEGER_BYTES_MAX or data.end - data.at - 1 < width:
        return False
    if width and data.at[width] == 0:
        return False
    data.at += 1 + width
    return True


cdef inline bint skip_optional(Cursor* data) noexcept nogil:
    cdef uint8_t is_present
    return take_byte(data, 2, &is_present) and (not is_present or skip_integer(data))


cdef inline bint take_raw(Cursor* data, Span* text) noexcept nogil:
    cdef uint64_t length
    if not take(data, TIME_MAX, &length) or <uint64_t>(data.end - data.at) < length:
        return False
    text.at, text.length = data.at, <Py_ssize_t>length
    data.at += length
    return True


cdef inline bint take_ascii(Cursor* data, Span* text) noexcept nogil:
    cdef Py_ssize_t place
    cdef uint8_t high = 0
    if not take_raw(data, text):
        return False
    for place in range(text.length):
        high |= text.at[place]
    return high < 0x80


cdef inline bint take_optional(Cursor* data, Span* text, bint is_ascii) noexcept nogil:
    cdef uint8_t is_present
    text.at = NULL
    if not take_byte(data, 2, &is_present):
        return False
    if not is_present:
        return True
    return take_ascii(data, text) if is_ascii else take_raw(data, text)


cdef bint take_order(Cursor* data, Plain* to) noexcept nogil:
    # An OrderSnapshot; False if it is not plain, and then the position is lost.
    cdef uint8_t is_text, side, flag
    cdef uint64_t price, expiration_s, accepted_ms
    cdef uint64_t size[2]
    cdef uint64_t remaining[2]
    cdef Span wallet
    to.name.at = NULL
    if not take_byte(data, 2, &is_text):
        return False
    if is_text:
        if not take_ascii(data, &to.name) or not to.name.length:
            return False
    elif not take(data, TIME_MAX, &to.id):
        return False
    if not (
        take(data, 0xFFFFFFFFu, &to.maker)
        and take_byte(data, 2, &side)
        and take(data, PRICE_MAX, &price)
        and take_wide(data, 12, size)
        and take_byte(data, 2, &flag)  # GTC or GTD
        and take(data, TIME_MAX, &expiration_s)
    ):
        return False
    if flag and not expiration_s:
        return False
    if not take_byte(data, 2, &flag) or not take_byte(data, 2, &flag):  # post_only, self_trade
        return False
    if flag and not take_byte(data, 5, &flag):
        return False
    if not (
        skip_integer(data)  # nonce
        and skip_optional(data)  # collateral
        and skip_optional(data)  # fee_rate_bps
        and take_ascii(data, &wallet)
        and take_wide(data, 12, remaining)
        and skip_integer(data)  # filled_collateral
        and take(data, TIME_MAX, &to.number)
        and take(data, TIME_MAX, &accepted_ms)
        and take_optional(data, &to.client_id, True)
        and take_optional(data, &to.order_hash, False)
        and take_byte(data, 2, &flag)
    ):
        return False
    if flag and not (skip_integer(data) and skip_integer(data) and skip_optional(data)):
        return False
    to.row.size_lo, to.row.size_hi = remaining[0], <uint32_t>remaining[1]
    to.row.price, to.row.side = <int32_t>price, side
    to.row.expiration_s, to.row.maker = <int64_t>expiration_s, <uint32_t>to.maker
    return remaining[1] < size[1] or (remaining[1] == size[1] and remaining[0] <= size[0])


cdef inline str text_of(const Span* text):
    cdef str result = new_text(text.length, 127)
    memcpy(text_data(result), text.at, text.length)
    return result


cdef int read_chunk(
    object reader, Py_ssize_t count, const uint8_t[::1] state, Plain* orders, uint64_t* offsets
) except -1:
    # Read the next orders until one is not plain; return their number.
    cdef const uint8_t* begin = &state[0]
    cdef Cursor data
    cdef Py_ssize_t place = 0, num_makers = len(reader.makers)
    data.at, data.end = begin + <Py_ssize_t>reader.offset, begin + len(state)
    while place < count:
        offsets[place] = data.at - begin
        if not take_order(&data, orders + place) or orders[place].maker > <uint64_t>num_makers:
            data.at = begin + offsets[place]
            break
        if orders[place].maker == <uint64_t>num_makers:
            # The name of a new maker is next.
            reader.offset = data.at - begin
            reader.maker(num_makers)
            num_makers += 1
            data.at = begin + <Py_ssize_t>reader.offset
        place += 1
    reader.offset = data.at - begin
    return place


cdef int add_names(
    OrderIndex index, list makers, const Plain* orders, list ids, list places
) except -1:
    # The orders by id, hash and client id. One table after the other: the processor then loads the
    # places of several orders at a time, which are far from each other.
    cdef Py_ssize_t count = len(ids), place
    cdef bint is_new = True
    cdef list used = [
        PyBytes_FromStringAndSize(
            <const char*>orders[place].order_hash.at, orders[place].order_hash.length
        ) if orders[place].order_hash.at != NULL else None
        for place in range(count)
    ]
    for place in range(count):
        is_new &= index.entries.setdefault(ids[place], places[place]) is places[place]
    for place in range(count):
        if used[place] is not None:
            is_new &= index.used_hashes.setdefault(used[place], places[place]) is places[place]
    for place in range(count):
        if orders[place].client_id.at != NULL:
            client = (makers[orders[place].maker], text_of(&orders[place].client_id))
            is_new &= index.client_ids.setdefault(client, places[place]) is places[place]
    if not is_new:
        raise ValueError(f"an order has an id, hash or client id of another: {ids!r:.200}")
    return 0


cdef int put_to_sleep(
    OrderIndex index, MarketState market_state, str maker, const Plain* order, object place
) except -1:
    # As OrderIndex.put_to_sleep, in a market without accounts, for an order with its names.
    cdef MakerState maker_state = market_state.makers.get(maker)
    cdef object due
    if maker_state is None:
        maker_state = MakerState(maker, market_state)
    if order.row.expiration_s:
        due = index.expiring.get(order.row.expiration_s)
        if due is None:
            due = index.expiring[order.row.expiration_s] = {}
        due[order.number] = place
    if maker_state.asleep is None:
        maker_state.asleep = []
    maker_state.asleep.append(place)
    if not maker_state.count:
        market_state.makers[maker] = maker_state
        index.link_maker(maker_state)
    maker_state.count += 1
    return 0


cdef list restore_chunk(
    OrderIndex index, object reader, MarketState market_state, Py_ssize_t count, object book,
    Row* last
):
    # Rest the next orders, at most CHUNK, until one is not plain; return their ids. The last one so
    # far is `last`.
    cdef Py_ssize_t first = len(index.asleep_offsets), place
    cdef list makers = reader.makers, ids, places
    cdef Plain orders[CHUNK]
    cdef Row rows[CHUNK]
    cdef uint64_t offsets[CHUNK]
    cdef uint64_t numbers[CHUNK]
    count = read_chunk(reader, count, reader.state, orders, offsets)
    ids = [
        text_of(&orders[place].name) if orders[place].name.at != NULL else orders[place].id
        for place in range(count)
    ]
    places = list(range(first, first + count))
    add_names(index, makers, orders, ids, places)
    for place in range(count):
        put_to_sleep(
            index, market_state, makers[orders[place].maker], orders + place, places[place]
        )
        rows[place], numbers[place] = orders[place].row, orders[place].number
        if is_before(rows + place, last):
            raise ValueError(f"the orders of market {market_state.market.id!r} are not sorted")
        last[0] = rows[place]
    index.asleep_offsets.frombytes(PyBytes_FromStringAndSize(<char*>offsets, 8 * count))
    reader.numbers.frombytes(PyBytes_FromStringAndSize(<char*>numbers, 8 * count))
    book.rest_all(
        ids, PyBytes_FromStringAndSize(<char*>rows, sizeof(Row) * count), makers
    )
    return ids


cdef inline bint is_before(const Row* row, const Row* other) noexcept nogil:
    # Whether an order is before one in the sequence of the queues: bids first, best price first.
    if row.side != other.side:
        return row.side < other.side
    return row.price < other.price if row.side else row.price > other.price


def restore_orders(
    OrderIndex index, reader, MarketState market_state, object count, bint is_yes
):
    cdef object book = market_state.yes_book if is_yes else market_state.no_book
    cdef bint in_bulk = reader.in_bulk and not market_state.has_accounts
    cdef bint is_sorted = in_bulk
    cdef list ids = [], chunk
    cdef Row last
    last.side, last.price = 0, INT32_MAX
    while len(ids) < count:
        chunk = [] if not in_bulk else restore_chunk(
            index, reader, market_state, min(count - len(ids), CHUNK), book, &last
        )
        is_sorted = is_sorted and len(chunk)
        ids += chunk or index.restore_book(
            market_state, reader.orders(1 if in_bulk else count), is_yes
        )
    # Orders in bulk were compared with each other.
    if not is_sorted and book.ids() != ids:
        raise ValueError(f"the orders of market {market_state.market.id!r} are not sorted")


def are_distinct(const int64_t[::1] numbers not None):
    # A bit for each number between the smallest and the greatest, unless they are far apart.
    cdef Py_ssize_t place
    cdef int64_t least, most
    cdef uint64_t bit
    cdef uint8_t* seen
    if not len(numbers):
        return True
    least = most = numbers[0]
    for place in range(len(numbers)):
        least, most = min(least, numbers[place]), max(most, numbers[place])
    if least < 0 or most - least > BITS_PER_NUMBER * <int64_t>len(numbers):
        return len(set(numbers)) == len(numbers)
    seen = <uint8_t*>calloc((most - least >> 3) + 1, 1)
    if seen == NULL:
        raise MemoryError
    try:
        for place in range(len(numbers)):
            bit = numbers[place] - least
            if seen[bit >> 3] >> (bit & 7) & 1:
                return False
            seen[bit >> 3] |= <uint8_t>(1 << (bit & 7))
        return True
    finally:
        free(seen)


# ----- writing -------------------------------------------------------------------------------

cdef tuple SIDES = form_of(Side).members
cdef tuple TIMES_IN_FORCE = form_of(TimeInForce).members
cdef tuple SELF_TRADES = form_of(SelfTrade).members


cdef struct Output:
    uint8_t* start
    uint8_t* at
    uint8_t* end


cdef inline int reserve(Output* out, size_t more) except -1:
    cdef size_t used = out.at - out.start, room = 2 * (used + more)
    cdef uint8_t* memory
    if <size_t>(out.end - out.at) >= more:
        return 0
    memory = <uint8_t*>realloc(out.start, room)
    if memory == NULL:
        raise MemoryError
    out.start, out.at, out.end = memory, memory + used, memory + room
    return 0


cdef inline int put_byte(Output* out, uint8_t byte) except -1:
    reserve(out, 1)
    out.at[0] = byte
    out.at += 1
    return 0


cdef inline int put_word(Output* out, uint64_t value) except -1:
    reserve(out, INTEGER_ROOM)
    out.at[0] = width_of(value)
    memcpy(out.at + 1, &value, 8)
    out.at += 1 + out.at[0]
    return 0


cdef inline int put_data(Output* out, const void* data, Py_ssize_t length) except -1:
    reserve(out, length)
    memcpy(out.at, data, length)
    out.at += length
    return 0


cdef inline int put_integer(Output* out, object value) except -1:
    # OverflowError for one of more than 128 bits.
    cdef u128 wide
    if type(value) is not int:
        raise ValueError
    wide = <u128>value
    if not wide >> 64:
        return put_word(out, <uint64_t>wide)
    reserve(out, INTEGER_ROOM)
    out.at[0] = 8 + width_of(<uint64_t>(wide >> 64))
    memcpy(out.at + 1, &wide, 16)
    out.at += 1 + out.at[0]
    return 0


cdef inline int put_text(Output* out, object text) except -1:
    if type(text) is not str or not is_ascii(text):
        raise ValueError
    put_word(out, text_length(text))
    return put_data(out, text_data(text), text_length(text))


cdef inline int put_raw(Output* out, object data) except -1:
    if type(data) is not bytes:
        raise ValueError
    put_word(out, PyBytes_GET_SIZE(data))
    return put_data(out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline int put_optional(Output* out, object value) except -1:
    # An optional integer, text or bytes.
    put_byte(out, value is not None)
    if value is None:
        return 0
    if type(value) is bytes:
        return put_raw(out, value)
    return put_text(out, value) if type(value) is str else put_integer(out, value)


cdef inline int put_member(Output* out, object value, tuple members) except -1:
    cdef Py_ssize_t number
    for number in range(len(members)):
        if members[number] is value:
            return put_byte(out, number)
    raise ValueError


cdef int put_entry(Output* out, OrderEntry entry, uint64_t maker) except -1:
    # An OrderSnapshot. ValueError or OverflowError if it is not plain.
    cdef Order order = entry.order, submitted = entry.submitted
    put_byte(out, type(order.id) is str)
    if type(order.id) is str:
        put_text(out, order.id)
    else:
        put_integer(out, order.id)
    put_word(out, maker)
    put_member(out, order.side, SIDES)
    put_integer(out, order.price)
    put_integer(out, order.size)
    put_member(out, order.time_in_force, TIMES_IN_FORCE)
    put_integer(out, order.expiration_s)
    if type(order.post_only) is not bool:
        raise ValueError
    put_byte(out, order.post_only is True)
    put_byte(out, order.self_trade is not None)
    if order.self_trade is not None:
        put_member(out, order.self_trade, SELF_TRADES)
    put_integer(out, order.nonce)
    put_optional(out, order.collateral)
    put_optional(out, order.fee_rate_bps)
    put_text(out, order.smart_wallet)
    put_integer(out, entry.remaining)
    put_integer(out, entry.filled_collateral)
    put_word(out, entry.number)
    put_word(out, entry.accepted_ms)
    put_optional(out, entry.client_id)
    put_optional(out, entry.order_hash)
    put_byte(out, submitted is not order)
    if submitted is not order:
        put_integer(out, submitted.price)
        put_integer(out, submitted.size)
        put_optional(out, submitted.collateral)
    return 0


cdef int put_awake(Output* out, OrderEntry entry, dict makers) except -1:
    cdef Py_ssize_t used = out.at - out.start, num_makers = len(makers)
    cdef object piece, place = makers.setdefault(entry.maker_state.maker, num_makers)
    try:
        put_entry(out, entry, place)
    except (OverflowError, ValueError):
        out.at = out.start + used
        piece = write(entry.state(place))
        put_data(out, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return put_new_maker(out, entry.maker_state.maker, makers, num_makers)


cdef inline int put_new_maker(
    Output* out, str maker, dict makers, Py_ssize_t num_makers
) except -1:
    cdef bytes piece
    if len(makers) != num_makers:
        piece = write(Text(maker))
        put_data(out, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return 0


cdef bint put_asleep(
    Output* out, OrderIndex index, const uint8_t[::1] state, uint64_t offset, dict makers
) except -1:
    # Copy an order with another maker; False if it is not plain.
    cdef Py_ssize_t num_makers = len(makers)
    cdef const uint8_t* start = &state[0] + offset
    cdef const uint8_t* id_end
    cdef Cursor data
    cdef Plain order
    cdef str maker
    data.at, data.end = start, &state[0] + len(state)
    if not take_order(&data, &order):
        return False
    id_end = order.name.at + order.name.length if order.name.at != NULL else start + 2 + start[1]
    put_data(out, start, id_end - start)
    maker = index.asleep_makers[order.maker]
    put_word(out, makers.setdefault(maker, num_makers))
    id_end += 1 + id_end[0]
    put_data(out, id_end, data.at - id_end)
    put_new_maker(out, maker, makers, num_makers)
    return True


cdef int find_entries(OrderIndex index, list ids, Py_ssize_t start, PyObject** found) except -1:
    # Look up NEAR orders. Those that rest side by side are far from each other in memory: to load
    # one after the other takes longer than to write them.
    cdef Py_ssize_t place, count = min(len(ids) - start, <Py_ssize_t>NEAR)
    cdef OrderEntry entry
    for place in range(count):
        found[place] = dict_get(index.entries, ids[start + place])
        if found[place] == NULL:
            raise KeyError(ids[start + place])
        prefetch(<object>found[place])
    for place in range(count):
        if type(<object>found[place]) is not int:
            entry = <OrderEntry>found[place]
            prefetch(entry.order)
            prefetch(entry.order_hash)
    for place in range(count):
        if type(<object>found[place]) is not int:
            entry = <OrderEntry>found[place]
            prefetch(entry.order.size)
    return count


cdef int put_orders(
    Output* out, OrderIndex index, PyObject** found, Py_ssize_t count, dict makers,
    bint has_outcomes, const uint8_t[::1] state
) except -1:
    cdef Py_ssize_t place
    cdef uint64_t offset
    cdef OrderEntry entry
    for place in range(count):
        if type(<object>found[place]) is not int:
            entry = <OrderEntry>found[place]
        else:
            offset = index.asleep_offsets[<object>found[place]]
            if has_outcomes:
                put_byte(out, state[offset - 1])
            if put_asleep(out, index, state, offset, makers):
                continue
            out.at -= has_outcomes
            entry = index.peek(<object>found[place])
        if has_outcomes:
            put_byte(out, entry.is_yes)
        put_awake(out, entry, makers)
    return 0


cdef bytes piece_of(
    OrderIndex index, list ids, Py_ssize_t start, dict makers, bint has_outcomes,
    const uint8_t[::1] state
):
    cdef Py_ssize_t near, count
    cdef PyObject* found[NEAR]
    cdef Output out
    out.start = out.at = out.end = NULL
    try:
        for near in range(start, min(len(ids), start + PIECE), NEAR):
            count = find_entries(index, ids, near, found)
            put_orders(&out, index, found, count, makers, has_outcomes, state)
        return PyBytes_FromStringAndSize(<char*>out.start, out.at - out.start)
    finally:
        free(out.start)


def order_pieces(OrderIndex index, list ids, dict makers, bint has_outcomes):
    cdef Py_ssize_t start
    for start in range(0, len(ids), PIECE):
        yield piece_of(index, ids, start, makers, has_outcomes, index.asleep)
