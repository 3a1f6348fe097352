"""The compiled desk reads Structs from memory, and is used only where it reads the right fields."""

import importlib
import types

import pytest

from clob import _desk, _entries_py


def test_the_compiled_entries_read_right():
    entries = pytest.importorskip("clob._entries_c", reason="the compiled desk is not built")
    assert _desk.reads_right(entries)
    assert importlib.import_module("clob._desk_c").Desk.__module__ == "clob._desk_c"


@pytest.mark.parametrize("group", range(11))
def test_a_field_read_for_another_is_seen(group):
    def swapped(*trials):
        seen = [list(fields) for fields in _entries_py.fields_seen(*trials)]
        seen[group][:2] = reversed(seen[group][:2])
        return seen

    assert not _desk.reads_right(types.SimpleNamespace(fields_seen=swapped))
    assert _desk.reads_right(_entries_py)
