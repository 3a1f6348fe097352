"""Rules for the whole source tree: sizes, imports, names and prose.

Imports under ``TYPE_CHECKING`` count; imports inside functions, which are lazy on purpose, do not.
"""

import ast
import functools
import re
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent


def files(*patterns):
    """Return the files of glob patterns, without those of other projects."""
    paths = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path for path in paths if "node_modules" not in path.parts)


PACKAGES = files("clob/**/*.py", "clob_server/**/*.py")
PYTHON = [*PACKAGES, *files("benchmarks/**/*.py", "tests/**/*.py")]
CYTHON = files("clob/**/*.pyx", "clob/**/*.px[di]")
DOCUMENTS = files("*.md", "docs/**/*.md", "benchmarks/**/*.md")
SETTINGS = files("Makefile", "*.toml", "*.in", "setup.py", "conftest.py", "docs/conf.py")

FILE_LINES_MAX = 700
"""Longest .py or .pxi file of a package; a .pyx file may be one unit of C code."""
FUNCTION_LINES_MAX = 70
SMALL_LINES = 60
"""A shorter module with at most one importer belongs into that importer."""
SMALL_WITH_REASON: dict[str, str] = {
    "clob.matcher.compiled": "runs before the modules that it chooses between are imported",
    "clob.testing.conformance.subjects.info": "one module per subject of the checks",
}
"""Short modules with one importer that stay: the reason by module name."""
FOLDER_MODULES_MAX = 20
PROSE_MAX = 4
"""Prose patterns per 1,000 words."""

BANNED = {
    r"\bTODO\b": "finish it, or record it outside the code",
    r"(?i:\bqty\b)": "use size",
    r"(?i:\bquantity\b)": "use size",
}
BANNED_IN_CLOB = {r"\bfloat\(": "amounts are integers"}
BANNED_IN_SERVER = {r"\bclob\._[a-z]|from clob import _": "use public names of clob"}
BANNED_EVERYWHERE = {
    r"(?<![\w.])/(work|root|home)\b": "a path of one machine",
    r"\.\./shared": "only .ci/run knows the folders next to the repository",
}
NAMES_OF_OTHERS = {"ask_qty_at_tick", "bid_qty_at_tick"}
"""Names of libraries that benchmarks compare with."""
ALIASES = ROOT / "clob_server/api/faults.py"
"""Lists names of other interfaces, to suggest the name of this one."""
BANNED_IN_NAMES = {"refus": "reject", "qty": "size", "quantity": "size"}

PROSE = {
    "reject, not refuse": r"\b[Rr]efus(?:e|es|ed|al|als|ing)\b",
    "is none, those who, as it stands, let": (
        r"\b(?:is none|(?:those|one) who|as it (?:stands|is|was)|[Ll]ets?)\b"
    ),
    "what": r"\b[Ww]hat\b",
    "clause that starts with who": (
        r"(?:^|[.;:,]\s+|\b(?:of|to|by|for|from|and|with|but)\s+)[Ww]ho(?:ever|m|se)?\b"
    ),
    "he, him, his": r"\b(?:[Hh]e|[Hh]im|[Hh]is)\b",
    "nobody, whoever, whatever": r"\b(?:[Nn]obody|[Ww]hoever|[Ww]hatever|[Aa]nybody)\b",
    "tell, hear, say, give": r"\b(?:told|[Tt]ells?|[Hh]ears?|[Hh]eard|[Ss]ays?|[Gg]ives?)\b",
    "stand, come, lie, at hand, anew, has it, beside": (
        r"\b(?:stands?|stood|comes? of|came of|lies|let go|at hand|anew|has it|beside)\b"
    ),
}
COMMENT = re.compile(r"(?m)^\s*#\s?(.*)$")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

pytestmark = pytest.mark.skipif(
    not (ROOT / "clob").is_dir(), reason="not here: the package is installed, not in the tree"
)


def name_of(path):
    return str(path.relative_to(ROOT))


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def text_of(path):
    return path.read_text()


class Outline(NamedTuple):
    """The parts of a module that rules are about. All trees at once would take a gigabyte."""

    functions: list[tuple[str, int]]
    """The name and the number of lines of each function."""
    classes: list[str]
    imports: list[str]
    """The dotted names that the module imports, outside functions."""
    docstrings: list[str]


