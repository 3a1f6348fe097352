"""The parts of the server that the routes of the dialect share."""

from dataclasses import dataclass

from clob_server.dialects.polymarket.credentials import CredentialStore
from clob_server.dialects.polymarket.heartbeats import HeartbeatIds
from clob_server.dialects.polymarket.markets import MarketIndex
from clob_server.http.server import Server


@dataclass(slots=True, eq=False)
class Polymarket:
    """Everything that a route of the dialect needs."""

    server: Server
    markets: MarketIndex
    credentials: CredentialStore
    heartbeats: HeartbeatIds
