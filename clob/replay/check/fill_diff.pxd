# C types for clob/replay/check/fill_diff.py, which setup.py compiles.
cimport cython

cdef unsigned char RECORDED
cdef unsigned long long OWN_ID


cdef class FillDiff:
    cdef public Py_ssize_t failed
    cdef public Py_ssize_t missed
    cdef public Py_ssize_t surplus
    cdef public list kept
    cdef Py_ssize_t _most
    cdef Py_ssize_t _base
    cdef Py_ssize_t _count
    cdef Py_ssize_t _end
    cdef const unsigned char[:] _kinds
    cdef const unsigned long long[:] _ids
    cdef const long long[:] _sizes
    cdef const int[:] _prices
    cdef const unsigned long long[:] _commands
    cdef const unsigned long long[:] _resting
    cdef const unsigned long long[:] _incoming
    cdef const long long[:] _lots
    cdef const int[:] _ticks

    @cython.locals(
        place=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t, stop=Py_ssize_t,
        command="unsigned long long"
    )
    cpdef add(self, list places)

    cdef bint _is_own(self, Py_ssize_t fill, unsigned long long command) except -1

    @cython.locals(shared=Py_ssize_t, record=Py_ssize_t, fill=Py_ssize_t, _=Py_ssize_t)
    cdef _count_command(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t first, Py_ssize_t stop)

    cdef bint _equal(self, Py_ssize_t record, Py_ssize_t fill) except -1
    cdef _keep_fills(self, Py_ssize_t place, Py_ssize_t end, Py_ssize_t first, Py_ssize_t stop)
