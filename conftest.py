"""Extends pytest: examples in documents, long tests, and skipped tests that count as failed.

Pages are tests: every ``>>>`` in a fence marked ``python`` is run, and every command in a fence
marked ``sh`` unless a mark excludes it; see tests/pages.py.

A test marked ``long`` runs only with ``CLOB_LONG=1`` or if ``-m`` names the mark.

With ``CLOB_REQUIRE_ALL=1`` a skipped test fails, so that a missing compiler or data file cannot go
unnoticed. It stays skipped if its reason begins with ``not here:``, which marks a test that does
not apply to this machine or implementation.
"""

import doctest
import importlib
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from clob import _build

REQUIRE_ALL = os.environ.get("CLOB_REQUIRE_ALL") == "1"
LONG = os.environ.get("CLOB_LONG") == "1"
NOT_HERE = "not here:"
RECURSION_LIMIT = sys.getrecursionlimit()

SURFACES = ("tests/typing/surface.py", "tests/typing/client_surface.py")
# Files without tests, which must not be imported in search of doctests.
collect_ignore = ["setup.py", "docs/conf.py", *SURFACES]
if not _build.SOURCE_ONLY:
    # The compiled form of these modules is in use; tests/test_doctests.py tests their source.
    collect_ignore += [f"{name.replace('.', '/')}.py" for name in _build.MODULES]

PAGE = "__page__"
"""The page of a document in the namespace of its examples."""


def open_page(namespace: dict[str, Any]) -> None:
    """Make the folder of a page before its examples run."""
    namespace[PAGE] = importlib.import_module("tests.pages").Page()


def close_page(namespace: dict[str, Any]) -> None:
    """Stop the server of a page and remove its folder."""
    namespace[PAGE].close()


def run_commands(example: Example) -> None:
    """Run the commands of a block."""
    example.namespace[PAGE].run_block(example)


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
        CodeBlockParser("sh", run_commands),
    ],
    patterns=["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/*.md", "docs/**/*.md"],
    setup=open_page,
    teardown=close_page,
).pytest()

# In CI, random examples are the same in every run, so that a failure is caused by the change.
DERANDOMIZE = os.environ.get("CI") == "true"
settings.register_profile("short", deadline=None, derandomize=DERANDOMIZE)
settings.register_profile(
    "long", deadline=None, derandomize=DERANDOMIZE, max_examples=1_000, stateful_step_count=100
)
settings.load_profile("long" if LONG else "short")


LONGEST = (
    "test_cluster_faults.py",
    "test_contract.py",
    "test_cluster.py",
    "test_crashes.py",
    "test_simulation.py",
    "test_history.py",
    "test_faults.py",
    "test_matcher_twins.py",
    "test_workers.py",
    "test_switch_crash.py",
    "test_book_machine.py",
    "test_crash.py",
    "test_matcher_machine.py",
    "test_conformance.py",
)
"""Files that take longest on one process. At the end, they would run while the others are idle."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the longest files to the front; deselect the long tests unless they are requested."""
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
    if LONG or "long" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_runtest_setup() -> None:
    """Restore the recursion limit that eth-account raised; see clob.signing.wallet."""
    sys.setrecursionlimit(RECURSION_LIMIT)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure unless its reason begins with ``not here:``."""
    if not REQUIRE_ALL or not report.skipped or hasattr(report, "wasxfail"):
        return
    text = report.longrepr
    reason = (text[2] if isinstance(text, tuple) else str(text)).removeprefix("Skipped: ")
    if not reason.startswith(NOT_HERE):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CLOB_REQUIRE_ALL=1 does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Check the skips of single tests."""
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Check the skips of whole modules."""
    report = yield
    fail_if_skipped(report)
    return report
