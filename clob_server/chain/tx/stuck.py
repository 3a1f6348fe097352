"""Handles transactions without a receipt: resends them, raises their fee, or marks them as lost.

A step is lost only if the block is found in which another transaction used its nonce. A missing
receipt proves nothing: the node may lag, and signing the step again could execute it twice.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from clob_server.chain.eth.rpc import integer, parsing, result
from clob_server.chain.tx.gas_fees import Fees, gwei, raise_fees
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.signer import Signer, SignerError
from clob_server.chain.tx.tracker import TrackedStep, TransactionTracker, log_fields

SLOW_S: Final = 1.0
"""Seconds without a receipt after which the node is asked for the transaction."""
BEFORE_BLOCKS: Final = 16
"""Blocks before the signing of a step from which a foreign transaction with its nonce is
searched."""

_LOG: Final = logging.getLogger("clob_server.chain")


class StuckTransactions:
    """Checks steps that have no receipt for long.

    Args:
        node: the node.
        outbox: storage of the steps.
        signer: signs transactions with higher fees.
        tracker: the tracked steps.
        confirmations: blocks required for a foreign transaction to count.
        bump_after_s: seconds without a receipt before the fee is raised.
        on_gap: called with an unused nonce that later transactions wait for.
    """

    def __init__(
        self,
        node: Node,
        outbox: Outbox,
        signer: Signer,
        tracker: TransactionTracker,
        confirmations: int,
        bump_after_s: float,
        on_gap: Callable[[int], None],
    ) -> None:
        self._node = node
        self._outbox = outbox
        self._signer = signer
        self._tracker = tracker
        self._confirmations = confirmations
        self._bump_after_s = bump_after_s
        self._on_gap = on_gap
        self._gap: tuple[int, float] | None = None
        self.num_rebroadcast: int = 0
        """Transactions sent again because the node had dropped them."""
        self._noted: int | None = None
        self.waiting: str = ""
        """Reason why the next transaction waits for its block; empty if none is known."""

    async def check(self) -> None:
        """Check all steps without a receipt; call it about once a second.

        Raises:
            NodeError: the node does not respond.
        """
        now_s = time.monotonic()
        self._check_gap(now_s)
        tracked = self._tracker.tracked()
        slow = [each for each in tracked if each.is_sent and now_s - each.sent_s > SLOW_S]
        self._explain_wait(tracked)
        if not slow:
            return
        hashes = [(track, each.hash) for track in slow for each in track.step.transactions]
        requests = [("eth_getTransactionByHash", (tx_hash,)) for _, tx_hash in hashes]
        replies = await self._node.request(requests)
        known: dict[int, dict[str, Any]] = {}
        for (track, _), reply in zip(hashes, replies, strict=True):
            if isinstance(transaction := result(reply), dict):
                before = known.get(track.step.number)
                if before is None or before.get("blockNumber") is None:
                    known[track.step.number] = transaction
        for track in slow:
            with parsing():
                await self._check_step(track, known.get(track.step.number))

    async def _check_step(self, track: TrackedStep, transaction: dict[str, Any] | None) -> None:
        """Resend, bump or abandon one step."""
        if track.future.done():
            return
        if transaction is None and self._node.count > track.nonce:
            await self._find_foreign(track)
            return
        if transaction is not None and transaction.get("blockNumber") is not None:
            return
        now_s = time.monotonic()
        is_late = now_s - track.fee_sent_s > self._bump_after_s and not self._signer.problem
        if is_late and track.nonce == self._node.count:
            await self._bump(track)
        if transaction is None:
            if track.is_accepted:
                self.num_rebroadcast += 1
                text = "the node dropped a transaction; resending it"
                _LOG.warning(text, extra=log_fields(track))
            self._tracker.resend(track)

    def _explain_wait(self, tracked: Sequence[TrackedStep]) -> None:
        """Note whether the next transaction pays less than blocks ask for."""
        first = min(tracked, key=lambda track: track.nonce, default=None)
        if first is None or first.step.number != self._noted:
            self._noted, self.waiting = None, ""
        if first is not None and first.step.transactions[-1].max_fee < self._node.base_fee:
            paid = f"it pays at most {gwei(first.step.transactions[-1].max_fee)}"
            self._note(first, f"the base fee of blocks is {gwei(self._node.base_fee)}; {paid}")

    def _note(self, track: TrackedStep, reason: str) -> None:
        """Store why a transaction waits, with the setting that limits its fee."""
        text = f"{reason}; --chain-fee-max-gwei allows {gwei(self._node.fee_max)}"
        self._noted, self.waiting = track.step.number, f"{track.step.name} waits: {text}"
        if track.step.error != text:
            track.step = msgspec.structs.replace(track.step, error=text)
            self._outbox.record_error(track.step.number, text)

    def _check_gap(self, now_s: float) -> None:
        """Report a nonce that is next but that no transaction uses.

        Our nonces were chosen above a pending transaction that was dropped since.
        """
        nonce = self._node.count
        first = min((track.nonce for track in self._tracker.tracked()), default=nonce)
        is_gap = nonce < first and self._node.count_pending == nonce
        if not is_gap or any(step.nonce == nonce for step in self._outbox.from_nonce(nonce)):
            self._gap = None
        elif self._gap is None or self._gap[0] != nonce:
            self._gap = nonce, now_s
        elif now_s - self._gap[1] > self._bump_after_s:
            _LOG.warning("no transaction uses nonce %d; later transactions wait for it", nonce)
            self._gap = None
            self._on_gap(nonce)

    async def _bump(self, track: TrackedStep) -> None:
        """Sign the step with a higher fee and the same nonce."""
        step = track.step
        newest, now = step.transactions[-1], self._node.fees
        sent_fees = Fees(newest.max_fee, newest.tip, now.is_legacy)
        fees = raise_fees(sent_fees, now, self._node.fee_max)
        if fees is None:
            track.fee_sent_s = time.monotonic()
            _LOG.warning("the fee of a transaction is at its maximum", extra=log_fields(track))
            self._note(track, f"no block took it at {gwei(newest.max_fee)} per unit of gas")
            return
        if (self._node.balance or 0) < step.gas * fees.max_fee + step.value:
            return  # the operator is out of gas; a higher fee would not help
        try:
            transaction = await self._signer.sign(step, fees)
        except SignerError as error:
            self._note(track, f"no higher fee could be signed: {error}")
            return
        if track.future.done():  # it came into a block meanwhile
            return
        track.fee_sent_s = time.monotonic()
        self._outbox.add_transaction(step.number, transaction)
        self._outbox.commit()
        track.step = self._outbox.step(step.number)
        self._tracker.resend(track)
        _LOG.warning("a transaction was resent with a higher fee", extra=log_fields(track))

    async def _find_foreign(self, track: TrackedStep) -> None:
        """Search the transaction that used the nonce and mark the step as lost if it is foreign.

        Binary search over blocks by the operator's transaction count. If no transaction is found,
        the step stays as it is: the node may lag.
        """
        operator, last = self._node.operator, (self._node.head or 0) - self._confirmations + 1
        first = max(0, min(track.step.head, last) - BEFORE_BLOCKS)
        if await self._count_at(operator, last) <= track.nonce:
            return
        while last - first > 1:
            middle = (first + last) // 2
            if await self._count_at(operator, middle) > track.nonce:
                last = middle
            else:
                first = middle
        (reply,) = await self._node.request([("eth_getBlockByNumber", (hex(last), True))])
        block = result(reply)
        for transaction in block["transactions"] if isinstance(block, dict) else ():
            is_ours = str(transaction["from"]).lower() == operator.lower()
            if is_ours and integer(transaction["nonce"]) == track.nonce:
                self._lose(track, str(transaction["hash"]))

    async def _count_at(self, operator: str, block: int) -> int:
        """Return the operator's transaction count at a block."""
        request = ("eth_getTransactionCount", (operator, hex(max(block, 0))))
        (reply,) = await self._node.request([request])
        return integer(result(reply))

    def _lose(self, track: TrackedStep, tx_hash: str) -> None:
        """Mark a step as lost if a foreign transaction used its nonce."""
        if track.future.done() or tx_hash in {each.hash for each in track.step.transactions}:
            return
        error = f"nonce {track.nonce} was used by the foreign transaction {tx_hash}"
        self._outbox.mark_lost(track.step.number, error)
        _LOG.warning("another sender uses the operator's key: %s", error)
        self._tracker.finish(track)
