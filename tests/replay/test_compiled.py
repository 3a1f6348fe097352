"""Compiled replay modules and their Python sources have the same names, and are used as a set."""

import importlib
import inspect

import pytest

from clob import _build
from tests.matchers import from_source

NAMES = sorted(name for name in _build.MODULES if name.startswith("clob.replay."))


def classes(module):
    """Return the public classes that a module defines."""
    return {
        name: kind
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and name[0] != "_"
    }


def surface(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_compiled_classes_have_the_names_of_their_source(name):
    compiled = importlib.import_module(name)
    if _build.SOURCE_ONLY:
        pytest.skip("the compiled modules are not in use")
    assert not compiled.__file__.endswith(".py")
    source = from_source(name)
    assert classes(source).keys() == classes(compiled).keys()
    for each, kind in classes(source).items():
        # A Python class does not list its instance attributes, so it may have fewer names.
        assert surface(kind) <= surface(getattr(compiled, each))


@pytest.mark.parametrize("name", NAMES)
def test_source_is_used_if_requested_or_if_a_compiled_module_is_missing(name):
    if not _build.SOURCE_ONLY:
        pytest.skip("not here: the compiled modules are in use")
    assert importlib.import_module(name).__file__.endswith(".py")
