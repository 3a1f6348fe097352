"""Messages between the server and the chain worker: one JSON object per line, both directions.

The worker's first line of input is a :class:`Config`. Amounts are decimal strings, times are Unix
milliseconds, addresses are EIP-55, hashes are ``0x`` and lower-case hex. This module needs no chain
library.

The server chooses the ``id`` of an operation. Every message about an operation is answered with
:class:`OperationPending`, :class:`OperationDone`, :class:`OperationFailed`,
:class:`OperationRejected` or :class:`OperationUnknown`. The worker also sends the end of each
operation unasked, including after a restart. Other requests have a number, ``request``, which their
answer repeats.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from clob.wire.operations import AnyBody, Counts, OperationView, Status
from clob_server.chain.config import Addresses
from clob_server.chain.events import (
    ChainUpdate,
    PipeMessage,
    StartWatching,
    Watched,
    WatchTokens,
    WatchWallets,
)

LINE_BYTES_MAX: Final = 1 << 20
"""Maximum length of a line."""

Hashes: TypeAlias = dict[str, str | None]
"""Transaction hashes by step name, e.g. ``yesTransferTx``; null if the step was not needed or not
sent yet."""

# ----- from the server to the worker ---------------------------------------------------------


class Config(PipeMessage, frozen=True, kw_only=True):
    """The first message: node, operator, contracts. The key is sent only here."""

    url: str
    """JSON-RPC address of the node, http or https."""
    more_urls: list[str] = msgspec.field(default_factory=list)
    """Addresses of more nodes of the same chain."""
    quorum: int = 1
    """How many of the nodes must agree."""
    chain_id: int
    """Expected chain id of the node."""
    operator_key: str = ""
    """Private key of the operator, 32 bytes in hex; empty with ``signer_url``."""
    signer_url: str = ""
    """JSON-RPC address of the signer that holds the key, http or https; empty for a key here."""
    operator: str = ""
    """Address of the operator, EIP-55, with ``signer_url``."""
    oracle_key: str = ""
    """Private key of the oracle that reports outcomes; empty with the next two, or if the operator
    is the oracle."""
    oracle_signer_url: str = ""
    oracle: str = ""
    """The same as the two settings of the operator's signer."""
    addresses: Addresses | None = None
    """Addresses of the contracts, without the exchange; None to find or deploy them at the
    operator's first nonces."""
    exchange: str = ""
    """Address of the exchange contract, which is the verifying contract of signed orders; empty if
    there is none."""
    domain_name: str = "clob"
    domain_version: str = "1"
    """Name and version in the EIP-712 domain of orders."""
    deploy: bool = True
    """Whether to deploy missing contracts and to set the operator's approvals."""
    from_block: int = 0
    """First block to read logs from when no block was processed yet."""
    confirmations: int = 1
    """Blocks required to confirm a transaction: its own and those on top."""
    final_blocks: int = 1
    """Blocks that make a block final: its own and those on top; 0 asks the node."""
    gas_gift_wei: str = "0"
    """Wei that the faucet sends for gas to a wallet with less than 0.01 ether; 0 sends nothing."""
    bump_after_s: float = 30.0
    """Seconds without a receipt after which a transaction is resent with a higher fee."""
    fee_max_wei: str = "500000000000"
    """Maximum fee per unit of gas, in wei."""
    tip_wei: str = "0"
    """Priority fee per unit of gas, in wei; 0 uses the node's suggestion."""
    rpc_timeout_s: float = 10.0
    """Timeout of a request to the node or the signer, seconds."""
    in_cluster: bool = False
    """Whether the outbox is stored in the log first; its answers come through a pipe of their own,
    see :class:`StoreRecord`."""
    outbox_floor: int = 0
    """In a cluster, records of the outbox need higher numbers."""


