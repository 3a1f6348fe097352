"""The compiled matcher reads Structs from memory, and is used only if the layout matches."""

import importlib
import types

import pytest

from clob import _build
from clob.matcher import compiled

NAME = "clob.matcher.entities"


def test_compiled_entities_read_the_same_fields_as_source():
    if not compiled.COMPILED:
        pytest.skip("the compiled matcher is not built")
    assert compiled.layout_matches(importlib.import_module(NAME), _build.load_source(NAME))


@pytest.mark.parametrize("group", range(11))
def test_swapped_fields_do_not_match_the_layout(group):
    source = _build.load_source(NAME)

    def swapped(*trials):
        seen = [list(fields) for fields in source.read_fields(*trials)]
        seen[group][:2] = reversed(seen[group][:2])
        return seen

    assert not compiled.layout_matches(types.SimpleNamespace(read_fields=swapped), source)
    assert compiled.layout_matches(source, source)
