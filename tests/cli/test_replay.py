"""The ``clob`` command: output, exit codes and progress bars."""

import dataclasses
import importlib.util
import io
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clob
from clob.cli import main
from clob.matcher.compiled import COMPILED
from clob.replay import Stream, backtest, read_npz, sample_path, write_npz, write_stream
from clob.signing import BACKEND

QUIET = ("-W", "ignore::RuntimeWarning")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(clob.__file__).parents[1])}


def python(*arguments, **options):
    """Run Python in another process, with this package."""
    command = [sys.executable, *QUIET, *arguments]
    return subprocess.run(command, env=ENVIRONMENT, check=False, timeout=60, **options)


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


def test_module_is_the_command(tmp_path):
    ran = python("-m", "clob", "--version", capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"clob {clob.__version__} (")
    missing = python("-m", "clob", "replay", "missing.csv", capture_output=True, text=True)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "clob: FILE_UNREADABLE: missing.csv: No such file or directory\n"


def test_replay_of_the_sample(capsys):
    assert main(["replay"]) == 0
    out, err = capsys.readouterr()
    sample = read_npz(sample_path())
    count = f"{len(sample.fills):,}"
    assert f"check      {count} of {count} recorded fills reproduced exactly\n" in out
    assert "recording  synthetic day 1\n" in out
    assert f"events     {len(sample.events):,}: " in out
    assert " events/s, " in out
    assert out.endswith(f"\n\n{backtest(Stream.of(sample)).books[0]!r}\n")
    assert err == ""


@pytest.mark.parametrize(
    ("compiled", "pure", "words"),
    [
        (True, "", "compiled book"),
        (False, "1", "plain-Python book (CLOB_PURE_PYTHON=1)"),
        (False, "", "plain-Python book (the compiled one is not built)"),
    ],
)
def test_summary_names_the_kind_of_book(file, capsys, monkeypatch, compiled, pure, words):
    monkeypatch.setattr("clob.book.COMPILED", compiled)
    monkeypatch.setenv("CLOB_PURE_PYTHON", pure)
    assert main(["replay", str(file)]) == 0
    assert f" events/s, {words}\n" in capsys.readouterr().out


def test_replay_of_the_golden_hour(golden_path, capsys):
    assert main(["replay", str(golden_path)]) == 0
    out = capsys.readouterr().out
    assert "check      5,862 of 5,862 recorded fills reproduced exactly\n" in out
    assert "fills      5,862\n" in out
    assert "records    5,862 fill\n" in out


def test_replay_of_the_raw_hour_fails_by_the_known_differences(golden_path, capsys):
    """The records do not show hidden sizes and owners, which the exchange's matcher used."""
    path = str(golden_path.with_name("esh4_20231225_mbo.npz"))
    assert main(["replay", path]) == 1
    out = capsys.readouterr().out
    assert (
        "check      FAILED: 6,202 of 6,229 recorded fills reproduced, 2,914 of 2,972 takers" in out
    )
    assert "differs    31  sequence: " in out
    assert "27  hidden: " in out
    assert main(["replay", path, "--allow", "58"]) == 0


def test_changed_fill_fails_the_check(file, day, capsys):
    fills = day.fills.copy()
    place = int(np.flatnonzero(fills["event"] == fills["event"][-1])[0])
    fills["size"][place] += 1
    write_npz(file, dataclasses.replace(day, fills=fills))
    assert main(["replay", str(file)]) == 1
    out = capsys.readouterr().out
    matching, total = f"{len(fills) - 1:,}", f"{len(fills):,}"
    assert f"check      FAILED: {matching} of {total} recorded fills reproduced, " in out
    assert "; first difference at event " in out
    assert "differs    1  " in out
    assert f"recorded [({fills['resting_id'][place]}, {fills['size'][place]}, " in out
    assert f"Here [({fills['resting_id'][place]}, {day.fills['size'][place]}, " in out


def test_missing_fill_fails_the_check(file, day, capsys):
    write_npz(file, dataclasses.replace(day, fills=day.fills[:-1]))
    assert main(["replay", str(file)]) == 1
    count = f"{len(day.fills) - 1:,}"
    out = capsys.readouterr().out
    assert f"FAILED: {count} of {count} recorded fills reproduced, " in out
    assert f", {len(day.fills):,} fills produced; " in out


def test_recording_without_fills_passes(file, day, capsys):
    write_npz(file, dataclasses.replace(day, fills=None))
    assert main(["replay", str(file)]) == 0
    out = capsys.readouterr().out
    assert "nothing to check: the recording has no fills and no best prices to compare" in out


