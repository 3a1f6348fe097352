"""Files are read in blocks of whole lines with every compression."""

import bz2
import gzip
import lzma
import sys

import pytest

from clob.errors import PackageMissingError
from clob.replay.errors import ReplayFormatError, ReplayWarning, need
from clob.replay.io.files import Progress, byte_blocks, line_blocks, lines, plain_name
from clob.replay.io.problems import KEPT, Problems

TEXT = b"".join(b"line %d\n" % number for number in range(1, 2_001))
PACKED = {".csv": bytes, ".csv.gz": gzip.compress, ".csv.bz2": bz2.compress}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_blocks_have_whole_lines(tmp_path, suffix, size):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(PACKED[suffix](TEXT))
    progress = Progress()
    progress.expect(path)
    blocks = list(line_blocks(path, Problems(), progress, size))
    assert b"".join(block for _, block in blocks) == TEXT
    assert all(block.endswith(b"\n") for _, block in blocks)
    assert all(block.startswith(b"line %d\n" % first) for first, block in blocks)
    assert progress.done_bytes == progress.total_bytes == path.stat().st_size
    assert plain_name(path) == "a.csv"


def test_zstandard(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(TEXT))
    assert b"".join(byte_blocks(path, Problems())) == TEXT
    path.write_bytes(b"\0none of it")
    with pytest.raises(ReplayFormatError, match="damaged file"):
        list(byte_blocks(path, Problems()))


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)  # as if not installed
    path = tmp_path / "a.zst"
    path.write_bytes(b"")
    with pytest.raises(PackageMissingError, match=r"Reading \.zst files needs zstandard, which is"):
        list(byte_blocks(path, Problems()))


def test_need():
    assert need("lzma", "x", "y") is lzma
    with pytest.raises(PackageMissingError, match='pip install "clob'):
        need("no_such_package.inside", "This", "clob[all]")


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_damage_is_reported_after_the_content_before_it(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    whole = PACKED[f".csv{suffix}"](TEXT * 20)
    path.write_bytes(whole[: len(whole) * 3 // 4])
    problems = Problems("warn")
    with pytest.warns(ReplayWarning, match="damaged file"):
        found = b"".join(byte_blocks(path, problems))
    assert (TEXT * 20).startswith(found)
    assert problems.counts == {"damaged file": 1}
    with pytest.raises(ReplayFormatError, match="damaged file"):
        list(byte_blocks(path, Problems()))


def test_lines(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one\n\ntwo\r\nthree")
    found = list(lines(path, Problems()))
    assert found == [(1, b"one"), (2, b""), (3, b"two"), (4, b"three")]


def test_problems_are_counted_and_the_first_ones_stored():
    problems = Problems("warn")
    with pytest.warns(ReplayWarning, match=r"^a\.csv:1: gap: text$"):
        problems.report("gap", "text", "folder/a.csv", 1)
    for line in range(2, 9):
        problems.report("gap", "text", "folder/a.csv", line)
    assert (len(problems), len(problems.kept)) == (8, KEPT)
    assert str(problems.kept[1]) == "a.csv:2: gap: text"
    problems.clear()
    assert (len(problems), problems.kept) == (0, [])


def test_problem_without_a_line():
    with pytest.raises(ReplayFormatError, match=r"^a: gap: text$"):
        Problems().report("gap", "text", "a")
