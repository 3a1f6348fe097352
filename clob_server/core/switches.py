"""Cancels all orders of a maker whose heartbeats stop, or whose last WebSocket closes.

The state knows which switches are armed; this process alone knows the last heartbeats and the open
WebSockets. Deadlines use the monotonic clock, so that no jump of the wall clock fires a switch.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Final, TypeAlias

from clob import CancelAll, ClobError, Mode
from clob_server.core.commands import (
    AnyCommand,
    FireSwitch,
    KeepSwitches,
    SetCancelOnDisconnect,
    SetHeartbeat,
)
from clob_server.core.registry import DISCONNECT, HEARTBEAT, Switch
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import Committed, Sequencer

TIMEOUT_MIN_MS: Final = 1_000
"""The shortest timeout of heartbeats, milliseconds."""
TIMEOUT_MAX_MS: Final = 3_600_000
"""The longest timeout of heartbeats, milliseconds."""
RETURN_S: Final = 5.0
"""Seconds after a start within which a WebSocket has to return."""
TICK_S: Final = 0.1
"""Seconds between two looks for switches that are due."""

Key: TypeAlias = tuple[str, str]
"""A switch: its maker, and ``heartbeat`` or ``disconnect``."""

_OFF: Final = Switch()
_FOLLOWED: Final = frozenset({SetHeartbeat, SetCancelOnDisconnect, FireSwitch})
_LOG: Final = logging.getLogger("clob_server")


class NotDueError(Exception):
    """A command of a switch is not needed any more; nothing was written."""


class Deadlines:
    """Deadlines of switches. Extending one takes constant time, taking a due one O(log n)."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []

    def set(self, key: Key, at: float) -> None:
        """Set the deadline of a switch."""
        self._at[key] = at
        self.look_again(key, at)

    def remove(self, key: Key) -> None:
        """Remove the deadline of a switch, if any."""
        self._at.pop(key, None)

    def is_due(self, key: Key, now: float) -> bool:
        """Return whether a switch has a deadline that is over."""
        return self._at.get(key, inf) <= now

    def look_again(self, key: Key, at: float) -> None:
        """Have :meth:`take_due` look at a switch at a time, or before."""
        if at < self._queued.get(key, inf):
            self._queued[key] = at
            heappush(self._heap, (at, key))

    def take_due(self, now: float) -> list[Key]:
        """Return the switches that are due, each once until :meth:`look_again`."""
        due: list[Key] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, key = heappop(heap)
            if self._queued.get(key) != at:  # an earlier look replaced this one
                continue
            del self._queued[key]
            deadline = self._at.get(key, inf)
            if deadline <= now:
                due.append(key)
            elif deadline < inf:  # it was extended
                self.look_again(key, deadline)
        return due


Armed: TypeAlias = Callable[[Exception | None], None]
"""Called when a switch is armed durably, or with the reason why it is not."""


class SocketLease:
    """A WebSocket that keeps the orders of a maker; its end cancels them if it was the last."""

    def __init__(self, switches: "CancelSwitches", maker: str) -> None:
        self.maker: Final = maker
        self.cancels: bool = True
        """Whether its end cancels; False once the client has withdrawn its request."""
        self._switches: Final = switches

    def end(self) -> None:
        """Note that the WebSocket has closed, or that the client has withdrawn its request."""
        self._switches.release(self)


