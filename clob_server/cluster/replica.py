"""A sequencer that follows the replicated log, and commits to it while its node owns the log.

Every node applies the same frames, so that it answers reads and sends its feed from a state of its
own. One node owns the log: it alone appends. The log itself enforces this, since an append that
does not continue the log is rejected; the roles here only decide which node tries.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from clob import Submit
from clob_server.core.clock import ClockUnsureError
from clob_server.core.commands import AnyCommand, Owner, TakeOver, encode
from clob_server.core.recovery import check, commands_of
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import (
    Callback,
    Committed,
    CommitUnknownError,
    NewOrder,
    Sequencer,
    Work,
)
from clob_server.core.state import ServerState
from clob_server.core.threads import LogThread
from clob_server.log import FencedError, LogError
from clob_server.log.piped import PipedLog
from clob_server.log.replicated import ReplicatedLog

APPLY_S: Final = 0.002
"""Seconds between two looks for a command that this node has not applied yet."""
APPLY_TRIES: Final = 2_500
"""Looks for it at most."""
PULL_S: Final = 0.05
"""Seconds that a follower waits for frames before it looks at its role again."""
APPLIED_KEPT: Final = 10_000
"""Orders that are kept for an answer of the owner that arrives later."""


class KeysDifferError(LogError, code="KEYS_DIFFER"):
    """The secret files of this node are not those of the owner of the log."""


class ReplicaSequencer(Sequencer):
    """A sequencer of one node.

    Args:
        log: the replicated log, with the local copy that the state was recovered from; or that of
            another process, which this one follows only.
        state: the state after that copy.
        clock_ms: returns the time of a batch, or raises ``ClockUnsureError``.
        ownership: returns the record of this node as the owner with an epoch; None if it never is.
        keys: fingerprint of the secret files; empty if they are those of the owner.
        options: as for :class:`~clob_server.core.sequencer.Sequencer`.
    """

    def __init__(
        self,
        log: ReplicatedLog | PipedLog,
        state: ServerState,
        clock_ms: Callable[[], int],
        *,
        ownership: Callable[[int], Owner] | None = None,
        keys: bytes = b"",
        **options: Any,
    ) -> None:
        super().__init__(log, state, clock_ms, **options)
        self._keys: Final = keys
        self._frames: Final = log
        self._ownership: Final = ownership
        self.is_owner: bool = False
        self.is_candidate: bool = False
        """Whether this node shall become the owner once it has applied the whole log."""
        self.on_role: Callable[[bool], object] = lambda is_owner: None
        """Called when this node becomes the owner, and when it stops to be."""
        self.on_owner: Callable[[], object] = lambda: None
        """Called when another node has become the owner."""
        self.num_takeovers: int = 0
        """How often this node became the owner since it started."""
        self.place_elsewhere: Callable[[NewOrder, Callback], None] = self.enqueue_here
        """Sends an order to the owner; rejects it while there is no connection to one."""
        self._append_began = 0.0
        self._waiting: dict[int, Callback] = {}
        self._applied: dict[int, Committed] = {}
        self.check_keys()

    @property
    def epoch(self) -> int:
        """Number of the last ownership in the log; 0 before the first."""
        owner = self.state.registry.owner
        return 0 if owner is None else owner.epoch

    @property
    def append_s(self) -> float:
        """Seconds that the append under way has taken; 0 without one."""
        began = self._append_began
        return time.monotonic() - began if began else 0.0

    def enqueue(self, work: Work, callback: Callback) -> None:
        """Queue a command, or send an order to the owner.

        Raises:
            NotOwnerError: another node owns the log, and this is no order, or it is not reached.
            SequencerStoppedError, QueueFullError: as for the base class.
        """
        if isinstance(work, NewOrder) and not self.is_owner:
            self.place_elsewhere(work, callback)
        else:
            self.enqueue_here(work, callback)

    def enqueue_here(self, work: Work, callback: Callback) -> None:
        """Queue a command of this node or of a follower.

        Raises:
            NotOwnerError: another node owns the log.
            SequencerStoppedError, QueueFullError: as for the base class.
        """
        if not self.is_owner:
            raise NotOwnerError("this node does not own the log; send the request again")
        super().enqueue(work, callback)

    def when_applied(self, seq: int, callback: Callback) -> None:
        """Call back with a command once this node has applied it.

        The owner answers before its frame arrives here, or after: the last ones are kept.
        """
        done = self._applied.get(seq)
        if done is not None:
            callback(done)
        elif seq > self.seq:
            self._waiting[seq] = callback
        else:
            callback(CommitUnknownError(f"command {seq} was applied too long ago"))

    async def wait_for(self, seq: int) -> bool:
        """Wait until this node has applied a command, for 5 seconds; return whether it has."""
        for _ in range(APPLY_TRIES):
            if self.seq >= seq:
                return True
            await asyncio.sleep(APPLY_S)
        return False

    def _keep_applied(self, batch: Sequence[Committed]) -> None:
        """Answer the callers that wait for a command, and keep the others for a while."""
        waiting, applied = self._waiting, self._applied
        for done in batch:
            if waiting and (callback := waiting.pop(done.seq, None)) is not None:
                callback(done)
            elif type(done.command) is Submit:
                applied[done.seq] = done
        while len(applied) > APPLIED_KEPT:
            del applied[next(iter(applied))]

    def check_keys(self) -> None:
        """Compare the secret files with those of the owner.

        Raises:
            KeysDifferError: they differ, so that this node would show other ids.
        """
        owner = self.state.registry.owner
        if owner is not None and self._keys not in (b"", owner.keys):
            raise KeysDifferError(
                f"the secret files of this node differ from those of {owner.node}, the owner of the"
                f" log since epoch {owner.epoch}; copy ids.key, tokens.key and, with a dialect, "
                "dialect.key from its data folder"
            )

    def resign(self) -> None:
        """Commit the queued commands, and follow the next owner."""
        self.is_candidate = False
        if self.is_owner:
            self.is_owner = False
            self._has_work.set()

    @property
    def _accepts(self) -> bool:
        return self._is_open and self.is_owner

    async def _work(self, thread: LogThread) -> None:
        """Follow the log and own it, in turns."""
        while self._is_open:
            await self._follow(thread)
            if not self.is_owner:
                return
            try:
                await super()._work(thread)
            except NotOwnerError as error:
                self._drop_queue(error)
            finally:
                self.is_owner = self.is_candidate = False
                self._order_number = 0  # ids follow from the orders in the log
                self.prelude: Callable[[int], Sequence[AnyCommand]] | None = None
                self.on_role(False)

    def _drop_queue(self, error: NotOwnerError) -> None:
        """Reject the queued commands."""
        queued, self._queue = self._queue, []
        for _, callback in queued:
            callback(error)

    async def _follow(self, thread: LogThread) -> None:
        """Apply the frames of the owner, until this node is the owner or the server stops."""
        while self._is_open:
            epoch = self.epoch
            frames = await thread.run(partial(self._frames.pull, PULL_S))
            for frame in frames:
                check(frame, self.seq, self.event_hash)
                self._keep_applied(await self._show_all(commands_of(frame)))
            if self.epoch != epoch:  # another node was faster
                self.check_keys()
                self.is_candidate = False
                self.on_owner()
            if frames:
                self._follow_up(thread)
            elif self.is_candidate and await self._take_over(thread):
                return

    async def _take_over(self, thread: LogThread) -> bool:
        """Append the record of a new owner; return whether it was the next one in the log."""
        assert self._ownership is not None
        try:
            now_ms = max(self._clock_ms(), self.state.now_ms)
            command = TakeOver(owner=self._ownership(self.epoch + 1), now_ms=now_ms)
            await thread.run(partial(self._append, [encode(command)]))
        except (NotOwnerError, ClockUnsureError):
            return False
        await self._show_all([command])
        self._follow_up(thread)
        self.is_owner = True
        self.num_takeovers += 1
        self.on_role(True)
        return True

    async def _show_all(self, commands: list[AnyCommand]) -> list[Committed]:
        """Apply all commands of a durable frame, and call the listeners with them."""
        committed: list[Committed] = []
        while len(committed) < len(commands):
            applied = self._apply(commands, len(committed))
            await self._notify(applied)
            committed += applied
        return committed

    def _append(self, encoded: list[bytes]) -> None:  # type: ignore[override]
        """Write a batch; runs on the log thread."""
        self._append_began = time.monotonic()
        try:
            super()._append(encoded)
        except FencedError as error:
            raise NotOwnerError(f"another node became the owner of the log: {error}") from error
        finally:
            self._append_began = 0.0