@functools.cache
def outline_of(path):
    tree = ast.parse(text_of(path))
    nodes = list(ast.walk(tree))
    return Outline(
        [(node.name, length_of(node)) for node in nodes if isinstance(node, FUNCTIONS)],
        [node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        list(imported_names(path, tree)),
        [
            node.value.value
            for node in nodes
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ],
    )


def find_banned(paths, banned):
    """Return each banned pattern in the text of the files, with its replacement."""
    return [
        f"{name_of(path)}: {match.group()!r}: {advice}"
        for path in paths
        if path != Path(__file__)
        for pattern, advice in banned.items()
        if (match := re.search(pattern, text_of(path)))
    ]


# ----- sizes -----------------------------------------------------------------------------------


def test_files_are_short():
    parts = [path for path in CYTHON if path.suffix == ".pxi"]
    lengths = {name_of(path): text_of(path).count("\n") for path in [*PACKAGES, *parts]}
    assert not {name: length for name, length in lengths.items() if length > FILE_LINES_MAX}


def length_of(function):
    """Return the number of lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function):
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def test_functions_are_short():
    assert not [
        f"{name_of(path)}: {name}: {lines} lines"
        for path in PYTHON
        for name, lines in outline_of(path).functions
        if lines > FUNCTION_LINES_MAX
    ]


def test_folders_are_narrow():
    counts = defaultdict(int)
    for path in PACKAGES:
        counts[name_of(path.parent)] += 1
    assert not {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX}


# ----- imports ---------------------------------------------------------------------------------


def outside_functions(node):
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from outside_functions(child)


def imported_names(path, tree):
    """Return the dotted names that a module imports."""
    for node in outside_functions(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(path)}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph():
    """Map each module of the packages to the modules of the packages that it imports."""
    modules = {module_of(path): path for path in PACKAGES}
    graph = {}
    for module, path in modules.items():
        graph[module] = set()
        for name in outline_of(path).imports:
            if re.search(r"\._[a-z]+_c\b", name):  # a compiled twin; its Python twin counts
                continue
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name and name != module:
                graph[module].add(name)
    return graph


def circles(graph):
    """Return the groups of nodes that reach each other."""
    reach = {node: set() for node in graph}
    for node, reached in reach.items():
        stack = [node]
        while stack:
            new = graph.get(stack.pop(), set()) - reached
            reached |= new
            stack += new
    return {
        frozenset(other for other in reach[node] if node in reach.get(other, ()))
        for node in graph
        if node in reach[node]
    }


def sibling_graph(graph, package):
    """Return the imports between the children of a package, each with all it contains."""
    siblings = defaultdict(set)
    for module, imported in graph.items():
        for other in imported:
            if module.startswith(f"{package}.") and other.startswith(f"{package}."):
                child, sibling = (
                    name.removeprefix(f"{package}.").partition(".")[0] for name in (module, other)
                )
                siblings[child] |= {sibling} - {child}
    return siblings


def test_no_circle_of_modules():
    assert not [sorted(circle) for circle in circles(import_graph())]


def test_no_circle_of_folders():
    graph = import_graph()
    packages = {module_of(path.parent) for path in PACKAGES}
    cycles = {package: circles(sibling_graph(graph, package)) for package in sorted(packages)}
    assert not {
        package: [sorted(c) for c in groups] for package, groups in cycles.items() if groups
    }


def test_every_folder_is_a_package():
    folders = {path.parent for path in PACKAGES}
    assert not [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_short_modules_have_several_importers():
    counts = defaultdict(int)
    for imported in import_graph().values():
        for name in imported:
            counts[name] += 1
    assert not [
        name_of(path)
        for path in PACKAGES
        if path.name not in ("__init__.py", "__main__.py")
        and text_of(path).count("\n") < SMALL_LINES
        and counts[module_of(path)] <= 1
        and module_of(path) not in SMALL_WITH_REASON
    ]


# ----- names -----------------------------------------------------------------------------------


def test_class_names_are_unique():
    modules = defaultdict(list)
    for path in PACKAGES:
        for name in outline_of(path).classes:
            if not name.startswith("_"):
                modules[name].append(module_of(path))
    assert not {name: names for name, names in modules.items() if len(names) > 1}


def names_in(path):
    """Return the identifiers of a file."""
    if path.suffix == ".py":
        with tokenize.open(path) as file:
            tokens = list(tokenize.generate_tokens(file.readline))
        return {token.string for token in tokens if token.type == tokenize.NAME}
    code = re.sub(r'""".*?"""|"[^"\n]*"|#.*', "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"[A-Za-z_]\w*", code))


def test_names_use_the_words_of_the_field():
    assert not [
        f"{name_of(path)}: {name}: use {advice}"
        for path in [*PYTHON, *CYTHON]
        for word, advice in BANNED_IN_NAMES.items()
        if word in text_of(path).lower() and path != Path(__file__)
        for name in sorted(names_in(path))
        if word in name.lower() and name not in NAMES_OF_OTHERS
    ]


def test_banned_words_are_absent():
    code = [*PYTHON, *CYTHON]
    clob = [path for path in code if path.is_relative_to(ROOT / "clob")]
    server = [path for path in code if path.is_relative_to(ROOT / "clob_server")]
    own = [path for path in code if path != ALIASES]
    assert not find_banned(own, BANNED)
    assert not find_banned(clob, BANNED_IN_CLOB)
    assert not find_banned(server, BANNED_IN_SERVER)


def test_no_path_of_one_machine():
    assert not find_banned([*PYTHON, *CYTHON, *DOCUMENTS, *SETTINGS], BANNED_EVERYWHERE)


# ----- prose -----------------------------------------------------------------------------------


def test_first_line_describes_the_module():
    begin = {".py": r'"""\S', ".pyx": r'(# cython: .*\n)?"""\S', ".pxi": r"# \S", ".pxd": r"# \S"}
    paths = [*PYTHON, *CYTHON]
    assert not [name_of(path) for path in paths if not re.match(begin[path.suffix], text_of(path))]


def prose_of(path):
    """Return the documentation of a file: a document, or docstrings and comments."""
    text = text_of(path)
    if path.suffix == ".md":
        return [text]
    if path.suffix != ".py":
        return [*re.findall(r'"""(.*?)"""', text, re.DOTALL), *COMMENT.findall(text)]
    return [*outline_of(path).docstrings, *COMMENT.findall(text)]


def without_code(text):
    """Remove code, tables and examples from a text."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"``?[^`]*``?", "X", text)
    return re.sub(r"(?m)^\s*(\||>>>|\.\.\.).*$", "", text)


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param([*PACKAGES, *CYTHON, *files("benchmarks/**/*.py")], id="code"),
        pytest.param(DOCUMENTS, id="documents"),
    ],
)
def test_prose_is_plain(paths):
    text = "\n".join(without_code(part) for path in paths for part in prose_of(path))
    per_word = 1_000 / max(len(text.split()), 1)
    rates = {
        pattern: round(len(re.findall(regex, text, re.MULTILINE)) * per_word, 1)
        for pattern, regex in PROSE.items()
    }
    assert sum(rates.values()) <= PROSE_MAX, rates
