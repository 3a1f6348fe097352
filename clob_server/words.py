"""What is said of the fields of a struct: the texts that stand beneath them in the source."""

import ast
import inspect
import sys
from functools import cache


def field_texts(kind: type) -> dict[str, str]:
    """Give what is said of each field of a class, its bases' included, each in one line.

    Args:
        kind: a class of a module whose source is there; each text stands beneath its field.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= texts_in(each.__module__).get(each.__name__, {})
    return found


@cache
def texts_in(module: str) -> dict[str, dict[str, str]]:
    """Give the same for every class of a module. It reads the source, once."""
    if module == "builtins" or module.partition(".")[0] == "msgspec":
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: own_texts(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def own_texts(described: ast.ClassDef) -> dict[str, str]:
    """Give what is said of the fields that a class itself has."""
    found = {}
    for field, text in zip(described.body, described.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found