class BeginOperation(PipeMessage, frozen=True, kw_only=True):
    """Run an operation once, however often this message is sent.

    The first message is answered with :class:`OperationRejected` (nothing is stored) or with
    :class:`OperationPending` once the operation is stored, followed by :class:`OperationDone` or
    :class:`OperationFailed`. Later messages with the same body are answered with the status and
    the end; with another body, with :class:`OperationRejected` and ``IDEMPOTENCY_KEY_REUSED``.
    """

    id: str
    """Id chosen by the server, at most 128 characters."""
    body: AnyBody
    now_ms: int
    """Time of the request, Unix milliseconds."""


class GetOperation(PipeMessage, frozen=True, kw_only=True):
    """Request the status of an operation; :class:`OperationUnknown` without one."""

    id: str


class RetryOperation(PipeMessage, frozen=True, kw_only=True):
    """Resume a stuck operation; answered with its status."""

    id: str


class ListOperations(PipeMessage, frozen=True, kw_only=True):
    """Request operations, newest first; answered with :class:`OperationList`."""

    request: int
    status: Status | None = None
    """Only operations with this status; None for all."""
    limit: int = 50
    """Maximum number of operations."""
    before: int | None = None
    """Only operations with a lower number; None starts at the newest."""


class FindMissing(PipeMessage, frozen=True, kw_only=True):
    """Request the ids without a pending, done or stuck operation.

    Answered with :class:`MissingOperations`.
    """

    request: int
    ids: list[str]


class MoveClock(PipeMessage, frozen=True, kw_only=True):
    """Move the clock of a development chain forward to a time, by a block.

    Answered with :class:`ClockMoved`.
    """

    request: int
    time_s: int
    """Unix seconds; a chain that has reached them is not changed."""


class AskNode(PipeMessage, frozen=True, kw_only=True):
    """Send a request that only reads to the node.

    Answered with :class:`NodeAnswer`.
    """

    request: int
    method: str
    params: list[Any]


class SendFrom(PipeMessage, frozen=True, kw_only=True):
    """Sign a transaction of an account of development chains, and send it.

    Answered with :class:`NodeAnswer`, whose result is the hash of the transaction.
    """

    request: int
    account: int
    """Index of the account."""
    to: str
    """Recipient, EIP-55."""
    data: str
    """Calldata, ``0x`` and hex digits."""
    value: str
    """Value, in wei."""


AnyServerMessage: TypeAlias = (
    Config
    | BeginOperation
    | GetOperation
    | RetryOperation
    | ListOperations
    | FindMissing
    | MoveClock
    | AskNode
    | SendFrom
    | StartWatching
    | WatchTokens
    | WatchWallets
)
"""Messages that the worker reads."""


# ----- from the worker to the server ---------------------------------------------------------


class WorkerReady(PipeMessage, frozen=True, kw_only=True):
    """Operations can begin. Sent once per worker process.

    Before it, a new :class:`BeginOperation` is rejected with ``CHAIN_UNAVAILABLE``; stored
    operations can be queried.
    """

    operator: str
    oracle: str = ""
    """Account that reports outcomes; empty if it is the operator."""
    addresses: Addresses
    chain_id: int
    has_escrow: bool = False
    """Whether the exchange contract keeps escrow; one of an earlier version does not."""


class WorkerState(PipeMessage, frozen=True, kw_only=True):
    """State of node and outbox: sent at the start and on changes, at most once a second."""

    reachable: bool
    """Whether the node returns valid responses."""
    detail: str
    """Description of the problem, or an empty text."""
    head: int | None
    """Number of the newest block; None until the node was reached."""
    operator: str
    operator_balance_wei: str | None
    """The operator's balance for gas, in wei; None until the node was reached."""
    out_of_gas: bool
    """Whether that balance is below the gas cost of one operation."""
    counts: Counts
    num_bumped: int
    """Transactions resent with a higher fee since the outbox was created."""
    num_rebroadcast: int
    """Transactions resent since the worker started because the node had dropped them."""
    num_foreign: int
    """Nonces of the operator used by transactions of another sender. Above 0, another server uses
    the same key."""


