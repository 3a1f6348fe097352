"""The ``clob`` command: reads arguments, calls the library, writes text, returns an exit code."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import clob
from clob import book as book_module
from clob.errors import ClobError, FrameNewerError
from clob.journal import verify
from clob.records import Kind

if TYPE_CHECKING:
    from clob.replay import Recording, Result
    from clob.replay.recording import Records

DONE, CHECK_FAILED, UNUSABLE = 0, 1, 2
"""The exit codes."""

NS_PER_S = 1_000_000_000
CHUNK = 65_536
CHUNK_WITH_BAR = 4_096
"""How many events are run between two looks of the progress bar."""

NUMPY_MISSING = 'clob replay needs NumPy, which is not installed: pip install "clob[replay]"'


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments without the command's own name; None takes those of the process.

    Returns:
        0 if all went well, 1 if a replay did not give the recorded fills or a journal does not
        verify, 2 if a file could not be used or something is not installed.

    Raises:
        SystemExit: the arguments are wrong (2), or only help or the version was asked for (0).
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments.files)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` for example, has seen enough. What is still buffered must not fail
        # once more when the interpreter closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    return code


def _parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    parser = argparse.ArgumentParser(prog="clob", description="Order books on the command line.")
    parser.add_argument("--version", action="version", version=f"clob {clob.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser(
        "replay",
        help="run recorded order flow through a book and check the fills",
        description="Run recorded order flow through a book, check the fills against the "
        "recorded ones, and show the book at the end.",
        epilog="Exit code: 0 done, 1 the fills differ from the recorded ones, 2 a file cannot "
        "be used.",
    )
    replay.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a recording (.npz); without one, the sample that comes with the package",
    )
    replay.set_defaults(run=_replay_all)
    proof = commands.add_parser(
        "verify",
        help="run a journal again and compare with what it states",
        description="Run the commands of a journal again, and compare the chain of its frames, "
        "the outcomes and the state hashes with what it states.",
        epilog="Exit code: 0 all is as stated, 1 something differs or is damaged, 2 a file cannot "
        "be used.",
    )
    proof.add_argument("files", metavar="FILE", nargs="+", help="the frames of a journal")
    proof.set_defaults(run=_verify_all)
    return parser


# ----- output ----------------------------------------------------------------------------------


def _write(text: str) -> None:
    """Write a line to standard output, with question marks for what it cannot express."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def _complain(error: Exception | str) -> None:
    """Write a line to standard error, with the code of an error that has one."""
    code = f"{error.code}: " if isinstance(error, ClobError) else ""
    sys.stderr.write(f"clob: {code}{error}\n")


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a progress bar if somebody watches and tqdm is there to draw it, else None."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        import tqdm  # noqa: PLC0415 - optional, and of use on a terminal only
    except ImportError:
        yield None
        return
    with tqdm.tqdm(desc=name, unit=" events", unit_scale=True, leave=False) as bar:

        def show(done: int, total: int) -> None:
            """Move the bar to where the replay is."""
            bar.total = total
            bar.update(done - bar.n)

        yield show


# ----- clob replay -----------------------------------------------------------------------------


def _replay_all(files: Sequence[str]) -> int:
    """Replay one file after the other; the worst of their exit codes counts."""
    try:
        from clob.replay import sample_path  # noqa: PLC0415 - NumPy may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "numpy":
            raise
        _complain(NUMPY_MISSING)
        return UNUSABLE
    worst = DONE
    for place, path in enumerate(map(Path, files) if files else [sample_path()]):
        if place:
            _write("")
        worst = max(worst, _replay_one(path))
    return worst


def _replay_one(path: Path) -> int:
    """Replay one file and say what came of it."""
    from clob.replay import read_npz, replay  # noqa: PLC0415 - NumPy may be missing

    try:
        recording = read_npz(path)
        with _progress(_printable(recording.name)) as show:
            began_ns = time.perf_counter_ns()
            chunk = CHUNK_WITH_BAR if show else CHUNK
            result = replay(recording, chunk=chunk, on_progress=show)
            passed_ns = time.perf_counter_ns() - began_ns
    except OSError as error:
        _complain(f"FILE_UNREADABLE: {path}: {error.strerror or error}")
        return UNUSABLE
    except ClobError as error:
        _complain(f"{error.code}: {path}: {error}")
        return UNUSABLE
    for title, text in _summary(recording, result, passed_ns):
        _write(f"{title:<10} {text}")
    _write(f"\n{result.book!r}")
    return CHECK_FAILED if result.check and not result.check.ok else DONE


