"""Methods of a client for operators; they need ``token``.

Their names are those of the operations in ``/openapi.json``. Fields of a request are named as in
JSON there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from clob.client.calls import FREE, Call, RequestSender, pages, route
from clob.wire.admin import (
    AdminMarketBody,
    BackupBody,
    ChainBody,
    ClockBody,
    EngineBody,
    KeyBody,
    NewKeyBody,
)
from clob.wire.info import SettlementBody
from clob.wire.operations import OperationBody, OperationView
from clob.wire.orders import OrderBody

_MARKETS: Final = "/api/admin/markets"
_MARKET: Final = f"{_MARKETS}/{{marketId}}"
_KEYS: Final = "/api/admin/keys"
_CHAIN: Final = "/api/admin/chain"
_BACKUP: Final = "/api/admin/backup"
_CLOCK: Final = "/api/admin/clock"

MarketFields = Mapping[str, Any]
"""``yesTokenId``, ``question``, ``minSize`` and others."""


class AdminRoutes(RequestSender):
    """Methods for operators."""

    # ----- keys and limits ---------------------------------------------------------------------

    @pages("admin_list_keys", _KEYS, FREE)
    def admin_list_keys(self) -> Call[list[KeyBody]]:
        """Iterate over the API keys, deactivated ones included, the oldest first."""
        return Call(list[KeyBody])

    @route("admin_create_key", "POST", _KEYS, FREE)
    def admin_create_key(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        makers: Sequence[str] = (),
        requests_per_minute: int | None = None,
        orders_per_minute: int | None = None,
    ) -> Call[NewKeyBody]:
        """Create an API key; only the result contains its secret.

        Args:
            name: display name.
            scopes: ``read``, ``trade`` and ``cancel``, or some of them.
            makers: wallets that it may act for.
            requests_per_minute: its own limit; None is that of the server.
            orders_per_minute: likewise.
        """
        body = {
            "name": name,
            "scopes": scopes,
            "makers": makers,
            "requestsPerMinute": requests_per_minute,
            "ordersPerMinute": orders_per_minute,
        }
        return Call(NewKeyBody, body=body)

    @route("admin_deactivate_key", "POST", f"{_KEYS}/{{keyId}}/deactivate", FREE)
    def admin_deactivate_key(self, key_id: str) -> Call[KeyBody]:
        """Deactivate an API key, finally."""
        return Call(KeyBody, (key_id,))

    @route("admin_delete_key", "DELETE", f"{_KEYS}/{{keyId}}", FREE)
    def admin_delete_key(self, key_id: str) -> Call[KeyBody]:
        """Deactivate an API key, as :meth:`admin_deactivate_key` does."""
        return Call(KeyBody, (key_id,))

    @route("admin_get_limits", "GET", "/api/admin/limits", FREE)
    def admin_get_limits(self) -> Call[dict[str, dict[str, int]]]:
        """Return the limits of the engine and the request budgets, as JSON."""
        return Call(dict[str, dict[str, int]])

    @route("admin_set_limits", "PUT", "/api/admin/limits", FREE)
    def admin_set_limits(
        self,
        *,
        engine: Mapping[str, int] | None = None,
        budgets: Mapping[str, int] | None = None,
    ) -> Call[dict[str, dict[str, int]]]:
        """Set the limits of the engine, the request budgets, or both; each part is complete."""
        parts = {"engine": engine, "budgets": budgets}
        body = {name: part for name, part in parts.items() if part is not None}
        return Call(dict[str, dict[str, int]], body=body, is_repeatable=True)

    # ----- markets and orders ------------------------------------------------------------------

    @pages("admin_list_markets", _MARKETS, FREE)
    def admin_list_markets(self, *, limit: int | None = None) -> Call[list[AdminMarketBody]]:
        """Iterate over the markets and their terms."""
        return Call(list[AdminMarketBody], query={"limit": limit})

    @route("admin_create_market", "POST", _MARKETS, FREE)
    def admin_create_market(self, market_id: str, fields: MarketFields) -> Call[AdminMarketBody]:
        """Create a market.

        Args:
            market_id: its id.
            fields: its terms, by their names in JSON.
        """
        return Call(AdminMarketBody, body={**fields, "marketId": market_id})

    @route("admin_get_market", "GET", _MARKET, FREE)
    def admin_get_market(self, market_id: str) -> Call[AdminMarketBody]:
        """Return a market, with the progress of its resolution."""
        return Call(AdminMarketBody, (market_id,))

    @route("admin_change_market", "PATCH", _MARKET, FREE)
    def admin_change_market(self, market_id: str, fields: MarketFields) -> Call[AdminMarketBody]:
        """Change terms of a market; absent fields stay as they are."""
        return Call(AdminMarketBody, (market_id,), body=fields, is_repeatable=True)

    @route("admin_open_market", "POST", f"{_MARKET}/open", FREE)
    def admin_open_market(self, market_id: str) -> Call[AdminMarketBody]:
        """Open a market for orders."""
        return Call(AdminMarketBody, (market_id,), is_repeatable=True)

    @route("admin_halt_market", "POST", f"{_MARKET}/halt", FREE)
    def admin_halt_market(self, market_id: str) -> Call[AdminMarketBody]:
        """Halt a market: neither orders nor cancels."""
        return Call(AdminMarketBody, (market_id,), is_repeatable=True)

    @route("admin_cancel_only_market", "POST", f"{_MARKET}/cancel-only", FREE)
    def admin_cancel_only_market(self, market_id: str) -> Call[AdminMarketBody]:
        """Set a market to accept cancels only."""
        return Call(AdminMarketBody, (market_id,), is_repeatable=True)

    @route("admin_remove_market", "DELETE", _MARKET, FREE)
    def admin_remove_market(self, market_id: str) -> Call[AdminMarketBody]:
        """Remove a market without trades, and cancel its orders."""
        return Call(AdminMarketBody, (market_id,))

    @route("admin_resolve_market", "POST", f"{_MARKET}/resolve", FREE)
    def admin_resolve_market(
        self, market_id: str, outcome: str, *, now: bool = False
    ) -> Call[AdminMarketBody]:
        """Resolve a market, finally.

        Args:
            market_id: the market.
            outcome: ``yes`` or ``no``.
            now: whether to report it on the chain although trades wait for settlement.
        """
        return Call(AdminMarketBody, (market_id,), body={"outcome": outcome, "now": now})

    @route("admin_cancel_order", "POST", "/api/admin/orders/{orderId}/cancel", FREE)
    def admin_cancel_order(self, order_id: str) -> Call[OrderBody]:
        """Cancel an order of any maker."""
        return Call(OrderBody, (order_id,))

    # ----- chain -------------------------------------------------------------------------------

    @route("admin_chain", "GET", _CHAIN, FREE)
    def admin_chain(self) -> Call[ChainBody]:
        """Return the state of the chain and of the operations on it."""
        return Call(ChainBody)

    @route("admin_settlement", "GET", f"{_CHAIN}/settlement", FREE)
    def admin_settlement(self) -> Call[SettlementBody]:
        """Return the pending trades, and the comparison with the chain."""
        return Call(SettlementBody)

    @pages("admin_list_operations", f"{_CHAIN}/operations", FREE)
    def admin_list_operations(
        self, *, status: str | None = None, limit: int | None = None
    ) -> Call[list[OperationView]]:
        """Iterate over the operations on the chain, the newest first.

        Args:
            status: ``pending``, ``done``, ``failed`` or ``stuck``; None is all.
            limit: operations per request.
        """
        return Call(list[OperationView], query={"status": status, "limit": limit})

    @route("admin_retry_operation", "POST", f"{_CHAIN}/operations/{{operationId}}/retry", FREE)
    def admin_retry_operation(self, operation_id: str) -> Call[OperationBody]:
        """Retry a stuck operation and return its state."""
        return Call(OperationBody, (operation_id,))

    # ----- engine, clock and log ---------------------------------------------------------------

    @route("admin_engine", "GET", "/api/admin/engine", FREE)
    def admin_engine(self) -> Call[EngineBody]:
        """Return the state of the engine and of the parts that follow it."""
        return Call(EngineBody)

    @route("admin_get_clock", "GET", _CLOCK, FREE)
    def admin_get_clock(self) -> Call[ClockBody]:
        """Return the clocks of the server."""
        return Call(ClockBody)

    @route("admin_accept_clock", "POST", _CLOCK, FREE)
    def admin_accept_clock(self) -> Call[ClockBody]:
        """Accept the wall clock of the server as right after a jump."""
        return Call(ClockBody, body={"accept": True})

    @route("admin_backup", "GET", _BACKUP, FREE)
    def admin_backup(self) -> Call[BackupBody]:
        """Return the extent of the log, and the key of its ids."""
        return Call(BackupBody)

    @route("admin_backup_frames", "GET", f"{_BACKUP}/frames", FREE)
    def admin_backup_frames(self, *, after: int = 0) -> Call[list[bytes]]:
        """Return the stored frames after a command; empty at the end."""
        read = msgspec.msgpack.Decoder(list[bytes]).decode
        return Call(list[bytes], query={"after": after}, decode=read)

    @route("admin_backup_snapshot", "GET", f"{_BACKUP}/snapshot", FREE)
    def admin_backup_snapshot(self, *, seq: int, offset: int = 0) -> Call[bytes]:
        """Return the bytes of a snapshot from an offset on; empty at the end."""
        return Call(bytes, query={"seq": seq, "offset": offset}, decode=bytes)
