"""API keys: generation and lookup."""

import hashlib
import re

import pytest

from clob_server.auth.api_keys import find_key, new_key
from clob_server.core.commands import ApiKey


def stored(key_id, hashed):
    return ApiKey(
        id=key_id,
        hash=hashed,
        name="k",
        environment="test",
        scopes=("read",),
        makers=(),
        created_ms=1,
    )


def test_new_key_has_an_id_and_32_random_bytes_and_a_hash():
    key_id, whole, hashed = new_key()
    assert re.fullmatch(r"clob_([0-9a-f]{12})_[0-9a-f]{64}", whole)[1] == key_id
    assert hashed == hashlib.sha256(whole.encode()).digest()
    assert len({new_key()[1] for _ in range(100)}) == 100


def test_find_key_matches_the_whole_key():
    (key_id, whole, hashed), other = new_key(), new_key()
    keys = {key_id: stored(key_id, hashed), other[0]: stored(other[0], other[2])}
    assert find_key(whole.encode(), keys) is keys[key_id]


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: "",
        lambda whole: whole[:-1],
        lambda whole: whole + "0",
        lambda whole: whole.upper(),
        lambda whole: whole[:-1] + ("0" if whole[-1] != "0" else "1"),
        lambda whole: "clob_000000000000" + whole[17:],
        lambda whole: "club_" + whole[5:],
        lambda whole: whole[:17] + "-" + whole[18:],
        lambda whole: " " + whole[:-1],
        lambda whole: "é" * 41,
        lambda whole: "\x00" * len(whole),
    ],
)
def test_find_key_returns_none_for_anything_else(change):
    key_id, whole, hashed = new_key()
    assert find_key(change(whole).encode(), {key_id: stored(key_id, hashed)}) is None
