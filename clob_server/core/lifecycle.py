"""The phase that a server is in, shared by the parts that depend on it."""

import enum

from clob_server.api.problems import ApiError


class Phase(enum.Enum):
    """The phases of a server, in order."""

    RECOVERING = "recovering"
    """Reads its log; answers no requests yet."""
    READY = "ready"
    """Serves requests."""
    DRAINING = "draining"
    """Accepts no new orders; finishes the accepted ones and then stops."""


class Lifecycle:
    """The current phase, shared by every part that depends on it."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase: Phase = Phase.RECOVERING

    def check_open(self) -> None:
        """Reject new orders and operations unless the server is ready.

        Raises:
            ApiError: RECOVERING or DRAINING.
        """
        if self.phase is Phase.RECOVERING:
            raise ApiError("RECOVERING", "the server is starting; retry in a second")
        if self.phase is Phase.DRAINING:
            raise ApiError("DRAINING", "the server is shutting down; retry in a second")
