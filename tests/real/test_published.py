"""Published Betfair files: read, replayed, and broken as files of users are broken."""

import bz2
import contextlib
import gzip
import os
import random  # noqa: TID251 - seeded
import warnings
from pathlib import Path

import pytest

from clob.cli import main
from clob.replay import ReplayFormatError, ReplayWarning, backtest, open_stream
from tests.real.published import FILES, PROBLEMS, replay

NAMES = [name for names in FILES.values() for name in names]
LARGE = (
    *("SELF-1.181223994", "PRO-1.170258213"),
    *("1.127236622.bz2", "1.185781277.bz2", "27312315.bz2"),
)


def published(name):
    """Return the path of a published file, or skip the test."""
    path = Path(os.environ.get("CLOB_DATA_DIR", "."), "published", name)
    if not path.exists():
        pytest.skip(f"not here: {name}; load it with python -m tests.real.published")
    return path


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.long) if one in LARGE else one for one in NAMES],
)
def test_every_inferred_fill_is_reproduced(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        result, _ = replay(published(name))
    check = result.check
    assert check is not None
    assert (check.matched, check.exact) == (check.recorded, check.takers)
    assert result.divergence.total == 0
    problems = PROBLEMS.get(name, {})
    assert result.setting.problems == problems
    assert check.bests - check.bests_equal <= problems.get("crossed book", 0)


def test_file_without_levels_has_nothing_to_check(capsys):
    assert main(["replay", str(published("BASIC-1.132153978.gz"))]) == 0
    assert "nothing to check: " in capsys.readouterr().out


def lines_of(path):
    content = path.read_bytes()
    open_content = {".bz2": bz2.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)
    return open_content(content).splitlines()


def broken(lines, draw):
    """Cut, reorder, repeat, interleave or drop lines, or change bytes of them."""
    first, second = sorted(draw.randrange(len(lines)) for _ in range(2))
    return draw.choice(
        (
            lambda: [*lines[:first], lines[first][: len(lines[first]) // 2]],
            lambda: lines[:first] + lines[second:],
            lambda: lines[:first] + lines[first:second][::-1] + lines[second:],
            lambda: [one for pair in zip(lines, lines, strict=True) for one in pair],
            lambda: [*lines[:second], b"", b"oops", lines[first], *lines[second:]],
            lambda: [one.replace(b":", b"=", 1) if one is lines[first] else one for one in lines],
        )
    )()


@pytest.mark.parametrize("seed", range(24))
def test_broken_files_are_read_or_rejected_in_one_sentence(tmp_path, seed, capsys):
    draw = random.Random(seed)
    lines = lines_of(published("1.197931751"))[:900]
    path = tmp_path / "mine.json"
    path.write_bytes(draw.choice((b"\n", b"\r\n")).join(broken(lines, draw)))
    code = main(["replay", str(path)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    if code == 2:
        assert err.count("\n") == 1
        assert str(path) in err
        with pytest.raises(ReplayFormatError):
            list(open_stream(path).chunks())
    with warnings.catch_warnings(), contextlib.suppress(ReplayFormatError):
        warnings.simplefilter("ignore", ReplayWarning)
        assert backtest(open_stream(path, on_problem="warn")).digest
