"""Signs the operator's transactions: assigns nonces, stores the signed bytes, then sends them.

Only this module signs with the operator's key (account 0 of development chains aside). Nothing else
runs between choosing a nonce and the commit, so no nonce is assigned twice; a stored transaction
that was not sent is sent by the next process. The signed bytes equal those of eth-account, in a
tenth of its time.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from coincurve import PrivateKey

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.chain.eth.accounts import RlpValue, rlp
from clob_server.chain.failpoints import failpoint
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.gas_limits import GasEstimator, Probe, StepCall
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.steps import Draft, Operation, SignedTransaction, Step
from clob_server.chain.tx.tracker import TransactionTracker

FEE_MARKET: Final = b"\x02"
"""Type byte of an EIP-1559 transaction."""
EIP155_PARITY: Final = 35
"""Offset of v in a legacy transaction (EIP-155), besides the parity and twice the chain id."""
WORD_BYTES: Final = 32
"""Length of r and of s."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Signer:
    """Signs with one key for one chain.

    Args:
        key: the private key, 32 bytes in hex.
        chain_id: chain id of the transactions.

    Raises:
        ValueError: the key is invalid.
    """

    def __init__(self, key: str, chain_id: int) -> None:
        try:
            digits = _KEY.fullmatch(key)
            if digits is None:
                raise ValueError
            self._key = PrivateKey(bytes.fromhex(digits[1]))
        except Exception:  # the library's message may contain the key
            raise ValueError("the operator's key must be 32 bytes in hex") from None
        public = self._key.public_key.format(compressed=False)
        self.address: Final[str] = checksummed(keccak256(public[1:])[12:])
        """Address of the key, EIP-55."""
        self._chain_id = chain_id

    def sign(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Sign a step that has a nonce."""
        raw = self._legacy(draft, fees) if fees.is_legacy else self._fee_market(draft, fees)
        return SignedTransaction(f"0x{keccak256(raw).hex()}", raw, fees.max_fee, fees.tip)

    def _fee_market(self, draft: Draft, fees: Fees) -> bytes:
        """Encode an EIP-1559 transaction without an access list."""
        assert draft.nonce is not None
        head = self._chain_id, draft.nonce, fees.tip, fees.max_fee
        fields: list[RlpValue] = [*head, draft.gas, *payload(draft), ()]
        signature = self._signature(FEE_MARKET + rlp(fields))
        return FEE_MARKET + rlp([*fields, *signature])

    def _legacy(self, draft: Draft, fees: Fees) -> bytes:
        """Encode a legacy transaction with EIP-155 replay protection."""
        assert draft.nonce is not None
        fields: list[RlpValue] = [draft.nonce, fees.max_fee, draft.gas, *payload(draft)]
        parity, r, s = self._signature(rlp([*fields, self._chain_id, 0, 0]))
        return rlp([*fields, EIP155_PARITY + 2 * self._chain_id + parity, r, s])

    def _signature(self, data: bytes) -> tuple[int, int, int]:
        """Sign data and return parity, r and s; s is low."""
        signed = self._key.sign_recoverable(keccak256(data), hasher=None)
        r, s = signed[:WORD_BYTES], signed[WORD_BYTES : 2 * WORD_BYTES]
        return signed[-1], int.from_bytes(r), int.from_bytes(s)


def payload(draft: Draft) -> tuple[bytes, int, bytes]:
    """Return recipient, value and calldata of a transaction."""
    return bytes.fromhex(draft.target[2:]), draft.value, draft.data


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
        self.gas_estimator: Final[GasEstimator] = GasEstimator(signer.address)
        """Gas limits of the steps."""

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

    def sign_at(self, operation: Operation, call: StepCall, nonce: int, gas: int) -> None:
        """Sign and durably store a step with a given nonce and gas limit."""
        self._insert_signed(operation, call, nonce, gas)
        self._outbox.commit()

    async def _sign(self, operation: Operation, calls: Sequence[StepCall]) -> None:
        """Sign and durably store steps, or store why one would fail."""
        estimates = await self._estimates(operation, calls)
        will_fail = any(isinstance(estimate, str) for estimate in estimates)
        nonce = max(self._node.count_pending, self._outbox.next_nonce())
        for place, (call, estimate) in enumerate(zip(calls, estimates, strict=True)):
            if will_fail and not isinstance(estimate, str):
                continue  # steps of one call are sent together or not at all
            failpoint(operation.kind, call.name, "before_insert")
            if isinstance(estimate, str):
                self._outbox.insert_failed(self._draft(operation, call, None, 0), estimate)
            else:
                gas = gas_limit(estimate) if call.gas is None else call.gas
                self._insert_signed(operation, call, nonce + place, gas)
        self._outbox.commit()
        for call in calls:
            failpoint(operation.kind, call.name, "after_insert")

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

    def _insert_signed(self, operation: Operation, call: StepCall, nonce: int, gas: int) -> None:
        draft = self._draft(operation, call, nonce, gas)
        self._outbox.insert_signed(draft, self._signer.sign(draft, self._node.fees))

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
