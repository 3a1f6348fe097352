"""The transport: what a public server needs between the sockets and ASGI, and uvicorn has not.

Limits and deadlines of connections, refusals of HTTP that are shaped as all others are, and a door
by which a feed writes to many WebSockets without waiting for any.
"""

from clob_server.transport.config import TransportConfig, TransportLimits
from clob_server.transport.connections import NEVER, Connections
from clob_server.transport.http import HttpProtocol
from clob_server.transport.response import REPLY, Way
from clob_server.transport.websocket import PUSH, FeedProtocol, Push, text_frame

__all__ = [
    "NEVER",
    "PUSH",
    "REPLY",
    "Connections",
    "FeedProtocol",
    "HttpProtocol",
    "Push",
    "TransportConfig",
    "TransportLimits",
    "Way",
    "text_frame",
]
