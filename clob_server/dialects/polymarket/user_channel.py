"""The user channel: trades and orders of a wallet, as Polymarket publishes them.

A trade is ``MATCHED``, and at once ``CONFIRMED``, since markets without a chain have nothing to
wait for. An order is sent in its state after the commit. No message is skipped: a client that reads
too slowly is closed, and so is each if the engine drops finished orders before they are sent.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from clob import (
    OrderAdded,
    OrderRemoved,
    PairedTrade,
    Rejected,
    RejectedError,
    RemovalReason,
    Trade,
)
from clob.wire.messages import POLICY, RESTART
from clob_server.core.commands import DeactivateCredentials
from clob_server.core.sequencer import Committed, Steps, begin
from clob_server.core.serialize import order_body
from clob_server.dialects.polymarket.account import TokenTrade, order_json, trade_body
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.credentials import Credentials
from clob_server.dialects.polymarket.market_channel import frame
from clob_server.dialects.polymarket.orders import public_id
from clob_server.dialects.polymarket.wallets import wallets_of
from clob_server.feed.broadcast import FeedClient
from clob_server.history.store import TradeRow

PLACEMENT, UPDATE, CANCELLATION = "PLACEMENT", "UPDATE", "CANCELLATION"
"""Kinds of changes of an order, in the order in which they are sent."""
KINDS: Final = (PLACEMENT, UPDATE, CANCELLATION)
STATUSES: Final = ("MATCHED", "CONFIRMED")
"""Statuses that a trade goes through."""
CHANGES_MAX: Final = 50
"""Changes that are sent in one iteration of the event loop."""


class WalletSubscription:
    """A subscription to the trades and orders of a wallet.

    Args:
        client: the connection.
        channel: has it until :meth:`end`.
        credentials: those of the wallet.
        markets: market ids; None follows all markets.
    """

    def __init__(
        self,
        client: FeedClient,
        channel: "WalletChannel",
        credentials: Credentials,
        markets: frozenset[str] | None,
    ) -> None:
        self.client: Final = client
        self.credentials: Final = credentials
        self.makers: Final = wallets_of(credentials.address)
        self._markets: Final = markets
        self._channel: Final = channel
        channel.subscriptions[self] = None

    def wants(self, market: str, *makers: str) -> bool:
        """Return whether it follows a market, and one of the makers is the wallet's."""
        is_own = any(maker in self.makers for maker in makers)
        return is_own and (self._markets is None or market in self._markets)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message unless the subscription has ended."""
        if self in self._channel.subscriptions:
            self.client.send_frames(frame(message))

    def end(self) -> None:
        """End the subscription."""
        self._channel.subscriptions.pop(self, None)


class WalletChannel:
    """The subscriptions of all clients; receives every batch."""

    def __init__(self, polymarket: Polymarket) -> None:
        self.subscriptions: Final[dict[WalletSubscription, None]] = {}
        """In the order in which they started."""
        self._polymarket: Final = polymarket

    def on_batch(self, batch: Sequence[Committed]) -> Steps | None:
        """Send the news of a batch; return the work that is left."""
        return begin(self._publish(batch)) if self.subscriptions else None

    def _publish(self, batch: Sequence[Committed]) -> Steps:
        """Send the trades and orders of each command, about ``CHANGES_MAX`` in a step."""
        # A client that joins between two steps reads the state after the batch.
        receivers, count = tuple(self.subscriptions), 0
        for done in batch:
            if type(done.command) is DeactivateCredentials:
                self._close(done.command.address, done.command.nonce)
            if isinstance(done.outcome, RejectedError):
                continue
            for trade in trades_of(done):
                self._send_trade(trade, receivers)
                count += 1
                if count % CHANGES_MAX == 0:
                    yield
            for order_id, kinds in changed_orders(done).items():
                self._send_order(order_id, kinds, done.command.now_ms, receivers)
                count += 1
                if count % CHANGES_MAX == 0:
                    yield

    def _close(self, address: str, nonce: int) -> None:
        """Close the connections of credentials that were deactivated."""
        for each in tuple(self.subscriptions):
            if (each.credentials.address, each.credentials.nonce) == (address, nonce):
                each.client.close(POLICY, "INVALID_API_KEY: the credentials were deleted")

    def _send_trade(self, trade: TokenTrade, receivers: Sequence[WalletSubscription]) -> None:
        """Send a trade to the wallets of both orders."""
        parties, polymarket = (trade.taker, trade.maker), self._polymarket
        wanted = [each for each in receivers if each.wants(trade.event.market, *parties)]
        if not wanted or not polymarket.markets.sees(trade.event.market):
            return
        token, maker_token = (
            polymarket.markets.token(each.token) for each in (trade.event, trade.resting)
        )
        order_ids = (
            self._public_id(trade.event.incoming_order_id),
            self._public_id(trade.event.resting_order_id),
        )
        trade_id = polymarket.server.ids.trade(trade.row.now_ms, trade.row.number)
        for each in wanted:
            own = [party in each.makers for party in parties]
            keys = [
                each.credentials.key if is_own else polymarket.credentials.of(party, 0).key
                for is_own, party in zip(own, parties, strict=True)
            ]
            body = trade_body(
                trade, token, maker_token, trade_id=trade_id, order_ids=order_ids, owners=keys
            )
            for status in STATUSES:
                each.send(
                    body
                    | {
                        "event_type": "trade",
                        "type": "TRADE",
                        "status": status,
                        "owner": each.credentials.key,
                        "trade_owner": keys[0],
                        "trader_side": "TAKER" if own[0] else "MAKER",
                        "matchtime": body["match_time"],
                        "timestamp": body["match_time"],
                    }
                )

    def _public_id(self, order_id: str | int) -> str:
        """Return the hash of an order, or its id if it has none."""
        record = self._polymarket.server.lookup.known(str(order_id))
        return public_id(record.order_hash if record else None, order_id)

    def _send_order(
        self,
        order_id: str | int,
        kinds: Sequence[str],
        now_ms: int,
        receivers: Sequence[WalletSubscription],
    ) -> None:
        """Send an order to its wallet."""
        polymarket = self._polymarket
        record = polymarket.server.lookup.known(str(order_id))
        if record is None:
            for each in receivers:
                each.client.close(RESTART, "more orders finished at once than the server keeps")
            return
        if not polymarket.markets.sees(record.market):
            return
        wanted = [each for each in receivers if each.wants(record.market, record.order.maker)]
        if not wanted:
            return
        body = order_body(record, polymarket.server.state.signature(record.order.id))
        for each in wanted:
            message = order_json(polymarket, body, each.credentials.key) | {
                "event_type": "order",
                "order_owner": each.credentials.key,
                "timestamp": str(now_ms // 1000),
            }
            for kind in kinds:
                each.send(message | {"type": kind})


def trades_of(done: Committed) -> Iterator[TokenTrade]:
    """Yield the trades of a command that was not rejected."""
    number, first = done.num_trades, None
    assert not isinstance(done.outcome, RejectedError)
    for event in done.outcome:
        if not isinstance(event, Trade):
            continue
        number += 1
        row = TradeRow(event, done.command.now_ms, number)
        if not isinstance(event, PairedTrade):
            yield TokenTrade(row, None)
        elif event.is_incoming:
            first = row
        else:
            assert first is not None
            yield TokenTrade(first, event)


def changed_orders(done: Committed) -> dict[str | int, list[str]]:
    """Return the orders that a command changed, each with the kinds of its changes."""
    found: dict[str | int, set[str]] = {}
    assert not isinstance(done.outcome, RejectedError)
    for event in done.outcome:
        if isinstance(event, Rejected):
            continue
        if isinstance(event, Trade):
            for order_id in (event.resting_order_id, event.incoming_order_id):
                found.setdefault(order_id, set()).add(UPDATE)
            continue
        kind = UPDATE
        if isinstance(event, OrderAdded):
            kind = PLACEMENT
        elif isinstance(event, OrderRemoved) and event.reason is not RemovalReason.FILLED:
            kind = CANCELLATION
        found.setdefault(event.order_id, set()).add(kind)
    return {
        order_id: [kind for kind in KINDS if kind in kinds] for order_id, kinds in found.items()
    }
