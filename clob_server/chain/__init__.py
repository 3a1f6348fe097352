"""The chain wing: what the server does on an Ethereum chain, and the chain that it can bring along.

The process of the order loop imports :mod:`~clob_server.chain.client` and what is pure
(:mod:`~clob_server.chain.eth.token_ids`, :mod:`~clob_server.chain.eth.accounts`,
:mod:`~clob_server.chain.config`). Signing, ABI encoding and the EVM live in processes of their
own.
"""
