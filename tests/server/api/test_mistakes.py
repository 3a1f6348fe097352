"""Each mistake of the page is answered as the page states, by a real server."""

import re

import pytest

from tests.server.api.makers import words_of_python
from tests.server.api.mistakes import MISTAKES, PAGE, World, answer_of, row_of, servers

EACH = [(section, *each) for section, mistakes in MISTAKES.items() for each in mistakes]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    test, production = servers(tmp_path_factory.mktemp("mistakes"))
    with test as one, production as other:
        yield World(one, other)


def section_of(name):
    """Return the rows of a section of the page."""
    text = PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    return text.splitlines()


@pytest.mark.parametrize(
    ("section", "mistake", "request_text", "ask"),
    EACH,
    ids=lambda each: None if callable(each) else str(each)[:40],
)
def test_answer_to_a_mistake_is_that_of_the_page(world, section, mistake, request_text, ask):
    answer = answer_of(ask(world))
    assert row_of(mistake, request_text, answer) in section_of(section)
    assert not words_of_python(answer.text)


def test_page_has_no_other_rows_and_at_least_sixty():
    rows = [
        line for line in PAGE.read_text().splitlines() if re.match(r"\| (?!Mistake)[A-Z0-9]", line)
    ]
    assert len(rows) == len(EACH) >= 60
