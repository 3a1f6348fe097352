"""Fixture of the reader tests: dumps of JSON lines."""

import json

import pytest


@pytest.fixture
def dump(tmp_path):
    """Write messages, one per line, and return the path."""

    def write(*rows, name="dump.jsonl"):
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write
