"""Version and date of the release, which have one source, and the programs that build it."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import clob

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    not (ROOT / "CITATION.cff").is_file(), reason="not here: the package is not in the tree"
)


def field(name):
    """Return a field of CITATION.cff."""
    found = re.search(rf"^{name}: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_all_files_name_the_version_of_the_package():
    changelog = re.findall(
        r"^## ([\d.]+) \(([\d-]+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert changelog[0] == (clob.__version__, field("date-released"))
    assert field("version") == clob.__version__
    asyncapi = msgspec.json.decode((ROOT / "clob_server/web/asyncapi.json").read_bytes())
    assert asyncapi["info"]["version"] == clob.__version__


def test_the_package_has_no_other_source_of_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "clob.__version__"}


def test_the_page_of_platforms_lists_each_configured_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheels = project["tool"]["cibuildwheel"]
    page = (ROOT / "docs/reference/platforms.md").read_text()
    for system in ("linux", "macos", "windows"):
        for machine in wheels[system]["archs"]:
            assert re.search(rf"(?i)^\| {system}\b.*\b{machine}\b", page, re.MULTILINE)
    for python in wheels["build"]:
        version = re.sub(r"cp(\d)(\d+)-\*", r"\1.\2", python)
        assert version in page
