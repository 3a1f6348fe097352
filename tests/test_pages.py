"""Commands of pages are run or excluded by a mark with a reason, and links lead somewhere."""

import re
import sys
import tomllib
from urllib.parse import unquote

import pytest

from tests import pictures
from tests.pages import NEEDS, PAGES, ROOT, blocks, explained

PROGRAM = re.compile(
    r"^(\$ |(clob(-server|-client)?|curl|docker|git|make|pip|pytest|python3?|sudo|systemctl) )"
)
RUN_OTHERWISE = ("python", "json", "js")
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^ *```.*\n(?:.*\n)*?^ *```$", re.MULTILINE)
CODE = re.compile(CODE_BLOCK.pattern + r"|`[^`\n]+`", re.MULTILINE)
PARTS = re.compile(r"<!-- needs:")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def excluded(page):
    """Return the commands of a page that its marks exclude, each with its reasons."""
    found = []
    for language, commands, reasons in blocks(page):
        if language == "sh":
            found += [(each, explained(each, reasons)) for each in commands]
    return [(command, reasons) for command, reasons in found if reasons]


def test_list_of_commands_that_no_test_runs():
    """Prints the list with ``pytest -s``."""
    for page in PAGES:
        for command, reasons in excluded(page):
            line = f"{page.relative_to(ROOT)}: {', '.join(reasons)}: {command}\n"
            sys.stdout.write(line)
    used = {each for page in PAGES for _, reasons in excluded(page) for each in reasons}
    assert used == set(NEEDS)


@pages
def test_every_reason_of_a_mark_is_known_and_excludes_a_command(page):
    text = page.read_text()
    marked = [block for block in blocks(page) if block[2]]
    assert len(marked) == len(PARTS.findall(text)) - text.count("`<!-- needs:")
    for language, commands, reasons in marked:
        assert language == "sh"
        assert set(reasons) <= set(NEEDS)
        used = {reason for command in commands for reason in explained(command, reasons)}
        assert used == set(reasons), commands


@pages
def test_commands_are_in_blocks_that_are_run(page):
    for language, commands, _ in blocks(page):
        if language not in ("sh", *RUN_OTHERWISE):
            assert language not in ("bash", "console", "shell")
            assert not [each for each in commands if PROGRAM.match(each)]


def test_installed_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        each for page in PAGES for each in re.findall(r"(?:clob|\.)\[([\w,]+)\]'", page.read_text())
    ]
    assert len(named) > 5
    assert {each for names in named for each in names.split(",")} <= {
        *project["optional-dependencies"]
    }


# ----- links --------------------------------------------------------------------------------------


def anchors(page):
    """Return the anchors of the headings of a page, as MyST and the hosts of repositories do."""
    titles = re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pages
def test_relative_links_lead_to_files_and_headings(page):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


# ----- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", pictures.DRAWN)
def test_picture_equals_the_code(name):
    """After a change of the code, ``python -m tests.pictures`` draws them again."""
    assert (pictures.PICTURES / name).read_text() == pictures.DRAWN[name]()


def test_every_picture_is_on_a_page():
    text = "\n".join(page.read_text() for page in PAGES)
    assert [each.name for each in pictures.PICTURES.iterdir() if each.name not in text] == []
