"""Files that no venue writes: each is read or rejected in words, whatever its reader."""

import bz2
import gzip
import importlib.util
import random  # noqa: TID251 - seeded
import re
import warnings

import pytest

from clob.cli import main
from clob.replay import ReplayFormatError, ReplayWarning, Stream, open_stream, synthetic_day
from clob.replay.io.detect import READERS
from clob.replay.io.write import write_stream
from tests.replay.readers import mutants

DEEP = b"[" * 100_000
GIANT = b"9" * 5_000
SUFFIXES = {"gz": gzip.compress, "bz2": bz2.compress}


def contents():
    """Return content that fits no format, by name."""
    return {
        "empty": b"",
        "newlines": b"\n" * 50,
        "NUL bytes": bytes(5_000),
        "deep list": DEEP,
        "deep objects": b'{"a":' * 100_000,
        "invalid UTF-8": b"\xff\xfe\x80" * 500,
        "invalid UTF-8 in JSON": b'{"op": "mcm", "asset_id": "\xff\xed\xa0\x80", "type": "ok"}\n',
        "lone surrogate": b'{"op": "mcm", "asset_id": "\\ud800", "type": "trade"}\n',
        "giant integer": b'{"op":"mcm","pt":%b,"asset_id":%b,"type":"trade"}\n' % (GIANT, GIANT),
        "archive": b"PK\x03\x04" + bytes(100),
        "table": b"PAR1" + bytes(100) + b"PAR1",
        "table of a wrong length": b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1",
        "DBN": b"DBN\x03\xff\xff\xff\xff" + bytes(100),
        "short DBN": b"DBN\x03\0\0\0\0" + b"\x01",
        "journal": b"CLOBFRM\x02\xff\xff\xff\xff" + bytes(100),
    }


