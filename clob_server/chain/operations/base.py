"""What all operations have in common: what they work with, how they are refused and run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from clob_server.chain.config import Addresses
from clob_server.chain.messages import Hashes
from clob_server.chain.operations.reserved import Reservation, ReservedAmounts
from clob_server.chain.tx.gas_limits import GasEstimateCall
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox
from clob_server.chain.tx.sender import Sender
from clob_server.chain.tx.steps import Operation, Step

_ENCODE: Final = msgspec.json.Encoder().encode


class RefusalError(Exception):
    """An operation is refused before anything is done.

    Args:
        code: one of ``clob_server.api.problems.PROBLEMS``.
        detail: the rule, the value and the limit.
        more: what the answer has besides, by the names of JSON.
    """

    def __init__(self, code: str, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.code: Final[str] = code
        """The code."""
        self.more: Final[dict[str, str]] = more
        """What the answer has besides."""


class StepFailedError(Exception):
    """A step failed, and the operation is to be undone."""


class StuckError(Exception):
    """A step can neither succeed nor be undone."""


class Lock(NamedTuple):
    """What an operation must have while it runs."""

    condition: str
    """The condition."""
    is_exclusive: bool
    """If no other may have it at the same time: what is redeemed is all that the operator has."""


class World(NamedTuple):
    """What operations work with."""

    node: Node
    """The node."""
    outbox: Outbox
    """Where they are written."""
    sender: Sender
    """Sends their steps."""
    addresses: Addresses
    """Where the contracts are."""
    promises: ReservedAmounts
    """What operations under way will take from wallets."""
    gas_gift: int
    """What the faucet gives for gas, in wei."""


class Run:
    """An operation under way.

    Args:
        world: what it works with.
        operation: the operation.
        estimates: how much gas its first steps take, by name, where the node was asked already.
    """

    def __init__(
        self, world: World, operation: Operation, estimates: Mapping[str, int] | None = None
    ) -> None:
        self.world: Final[World] = world
        """What it works with."""
        self.operation: Final[Operation] = operation
        """The operation."""
        self._estimates = dict(estimates or {})

    async def send(
        self, *calls: GasEstimateCall, then: GasEstimateCall | None = None
    ) -> list[Step | None]:
        """Have steps happen that do not depend on each other; see :meth:`Sender.send`."""
        known = [call._replace(estimate=self._estimates.pop(call.name, None)) for call in calls]
        steps = await self.world.sender.send(self.operation, known, then)
        if then is not None:
            estimate = self.world.sender.estimate_of_next(self.operation)
            if estimate is not None:
                self._estimates[then.name] = estimate
        return steps

    async def must(
        self, *calls: GasEstimateCall, then: GasEstimateCall | None = None
    ) -> list[Step]:
        """Have steps happen.

        Args:
            calls: the steps.
            then: the one that will follow.

        Returns:
            Each, confirmed.

        Raises:
            StepFailedError: one of them failed.
        """
        steps = await self.send(*calls, then=then)
        for step in steps:
            if step is not None and step.status != "confirmed":
                raise StepFailedError(f"{step.name} failed: {step.error}")
        return [step for step in steps if step is not None]

    async def must_or_stick(self, *calls: GasEstimateCall) -> list[Step]:
        """Have steps happen that nothing can take the place of.

        Raises:
            StuckError: one of them failed.
        """
        try:
            return await self.must(*calls)
        except StepFailedError as error:
            raise StuckError(str(error)) from error

    def happened(self, name: str) -> bool:
        """Say if a step is confirmed."""
        step = self.world.outbox.standing(self.operation.number).get(name)
        return step is not None and step.status == "confirmed"

    def has_begun(self, *names: str) -> bool:
        """Say if one of these steps was signed."""
        standing = self.world.outbox.standing(self.operation.number)
        return any(name in standing for name in names)

    def undoing(self, *names: str) -> None:
        """Go on with undoing where that has begun.

        Args:
            names: the steps that undo.

        Raises:
            StepFailedError: it has; what is said is what went wrong.
        """
        if not self.has_begun(*names):
            return
        for step in self.world.outbox.steps(self.operation.number):
            if step.status in ("failed", "reverted") and step.name not in names:
                raise StepFailedError(f"{step.name} failed: {step.error}")
        raise StepFailedError("it is being undone")


class Work(ABC):
    """What there is to do for one operation."""

    kind: str
    """What it does."""
    names: tuple[str, ...]
    """The names of its steps, those that undo it left out."""
    gas: int
    """What it takes in gas, a generous guess."""
    lock: Lock | None = None
    """What it must have; None is nothing."""
    promised: tuple[Reservation, ...] = ()
    """What it will take."""

    @abstractmethod
    async def check(self, world: World) -> dict[str, int] | None:
        """Refuse what cannot succeed.

        Returns:
            How much gas the first steps take, by name, as far as it was asked along.

        Raises:
            RefusalError: which rule, the value and the limit.
        """

    @abstractmethod
    async def run(self, run: Run) -> msgspec.Struct:
        """Do it, or go on with it, and give the answer.

        Raises:
            StepFailedError: it failed, and what was taken was given back.
            StuckError: it failed, and something was not given back.
        """


def hashes_of(names: Sequence[str], steps: Sequence[Step]) -> Hashes:
    """Give the hashes of an operation, of steps that do not count any more left out.

    Args:
        names: those that are always named.
        steps: the steps.
    """
    found: Hashes = dict.fromkeys(names)
    found |= {step.name: hash_of(step) for step in steps if step.counts and step.offers}
    return found


def hash_of(step: Step) -> str:
    """Give the hash of a step: of the offer that is in a block, or of the newest."""
    return step.hash or step.offers[-1].hash


def encoded(value: Any) -> bytes:
    """Write JSON."""
    return _ENCODE(value)
