"""The transport between sockets and ASGI: uvicorn with the protections of a public server.

Adds limits and deadlines of connections, rejections with a problem body, replies in one write, and
WebSockets that a feed writes to without waiting.
"""

from clob_server.transport.config import TransportConfig, TransportLimits
from clob_server.transport.connections import NEVER, Connections
from clob_server.transport.http import HttpProtocol
from clob_server.transport.websocket import PUSH, FeedProtocol, Push, text_frame

__all__ = [
    "NEVER",
    "PUSH",
    "Connections",
    "FeedProtocol",
    "HttpProtocol",
    "Push",
    "TransportConfig",
    "TransportLimits",
    "text_frame",
]
