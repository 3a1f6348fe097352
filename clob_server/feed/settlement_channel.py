"""The settlement channel: how trades stand on the chain, by market or by maker.

Nothing of it is left out, as of the user channel: who has too much waiting is closed.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from clob import RejectedError, Trade
from clob_server.core.sequencer import Committed
from clob_server.core.settlement_status import PENDING
from clob_server.feed.broadcast import WRITES_MAX
from clob_server.feed.event_messages import TradeStatus, frame_of, standing_frame
from clob_server.feed.messages import Heartbeat

if TYPE_CHECKING:
    from clob_server.core.ids import Ids
    from clob_server.core.state import ServerState
    from clob_server.feed.subscriber import Subscriber

Scope: TypeAlias = tuple[str | None, str | None]
"""Of what is told: of a market, a maker, or a maker in a market; None is all of them."""


class SettlementSubscription:
    """Somebody who wants to hear how trades stand.

    Args:
        settlements: who tells him.
        subscriber: who he is.
        scope: of what.
        extended: if he understands more than the specification's messages.
    """

    __slots__ = ("_settlements", "extended", "is_over", "scope", "subscriber")

    def __init__(
        self,
        settlements: "Settlements",
        subscriber: "Subscriber",
        scope: Scope,
        *,
        extended: bool,
    ) -> None:
        self.subscriber: Final = subscriber
        self.scope: Final = scope
        self.extended: Final = extended
        self.is_over: bool = False
        """If he wants to hear no more."""
        self._settlements = settlements

    def end(self) -> None:
        """Hear no more."""
        self.is_over = True
        self._settlements.leave(self)


class Circle:
    """Those who are told the same.

    Args:
        told_at: when something was told last, by the clock of the loop.
    """

    __slots__ = ("members", "told_at")

    def __init__(self, told_at: float) -> None:
        self.members: Final[dict[SettlementSubscription, None]] = {}
        self.told_at: float = told_at


class Settlements:
    """All who want to hear how trades stand.

    Args:
        exchange: where they are made.
        ids: names trades.
    """

    def __init__(self, exchange: "ServerState", ids: "Ids") -> None:
        self._exchange = exchange
        self._ids = ids
        self._circles: dict[Scope, Circle] = {}
        self._line: deque[tuple[SettlementSubscription, bytes]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Say if anybody wants to hear of it."""
        return bool(self._circles)

    def join(self, subscription: SettlementSubscription, now: float) -> None:
        """Begin to tell somebody; what stands already is not told."""
        circle = self._circles.setdefault(subscription.scope, Circle(now))
        circle.members[subscription] = None

    def leave(self, subscription: SettlementSubscription) -> None:
        """Tell somebody no more."""
        circle = self._circles[subscription.scope]
        del circle.members[subscription]
        if not circle.members:
            del self._circles[subscription.scope]

    # ----- what happens ----------------------------------------------------------------------

    def hear(self, batch: Sequence[Committed], news: Sequence[TradeStatus], now: float) -> None:
        """Tell what a batch led to.

        Args:
            batch: what was done.
            news: the trades that stand differently, but for those that are new.
            now: the time by the clock of the loop.
        """
        frames: dict[Scope, list[bytes]] = {}
        for standing in (*self._pending(batch), *news):
            wanted = [scope for scope in scopes_of(standing) if scope in self._circles]
            frame = standing_frame(standing, "settlement") if wanted else b""
            for scope in wanted:
                frames.setdefault(scope, []).append(frame)
        for scope, told in frames.items():
            circle, payload = self._circles[scope], b"".join(told)
            circle.told_at = now
            self._line.extend((member, payload) for member in circle.members)
        self._go()

    def _pending(self, batch: Sequence[Committed]) -> Iterator[TradeStatus]:
        """Give the trades of a batch that are to be settled."""
        settles = self._exchange.settles
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

    # ----- telling ---------------------------------------------------------------------------

    def close(self) -> None:
        """Tell no more."""
        self._line.clear()

    def _go(self) -> None:
        """Tell as many as may be told now, and the others soon."""
        if self._task is None and self._line:
            self._write()
            if self._line:
                self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        """Tell all who are left, some at a time."""
        while self._line:
            await asyncio.sleep(0)
            self._write()
        self._task = None

    def _write(self) -> None:
        """Tell the next of them."""
        for _ in range(min(WRITES_MAX, len(self._line))):
            member, payload = self._line.popleft()
            if not member.is_over:
                member.subscriber.push(payload)

    def beat(self, quiet_since: float, now: float, now_ms: int) -> None:
        """Tell those who have heard nothing since a moment that nothing has happened."""
        for (market, _), circle in tuple(self._circles.items()):
            if circle.told_at > quiet_since:
                continue
            circle.told_at = now
            seq = None if market is None else self._exchange.matcher.seq(market)
            beat = Heartbeat(channel="settlement", market_id=market, seq=seq, timestamp=now_ms)
            frame = frame_of(beat)
            self._line.extend((each, frame) for each in circle.members if each.extended)
        self._go()


def scopes_of(standing: TradeStatus) -> set[Scope]:
    """Give the scopes that a trade is in."""
    market, makers = standing.market, {standing.buyer, standing.seller} - {""}
    whole: set[Scope] = {(market, None)}
    return whole.union(*(((market, maker), (None, maker)) for maker in makers))
