# NumPy arrays of the batch interface: their memory, Book.run and Book.advance.

cdef object PLAIN_ARRAY = None
cdef object EVENT_TYPE = None
cdef object FILL_TYPE = None
cdef object STATUS_TYPE = None
cdef object BEST_TYPE = None


cdef int load_array_types() except -1:
    # The usual types of the arrays; NumPy is imported when the first array arrives.
    global PLAIN_ARRAY, EVENT_TYPE, FILL_TYPE, STATUS_TYPE, BEST_TYPE
    if PLAIN_ARRAY is None:
        types = _validation.array_types()
        _, EVENT_TYPE, FILL_TYPE, STATUS_TYPE, BEST_TYPE = types
        PLAIN_ARRAY = types[0]
    return 0


cdef struct ArrayViews:
    # The memory of the arrays of a range, and how many buffers to release.
    Py_buffer buffers[6]
    Py_buffer* acquired[6]
    int count
    bint present[6]             # which arrays were passed


cdef bint acquire_view(
    ArrayViews* views, int place, object array, object dtype, int flags
) except -1:
    # Acquire the buffer of a plain array of exactly this dtype. False for any other array.
    cdef Py_buffer* view = views.buffers + place
    views.present[place] = array is not None
    if array is None:
        return True
    if type(array) is not PLAIN_ARRAY or array.dtype is not dtype:
        return False
    try:
        PyObject_GetBuffer(array, view, flags | PyBUF_ND)
    except (ValueError, BufferError):
        return False
    views.acquired[views.count] = view
    views.count += 1
    return view.ndim == 1 and (view.itemsize == 1 or <uintptr_t>view.buf % 8 == 0)


cdef bint are_disjoint(const ArrayViews* views) noexcept:
    # Whether no two arrays share memory.
    cdef int one, other
    cdef uintptr_t begin, end
    for one in range(views.count):
        begin = <uintptr_t>views.acquired[one].buf
        end = begin + views.acquired[one].len
        for other in range(one + 1, views.count):
            if begin < <uintptr_t>views.acquired[other].buf + views.acquired[other].len:
                if <uintptr_t>views.acquired[other].buf < end:
                    return False
    return True


cdef void release_views(ArrayViews* views) noexcept:
    while views.count:
        views.count -= 1
        PyBuffer_Release(views.acquired[views.count])


cdef object acquire_views(
    ArrayViews* views, object events, object fills, object status, object bests, object kinds,
    object differs
):
    # Acquire the buffers of the arrays of a range: at once for the usual types, otherwise after a
    # full check. Returns fills as a plain array.
    cdef Py_ssize_t count
    load_array_types()
    if (
        acquire_view(views, 0, events, EVENT_TYPE, 0)
        and events is not None
        and acquire_view(views, 1, fills, FILL_TYPE, PyBUF_WRITABLE)
        and fills is not None
        and acquire_view(views, 2, status, STATUS_TYPE, PyBUF_WRITABLE)
        and acquire_view(views, 3, bests, BEST_TYPE, PyBUF_WRITABLE)
        and acquire_view(views, 4, kinds, STATUS_TYPE, PyBUF_WRITABLE)
        and acquire_view(views, 5, differs, STATUS_TYPE, PyBUF_WRITABLE)
    ):
        count = views.buffers[0].len // <Py_ssize_t>sizeof(Event)
        if (
            (status is None or views.buffers[2].len >= count)
            and (kinds is None or views.buffers[4].len >= count)
            and (differs is None or views.buffers[5].len >= count)
            and are_disjoint(views)
        ):
            return fills
    release_views(views)
    arrays = _validation.check_advance(events, fills, status, bests, kinds, differs)
    for place, array in enumerate(arrays):
        views.present[<int>place] = array is not None
        if array is not None:
            PyObject_GetBuffer(
                array, views.buffers + <int>place, PyBUF_WRITABLE if place else PyBUF_SIMPLE
            )
            views.acquired[views.count] = views.buffers + <int>place
            views.count += 1
    return arrays[1]


@cython.final
@cython.internal
@cython.no_gc_clear
cdef class PreparedArrays:
    """Checked arrays; holds their memory until it is deleted."""

    cdef ArrayViews views
    cdef object fills

    def __dealloc__(self):
        release_views(&self.views)


