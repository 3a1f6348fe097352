"""Out of memory, the compiled Book raises ``MemoryError``, changes nothing and stays usable."""

import subprocess
import sys

import pytest

from tests.books import load

PROGRAM = """
import resource, sys
import numpy as np
from clob import Order, Side
from clob.book._book_c import Book
from clob.records import EVENT, FILL, Kind

def limits(extra):
    pages = int(open("/proc/self/statm").read().split()[0])
    return pages * resource.getpagesize() + extra

def batch(start, ids):
    events = np.zeros(100_000, EVENT)
    events["order_id"] = ids(np.arange(start, start + len(events), dtype=np.uint64))
    events["kind"], events["size"], events["price"] = Kind.SEED, 5, 50
    return events

ids = {
    "dense": lambda n: n,
    "arbitrary": lambda n: n * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(1),
}[sys.argv[1]]
book = Book()
status = np.zeros(100_000, np.uint8)
batches = [batch(start, ids) for start in range(0, 3_000_000, 100_000)]
resource.setrlimit(resource.RLIMIT_AS, (limits(int(sys.argv[2]) << 20), -1))
rejected = 0
for events in batches:
    before = len(book), book.seq
    try:
        book.run(events, status=status)
    except MemoryError as error:
        rejected += 1
        stopped = int(str(error).rsplit(" ", 1)[1])
        assert len(book) == before[0] + stopped, (error, len(book), before)
        break
assert rejected, "there was memory enough for everything"
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
book.check()
count = len(book)
book.run(batches[-1])
book.check()
assert len(book) == count + 100_000
print("went on after", count)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="not here: limits memory as Linux does")
@pytest.mark.parametrize("ids", ["dense", "arbitrary"])
@pytest.mark.parametrize("extra_mib", [2, 9, 30, 70])
def test_running_out_of_memory_stops_a_run_and_keeps_the_book_consistent(ids, extra_mib):
    load("compiled")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, ids, str(extra_mib)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("went on after")


def test_a_capacity_beyond_memory_raises_memory_error():
    book_class = load("compiled")
    limited = """
import resource
from clob.book._book_c import Book
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, -1))
try:
    Book(capacity=2**31)
except MemoryError:
    print("rejected", len(Book()))
"""
    assert book_class is not None
    run = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "rejected 0\n"), run.stderr
