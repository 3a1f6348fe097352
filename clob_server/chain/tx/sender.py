"""Sends the operator's transactions: assigns nonces, stores the signed bytes, then sends them.

One transaction at a time is between the choice of its nonce and the commit, so no nonce is assigned
twice. A stored transaction that was not sent is sent by the next process.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from clob_server.chain.failpoints import failpoint
from clob_server.chain.tx.gas_limits import GasEstimator, Probe, StepCall
from clob_server.chain.tx.node import PAUSE_MAX_S, PAUSE_S, Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.signer import Signer, SignerError
from clob_server.chain.tx.steps import Draft, Operation, SignedTransaction, Step
from clob_server.chain.tx.tracker import TransactionTracker

GAS_TIMES: Final = 1.2
"""Factor on the node's gas estimate."""
GAS_MORE: Final = 20_000
"""Gas added to that."""
ATTEMPTS: Final = 3
"""How often an estimate must fail for a step that follows other steps of its operation."""
ATTEMPT_S: Final = 0.2
"""Pause between these attempts, seconds."""


def gas_limit(estimate: int) -> int:
    """Return the gas limit of a transaction from the node's estimate."""
    return int(estimate * GAS_TIMES) + GAS_MORE


class Sender:
    """Sends the steps of operations, each once."""

    def __init__(
        self, node: Node, outbox: Outbox, signer: Signer, tracker: TransactionTracker
    ) -> None:
        self._node = node
        self._outbox = outbox
        self._signer = signer
        self._tracker = tracker
        self._probes: dict[int, Probe] = {}
        self._signing = asyncio.Lock()
        self._waiting = ""
        self.gas_estimator: Final[GasEstimator] = GasEstimator(signer.address)
        """Gas limits of the steps."""

    @property
    def problem(self) -> str:
        """Why transactions cannot be signed; empty if they can, as far as known."""
        return self._waiting or self._signer.problem

    async def send(
        self, operation: Operation, calls: Sequence[StepCall], then: StepCall | None = None
    ) -> list[Step | None]:
        """Send independent steps and wait for their end.

        Steps that were signed before, by this process or an earlier one, are not signed again. If
        the node reports that an unsigned step would fail, none of the unsigned steps is sent.

        Args:
            operation: operation of the steps.
            calls: the steps.
            then: the next step; its gas is estimated in the same batch as the receipts, for
                :meth:`next_estimate`.

        Returns:
            Each step as ``confirmed``, ``reverted`` or ``failed``; None for a step that was not
            sent because another one failed.
        """
        while True:
            steps = self._outbox.current_steps(operation.number)
            missing = [call for call in calls if call.name not in steps]
            known = [steps[call.name] for call in calls if call.name in steps]
            if missing and not any(step.status == "failed" for step in known):
                await self._sign(operation, missing)
                continue
            signed = [step for step in known if step.status == "signed"]
            futures = [self._tracker.track(step, operation.kind) for step in signed]
            if not futures:
                return [steps.get(call.name) for call in calls]
            if then is not None:
                probe = self._probes[operation.number] = self.gas_estimator.probe(then)
                self._tracker.add_request(operation.number, probe.request)
            await asyncio.wait(futures)

    def next_estimate(self, operation: Operation) -> int | None:
        """Return the gas of the next step if an estimate came with the last receipt."""
        reply = self._tracker.take_reply(operation.number)
        probe = self._probes.pop(operation.number, None)
        if probe is None or reply is None:
            return None
        return self.gas_estimator.read_probe(probe, reply)

    async def sign_at(self, operation: Operation, call: StepCall, nonce: int, gas: int) -> None:
        """Sign and durably store a step with a given nonce and gas limit."""
        draft = self._draft(operation, call, nonce, gas)
        async with self._signing:
            self._outbox.insert_signed(draft, await self._sign_draft(draft))
            self._outbox.commit()

    async def _sign(self, operation: Operation, calls: Sequence[StepCall]) -> None:
        """Sign and durably store steps, or store why one would fail."""
        estimates = await self._estimates(operation, calls)
        if any(isinstance(estimate, str) for estimate in estimates):
            # Steps of one call are sent together or not at all.
            for call, estimate in zip(calls, estimates, strict=True):
                if isinstance(estimate, str):
                    failpoint(operation.kind, call.name, "before_insert")
                    self._outbox.insert_failed(self._draft(operation, call, None, 0), estimate)
        else:
            await self._sign_all(operation, calls, [int(gas) for gas in estimates])
        self._outbox.commit()
        for call in calls:
            failpoint(operation.kind, call.name, "after_insert")

    async def _sign_all(
        self, operation: Operation, calls: Sequence[StepCall], estimates: Sequence[int]
    ) -> None:
        """Sign and durably store steps whose gas is known."""
        async with self._signing:
            nonce = max(self._node.count_pending, self._outbox.next_nonce())
            drafts = [
                self._draft(
                    operation,
                    call,
                    nonce + place,
                    gas_limit(estimate) if call.gas is None else call.gas,
                )
                for place, (call, estimate) in enumerate(zip(calls, estimates, strict=True))
            ]
            transactions = [await self._sign_draft(draft) for draft in drafts]
            for draft, transaction in zip(drafts, transactions, strict=True):
                failpoint(operation.kind, draft.name, "before_insert")
                self._outbox.insert_signed(draft, transaction)
            self._outbox.commit()

    async def _sign_draft(self, draft: Draft) -> SignedTransaction:
        """Sign a step with the current fees; wait for a signer that does not sign it."""
        pause_s = PAUSE_S
        while True:
            try:
                transaction = await self._signer.sign(draft, self._node.fees)
            except SignerError as error:
                self._waiting = f"{draft.name} waits: {error}"
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            else:
                self._waiting = ""
                return transaction

    async def _estimates(self, operation: Operation, calls: Sequence[StepCall]) -> list[int | str]:
        """Return the gas of each step, or the reason why it would fail.

        For a step that follows others the estimate is repeated before a failure counts: a
        reorganisation may have removed the others, or another node may not have seen them yet.
        """
        known = [call.estimate if call.gas is None else call.gas for call in calls]
        if None not in known:
            return [gas for gas in known if gas is not None]
        attempts = ATTEMPTS if self._outbox.current_steps(operation.number) else 1
        requests = [self.gas_estimator.estimate_request(call) for call in calls]
        estimates: list[int | str] = []
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(ATTEMPT_S)
                await self._tracker.wait_idle(operation.number)
            estimates = await self._node.request_until_valid(
                requests,
                lambda replies: [
                    self.gas_estimator.read_estimate(call, reply)
                    for call, reply in zip(calls, replies, strict=True)
                ],
            )
            if all(isinstance(estimate, int) for estimate in estimates):
                break
        return estimates

    def _draft(self, operation: Operation, call: StepCall, nonce: int | None, gas: int) -> Draft:
        return Draft(
            operation=operation.number,
            name=call.name,
            nonce=nonce,
            target=call.target,
            data=call.data,
            value=call.value,
            gas=gas,
            expects=call.expects,
            head=self._node.head or 0,
        )
