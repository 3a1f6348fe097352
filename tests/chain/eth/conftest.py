"""Fixtures of an EVM with the contracts."""

from tests.chain.contracts.conftest import evm, world

__all__ = ["evm", "world"]
