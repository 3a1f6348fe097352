"""The interface that Polymarket's clients call: its routes, credentials and WebSocket channels."""

from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.routes import ROUTES
from clob_server.dialects.polymarket.sockets import sockets

__all__ = ["ROUTES", "Polymarket", "sockets"]