cdef object run_batch(Book self, object events, object fills, object status):
    cdef Core* core = &self.core
    cdef Py_buffer event_view, fill_view, status_view
    cdef Output out
    cdef Py_ssize_t count = len(events), done
    cdef uint8_t* status_bytes = NULL
    cdef Event* rows
    self.departed = {}
    reserve_departed(self)
    memset(&out, 0, sizeof(out))
    out.runs = True
    out.owned = fills is None
    if out.owned:
        out.room = max(1024, count // 4)
        out.fills = <Fill*>malloc(out.room * sizeof(Fill))
        if out.fills == NULL:
            raise MemoryError
    PyObject_GetBuffer(events, &event_view, PyBUF_SIMPLE)
    if not out.owned:
        PyObject_GetBuffer(fills, &fill_view, PyBUF_WRITABLE)
        out.fills = <Fill*>fill_view.buf
        out.room = fill_view.len // sizeof(Fill)
    if status is not None:
        PyObject_GetBuffer(status, &status_view, PyBUF_WRITABLE)
        status_bytes = <uint8_t*>status_view.buf
    rows = <Event*>event_view.buf
    with nogil:
        done = run_events(core, rows, count, status_bytes, &out)
    PyBuffer_Release(&event_view)
    if not out.owned:
        PyBuffer_Release(&fill_view)
    if status is not None:
        PyBuffer_Release(&status_view)
    release_departed(self)
    fills = fills_array(self, &out, fills)
    if done < count:
        if out.code == NO_MEMORY:
            raise MemoryError(f"out of memory: the run stopped before event {done}")
        if out.code == FILLS_DO_NOT_FIT:
            raise FillsFullError(done, fills)
        raise RunRejectedError(done, errors.REJECTIONS[out.code].code, fills)
    return fills


cdef tuple run_range(
    Book self, ArrayViews* views, object fills, object fill_count, object best_count,
    object best_limit, object base, object instrument, object watch, object passes, object verify,
    object start, object stop, object until_ns
):
    cdef Core* core = &self.core
    cdef Output out
    cdef BestWriter bests
    cdef const Event* rows = <const Event*>views.buffers[0].buf
    cdef Py_ssize_t count = views.buffers[0].len // <Py_ssize_t>sizeof(Event)
    cdef int64_t first = 0, last = count, until = 0, owner = 0, only = ANY_INSTRUMENT, number = 0
    cdef int64_t fill = 0, best = 0, room = 0x7FFFFFFFFFFFFFFFLL, short_end
    cdef int64_t fill_room = views.buffers[1].len // <Py_ssize_t>sizeof(Fill), best_room = 0
    cdef Py_ssize_t done
    cdef uint8_t* status_bytes = NULL
    cdef bint writes_bests = views.present[3], timed = until_ns is not None
    if writes_bests:
        best_room = views.buffers[3].len // <Py_ssize_t>sizeof(Best)
    if not (
        as_i64(<PyObject*>start, &first)
        and (stop is None or as_i64(<PyObject*>stop, &last))
        and (not timed or as_signed(<PyObject*>until_ns, &until))
        and as_i64(<PyObject*>watch, &owner)
        and as_i64(<PyObject*>base, &number)
        and (
            instrument is None
            or as_i64(<PyObject*>instrument, &only) and only < <int64_t>ANY_INSTRUMENT
        )
        and as_i64(<PyObject*>fill_count, &fill)
        and as_i64(<PyObject*>best_count, &best)
        and (best_limit is None or as_i64(<PyObject*>best_limit, &room))
        and 0 <= first <= last <= count
        and 0 <= owner < <int64_t>FIRST_NAMED_OWNER
        and fill <= fill_room
        and best <= best_room
        and (passes is True or passes is False)
        and (verify is True or verify is False)
    ):
        _validation.check_range(count, start, stop, until_ns)
        _validation.check_filters(watch, instrument, base, passes, verify)
        _validation.check_counts(fill_count, fill_room, best_count, best_room, best_limit)
    if self.departed:
        self.departed = {}
    reserve_departed(self)
    memset(&out, 0, sizeof(out))
    memset(&bests, 0, sizeof(bests))
    out.runs = True
    out.fills = <Fill*>views.buffers[1].buf + fill
    out.room = fill_room - fill
    out.watch = <uint32_t>owner if owner else UNKNOWN_OWNER
    out.instrument = <uint32_t>only
    out.base = <uint64_t>number
    out.passes = passes is True
    out.verify = verify is True
    if views.present[2]:
        status_bytes = <uint8_t*>views.buffers[2].buf
    if views.present[4]:
        out.kinds = <uint8_t*>views.buffers[4].buf
    if views.present[5]:
        out.differs = <uint8_t*>views.buffers[5].buf
    if out.verify or out.differs != NULL:
        out.end = rows + count
    if writes_bests and room:
        out.writes_bests = True
        bests.rows = <Best*>views.buffers[3].buf + best
        bests.room = min(best_room - best, room)
    short_end = min(last, first + GIL_EVENTS_MIN)
    if timed:
        short_end = first_after(rows, first, short_end, until)
    if short_end < first + GIL_EVENTS_MIN:
        done = run_until(core, rows, first, short_end, False, until, status_bytes, &out, &bests)
    else:
        with nogil:
            done = run_until(core, rows, first, last, timed, until, status_bytes, &out, &bests)
    release_departed(self)
    if out.code == NO_MEMORY:
        raise MemoryError(f"out of memory: the run stopped before event {done}")
    if out.code != DONE and out.code != FILLS_DO_NOT_FIT:
        raise RunRejectedError(
            done, errors.REJECTIONS[out.code].code, fills[fill : fill + <int64_t>out.count]
        )
    out.hit |= out.was_hit
    return (done, fill + <int64_t>out.count, best + <int64_t>bests.count, YES if out.hit else NO)


cdef object fills_array(Book self, Output* out, object fills):
    # The fills of a run as an array: the head of the array passed, or a new one.
    cdef Py_buffer view
    if not out.owned:
        return fills[: out.count]
    try:
        fills = _validation.empty_fills(out.count)
        PyObject_GetBuffer(fills, &view, PyBUF_WRITABLE)
        memcpy(view.buf, out.fills, out.count * sizeof(Fill))
        PyBuffer_Release(&view)
    finally:
        free(out.fills)
    return fills


cdef int reserve_departed(Book self) except -1:
    # A run adds no orders that hold Python objects, so no more than these can leave.
    cdef Core* core = &self.core
    cdef Departed* departed
    core.departed_count = 0
    if core.num_held > core.departed_capacity:
        departed = <Departed*>realloc(core.departed, core.num_held * sizeof(Departed))
        if departed == NULL:
            raise MemoryError
        core.departed = departed
        core.departed_capacity = core.num_held
    return 0


cdef int release_departed(Book self) except -1:
    # Keep the text ids of the orders that left, and release their objects.
    cdef size_t place
    cdef Departed* departed
    for place in range(self.core.departed_count):
        departed = self.core.departed + place
        if departed.name != NULL:
            self.departed[departed.number] = <object>departed.name
        release_order(self, departed.name, departed.owner)
    self.core.departed_count = 0
    return 0
