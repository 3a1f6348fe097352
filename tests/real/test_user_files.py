"""Recordings of venues, packed, converted and spoiled as the files of users are."""

import bz2
import random  # noqa: TID251 - seeded
import re

import pytest

from clob.cli import main
from tests.real.data import data_file
from tests.replay.readers.user_files import converted, packed, rearranged, spoiled

FILES = {
    "lobster": ("lobster_AAPL_2012-06-21_message_10_first999.csv", "AAPL_message_10.csv", 999),
    "kalshi": ("kalshi_market_data_KXHIGHNY-25DEC14.csv", "market_data.csv", 1_500),
    "betfair": ("betfair_1-166811431.bz2", "1.166811431", 400),
}
"""By format: the file, its name for the test, and the number of lines taken."""

EXITS = (0, 1, 2)
"""The exit codes that the help of ``clob replay`` states."""


@pytest.fixture(scope="module", params=FILES)
def recording(request):
    """Return format, name and content of the start of a recording."""
    name, short, count = FILES[request.param]
    content = data_file(name).read_bytes()
    if name.endswith(".bz2"):
        content = bz2.decompress(content)
    return request.param, short, b"".join(content.splitlines(keepends=True)[:count])


@pytest.fixture
def replayed(tmp_path, capsys):
    """Return a function that replays content: exit code, digest line, and errors."""

    def replaying(name, content, *options):
        path = tmp_path / name
        path.write_bytes(content)
        code = main(["replay", str(path), *options])
        out, err = capsys.readouterr()
        assert code in EXITS, (code, err)
        assert "Traceback" not in out + err
        if code == 2:
            assert err.startswith(f"clob: REPLAY_FORMAT: {path}:"), err
            assert err.count("\n") == 1, err
        digest = next((line for line in out.splitlines() if line.startswith("digest")), "")
        return code, digest, err

    return replaying


def test_other_forms_of_a_file_are_the_same(recording, replayed):
    form, name, content = recording
    clean = replayed(name, content)
    assert clean[0] == 0
    others = packed(content) | converted(content)
    if form == "betfair":
        others |= rearranged(content)
    for kind, other in others.items():
        assert replayed(name, other) == clean, kind


@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.long)])
def test_skipped_lines_add_up(recording, replayed, count):
    """A spoiled line is one problem, and the rest is read as if the line were not there."""
    form, name, content = recording
    options = ("--policy", "warn", "--format", form)
    for seed in range(count):
        bad, blank, numbers = spoiled(content, random.Random(seed), 1 + seed % 7)
        code, digest, err = replayed(name, blank, *options)
        found_code, found, more = replayed(name, bad, *options)
        assert found == digest, (seed, numbers)
        assert found_code == code
        assert problems(more) == problems(err) + len(numbers), (seed, more)
        code, _, err = replayed(name, bad, "--format", form)
        assert code == 2
        assert re.search(rf"{re.escape(name)}:\d+: ", err), err


def problems(err):
    """Return the number of problems in the last line of the errors."""
    found = re.search(r"([\d,]+) problems? skipped: ", err)
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.parametrize("count", [6, pytest.param(80, marks=pytest.mark.long)])
def test_mutations_end_in_a_result_or_in_one_line(recording, replayed, count):
    _, name, content = recording
    rows = content.splitlines(keepends=True)[:300]
    for seed in range(count):
        draw = random.Random(seed)
        some = list(rows)
        for _ in range(draw.choice((1, 2, 3))):
            some = draw.choice(CHANGES)(some, draw) or [b"\n"]
        content = b"".join(some)
        if draw.random() < 0.3:
            kind = draw.choice(sorted(packed(content)))
            content = packed(content)[kind]
            content = draw.choice((content, content[: draw.randrange(len(content))]))
        for policy in ("raise", "warn"):
            replayed(name, content, "--policy", policy)


def _moved(rows, draw):
    start, end = sorted(draw.randrange(len(rows) + 1) for _ in range(2))
    return rows[:start] + rows[end:] + rows[start:end]


def _replaced(rows, draw):
    place = draw.randrange(len(rows))
    numbers = list(re.finditer(rb"\d+", rows[place]))
    if not numbers:
        return rows
    number = draw.choice(numbers)
    value = draw.choice((b"", b"-1", b"0", b"1e5", b"NaN", b"9" * 20, b" 5 ", b"5,5", b'"5"'))
    row = rows[place]
    return [*rows[:place], row[: number.start()] + value + row[number.end() :], *rows[place + 1 :]]


CHANGES = (
    _moved,
    _replaced,
    _replaced,
    lambda rows, draw: rows[: draw.randrange(len(rows) + 1)],
    lambda rows, draw: rows[draw.randrange(len(rows) + 1) :],
    lambda rows, draw: rows[::-1],
    lambda rows, draw: rows + rows,
    lambda rows, draw: [row for pair in zip(rows, rows, strict=True) for row in pair],
    lambda rows, draw: [row.replace(b",", b";") for row in rows],
    lambda rows, draw: draw.sample(rows, len(rows)),
    lambda rows, draw: [row for row in rows if draw.random() < 0.9],
    lambda rows, draw: [*rows, rows[-1][: draw.randrange(len(rows[-1]) + 1)]] if rows else rows,
)
"""Changes of whole files."""
