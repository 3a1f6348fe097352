"""Version and date of the release, which have one source, and the programs that build it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import msgspec
import pytest

import clob
from tests.release import wheels
from tests.release.environments import ReleaseError

ROOT = Path(__file__).parents[2]

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


# ----- programs ---------------------------------------------------------------------

PAGE = """# A page

```python
>>> price = 50
>>> price + 1
{result}

```

```sh
echo "{word}" | grep known
clob record http://127.0.0.1:8000
```
"""


def follow(folder, **words):
    """Follow a page in a folder; return exit code and output."""
    page = folder / "page.md"
    page.write_text(PAGE.format(**words))
    command = [sys.executable, ROOT / "tests" / "release" / "follow_page.py", page, "clob.whl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_page_whose_examples_and_commands_succeed_is_followed(tmp_path):
    code, output = follow(tmp_path, result=51, word="known")
    assert code == 0
    assert "not run: clob record http://127.0.0.1:8000: runs until it is stopped" in output
    assert output.endswith("0 pip, 2 shell, 1 python, 1 not run\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"result": 52, "word": "known"}, "Expected:\n    52\nGot:\n    51\n"),
        ({"result": 51, "word": "other"}, "exit code 1"),
    ],
)
def test_page_with_a_wrong_result_or_a_failing_command_fails(tmp_path, words, expected):
    code, output = follow(tmp_path, **words)
    assert code == 1
    assert expected in output


def test_tests_that_a_wheel_is_not_proved_by_exist():
    for name in (*wheels.IGNORED, *wheels.DESELECTED):
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not function or f"def {function}(" in (ROOT / path).read_text(), name


def make_wheel(folder, *names):
    """Write a wheel that has a file for each required pattern, and further names."""
    path = folder / "clob.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*wheels.REQUIRED, *names):
            archive.writestr(name.replace("*", "a"), "")
    return path


def test_wheel_with_all_files_is_accepted(tmp_path):
    wheels.check_files(make_wheel(tmp_path))


@pytest.mark.parametrize("name", ["tests/test_book.py", "clob/book/_book_c.c"])
def test_wheel_with_tests_or_sources_in_c_is_rejected(tmp_path, name):
    wheel = make_wheel(tmp_path, name)
    with pytest.raises(ReleaseError, match=f"surplus .*{name}"):
        wheels.check_files(wheel)


def test_wheel_without_a_required_file_is_rejected(tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(wheels, "REQUIRED", (*wheels.REQUIRED, "clob/other.typed"))
    with pytest.raises(ReleaseError, match=r"missing \['clob/other.typed'\]"):
        wheels.check_files(wheel)
