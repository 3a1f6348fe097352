"""The C++ floor: compiled on first use, run over streams."""

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.native import compiled
from benchmarks.workload import Workload

COMPILE = ("g++", "-O3", "-march=x86-64-v2", "-std=c++17", "-shared", "-fPIC")
SOURCES = (Path(__file__).with_name("floor.cpp"), Path(__file__).with_name("floor.hpp"))
ROW = np.dtype(
    [("op", "u1"), ("side", "u1"), ("price", "<u2"), ("order_id", "<u4"), ("lots", "<u8")]
)


class Stream(NamedTuple):
    """Result of a stream: number of fills, number of resting orders, hash of the fills."""

    num_fills: int
    num_resting: int
    hash: int


class Result(ctypes.Structure):
    """The struct ``Result`` of floor.cpp."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("ns", "num_fills", "num_resting", "hash"))


@functools.cache
def library() -> ctypes.CDLL:
    """Return the floor as a shared library."""
    floor = compiled("floor", COMPILE, *SOURCES)
    word, pointer = ctypes.c_uint64, ctypes.c_void_p
    floor.floor_run.argtypes = (pointer, word, word, ctypes.c_uint32, word, pointer)
    floor.floor_run.restype = ctypes.c_int
    floor.floor_hash.argtypes = (pointer, word)
    floor.floor_hash.restype = word
    return floor


def to_rows(workload: Workload) -> np.ndarray:
    """Return a stream as rows of 16 bytes, the input of the floor."""
    rows = np.zeros(len(workload), dtype=ROW)
    for name in ("op", "side", "price", "order_id"):
        rows[name] = getattr(workload, name)
    rows["lots"] = workload.size
    return rows


def run(workload: Workload, rows: np.ndarray) -> tuple[int, Stream]:
    """Run a stream through the floor.

    Each fill completes a resting or an incoming order, so there are at most twice as many fills as
    orders.

    Returns:
        The nanoseconds of the timed part, measured in C, and the result.
    """
    result, orders = Result(), workload.num_orders
    arguments = (rows.ctypes.data, len(rows), workload.prefill, orders, 2 * orders)
    if library().floor_run(*arguments, ctypes.byref(result)):
        raise MemoryError("the floor could not allocate its book")
    return result.ns, Stream(result.num_fills, result.num_resting, result.hash)


def hash_fills(columns: list[np.ndarray]) -> int:
    """Hash fills like the floor; columns are resting id, incoming id (both dense), price, lots."""
    rows = np.column_stack([column.astype(np.uint64) for column in columns])
    return library().floor_hash(np.ascontiguousarray(rows).ctypes.data, len(rows))
