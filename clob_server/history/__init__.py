"""History: finished orders and all trades, a projection of the log that can be made again.

:mod:`~clob_server.history.history` is what the server asks, and
:mod:`~clob_server.history.follower` the process that writes, which imports nothing of a server.
"""