def test_rejected_commands_are_reported_and_pass(file, day, capsys):
    events = np.concatenate([day.events, day.events[:1]])
    events["kind"][-1], events["order_id"][-1] = 1, 2**62
    write_npz(file, dataclasses.replace(day, events=events))
    assert main(["replay", str(file)]) == 0
    out = capsys.readouterr().out
    assert "differs    1  cancel_gone: " in out
    assert (
        f"order {2**62}: The recorded cancel is for an order that has left the book. (UNKNOWN_"
        in out
    )


def test_unknown_format_is_an_error(tmp_path, capsys):
    path = tmp_path / "garbage.npz"
    path.write_bytes(b"\x00garbage" * 100)
    assert main(["replay", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"clob: REPLAY_FORMAT: {path}: unknown format; expected one of npz, ")


def test_truncated_archive_is_an_error(file, capsys):
    file.write_bytes(file.read_bytes()[:-100])
    assert main(["replay", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        f"clob: REPLAY_FORMAT: {file}: not a complete zip archive: "
    )


def test_missing_file_is_an_error(tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.npz")]) == 2
    assert "clob: FILE_UNREADABLE: " in capsys.readouterr().err


def test_empty_grid_is_an_error(file, day, capsys):
    write_npz(file, dataclasses.replace(day, lo=50, hi=49))
    assert main(["replay", str(file)]) == 2
    assert "clob: INVALID_BOOK: " in capsys.readouterr().err


def test_exit_code_of_several_files_is_the_worst(file, tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.npz"), str(file)]) == 2
    assert "reproduced exactly" in capsys.readouterr().out


def test_control_characters_in_a_name_are_escaped(file, day, capsys):
    write_npz(file, dataclasses.replace(day, name="\x1b[2Jgone"))
    assert main(["replay", str(file)]) == 0
    assert "recording  '\\x1b[2Jgone'\n" in capsys.readouterr().out


def test_output_in_ascii_does_not_fail(file, monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", output)
    assert main(["replay", str(file)]) == 0
    assert b"reproduced exactly" in output.buffer.getvalue()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["replay", "--nonsense"]])
def test_unknown_arguments_exit_with_2_and_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: clob" in capsys.readouterr().err


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    engine = "compiled" if COMPILED else "plain Python"
    machine = f"{platform.system()} {platform.machine()}"
    assert capsys.readouterr().out == (
        f"clob {clob.__version__} (engine {engine}; signatures {BACKEND}; "
        f"{platform.python_implementation()} {platform.python_version()}; {machine})\n"
    )


def test_missing_numpy_is_reported_with_the_install_command():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from clob.cli import main; sys.exit(main(['replay']))"
    )
    done = python("-c", program, capture_output=True, text=True)
    assert done.returncode == 2
    assert 'pip install "clob[replay]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_output_pipe_is_not_an_error():
    """As in ``clob replay | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    done = python("-m", "clob.cli", "replay", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_progress_bar_on_a_pipe():
    done = python("-m", "clob.cli", "replay", capture_output=True)
    assert done.stderr == b""


def on_a_terminal(program):
    """Run a program with a terminal as standard error; return its result and that output."""
    termios = pytest.importorskip("termios", reason="not here: no pseudo-terminals")
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    os.set_blocking(ours, False)
    done = python("-c", program, stdout=subprocess.PIPE, stderr=theirs)
    try:
        return done, os.read(ours, 65_536)
    except BlockingIOError:
        return done, b""
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.parametrize("installed", [True, False])
def test_progress_bar_on_a_terminal_if_tqdm_is_installed(installed):
    if installed and importlib.util.find_spec("tqdm") is None:
        pytest.skip("tqdm is not installed")
    mask = "" if installed else "sys.modules['tqdm'] = None; "
    program = f"import sys; {mask}from clob.cli import main; sys.exit(main(['replay']))"
    done, shown = on_a_terminal(program)
    assert done.returncode == 0
    assert b"reproduced exactly" in done.stdout
    assert (b"synthetic day 1" in shown) is installed


@pytest.mark.parametrize("command", ["replay", "convert"])
def test_progress_bar_counts_bytes_if_events_are_not_counted(tmp_path, day, command, monkeypatch):
    # By default the bar is drawn at most ten times a second.
    monkeypatch.setitem(ENVIRONMENT, "TQDM_MININTERVAL", "0")
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    path = tmp_path / "flow.csv"
    write_stream(path, Stream.of(day))
    words = [command, str(path), *([str(tmp_path / "out.csv")] if command == "convert" else [])]
    program = f"import sys; from clob.cli import main; sys.exit(main({words!r}))"
    done, shown = on_a_terminal(program)
    assert done.returncode == 0
    assert b"flow.csv" in shown
    assert b" events/s" in shown
    assert b"100%" in shown
