"""The small files beside a log: replaced whole or not at all, overwritten in place, removed."""

import os
import stat

import pytest

from clob_server.log import Folder


@pytest.fixture
def folder(tmp_path):
    """A folder of the file system, empty."""
    made = Folder(tmp_path)
    yield made
    made.close()


def test_what_was_put_there_is_read_back(folder, tmp_path):
    folder.replace("a", b"one")
    assert folder.read("a") == (tmp_path / "a").read_bytes() == b"one"


def test_a_file_that_is_not_there_reads_as_none(folder):
    assert folder.read("a") is None


def test_a_file_may_be_empty(folder):
    folder.replace("a", b"")
    assert folder.read("a") == b""


def test_replacing_leaves_nothing_of_what_was_there(folder):
    folder.replace("a", b"much longer than what follows")
    folder.replace("a", b"short")
    assert folder.read("a") == b"short"
    assert folder.names() == ["a"]


def test_a_large_file_is_written_whole(folder):
    data = bytes(range(256)) * 40_000
    folder.replace("a", data)
    assert folder.read("a") == data


@pytest.mark.parametrize("before", [None, b"old"])
def test_who_dies_before_the_rename_leaves_what_was_there(folder, tmp_path, monkeypatch, before):
    if before is not None:
        folder.replace("a", before)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            folder.replace("a", b"new")
    assert Folder(tmp_path).read("a") == before
    folder.replace("a", b"newer")
    assert folder.read("a") == b"newer"
    assert folder.names() == ["a"]


def test_who_dies_while_writing_leaves_what_was_there(folder, tmp_path, monkeypatch):
    folder.replace("a", b"old")
    written = os.write

    def half(descriptor, data):
        written(descriptor, data[: len(data) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(KeyboardInterrupt):
            folder.replace("a", b"new and longer than the old")
    assert Folder(tmp_path).read("a") == b"old"
    # What was left aside is longer than what comes now, and none of it may show.
    folder.replace("a", b"newer")
    assert folder.read("a") == b"newer"


def test_a_system_that_writes_less_than_it_was_given_is_asked_again(folder, monkeypatch):
    written = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: written(descriptor, data[:3]))
    folder.replace("a", b"ten bytes.")
    assert folder.read("a") == b"ten bytes."


def test_the_content_is_synced_before_the_rename_and_the_name_after_it(
    folder, tmp_path, monkeypatch
):
    said = []
    synced, renamed = os.fsync, os.replace

    def fsync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        said.append("folder synced" if is_folder else f"{os.fstat(descriptor).st_size} synced")
        synced(descriptor)

    def replace(source, target):
        said.append(f"{source.name} to {target.name}")
        renamed(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    folder.replace("a", b"one")
    assert said == ["3 synced", "a.new to a", "folder synced"]
    folder.remove("a")
    assert said[3:] == ["folder synced"]


def test_overwriting_changes_the_file_in_place(folder, tmp_path):
    folder.replace("a", b"one")
    number = (tmp_path / "a").stat().st_ino
    for data in (b"two", b"six"):
        folder.overwrite("a", data)
        assert folder.read("a") == data
    assert (tmp_path / "a").stat().st_ino == number


def test_overwriting_makes_no_file(folder):
    with pytest.raises(FileNotFoundError):
        folder.overwrite("a", b"one")
    assert folder.names() == []


def test_overwriting_finds_the_file_that_was_put_there_last(folder):
    folder.replace("a", b"one")
    folder.overwrite("a", b"two")
    folder.replace("a", b"six")
    folder.overwrite("a", b"ten")
    assert folder.read("a") == b"ten"


def test_overwriting_what_was_removed_is_refused(folder):
    folder.replace("a", b"one")
    folder.overwrite("a", b"two")
    folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.overwrite("a", b"six")
    assert folder.read("a") is None


def test_overwriting_what_cannot_be_written_whole_says_so(folder, monkeypatch):
    folder.replace("a", b"one")
    written = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda where, data, at: written(where, data[:1], at))
    with pytest.raises(OSError, match="a could not be written whole"):
        folder.overwrite("a", b"two")


def test_removing_what_is_not_there_is_no_error(folder):
    folder.replace("a", b"one")
    for _ in range(2):
        folder.remove("a")
        assert folder.names() == []


def test_names_are_those_of_the_files_in_order(folder, tmp_path):
    (tmp_path / "a folder").mkdir()
    for name in ("b", "c", "a"):
        folder.replace(name, b"")
    assert folder.names() == ["a", "b", "c"]


def test_nobody_else_may_read_a_file(folder, tmp_path):
    before = os.umask(0)
    try:
        folder.replace("a", b"one")
        folder.replace("a", b"two")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_closing_lets_go_of_what_was_overwritten(folder, tmp_path):
    own = f"/proc/{os.getpid()}/fd"
    if not os.path.isdir(own):
        pytest.skip("not here: the system does not list what a process has open")
    folder.replace("a", b"one")
    folder.overwrite("a", b"two")

    def is_open():
        found = [os.path.join(own, number) for number in os.listdir(own)]
        return str(tmp_path / "a") in [os.readlink(each) for each in found if os.path.islink(each)]

    assert is_open()
    folder.close()
    assert not is_open()
