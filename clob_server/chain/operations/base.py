"""Base of all operations: their context, their checks, and the execution of their steps."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from clob.wire.operations import kind_of
from clob_server.chain.config import Addresses
from clob_server.chain.messages import Hashes
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.operations.reserved import Reservation, ReservedAmounts
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.sender import Sender
from clob_server.chain.tx.steps import Operation, Step

Parameters = TypeVar("Parameters", bound=msgspec.Struct)


class OperationRejectedError(Exception):
    """An operation failed a precondition; no transaction was sent.

    Args:
        code: a key of ``clob_server.api.problems.PROBLEMS``.
        detail: the failed rule, with the received and the expected value.
        more: additional members of the problem document, by JSON name.
    """

    def __init__(self, code: str, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.code: Final[str] = code
        self.more: Final[dict[str, str]] = more


class StepFailedError(Exception):
    """A step failed, and the operation has to be undone."""


class StuckError(Exception):
    """A step failed, and the operation can neither continue nor be undone."""


class Lock(NamedTuple):
    """A lock that an operation holds while it runs."""

    condition: str
    """Condition id."""
    is_exclusive: bool
    """Whether no other operation of the condition may run. A redemption needs this, as it redeems
    all tokens of the operator."""


class Locks:
    """Shared or exclusive locks of conditions, granted in order of request."""

    def __init__(self) -> None:
        # By condition: holders and waiters in order, each resolved at its end; true if exclusive.
        self._held: Final[dict[str, dict[asyncio.Future[None], bool]]] = {}

    @asynccontextmanager
    async def hold(self, lock: Lock | None) -> AsyncIterator[None]:
        """Wait for a lock and hold it; None for no lock."""
        if lock is None:
            yield
            return
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = self._held.setdefault(lock.condition, {})
        before = [each for each, exclusive in held.items() if exclusive or lock.is_exclusive]
        held[end] = lock.is_exclusive
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            end.set_result(None)
            del held[end]
            if not held:
                del self._held[lock.condition]


class OperationContext(NamedTuple):
    """Everything that operations work with."""

    node: Node
    outbox: Outbox
    sender: Sender
    addresses: Addresses
    reserved: ReservedAmounts
    locks: Locks
    gas_gift: int
    """Ether that the faucet sends for gas, in wei; 0 for none."""
    oracle: "OperationContext | None" = None
    """Context that sends as the oracle, if it is another account than the operator."""

    @property
    def builder(self) -> StepBuilder:
        """Builder of steps for these contracts and this operator."""
        return StepBuilder(self.addresses, self.node.operator)

    def acting_as(self, account: str) -> "OperationContext":
        """Return the context that sends as an account; empty for the operator.

        Raises:
            OperationRejectedError: ORACLE_KEY_MISSING.
        """
        if account in ("", self.node.operator):
            return self
        oracle = self.oracle
        if oracle is None or oracle.node.operator != account:
            held = self.node.operator if oracle is None else oracle.node.operator
            raise OperationRejectedError(
                "ORACLE_KEY_MISSING",
                f"only the oracle {account} can report this outcome, and the oracle of this server "
                f"is {held}; start it with the key of {account} (--oracle-key-file)",
            )
        return oracle._replace(addresses=self.addresses)


class Run:
    """A running operation."""

    def __init__(
        self,
        context: OperationContext,
        operation: Operation,
        estimates: Mapping[str, int] | None = None,
    ) -> None:
        self.context: Final[OperationContext] = context
        self.operation: Final[Operation] = operation
        self._estimates = dict(estimates or {})

    async def send(self, *calls: StepCall, then: StepCall | None = None) -> list[Step | None]:
        """Send independent steps and wait for their end; see :meth:`Sender.send`."""
        known = [call._replace(estimate=self._estimates.pop(call.name, None)) for call in calls]
        steps = await self.context.sender.send(self.operation, known, then)
        if then is not None:
            estimate = self.context.sender.next_estimate(self.operation)
            if estimate is not None:
                self._estimates[then.name] = estimate
        return steps

    async def send_optional(self, call: StepCall) -> str | None:
        """Send a step that may fail and return its hash; None if it failed."""
        (step,) = await self.send(call)
        return step_hash(step) if step is not None and step.status == "confirmed" else None

    async def confirm(self, *calls: StepCall, then: StepCall | None = None) -> list[Step]:
        """Send independent steps and return them once all are confirmed.

        Args:
            calls: the steps.
            then: the next step, whose gas is estimated meanwhile.

        Raises:
            StepFailedError: one of them failed.
        """
        steps = await self.send(*calls, then=then)
        for step in steps:
            if step is not None and step.status != "confirmed":
                raise StepFailedError(f"{step.name} failed: {step.error}")
        return [step for step in steps if step is not None]

    async def confirm_or_stick(self, *calls: StepCall) -> list[Step]:
        """Like :meth:`confirm`, for steps whose failure cannot be undone.

        Raises:
            StuckError: one of them failed.
        """
        try:
            return await self.confirm(*calls)
        except StepFailedError as error:
            raise StuckError(str(error)) from error

    def is_confirmed(self, name: str) -> bool:
        """Return whether a step is confirmed."""
        step = self.context.outbox.current_steps(self.operation.number).get(name)
        return step is not None and step.status == "confirmed"

    def has_begun(self, *names: str) -> bool:
        """Return whether any of these steps was stored."""
        current = self.context.outbox.current_steps(self.operation.number)
        return any(name in current for name in names)

    def continue_undoing(self, *names: str) -> None:
        """Raise if the operation was being undone, with these steps, when it was interrupted.

        Raises:
            StepFailedError: it was; with the original failure.
        """
        if not self.has_begun(*names):
            return
        for step in self.context.outbox.steps(self.operation.number):
            if step.status in ("failed", "reverted") and step.name not in names:
                raise StepFailedError(f"{step.name} failed: {step.error}")
        raise StepFailedError("the operation is being undone")


class Work(ABC, Generic[Parameters]):
    """The checks and steps of one operation."""

    step_names: tuple[str, ...]
    """Names of its steps, without those that undo it."""
    gas: int
    """Upper estimate of its gas."""
    lock: Lock | None = None
    reservations: tuple[Reservation, ...] = ()
    """Amounts that it will take from wallets."""

    def __init__(self, body: Parameters) -> None:
        self.body: Final[Parameters] = body
        self.kind: Final[str] = kind_of(body)

    async def check(self, context: OperationContext) -> dict[str, int] | None:
        """Reject an operation that cannot succeed; by default, accept it.

        Returns:
            Gas estimates of the first steps by name, if they were requested.

        Raises:
            OperationRejectedError: a precondition failed.
        """

    @abstractmethod
    async def run(self, run: Run) -> msgspec.Struct:
        """Start or resume the operation and return its answer.

        Raises:
            StepFailedError: it failed and everything taken was returned.
            StuckError: it failed and something could not be returned.
        """


async def run_to_end(run: Run, work: Work[Any]) -> Any:
    """Run an operation, store its answer and return it; the next commit makes it durable.

    Raises:
        StepFailedError: it failed, which is stored as well.
        StuckError: it failed and something could not be returned.
    """
    outbox, number = run.context.outbox, run.operation.number
    try:
        answer = await work.run(run)
    except StepFailedError as error:
        outbox.set_status(number, "failed", error=str(error))
        raise
    outbox.set_status(number, "done", answer=msgspec.json.encode(answer))
    return answer


def step_hashes(names: Sequence[str], steps: Sequence[Step]) -> Hashes:
    """Return the transaction hashes by step name, of current attempts; None for missing names."""
    hashes: Hashes = dict.fromkeys(names)
    hashes |= {step.name: step_hash(step) for step in steps if step.counts and step.transactions}
    return hashes


def step_hash(step: Step) -> str:
    """Return the hash of the mined transaction of a step, or of the newest one."""
    return step.hash or step.transactions[-1].hash
