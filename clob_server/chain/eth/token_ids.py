"""Ids of questions, conditions and outcome tokens, as the ConditionalTokens contract computes them.

They are a function of texts and addresses, so no chain is asked. Positions that split other
positions (a parent collection) are not covered: a market here splits its collateral.
"""

from typing import Final

from clob.signing import keccak256
from clob.signing.signed_struct import read_address

YES: Final = 1
"""The index set of the first outcome."""
NO: Final = 2
"""The index set of the second outcome."""
OUTCOME_SLOTS: Final = 2
"""How many outcomes a market has."""
WORD_BYTES: Final = 32
"""How long an id is."""
FIELD: Final = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
"""The prime of the curve alt_bn128, whose points the contract takes for collections."""
CURVE_B: Final = 3
"""The constant of that curve, y**2 = x**3 + 3."""


def question_id(text: str) -> bytes:
    """Name a question by the Keccak-256 of its UTF-8.

    Args:
        text: the question, in any words.

    Returns:
        32 bytes.

    >>> question_id("Will it rain?").hex()[:16]
    '5ff0ad25e002cbf2'
    """
    return keccak256(text.encode())


def condition_id(oracle: str, question: bytes, outcome_slots: int = OUTCOME_SLOTS) -> bytes:
    """Name a condition: a question, who answers it, and among how many outcomes.

    Args:
        oracle: the address that reports the payouts.
        question: the 32 bytes of :func:`question_id`.
        outcome_slots: how many outcomes, 2 to 256.

    Returns:
        32 bytes.

    Raises:
        InvalidAddressError: the oracle is no address.
        ValueError: the question is not 32 bytes long.
    """
    return keccak256(
        address_bytes("oracle", oracle) + word("question", question) + uint(outcome_slots)
    )


def collection_id(condition: bytes, index_set: int) -> bytes:
    """Name a set of outcomes of a condition, below no other collection.

    The contract makes a point of the curve of it: the first x from the hash on that has a y, and
    the y whose last bit is the first of the hash.

    Args:
        condition: the 32 bytes of :func:`condition_id`.
        index_set: the outcomes, as bits; the first outcome is bit 0.

    Returns:
        32 bytes.

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
    """Name the token that stands for a collection, backed by a collateral.

    Args:
        collateral: the address of the ERC-20.
        collection: the 32 bytes of :func:`collection_id`.

    Returns:
        The ERC-1155 id, below 2**256.

    Raises:
        InvalidAddressError: the collateral is no address.
        ValueError: the collection is not 32 bytes long.
    """
    packed = address_bytes("collateral", collateral) + word("collection", collection)
    return int.from_bytes(keccak256(packed))


def token_ids(collateral: str, condition: bytes) -> tuple[int, int]:
    """Name both outcome tokens of a market.

    Args:
        collateral: the address of the ERC-20 that backs them.
        condition: the 32 bytes of :func:`condition_id`.

    Returns:
        The ids of YES (index set 1) and NO (index set 2), below 2**256 each.

    Raises:
        InvalidAddressError: the collateral is no address.
        ValueError: the condition is not 32 bytes long.
    """
    yes, no = (position_id(collateral, collection_id(condition, part)) for part in (YES, NO))
    return yes, no


def square_root(value: int) -> int | None:
    """Give the root that the contract computes, modulo :data:`FIELD`; None where there is none."""
    root = pow(value, (FIELD + 1) // 4, FIELD)
    return root if root * root % FIELD == value else None


def address_bytes(name: str, address: str) -> bytes:
    """Give the 20 bytes of an address."""
    return bytes.fromhex(read_address(name, address)[2:])


def word(name: str, value: bytes) -> bytes:
    """Give an id as it is, if it is as long as one."""
    if len(value) != WORD_BYTES:
        raise ValueError(f"{name} is {len(value)} bytes long, not {WORD_BYTES}")
    return value


def uint(number: int) -> bytes:
    """Write a number as Solidity packs an uint256."""
    return number.to_bytes(WORD_BYTES)
