"""Recordings in npz files: round trips, both layouts, and rejection of damaged files."""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest

from clob.replay import EVENT, FILL, Kind, Recording, ReplayFormatError, read_npz, write_npz


@pytest.fixture
def file(tmp_path):
    return tmp_path / "flow.npz"


def arrays_of(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def same(one, other):
    """Return whether two recordings are equal."""
    plain = ("lo", "hi", "lot_wei", "name", "note")
    arrays = ("events", "seed", "fills")
    return all(getattr(one, f) == getattr(other, f) for f in plain) and all(
        np.array_equal(getattr(one, f), getattr(other, f)) for f in arrays
    )


def read_after(file, day, change):
    """Write a day, modify its arrays, read it."""
    write_npz(file, day)
    arrays = arrays_of(file)
    change(arrays)
    np.savez(file, **arrays)
    return read_npz(file)


# ----- the layout of the package ---------------------------------------------------------------


def test_written_recording_is_read_back(file, day):
    write_npz(file, day)
    back = read_npz(file)
    assert same(back, day)
    assert back.events.dtype == EVENT
    assert back.fills.dtype == FILL


def test_equal_recordings_produce_equal_bytes(file, day, tmp_path):
    write_npz(file, day)
    events = np.full(len(day.events) * EVENT.itemsize, 0xAB, np.uint8).view(EVENT)
    for field in EVENT.names:
        events[field] = day.events[field]
    write_npz(tmp_path / "other.npz", dataclasses.replace(day, events=events))
    assert file.read_bytes() == (tmp_path / "other.npz").read_bytes()


def test_recording_without_fills_and_name(file, day):
    write_npz(file, dataclasses.replace(day, fills=None, name=""))
    back = read_npz(file)
    assert back.fills is None
    assert back.name == "flow"


def test_empty_recording(file):
    none = np.zeros(0, EVENT)
    write_npz(file, Recording(events=none, seed=none, fills=None, lo=1, hi=9, lot_wei=1))
    assert len(read_npz(file).events) == 0


def test_numpy_reads_the_arrays(file, day):
    write_npz(file, day)
    arrays = arrays_of(file)
    assert set(arrays) == {"meta", "events", "seed", "fills"}
    assert json.loads(arrays["meta"].tobytes())["format"] == "clob-recording"
    assert np.array_equal(arrays["events"], day.events)


def set_meta(**fields):
    def change(arrays):
        meta = json.loads(arrays["meta"].tobytes()) | fields
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)

    return change


def put(name, place, field, value):
    def change(arrays):
        arrays[name][field][place] = value

    return change


def become(name, array):
    return lambda arrays: arrays.update({name: array})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("meta"), "array 'meta' is missing"),
        (lambda arrays: arrays.pop("events"), "array 'events' is missing"),
        (lambda arrays: arrays.pop("seed"), "array 'seed' is missing"),
        (become("events", np.zeros(3)), "events must be one-dimensional of dtype"),
        (become("events", np.zeros((2, 2), EVENT)), "got 2-dimensional"),
        (become("fills", np.zeros(3, EVENT)), "fills must be one-dimensional of dtype"),
        (become("meta", np.zeros(3)), "meta must be one-dimensional of uint8"),
        (become("meta", np.array(list(b"{nonsense"), np.uint8)), "meta must be JSON"),
        (become("meta", np.array(list(b"[" * 100_000), np.uint8)), "meta must be JSON"),
        (become("meta", np.array(list(b"[1]"), np.uint8)), "meta must be an object whose format"),
        (set_meta(format="other"), "meta must be an object whose format"),
        (set_meta(version=2), "version must be 1; got 2"),
        (set_meta(lo="1"), "meta must have 'lo' of type int"),
        (set_meta(hi=True), "meta must have 'hi' of type int"),
        (set_meta(name=None), "meta must have 'name' of type str"),
        (put("events", 4, "kind", 99), r"events\[4\]: kind is unknown"),
        (put("events", 4, "side", 2), r"events\[4\]: side must be 0 or 1"),
        (put("seed", 1, "kind", Kind.LIMIT), r"seed\[1\]: kind must be 6"),
        (put("seed", 1, "side", 255), r"seed\[1\]: side must be 0 or 1"),
        (put("fills", 2, "event", 2**63), r"fills\[2\]: event must be below"),
        (put("fills", 5, "event", 0), r"fills\[5\]: event must not be lower than in the row above"),
    ],
)
def test_malformed_file_is_rejected(file, day, change, message):
    with pytest.raises(ReplayFormatError, match=message):
        read_after(file, day, change)


# ----- the matrix layout -----------------------------------------------------------------------


