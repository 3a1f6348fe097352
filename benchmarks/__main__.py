"""``python -m benchmarks``: prints the table, a question after the other."""

import argparse
import platform
import statistics
import sys
import time
from pathlib import Path

from benchmarks import (
    bench_chain,
    bench_feed,
    bench_http,
    bench_journal,
    bench_log,
    bench_matcher,
    bench_memory,
    bench_pause,
    bench_reading,
    bench_replay,
    bench_restart,
    bench_run,
    bench_settle,
    bench_signing,
    bench_snapshot,
    bench_submit,
    bench_twin,
    bench_underway,
)
from benchmarks.measure import Row
from clob.book import COMPILED

QUESTIONS = {
    "run": bench_run,
    "submit": bench_submit,
    "matcher": bench_matcher,
    "snapshot": bench_snapshot,
    "journal": bench_journal,
    "log": bench_log,
    "http": bench_http,
    "feed": bench_feed,
    "restart": bench_restart,
    "chain": bench_chain,
    "settle": bench_settle,
    "underway": bench_underway,
    "signing": bench_signing,
    "twin": bench_twin,
    "memory": bench_memory,
    "pause": bench_pause,
    "replay": bench_replay,
    "reading": bench_reading,
}
HEADER = ("question", "target", "measured", "", "other ns", "ours ns")
LOOPS = 21
LINE = "{:<66} {:>15} {:>15} {:>4} {:>9} {:>9}\n"


def processor() -> str:
    """What the machine calls its processor."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    names = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.processor() or "unknown processor"


def loop_ms() -> float:
    """How long this machine takes now for a loop in Python: what a bare time is to be read by."""
    taken_ns = []
    for _ in range(LOOPS):
        begin_ns, total = time.perf_counter_ns(), 0
        for number in range(100_000):
            total += number
        taken_ns.append(time.perf_counter_ns() - begin_ns)
    return statistics.median(taken_ns) / 1e6


def text_of(row: Row) -> str:
    """A row as a line of text."""
    met = {None: "", True: "ok", False: "MISS"}[row.met]
    times = ("" if ns is None else f"{ns:.1f}" for ns in (row.other_ns, row.ours_ns))
    return LINE.format(row.question, row.target, row.measured, met, *times)


def main() -> None:
    """Print the rows of the questions that were named, or of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("question", nargs="*", help=f"any of {', '.join(QUESTIONS)}; all if none")
    parser.add_argument("--quick", action="store_true", help="small streams, to try the harness")
    arguments = parser.parse_args()
    unknown = set(arguments.question) - set(QUESTIONS)
    if unknown:
        parser.error(f"no such question: {', '.join(sorted(unknown))}")
    book = "compiled" if COMPILED else "plain Python"
    where = f"{processor()}, Python {platform.python_version()}, {book} Book, "
    where += f"a loop of 100,000 additions in {loop_ms():.1f} ms"
    sys.stdout.write(f"{where}\n{LINE.format(*HEADER)}")
    for name in arguments.question or QUESTIONS:
        for row in QUESTIONS[name].rows(quick=arguments.quick):
            # Small streams say nothing about the targets.
            sys.stdout.write(text_of(row._replace(met=None) if arguments.quick else row))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
