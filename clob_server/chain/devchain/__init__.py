"""The development chain: py-evm behind JSON-RPC in a process of its own, its state in SQLite.

It needs the extra ``devchain``. Nothing outside this package imports it: whoever wants a chain
starts ``python -m clob_server.chain.devchain FOLDER`` and speaks JSON-RPC, as to any other node.
"""

from clob_server.chain.devchain import late

late.stand_in()
