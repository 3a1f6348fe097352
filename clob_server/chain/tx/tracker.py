"""Sends signed transactions in nonce order and tracks them until they are confirmed.

The bytes come from the outbox, so sending them again is harmless: after a restart, to a node that
dropped them, and after a reorganisation. An error that a node returns for a transaction is only
recorded. A step ends with a receipt that has enough confirmations, or with a block in which another
transaction used the nonce (see :mod:`clob_server.chain.tx.stuck`).
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clob_server.chain.eth.rpc import (
    NodeError,
    NodeRejectedError,
    Reply,
    RpcRequest,
    integer,
    parsing,
    result,
)
from clob_server.chain.failpoints import failpoint
from clob_server.chain.tx.node import PAUSE_MAX_S, PAUSE_S, Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.steps import Step

POLL_S: Final = 0.001
"""Pause before the second request for a receipt, seconds; doubled each time. The first request is
sent at once."""
POLL_MAX_S: Final = 1.0
"""Maximum pause, seconds."""


class TrackedStep:
    """A signed step until its end."""

    def __init__(self, step: Step, kind: str) -> None:
        assert step.nonce is not None
        now_s = time.monotonic()
        self.step: Step = step
        """The step as stored."""
        self.kind: Final[str] = kind
        self.nonce: Final[int] = step.nonce
        self.is_sent: bool = False
        """Whether it has been sent since the last change."""
        self.was_sent: bool = False
        """Whether this process has sent it before."""
        self.is_accepted: bool = False
        """Whether the node has accepted it at any time."""
        self.sent_s: float = now_s
        """When it was last sent, on the monotonic clock."""
        self.fee_sent_s: float = now_s
        """When this process first sent it with its newest fee."""
        self.due_s: float = now_s
        """When to request its receipt."""
        self.pause_s: float = 0.0
        """Pause until the next request."""
        self.future: Final[asyncio.Future[Step]] = asyncio.get_running_loop().create_future()
        """Resolved with the step once it is confirmed, reverted or lost."""

    def schedule(self, now_s: float) -> None:
        """Schedule the next request for the receipt."""
        self.due_s = now_s + self.pause_s
        self.pause_s = min(max(2 * self.pause_s, POLL_S), POLL_MAX_S)

    def resend(self, now_s: float) -> None:
        """Schedule sending, and a request for the receipt at once."""
        self.is_sent, self.due_s, self.pause_s = False, now_s, 0.0


def receipt_error(step: Step, receipt: dict[str, Any]) -> str | None:
    """Return the error of a step in a block; None if it succeeded."""
    if integer(receipt.get("status")) != 1:
        return "the transaction was reverted"
    if not step.expects:
        return None
    address, topic = step.expects.split()
    for log in receipt.get("logs", []):
        if str(log["address"]).lower() == address and log["topics"][:1] == [topic]:
            return None
    return f"the transaction has no log of {address} with topic {topic}"


def log_fields(track: TrackedStep) -> dict[str, object]:
    """Return log fields that identify a step."""
    return {
        "operation": track.step.operation,
        "step": track.step.name,
        "nonce": track.nonce,
        "hash": track.step.transactions[-1].hash,
    }


class TransactionTracker:
    """Sends all signed steps, and confirms them by receipts at a depth of ``confirmations``."""

    def __init__(self, node: Node, outbox: Outbox, confirmations: int) -> None:
        self._node = node
        self._outbox = outbox
        self._confirmations = confirmations
        self._steps: dict[int, TrackedStep] = {}
        self._requests: dict[int, RpcRequest] = {}
        self._replies: dict[int, Reply] = {}
        self._work = asyncio.Event()

    def track(self, step: Step, kind: str) -> "asyncio.Future[Step]":
        """Send a signed step and track it.

        Returns:
            A future of the step, resolved once it is ``confirmed``, ``reverted`` or ``lost``.
        """
        track = self._steps.get(step.number)
        if track is None:
            track = self._steps[step.number] = TrackedStep(step, kind)
            self._work.set()
        return track.future

    def add_request(self, operation: int, request: RpcRequest) -> None:
        """Send a request with the receipts of an operation, for :meth:`take_reply`."""
        self._requests[operation] = request

    def take_reply(self, operation: int) -> Reply | None:
        """Return the reply that came with the last receipt, or None."""
        self._requests.pop(operation, None)
        return self._replies.pop(operation, None)

    @property
    def is_idle(self) -> bool:
        """Whether no step is tracked."""
        return not self._steps

    async def wait_idle(self, operation: int) -> None:
        """Wait until no step of an operation is tracked."""
        while futures := [
            track.future for track in self._steps.values() if track.step.operation == operation
        ]:
            await asyncio.wait(futures)

    # ----- sending and receipts --------------------------------------------------------------

    async def run(self) -> None:
        """Send steps and request receipts, forever."""
        pause_s = PAUSE_S
        while True:
            self._work.clear()
            now_s = time.monotonic()
            due = [track for track in self._steps.values() if track.due_s <= now_s]
            if not due:
                await self._wait(now_s)
                continue
            try:
                await self._round(sorted(due, key=lambda track: track.nonce))
                pause_s = PAUSE_S
            except NodeError as error:
                self._node.set_health(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _wait(self, now_s: float) -> None:
        """Wait until a receipt is due or there is a new step."""
        first_s = min((track.due_s for track in self._steps.values()), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if first_s is None else first_s - now_s):
                await self._work.wait()

    async def _round(self, due: Sequence[TrackedStep]) -> None:
        """Send the unsent steps and request the receipts of all."""
        unsent = [track for track in due if not track.is_sent]
        sent = [(track, each.raw) for track in unsent for each in reversed(track.step.transactions)]
        hashes = [(track, each.hash) for track in due for each in track.step.transactions]
        extra = {
            operation: self._requests[operation]
            for operation in (track.step.operation for track in due)
            if operation in self._requests
        }
        requests: list[RpcRequest] = [
            *(("eth_sendRawTransaction", (f"0x{raw.hex()}",)) for _, raw in sent),
            *(("eth_getTransactionReceipt", (tx_hash,)) for _, tx_hash in hashes),
        ]
        if self._confirmations > 1:
            requests.append(("eth_blockNumber", ()))
        replies = await self._node.request([*requests, *extra.values()])
        for track in unsent:
            failpoint(track.kind, track.step.name, "after_broadcast")
        for (track, _), reply in zip(sent, replies, strict=False):
            self._record_sent(track, reply)
        head = integer(result(replies[len(requests) - 1])) if self._confirmations > 1 else 0
        receipts: dict[int, dict[str, Any]] = {}
        for (track, _), reply in zip(hashes, replies[len(sent) :], strict=False):
            if isinstance(receipt := result(reply), dict):
                receipts[track.step.number] = receipt
        self._process(due, receipts, head)
        busy = {track.step.operation for track in self._steps.values()}
        for operation, reply in zip(extra, replies[len(requests) :], strict=True):
            if operation not in busy:
                self._replies[operation] = reply

    def _process(
        self, due: Sequence[TrackedStep], receipts: dict[int, dict[str, Any]], head: int
    ) -> None:
        """Process the receipts of a round, by number of the step."""
        now_s = time.monotonic()
        for track in due:
            track.schedule(now_s)
            receipt = receipts.get(track.step.number)
            if receipt is not None:
                with parsing():
                    self._record_receipt(track, receipt, head)

    def _record_sent(self, track: TrackedStep, reply: Reply) -> None:
        """Record the node's reply to a sent transaction."""
        track.is_sent, track.sent_s = True, time.monotonic()
        if not track.was_sent:
            track.was_sent, track.fee_sent_s = True, track.sent_s
        if isinstance(reply, NodeRejectedError):
            if not track.is_accepted and track.step.error != str(reply):
                track.step = msgspec.structs.replace(track.step, error=str(reply))
                self._outbox.record_error(track.step.number, str(reply))
        else:
            track.is_accepted = True

    def _record_receipt(self, track: TrackedStep, receipt: dict[str, Any], head: int) -> None:
        """Store the receipt of a step if it has enough confirmations."""
        block = integer(receipt["blockNumber"])
        if max(head, block) - block + 1 < self._confirmations:
            return
        failpoint(track.kind, track.step.name, "after_receipt")
        error = receipt_error(track.step, receipt)
        self._outbox.record_receipt(
            track.step.number,
            "confirmed" if error is None else "reverted",
            str(receipt["transactionHash"]),
            block,
            msgspec.json.encode(receipt.get("logs", [])),
            error,
        )
        self.finish(track)

    def tracked(self) -> list[TrackedStep]:
        """Return all tracked steps."""
        return list(self._steps.values())

    def resend(self, track: TrackedStep) -> None:
        """Send a step again."""
        track.resend(time.monotonic())
        self._work.set()

    def finish(self, track: TrackedStep) -> None:
        """Stop tracking a step and resolve its future."""
        del self._steps[track.step.number]
        track.future.set_result(self._outbox.step(track.step.number))
