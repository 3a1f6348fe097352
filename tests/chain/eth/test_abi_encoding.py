"""The fast encoder returns the same bytes as eth-abi."""

import pytest
from eth_abi import encode as codec
from hypothesis import given
from hypothesis import strategies as st

from clob.signing.secp import checksummed
from clob_server.chain.eth.abi import AbiError, encode, plainly

VALUES = {
    "uint256": st.integers(0, 2**256 - 1),
    "address": st.binary(min_size=20, max_size=20).map(checksummed),
    "bytes32": st.binary(min_size=32, max_size=32),
    "bytes": st.binary(max_size=100),
}
VALUES |= {
    f"{kind}[]": st.lists(VALUES[kind], max_size=4) for kind in ("uint256", "address", "bytes32")
}
ARGUMENTS = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])),
    max_size=6,
)
ADDRESS = "0x5FbDB2315678afecb367f032d93F642f64180aa3"


@given(ARGUMENTS)
def test_plain_types_equal_eth_abi(arguments):
    kinds, values = [kind for kind, _ in arguments], [value for _, value in arguments]
    assert plainly(kinds, values) == codec(kinds, values) == encode(kinds, values)


NOT_PLAIN = [
    ("uint8", 1),
    ("bool", True),
    ("string", "text"),
    ("address", ADDRESS.lower()),
    ("address", ADDRESS.replace("F", "f")),
    ("address", bytes(20)),
    ("bytes32", b"short"),
    ("bytes", bytearray(b"\1")),
    ("uint256[]", [[1]]),
    ("uint256[2]", [1, 2]),
]


@pytest.mark.parametrize(("kind", "value"), NOT_PLAIN, ids=str)
def test_other_values_are_left_to_eth_abi(kind, value):
    assert plainly([kind], [value]) is None


INVALID = [
    ("uint256", -1),
    ("uint256", 2**256),
    ("uint256", True),
    ("uint256", "1"),
    ("address", "0x"),
    ("bytes32", bytes(33)),
    ("bytes", "0x01"),
    ("uint256[]", [1, -1]),
    ("uint256[]", None),
    ("address[]", [None]),
]


@pytest.mark.parametrize(("kind", "value"), INVALID, ids=str)
def test_invalid_values_are_rejected(kind, value):
    with pytest.raises(AbiError):
        encode([kind], [value])


def test_wrong_number_of_values_is_rejected():
    for values in ([], [1, 2]):
        with pytest.raises((AbiError, ValueError)):
            encode(["uint256"], values)
