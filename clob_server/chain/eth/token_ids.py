"""Ids of questions, conditions and outcome tokens, computed like the ConditionalTokens contract.

They depend only on texts and addresses, so the chain is not queried. Nested positions (with a
parent collection) are not supported: every market here splits its collateral.
"""

from typing import Final

from clob.signing import keccak256
from clob.signing.signed_struct import read_address

YES: Final = 1
"""Index set of the first outcome."""
NO: Final = 2
"""Index set of the second outcome."""
OUTCOME_SLOTS: Final = 2
"""Number of outcomes of a market."""
WORD_BYTES: Final = 32
"""Length of an id."""
FIELD: Final = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
"""Prime of the curve alt_bn128, whose points the contract uses for collections."""
CURVE_B: Final = 3
"""Constant of the curve y**2 = x**3 + 3."""


def question_id(text: str) -> bytes:
    """Return the Keccak-256 hash of the UTF-8 text of a question.

    >>> question_id("Will it rain?").hex()[:16]
    '5ff0ad25e002cbf2'
    """
    return keccak256(text.encode())


def condition_id(oracle: str, question: bytes, outcome_slots: int = OUTCOME_SLOTS) -> bytes:
    """Return the id of a condition, 32 bytes.

    Args:
        oracle: address that reports the payouts.
        question: the 32 bytes of :func:`question_id`.
        outcome_slots: number of outcomes, 2 to 256.

    Raises:
        InvalidAddressError: the oracle is not an address.
        ValueError: the question is not 32 bytes long.
    """
    return keccak256(
        address_bytes("oracle", oracle) + word("question", question) + uint(outcome_slots)
    )


def collection_id(condition: bytes, index_set: int) -> bytes:
    """Return the id, 32 bytes, of a set of outcomes of a condition, without a parent collection.

    The contract maps the hash to a curve point: the first x after the hash that has a y, and the y
    whose last bit equals the first bit of the hash.

    Args:
        condition: the 32 bytes of :func:`condition_id`.
        index_set: the outcomes, as bits; the first outcome is bit 0.

    Raises:
        ValueError: the condition is not 32 bytes long.
    """
    hashed = int.from_bytes(keccak256(word("condition", condition) + uint(index_set)))
    x, root = hashed, None
    while root is None:
        x = (x + 1) % FIELD
        root = square_root((x * x * x + CURVE_B) % FIELD)
    is_odd = hashed >> 255
    y = root if root % 2 == is_odd else FIELD - root
    return uint(x ^ (y % 2 << 254))


def position_id(collateral: str, collection: bytes) -> int:
    """Return the ERC-1155 token id, below 2**256, of a collection.

    Args:
        collateral: address of the ERC-20 that backs it.
        collection: the 32 bytes of :func:`collection_id`.

    Raises:
        InvalidAddressError: the collateral is not an address.
        ValueError: the collection is not 32 bytes long.
    """
    packed = address_bytes("collateral", collateral) + word("collection", collection)
    return int.from_bytes(keccak256(packed))


def token_ids(collateral: str, condition: bytes) -> tuple[int, int]:
    """Return the ids of the tokens YES (index set 1) and NO (index set 2) of a condition.

    Raises:
        InvalidAddressError: the collateral is not an address.
        ValueError: the condition is not 32 bytes long.
    """
    yes, no = (position_id(collateral, collection_id(condition, part)) for part in (YES, NO))
    return yes, no


def square_root(value: int) -> int | None:
    """Return the contract's square root modulo :data:`FIELD`, or None."""
    root = pow(value, (FIELD + 1) // 4, FIELD)
    return root if root * root % FIELD == value else None


def address_bytes(name: str, address: str) -> bytes:
    """Return the 20 bytes of an address."""
    return bytes.fromhex(read_address(name, address)[2:])


def word(name: str, value: bytes) -> bytes:
    """Return an id after checking its length."""
    if len(value) != WORD_BYTES:
        raise ValueError(f"{name} must be {WORD_BYTES} bytes long; got {len(value)}")
    return value


def uint(number: int) -> bytes:
    """Encode a number as a Solidity uint256."""
    return number.to_bytes(WORD_BYTES)
