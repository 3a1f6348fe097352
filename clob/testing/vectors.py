"""Golden vectors: signed orders with their hashes, unusable signatures, and prices of amounts.

The values were computed by eth-account and by fractions, not by this package;
``tests/testing/make_vectors.py`` of the source tree writes them.
"""

from importlib import resources
from typing import Any

import msgspec

from clob.signing import Domain, SignedOrder

FILE = "vectors.json"


class OrderVector(msgspec.Struct, frozen=True, rename="camel"):
    """A signed order."""

    name: str
    """Subject of the vector."""
    domain: dict[str, Any]
    """EIP-712 domain: ``name``, ``version``, ``chainId``, ``verifyingContract``."""
    key: str
    """Private key of the signer, a public test key."""
    body: dict[str, Any]
    """The order in the names of the interface, with its signature."""
    order_hash: str
    """EIP-712 hash, 0x and 64 hex digits."""

    def signed_order(self) -> SignedOrder:
        """Return the order."""
        return SignedOrder.from_json(self.body)

    def signing_domain(self) -> Domain:
        """Return the domain."""
        domain = self.domain
        return Domain(
            domain["name"],
            domain["version"],
            domain["chainId"],
            domain.get("verifyingContract"),
        )


class SignatureVector(msgspec.Struct, frozen=True, rename="camel"):
    """An order whose signature must be rejected with ``INVALID_SIGNATURE``."""

    name: str
    """Reason of the rejection."""
    order: str
    """Name of the order vector that was changed."""
    changes: dict[str, Any]
    """Fields of its body that are replaced."""


class PriceVector(msgspec.Struct, frozen=True, rename="camel"):
    """Two signed amounts, and the price that an order book has for them."""

    side: int
    """0 buy, 1 sell."""
    maker_amount: str
    """Wei. A buy: collateral. A sell: tokens."""
    taker_amount: str
    """Wei. A buy: tokens. A sell: collateral."""
    price: int | None
    """Cents; None if the order is rejected with ``PRICE_OUT_OF_RANGE``."""
    settled_price: int | None
    """Cents in a market that settles on a chain."""


class Vectors(msgspec.Struct, frozen=True, rename="camel"):
    """All golden vectors."""

    orders: list[OrderVector]
    """Orders with valid signatures."""
    signatures: list[SignatureVector]
    """Orders with invalid ones."""
    prices: list[PriceVector]
    """Amounts and prices."""


def load_vectors() -> Vectors:
    """Return the golden vectors of the package.

    >>> load_vectors().prices[0].price
    50
    """
    return msgspec.json.decode(
        resources.files(__package__).joinpath(FILE).read_bytes(), type=Vectors
    )
