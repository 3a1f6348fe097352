"""What the server and the chain worker tell each other: one JSON object a line, both ways.

The first line that the worker reads is a :class:`Config`. Amounts are decimal digits in texts,
times Unix milliseconds, addresses have the capital letters of EIP-55, hashes are ``0x`` and small
letters. Nothing here needs a chain library.

An operation is named by the server. Whatever is asked about it, the answer is one of
:class:`OperationPending`, :class:`OperationDone`, :class:`OperationFailed`, :class:`OperationRejected` and :class:`Unknown`, with its
id. The end of an operation is told whether or not somebody asked, also after a restart.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from clob_server.chain.events import News, ServerMessage, StartWatching, WatchTokens, WorkerMessage
from clob_server.chain.operation_bodies import AnyBody, Struct

LINE_BYTES_MAX: Final = 1 << 20
"""How long a line may be."""

Hashes: TypeAlias = dict[str, str | None]
"""Hashes of transactions by the name of their step, e.g. ``yesTransferTx``; null where none was
needed, or none was sent yet."""

Status: TypeAlias = Literal["pending", "done", "failed", "stuck"]
"""Where an operation stands. ``pending``: under way. ``done``: every step happened. ``failed``: a
step failed, and what was taken was given back. ``stuck``: a step can neither succeed nor be undone,
and waits for :class:`Retry`."""


# ----- from the server to the worker ---------------------------------------------------------


class Contracts(Struct, frozen=True, kw_only=True):
    """Where the contracts are."""

    stablecoin: str
    """The test stablecoin."""
    collateral: str
    """Its wrapped form."""
    conditional_tokens: str
    """The outcome tokens."""
    exchange: str = ""
    """What settles trades; empty where nothing does."""


class Config(ServerMessage, frozen=True, kw_only=True):
    """The first message: which node, whose key. The key comes this way and no other."""

    url: str
    """The JSON-RPC of the node, http or https."""
    chain_id: int
    """The chain it must be of."""
    operator_key: str
    """The private key of the operator, 32 bytes in hex."""
    addresses: Contracts | None = None
    """Where the contracts are, the exchange left out; None is to find or deploy them at the
    operator's first nonces."""
    exchange: str = ""
    """Where the exchange is, or comes to lie: the contract that orders are signed for. Empty is
    nowhere."""
    domain_name: str = "clob"
    """The name in the domain that orders are signed for."""
    domain_version: str = "1"
    """The version in it."""
    deploy: bool = True
    """If what is missing is to be deployed, and the operator's own approvals given."""
    from_block: int = 0
    """From which block on the logs of the exchange are read, where nothing was heard yet."""
    confirmations: int = 1
    """In how many blocks a transaction must be, its own and those on top, to count."""
    gas_gift_wei: str = "0"
    """What the faucet gives for gas to a wallet that has less than 0.01; 0 is nothing."""
    bump_after_s: float = 30.0
    """After how many seconds without a receipt a transaction is offered with a higher fee."""
    fee_max_wei: str = "500000000000"
    """The most a unit of gas may ever be offered, in wei."""
    rpc_timeout_s: float = 10.0
    """How long the node may take to answer, seconds."""


class Begin(ServerMessage, frozen=True, kw_only=True):
    """Do something once, however often this is said.

    The first time: :class:`OperationRejected`, and nothing is kept; or :class:`OperationPending` once it is kept, and
    :class:`OperationDone` or :class:`OperationFailed` at its end. Later, with the same body: where it stands, and its
    end. With another body: :class:`OperationRejected` with ``IDEMPOTENCY_KEY_REUSED``.
    """

    id: str
    """What the server calls it, at most 128 characters."""
    body: AnyBody
    """What to do."""
    now_ms: int
    """When it was asked for, Unix milliseconds."""


class Look(ServerMessage, frozen=True, kw_only=True):
    """Ask where an operation stands. :class:`Unknown` where there is none."""

    id: str
    """Which."""


class Retry(ServerMessage, frozen=True, kw_only=True):
    """Go on with an operation that is stuck; answered with where it stands then."""

    id: str
    """Which."""


class List(ServerMessage, frozen=True, kw_only=True):
    """Ask for operations, the newest first; answered with :class:`Listed`."""

    request: int
    """What the server calls this question."""
    status: Status | None = None
    """Only those; None is all."""
    limit: int = 50
    """How many at most."""
    before: int | None = None
    """Only those with a number below this; None begins at the newest."""


class Known(ServerMessage, frozen=True, kw_only=True):
    """Ask which operations never came to anything; answered with :class:`NotKnown`."""

    request: int
    """What the server calls this question."""
    ids: list[str]
    """Which operations."""


AnyAsked: TypeAlias = Config | Begin | Look | Retry | List | Known | StartWatching | WatchTokens
"""What the worker reads."""


# ----- from the worker to the server ---------------------------------------------------------


class Ready(WorkerMessage, frozen=True, kw_only=True):
    """From now on operations can begin. Said once in the life of a worker.

    Before it, :class:`Begin` of a new operation is refused with ``CHAIN_UNAVAILABLE``; what is
    kept already can be asked about.
    """

    operator: str
    """The address of the operator."""
    addresses: Contracts
    """Where the contracts are."""
    chain_id: int
    """The chain."""


class Counts(Struct, frozen=True, kw_only=True):
    """How many operations there are, by status."""

    pending: int
    """Under way."""
    done: int
    """Every step happened."""
    failed: int
    """A step failed, and what was taken was given back."""
    stuck: int
    """Waiting for the operator of the server."""