def matrices():
    """A buy of 3 and a sell of 2 rest; each kind of command follows."""
    seed = [[1, 48, 3, 10], [-1, 52, 2, 11]]
    commands = [
        [1_000, 0, -1, 53, 5, 12, 0],
        [2_000, 3, 1, 53, 4, 13, 1],
        [3_000, 2, 0, 53, 1, 12, 0],
        [4_000, 1, 7, 53, 0, 12, 0],
    ]
    fills = [[1, 11, 2, 52], [1, 12, 2, 53]]
    names = ("seed", "commands", "fills")
    return {n: np.array(rows) for n, rows in zip(names, (seed, commands, fills), strict=True)}


def test_matrix_layout_is_read(file):
    np.savez(file, **matrices())
    recording = read_npz(file)
    assert (recording.lo, recording.hi, recording.lot_wei) == (1, 99, 10**18)
    assert recording.seed["kind"].tolist() == [Kind.SEED] * 2
    assert recording.seed["side"].tolist() == [0, 1]
    events = recording.events
    assert events["kind"].tolist() == [Kind.LIMIT, Kind.IOC, Kind.REDUCE, Kind.CANCEL]
    assert events["side"].tolist()[:2] == [1, 0]
    assert events["ts_ns"].tolist() == [1_000, 2_000, 3_000, 4_000]
    assert recording.fills[["event", "resting_id", "incoming_id", "ts_ns"]].tolist() == [
        (1, 11, 13, 2_000),
        (1, 12, 13, 2_000),
    ]


@pytest.mark.parametrize(
    ("name", "row", "column", "value", "message"),
    [
        ("seed", 1, 0, 0, r"seed\[1\]: side must be 1 or -1"),
        ("seed", 1, 1, 100, r"seed\[1\]: tick must be 1 to 99"),
        ("seed", 0, 2, 0, r"seed\[0\]: size must be positive"),
        ("seed", 0, 3, -1, r"seed\[0\]: id must not be negative"),
        ("commands", 2, 0, -1, r"commands\[2\]: time must not be negative"),
        ("commands", 2, 1, 4, r"commands\[2\]: kind must be 0 to 3"),
        ("commands", 1, 2, 2, r"commands\[1\]: side must be 1 or -1"),
        ("commands", 1, 2, -(2**63), r"commands\[1\]: side must be 1 or -1"),
        ("commands", 1, 3, 2**40, r"commands\[1\]: tick must be 1 to 99"),
        ("commands", 2, 4, 0, r"commands\[2\]: size must be positive"),
        ("fills", 0, 0, 4, r"fills\[0\]: event must be below 4"),
        ("fills", 1, 0, -1, r"fills\[1\]: event must not be negative"),
        ("fills", 1, 0, 0, r"fills\[1\]: event must not be lower than in the row above"),
        ("fills", 0, 2, 0, r"fills\[0\]: size must be positive"),
    ],
)
def test_value_out_of_range_is_rejected(file, name, row, column, value, message):
    arrays = matrices()
    arrays[name][row, column] = value
    np.savez(file, **arrays)
    with pytest.raises(ReplayFormatError, match=message):
        read_npz(file)


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.int64), np.zeros((2, 4)), np.zeros(4)])
def test_matrix_of_another_shape_is_rejected(file, array):
    np.savez(file, **matrices() | {"seed": array})
    with pytest.raises(ReplayFormatError, match="seed must be int64 with 4 columns"):
        read_npz(file)


# ----- other files -----------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", b"PK\x05\x06" + bytes(18)])
def test_file_that_is_not_an_archive_is_rejected(file, content):
    file.write_bytes(content)
    with pytest.raises(ReplayFormatError):
        read_npz(file)


def test_missing_file_raises_os_error(file):
    with pytest.raises(FileNotFoundError):
        read_npz(file)


def test_pickled_objects_are_rejected(file):
    np.savez(file, **matrices() | {"seed": np.array([{}], object)}, allow_pickle=True)
    with pytest.raises(ReplayFormatError, match=r"seed.*cannot be read"):
        read_npz(file)


def test_array_larger_than_memory_is_rejected(file):
    header = io.BytesIO()
    shape = {"descr": "<i8", "fortran_order": False, "shape": (2**50, 4)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("commands.npy", header.getvalue())
    with pytest.raises(ReplayFormatError, match=r"commands.*cannot be read"):
        read_npz(file)


def test_truncated_file_is_rejected(file, day):
    write_npz(file, day)
    whole = file.read_bytes()
    for length in range(0, len(whole), len(whole) // 50):
        file.write_bytes(whole[:length])
        with pytest.raises(ReplayFormatError):
            read_npz(file)


def test_changed_byte_is_rejected_or_harmless(file, day):
    write_npz(file, day)
    whole = bytearray(file.read_bytes())
    # Includes the table of contents at the end of the archive, where errors have most effects.
    for place in [*range(0, len(whole), 331), *range(len(whole) - 400, len(whole))]:
        whole[place] ^= 0x55
        file.write_bytes(whole)
        whole[place] ^= 0x55
        try:
            back = read_npz(file)
        except ReplayFormatError:
            continue
        assert np.array_equal(back.events, day.events)
        assert np.array_equal(back.seed, day.seed)
