"""Files that users packed, renamed, converted, joined or spoiled: equal results, or reports."""

import gzip
import importlib.util
import random  # noqa: TID251 - seeded
import tarfile
import warnings

import pytest

from clob.cli import main
from clob.replay import (
    ReplayFormatError,
    ReplayWarning,
    Stream,
    backtest,
    merge,
    open_stream,
    synthetic_day,
)
from clob.replay.io.write import write_stream
from tests.replay.readers import mutants, test_dbn
from tests.replay.readers.user_files import converted, packed, rearranged, spoiled, zipped

TEXTS = ("lobster", "kalshi", "betfair", "polymarket", "kalshi-ws", "export", "table")
JSON = ("betfair", "polymarket", "kalshi-ws")

REPEAT = "line that repeats the one before"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return a small file of each format."""
    return mutants.texts(tmp_path_factory.mktemp("texts"))


def outcome(path, form="auto"):
    """Replay a file; return its digest and the counts of problems and of remarks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        stream = open_stream(path, form, on_problem="warn")
        digest = backtest(stream).digest
    return digest, dict(stream.problems.counts), dict(stream.problems.remarks)


def written(folder, file):
    """Write a file of a format and its companions; return its path."""
    name, content, beside = file
    for other, text in beside.items():
        (folder / other).write_bytes(text)
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("form", [*TEXTS, "dbn", "journal"])
def test_content_decides_the_compression_not_the_name(texts, tmp_path, form):
    path = written(tmp_path, texts[form])
    clean = outcome(path)
    for kind, content in packed(texts[form][1]).items():
        # A LOBSTER book file is found by the name of its message file.
        suffixes = ("",) if form == "lobster" else ("", ".gz", ".zst", ".zip", ".download")
        for suffix in suffixes:
            other = path.with_name(path.name + suffix)
            other.write_bytes(content)
            assert outcome(other) == clean, (kind, suffix)
    path.with_name(f"{path.name}.gz").write_bytes(texts[form][1])
    if form != "lobster" and form in TEXTS:
        assert outcome(path.with_name(f"{path.name}.gz")) == clean


@pytest.mark.parametrize("form", TEXTS)
def test_text_of_other_systems_is_the_same(texts, tmp_path, form):
    path = written(tmp_path, texts[form])
    clean = outcome(path)
    forms = converted(texts[form][1]) | (rearranged(texts[form][1]) if form in JSON else {})
    for kind, content in forms.items():
        path.write_bytes(content)
        assert outcome(path) == clean, kind


@pytest.mark.parametrize("count", [12, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", TEXTS)
def test_every_spoiled_line_is_reported_and_costs_only_itself(texts, tmp_path, form, count):
    """The result is that of the file without these lines, with one report more for each."""
    path = written(tmp_path, texts[form])
    for seed in range(count):
        draw = random.Random(seed)
        bad, blank, numbers = spoiled(texts[form][1], draw, draw.choice((1, 1, 2, 4)))
        path.write_bytes(blank)
        try:
            digest, problems, remarks = outcome(path, form)
        except ReplayFormatError:
            path.write_bytes(bad)
            with pytest.raises(ReplayFormatError, match=r"; line \d+: "):
                outcome(path, form)
            continue
        path.write_bytes(bad)
        found, counts, more = outcome(path, form)
        for counted in (more, remarks):
            counted.pop(REPEAT, None)
        assert (found, more) == (digest, remarks), (seed, numbers)
        assert sum(counts.values()) == sum(problems.values()) + len(numbers), (seed, counts)


@pytest.mark.parametrize("form", TEXTS)
def test_error_names_the_file_and_the_line(texts, tmp_path, form, capsys):
    path = written(tmp_path, texts[form])
    bad, _, numbers = spoiled(texts[form][1], random.Random(1), 1)
    path.write_bytes(bad)
    policies = ("raise", "warn") if form in ("kalshi", "kalshi-ws") else ("raise",)
    for policy in policies:
        code = main(["replay", str(path), "--format", form, "--policy", policy])
        err = capsys.readouterr().err
        assert code in ((2,) if policy == "raise" else (0, 1))
    assert f"{path.name}:{numbers[0]}: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("form", ["kalshi", "table"])
def test_header_lines_of_joined_files_are_skipped_and_counted(texts, tmp_path, form):
    path = written(tmp_path, texts[form])
    digest, problems, _ = outcome(path)
    rows = texts[form][1].splitlines(keepends=True)
    path.write_bytes(b"".join([*rows[:3], rows[0], rows[0], *rows[3:]]))
    found, counts, remarks = outcome(path)
    assert (counts, remarks) == (problems, {"header line repeated": 2})
    assert form == "table" or found == digest


def test_joined_dbn_files_are_one(tmp_path):
    path = tmp_path / "es.dbn"
    path.write_bytes(mutants.dbn())
    digest, _, _ = outcome(path)
    head = len(mutants.dbn()) - sum(map(len, test_dbn.ROWS))
    path.write_bytes(mutants.dbn() + mutants.dbn()[:head])
    found, counts, remarks = outcome(path)
    assert (found, counts) == (digest, {})
    assert remarks["header line repeated"] == 1


def test_line_that_repeats_is_counted(texts, tmp_path):
    path = written(tmp_path, texts["polymarket"])
    rows = texts["polymarket"][1].splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:5] + rows[4:]))
    assert outcome(path)[2][REPEAT] == 1


