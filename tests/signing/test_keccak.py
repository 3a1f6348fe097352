"""Keccak-256 and EIP-55 checksums against other libraries and known values."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest
from eth_utils import to_checksum_address

from clob.signing import keccak, secp
from tests.signing.helpers import reference_keccak

KNOWN = {
    b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
    # The first four bytes are the known selector of transfer.
    b"transfer(address,uint256)": (
        "a9059cbb2ab09eb219583f4a59a5d0623ade346d962bcd4e46b11da047c9049b"
    ),
}
RATE = 136
"""Block size of the sponge, in bytes."""

EIP_55 = (
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)
"""The examples of the standard."""


@pytest.fixture(params=[secp.keccak256, keccak.hash_of], ids=["in use", "pycryptodome"])
def keccak256(request):
    return request.param


@pytest.mark.parametrize("data", KNOWN, ids=["empty", "abc", "transfer"])
def test_known_hashes(keccak256, data):
    assert keccak256(data).hex() == KNOWN[data]


def test_hashes_of_every_length_match_another_library(keccak256):
    rng = random.Random(136)
    blocks = [RATE * count + off for count in range(1, 12) for off in (-1, 0, 1)]
    for length in [*range(701), 1000, 4096, 10_000, *blocks]:
        data = rng.randbytes(length)
        assert keccak256(data) == reference_keccak(data), length


@pytest.mark.parametrize("fill", [b"\0", b"\x01", b"\x80", b"\xff"], ids=bytes.hex)
def test_bytes_that_look_like_padding(keccak256, fill):
    for length in range(RATE - 3, RATE + 4):
        assert keccak256(fill * length) == reference_keccak(fill * length)


def test_hashes_are_independent(keccak256):
    first = keccak256(b"first")
    keccak256(b"x" * 1000)
    assert keccak256(b"first") == first == reference_keccak(b"first")


@pytest.mark.parametrize("data", [None, "", "abc", 0, 5, [], False], ids=repr)
def test_hashing_other_types_raises(keccak256, data):
    with pytest.raises(TypeError):
        keccak256(data)


@pytest.mark.parametrize("address", EIP_55)
def test_the_examples_of_eip_55(backend, address):
    assert backend.checksummed(bytes.fromhex(address[2:])) == address


def test_checksums_match_another_library(backend):
    rng = random.Random(55)
    for raw in (rng.randbytes(20) for _ in range(2000)):
        assert backend.checksummed(raw) == to_checksum_address(raw)
