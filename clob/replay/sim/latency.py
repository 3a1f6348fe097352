"""Latency between strategy and exchange, by direction and kind of message."""

import dataclasses
import hashlib
from collections import deque

from clob.replay.samples.synthetic import Draws
from clob.replay.sim.delays import Delay, MeasuredDelays, check_delay
from clob.replay.sim.messages import CANCEL, KINDS, ON_FILL, Message


class Connection:
    """One direction of messages, which arrive in the order they were sent unless they may overtake.

    Args:
        delays: the delay of each kind of message, in ns.
        seed: of the draws.
        earlier_ns: how much earlier messages arrive than their delays say, but not before they are
            sent; negative for later.
        overtaking: whether a message may overtake earlier ones.
    """

    def __init__(
        self,
        delays: tuple[Delay, ...],
        seed: int,
        *,
        earlier_ns: int = 0,
        overtaking: bool = False,
    ) -> None:
        self._earlier_ns = earlier_ns
        self._delays: tuple[Delay, ...] = tuple(
            max(delay - earlier_ns, 0) if isinstance(delay, int) else delay for delay in delays
        )
        self._draws = Draws(seed)
        self._overtaking = overtaking
        self._last_ns = 0

    @property
    def instant(self) -> bool:
        """Whether every message arrives at the time it is sent."""
        return all(isinstance(delay, int) and delay == 0 for delay in self._delays)

    def arrival_ns(self, sent_ns: int, kind: int = 0) -> int:
        """Return the arrival time of a message, which is not sent before the previous one.

        Args:
            sent_ns: when it is sent.
            kind: its kind, as in ``clob.replay.sim.messages``.

        Raises:
            ValueError: the delay function returned something other than an integer of 0 or more.
        """
        delay = self._delays[kind]
        if not isinstance(delay, int):
            if isinstance(delay, MeasuredDelays):
                delay = delay.at(sent_ns)
            else:
                delay = check_delay(delay(self._draws))
            delay = max(delay - self._earlier_ns, 0)
        arrival_ns = sent_ns + delay
        if self._overtaking:
            return arrival_ns
        if arrival_ns < self._last_ns:
            return self._last_ns
        self._last_ns = arrival_ns
        return arrival_ns

    def send(
        self, queue: "deque[Message]", sent_ns: int, kind: int, target: object, data: object
    ) -> None:
        """Put a message into a queue that is ordered by arrival.

        Args:
            queue: the messages in transit.
            sent_ns: when it is sent.
            kind: its kind.
            target: an order or a market.
            data: of that kind.
        """
        message = (self.arrival_ns(sent_ns, kind), kind, target, data)
        if not self._overtaking:
            queue.append(message)
            return
        place = len(queue)
        while place and queue[place - 1][0] > message[0]:
            place -= 1
        queue.insert(place, message)


@dataclasses.dataclass(frozen=True)
class Latency:
    """How long messages take in each direction.

    Each direction is one connection that keeps the order of messages: a message whose own delay
    would make it overtake an earlier one arrives at the same time as that one, after it.

    Delays are constants, distributions (:func:`~clob.replay.sim.delays.between`,
    :func:`~clob.replay.sim.delays.quantiles`, :func:`~clob.replay.sim.delays.lognormal`,
    :func:`~clob.replay.sim.delays.sampled`), measurements over time
    (:func:`~clob.replay.sim.delays.read_delays`), or any function of ``Draws``.

    >>> from clob.replay.sim.delays import between
    >>> Latency(order_ns=2_000_000, reply_ns=between(1_000_000, 3_000_000), seed=7).seed
    7
    """

    order_ns: Delay = 0
    """From strategy to exchange: orders, splits and merges."""
    reply_ns: Delay = 0
    """From exchange to strategy: acknowledgements and rejections, and the results of splits and
    merges."""
    seed: int | str = 0
    """Seed of the draws, an integer of 0 or more or a name; equal seeds draw equal delays."""
    cancel_ns: Delay | None = None
    """From strategy to exchange: cancels; None for ``order_ns``."""
    fill_ns: Delay | None = None
    """From exchange to strategy: fills; None for ``reply_ns``."""
    feed_ns: int = 0
    """From exchange to strategy: the books. A strategy sees each book this much later, so its
    orders arrive later by as much after the change that it reacts to, and a reply arrives with the
    books of its time. A reply that is faster than the books arrives with the book that it caused.
    """
    overtaking: bool = False
    """Whether messages overtake earlier ones of the same direction. A cancel that overtakes its
    order has no effect, and may be sent again."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an invalid constant delay or seed."""
        optional = [delay for delay in (self.cancel_ns, self.fill_ns) if delay is not None]
        for delay in (self.order_ns, self.reply_ns, *optional):
            if not (callable(delay) or isinstance(delay, MeasuredDelays)):
                check_delay(delay)
        check_delay(self.feed_ns)
        if not isinstance(self.seed, str) and (type(self.seed) is not int or self.seed < 0):
            raise ValueError(f"seed must be an integer of 0 or more, or text; got {self.seed!r}")

    def connections(self) -> "tuple[Connection, Connection]":
        """Return a connection for orders and one for replies, with independent draws."""
        seed = self.seed
        if isinstance(seed, str):
            seed = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
        cancel_ns = self.order_ns if self.cancel_ns is None else self.cancel_ns
        fill_ns = self.reply_ns if self.fill_ns is None else self.fill_ns
        orders = tuple(cancel_ns if kind == CANCEL else self.order_ns for kind in range(KINDS))
        replies = tuple(fill_ns if kind == ON_FILL else self.reply_ns for kind in range(KINDS))
        feed_ns, overtaking = self.feed_ns, self.overtaking
        return (
            Connection(orders, 2 * seed, earlier_ns=-feed_ns, overtaking=overtaking),
            Connection(replies, 2 * seed + 1, earlier_ns=feed_ns, overtaking=overtaking),
        )