def _summary(recording: "Recording", result: "Result", passed_ns: int) -> list[tuple[str, str]]:
    """Say in a few lines what was replayed, how fast, and whether it came out right."""
    rate = result.events * NS_PER_S // max(passed_ns, 1)
    refused = ", ".join(f"{code} {count:,}" for code, count in result.refused.items())
    lines = [
        ("recording", _printable(recording.name)),
        ("", _printable(recording.note)),
        ("events", f"{result.events:,}: {_by_kind(recording.events)}"),
        ("seed", f"{len(recording.seed):,} orders"),
        ("refused", refused or "none"),
        ("fills", f"{len(result.fills):,}, of which {result.limit_fills:,} by limit orders"),
        ("unfilled", f"{result.ioc_unfilled:,} immediate-or-cancel orders, wholly or in part"),
        ("resting", f"{len(result.book):,} orders"),
        ("time", f"{passed_ns / NS_PER_S:.3f} s, {rate:,} events/s, {_implementation()}"),
        ("check", _check(recording, result)),
    ]
    return [(title, text) for title, text in lines if text]


def _printable(text: str) -> str:
    """Write a text out of a file so that it cannot steer the terminal."""
    return text if text.isprintable() else ascii(text)


def _by_kind(events: "Records") -> str:
    """Count the events of each kind that occurs."""
    counts = {kind: int((events["kind"] == kind).sum()) for kind in Kind}
    return ", ".join(f"{count:,} {kind.name.lower()}" for kind, count in counts.items() if count)


def _implementation() -> str:
    """Say which Book did the work."""
    if book_module.COMPILED:
        return "compiled book"
    if os.environ.get("CLOB_PURE_PYTHON") == "1":
        return "plain-Python book (CLOB_PURE_PYTHON=1)"
    return "plain-Python book (the compiled one is not built)"


def _check(recording: "Recording", result: "Result") -> str:
    """Say whether the recorded fills came out, or else where the first difference is."""
    check = result.check
    if check is None or recording.fills is None:
        return "no fills were recorded to compare with"
    if check.first_difference is None:
        return f"{check.matched:,} of {check.recorded:,} recorded fills reproduced exactly"
    place = check.first_difference
    return (
        f"FAILED: {check.matched:,} of {check.recorded:,} recorded fills reproduced, "
        f"{check.produced:,} produced; the first difference is fill {place:,}\n"
        f"  recorded {_fill(recording.fills, place)}\n"
        f"  produced {_fill(result.fills, place)}"
    )


def _fill(fills: "Records", place: int) -> str:
    """Write one fill, or that there is none."""
    if place >= len(fills):
        return "nothing"
    fill = fills[place]
    return (
        f"event {fill['event']}: resting order {fill['resting_id']}, "
        f"size {fill['size']} at {fill['price']}"
    )


# ----- clob verify -----------------------------------------------------------------------------


def _verify_all(files: Sequence[str]) -> int:
    """Verify one journal after the other; the worst of their exit codes counts."""
    return max(_verify_one(Path(file)) for file in files)


def _verify_one(path: Path) -> int:
    """Verify one journal and say in a line what came of it."""
    name = _printable(str(path))
    try:
        found = verify(path.read_bytes())
    except OSError as error:
        _complain(f"FILE_UNREADABLE: {name}: {error.strerror or error}")
        return UNUSABLE
    except FrameNewerError as error:
        _complain(f"{error.code}: {name}: {error}")
        return UNUSABLE
    except ClobError as error:
        _write(f"{name}: {error.code}: {error}")
        return CHECK_FAILED
    refused = ", ".join(f"{code} {count:,}" for code, count in sorted(found.refused.items()))
    _write(
        f"{name}: ok, {found.frames:,} frames, {found.commands:,} commands, "
        f"refused {refused or 'none'}, last command {found.last_seq}, "
        f"state hash {found.state_hash.hex()}"
    )
    return DONE


if __name__ == "__main__":
    sys.exit(main())
