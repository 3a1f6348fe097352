# cython: language_level=3, cdivision=True, annotation_typing=False
"""Compiled version of restoring.py, which has the documentation.

Plain orders are read from the bytes straight into the indexes and the book, without an Order or an
entry each. The reader of restoring.py reads all others: invalid ones, for which it raises, those
with rare values, and those of markets with accounts or of complementary markets.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from clob.matcher.entities cimport MakerState, MarketState
from clob.matcher.order_index cimport OrderIndex

cdef extern from "Python.h":
    str new_text "PyUnicode_New"(Py_ssize_t size, unsigned int maximum)
    void* text_data "PyUnicode_DATA"(object text)

cdef enum:
    CHUNK = 1024                # orders that enter the book together
    INTEGER_BYTES_MAX = 32      # as in clob.codec.layout
    BITS_PER_NUMBER = 256       # most bits per number of a set of bits, the size of one in a set

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


cdef struct Text:
    const uint8_t* at
    Py_ssize_t length


cdef struct Plain:
    # The fields of an OrderSnapshot that the indexes need.
    Row row
    uint64_t id                 # unless it has a name
    Text name
    uint64_t maker
    uint64_t number
    Text client_id              # `at` is NULL if there is none
    Text order_hash


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


cdef inline bint take_raw(Cursor* data, Text* text) noexcept nogil:
    cdef uint64_t length
    if not take(data, TIME_MAX, &length) or <uint64_t>(data.end - data.at) < length:
        return False
    text.at, text.length = data.at, <Py_ssize_t>length
    data.at += length
    return True


cdef inline bint take_ascii(Cursor* data, Text* text) noexcept nogil:
    cdef Py_ssize_t place
    cdef uint8_t high = 0
    if not take_raw(data, text):
        return False
    for place in range(text.length):
        high |= text.at[place]
    return high < 0x80


cdef inline bint take_optional(Cursor* data, Text* text, bint is_ascii) noexcept nogil:
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
    cdef Text wallet
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


cdef inline str text_of(const Text* text):
    cdef str result = new_text(text.length, 127)
    memcpy(text_data(result), text.at, text.length)
    return result


cdef int put_to_sleep(
    OrderIndex index, MarketState market_state, str maker, const Plain* order, object order_id,
    object place
) except -1:
    # As OrderIndex.put_to_sleep, in a market without accounts.
    cdef MakerState maker_state = market_state.makers.get(maker)
    cdef object due, used, client
    cdef bint is_new = index.entries.setdefault(order_id, place) is place
    if order.order_hash.at != NULL:
        used = PyBytes_FromStringAndSize(
            <const char*>order.order_hash.at, order.order_hash.length
        )
        is_new = is_new and index.used_hashes.setdefault(used, place) is place
    if order.client_id.at != NULL:
        client = (maker, text_of(&order.client_id))
        is_new = is_new and index.client_ids.setdefault(client, place) is place
    if not is_new:
        raise ValueError(f"order {order_id!r} has an id, hash or client id of another")
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
    OrderIndex index, object reader, MarketState market_state, Py_ssize_t count, bint is_yes
):
    # Rest the next orders until one is not plain; return their ids.
    cdef const uint8_t[::1] state = reader.state
    cdef const uint8_t* begin = &state[0]
    cdef const uint8_t* start
    cdef Py_ssize_t first = len(index.asleep_offsets), place = 0
    cdef list ids = [], makers = reader.makers
    cdef Cursor data
    cdef Plain order
    cdef Row rows[CHUNK]
    cdef uint64_t offsets[CHUNK]
    cdef uint64_t numbers[CHUNK]
    cdef object order_id
    data.at = begin + <Py_ssize_t>reader.offset
    data.end = begin + len(state)
    while place < min(count, <Py_ssize_t>CHUNK):
        start = data.at
        if not take_order(&data, &order) or order.maker > <uint64_t>len(makers):
            data.at = start
            break
        if order.maker == <uint64_t>len(makers):
            # The name of a new maker is next.
            reader.offset = data.at - begin
            reader.maker(order.maker)
            data.at = begin + <Py_ssize_t>reader.offset
        order_id = text_of(&order.name) if order.name.at != NULL else order.id
        put_to_sleep(
            index, market_state, makers[order.maker], &order, order_id, first + place
        )
        ids.append(order_id)
        rows[place] = order.row
        offsets[place], numbers[place] = start - begin, order.number
        place += 1
    reader.offset = data.at - begin
    index.asleep_offsets.frombytes(PyBytes_FromStringAndSize(<char*>offsets, 8 * place))
    reader.numbers.frombytes(PyBytes_FromStringAndSize(<char*>numbers, 8 * place))
    (market_state.yes_book if is_yes else market_state.no_book).rest_all(
        ids, PyBytes_FromStringAndSize(<char*>rows, sizeof(Row) * place), makers
    )
    return ids


def restore_orders(
    OrderIndex index, reader, MarketState market_state, Py_ssize_t count, bint is_yes
):
    cdef list ids = []
    if market_state.has_accounts or market_state.complementary:
        return index.restore_book(market_state, reader.orders(count), is_yes)
    while len(ids) < count:
        chunk = restore_chunk(index, reader, market_state, count - len(ids), is_yes)
        ids += chunk or index.restore_book(market_state, reader.orders(1), is_yes)
    return ids


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
