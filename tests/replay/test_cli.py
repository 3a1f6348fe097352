"""The ``clob`` command: what it prints, what it returns, and who gets a progress bar."""

import dataclasses
import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clob
from clob.cli import main
from clob.replay import read_npz, replay, sample_path, write_npz

QUIET = ("-W", "ignore::RuntimeWarning")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(clob.__file__).parents[1])}


def python(*arguments, **options):
    """Run Python in a process of its own, with this package."""
    command = [sys.executable, *QUIET, *arguments]
    return subprocess.run(command, env=ENVIRONMENT, check=False, timeout=60, **options)


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


def test_the_sample(capsys):
    assert main(["replay"]) == 0
    out, err = capsys.readouterr()
    sample = read_npz(sample_path())
    count = f"{len(sample.fills):,}"
    assert f"check      {count} of {count} recorded fills reproduced exactly\n" in out
    assert "recording  synthetic day 1\n" in out
    assert f"events     {len(sample.events):,}: " in out
    assert " events/s, " in out
    assert out.endswith(f"\n\n{replay(sample).book!r}\n")
    assert err == ""


@pytest.mark.parametrize(
    ("compiled", "pure", "words"),
    [
        (True, "", "compiled book"),
        (False, "1", "plain-Python book (CLOB_PURE_PYTHON=1)"),
        (False, "", "plain-Python book (the compiled one is not built)"),
    ],
)
def test_the_summary_says_which_book_it_was(file, capsys, monkeypatch, compiled, pure, words):
    monkeypatch.setattr("clob.book.COMPILED", compiled)
    monkeypatch.setenv("CLOB_PURE_PYTHON", pure)
    assert main(["replay", str(file)]) == 0
    assert f" events/s, {words}\n" in capsys.readouterr().out


def test_golden(golden_path, capsys):
    assert main(["replay", str(golden_path)]) == 0
    out = capsys.readouterr().out
    assert "check      5,862 of 5,862 recorded fills reproduced exactly\n" in out
    assert "fills      5,862, of which 0 by limit orders\n" in out


def test_a_fill_that_was_tampered_with(file, day, capsys):
    fills = day.fills.copy()
    fills["size"][7] += 1
    write_npz(file, dataclasses.replace(day, fills=fills))
    assert main(["replay", str(file)]) == 1
    out = capsys.readouterr().out
    one, all_of_them = f"{len(fills) - 1:,}", f"{len(fills):,}"
    assert f"check      FAILED: {one} of {all_of_them} recorded fills reproduced, " in out
    assert "the first difference is fill 7\n" in out
    assert f"size {fills['size'][7]} at " in out
    assert f"size {day.fills['size'][7]} at " in out


def test_a_fill_that_was_left_out(file, day, capsys):
    write_npz(file, dataclasses.replace(day, fills=day.fills[:-1]))
    assert main(["replay", str(file)]) == 1
    assert "  recorded nothing\n  produced event " in capsys.readouterr().out


def test_no_fills_to_compare_with(file, day, capsys):
    write_npz(file, dataclasses.replace(day, fills=None))
    assert main(["replay", str(file)]) == 0
    assert "check      no fills were recorded to compare with\n" in capsys.readouterr().out


def test_refusals_are_counted(file, day, capsys):
    events = np.concatenate([day.events, day.events[:1]])
    events["kind"][-1], events["order_id"][-1] = 1, 2**62
    write_npz(file, dataclasses.replace(day, events=events))
    assert main(["replay", str(file)]) == 0
    assert "refused    UNKNOWN_ORDER 1\n" in capsys.readouterr().out


def test_garbage(tmp_path, capsys):
    path = tmp_path / "garbage.npz"
    path.write_bytes(b"\x00garbage" * 100)
    assert main(["replay", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"clob: REPLAY_FORMAT: {path}: not a whole zip archive")


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.npz")]) == 2
    assert "clob: FILE_UNREADABLE: " in capsys.readouterr().err


def test_a_grid_that_is_none(file, day, capsys):
    write_npz(file, dataclasses.replace(day, lo=50, hi=49))
    assert main(["replay", str(file)]) == 2
    assert "clob: INVALID_BOOK: " in capsys.readouterr().err


def test_several_files_return_the_worst_code(file, tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.npz"), str(file)]) == 2
    assert "reproduced exactly" in capsys.readouterr().out


def test_a_name_cannot_steer_the_terminal(file, day, capsys):
    write_npz(file, dataclasses.replace(day, name="\x1b[2Jgone"))
    assert main(["replay", str(file)]) == 0
    assert "recording  '\\x1b[2Jgone'\n" in capsys.readouterr().out


def test_an_output_that_cannot_express_the_ladder(file, monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", output)
    assert main(["replay", str(file)]) == 0
    assert b"reproduced exactly" in output.buffer.getvalue()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["replay", "--nonsense"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: clob" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"clob {clob.__version__}\n"


def test_without_numpy():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from clob.cli import main; sys.exit(main(['replay']))"
    )
    done = python("-c", program, capture_output=True, text=True)
    assert done.returncode == 2
    assert 'pip install "clob[replay]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough():
    """As in ``clob replay | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    done = python("-m", "clob.cli", "replay", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_progress_bar_on_a_pipe():
    done = python("-m", "clob.cli", "replay", capture_output=True)
    assert done.stderr == b""


@pytest.mark.parametrize("installed", [True, False])
def test_a_progress_bar_on_a_terminal_if_tqdm_is_installed(installed):
    termios = pytest.importorskip("termios", reason="not here: there are no pseudo-terminals")
    if installed and importlib.util.find_spec("tqdm") is None:
        pytest.skip("tqdm is not installed")
    mask = "" if installed else "sys.modules['tqdm'] = None; "
    program = f"import sys; {mask}from clob.cli import main; sys.exit(main(['replay']))"
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    os.set_blocking(ours, False)
    done = python("-c", program, stdout=subprocess.PIPE, stderr=theirs)
    try:
        shown = os.read(ours, 65_536)
    except BlockingIOError:
        shown = b""
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.returncode == 0
    assert b"reproduced exactly" in done.stdout
    assert (b"synthetic day 1" in shown) is installed
