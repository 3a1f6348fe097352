"""The role of this node among the others: signs of life, and the decision to take the log over.

The owner sends a beat through the servers of the replicated log several times a second. A node that
receives none for a second tries to become the owner. Two nodes that try at once are no danger: the
log accepts the record of one.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from clob_server.auth.api_keys import IDS, TOKENS
from clob_server.cluster.replica import ReplicaSequencer
from clob_server.core.ids import KEY_BYTES

BEAT_S: Final = 0.2
"""Seconds between two signs of life of the owner."""
SILENCE_S: Final = 1.0
"""Seconds without one after which another node tries to take over."""
SPREAD_S: Final = 0.05
"""Seconds by which the nodes differ in this, so that they rarely try at once."""
LEASE_S: Final = 0.8
"""Seconds after a sign of life that came back to its owner in which no other node takes over."""
STUCK_S: Final = 15.0
"""Seconds that one append may take; then the owner sends no sign of life. It is longer than an
election among the servers of the log."""

_LOG: Final = logging.getLogger("clob_server.cluster")


def fingerprint(folder: Path, names: Iterable[str] = (IDS, TOKENS)) -> bytes:
    """Return a hash of the secret files that all nodes share; the absent ones count as empty."""
    made = hashlib.blake2b(digest_size=16, person=b"clob node keys")
    for name in names:
        path = folder / name
        key = path.read_bytes() if path.exists() else b""
        made.update(key.ljust(KEY_BYTES, b"\0"))
    return made.digest()


class Beat(msgspec.Struct, frozen=True, array_like=True):
    """A sign of life of the owner."""

    node: str
    url: str
    """Base URL by which clients reach it."""
    address: str
    """Host and port by which the other nodes reach it."""
    epoch: int
    seq: int
    """Last command that it has applied."""
    is_leaving: bool = False
    """Whether it stops to be the owner."""
    sent_s: float = 0.0
    """When it was sent, by the clock of the owner."""


_DECODER: Final = msgspec.msgpack.Decoder(Beat)


class ClusterNode:
    """The role of one node.

    Args:
        name: its name, which no other node has.
        replica: its sequencer.
        send: sends a beat to the other nodes; must not block.
        may_own: whether it may become the owner.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        replica: ReplicaSequencer,
        send: Callable[[bytes], object],
        *,
        may_own: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name: Final = name
        self.url: str = ""
        """Base URL by which clients reach it; empty until it listens."""
        self.address: str = ""
        """Host and port by which the other nodes reach it."""
        self._replica: Final = replica
        self._send: Final = send
        self._may_own = may_own
        self._silence_s: Final = SILENCE_S + SPREAD_S * (crc32(name.encode()) % 8)
        self._clock: Final = clock
        self._seen_at = clock()
        self._confirmed_s = 0.0
        self._owner: Beat | None = None
        self._is_leaving = False

    @property
    def role(self) -> str:
        """``owner`` or ``follower``."""
        return "owner" if self._replica.is_owner else "follower"

    @property
    def epoch(self) -> int:
        """Number of the last ownership in the log."""
        return self._replica.epoch

    @property
    def num_takeovers(self) -> int:
        """How often this node became the owner since it started."""
        return self._replica.num_takeovers

    @property
    def is_owner(self) -> bool:
        """Whether this node owns the log."""
        return self._replica.is_owner

    @property
    def is_unsure(self) -> bool:
        """Whether this node owned the log, and another one may have taken it over by now."""
        is_old = self._clock() - self._confirmed_s > LEASE_S
        return is_old and self._replica.is_owner

    @property
    def owner(self) -> Beat | None:
        """The owner, from its last sign of life; None if it is silent."""
        if self._replica.is_owner:
            return self._beat()
        return None if self._is_silent else self._owner

    @property
    def lag(self) -> int:
        """Number of commands that the owner has applied and this node has not."""
        owner = self.owner
        return 0 if owner is None else max(0, owner.seq - self._replica.seq)

    @property
    def _is_silent(self) -> bool:
        return self._clock() - self._seen_at > self._silence_s

    def _beat(self, *, is_leaving: bool = False) -> Beat:
        replica = self._replica
        return Beat(
            self.name,
            self.url,
            self.address,
            replica.epoch,
            replica.seq,
            is_leaving,
            self._clock(),
        )

    async def run(self) -> None:
        """Send signs of life as the owner, and look for those of another one, until cancelled."""
        self._seen_at = self._clock()
        while True:
            replica = self._replica
            if replica.is_owner:
                is_cut_off = self.is_unsure and replica.append_s > SILENCE_S
                if replica.append_s < STUCK_S and not is_cut_off:
                    self._send(msgspec.msgpack.encode(self._beat()))
            else:
                can_own = self._may_own and bool(self.url) and not self._is_leaving
                replica.is_candidate = can_own and self._is_silent
            await asyncio.sleep(BEAT_S)

    def on_beat(self, data: bytes) -> None:
        """Receive a sign of life; one of a later owner ends the ownership of this node."""
        try:
            beat = _DECODER.decode(data)
        except msgspec.MsgspecError:  # a node of another version
            return
        if beat.node == self.name:
            self._confirmed_s = max(self._confirmed_s, beat.sent_s)
            return
        if beat.epoch < self._replica.epoch:
            return
        self._owner = beat
        if beat.is_leaving:
            self._seen_at = -inf
            self._replica.is_candidate = self._may_own and bool(self.url) and not self._is_leaving
        else:
            self._seen_at = self._clock()
            self._replica.is_candidate = False
            if beat.epoch > self._replica.epoch:
                self._replica.resign()

    def on_owner(self) -> None:
        """Wait for the first sign of life of a new owner."""
        self._seen_at = self._clock()

    def on_role(self, is_owner: bool) -> None:
        """Log a change of the role."""
        self._seen_at = self._confirmed_s = self._clock()
        _LOG.warning(
            "this node is the owner" if is_owner else "this node follows the owner",
            extra={"epoch": self._replica.epoch, "command_seq": self._replica.seq},
        )
        if self._is_leaving and not is_owner:
            self._send(msgspec.msgpack.encode(self._beat(is_leaving=True)))

    def leave(self) -> None:
        """Hand the log over, since this node stops; it follows the next owner until then."""
        self._is_leaving = True
        self._replica.resign()
