"""The rows of the outbox: operations, their steps, and what was signed for each."""

from typing import NamedTuple


class Operation(NamedTuple):
    """An operation."""

    number: int
    """Its place among all, counted from 1."""
    id: str
    """What the server calls it."""
    kind: str
    """What it does."""
    body: bytes
    """What was asked for, as JSON."""
    status: str
    """``pending``, ``done``, ``failed`` or ``stuck``."""
    answer: bytes | None
    """What came of it, as JSON."""
    error: str | None
    """What went wrong."""
    begun_ms: int
    """When it was asked for, Unix milliseconds."""
    changed_ms: int
    """When its status last changed, Unix milliseconds."""


class SignedTransaction(NamedTuple):
    """A signed transaction. All offers of a step have its nonce: one of them happens at most."""

    hash: str
    """Its hash, 0x and 64 hex digits."""
    raw: bytes
    """Its bytes."""
    max_fee: int
    """What a unit of gas may cost, in wei."""
    tip: int
    """What the one who makes the block gets of that, in wei."""


class Step(NamedTuple):
    """A transaction that an operation needs."""

    number: int
    """Its place among all, counted from 1."""
    operation: int
    """The number of its operation."""
    name: str
    """What the answer calls its hash."""
    counts: int
    """1 for what stands for the step now, 0 for what was tried before."""
    status: str
    """As in ``messages.StepView``."""
    nonce: int | None
    """Its number among the operator's transactions; None where it was never signed."""
    target: str
    """Where it goes; empty where it makes a contract."""
    data: bytes
    """The call."""
    value: int
    """What it takes along, in wei."""
    gas: int
    """How much gas it may take."""
    expects: str
    """The contract and the topic of a log that it must leave, with a space between; empty for
    none."""
    head: int
    """The newest block when it was signed."""
    hash: str | None
    """Which of its offers is in a block."""
    block: int | None
    """The number of that block."""
    logs: bytes | None
    """The logs it left there, as JSON."""
    error: str | None
    """What went wrong."""
    changed_ms: int
    """When it last changed, Unix milliseconds."""
    offers: tuple[SignedTransaction, ...] = ()
    """What was signed, the newest last."""


class Draft(NamedTuple):
    """A step that is about to be written."""

    operation: int
    """The number of its operation."""
    name: str
    """What the answer calls its hash."""
    nonce: int | None
    """Its number among the operator's transactions."""
    target: str
    """Where it goes."""
    data: bytes
    """The call."""
    value: int
    """What it takes along, in wei."""
    gas: int
    """How much gas it may take."""
    expects: str
    """As in :attr:`Step.expects`."""
    head: int
    """The newest block."""