class CancelSwitches:
    """The switches of all makers.

    Args:
        sequencer: commits the commands; the state is that of the last command in its log.
        clock: returns monotonic seconds.
    """

    def __init__(self, sequencer: Sequencer, clock: Callable[[], float] = time.monotonic) -> None:
        self._sequencer: Final = sequencer
        self._state: Final = sequencer.state
        self._armed: Final = sequencer.state.registry.switches
        self._clock: Final = clock
        self._deadlines: Final = Deadlines()
        self._ending: Final[set[Key]] = set()
        self._leases: Final[dict[str, set[SocketLease]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._stopped_ms = sequencer.state.now_ms
        self._is_on = True
        if self._armed:
            sequencer.prelude = self._fire_late

    # ----- start and end -----------------------------------------------------------------------

    def take_over(self) -> None:
        """Continue where the owner of the log before ended, like a new process."""
        self._stopped_ms = self._state.now_ms
        self._ending.clear()
        self._is_on = True
        if self._armed:
            self._sequencer.prelude = self._fire_late

    def start(self) -> None:
        """Begin the deadlines of the switches that were armed when the last process ended."""
        now = self._clock()
        for maker, switch in self._armed.items():
            if switch.timeout_ms:
                self._deadlines.set((maker, HEARTBEAT), now + switch.timeout_ms / 1000)
            if switch.on_disconnect and maker not in self._leases:
                self._deadlines.set((maker, DISCONNECT), now + RETURN_S)

    async def run(self) -> None:
        """Fire due switches, until cancelled."""
        if self._sequencer.prelude is not None:
            with suppress(ClobError, NotDueError):
                await self._sequencer.deliver(_nothing)
        while True:
            await asyncio.sleep(TICK_S)
            await self._fire_due()

    def stop(self) -> None:
        """Fire no switch any more, since the server stops; the next start decides."""
        self._is_on = False

    async def close(self) -> None:
        """Log the time of an orderly stop if heartbeats are awaited."""
        self.stop()
        if num_armed := sum(switch.timeout_ms > 0 for switch in self._armed.values()):
            with suppress(ClobError):  # the next start counts from the command before
                await self._sequencer.submit(KeepSwitches(num_armed=num_armed))

    # ----- heartbeats --------------------------------------------------------------------------

    async def heartbeat(self, makers: Sequence[str], timeout_ms: int) -> bool:
        """Extend the deadlines of makers, and arm, change or disarm their switches if needed.

        Args:
            makers: the makers, in EIP-55 form.
            timeout_ms: milliseconds until the next heartbeat at most; 0 disarms.

        Returns:
            Whether a switch was armed, changed or disarmed.

        Raises:
            ClobError: as ``Sequencer.submit``; no switch was armed, changed or disarmed.
        """
        changed = [maker for maker in makers if not self._extend(maker, timeout_ms)]
        if changed:
            await self._sequencer.submit(
                tuple(SetHeartbeat(maker=maker, timeout_ms=timeout_ms) for maker in changed)
            )
        return bool(changed)

    def _extend(self, maker: str, timeout_ms: int) -> bool:
        """Extend a deadline; return False if a command has to change the switch first."""
        key = (maker, HEARTBEAT)
        if self._armed.get(maker, _OFF).timeout_ms != timeout_ms or key in self._ending:
            return False
        if timeout_ms:
            self._deadlines.set(key, self._clock() + timeout_ms / 1000)
        return True

    # ----- WebSockets --------------------------------------------------------------------------

    def hold(self, maker: str) -> SocketLease:
        """Note a WebSocket of this process whose end cancels the orders of a maker.

        Raises:
            NotOwnerError: another node commits the cancels.
        """
        return self.hold_here(maker)

    def hold_here(self, maker: str) -> SocketLease:
        """Note a WebSocket of any process, whose end is fired here.

        Raises:
            NotOwnerError: another node commits the cancels.
        """
        if not self._sequencer.is_owner:
            raise NotOwnerError("this node does not own the log")
        lease = SocketLease(self, maker)
        self._register(lease)
        return lease

    def _register(self, lease: SocketLease) -> None:
        maker = lease.maker
        self._leases.setdefault(maker, set()).add(lease)
        key = (maker, DISCONNECT)
        if not self._deadlines.is_due(key, self._clock()):  # it returned in time after a restart
            self._deadlines.remove(key)

    def arm(self, lease: SocketLease, callback: "Armed") -> None:
        """Arm the switch of a lease, and call back once that is durable.

        Raises:
            QueueFullError, SequencerStoppedError: as ``Sequencer.enqueue``.
        """
        self._sequencer.enqueue(
            SetCancelOnDisconnect(maker=lease.maker, armed=True),
            lambda result: callback(result if isinstance(result, Exception) else None),
        )

    def is_armed(self, lease: SocketLease) -> bool:
        """Return whether the switch of a lease is armed durably."""
        is_ending = (lease.maker, DISCONNECT) in self._ending
        return self._armed.get(lease.maker, _OFF).on_disconnect and not is_ending

    def release(self, lease: SocketLease) -> None:
        """Fire the switch of the last WebSocket of a maker, or disarm it by its request."""
        leases = self._leases.get(lease.maker, set())
        if lease not in leases:
            return
        leases.remove(lease)
        if leases:
            return
        del self._leases[lease.maker]
        if not self._is_on:
            return
        key = (lease.maker, DISCONNECT)
        if lease.cancels:
            self._deadlines.set(key, self._clock())
        ending = self._fire_due() if lease.cancels else self._disarm(lease.maker)
        task = asyncio.get_running_loop().create_task(ending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def abandon(self, lease: SocketLease) -> None:
        """Fire the switch of a WebSocket unless it returns in time: its process was lost."""
        leases = self._leases.get(lease.maker, set())
        leases.discard(lease)
        if not leases and self._leases.pop(lease.maker, None) is not None:
            self._deadlines.set((lease.maker, DISCONNECT), self._clock() + RETURN_S)

    async def _disarm(self, maker: str) -> None:
        """Disarm the switch of a maker whose client has withdrawn its request."""

        def build(now_ms: int) -> AnyCommand:
            if maker in self._leases:
                raise NotDueError
            self._ending.add((maker, DISCONNECT))
            return SetCancelOnDisconnect(maker=maker, armed=False, now_ms=now_ms)

        with suppress(ClobError, NotDueError):
            await self._sequencer.deliver(build)

    # ----- firing ------------------------------------------------------------------------------

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Follow the commands of a batch that arm, change, disarm or fire switches."""
        for done in batch:
            if type(done.command) in _FOLLOWED:
                self._follow(done.command)

    def _follow(self, command: AnyCommand) -> None:
        """Follow a command; the registry rejects none of them."""
        if type(command) is SetHeartbeat:
            key = (command.maker, HEARTBEAT)
            if command.timeout_ms:
                self._deadlines.set(key, self._clock() + command.timeout_ms / 1000)
            else:
                self._deadlines.remove(key)
        elif type(command) is SetCancelOnDisconnect and not command.armed:
            self._ending.discard((command.maker, DISCONNECT))
        elif type(command) is FireSwitch:
            key = (command.maker, command.cause)
            self._ending.discard(key)
            self._deadlines.remove(key)
            fields = {"maker": command.maker, "cause": command.cause}
            _LOG.info("the orders of a maker were cancelled by its switch", extra=fields)

    async def _fire_due(self) -> None:
        """Fire the switches that are due, unless they are being fired."""
        if due := self._deadlines.take_due(self._clock()):
            await asyncio.gather(*map(self._fire, due))

    async def _fire(self, key: Key) -> None:
        """Fire a switch, and look at it again if it is still armed."""
        with suppress(ClobError, NotDueError):  # such as a full queue, or an uncertain time
            await self._sequencer.submit(partial(self._build, key))
        self._deadlines.look_again(key, self._clock() + TICK_S)

    def _build(self, key: Key, now_ms: int) -> tuple[AnyCommand, ...]:
        """Return the commands of a switch that is still due when they are written."""
        is_due = self._is_on and self._deadlines.is_due(key, self._clock())
        commands = self._commands(key, now_ms) if is_due else ()
        if not commands:
            raise NotDueError
        return commands

    def _commands(self, key: Key, now_ms: int) -> tuple[AnyCommand, ...]:
        """Return the commands that cancel the orders of a maker, and disarm the switch.

        It stays armed while a market keeps orders that a maker cannot cancel now, and for a
        WebSocket that was opened after the last one closed.
        """
        maker, cause = key
        cancel = CancelAll(maker=maker, now_ms=now_ms)
        if cause == DISCONNECT and maker in self._leases:
            self._deadlines.remove(key)
            return (cancel,)
        if self._has_orders(maker, halted=True):
            return (cancel,) if self._has_orders(maker, halted=False) else ()
        self._ending.add(key)
        return FireSwitch(maker=maker, cause=cause, now_ms=now_ms), cancel

    def _has_orders(self, maker: str, *, halted: bool) -> bool:
        """Return whether a maker has resting orders in markets that are halted, or in others."""
        state = self._state
        return any(
            (state.markets[name].mode is Mode.HALTED) is halted
            for name in state.matcher.open_markets(maker)
        )

    def _fire_late(self, now_ms: int) -> list[AnyCommand]:
        """Return the commands of the switches whose timeout passed while no server ran."""
        away_ms = now_ms - self._stopped_ms
        commands: list[AnyCommand] = []
        for maker, switch in self._armed.items():
            if 0 < switch.timeout_ms < away_ms:
                commands += self._commands((maker, HEARTBEAT), now_ms)
        return commands


def _nothing(_: int) -> AnyCommand:
    """Have the sequencer write a batch that only has its prelude."""
    raise NotDueError
