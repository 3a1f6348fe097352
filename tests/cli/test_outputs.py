"""Files that commands cannot read or write: told before anything is run, and nothing is lost."""

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


def refused(capsys, *words):
    """Have a command refuse, and give what it says."""
    assert main(list(map(str, words))) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_results_need_a_place(file, tmp_path, capsys):
    where = tmp_path / "no" / "res.csv"
    missing = (
        f"clob: FILE_UNWRITABLE: {where.with_name('res.fills.csv')}: No such file or directory\n"
    )
    assert refused(capsys, "replay", file, "--out", where) == missing
    folder = f"clob: FILE_UNWRITABLE: {tmp_path}: Is a directory\n"
    assert refused(capsys, "replay", file, "--report", tmp_path) == folder
    text = refused(capsys, "replay", file, "--out", tmp_path / "res.txt")
    assert text.startswith("clob: --out: output file must end in .npz, .csv, ")
    assert "; got 'res.txt'" in text
    text = refused(capsys, "replay", file, file, "--out", "x.csv")
    assert "--out and --report need one stream" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="not here: the root may write everywhere")
def test_results_need_a_place_that_may_be_written(file, tmp_path, capsys):
    tmp_path.chmod(0o500)
    text = refused(capsys, "replay", file, "--report", tmp_path / "res.html")
    tmp_path.chmod(0o700)
    assert text == f"clob: FILE_UNWRITABLE: {tmp_path / 'res.html'}: Permission denied\n"


@pytest.mark.parametrize("before", [["convert"], ["replay", "--out"], ["replay", "--report"]])
def test_what_is_read_is_not_written_over(before, file, tmp_path, capsys):
    whole = file.read_bytes()
    other = tmp_path / "other.npz"
    other.symlink_to(file)
    for out in (file, other):
        words = [before[0], file, *before[1:], out]
        text = f"clob: FILE_UNWRITABLE: {out}: the file is an input of this command\n"
        assert refused(capsys, *words) == text
    assert file.read_bytes() == whole


def test_what_can_be_read_only_once_is_refused(tmp_path, day, capsys):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert refused(capsys, "replay", pipe) == f"clob: FILE_UNREADABLE: {pipe}: {ONCE}\n"
    table = tmp_path / "flow.csv"
    write_stream(table, Stream.of(day))
    # What was looked at to tell the format would be missing, without a word.
    command = f"cat {table} | {sys.executable} -m clob.cli replay /dev/stdin"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"clob: FILE_UNREADABLE: /dev/stdin: {ONCE}\n"


def test_an_interrupt_is_no_mistake(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "halting.py").write_text(
        "from clob.replay import Strategy\n"
        "class Mine(Strategy):\n"
        "    def on_wake(self, market):\n"
        "        raise KeyboardInterrupt\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["replay", str(file), "--strategy", "halting:Mine", "--every", "1s"]) == 130
    assert capsys.readouterr() == ("", "clob: interrupted\n")
