"""WebSockets of a node that hold the orders of makers, while another node may own the log.

The owner fires the switches. A node that follows it names its WebSockets to it, again to each new
owner, and holds them itself once it is the owner.
"""

from functools import partial
from typing import Final

from clob_server.cluster.forward import Forwarding
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import Sequencer
from clob_server.core.switches import Armed, CancelSwitches, SocketLease

NO_OWNER: Final = 0
"""Number of a lease that no owner has yet."""


class NodeSwitches(CancelSwitches):
    """The switches of all makers at one of several nodes or processes.

    Args:
        sequencer: that of the node.
        forwarding: the connection to the owner.
    """

    def __init__(self, sequencer: Sequencer, forwarding: Forwarding) -> None:
        super().__init__(sequencer)
        self._forwarding: Final = forwarding
        self._own: Final[set[SocketLease]] = set()
        self._remote: Final[dict[SocketLease, int]] = {}
        self._waiting: Final[dict[SocketLease, Armed]] = {}
        forwarding.on_link = self._hold_again

    def hold(self, maker: str) -> SocketLease:
        """Note a WebSocket of this node whose end cancels the orders of a maker."""
        if self._sequencer.is_owner:
            lease = self.hold_here(maker)
            self._own.add(lease)
        else:
            lease = SocketLease(self, maker)
            self._remote[lease] = self._hold_at_owner(lease)
        return lease

    def arm(self, lease: SocketLease, callback: Armed) -> None:
        """Call back once the switch of a lease is armed durably, or cannot be."""
        if lease in self._remote:
            self._waiting[lease] = callback
        else:
            super().arm(lease, callback)

    def release(self, lease: SocketLease) -> None:
        """Fire the switch if this was the last WebSocket of its maker, or disarm it."""
        self._own.discard(lease)
        self._waiting.pop(lease, None)
        number = self._remote.pop(lease, None)
        if number is not None:
            if self._is_on:  # otherwise this node stops, and its clients may return elsewhere
                self._forwarding.release(number, cancels=lease.cancels)
        elif self._sequencer.is_owner:
            super().release(lease)

    def take_over(self) -> None:
        """Hold the WebSockets of this node here, since it became the owner."""
        super().take_over()
        remote = list(self._remote)
        self._remote.clear()
        for lease in remote:
            self._register(lease)
            self._own.add(lease)
            if (callback := self._waiting.pop(lease, None)) is not None:
                super().arm(lease, callback)

    def follow(self) -> None:
        """Pass the WebSockets of this node, which no longer is the owner, to the next owner."""
        self._leases.clear()
        self._remote.update(dict.fromkeys(self._own, NO_OWNER))
        self._own.clear()

    def _hold_again(self) -> None:
        """Name all WebSockets to the owner that this node has a connection to now."""
        for lease in self._remote:
            self._remote[lease] = self._hold_at_owner(lease)

    def _hold_at_owner(self, lease: SocketLease) -> int:
        """Name a WebSocket to the owner; return its number there."""
        try:
            return self._forwarding.hold(lease.maker, partial(self._on_held, lease))
        except NotOwnerError:
            return NO_OWNER

    def _on_held(self, lease: SocketLease, error: Exception | None) -> None:
        callback = self._waiting.pop(lease, None)
        if callback is not None:
            callback(error)
