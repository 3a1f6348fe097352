"""Folder: atomic replacement, overwriting in place, and removal of small files."""

import os
import stat

import pytest

from clob_server.log import Folder


@pytest.fixture
def folder(tmp_path):
    """An empty folder."""
    made = Folder(tmp_path)
    yield made
    made.close()


def test_replaced_file_is_read_back(folder, tmp_path):
    folder.replace("a", b"one")
    assert folder.read("a") == (tmp_path / "a").read_bytes() == b"one"


def test_missing_file_reads_as_none(folder):
    assert folder.read("a") is None
    assert folder.view("a") is None


def test_view_keeps_its_content_after_the_file_is_replaced_and_removed(folder):
    folder.replace("a", b"one", b" and ", memoryview(b"two"))
    view = folder.view("a")
    folder.replace("a", b"another")
    folder.remove("a")
    assert bytes(view) == b"one and two"
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 0


def test_empty_file(folder):
    folder.replace("a", b"")
    assert folder.read("a") == folder.view("a") == b""


def test_replace_removes_the_old_content(folder):
    folder.replace("a", b"much longer than what follows")
    folder.replace("a", b"short")
    assert folder.read("a") == b"short"
    assert folder.names() == ["a"]


def test_large_file_is_written_completely(folder):
    data = bytes(range(256)) * 40_000
    folder.replace("a", data)
    assert folder.read("a") == data


@pytest.mark.parametrize("before", [None, b"old"])
def test_failure_before_the_rename_keeps_the_old_file(folder, tmp_path, monkeypatch, before):
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


def test_failure_during_the_write_keeps_the_old_file(folder, tmp_path, monkeypatch):
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
    # the unfinished file is longer than the next one, and must not leave a rest
    folder.replace("a", b"newer")
    assert folder.read("a") == b"newer"


def test_short_writes_are_continued(folder, monkeypatch):
    written = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: written(descriptor, data[:3]))
    folder.replace("a", b"ten bytes.")
    assert folder.read("a") == b"ten bytes."


def test_content_is_synced_before_the_rename_and_the_folder_after(folder, tmp_path, monkeypatch):
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


def test_overwrite_changes_the_file_in_place(folder, tmp_path):
    folder.replace("a", b"one")
    number = (tmp_path / "a").stat().st_ino
    for data in (b"two", b"six"):
        folder.overwrite("a", data)
        assert folder.read("a") == data
    assert (tmp_path / "a").stat().st_ino == number


def test_overwrite_of_a_missing_file_is_rejected(folder):
    with pytest.raises(FileNotFoundError):
        folder.overwrite("a", b"one")
    assert folder.names() == []


def test_overwrite_after_replace_changes_the_new_file(folder):
    folder.replace("a", b"one")
    folder.overwrite("a", b"two")
    folder.replace("a", b"six")
    folder.overwrite("a", b"ten")
    assert folder.read("a") == b"ten"


def test_overwrite_after_remove_is_rejected(folder):
    folder.replace("a", b"one")
    folder.overwrite("a", b"two")
    folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.overwrite("a", b"six")
    assert folder.read("a") is None


def test_short_overwrite_raises(folder, monkeypatch):
    folder.replace("a", b"one")
    written = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda where, data, at: written(where, data[:1], at))
    with pytest.raises(OSError, match="a was written only in part"):
        folder.overwrite("a", b"two")


def test_remove_of_a_missing_file_is_ignored(folder):
    folder.replace("a", b"one")
    for _ in range(2):
        folder.remove("a")
        assert folder.names() == []


def test_names_are_sorted(folder, tmp_path):
    (tmp_path / "a folder").mkdir()
    for name in ("b", "c", "a"):
        folder.replace(name, b"")
    assert folder.names() == ["a", "b", "c"]


def test_files_are_readable_by_the_owner_only(folder, tmp_path):
    before = os.umask(0)
    try:
        folder.replace("a", b"one")
        folder.replace("a", b"two")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_close_closes_overwritten_files(folder, tmp_path):
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
