"""Brings what is signed onto the chain: sent in the order of the nonces, until a receipt counts.

The bytes are those of the outbox, so it does no harm to send them again: after a restart, to a node
that knows them no longer, and after a reorganisation. What a node says of a transaction that it
does not take is noted and decides nothing. What decides is a receipt, in as many blocks as are
asked for, or a block in which somebody else used the nonce.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from clob_server.chain.eth.rpc import (
    NodeError,
    NodeRefusedError,
    Question,
    Reply,
    number,
    result,
    understood,
)
from clob_server.chain.failpoints import die_here
from clob_server.chain.tx.node import PAUSE_MAX_S, PAUSE_S, Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.steps import Draft, Step

POLL_S: Final = 0.001
"""When a receipt is asked for the second time; each time it takes twice as long, the first is at
once."""
POLL_MAX_S: Final = 1.0
"""How long at most."""


class Track:
    """A signed step on its way.

    Args:
        step: the step.
        kind: what its operation does.
    """

    def __init__(self, step: Step, kind: str) -> None:
        assert step.nonce is not None
        now_s = time.monotonic()
        self.step: Step = step
        """The step."""
        self.kind: Final[str] = kind
        """What its operation does."""
        self.nonce: Final[int] = step.nonce
        """Its number among the operator's transactions."""
        self.is_sent: bool = False
        """If it was handed to the node."""
        self.was_sent: bool = False
        """If that was done before, by this process."""
        self.is_taken: bool = False
        """If the node took it at some time."""
        self.sent_s: float = now_s
        """When it was last sent, on the monotonic clock."""
        self.offered_s: float = now_s
        """When its newest fee was first offered to the node by this process."""
        self.due_s: float = now_s
        """When the receipt is to be asked for."""
        self.pause_s: float = 0.0
        """How long after that it is asked for again."""
        self.settled: Final[asyncio.Future[Step]] = asyncio.get_running_loop().create_future()
        """The step, once it is confirmed, reverted or lost."""

    def wait(self, now_s: float) -> None:
        """Have the receipt asked for later."""
        self.due_s = now_s + self.pause_s
        self.pause_s = min(max(2 * self.pause_s, POLL_S), POLL_MAX_S)

    def send_again(self, now_s: float) -> None:
        """Have it sent, and its receipt asked for at once."""
        self.is_sent, self.due_s, self.pause_s = False, now_s, 0.0


def fault_of(step: Step, receipt: dict[str, Any]) -> str | None:
    """Say what is wrong with a step that is in a block; None where nothing is."""
    if number(receipt.get("status")) != 1:
        return "the transaction was reverted"
    if not step.expects:
        return None
    address, topic = step.expects.split()
    logs: Iterable[dict[str, Any]] = receipt.get("logs", [])
    for log in logs:
        if str(log["address"]).lower() == address and log["topics"][:1] == [topic]:
            return None
    return f"the transaction left no log of {address} with the topic {topic}"


def draft_of(step: Step) -> Draft:
    """Give what is to be signed for a step."""
    return Draft(
        operation=step.operation,
        name=step.name,
        nonce=step.nonce,
        target=step.target,
        data=step.data,
        value=step.value,
        gas=step.gas,
        expects=step.expects,
        head=step.head,
    )


def about(track: Track) -> dict[str, object]:
    """Name a step in the log."""
    return {
        "operation": track.step.operation,
        "step": track.step.name,
        "nonce": track.nonce,
        "hash": track.step.offers[-1].hash,
    }


_ENCODE: Final = msgspec.json.Encoder().encode


