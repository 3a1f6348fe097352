"""The settlement channel: status changes of trades, by market or maker, and modes of markets.

No message is skipped.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from clob import SetMode
from clob.wire.messages import Heartbeat, ModeChanged, ModeData
from clob_server.core.commands import StallMarket
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed, trades_in
from clob_server.core.serialize import MODES, stall_body
from clob_server.core.settlement_status import PENDING
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import WRITES_MAX, PacedQueue, ScopedSubscription, TradeScope
from clob_server.feed.event_messages import TradeStatus, message_frame, status_frame


class ScopeMembers:
    """Subscriptions with the same scope, and the loop time of their last message."""

    __slots__ = ("members", "sent_at")

    def __init__(self, sent_at: float) -> None:
        self.members: Final[dict[ScopedSubscription, None]] = {}
        self.sent_at: float = sent_at


class SettlementChannel(PacedQueue[tuple[ScopedSubscription, bytes]]):
    """Subscriptions to the settlement of trades."""

    def __init__(self, state: ServerState, ids: Ids) -> None:
        super().__init__()
        self._state = state
        self._ids = ids
        self.scopes: dict[TradeScope, ScopeMembers] = {}

    def __bool__(self) -> bool:
        """Return whether there are subscriptions."""
        return bool(self.scopes)

    def join(self, subscription: ScopedSubscription, now: float) -> None:
        """Add a subscription; it receives later changes only."""
        scope = self.scopes.setdefault(subscription.scope, ScopeMembers(now))
        scope.members[subscription] = None

    def leave(self, subscription: ScopedSubscription) -> None:
        """Remove a subscription."""
        scope = self.scopes[subscription.scope]
        del scope.members[subscription]
        if not scope.members:
            del self.scopes[subscription.scope]

    def on_batch(
        self, batch: Sequence[Committed], changed: Sequence[TradeStatus], now: float
    ) -> None:
        """Send the new trades of a batch, which are pending, and older ones that changed."""
        frames: dict[TradeScope, list[bytes]] = {}
        for trade in (*self._pending(batch), *changed):
            scopes = [scope for scope in scopes_of(trade) if scope in self.scopes]
            frame = status_frame(trade, "settlement") if scopes else b""
            for scope in scopes:
                frames.setdefault(scope, []).append(frame)
        for scope, scope_frames in frames.items():
            receivers, payload = self.scopes[scope], b"".join(scope_frames)
            receivers.sent_at = now
            self._queue.extend((member, payload) for member in receivers.members)
        self._add_modes(batch, now)
        self.flush()

    def _add_modes(self, batch: Sequence[Committed], now: float) -> None:
        """Queue the modes that a batch changed, each with its state after the batch."""
        state = self._state
        changed = {
            done.command.market: done.command.now_ms
            for done in batch
            if isinstance(done.command, (SetMode, StallMarket))
        }
        for market, now_ms in changed.items():
            if market not in state.settles:
                continue
            stall = state.registry.stalls.get(market)
            mode = ModeData(mode=MODES[state.markets[market].mode], stalled=stall_body(stall))
            message = ModeChanged(market_id=market, timestamp=now_ms, data=mode)
            frame = message_frame(message)
            for (name, _), scope in self.scopes.items():
                if name in (None, market):
                    scope.sent_at = now
                    self._queue.extend((each, frame) for each in scope.members if each.extended)

    def _pending(self, batch: Sequence[Committed]) -> Iterator[TradeStatus]:
        """Yield the new trades of markets that settle on the chain."""
        for number, trade, now_ms in trades_in(batch):
            if trade.market in self._state.settles:
                yield TradeStatus(
                    self._ids.trade(now_ms, number),
                    trade.market,
                    trade.token,
                    trade.seq,
                    trade.match_type,
                    trade.buyer,
                    trade.seller,
                    PENDING,
                    now_ms,
                )

    def _write(self) -> None:
        for _ in range(min(WRITES_MAX, len(self._queue))):
            member, payload = self._queue.popleft()
            if member.is_open:
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
        self.flush()


def scopes_of(trade: TradeStatus) -> set[TradeScope]:
    """Return the scopes that contain a trade."""
    market, makers = trade.market, {trade.buyer, trade.seller} - {""}
    whole: set[TradeScope] = {(market, None)}
    return whole.union(*(((market, maker), (None, maker)) for maker in makers))
