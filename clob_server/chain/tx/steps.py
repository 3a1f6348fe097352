"""Rows of the outbox: operations, their steps, and the signed transactions of each step."""

from typing import NamedTuple


class Operation(NamedTuple):
    """An operation."""

    number: int
    """Position among all operations, counted from 1."""
    id: str
    """Id chosen by the server."""
    kind: str
    """Kind of operation."""
    body: bytes
    """Parameters, as JSON."""
    status: str
    """``pending``, ``done``, ``failed`` or ``stuck``."""
    answer: bytes | None
    """Answer for the client, as JSON."""
    error: str | None
    """Reason of the failure."""
    begun_ms: int
    """Time of the request, Unix milliseconds."""
    changed_ms: int
    """Time of the last status change, Unix milliseconds."""


class SignedTransaction(NamedTuple):
    """A signed transaction. All transactions of a step share its nonce, so at most one is mined."""

    hash: str
    """Hash, 0x and 64 hex digits."""
    raw: bytes
    """Signed bytes."""
    max_fee: int
    """Maximum fee per unit of gas, in wei."""
    tip: int
    """Priority fee per unit of gas, in wei."""


class Step(NamedTuple):
    """A transaction of an operation."""

    number: int
    """Position among all steps, counted from 1."""
    operation: int
    """Number of its operation."""
    name: str
    """Name of its hash in the answer."""
    counts: int
    """1 for the current attempt of the step, 0 for earlier attempts."""
    status: str
    """Status, see ``messages.StepView``."""
    nonce: int | None
    """Nonce of the operator; None if it was never signed."""
    target: str
    """Recipient; empty to create a contract."""
    data: bytes
    """Calldata."""
    value: int
    """Value, in wei."""
    gas: int
    """Gas limit."""
    expects: str
    """Contract and topic of a required log, separated by a space; empty for none."""
    head: int
    """Newest block when it was signed."""
    hash: str | None
    """Hash of the mined transaction."""
    block: int | None
    """Number of its block."""
    logs: bytes | None
    """Logs of its receipt, as JSON."""
    error: str | None
    """Reason of the failure."""
    changed_ms: int
    """Time of the last change, Unix milliseconds."""
    transactions: tuple[SignedTransaction, ...] = ()
    """Signed transactions, newest last."""


class Draft(NamedTuple):
    """A step that is not stored yet."""

    operation: int
    """Number of its operation."""
    name: str
    """Name of its hash in the answer."""
    nonce: int | None
    """Nonce of the operator."""
    target: str
    """Recipient."""
    data: bytes
    """Calldata."""
    value: int
    """Value, in wei."""
    gas: int
    """Gas limit."""
    expects: str
    """See :attr:`Step.expects`."""
    head: int
    """Newest block."""
