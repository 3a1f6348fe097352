"""Files that commands cannot read or write: rejected before a run, without loss of data."""

import os
import subprocess
import sys

import pytest

from clob.cli import main
from clob.replay import Stream, write_npz, write_stream
from clob.replay.io.files import ONCE


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


def rejected(capsys, *words):
    """Run a command that must be rejected; return its error text."""
    assert main(list(map(str, words))) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_unwritable_outputs_are_rejected(file, tmp_path, capsys):
    path = tmp_path / "no" / "res.csv"
    missing = (
        f"clob: FILE_UNWRITABLE: {path.with_name('res.fills.csv')}: No such file or directory\n"
    )
    assert rejected(capsys, "replay", file, "--out", path) == missing
    folder = f"clob: FILE_UNWRITABLE: {tmp_path}: Is a directory\n"
    assert rejected(capsys, "replay", file, "--report", tmp_path) == folder
    text = rejected(capsys, "replay", file, "--out", tmp_path / "res.txt")
    assert text.startswith("clob: --out: output file must end in .npz, .csv, ")
    assert "; got 'res.txt'" in text
    text = rejected(capsys, "replay", file, file, "--out", "x.csv")
    assert "--out and --report need one stream" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="not here: root may write everywhere")
def test_output_without_write_permission_is_rejected(file, tmp_path, capsys):
    tmp_path.chmod(0o500)
    text = rejected(capsys, "replay", file, "--report", tmp_path / "res.html")
    tmp_path.chmod(0o700)
    assert text == f"clob: FILE_UNWRITABLE: {tmp_path / 'res.html'}: Permission denied\n"


@pytest.mark.parametrize("command", [["convert"], ["replay", "--out"], ["replay", "--report"]])
def test_output_that_is_an_input_is_rejected(command, file, tmp_path, capsys):
    before = file.read_bytes()
    other = tmp_path / "other.npz"
    other.symlink_to(file)
    for out in (file, other):
        words = [command[0], file, *command[1:], out]
        text = f"clob: FILE_UNWRITABLE: {out}: the file is an input of this command\n"
        assert rejected(capsys, *words) == text
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("replay {file} --out a.npz --report a.npz", "a.npz"),
        ("replay {file} --out a.csv --report ./a.fills.csv", "a.fills.csv"),
        ("sweep {file} --strategy clob.replay:Strategy --table a --report a", "a"),
    ],
)
def test_outputs_that_would_overwrite_each_other_are_rejected(
    words, name, file, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(words.format(file=file).split()) == 2
    error = f"clob: FILE_UNWRITABLE: {name}: the file is another output of this command\n"
    assert capsys.readouterr().err == error
    assert not (tmp_path / name).exists()


def test_name_of_a_recording_may_have_bytes_that_are_no_text(day, tmp_path):
    write_stream(tmp_path / "day.csv", Stream.of(day))
    path, report = tmp_path / os.fsdecode(b"day\xff.csv"), tmp_path / "day.html"
    (tmp_path / "day.csv").rename(path)
    assert main(["replay", str(path), "--report", str(report)]) == 0
    assert "day?.csv" in report.read_text()


def test_pipes_are_rejected_as_input(tmp_path, day, capsys):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert rejected(capsys, "replay", pipe) == f"clob: FILE_UNREADABLE: {pipe}: {ONCE}\n"
    table = tmp_path / "flow.csv"
    write_stream(table, Stream.of(day))
    # Format detection would consume the first bytes, and they would be missing.
    command = f"cat {table} | {sys.executable} -m clob.cli replay /dev/stdin"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"clob: FILE_UNREADABLE: /dev/stdin: {ONCE}\n"


def test_interrupt_exits_with_130_and_without_a_traceback(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "halting.py").write_text(
        "from clob.replay import Strategy\n"
        "class Mine(Strategy):\n"
        "    def on_wake(self, market):\n"
        "        raise KeyboardInterrupt\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["replay", str(file), "--strategy", "halting:Mine", "--every", "1s"]) == 130
    assert capsys.readouterr() == ("", "clob: interrupted\n")
