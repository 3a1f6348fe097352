"""Keccak-256, compiled."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t


cdef extern from "_keccak.h" nogil:
    void hash_of "keccak256"(const uint8_t* data, size_t length, uint8_t* hash)


def keccak256(data not None):
    """Return the 32-byte Keccak-256 hash: SHA-3 before NIST changed its padding."""
    cdef bytes raw = data if type(data) is bytes else bytes(memoryview(data))
    cdef uint8_t hash[32]
    hash_of(<const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw), hash)
    return PyBytes_FromStringAndSize(<const char*>hash, 32)
