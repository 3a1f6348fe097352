"""Ids of heartbeats: each answer has the id that the next heartbeat of the wallet must name.

So a client notices if its orders were cancelled meanwhile, or if another client sends heartbeats
for its wallet. The ids live in this process; the switches themselves are in the log.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from clob.signing.fields import received
from clob_server.api.problems import ApiError, Fault
from clob_server.core.commands import FireSwitch, SetHeartbeat
from clob_server.core.registry import Registry, Switch
from clob_server.core.sequencer import Committed

TIMEOUT_MS: Final = 10_000
"""Milliseconds until the next heartbeat at most."""

_MISMATCH: Final = "Invalid Heartbeat ID"
_OFF: Final = Switch()
_SWITCHES: Final = (FireSwitch, SetHeartbeat)


class HeartbeatIds:
    """The id that is expected next from each wallet whose switch is armed.

    Args:
        registry: has the armed switches.
    """

    def __init__(self, registry: Registry) -> None:
        self._switches: Final = registry.switches
        self._next: Final[dict[str, str]] = {}

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Forget the ids of wallets whose switches a batch fired or disarmed."""
        for done in batch:
            command = done.command
            if isinstance(command, _SWITCHES) and not self._is_armed(command.maker):
                self._next.pop(command.maker, None)

    def check(self, wallet: str, given: str) -> None:
        """Check the id of a heartbeat; an empty one starts again.

        The first id after a start of the server continues a switch that was armed before.

        Raises:
            ApiError: INVALID_HEARTBEAT_ID, with the expected id; empty if none is expected.
        """
        expected = self._next.get(wallet, "")
        if given in ("", expected) or (not expected and self._is_armed(wallet)):
            return
        rule = (
            f"must be {received(expected)}, as in the last answer" if expected else "must be null"
        )
        raise ApiError(
            "INVALID_HEARTBEAT_ID",
            _MISMATCH,
            faults=[Fault("heartbeat_id", f"heartbeat_id {rule}; got {received(given[:99])}")],
            more={"error_msg": _MISMATCH, "heartbeat_id": expected},
        )

    def renew(self, wallet: str) -> str:
        """Return a new id, which the next heartbeat of a wallet has to name."""
        self._next[wallet] = made = str(uuid.uuid4())
        return made

    def _is_armed(self, wallet: str) -> bool:
        """Return whether heartbeats of a wallet are awaited."""
        return self._switches.get(wallet, _OFF).timeout_ms > 0
