"""Gate on instructions: fixed streams run under callgrind, and their counts may not grow.

Counts repeat to a tenth of a per cent, whatever else the machine does. ``python -m
benchmarks.instructions`` counts and compares with ``instructions.json``: a count more than 2 %
above its entry fails, of requests over a socket more than 4 %. ``--update`` writes the table.
Another compiler or Python makes other instructions, so the table has one part for each environment;
the counts of an unknown one are shown and not compared.
"""

import argparse
import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.native import compiled

TABLE = Path(__file__).with_suffix(".json")
SOURCE = Path(__file__).with_name("callgrind.c")
COMPILE = ("gcc", "-O1", "-shared", "-fPIC")
GROWTH_MAX = 0.02
SOCKET_GROWTH_MAX = 0.04
"""Requests over a socket: how often the event loop wakes up depends on the machine."""
FINISHED = 0
GREW, UNUSABLE = 1, 2


# ----- counting: in a process under callgrind ------------------------------------------------


class Counter:
    """Counts the instructions of this process between two requests to callgrind."""

    def __init__(self) -> None:
        self._library = compiled("callgrind", COMPILE, SOURCE)

    @contextmanager
    def count(self, title: str) -> Iterator[None]:
        """Count the instructions of a block, and write them to a file of callgrind."""
        gc.collect()
        gc.disable()
        self._library.count_start()
        try:
            yield
        finally:
            self._library.count_stop(title.encode())
            gc.enable()


def count_all() -> None:
    """Run every stream once, counted."""
    from benchmarks.counted_streams import serve, streams  # noqa: PLC0415 - only where it counts

    counter = Counter()
    for title, prepare in streams().items():
        num_items, work = prepare()
        with counter.count(f"{title}={num_items}"):
            work()
    serve(counter.count)


# ----- comparing: in the process that the user started ---------------------------------------


def environment() -> str:
    """Return the name of everything that decides which instructions a program has."""
    compiler = subprocess.run(
        ["gcc", "-dumpfullversion"], check=True, capture_output=True, text=True
    ).stdout.strip()
    libc = "-".join(platform.libc_ver())
    return f"{platform.machine()} CPython-{platform.python_version()} gcc-{compiler} {libc}"


def counts_in(folder: Path) -> dict[str, float]:
    """Return the instructions per item of each stream from the files of callgrind.

    Of a stream that was counted several times, it is the least.
    """
    counts: dict[str, float] = {}
    for path in folder.glob("out.*"):
        text = path.read_text()
        title = re.search(r"^desc: Trigger: Client Request: (.*)=(\d+)$", text, re.MULTILINE)
        totals = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if title is not None and totals is not None:
            count = int(totals[1]) / int(title[2])
            counts[title[1]] = min(count, counts.get(title[1], count))
    return dict(sorted(counts.items()))


def measure() -> dict[str, float]:
    """Run this module under callgrind; return the instructions per item of each stream.

    Hashes of texts are the same in each run; callgrind keeps addresses the same.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
        command += [f"--callgrind-out-file={folder}/out", sys.executable, "-m"]
        command += ["benchmarks.instructions", "--count"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
        return counts_in(Path(folder))


def change_of(title: str, known: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """Return the relative change of a count; infinite if only one side has the stream."""
    if title not in known or title not in counts:
        return float("inf")
    return counts[title] / known[title] - 1


def report(known: Mapping[str, float], counts: Mapping[str, float]) -> tuple[str, int]:
    """Return the lines of counts beside the table, and the exit code."""
    lines, code = [], FINISHED
    for title in sorted({*known, *counts}):
        change = change_of(title, known, counts)
        limit = SOCKET_GROWTH_MAX if title.startswith("http:") else GROWTH_MAX
        verdict = "grew" if change > limit else "less: --update" if change < -limit else ""
        code = GREW if verdict == "grew" else code
        before, now = known.get(title, 0.0), counts.get(title, 0.0)
        lines.append(f"{title:<44} {before:>14,.1f} {now:>14,.1f} {change:>+8.2%} {verdict}")
    return "\n".join(lines) + "\n", code


def main(arguments: list[str]) -> int:
    """Count, and compare with the table or write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the counts to the table")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.count:
        count_all()
        return FINISHED
    missing = [name for name in ("valgrind", "gcc") if shutil.which(name) is None]
    if missing:
        sys.stderr.write(f"not counted: {', '.join(missing)} must be installed\n")
        return UNUSABLE
    table, here = json.loads(TABLE.read_text()), environment()
    counts = measure()
    if options.update:
        table[here] = {title: round(count, 1) for title, count in counts.items()}
        TABLE.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
    if here not in table:
        sys.stdout.write(f"not compared: the table has no part for {here}\n")
    text, code = report(table.get(here, counts), counts)
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
