"""Canonical bytes never change: the encodings stored here must stay the same.

A change that breaks this test makes existing journals unreadable or changes their hashes. New
fields and kinds therefore need a new layout version, and a reader of the old one.
"""

from pathlib import Path

import pytest

from clob.codec.layout import KINDS, LAYOUT_VERSION
from tests.journal.values import ONE_OF_EACH

GOLDEN = dict(
    line.split() for line in Path(__file__).with_name("golden_bytes.txt").read_text().splitlines()
)
"""Bytes of one value of each kind, by the name of the kind."""

NUMBERED = list(zip(ONE_OF_EACH, (*range(1, 20), *range(64, 70)), strict=True))
"""One value of each kind with its number."""


def test_every_kind_has_golden_bytes():
    assert LAYOUT_VERSION == 2
    assert list(GOLDEN) == [kind.__name__ for kind in KINDS.values()]


@pytest.mark.parametrize(("value", "number"), NUMBERED, ids=list(GOLDEN))
def test_commands_and_events_keep_their_bytes(any_codec, value, number):
    raw = bytes.fromhex(GOLDEN[type(value).__name__])
    assert raw[0] == number
    assert any_codec.encode(value) == raw
    assert any_codec.decode(raw) == value
