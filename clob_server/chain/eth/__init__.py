"""Ethereum primitives: ABI encoding, accounts, JSON-RPC, token ids."""
