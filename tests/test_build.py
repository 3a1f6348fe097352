"""Compiled modules: none is stale, and all modules of the set run compiled or all from source."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clob import _build
from clob.matcher import compiled
from tests import matchers

CLOB = Path(_build.__file__).parent
BUILT = CLOB / "_built.json"

SHOW_FILES = """
import importlib, sys
from clob import _build
import clob.matcher
files = [importlib.import_module(name).__file__ for name in _build.MODULES]
print(*sorted({"source" if file.endswith(".py") else "compiled" for file in files}))
matcher = clob.Matcher()
order = clob.Order(id="a", token="y", maker="m", side=clob.Side.BUY, price=50, size=60)
matcher.add_market(clob.Market(id="x", yes="y", no="n"))
assert len(matcher.submit("x", order)) == 1
"""
"""Prints which kinds of modules are in use, and submits an order."""

needs_build = pytest.mark.skipif(not compiled.COMPILED, reason="the set is not compiled")


def source_hash(module):
    """Return the hash of a module's sources as setup.py writes it."""
    stem = CLOB.parent.joinpath(*module.split("."))
    sources = [stem.with_suffix(suffix) for suffix in (".pyx", ".py", ".pxd")]
    if sources[0].exists():
        sources += sorted(stem.parent.glob("*.pxi"))
    text = b"".join(path.read_bytes() for path in sources if path.exists())
    return hashlib.sha256(text).hexdigest()


def kinds_in_use(folder, before="", **environment):
    """Return the output of SHOW_FILES, run with the package in a folder."""
    result = subprocess.run(
        [sys.executable, "-c", before + SHOW_FILES],
        cwd=folder,
        env={**os.environ, "CLOB_PURE_PYTHON": "0", "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    """A copy of the package whose files can be removed or replaced."""
    shutil.copytree(
        CLOB,
        tmp_path / "clob",
        copy_function=os.symlink,
        ignore=shutil.ignore_patterns("*.c", "__pycache__"),
    )
    return tmp_path


def test_compiled_modules_match_their_sources():
    if not BUILT.exists():
        pytest.skip("nothing is built")
    built = json.loads(BUILT.read_text())
    stale = [module for module, expected in built.items() if source_hash(module) != expected]
    assert not stale, f"build again (setup.py build_ext --inplace), these are stale: {stale}"


@needs_build
def test_complete_set_runs_compiled(copy):
    assert kinds_in_use(copy) == "compiled"


@needs_build
def test_environment_variable_selects_the_source(copy):
    assert kinds_in_use(copy, CLOB_PURE_PYTHON="1") == "source"


@needs_build
@pytest.mark.parametrize("missing", ["matcher/engine", "replay/sim/session"])
def test_missing_module_makes_the_whole_set_run_from_source(copy, missing):
    for path in copy.glob(f"clob/{missing}.*.so"):
        path.unlink()
    assert kinds_in_use(copy) == "source"


@needs_build
def test_struct_of_another_size_makes_the_whole_set_run_from_source(copy):
    commands = copy / "clob/commands.py"
    text = commands.read_text()
    commands.unlink()
    field = "    order_id: str | int\n"
    assert field in text
    commands.write_text(text.replace(field, f"    an_added_field: int = 0\n{field}", 1))
    assert kinds_in_use(copy) == "source"


@needs_build
def test_struct_of_another_layout_makes_the_whole_set_run_from_source(copy):
    other_layout = """
from types import SimpleNamespace
from clob import _build
_build.load_source = lambda name: SimpleNamespace(read_fields=lambda *structs: [structs])
"""
    assert kinds_in_use(copy, before=other_layout) == "source"


@needs_build
def test_both_kinds_load_in_one_process():
    engine = matchers.from_source("clob.matcher.engine")
    accounts = matchers.from_source("clob.matcher.accounts")
    assert engine.__file__.endswith("engine.py")
    assert accounts.__file__.endswith("accounts.py")
    from clob.matcher import engine as in_use  # noqa: PLC0415 - after the source was loaded

    assert not in_use.__file__.endswith(".py")
    assert in_use.Engine is not engine.Engine


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("clob.replay", "numpy", "replay"),
        ("clob.client", "websockets", "client"),
        ("clob.testing", "hypothesis", "testing"),
        ("clob.live", "httpx", "client,replay"),
    ],
)
def test_import_without_a_package_names_the_extra(module, package, extra):
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"try:\n    import {module}\nexcept ImportError as error:\n    print(error)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    expected = f'{module} needs {package}, which is not installed: pip install "clob[{extra}]"\n'
    assert done.stdout == expected
