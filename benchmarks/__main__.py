"""Run benchmarks and print one table row per measurement."""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.measure import Row
from clob.book import COMPILED

BENCHMARKS = (
    "run",
    "submit",
    "matcher",
    "snapshot",
    "journal",
    "log",
    "http",
    "one_client",
    "workers",
    "socket",
    "feed",
    "client",
    "client_feed",
    "restart",
    "chain",
    "settle",
    "underway",
    "stall",
    "signing",
    "twin",
    "memory",
    "pause",
    "replay",
    "sweep",
    "reading",
    "reads",
    "markets",
    "page",
    "paper",
)
HEADER = ("benchmark", "target", "measured", "", "other ns", "ours ns")
LOOPS = 21
LINE = "{:<66} {:>15} {:>15} {:>4} {:>9} {:>9}\n"


def processor() -> str:
    """Return the processor's model name."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    names = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.processor() or "unknown processor"


def loop_ms() -> float:
    """Return the time of a fixed Python loop, a yardstick for absolute times on this machine."""
    taken_ns = []
    for _ in range(LOOPS):
        begin_ns, total = time.perf_counter_ns(), 0
        for number in range(100_000):
            total += number
        taken_ns.append(time.perf_counter_ns() - begin_ns)
    return statistics.median(taken_ns) / 1e6


def text_of(row: Row) -> str:
    """Format a row as a line of text."""
    met = {None: "", True: "ok", False: "MISS"}[row.met]
    times = ("" if ns is None else f"{ns:.1f}" for ns in (row.other_ns, row.ours_ns))
    return LINE.format(row.name, row.target, row.measured, met, *times)


def rows_of(name: str, *, quick: bool) -> Iterator[Row]:
    """Yield the rows of a benchmark, or a note on the package that it needs."""
    try:
        module = import_module(f"benchmarks.bench_{name}")
    except ModuleNotFoundError as error:
        yield Row(f"{name}: not measured, needs {error.name}", "", "", None)
    else:
        yield from module.rows(quick=quick)


def main() -> None:
    """Run the named benchmarks, or all, and print their rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "benchmark", nargs="*", help=f"one or more of {', '.join(BENCHMARKS)}; default: all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small inputs, to test the harness; no targets"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.benchmark) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"unknown benchmark {', '.join(sorted(unknown))}; expected {', '.join(BENCHMARKS)}"
        )
    book = "compiled" if COMPILED else "plain Python"
    machine = f"{processor()}, Python {platform.python_version()}, {book} Book, "
    machine += f"100,000 additions in {loop_ms():.1f} ms"
    sys.stdout.write(f"{machine}\n{LINE.format(*HEADER)}")
    for name in arguments.benchmark or BENCHMARKS:
        for row in rows_of(name, quick=arguments.quick):
            # Targets hold for full inputs only.
            sys.stdout.write(text_of(row._replace(met=None) if arguments.quick else row))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
