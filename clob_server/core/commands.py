"""Commands of the server, and encoding of all logged commands.

Engine commands are encoded by ``clob.codec``. A server command is a kind byte from 128 on and
MessagePack; journals of the engine skip it.
"""

from typing import ClassVar, Final, TypeAlias, get_args

import msgspec

from clob import Command
from clob.codec import encode as encode_command
from clob_server.chain.events import PermissionKind
from clob_server.log import LogDamagedError


class Record(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """Base of the parts of commands."""


class ServerBase(Record, frozen=True, kw_only=True):
    """Base of the server's commands."""

    KIND: ClassVar[int]
    """Kind byte, 128 to 255."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""


class SignatureRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The signed fields of an order that the matcher does not keep.

    Its MessagePack is the ``attachment`` of the order's :class:`~clob.Submit`.
    """

    signer: str
    salt: str
    """The salt of the request; an integer as decimal digits."""
    taker: str
    """The taker named in the order."""
    signature_type: int
    """The type of the signature (decision 13)."""
    signature: bytes
    """r, s and v, 65 bytes."""


class OrderCharge(ServerBase, frozen=True, kw_only=True):
    """Orders created, by the budget that they are charged to; the first command of a batch."""

    KIND: ClassVar[int] = 129
    charges: tuple[tuple[bytes, int], ...]
    """Budget, as named by ``clob_server.auth.rate_limit``, and number of orders."""
    payers: tuple[bytes | None, ...] = ()
    """The budget of each order that follows in the same batch; empty if no order has one.

    The charge of a rejected order is returned, and one with many trades is charged for more."""


class ApiKey(Record, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    """Id, also the start of the key."""
    hash: bytes
    """SHA-256 of the key, 32 bytes."""
    name: str
    environment: str
    """``test`` or ``production``."""
    scopes: tuple[str, ...]
    """Scopes: ``read``, ``trade``, ``cancel``."""
    makers: tuple[str, ...]
    """Makers whose orders it may place and cancel, in EIP-55 form."""
    created_ms: int
    """Time of creation, Unix milliseconds."""
    requests_per_minute: int | None = None
    """Request limit; None for the default."""
    orders_per_minute: int | None = None
    """Order limit; None for the default."""
    deactivated_ms: int | None = None
    """Time of deactivation; None while active."""


class AddKey(ServerBase, frozen=True, kw_only=True):
    """Add an API key."""

    KIND: ClassVar[int] = 130
    key: ApiKey


class DeactivateKey(ServerBase, frozen=True, kw_only=True):
    """Deactivate an API key from the next request on."""

    KIND: ClassVar[int] = 131
    key_id: str


class SetDelegate(ServerBase, frozen=True, kw_only=True):
    """Allow or forbid a delegate to sign for a maker; signed by the maker (decision 16)."""

    KIND: ClassVar[int] = 132
    maker: str
    delegate: str
    allowed: bool
    """Whether the delegate may sign."""
    nonce: str
    """Rising 256-bit number per maker, in decimal digits."""


class DescribeMarket(ServerBase, frozen=True, kw_only=True):
    """Set question and description of a market."""

    KIND: ClassVar[int] = 133
    market: str
    question: str
    description: str = ""


class SetOutcome(ServerBase, frozen=True, kw_only=True):
    """Set the winning token of a market; its mode changes by another command."""

    KIND: ClassVar[int] = 134
    market: str
    outcome: str
    """``yes``, ``no``, or ``split`` if both tokens of an adopted condition pay."""
    now: bool = False
    """Whether it is reported on the chain although trades of the market wait for settlement."""


class Budgets(Record, frozen=True, kw_only=True):
    """Requests per minute, by kind (decision 32)."""

    anonymous_per_minute: int = 100
    """Requests per address without a key."""
    key_per_minute: int = 240
    """Requests per key without its own limit."""
    orders_per_minute: int = 30
    """New orders per key without its own limit, or per address."""
    cancels_per_minute: int = 240
    """Cancels per key or address; counted separately."""


class SetBudgets(ServerBase, frozen=True, kw_only=True):
    """Set the request budgets."""

    KIND: ClassVar[int] = 135
    budgets: Budgets


class Grant(ServerBase, frozen=True, kw_only=True):
    """Grant faucet units to a wallet before the operation is sent."""

    KIND: ClassVar[int] = 136
    operation: str
    """The operation; a repeated one is not a second grant."""
    user: str
    """The wallet, in EIP-55 form."""
    amount: int
    """Whole units."""


class GiveBack(ServerBase, frozen=True, kw_only=True):
    """Return a grant after its operation failed."""

    KIND: ClassVar[int] = 137
    operation: str
    """The operation; without a grant nothing changes."""


class Condition(Record, frozen=True, kw_only=True):
    """A market's condition on the chain."""

    question_id: bytes
    """Question id, 32 bytes."""
    condition_id: bytes
    """Condition id, 32 bytes."""
    oracle: str
    """Oracle that reports the outcome."""
    collateral: str
    """ERC-20 that backs the tokens."""
    yes: str
    """YES token, decimal digits."""
    no: str
    """NO token, decimal digits."""
    is_adopted: bool = False
    """Whether it existed on the chain, so that others prepare and resolve it."""


class BindMarket(ServerBase, frozen=True, kw_only=True):
    """Bind a market to a condition of the chain.

    No effect on a market with other tokens.
    """

    KIND: ClassVar[int] = 138
    market: str
    condition: Condition
    """The condition; permanent."""


class BeginSettlement(ServerBase, frozen=True, kw_only=True):
    """Set the base of trade ids, before the first settling market."""

    KIND: ClassVar[int] = 139
    base: bytes
    """16 bytes unique to this log, so that trade ids are unique on the chain."""


class SendTrades(ServerBase, frozen=True, kw_only=True):
    """Assign trades to an operation of the chain, before it is sent.

    Trades of an operation that failed as a whole move to this one.
    """

    KIND: ClassVar[int] = 140
    operation: str
    trades: tuple[int, ...]
    """Trade numbers in order; the first of a mint or merge."""


class TradeEnd(Record, frozen=True, kw_only=True):
    """Result of a settlement."""

    trade: int
    """Trade number; the first of a mint or merge."""
    tx: str
    """Transaction hash, 0x and 64 hex digits."""
    reason: str = ""
    """Reason of a failure; empty if settled."""
    block: int = 0
    """Block of the transaction; 0 in logs of older versions, whose results are never revised."""
    responsible: tuple[str, ...] = ()
    """Makers and paying wallets at fault; they cool down."""


class EndTrades(ServerBase, frozen=True, kw_only=True):
    """Record results of settlements; engine commands accompany it.

    For a trade that has ended, the same result in another block or transaction.
    """

    KIND: ClassVar[int] = 141
    ends: tuple[TradeEnd, ...]
    """One per trade; unknown trades are ignored."""
    cool_ms: int = 0
    """Cool-down of a wallet at its first fault, milliseconds."""


class FollowChain(ServerBase, frozen=True, kw_only=True):
    """Record the last processed block and its changes."""

    KIND: ClassVar[int] = 142
    block: int
    hash: str
    wallets: tuple[str, ...] = ()
    """Wallets with a first approval for the exchange contract."""
    permissions: tuple[tuple[PermissionKind, str, str, bool], ...] = ()
    """Permission changes: kind, owner, delegate, granted."""
    cancelled: tuple[str, ...] = ()
    """Hashes of orders cancelled on the chain, 0x and 64 hex digits."""
    cancelled_in: tuple[int, ...] = ()
    """The block of each cancel; none in logs of older versions, whose cancels are never undone."""
    raised: tuple[tuple[str, str, int], ...] = ()
    """Nonces raised in blocks that are not final: maker, lowest valid nonce, block."""
    after_block: int | None = None
    """Cancels and raised nonces of later blocks are undone first, since the chain was reorganised
    or is read again; None for none."""
    final_block: int = -1
    """Last block that is final; -1 if unknown."""


class ReviseTrades(ServerBase, frozen=True, kw_only=True):
    """Withdraw results of settlements: the trades are pending again; engine commands accompany it.

    A reorganisation removed the blocks of the results.
    """

    KIND: ClassVar[int] = 144
    trades: tuple[int, ...]
    """Trade numbers; the first of a mint or merge. Trades without a result are ignored."""
    reason: str = ""
    """The cause."""


class ExchangeSettings(Record, frozen=True, kw_only=True):
    """The settings that the commands of a log depend on."""

    environment: str
    """``test`` or ``production``."""
    eip712_name: str
    eip712_version: str
    chain_id: str
    """Chain id of the EIP-712 domain, decimal digits."""
    verifying_contract: str
    """Contract of the EIP-712 domain, in EIP-55 form; empty without one."""
    rules: tuple[tuple[str, str], ...] = ()
    """Names and values of settings that may change between two starts; a change is logged."""


class DescribeExchange(ServerBase, frozen=True, kw_only=True):
    """Record the settings that the log depends on, at the first start and after a change."""

    KIND: ClassVar[int] = 143
    exchange: ExchangeSettings


class RecordOpener(ServerBase, frozen=True, kw_only=True):
    """Record that an order opens a market; the engine's command follows in the same batch."""

    KIND: ClassVar[int] = 145
    market: str
    payer: bytes
    """The client of the order, as named by ``clob_server.auth.rate_limit``."""


class RecordCustody(ServerBase, frozen=True, kw_only=True):
    """Record that a market trades out of escrow; the engine's command follows in the same batch.

    The collateral of the market says the same. The command is there for servers that do not know
    escrow: they reject it.
    """

    KIND: ClassVar[int] = 146
    market: str
    custody: str
    """``escrow``."""


class StallMarket(ServerBase, frozen=True, kw_only=True):
    """Record that the server stopped the matching of an escrow market.

    The engine's command that changes the mode precedes it in the same batch. The next change of the
    mode ends the record.
    """

    KIND: ClassVar[int] = 147
    market: str
    reason: str
    """The rule that stopped it."""


class RecordRestore(ServerBase, frozen=True, kw_only=True):
    """Record that the log was restored from a backup that ends before this command.

    The commands of the replaced log from this number on are lost. Numbers of orders and trades go
    on after a gap, so that no id is used twice, and feeds start a new epoch.
    """

    KIND: ClassVar[int] = 150
    replaced_seq: int | None
    """Last command of the replaced log; None if it is unknown."""
    replaced_hash: bytes = b""
    """Chain hash there; empty if it is unknown."""
    note: str = ""
    """Text of the operator."""


class DeactivateCredentials(ServerBase, frozen=True, kw_only=True):
    """Deactivate credentials that a wallet derived, for ever.

    Credentials themselves are not logged: they follow from a secret, the wallet and the nonce.
    """

    KIND: ClassVar[int] = 160
    address: str
    """The wallet, in EIP-55 form."""
    nonce: int
    """The nonce that they were derived with, below 2**48."""


class SetHeartbeat(ServerBase, frozen=True, kw_only=True):
    """Set the time within which heartbeats of a maker must follow each other.

    The heartbeats themselves are not logged.
    """

    KIND: ClassVar[int] = 170
    maker: str
    timeout_ms: int
    """Milliseconds; 0 disarms the switch."""


class SetCancelOnDisconnect(ServerBase, frozen=True, kw_only=True):
    """Arm or disarm the switch that fires when the last WebSocket of a maker closes."""

    KIND: ClassVar[int] = 171
    maker: str
    armed: bool
    """Whether the switch is armed."""


class FireSwitch(ServerBase, frozen=True, kw_only=True):
    """Disarm a switch that fires; a ``CancelAll`` of the maker follows in the same batch."""

    KIND: ClassVar[int] = 172
    maker: str
    cause: str
    """``heartbeat`` or ``disconnect``: the switch."""


class KeepSwitches(ServerBase, frozen=True, kw_only=True):
    """Record that a server with armed switches stops in order; timeouts count from here."""

    KIND: ClassVar[int] = 173
    num_armed: int
    """Number of makers whose heartbeats are awaited."""


class AdvanceClock(ServerBase, frozen=True, kw_only=True):
    """Move the server's time forward, in the test environment: commands after this one are later.

    The command itself has the time before.
    """

    KIND: ClassVar[int] = 174
    advance_ms: int
    """Milliseconds, positive; they add to those of earlier commands."""


class Owner(Record, frozen=True, kw_only=True):
    """The node of a cluster that appends to the log."""

    epoch: int
    """Number of the ownership, rising by one with each owner."""
    node: str
    """Name of the node."""
    url: str
    """Base URL by which the other nodes reach it."""
    keys: bytes
    """Fingerprint of the secret files that all nodes share."""


class TakeOver(ServerBase, frozen=True, kw_only=True):
    """Make a node the owner of the log; the one before appends nothing any more."""

    KIND: ClassVar[int] = 175
    owner: Owner


class RecordOutbox(ServerBase, frozen=True, kw_only=True):
    """Record what the chain worker of the owner is about to store, before it sends anything."""

    KIND: ClassVar[int] = 176
    number: int
    """Number of the record, above that of the one before."""
    data: bytes
    """The changes, see ``clob_server.chain.tx.outbox``."""


ServerCommand: TypeAlias = (
    OrderCharge
    | AddKey
    | DeactivateKey
    | SetDelegate
    | DescribeMarket
    | SetOutcome
    | SetBudgets
    | Grant
    | GiveBack
    | BindMarket
    | BeginSettlement
    | SendTrades
    | EndTrades
    | FollowChain
    | DescribeExchange
    | ReviseTrades
    | RecordOpener
    | RecordCustody
    | StallMarket
    | RecordRestore
    | DeactivateCredentials
    | SetHeartbeat
    | SetCancelOnDisconnect
    | FireSwitch
    | KeepSwitches
    | AdvanceClock
    | TakeOver
    | RecordOutbox
)
"""A server command."""

AnyCommand: TypeAlias = Command | ServerCommand
"""Any logged command."""

ENGINE: Final = frozenset(get_args(Command))
"""Types of engine commands."""
SERVER: Final = frozenset(get_args(ServerCommand))
"""Types of server commands."""

KINDS: Final = {kind: bytes((kind.KIND,)) for kind in get_args(ServerCommand)}
"""The first byte of each type of the server's commands."""
pack: Final = msgspec.msgpack.Encoder().encode
"""Encodes the rest of a command, without the check of :func:`encode`."""
_UNPACK: Final[dict[bytes, msgspec.msgpack.Decoder[ServerCommand]]] = {
    byte: msgspec.msgpack.Decoder(kind) for kind, byte in KINDS.items()
}


def encode(command: AnyCommand) -> bytes:
    """Encode a command for the log, checking that it can be decoded again.

    Raises:
        TypeError: not a command, or a field has the wrong type.
        ValueError: an integer or text cannot be encoded.
    """
    kind = type(command)
    if kind in ENGINE:
        return encode_command(command)
    byte = KINDS.get(kind)
    if byte is None:
        raise TypeError(f"expected a command; got {command!r:.99}")
    packed = pack(command)
    try:
        _UNPACK[byte].decode(packed)
    except msgspec.MsgspecError as error:
        raise TypeError(f"{kind.__name__} cannot be encoded: {error}") from None
    return byte + packed


def decode_own(raw: bytes) -> ServerCommand:
    """Decode a server command, which starts with its kind byte.

    Raises:
        LogDamagedError: unknown kind or invalid bytes.
    """
    decoder = _UNPACK.get(raw[:1])
    if decoder is None:
        raise LogDamagedError(f"unknown command kind {int.from_bytes(raw[:1])}")
    try:
        return decoder.decode(raw[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogDamagedError(f"a command of kind {raw[0]} cannot be decoded: {error}") from None
