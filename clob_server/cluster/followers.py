"""The connections of followers to this node, which owns the log, and their requests."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

from clob import ClobError
from clob.codec import decode
from clob.commands import Submit
from clob_server.api.request import Scope, SendReply
from clob_server.cluster.messages import (
    NOT_OWNER,
    PeerAnswer,
    PeerAsk,
    PeerCall,
    PeerHeld,
    PeerHold,
    PeerMetrics,
    PeerPlace,
    PeerPlaced,
    PeerRelease,
)
from clob_server.cluster.peers import FollowerPeer
from clob_server.core.sequencer import Callback, Committed, NewOrder, Work
from clob_server.core.switches import CancelSwitches, SocketLease

PAGE_S: Final = 1.0
"""Seconds that another node may take for its metrics."""
FROM_NODE: Final = "clob.node"
"""Key in the scope of a request that another node has sent."""


class Followers:
    """The connections of followers, and the requests that arrive over them.

    Args:
        key: the secret that all nodes share.
        enqueue: queues a command; raises if this node does not own the log.
        is_owner: returns whether it does.
        charge: counts an order of another node against its budget; raises RATE_LIMITED.
        switches: hold the orders of the WebSockets of other nodes.
    """

    def __init__(
        self,
        key: bytes,
        enqueue: Callable[[Work, Callback], None],
        is_owner: Callable[[], bool],
        charge: Callable[[bytes], None],
        switches: CancelSwitches,
    ) -> None:
        self.start_call: Callable[[str, Scope, bytes, SendReply], None] = reject_call
        """Starts a request of another node: route, scope, body, and where its reply goes."""
        self.on_damage: Callable[[], object] = lambda: None
        """Called when another process has read a damaged page of the history file."""
        self._key, self._enqueue, self._is_owner = key, enqueue, is_owner
        self._charge, self._switches = charge, switches
        self._peers: set[FollowerPeer] = set()
        self._leases: dict[FollowerPeer, dict[int, SocketLease]] = {}
        self._server: asyncio.Server | None = None
        self._numbers = count(1)
        self._pages: dict[int, asyncio.Future[PeerMetrics]] = {}

    async def pages(self) -> dict[str, bytes]:
        """Return the metrics of the other nodes, by name; those that do not answer are left out."""
        asked = {}
        for peer in self._peers:
            if peer.is_open:
                number = next(self._numbers)
                asked[number] = asyncio.get_running_loop().create_future()
                peer.send(PeerAsk(number))
        self._pages |= asked
        if asked:
            await asyncio.wait(asked.values(), timeout=PAGE_S)
        for number in asked:
            self._pages.pop(number, None)
        done = [future.result() for future in asked.values() if future.done()]
        return {answer.node: answer.page for answer in done}

    def page(self, answer: PeerMetrics) -> None:
        """Receive the metrics of another node."""
        future = self._pages.pop(answer.number, None)
        if future is not None and not future.done():
            future.set_result(answer)

    async def listen(self, host: str, port: int) -> None:
        """Listen for other nodes."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: FollowerPeer(self._key, self, self._peers), host, port
        )

    @property
    def port(self) -> int:
        """The port that this node listens at for other nodes."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
            for peer in tuple(self._peers):
                peer.transport.close()

    # ----- their messages -----------------------------------------------------------------------

    def call(self, call: PeerCall, reply: Callable[[PeerAnswer], None]) -> None:
        """Handle a request that another node has sent."""

        def send_reply(status: int, lines: bytes, body: bytes) -> bool:
            reply(PeerAnswer(call.number, status, lines, body))
            return True

        scope = {
            "type": "http",
            "path": call.path,
            "path_params": call.params,
            "query_string": call.query,
            "headers": call.headers,
            "client": (call.address, 0),
            "server": call.server,
            "scheme": call.scheme,
            FROM_NODE: True,
        }
        self.start_call(call.route, scope, call.body, send_reply)

    def place(self, place: PeerPlace, reply: Callable[[PeerPlaced], None]) -> None:
        """Place an order that another node has verified."""

        def on_done(result: Committed | Exception) -> None:
            if isinstance(result, Committed):
                reply(PeerPlaced(place.number, result.seq))
            else:
                reply(PeerPlaced(place.number, 0, getattr(result, "code", ""), str(result)))

        try:
            submit = decode(place.submit)
            assert type(submit) is Submit
            if self._is_owner() and place.payer is not None:
                self._charge(place.payer)
            self._enqueue(NewOrder(submit, place.opener, place.payer), on_done)
        except ClobError as error:
            on_done(error)

    def hold(self, hold: PeerHold, peer: FollowerPeer) -> None:
        """Keep the orders of a maker until a WebSocket of another node ends."""

        def on_armed(error: Exception | None) -> None:
            code = "" if error is None else getattr(error, "code", "INTERNAL")
            peer.send(PeerHeld(hold.number, code, str(error or "")))

        try:
            lease = self._switches.hold_here(hold.maker)
            self._leases.setdefault(peer, {})[hold.number] = lease
            if self._switches.is_armed(lease):
                peer.send(PeerHeld(hold.number))
            else:
                self._switches.arm(lease, on_armed)
        except ClobError as error:
            on_armed(error)

    def release(self, release: PeerRelease, peer: FollowerPeer) -> None:
        """Cancel the orders of a maker whose last WebSocket has ended, or disarm the switch."""
        lease = self._leases.get(peer, {}).pop(release.number, None)
        if lease is not None:
            lease.cancels = release.cancels
            lease.end()

    def lost(self, peer: FollowerPeer) -> None:
        """Wait for the WebSockets of another process to return, since the connection ended."""
        for lease in self._leases.pop(peer, {}).values():
            self._switches.abandon(lease)


def reject_call(route: str, scope: Scope, body: bytes, send_reply: SendReply) -> None:
    """Reject a request of another node, since this one is starting."""
    send_reply(503, b"", b"{%b}" % NOT_OWNER)