class OperationRejected(PipeMessage, frozen=True, kw_only=True):
    """An operation was rejected; nothing was sent or stored."""

    id: str
    code: str
    """One of ``clob_server.api.problems.PROBLEMS``."""
    detail: str
    """The rule, the value received and the limit."""
    more: dict[str, str] = msgspec.field(default_factory=dict)
    """Additional members of the problem body by JSON name, e.g. ``available``."""


class OperationPending(PipeMessage, frozen=True, kw_only=True):
    """An operation is stored and in progress; it continues after a restart."""

    id: str
    kind: str
    hashes: Hashes
    """Transactions sent so far."""
    detail: str = ""
    """The transaction that waits, and the reason; empty if none is known."""


class OperationDone(PipeMessage, frozen=True, kw_only=True):
    """Every step of an operation succeeded."""

    id: str
    kind: str
    answer: msgspec.Raw
    """A subclass of ``clob.wire.operations.Answer`` as JSON; the same bytes each time."""


class OperationFailed(PipeMessage, frozen=True, kw_only=True):
    """A step of an operation failed."""

    id: str
    kind: str
    code: str
    """``OPERATION_FAILED``."""
    detail: str
    """The failed step and the reason."""
    hashes: Hashes
    """All transactions sent, refunds (``refundTx``) included."""
    undone: bool
    """True if everything taken was returned and the operation is over. False if it is stuck and
    a retry may resume it."""


class OperationUnknown(PipeMessage, frozen=True, kw_only=True):
    """No operation has this id."""

    id: str


class OperationList(PipeMessage, frozen=True, kw_only=True):
    """Operations, newest first; the answer to :class:`ListOperations`."""

    request: int
    operations: list[OperationView]
    """At most ``limit`` operations; the number of the last one is the next ``before``."""


class MissingOperations(PipeMessage, frozen=True, kw_only=True):
    """The answer to :class:`FindMissing`."""

    request: int
    ids: list[str]
    """Requested ids that are unknown or whose operation failed and was undone."""


class ClockMoved(PipeMessage, frozen=True, kw_only=True):
    """The answer to :class:`MoveClock`."""

    request: int
    problem: str
    """Reason why the chain keeps its time, such as a node without these methods; empty if it
    moved."""


class NodeAnswer(PipeMessage, frozen=True, kw_only=True):
    """The answer to :class:`AskNode` and :class:`SendFrom`."""

    request: int
    result: Any = None
    """Result of the node."""
    problem: str = ""
    """Reason of the failure; empty after a success."""
    is_rejected: bool = False
    """Whether the node rejected the request, instead of not answering it."""


class StoreRecord(PipeMessage, frozen=True, kw_only=True):
    """Store a record of the outbox in the log, while the worker waits.

    The server writes the number of its command, 8 bytes big-endian, into the pipe whose file
    descriptor is the second argument of the worker; it closes the pipe if it cannot store it.
    """

    number: int
    """Number of the record."""
    data: bytes
    """The record, see ``clob_server.chain.tx.outbox``."""


AnyWorkerMessage: TypeAlias = (
    WorkerReady
    | WorkerState
    | OperationRejected
    | OperationPending
    | OperationDone
    | OperationFailed
    | OperationUnknown
    | OperationList
    | MissingOperations
    | ClockMoved
    | NodeAnswer
    | StoreRecord
    | ChainUpdate
    | Watched
)
"""Messages that the server reads."""


def encode(message: AnyServerMessage | AnyWorkerMessage) -> bytes:
    """Encode a message as a line, including the line feed."""
    return msgspec.json.encode(message) + b"\n"


decode_server_message: Final[Callable[[bytes], AnyServerMessage]] = msgspec.json.Decoder(
    AnyServerMessage
).decode
"""Decodes a line from the server; raises ``msgspec.MsgspecError`` if it is no server message."""
decode_worker_message: Final[Callable[[bytes], AnyWorkerMessage]] = msgspec.json.Decoder(
    AnyWorkerMessage
).decode
"""Decodes a line from the worker; raises ``msgspec.MsgspecError`` if it is no worker message."""