def attempt(path, form, policy=None):
    """Read a file to its end; return whether it was rejected in words."""
    options = {} if policy is None else {"on_problem": policy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        try:
            for _ in open_stream(path, form, **options).chunks():
                pass
        except ReplayFormatError as error:
            message = str(error)
        else:
            return False
    assert path.name.partition(".")[0] in message
    return True


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return a small file of each format."""
    return mutants.texts(tmp_path_factory.mktemp("texts"))


@pytest.mark.parametrize("form", ["auto", *READERS])
@pytest.mark.parametrize("name", contents())
def test_foreign_content_is_rejected_or_empty(tmp_path, form, name):
    content = contents()[name]
    for suffix in ("", ".parquet", ".gz", ".bz2", ".zst"):
        path = tmp_path / f"XY_message_2{suffix}"
        for raw in {content, SUFFIXES.get(suffix[1:], bytes)(content)}:
            path.write_bytes(raw)
            for policy in (None,) if form == "npz" else ("raise", "warn"):
                attempt(path, form, policy)


@pytest.mark.parametrize("form", READERS)
def test_directory_and_missing_and_unreadable_files_are_errors_of_the_system(tmp_path, form):
    for suffix in ("", ".parquet", ".gz", ".npz"):
        path = tmp_path / f"XY_message_2{suffix}"
        with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
            attempt(path, form)
        path.mkdir()
        with pytest.raises(IsADirectoryError, match=re.escape(path.name)):
            attempt(path, form)


VALUES = {
    "deep list": b"[" * 50_000 + b"]" * 50_000,
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "giant integer": GIANT,
    "giant exponent": b"1e999999999",
    "giant text": b'"' + GIANT + b'"',
    "giant fraction": b'"0.' + GIANT + b'"',
    "invalid UTF-8": b'"\xff"',
    "lone surrogate": b'"\\ud800"',
    "NUL": b'"\\u0000"',
    "null": b"null",
    "bool": b"true",
}
"""JSON values that no venue sends."""


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", ["betfair", "polymarket", "kalshi-ws", "export"])
def test_every_value_of_a_message_may_be_hostile(texts, tmp_path, form, value):
    name, text, _ = texts[form]
    path = tmp_path / name
    places = list(re.finditer(rb'(?<=: )("[^"]*"|-?\d+(?:\.\d+)?)', text))
    assert len(places) > 10
    for place in random.Random(1).sample(places, min(len(places), 40)):
        path.write_bytes(text[: place.start()] + VALUES[value] + text[place.end() :])
        for policy in ("raise", "warn"):
            attempt(path, form, policy)


@pytest.mark.parametrize("value", [GIANT, b"\xff", b"\0", b"1e999999999", b'"', b"0." + GIANT])
@pytest.mark.parametrize("form", ["lobster", "kalshi", "table"])
def test_every_cell_may_be_hostile(texts, tmp_path, form, value):
    name, text, beside = texts[form]
    for other, its_text in beside.items():
        (tmp_path / other).write_bytes(its_text)
    path = tmp_path / name
    places = list(re.finditer(rb"[^,\n]+", text))
    for place in random.Random(1).sample(places, min(len(places), 40)):
        path.write_bytes(text[: place.start()] + value + text[place.end() :])
        for policy in ("raise", "warn"):
            attempt(path, form, policy)


# ----- damaged archives ----------------------------------------------------------------------


def damaged(content, draw):
    """Cut, flip, zero or repeat a part of a file."""
    place = draw.randrange(len(content))
    return draw.choice(
        (
            content[:place],
            content[:place]
            + bytes((content[place] ^ 1 << draw.randrange(8),))
            + content[place + 1 :],
            content[:place] + bytes(min(40, len(content) - place)) + content[place + 40 :],
            content[:place] + draw.randbytes(4) + content[place + 4 :],
            content[place:] + content[:place],
        )
    )


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Return a valid file for each kind of archive, by name."""
    folder = tmp_path_factory.mktemp("archives")
    stream = Stream.of(synthetic_day(1, 200))
    names = ["day.csv.gz", "day.npz"]
    if importlib.util.find_spec("pyarrow"):
        write_stream(folder / "day.parquet", stream)
        names.append("day.parquet")
    write_stream(folder / "day.csv.gz", stream)
    write_stream(folder / "day.npz", stream)
    plain = gzip.decompress((folder / "day.csv.gz").read_bytes())
    files = {name: (folder / name).read_bytes() for name in names}
    files["day.csv.bz2"] = bz2.compress(plain)
    if importlib.util.find_spec("zstandard"):
        zstandard = importlib.import_module("zstandard")
        files["day.csv.zst"] = zstandard.compress(plain)
        files["es.dbn.zst"] = zstandard.compress(mutants.dbn())
    return files


@pytest.mark.parametrize("count", [150, pytest.param(1_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    ["day.csv.gz", "day.csv.bz2", "day.csv.zst", "es.dbn.zst", "day.parquet", "day.npz"],
)
def test_damaged_archive_is_read_or_rejected(archives, tmp_path, name, count):
    if name not in archives:
        pytest.skip("not here: the package of this format")
    path, rejected = tmp_path / name, 0
    for seed in range(count):
        draw = random.Random(seed)
        path.write_bytes(damaged(archives[name], draw))
        policies = (None,) if name == "day.npz" else ("raise", "warn")
        rejected += attempt(path, "auto", draw.choice(policies))
    assert rejected


@pytest.mark.parametrize("form", ["kalshi-ws", "journal", "export"])
def test_file_that_changes_between_two_readings_is_rejected(texts, tmp_path, form):
    name, text, _ = texts[form]
    path = tmp_path / name
    path.write_bytes(text)
    stream = open_stream(path, form)
    for later in (text[: len(text) // 2 - 3], b"\0" * 300, DEEP):
        path.write_bytes(later)
        with pytest.raises(ReplayFormatError, match=path.stem):
            list(stream.chunks())
    path.unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
        list(stream.chunks())


# ----- the commands --------------------------------------------------------------------------


@pytest.mark.parametrize("name", contents())
def test_commands_report_hostile_files_in_a_line(tmp_path, capsys, name):
    path, out = tmp_path / "day.jsonl", tmp_path / "out.csv"
    path.write_bytes(contents()[name])
    for arguments in (["replay", path], ["convert", path, out], ["verify", path]):
        code = main(list(map(str, arguments)))
        written = capsys.readouterr()
        if name == "empty" and arguments[0] == "verify":
            assert code == 0
            continue
        assert code in (1, 2)
        assert "Traceback" not in written.err
        assert "day.jsonl" in written.err + written.out
    assert not out.exists()


@pytest.mark.parametrize("command", ["replay", "convert", "verify"])
def test_commands_report_files_that_cannot_be_read(tmp_path, capsys, command):
    missing = tmp_path / "missing.csv"
    for path in (missing, tmp_path):
        arguments = [command, str(path), *[str(tmp_path / "out.csv")] * (command == "convert")]
        assert main(arguments) == 2
        written = capsys.readouterr()
        assert path.name in written.err
        assert "Traceback" not in written.err