def test_betfair_file_that_begins_inside_a_market_is_a_problem(texts, tmp_path):
    path = written(tmp_path, texts["betfair"])
    path.write_bytes(texts["betfair"][1].partition(b"\n")[2])
    with pytest.raises(ReplayFormatError, match="market without a start: the first line of market"):
        list(open_stream(path).chunks())
    assert outcome(path)[1] == {"market without a start": 1}


def test_book_that_several_files_describe_is_remarked_on(texts, tmp_path):
    path = written(tmp_path, texts["betfair"])
    twice = merge([open_stream(path), open_stream(path)])
    list(twice.chunks())
    assert twice.problems.remarks["book that several files describe"] == 2


def test_column_that_occurs_twice_is_rejected(texts, tmp_path):
    path = written(tmp_path, texts["table"])
    rows = texts["table"][1].splitlines()
    path.write_bytes(b"\n".join([rows[0] + b",price", *(row + b",1" for row in rows[1:])]))
    with pytest.raises(ReplayFormatError, match="column 'price' for price must occur once"):
        open_stream(path)


def test_parquet_is_read_by_its_content(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "day.parquet"
    write_stream(path, Stream.of(synthetic_day(1, 60)))
    content = path.read_bytes()
    other = tmp_path / "day.csv"
    other.write_bytes(content)
    assert outcome(other) == outcome(path)
    other.write_bytes(gzip.compress(content))
    with pytest.raises(ReplayFormatError, match=r"got a compressed Parquet or \.npz"):
        open_stream(other)


def test_parquet_columns_without_a_field_may_have_any_type(tmp_path):
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    path = tmp_path / "day.parquet"
    write_stream(path, Stream.of(synthetic_day(1, 60)))
    clean = outcome(path)
    day = parquet.read_table(path)
    day = day.append_column("tags", arrow.array([[1, 2]] * len(day)))
    parquet.write_table(day, path)
    assert outcome(path) == clean


FOREIGN = {
    "SQLite": (b"SQLite format 3\0" + bytes(100), "got an SQLite database"),
    "Feather": (b"ARROW1\0\0" + bytes(100), "got an Arrow"),
    "array": (b"\x93NUMPY\1\0" + bytes(100), "got a single NumPy array"),
    "pickle": (b"\x80\x05\x95" + bytes(100), "got a Python pickle"),
    "page": (b"<!DOCTYPE html><title>404</title>", "the download has failed"),
    "xz": (b"\xfd7zXZ\0" + bytes(100), "got an xz archive; unpack it"),
    "Excel": (zipped(**{"[Content_Types].xml": "<x/>", "xl": ""}), "got an Excel file"),
    "two files": (zipped(a="1", b="2"), "a zip archive must have one file; got 2: a, b"),
    "no file": (zipped(), "a zip archive must have one file; got 0: no file"),
    "npz in zip": (zipped(day=zipped(**{"a.npy": ""})), "a compressed Parquet or .npz file"),
}
"""Files of other programs: content and error."""


@pytest.mark.parametrize("kind", FOREIGN)
def test_file_of_another_program_is_named(tmp_path, kind):
    content, text = FOREIGN[kind]
    path = tmp_path / "day.csv"
    path.write_bytes(content)
    with pytest.raises(ReplayFormatError, match=text):
        open_stream(path)


def test_tar_archive_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("1")
    with tarfile.open(tmp_path / "day.tgz", "w:gz") as archive:
        archive.add(tmp_path / "a.csv", "a.csv")
    with pytest.raises(ReplayFormatError, match="got a tar archive; unpack it"):
        open_stream(tmp_path / "day.tgz")


@pytest.mark.parametrize("form", ["betfair", "kalshi-ws", "polymarket"])
def test_file_without_a_market_names_its_first_problem(tmp_path, form):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"oops\nmore\n")
    with pytest.raises(ReplayFormatError, match="; line 1: unreadable line: expected a JSON"):
        open_stream(path, form)


def test_spread_json_that_breaks_off_names_the_line(texts, tmp_path):
    path = written(tmp_path, texts["betfair"])
    text = rearranged(texts["betfair"][1])["indented objects"]
    path.write_bytes(text[: len(text) // 2])
    with pytest.raises(ReplayFormatError, match=r"market.json:\d+: unreadable line: .*not read"):
        list(open_stream(path).chunks())


def test_error_names_the_compressed_file(tmp_path, capsys):
    path = tmp_path / "es.mbp.dbn.zst"
    if not importlib.util.find_spec("zstandard"):
        pytest.skip("not here: zstandard")
    zstandard = importlib.import_module("zstandard")
    path.write_bytes(zstandard.compress(b"DBN\x03" + (0).to_bytes(4, "little")))
    assert main(["replay", str(path)]) == 2
    assert f"REPLAY_FORMAT: {path}: " in capsys.readouterr().err
