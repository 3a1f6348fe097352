"""The settlement channel: status changes of trades, by market or maker; no message is skipped."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from clob import RejectedError, Trade
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed
from clob_server.core.settlement_status import PENDING
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import WRITES_MAX, FeedClient
from clob_server.feed.event_messages import TradeStatus, message_frame, status_frame
from clob_server.feed.messages import Heartbeat

SettlementScope: TypeAlias = tuple[str | None, str | None]
"""A market, a maker, or a maker in a market; None for all markets or makers."""


class SettlementSubscription:
    """A subscription to the settlement of trades.

    Args:
        channel: the settlement channel.
        client: the receiver.
        scope: the market and maker of the trades.
        extended: whether the client is extended.
    """

    __slots__ = ("_channel", "client", "extended", "has_ended", "scope")

    def __init__(
        self,
        channel: "SettlementChannel",
        client: FeedClient,
        scope: SettlementScope,
        *,
        extended: bool,
    ) -> None:
        self.client: Final = client
        self.scope: Final = scope
        self.extended: Final = extended
        self.has_ended: bool = False
        self._channel = channel

    def end(self) -> None:
        """End the subscription."""
        self.has_ended = True
        self._channel.leave(self)


class ScopeMembers:
    """Subscriptions with the same scope.

    Args:
        sent_at: loop time of the last message.
    """

    __slots__ = ("members", "sent_at")

    def __init__(self, sent_at: float) -> None:
        self.members: Final[dict[SettlementSubscription, None]] = {}
        self.sent_at: float = sent_at


class SettlementChannel:
    """Subscriptions to the settlement of trades.

    Args:
        state: the server's state.
        ids: source of trade ids.
    """

    def __init__(self, state: ServerState, ids: Ids) -> None:
        self._state = state
        self._ids = ids
        self.scopes: dict[SettlementScope, ScopeMembers] = {}
        self._queue: deque[tuple[SettlementSubscription, bytes]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Return whether there are subscriptions."""
        return bool(self.scopes)

    def join(self, subscription: SettlementSubscription, now: float) -> None:
        """Add a subscription; it receives later changes only."""
        scope = self.scopes.setdefault(subscription.scope, ScopeMembers(now))
        scope.members[subscription] = None

    def leave(self, subscription: SettlementSubscription) -> None:
        """Remove a subscription."""
        scope = self.scopes[subscription.scope]
        del scope.members[subscription]
        if not scope.members:
            del self.scopes[subscription.scope]

    # ----- events ----------------------------------------------------------------------------

    def on_batch(
        self, batch: Sequence[Committed], changed: Sequence[TradeStatus], now: float
    ) -> None:
        """Send the status changes of a batch.

        Args:
            batch: the batch; its new trades are pending.
            changed: older trades with a new status.
            now: loop time.
        """
        frames: dict[SettlementScope, list[bytes]] = {}
        for trade in (*self._pending(batch), *changed):
            scopes = [scope for scope in scopes_of(trade) if scope in self.scopes]
            frame = status_frame(trade, "settlement") if scopes else b""
            for scope in scopes:
                frames.setdefault(scope, []).append(frame)
        for scope, scope_frames in frames.items():
            receivers, payload = self.scopes[scope], b"".join(scope_frames)
            receivers.sent_at = now
            self._queue.extend((member, payload) for member in receivers.members)
        self._flush()

    def _pending(self, batch: Sequence[Committed]) -> Iterator[TradeStatus]:
        """Yield the new trades of markets that settle on the chain."""
        settles = self._state.settles
        for done in batch:
            if isinstance(done.outcome, RejectedError):
                continue
            number, now_ms = done.num_trades, done.command.now_ms
            for event in done.outcome:
                if isinstance(event, Trade):
                    number += 1
                    if event.market in settles:
                        yield TradeStatus(
                            self._ids.trade(now_ms, number),
                            event.market,
                            event.token,
                            event.seq,
                            event.match_type,
                            event.buyer,
                            event.seller,
                            PENDING,
                            now_ms,
                        )

    # ----- sending ---------------------------------------------------------------------------

    def close(self) -> None:
        """Drop the queue."""
        self._queue.clear()

    def _flush(self) -> None:
        """Send the first part of the queue now and the rest in later iterations of the loop."""
        if self._task is None and self._queue:
            self._write()
            if self._queue:
                self._task = asyncio.get_running_loop().create_task(self._flush_rest())

    async def _flush_rest(self) -> None:
        while self._queue:
            await asyncio.sleep(0)
            self._write()
        self._task = None

    def _write(self) -> None:
        for _ in range(min(WRITES_MAX, len(self._queue))):
            member, payload = self._queue.popleft()
            if not member.has_ended:
                member.client.send_frames(payload)

    def send_heartbeats(self, quiet_since: float, now: float, now_ms: int) -> None:
        """Send heartbeats to subscriptions without a message since a loop time."""
        for (market, _), scope in tuple(self.scopes.items()):
            if scope.sent_at > quiet_since:
                continue
            scope.sent_at = now
            seq = None if market is None else self._state.matcher.seq(market)
            heartbeat = Heartbeat(channel="settlement", market_id=market, seq=seq, timestamp=now_ms)
            frame = message_frame(heartbeat)
            self._queue.extend((each, frame) for each in scope.members if each.extended)
        self._flush()


def scopes_of(trade: TradeStatus) -> set[SettlementScope]:
    """Return the scopes that contain a trade."""
    market, makers = trade.market, {trade.buyer, trade.seller} - {""}
    whole: set[SettlementScope] = {(market, None)}
    return whole.union(*(((market, maker), (None, maker)) for maker in makers))
