"""The chain wing: what the server does on an Ethereum chain, and the chain that it can bring along.

The process of the order loop imports :mod:`~clob_server.chain.link` and what is pure
(:mod:`~clob_server.chain.positions`, :mod:`~clob_server.chain.accounts`,
:mod:`~clob_server.chain.addresses`). Signing, ABI encoding and the EVM live in processes of their
own.
"""
