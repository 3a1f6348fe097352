"""The compiled matcher reads Structs from memory, and is used only where it reads the right fields."""

import importlib
import types

import pytest

from clob import _build
from clob.matcher import compiled

NAME = "clob.matcher.entities"


def test_the_compiled_entities_read_the_fields_of_their_source():
    if not compiled.COMPILED:
        pytest.skip("the compiled matcher is not built")
    assert compiled.layout_matches(importlib.import_module(NAME), _build.load_source(NAME))


@pytest.mark.parametrize("group", range(11))
def test_a_field_read_for_another_is_noticed(group):
    source = _build.load_source(NAME)

    def swapped(*trials):
        seen = [list(fields) for fields in source.fields_seen(*trials)]
        seen[group][:2] = reversed(seen[group][:2])
        return seen

    assert not compiled.layout_matches(types.SimpleNamespace(fields_seen=swapped), source)
    assert compiled.layout_matches(source, source)
