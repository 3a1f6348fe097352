"""What pytest needs beyond its settings: examples of the docs, long tests, skips that count.

README.md and docs/**/*.md are tests: every ``>>>`` in a fence marked ``python`` is run.

A test marked ``long`` is left out unless the environment says ``CLOB_LONG=1`` or ``-m`` names the
mark.

With ``CLOB_REQUIRE_ALL=1`` a skipped test is a failed one, so that a missing compiler or data file
cannot go unnoticed. A reason that begins with ``not here:`` says that the test makes no sense on
this machine or this implementation, and stays a skip.
"""

import doctest
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

REQUIRE_ALL = os.environ.get("CLOB_REQUIRE_ALL") == "1"
LONG = os.environ.get("CLOB_LONG") == "1"
NOT_HERE = "not here:"
RECURSION_LIMIT = sys.getrecursionlimit()

# Not tests, and not to be imported in search of doctests.
collect_ignore = ["setup.py", "docs/conf.py", "tests/typing/surface.py"]

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS)],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()

# A red build must mean the change and not the draw, so the seeds are fixed there.
DERANDOMIZE = os.environ.get("CI") == "true"
settings.register_profile("short", deadline=None, derandomize=DERANDOMIZE)
settings.register_profile(
    "long", deadline=None, derandomize=DERANDOMIZE, max_examples=1_000, stateful_step_count=100
)
settings.load_profile("long" if LONG else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless they were asked for."""
    if LONG or "long" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def pytest_runtest_setup() -> None:
    """Take back the recursion limit that eth-account raised, for which see clob.signing.wallet."""
    sys.setrecursionlimit(RECURSION_LIMIT)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure, unless its reason begins with ``not here:``."""
    if not REQUIRE_ALL or not report.skipped or hasattr(report, "wasxfail"):
        return
    where = report.longrepr
    reason = (where[2] if isinstance(where, tuple) else str(where)).removeprefix("Skipped: ")
    if not reason.startswith(NOT_HERE):
        report.outcome = "failed"
        report.longrepr = f"CLOB_REQUIRE_ALL=1, and this was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at the skips of single tests."""
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Look at the skips of whole modules."""
    report = yield
    fail_if_skipped(report)
    return report