class Following:
    """All signed steps that are on their way.

    Args:
        node: the node.
        outbox: where they are.
        confirmations: in how many blocks a step must be, its own and those on top.
    """

    def __init__(self, node: Node, outbox: Outbox, confirmations: int) -> None:
        self._node = node
        self._outbox = outbox
        self._confirmations = confirmations
        self._tracks: dict[int, Track] = {}
        self._besides: dict[int, Question] = {}
        self._replies: dict[int, Reply] = {}
        self._work = asyncio.Event()

    def follow(self, step: Step, kind: str) -> "asyncio.Future[Step]":
        """Bring a signed step onto the chain.

        Args:
            step: the step.
            kind: what its operation does.

        Returns:
            The step, once it is ``confirmed``, ``reverted`` or ``lost``.
        """
        track = self._tracks.get(step.number)
        if track is None:
            track = self._tracks[step.number] = Track(step, kind)
            self._work.set()
        return track.settled

    def ask_beside(self, operation: int, question: Question) -> None:
        """Have something asked along with the receipts of an operation.

        Args:
            operation: its number.
            question: what :meth:`reply_beside` is to give the answer to.
        """
        self._besides[operation] = question

    def reply_beside(self, operation: int) -> Reply | None:
        """Give the answer that came with the last receipt; None where there is none."""
        self._besides.pop(operation, None)
        return self._replies.pop(operation, None)

    @property
    def is_idle(self) -> bool:
        """If nothing is on its way."""
        return not self._tracks

    async def none_of(self, operation: int) -> None:
        """Wait until nothing of an operation is on its way."""
        while settled := [
            track.settled for track in self._tracks.values() if track.step.operation == operation
        ]:
            await asyncio.wait(settled)

    # ----- sending, and asking for receipts --------------------------------------------------

    async def run(self) -> None:
        """Send, and ask for receipts, for ever."""
        pause_s = PAUSE_S
        while True:
            self._work.clear()
            now_s = time.monotonic()
            due = [track for track in self._tracks.values() if track.due_s <= now_s]
            if not due:
                await self._rest(now_s)
                continue
            try:
                await self._round(sorted(due, key=lambda track: track.nonce))
                pause_s = PAUSE_S
            except NodeError as error:
                self._node.set_health(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _rest(self, now_s: float) -> None:
        """Wait until a receipt is due, or there is something new to send."""
        first_s = min((track.due_s for track in self._tracks.values()), default=None)
        try:
            async with asyncio.timeout(None if first_s is None else first_s - now_s):
                await self._work.wait()
        except TimeoutError:
            pass

    async def _round(self, due: Sequence[Track]) -> None:
        """Send those of them that were not sent, and ask for the receipts of all."""
        sending = [track for track in due if not track.is_sent]
        sent = [
            (track, ("eth_sendRawTransaction", (f"0x{offer.raw.hex()}",)))
            for track in sending
            for offer in reversed(track.step.offers)
        ]
        asked = [(track, offer.hash) for track in due for offer in track.step.offers]
        besides = {
            operation: self._besides[operation]
            for operation in (track.step.operation for track in due)
            if operation in self._besides
        }
        questions: list[Question] = [question for _, question in sent]
        questions += [("eth_getTransactionReceipt", (found,)) for _, found in asked]
        if self._confirmations > 1:
            questions.append(("eth_blockNumber", ()))
        replies = await self._node.once([*questions, *besides.values()])
        for track in sending:
            die_here(track.kind, track.step.name, "after_broadcast")
        for (track, _), reply in zip(sent, replies, strict=False):
            self._sent(track, reply)
        head = number(result(replies[len(questions) - 1])) if self._confirmations > 1 else 0
        self._take(due, asked, replies[len(sent) :], head)
        busy = {track.step.operation for track in self._tracks.values()}
        for operation, reply in zip(besides, replies[len(questions) :], strict=True):
            if operation not in busy:
                self._replies[operation] = reply

    def _take(
        self,
        due: Sequence[Track],
        asked: Sequence[tuple[Track, str]],
        replies: list[Reply],
        head: int,
    ) -> None:
        """Take the receipts that came.

        Args:
            due: whose receipts were asked for.
            asked: each hash that was asked about.
            replies: what came of that, and of what was asked besides.
            head: the newest block; 0 where a receipt is enough.
        """
        receipts: dict[int, dict[str, Any]] = {}
        for (track, _), reply in zip(asked, replies, strict=False):
            if isinstance(receipt := result(reply), dict):
                receipts[track.step.number] = receipt
        now_s = time.monotonic()
        for track in due:
            track.wait(now_s)
            receipt = receipts.get(track.step.number)
            if receipt is not None:
                with understood():
                    self._settle(track, receipt, head)

    def _sent(self, track: Track, reply: Reply) -> None:
        """Note what the node said of a transaction."""
        track.is_sent, track.sent_s = True, time.monotonic()
        if not track.was_sent:
            track.was_sent, track.offered_s = True, track.sent_s
        if isinstance(reply, NodeRefusedError):
            if not track.is_taken and track.step.error != str(reply):
                track.step = track.step._replace(error=str(reply))
                self._outbox.note(track.step.number, str(reply))
        else:
            track.is_taken = True

    def _settle(self, track: Track, receipt: dict[str, Any], head: int) -> None:
        """Take a receipt, if there are enough blocks on top of it."""
        block = number(receipt["blockNumber"])
        if max(head, block) - block + 1 < self._confirmations:
            return
        die_here(track.kind, track.step.name, "after_receipt")
        error = fault_of(track.step, receipt)
        self._outbox.happened(
            track.step.number,
            "confirmed" if error is None else "reverted",
            str(receipt["transactionHash"]),
            block,
            _ENCODE(receipt.get("logs", [])),
            error,
        )
        self.end(track)

    def tracks(self) -> list[Track]:
        """Give all that is on its way."""
        return list(self._tracks.values())

    def send_again(self, track: Track) -> None:
        """Have a step sent again."""
        track.send_again(time.monotonic())
        self._work.set()

    def end(self, track: Track) -> None:
        """Let go of a step, and tell who waits for it."""
        del self._tracks[track.step.number]
        track.settled.set_result(self._outbox.step(track.step.number))


# MERGED clob_server.chain.tx.tracker: A signed step on its way onto the chain, and what its receipt says.
