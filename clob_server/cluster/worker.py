"""A worker process among the others: its role, and the WebSockets that it holds for makers."""

import asyncio
from collections.abc import Callable
from typing import Final

from clob_server.cluster.forward import Forwarding
from clob_server.cluster.node import Beat
from clob_server.core.sequencer import Sequencer
from clob_server.core.switches import Armed, CancelSwitches, SocketLease

APPLY_S: Final = 0.002
"""Seconds between two looks for a command that this process has not applied yet."""
APPLY_TRIES: Final = 2_500
"""Looks for it at most."""
OWNER_READS: Final = frozenset({
    "admin_list_keys", "admin_get_limits", "admin_engine", "admin_get_clock", "admin_backup",
    "admin_backup_frames", "admin_backup_snapshot", "admin_chain", "admin_settlement",
    "admin_list_operations", "admin_list_markets", "admin_get_market", "list_dev_wallets",
    "get_receipt", "gasless_operation", "get_account", "root", "health", "metrics",
})  # fmt: skip
"""Routes whose reads the first process answers: they need what only it has, such as the chain, or
are about the whole server."""


class WorkerNode:
    """The role of a worker: it follows the first process, which never changes.

    Args:
        name: its name.
        address: host and port of the first process.
        seq: returns the last command that this process has applied.
    """

    is_owner: Final = False
    is_unsure: Final = False

    def __init__(self, name: str, address: str, seq: Callable[[], int]) -> None:
        self.name: Final = name
        self.owner: Final = Beat("worker 1", "", address, 0, 0)
        self._seq = seq

    async def wait_for(self, seq: int) -> bool:
        """Wait until this process has applied a command, for 5 seconds; return whether it has."""
        for _ in range(APPLY_TRIES):
            if self._seq() >= seq:
                return True
            await asyncio.sleep(APPLY_S)
        return False


class RemoteSwitches(CancelSwitches):
    """The switches of all makers, as a process sees them that does not fire them.

    The first process fires them: it holds a lease for each WebSocket here.

    Args:
        sequencer: follows the log.
        forwarding: the connection to the first process.
    """

    def __init__(self, sequencer: Sequencer, forwarding: Forwarding) -> None:
        super().__init__(sequencer)
        sequencer.prelude = None
        self._forwarding: Final = forwarding
        self._numbers: Final[dict[SocketLease, int]] = {}
        self._waiting: Final[dict[SocketLease, Armed]] = {}

    def hold(self, maker: str) -> SocketLease:
        """Note a WebSocket whose end cancels the orders of a maker.

        Raises:
            NotOwnerError: there is no connection to the first process.
        """
        lease = SocketLease(self, maker)

        def on_held(error: Exception | None) -> None:
            callback = self._waiting.pop(lease, None)
            if callback is not None:
                callback(error)

        self._numbers[lease] = self._forwarding.hold(maker, on_held)
        return lease

    def arm(self, lease: SocketLease, callback: Armed) -> None:
        """Call back once the first process has armed the switch of a lease durably."""
        self._waiting[lease] = callback

    def release(self, lease: SocketLease) -> None:
        """Let the first process fire the switch, or disarm it, if this was the last WebSocket."""
        self._waiting.pop(lease, None)
        self._forwarding.release(self._numbers.pop(lease), cancels=lease.cancels)

    async def close(self) -> None:
        """Do nothing: the first process notes the end of this one."""
