"""Where the contracts lie; on a development chain that is known before they are there."""

from typing import Final

import msgspec

from clob_server.chain.accounts import DEPLOYER, OPERATOR, create_address


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The contracts that the server works with, each as EIP-55 writes it."""

    stablecoin: str
    """What the faucet mints, TestDollar: 6 decimals."""
    collateral: str
    """Its wrapped form, WrappedCollateral: 18 decimals."""
    conditional_tokens: str
    """Gnosis' ConditionalTokens, which holds the collateral and issues the outcome tokens."""
    exchange: str = ""
    """Exchange, which settles trades; empty where there is none, or it was not looked at yet."""

    @property
    def needed(self) -> tuple[str, str, str]:
        """Those without which there is nothing: all but the exchange."""
        return self.stablecoin, self.collateral, self.conditional_tokens


def deployed_by(operator: str, first_nonce: int = 0) -> Addresses:
    """Say where they come to lie when one account deploys them, one after the other.

    First ConditionalTokens, then TestDollar, then WrappedCollateral. The exchange is another's.

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


DEVELOPMENT: Final = msgspec.structs.replace(
    deployed_by(OPERATOR.address), exchange=create_address(DEPLOYER.address, 0)
)
"""On a fresh development chain, where the operator's first transactions deploy them, and the
exchange the first of the first account."""
