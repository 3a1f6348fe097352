"""What is done for transactions that take long: sent again, offered a higher fee, or given up.

One is given up only when the block is found in which somebody else used its nonce. That the node
shows no receipt proves nothing: it may be slow to tell, and what is signed anew would happen twice.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from clob_server.chain.eth.rpc import number, result, understood
from clob_server.chain.tx.gas_fees import Fees, raised
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.sender import Signer
from clob_server.chain.tx.tracker import Following, Track, about, draft_of

SLOW_S: Final = 1.0
"""After how long without a receipt the node is asked if it knows the transaction."""
BEFORE_BLOCKS: Final = 16
"""How many blocks before the newest one, as it was known when a step was signed, another
transaction with its nonce is looked for."""

_LOG: Final = logging.getLogger("clob_server.chain")


class StuckTransactions:
    """Looks after what takes long.

    Args:
        node: the node.
        outbox: where the steps are.
        signer: signs higher fees.
        following: those on their way.
        confirmations: in how many blocks a foreign transaction must be to count.
        bump_after_s: after how many seconds without a receipt a higher fee is offered.
        fill: called with a nonce that nobody uses, so that those above it can happen.
    """

    def __init__(
        self,
        node: Node,
        outbox: Outbox,
        signer: Signer,
        following: Following,
        confirmations: int,
        bump_after_s: float,
        fill: Callable[[int], None],
    ) -> None:
        self._node = node
        self._outbox = outbox
        self._signer = signer
        self._following = following
        self._confirmations = confirmations
        self._bump_after_s = bump_after_s
        self._fill = fill
        self._gap: tuple[int, float] | None = None
        self.num_rebroadcast: int = 0
        """How many were sent again because the node knew them no longer."""

    async def look_after(self) -> None:
        """Find out what is wrong with those that take long; to be called about once a second.

        Raises:
            NodeError: the node does not answer.
        """
        now_s = time.monotonic()
        self._look_for_gap(now_s)
        slow = [
            track
            for track in self._following.tracks()
            if track.is_sent and now_s - track.sent_s > SLOW_S
        ]
        if not slow:
            return
        asked = [(track, offer.hash) for track in slow for offer in track.step.offers]
        replies = await self._node.once(
            [("eth_getTransactionByHash", (found,)) for _, found in asked]
        )
        known: dict[int, dict[str, Any]] = {}
        for (track, _), reply in zip(asked, replies, strict=True):
            if isinstance(transaction := result(reply), dict):
                before = known.get(track.step.number)
                if before is None or before.get("blockNumber") is None:
                    known[track.step.number] = transaction
        for track in slow:
            with understood():
                await self._look_at(track, known.get(track.step.number))

    async def _look_at(self, track: Track, transaction: dict[str, Any] | None) -> None:
        """Do what helps a step that takes long.

        Args:
            track: the step.
            transaction: what the node knows of it.
        """
        if track.settled.done():
            return
        if transaction is None and self._node.count > track.nonce:
            await self._look_for_another(track)
            return
        if transaction is not None and transaction.get("blockNumber") is not None:
            return
        now_s = time.monotonic()
        is_late = now_s - track.offered_s > self._bump_after_s
        if is_late and track.nonce == self._node.count:
            self._bump(track, now_s)
        if transaction is None:
            if track.is_taken:
                self.num_rebroadcast += 1
                _LOG.warning("the node knows a transaction no longer", extra=about(track))
            self._following.send_again(track)

    def _look_for_gap(self, now_s: float) -> None:
        """Have a nonce used that is next, and that nobody's transaction has.

        Ours was chosen above one that waited for a block then, and that its sender or its node has
        dropped since.
        """
        nonce = self._node.count
        first = min((track.nonce for track in self._following.tracks()), default=nonce)
        is_gap = nonce < first and self._node.count_pending == nonce
        if not is_gap or any(step.nonce == nonce for step in self._outbox.from_nonce(nonce)):
            self._gap = None
        elif self._gap is None or self._gap[0] != nonce:
            self._gap = nonce, now_s
        elif now_s - self._gap[1] > self._bump_after_s:
            _LOG.warning("nobody uses the nonce %d, and others wait for it", nonce)
            self._gap = None
            self._fill(nonce)

    def _bump(self, track: Track, now_s: float) -> None:
        """Offer a higher fee with the same nonce."""
        step = track.step
        highest = step.offers[-1]
        legacy = self._node.offer.is_legacy
        offered = Fees(highest.max_fee, highest.tip, legacy)
        fees = raised(offered, self._node.offer, self._node.fee_max)
        track.offered_s = now_s
        if fees is None:
            _LOG.warning("the fee is as high as it may be", extra=about(track))
            return
        if (self._node.balance or 0) < step.gas * fees.max_fee + step.value:
            return  # it is money that is missing, and more of it would be
        offer = self._signer.sign(draft_of(step), fees)
        self._outbox.bump(step.number, offer)
        self._outbox.commit()
        track.step = self._outbox.step(step.number)
        self._following.send_again(track)
        _LOG.warning("a transaction is offered with a higher fee", extra=about(track))

    async def _look_for_another(self, track: Track) -> None:
        """Find the transaction that used the nonce, if it is not ours.

        It is looked for in the blocks, by the number of transactions that the operator had sent
        before each. Until it is found, nothing is decided: the node may only be slow to tell.
        """
        count, last = self._node.operator, self._node.head or 0
        last = last - self._confirmations + 1
        first = max(0, min(track.step.head, last) - BEFORE_BLOCKS)
        if await self._count_at(count, last) <= track.nonce:
            return
        while last - first > 1:
            middle = (first + last) // 2
            if await self._count_at(count, middle) > track.nonce:
                last = middle
            else:
                first = middle
        (reply,) = await self._node.once([("eth_getBlockByNumber", (hex(last), True))])
        block = result(reply)
        for transaction in block["transactions"] if isinstance(block, dict) else ():
            is_it = (
                str(transaction["from"]).lower() == self._node.operator.lower()
                and number(transaction["nonce"]) == track.nonce
            )
            if is_it:
                self._lose(track, str(transaction["hash"]))

    async def _count_at(self, operator: str, block: int) -> int:
        """Ask how many transactions the operator had sent up to a block."""
        question = ("eth_getTransactionCount", (operator, hex(max(block, 0))))
        (reply,) = await self._node.once([question])
        return number(result(reply))

    def _lose(self, track: Track, found: str) -> None:
        """Give a nonce up that a foreign transaction used."""
        if track.settled.done() or found in {offer.hash for offer in track.step.offers}:
            return
        error = f"nonce {track.nonce} was used by {found}, which this server did not send"
        self._outbox.lose(track.step.number, error)
        _LOG.warning("somebody else has the operator's key: %s", error)
        self._following.end(track)
