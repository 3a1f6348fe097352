"""One follower of one market: at its end, or behind it and about to be brought there."""

import sys
from typing import TYPE_CHECKING, Final

from clob_server.feed.fanout import EVENTS_MAX, Group
from clob_server.feed.happenings import heard
from clob_server.feed.streams import Stream

if TYPE_CHECKING:
    from clob_server.feed.feed import Feed
    from clob_server.feed.subscribers import Subscriber

BEHIND: Final = sys.maxsize
"""The number of a follower who is behind, so that nothing in line is for him."""


class BookSubscription:
    """A follower of a market. While he is behind, what happens is not told to him.

    Args:
        feed: what he follows.
        subscriber: who he is.
        market: the market, which need not exist yet.
        token: the only token he wants to hear of; None is both.
        extended: if he understands more than the specification's messages.
    """

    __slots__ = (
        "_feed",
        "_group",
        "_resume_after",
        "_stream",
        "buffered",
        "extended",
        "market",
        "seq",
        "soft_bytes",
        "subscriber",
        "tell",
        "token",
        "write",
    )

    def __init__(
        self,
        feed: "Feed",
        subscriber: "Subscriber",
        market: str,
        token: str | None,
        *,
        extended: bool,
    ) -> None:
        self.subscriber: Final = subscriber
        self.market: Final = market
        self.token: Final = token
        self.extended: Final = extended
        self.seq: int = BEHIND
        """The number of the last event he was told when he had caught up."""
        self.soft_bytes: Final = feed.settings.ws_soft_bytes
        self.tell: Final = subscriber.sink.tell
        self.write: Final = subscriber.sink.write
        self.buffered: Final = subscriber.sink.buffered
        self._feed = feed
        self._group: Group | None = None
        self._stream: Stream | None = None
        self._resume_after: int | None = None

    def follow(self, stream: Stream, resume_after: int | None) -> bool:
        """Begin to follow a market, as one who is behind.

        Args:
            stream: the market.
            resume_after: the number of the last event he has, if he has any.

        Returns:
            If he can go on from there, and needs no snapshot.
        """
        self._join(stream)
        if resume_after is not None and stream.since(resume_after, 0) is not None:
            self._resume_after = resume_after
        self.fall_behind()
        return self._resume_after is not None

    def follow_from_start(self, stream: Stream) -> None:
        """Begin to follow a market that opens now, and of which nothing was told yet."""
        self._join(stream)
        self.seq = 0

    def _join(self, stream: Stream) -> None:
        """Follow a market with all who follow it in the same way."""
        self._stream = stream
        self._group = stream.group(extended=self.extended, token=self.token)
        self._group.join(self)

    def fall_behind(self) -> None:
        """Be told nothing more until there is room for it."""
        self.seq = BEHIND
        self.subscriber.fell_behind(self)

    def catch_up(self) -> bool:
        """Be told what is missing, or a part of it; say if he is behind no longer."""
        stream, after = self._stream, self._resume_after
        assert stream is not None
        missing = None if after is None else stream.since(after, EVENTS_MAX)
        if missing is None:
            self.write(self._feed.snapshots.frames(stream.market, self.token))
            self._resume_after = stream.seq
        elif missing:
            write = self._feed.writer.frames
            told = (heard(each, self.token) for each in missing)
            self.write(b"".join(write(each, extended=self.extended) for each in told if each))
            self._resume_after = missing[-1].event.seq
        if self._resume_after != stream.seq or self.buffered() > self.soft_bytes:
            return False
        self._resume_after = None
        self.seq = stream.seq
        assert self._group is not None
        self._group.last = None  # what is in line already is not for him
        return True

    def end(self) -> None:
        """Follow no longer."""
        self.seq = BEHIND
        if self._group is None:
            self._feed.wait_no_longer(self)
        else:
            self._group.leave(self)
