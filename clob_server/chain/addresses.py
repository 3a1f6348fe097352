"""Where the contracts lie; on a development chain that is known before they are there."""

from typing import Final

import msgspec

from clob_server.chain.accounts import OPERATOR, create_address


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The three contracts that the server works with, each as EIP-55 writes it."""

    stablecoin: str
    """What the faucet mints, TestDollar: 6 decimals."""
    collateral: str
    """Its wrapped form, WrappedCollateral: 18 decimals."""
    conditional_tokens: str
    """Gnosis' ConditionalTokens, which holds the collateral and issues the outcome tokens."""


def deployed_by(operator: str, first_nonce: int = 0) -> Addresses:
    """Say where they come to lie when one account deploys them, one after the other.

    First ConditionalTokens, then TestDollar, then WrappedCollateral.

    Args:
        operator: the address that deploys them.
        first_nonce: its nonce at the first of them.

    Raises:
        InvalidAddressError: the operator is no address.
        ValueError: the nonce is below 0.
    """
    tokens, stablecoin, collateral = (
        create_address(operator, first_nonce + place) for place in range(3)
    )
    return Addresses(stablecoin=stablecoin, collateral=collateral, conditional_tokens=tokens)


DEVELOPMENT: Final = deployed_by(OPERATOR.address)
"""On a fresh development chain, where the operator's first transactions deploy them."""
