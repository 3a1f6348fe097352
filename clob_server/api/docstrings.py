"""The docstrings beneath the fields of a class, for published schemas and ``--help``."""

import ast
import inspect
import sys
from functools import cache


def field_texts(kind: type) -> dict[str, str]:
    """Return the docstring of each field of a class and its bases, each as one line.

    The docstrings are the string literals that follow the annotated fields in the source.
    """
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        texts |= _texts_in(each.__module__).get(each.__name__, {})
    return texts


@cache
def _texts_in(module: str) -> dict[str, dict[str, str]]:
    """Return the field docstrings of every class of a module; parses its source once."""
    if module == "builtins" or module.partition(".")[0] == "msgspec":
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: _own_texts(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def _own_texts(tree: ast.ClassDef) -> dict[str, str]:
    texts = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts
