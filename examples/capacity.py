"""Measure memory, disk and processor time that resting signed orders take of a server.

``python examples/capacity.py 16000`` starts a server in a temporary folder, on Linux.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx

from clob.client import Client, LimitOrder

KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"  # public test key
BATCH = 20
MARKET = 480  # orders in each market; the server allows 500 of a maker
OPTIONS = ["--chain", "none", "--rate-limits", "off", "--port", "0", "--log-level", "error"]


def processes(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return [root, *(each for child in children for each in processes(int(child)))]


def memory_mb(root: int) -> float:
    """Return the memory of a process and its descendants; shared pages count in parts."""
    rows = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in processes(root)]
    return sum(int(row.partition("\nPss:")[2].split()[0]) for row in rows) / 1e3


def processor_s(pid: int) -> float:
    """Return the processor time of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def history_mb(folder: Path) -> float:
    """Return the size of the history, with what is still in its journal."""
    with closing(sqlite3.connect(f"file:{folder / 'history.db'}?mode=ro", uri=True)) as history:
        [(num_pages,)] = history.execute("PRAGMA page_count")
        [(page_bytes,)] = history.execute("PRAGMA page_size")
    return num_pages * page_bytes / 1e6


def place(client: Client, number: int) -> None:
    """Place signed orders that rest, twenty in a request."""
    for start in range(0, number, BATCH):
        market = start // MARKET
        orders = [
            LimitOrder(f"rain-{market}", str(2 * market + 1), "BUY", 1 + n % 98, "2.5")
            for n in range(start, start + BATCH)
        ]
        for result in client.place_batch(orders):
            if isinstance(result, Exception):
                raise result


def metric(url: str, name: str) -> float:
    """Return a metric of the server."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def measure(url: str, pid: int, folder: Path, number: int) -> None:
    """Place the orders, cancel them, and print the differences for each order."""

    def figures() -> list[float]:
        while metric(url, "clob_history_lag_commands"):
            time.sleep(0.1)
        log_mb = metric(url, "clob_log_bytes") / 1e6
        return [memory_mb(pid), log_mb, history_mb(folder), processor_s(pid)]

    with Client(url, signer=KEY) as client:
        place(client, BATCH)
        before = figures()
        place(client, number)
        placed = figures()
        client.cancel_all()
    after = figures()
    memory, log, _, server = ((b - a) / number for a, b in zip(before, placed, strict=True))
    print(f"memory: {before[0]:.0f} MB, and {memory * 1e3:.2f} kB for each resting order")
    print(f"log: {log * 1e3:.2f} kB for each signed order")
    print(f"history: {(after[2] - before[2]) / number * 1e3:.2f} kB for each finished order")
    print(f"processor: {server * 1e6:.0f} us for each order")


def main(number: int) -> None:
    """Run the server and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clob_server", "run", *OPTIONS, "--data-dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            measure(url, server.pid, Path(folder), number)
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
