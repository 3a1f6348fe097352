"""Rows of the outbox: operations, their steps, and the signed transactions of each step."""

from typing import NamedTuple

import msgspec


class Operation(NamedTuple):
    """An operation."""

    number: int
    """Position among all operations, counted from 1."""
    id: str
    """Id chosen by the server."""
    kind: str
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


class Draft(msgspec.Struct, frozen=True):
    """A transaction of an operation, to be signed."""

    operation: int
    """Number of its operation."""
    name: str
    """Name of its hash in the answer."""
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


class Step(Draft, frozen=True):
    """A stored transaction of an operation."""

    number: int
    """Position among all steps, counted from 1."""
    counts: int
    """1 for the current attempt of the step, 0 for earlier attempts."""
    status: str
    """Status, see :class:`~clob.wire.operations.StepView`."""
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
