"""House rules that no linter knows, checked like any other behaviour."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = sorted(
    path
    for folder in ("clob", "clob_server", "benchmarks", "tests")
    for path in ROOT.glob(f"{folder}/**/*.py")
    if "node_modules" not in path.parts
)
CYTHON = sorted(ROOT.glob("clob/**/*.pyx"))
TEXTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
SETTINGS = [ROOT / name for name in ("Makefile", "pyproject.toml", "setup.py", "conftest.py")]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
BANNED = {
    r"\bTODO\b": "finish it, or write it down outside the code",
    r"(?i:\bqty\b)": "say size",
    r"(?i:\bquantity\b)": "say size",
}
BANNED_IN_THE_PACKAGE = {r"\bfloat\(": "amounts are integers"}
BANNED_IN_THE_SERVER = {r"\bclob\._[a-z]|from clob import _": "use public names of clob"}
BANNED_EVERYWHERE = {
    r"(?<![\w.])/(work|root|home)\b": "a path of one machine",
    r"\.\./shared": "only .ci/run knows what lies beside the repository",
}
pytestmark = pytest.mark.skipif(
    not (ROOT / "clob").is_dir(), reason="not here: the package is installed, not beside the tests"
)


def name(path):
    return str(path.relative_to(ROOT))


def refuse(path, banned):
    if path == Path(__file__):
        return
    text = path.read_text()
    for pattern, instead in banned.items():
        found = re.search(pattern, text)
        assert not found, f"{name(path)}: {found.group()!r}: {instead}"


def length(function):
    """Lines of a function without its docstring, which may be as long as it is useful."""
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function):
        lines -= first.end_lineno - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", [*PYTHON, *CYTHON], ids=name)
def test_first_line_says_what_lives_here(path):
    # Cython wants its directives first.
    assert re.match(r'(# cython: .*\n)?"""\S', path.read_text())


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_file_is_short(path):
    assert len(path.read_text().splitlines()) < FILE_LINES_MAX


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert length(node) <= FUNCTION_LINES_MAX, f"{name(path)}: {node.name}"


@pytest.mark.parametrize("path", [*PYTHON, *CYTHON], ids=name)
def test_words_are_the_fields(path):
    in_package = path.is_relative_to(ROOT / "clob")
    refuse(path, BANNED | (BANNED_IN_THE_PACKAGE if in_package else {}))
    if path.is_relative_to(ROOT / "clob_server"):
        refuse(path, BANNED_IN_THE_SERVER)


@pytest.mark.parametrize("path", [*PYTHON, *CYTHON, *TEXTS, *SETTINGS], ids=name)
def test_no_path_of_one_machine(path):
    refuse(path, BANNED_EVERYWHERE)
