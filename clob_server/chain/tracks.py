"""A signed step on its way onto the chain, and what its receipt says."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from clob_server.chain.rows import Draft, Step
from clob_server.chain.rpc import number

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
