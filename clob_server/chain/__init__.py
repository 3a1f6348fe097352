"""Ethereum side of the server: chain client, worker process, watcher and development chain.

The order loop's process imports only :mod:`~clob_server.chain.client`,
:mod:`~clob_server.chain.config`, :mod:`~clob_server.chain.eth.token_ids` and
:mod:`~clob_server.chain.eth.accounts`. Signing, ABI encoding and the EVM run in child processes.
"""