class State(WorkerMessage, frozen=True, kw_only=True):
    """How things are: said when they change, once a second at most, and at first."""

    reachable: bool
    """If the node answers, and as it should."""
    detail: str
    """What is wrong, in a sentence; empty where nothing is."""
    head: int | None
    """The number of the newest block; None while no node was reached."""
    operator: str
    """The address of the operator."""
    operator_balance_wei: str | None
    """What it has for gas, in wei; None while no node was reached."""
    out_of_gas: bool
    """If that does not cover what one operation may take."""
    counts: Counts
    """How many operations there are."""
    num_bumped: int
    """How many transactions were offered again with a higher fee, since the outbox was made."""
    num_rebroadcast: int
    """How many were sent again since the worker began, because the node knew them no longer."""
    num_foreign: int
    """How many of the operator's nonces somebody else used: more than 0 means that another server
    has the same key."""


class OperationRejected(WorkerMessage, frozen=True, kw_only=True):
    """Nothing was done, and nothing is kept."""

    id: str
    """The operation."""
    code: str
    """One of ``clob_server.api.problems.PROBLEMS``."""
    detail: str
    """The rule, the value and the limit."""
    more: dict[str, str] = msgspec.field(default_factory=dict)
    """What the body of the refusal has besides, by the names of JSON, e.g. ``available``."""


class OperationPending(WorkerMessage, frozen=True, kw_only=True):
    """An operation is kept and under way; it will come to its end whoever waits for it."""

    id: str
    """The operation."""
    kind: str
    """What it does."""
    hashes: Hashes
    """What was sent so far."""


class OperationDone(WorkerMessage, frozen=True, kw_only=True):
    """Every step of an operation has happened."""

    id: str
    """The operation."""
    kind: str
    """What it did."""
    answer: msgspec.Raw
    """One of :class:`Answer`, as JSON, the same bytes each time."""


class OperationFailed(WorkerMessage, frozen=True, kw_only=True):
    """A step of an operation failed."""

    id: str
    """The operation."""
    kind: str
    """What it was to do."""
    code: str
    """``OPERATION_FAILED``."""
    detail: str
    """Which step, and why."""
    hashes: Hashes
    """All that was sent, the way back (``refundTx``) included."""
    undone: bool
    """True where what was taken was given back, or nothing was taken, and this is the end of it.
    False where it is stuck: :class:`Retry` may yet bring it to either end."""


class Unknown(WorkerMessage, frozen=True, kw_only=True):
    """There is no such operation."""

    id: str
    """The operation."""


class StepView(Struct, frozen=True, kw_only=True):
    """A transaction that an operation needs, or needed."""

    name: str
    """As in the answer, e.g. ``mergeTx``."""
    status: str
    """``signed``: on its way. ``confirmed``: it happened. ``reverted``: it is in a block, and
    failed. ``lost``: its nonce was used by somebody else, and it was signed anew. ``failed``: the
    node says that it cannot succeed, and it was never sent."""
    nonce: int | None
    """Its number among the operator's; None where it was never signed, or lost its number."""
    hashes: list[str]
    """Its hashes, one for each fee that was offered, the newest last."""
    num_bumps: int
    """How often its fee was raised."""
    block: int | None
    """The block it is in."""
    error: str | None
    """What went wrong."""
    changed_ms: int
    """When it last changed, Unix milliseconds."""


class OperationView(Struct, frozen=True, kw_only=True):
    """An operation, as the operator of the server sees it."""

    number: int
    """Its place among all, counted from 1."""
    id: str
    """What the server calls it."""
    kind: str
    """What it does; ``deploy``, ``found`` and ``gap`` are nobody's request."""
    status: Status
    """Where it stands."""
    body: msgspec.Raw
    """What was asked for, as JSON."""
    error: str | None
    """What went wrong."""
    begun_ms: int
    """When it was asked for, Unix milliseconds."""
    changed_ms: int
    """When it last changed, Unix milliseconds."""
    steps: list[StepView]
    """Its transactions, in the order they were signed."""


class Listed(WorkerMessage, frozen=True, kw_only=True):
    """Operations, the newest first; the answer to :class:`List`."""

    request: int
    """The question."""
    operations: list[OperationView]
    """As many as there are, up to the limit; the number of the last is the next ``before``."""


class NotKnown(WorkerMessage, frozen=True, kw_only=True):
    """Those that never came to anything; the answer to :class:`Known`."""

    request: int
    """The question."""
    ids: list[str]
    """Those of the ids that are not known here, or failed with all undone."""


AnyTold: TypeAlias = (
    Ready
    | State
    | OperationRejected
    | OperationPending
    | OperationDone
    | OperationFailed
    | Unknown
    | Listed
    | NotKnown
    | News
)
"""What the server reads."""

_ENCODER: Final = msgspec.json.Encoder()
_ASKED: Final = msgspec.json.Decoder(AnyAsked)
_TOLD: Final = msgspec.json.Decoder(AnyTold)


def encode(message: AnyAsked | AnyTold) -> bytes:
    """Write a message as a line, its end included."""
    return _ENCODER.encode(message) + b"\n"


def read_asked(line: bytes) -> AnyAsked:
    """Read what the server says.

    Raises:
        msgspec.DecodeError, msgspec.ValidationError: it is no such message.
    """
    message: AnyAsked = _ASKED.decode(line)
    return message


def read_told(line: bytes) -> AnyTold:
    """Read what the worker says.

    Raises:
        msgspec.DecodeError, msgspec.ValidationError: it is no such message.
    """
    message: AnyTold = _TOLD.decode(line)
    return message
