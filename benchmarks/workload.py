"""Order flow of the benchmarks: seeded streams with a fixed mix, and their kinds of ids.

A stream is generated once and kept in the cache folder. Its SHA-256 is pinned below, so that
figures from different years refer to the same events.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.flow import ADD, COLUMNS, Flow, Mix
from clob.records import EVENT, Kind

WEI_PER_LOT = 10**18
RUNNING_BASE = 6_412_777_162_812


MIXES = {
    "mixed": Mix(1_000_000, 10_000, 0.08, 0.50, 1),
    "add_cancel": Mix(1_000_000, 10_000, 0.0, 0.50, 2),
    "sweep": Mix(1_000_000, 10_000, 0.40, 0.58, 3),
    "depth1k": Mix(500_000, 1_000, 0.08, 0.50, 11),
    "depth100k": Mix(500_000, 100_000, 0.08, 0.50, 12),
    "depth1m": Mix(500_000, 1_000_000, 0.08, 0.50, 13),
}

PINNED = {
    "mixed": "2668d4c10a8dd935e5de590b4490ebc5793194b79b0f75ab20978718683a52ca",
    "add_cancel": "ec6de8073c2077cb233306dfcb697b92a4948527c3333064e824527be57d208d",
    "sweep": "74c3edf04d2045488bb0faed27f618483226c0c1613fbdd071a8dabb0d48f8af",
    "depth1k": "b713f03c39ea9fec77854f6437fb9c26492475c6b2a33dd7fc5781e70b52137f",
    "depth100k": "44c13d62f135ee4b5e1a7fb1a8d6761d3ccbf2c89fa9a6662a5b0dfe16f6564e",
    "depth1m": "6ee219c1c0161f11a0041381085d87e550f3e4723d2efd3a57453c26ca1283b9",
}


@dataclass(frozen=True)
class Workload:
    """A stream: five columns of equal length; the first ``prefill`` rows fill the book untimed.

    ``order_id`` counts from 0 in order of arrival; ``size`` is in lots, 0 for a cancel.
    """

    op: np.ndarray
    side: np.ndarray
    price: np.ndarray
    size: np.ndarray
    order_id: np.ndarray
    prefill: int

    def __len__(self) -> int:
        return len(self.op)

    @property
    def num_orders(self) -> int:
        """Number of orders, cancels excluded."""
        return int(np.count_nonzero(self.op == ADD))

    @property
    def num_timed(self) -> int:
        """Number of timed events."""
        return len(self) - self.prefill

    def head(self, num_timed: int) -> "Workload":
        """Return the stream up to ``num_timed`` timed events."""
        end = self.prefill + num_timed
        columns = {name: getattr(self, name)[:end] for name in COLUMNS}
        return Workload(**columns, prefill=self.prefill)


def cache_dir() -> Path:
    """Return the folder of streams and libraries: ``CLOB_BENCH_CACHE``, or ``.cache`` here."""
    path = Path(os.environ.get("CLOB_BENCH_CACHE") or Path(__file__).parent / ".cache")
    path.mkdir(parents=True, exist_ok=True)
    return path


def fingerprint(workload: Workload) -> str:
    """Return the SHA-256 over the five columns, little endian."""
    digest = hashlib.sha256(workload.prefill.to_bytes(8, "little"))
    for name, dtype in COLUMNS.items():
        digest.update(getattr(workload, name).astype(f"<{dtype}").tobytes())
    return digest.hexdigest()


def generated(mix: Mix) -> Workload:
    """Generate a stream."""
    flow = Flow(mix)
    prefill = flow.make()
    columns = {key: np.array(flow.rows[key], dtype) for key, dtype in COLUMNS.items()}
    return Workload(**columns, prefill=prefill)


def load(name: str) -> Workload:
    """Return a stream from the cache, or generate it in up to 15 seconds.

    Raises:
        RuntimeError: the stream differs from the pinned one, by a bad cache or another generator.
    """
    path = cache_dir() / f"{name}.npz"
    if path.exists():
        with np.load(path) as arrays:
            columns = {key: arrays[key] for key in COLUMNS}
            workload = Workload(**columns, prefill=int(arrays["prefill"]))
    else:
        workload = generated(MIXES[name])
    digest = fingerprint(workload)
    if digest != PINNED[name]:
        raise RuntimeError(f"stream {path}: SHA-256 must be {PINNED[name]}; got {digest}")
    if not path.exists():
        columns = {key: getattr(workload, key) for key in COLUMNS}
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, prefill=np.int64(workload.prefill), **columns)
        part.replace(path)
    return workload


def id_table(kind: str, num_orders: int) -> np.ndarray:
    """Return the ids of the given kind by dense id: all distinct, all below 2**63.

    ``arbitrary`` scatters the dense ids by invertible steps (odd factors modulo 2**63, shifted
    exclusive or), so that all stay distinct.
    """
    dense = np.arange(num_orders, dtype=np.uint64)
    if kind == "dense":
        return dense
    if kind == "running":
        return dense + np.uint64(RUNNING_BASE)
    low = np.uint64(2**63 - 1)
    mixed = (dense + np.uint64(0x1F3D_5B79_2468_ACE1)) & low
    for factor in (0x2545_F491_4F6C_DD1D, 0x1C69_B3F7_4AC4_AE35):
        mixed ^= mixed >> np.uint64(29)
        mixed = (mixed * np.uint64(factor)) & low
    return mixed ^ (mixed >> np.uint64(32))


def to_events(workload: Workload, ids: str = "dense") -> np.ndarray:
    """Return a stream as records for ``Book.run``, one per millisecond, without owners."""
    events = np.zeros(len(workload), dtype=EVENT)
    events["ts_ns"] = np.arange(len(workload)) * 1_000_000
    events["recv_ns"] = events["ts_ns"]
    events["seq"] = np.arange(1, len(workload) + 1)
    events["order_id"] = id_table(ids, workload.num_orders)[workload.order_id]
    events["size"] = workload.size
    events["price"] = workload.price
    events["side"] = workload.side
    events["kind"] = np.where(workload.op == ADD, np.uint8(Kind.LIMIT), np.uint8(Kind.CANCEL))
    return events
