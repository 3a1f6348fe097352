"""History: finished orders and all trades in SQLite, derived from the command log.

:mod:`~clob_server.history.history` is the interface for the server;
:mod:`~clob_server.history.follower` is the process that writes the file, and imports nothing of the
server above the state.
"""
