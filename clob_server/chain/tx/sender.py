"""The one writer of the operator's key: gives a step its nonce, signs it, writes it, has it sent.

Between the choice of a nonce and the commit nothing else runs, so no nonce is given twice, and
what was written and never sent is sent by the next process.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Final

from coincurve import PrivateKey

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.chain.eth import accounts
from clob_server.chain.failpoints import die_here
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.gas_limits import Estimates, GasEstimateCall, Probe
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.steps import Draft, Operation, SignedTransaction, Step
from clob_server.chain.tx.tracker import Following

FEE_MARKET: Final = b"\x02"
"""What a transaction of EIP-1559 begins with."""
EIP155_PARITY: Final = 35
"""What a legacy transaction adds to the parity of its signature, besides twice the chain."""
WORD_BYTES: Final = 32
"""How long each half of a signature is."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Signer:
    """Signs with one key, for one chain.

    Args:
        key: the private key, 32 bytes in hex.
        chain_id: the chain.

    Raises:
        ValueError: it is no key.
    """

    def __init__(self, key: str, chain_id: int) -> None:
        try:
            digits = _KEY.fullmatch(key)
            if digits is None:
                raise ValueError
            self._key = PrivateKey(bytes.fromhex(digits[1]))
        except Exception:  # the library's own words may repeat the key
            raise ValueError("the operator's key is not 32 bytes in hex") from None
        public = self._key.public_key.format(compressed=False)
        self.address: Final[str] = checksummed(keccak256(public[1:])[12:])
        """Whose key it is, as EIP-55 writes it."""
        self._chain_id = chain_id

    def sign(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Sign a step.

        Args:
            draft: the step, with its nonce.
            fees: what a unit of gas is offered.
        """
        raw = self._legacy(draft, fees) if fees.is_legacy else self._fee_market(draft, fees)
        return SignedTransaction(f"0x{keccak256(raw).hex()}", raw, fees.max_fee, fees.tip)

    def _fee_market(self, draft: Draft, fees: Fees) -> bytes:
        """Write a transaction of EIP-1559, without an access list."""
        assert draft.nonce is not None
        offer = (self._chain_id, draft.nonce, fees.tip, fees.max_fee, draft.gas)
        parts = [*map(accounts.integer, offer), *what_it_does(draft), accounts.listed(())]
        parity, *halves = self._signature(FEE_MARKET + accounts.listed(parts))
        return FEE_MARKET + accounts.listed(
            [*parts, accounts.integer(parity), *map(accounts.integer, halves)]
        )

    def _legacy(self, draft: Draft, fees: Fees) -> bytes:
        """Write a transaction as it was before, bound to the chain by EIP-155."""
        assert draft.nonce is not None
        offer = (draft.nonce, fees.max_fee, draft.gas)
        parts = [*map(accounts.integer, offer), *what_it_does(draft)]
        chain = map(accounts.integer, (self._chain_id, 0, 0))
        parity, *halves = self._signature(accounts.listed([*parts, *chain]))
        marked = EIP155_PARITY + 2 * self._chain_id + parity
        return accounts.listed([*parts, *map(accounts.integer, (marked, *halves))])

    def _signature(self, data: bytes) -> tuple[int, int, int]:
        """Sign bytes, and give the parity, r and s; s is low."""
        signed = self._key.sign_recoverable(keccak256(data), hasher=None)
        r, s = signed[:WORD_BYTES], signed[WORD_BYTES : 2 * WORD_BYTES]
        return signed[-1], int.from_bytes(r), int.from_bytes(s)


def what_it_does(draft: Draft) -> tuple[bytes, bytes, bytes]:
    """Write where a transaction goes, what it takes along, and the call."""
    target = bytes.fromhex(draft.target[2:])
    return accounts.string(target), accounts.integer(draft.value), accounts.string(draft.data)


GAS_TIMES: Final = 1.2
"""How much more gas a step is given than the node estimates."""
GAS_MORE: Final = 20_000
"""How much more on top of that."""
ATTEMPTS: Final = 3
"""How often the node must say that a step fails which follows others of its operation."""
ATTEMPT_S: Final = 0.2
"""How long is waited in between."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Sender:
    """Sends steps of operations, each once.

    Args:
        node: the node.
        outbox: where they are written.
        signer: signs them.
        following: brings them onto the chain.
    """

    def __init__(self, node: Node, outbox: Outbox, signer: Signer, following: Following) -> None:
        self._node = node
        self._outbox = outbox
        self._signer = signer
        self._following = following
        self._probes: dict[int, Probe] = {}
        self.estimates: Final[Estimates] = Estimates(signer.address)
        """How much gas the steps take."""

    async def send(
        self,
        operation: Operation,
        calls: Sequence[GasEstimateCall],
        then: GasEstimateCall | None = None,
    ) -> list[Step | None]:
        """Have steps happen that do not depend on each other.

        What was signed before, by this process or one before it, is not signed again. If the node
        says of one that it cannot succeed, none of those that were not signed yet is sent.

        Args:
            operation: whose steps.
            calls: the steps.
            then: the step that will follow; how much gas it takes is asked about along with the
                receipts, and is for :meth:`estimate_of_next`.

        Returns:
            Each as ``confirmed``, ``reverted`` or ``failed``; None for one that was not sent
            because another failed.
        """
        while True:
            standing = self._outbox.standing(operation.number)
            missing = [call for call in calls if call.name not in standing]
            known = [standing[call.name] for call in calls if call.name in standing]
            if missing and not any(step.status == "failed" for step in known):
                await self._sign(operation, missing)
                continue
            waits = [
                self._following.follow(step, operation.kind)
                for step in known
                if step.status == "signed"
            ]
            if not waits:
                return [standing.get(call.name) for call in calls]
            if then is not None:
                probe = self._probes[operation.number] = self.estimates.probe(then)
                self._following.ask_beside(operation.number, probe.question)
            await asyncio.wait(waits)

    def estimate_of_next(self, operation: Operation) -> int | None:
        """Give how much gas the step takes that follows, if that came with the last receipt."""
        reply = self._following.reply_beside(operation.number)
        probe = self._probes.pop(operation.number, None)
        return None if probe is None or reply is None else self.estimates.probed(probe, reply)

    def sign_at(self, operation: Operation, call: GasEstimateCall, nonce: int, gas: int) -> None:
        """Sign a step with a nonce and with gas that are known, and write it.

        Args:
            operation: whose step.
            call: the step.
            nonce: its number among the operator's transactions.
            gas: how much it may take.
        """
        draft = self._draft(operation, call, nonce, gas)
        self._outbox.sign(draft, self._signer.sign(draft, self._node.offer))
        self._outbox.commit()

    async def _sign(self, operation: Operation, calls: Sequence[GasEstimateCall]) -> None:
        """Sign steps, write them, and make that durable; or write why one cannot succeed."""
        estimates = await self._estimates(operation, calls)
        faults = [
            (call, estimate)
            for call, estimate in zip(calls, estimates, strict=True)
            if isinstance(estimate, str)
        ]
        for call, fault in faults:
            die_here(operation.kind, call.name, "before_insert")
            self._outbox.refuse(self._draft(operation, call, None, 0), fault)
        if not faults:
            nonce = max(self._node.count_pending, self._outbox.next_nonce())
            for place, (call, estimate) in enumerate(zip(calls, estimates, strict=True)):
                assert isinstance(estimate, int)
                die_here(operation.kind, call.name, "before_insert")
                gas = int(estimate * GAS_TIMES) + GAS_MORE if call.gas is None else call.gas
                draft = self._draft(operation, call, nonce + place, gas)
                self._outbox.sign(draft, self._signer.sign(draft, self._node.offer))
        self._outbox.commit()
        for call in calls:
            die_here(operation.kind, call.name, "after_insert")

    async def _estimates(
        self, operation: Operation, calls: Sequence[GasEstimateCall]
    ) -> list[int | str]:
        """Ask how much gas each takes, or why it fails.

        A step that follows others is asked about several times before it is believed to fail: a
        reorganisation may have taken the others back, and another node may not have seen them yet.
        """
        expected = [call.estimate if call.gas is None else call.gas for call in calls]
        known = [gas for gas in expected if gas is not None]
        if len(known) == len(calls):
            return [*known]
        attempts = ATTEMPTS if self._outbox.standing(operation.number) else 1
        questions = [self.estimates.question(call) for call in calls]
        found: list[int | str] = []
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(ATTEMPT_S)
                await self._following.none_of(operation.number)
            found = await self._node.patiently(
                questions,
                lambda replies: [
                    self.estimates.estimated(call, reply)
                    for call, reply in zip(calls, replies, strict=True)
                ],
            )
            if all(isinstance(estimate, int) for estimate in found):
                break
        return found

    def _draft(
        self, operation: Operation, call: GasEstimateCall, nonce: int | None, gas: int
    ) -> Draft:
        """Make a step of what is wanted."""
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


# MERGED clob_server.chain.tx.sender: Signs the operator's transactions. The key stays here.
#
# The bytes are those that eth-account makes, in a tenth of its time.
