"""The commands that concern the server alone, and one way to write and to read all of them.

A command of the engine is written as ``clob.codec`` does. One of the server's is a byte, its kind
from 128 on, and MessagePack; the journal of the engine passes over it.
"""

from typing import ClassVar, Final, TypeAlias, get_args

import msgspec

from clob import Command
from clob.codec import encode as encode_command
from clob_server.chain.events import PermissionKind
from clob_server.log import LogDamagedError


class ServerBase(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """What all commands of the server have."""

    KIND: ClassVar[int]
    """The byte that it begins with, 128 to 255."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""


class SignatureRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What the signature of an order covers and the matcher does not keep.

    Its MessagePack is the ``attachment`` of the order's :class:`~clob.Submit`.
    """

    signer: str
    """The address that signed."""
    salt: str
    """The salt as it was sent; an integer as decimal digits."""
    taker: str
    """The taker named in the order."""
    signature_type: int
    """The type of the signature (decision 13)."""
    signature: bytes
    """The signature: r, s and v, 65 bytes."""


class OrderCharge(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Orders created, by who has to pay for them out of the budget of a minute."""

    KIND: ClassVar[int] = 129
    charges: tuple[tuple[bytes, int], ...]
    """Whose budget, as ``clob_server.auth.rate_limit`` names it, and how many orders."""


class ApiKey(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """An API key, without its secret."""

    id: str
    """What names it, and what the key begins with."""
    hash: bytes
    """SHA-256 of the whole key, 32 bytes."""
    name: str
    """What people call it."""
    environment: str
    """``test`` or ``production``: where it opens something."""
    scopes: tuple[str, ...]
    """What it may do: ``read``, ``trade``, ``cancel``."""
    makers: tuple[str, ...]
    """Whose orders it may place and cancel, as EIP-55 writes them; none is nobody's."""
    created_ms: int
    """When it was made, Unix milliseconds."""
    requests_per_minute: int | None = None
    """How many requests it may make; None leaves it to the setting."""
    orders_per_minute: int | None = None
    """How many orders it may create; None leaves it to the setting."""
    deactivated_ms: int | None = None
    """When it was deactivated; None while it is active."""


class AddKey(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Let an API key in."""

    KIND: ClassVar[int] = 130
    key: ApiKey
    """The key."""


class DeactivateKey(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Let an API key in no longer, from the next request on."""

    KIND: ClassVar[int] = 131
    key_id: str
    """The key."""


class SetDelegate(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Let somebody sign for a maker, or no longer. The maker signed it (decision 16)."""

    KIND: ClassVar[int] = 132
    maker: str
    """Who allows it."""
    delegate: str
    """Who may sign."""
    allowed: bool
    """If he may."""
    nonce: str
    """A number that rises with each of the maker's, in decimal digits: it may have 256 bits."""


class DescribeMarket(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Say in words what a market is about."""

    KIND: ClassVar[int] = 133
    market: str
    """The market."""
    question: str
    """What is asked."""
    description: str = ""
    """What else there is to know."""


class SetOutcome(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """State which token of a market won; its mode follows by a command of its own."""

    KIND: ClassVar[int] = 134
    market: str
    """The market."""
    outcome: str
    """``yes`` or ``no``."""


class Budgets(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """How many requests of which kind somebody may make in a minute (decision 32)."""

    anonymous_per_minute: int = 100
    """Requests of an address without a key."""
    key_per_minute: int = 240
    """Requests with a key that has no number of its own."""
    orders_per_minute: int = 30
    """Orders created by a key that has no number of its own, or an address."""
    cancels_per_minute: int = 240
    """Cancels of a key or an address, which count nowhere else."""


class SetBudgets(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Change the budgets of requests."""

    KIND: ClassVar[int] = 135
    budgets: Budgets
    """The budgets from now on."""


class Grant(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Promise units of the faucet to a wallet, before the chain is asked for them."""

    KIND: ClassVar[int] = 136
    operation: str
    """The operation that brings them; the same one again is no second grant."""
    user: str
    """Whose wallet, as EIP-55 writes it."""
    amount: int
    """How many, in whole units."""


class GiveBack(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Take back what was granted, because the operation has brought nothing."""

    KIND: ClassVar[int] = 137
    operation: str
    """The operation; one without a grant changes nothing."""


class Condition(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """What a market is on the chain."""

    question_id: bytes
    """What names its question, 32 bytes."""
    condition_id: bytes
    """What names question and oracle together, 32 bytes."""
    oracle: str
    """Who reports the outcome."""
    collateral: str
    """The ERC-20 that backs its tokens."""
    yes: str
    """The YES token, decimal digits."""
    no: str
    """The NO token, decimal digits."""


class BindMarket(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """State which condition of the chain a market trades.

    A market that has other tokens than the condition has nothing to do with it.
    """

    KIND: ClassVar[int] = 138
    market: str
    """The market."""
    condition: Condition
    """Its condition, which stays."""


class BeginSettlement(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """Begin to number trades on a chain, before the first market whose trades settle there."""

    KIND: ClassVar[int] = 139
    base: bytes
    """16 bytes that no other log has: with them, the number of a trade is its own on the chain."""


class SendTrades(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """State which trades an operation of the chain settles, before the chain is asked for it.

    Those that went with another operation before, which failed as a whole, go with this one.
    """

    KIND: ClassVar[int] = 140
    operation: str
    """The operation."""
    trades: tuple[int, ...]
    """Their numbers, of a mint or a merge the first, in their sequence."""


class TradeEnd(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """What came of the settlement of a trade, or of the two trades of a mint or a merge."""

    trade: int
    """Its number, of a mint or a merge the first."""
    tx: str
    """The transaction, 0x and 64 hex digits."""
    reason: str = ""
    """Why it failed; empty where it was settled."""


class EndTrades(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """State what came of trades on the chain; the commands of the engine stand beside it."""

    KIND: ClassVar[int] = 141
    ends: tuple[TradeEnd, ...]
    """One for each trade; of those that wait for nothing, nothing is kept."""


class FollowChain(ServerBase, frozen=True, kw_only=True, gc=False, array_like=True):
    """State up to which block the chain was heard, and what is remembered of it."""

    KIND: ClassVar[int] = 142
    block: int
    """The number of the block."""
    hash: str
    """Its hash."""
    wallets: tuple[str, ...] = ()
    """Wallets that have allowed the exchange contract something, and had not before."""
    permissions: tuple[tuple[PermissionKind, str, str, bool], ...] = ()
    """What somebody allows, or no longer: which kind, who, to whom, and if he does."""
    cancelled: tuple[str, ...] = ()
    """The hashes of orders that were cancelled there, 0x and 64 hex digits."""


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
)
"""A command that the engine does not know."""

AnyCommand: TypeAlias = Command | ServerCommand
"""Whatever may be in the log of a server."""

ENGINE: Final = frozenset(get_args(Command))
"""The types of the engine's commands."""
SERVER: Final = frozenset(get_args(ServerCommand))
"""The types of the server's commands."""

_KINDS: Final = {kind: bytes((kind.KIND,)) for kind in get_args(ServerCommand)}
_PACK: Final = msgspec.msgpack.Encoder()
_UNPACK: Final = {byte: msgspec.msgpack.Decoder(kind) for kind, byte in _KINDS.items()}


def encode(command: AnyCommand) -> bytes:
    """Write a command as it stands in the log.

    What is written can be read again: a log that holds anything else could not be recovered from.

    Args:
        command: one of the engine's or of the server's.

    Raises:
        TypeError: it is none, or something in it is not of its type.
        ValueError: an integer in it, or a text, cannot be written.
    """
    kind = type(command)
    if kind in ENGINE:
        return encode_command(command)
    byte = _KINDS.get(kind)
    if byte is None:
        raise TypeError(f"a command is asked for, not {command!r:.99}")
    packed = _PACK.encode(command)
    try:
        _UNPACK[byte].decode(packed)
    except msgspec.MsgspecError as error:
        raise TypeError(f"{kind.__name__} cannot be written: {error}") from None
    return byte + packed


def decode_own(raw: bytes) -> ServerCommand:
    """Read a command of the server.

    Args:
        raw: its bytes, from its kind on.

    Raises:
        LogDamagedError: no command is written so.
    """
    decoder = _UNPACK.get(raw[:1])
    if decoder is None:
        kind = int.from_bytes(raw[:1])
        raise LogDamagedError(f"a command is of kind {kind}, which is not known here")
    try:
        command: ServerCommand = decoder.decode(raw[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogDamagedError(f"a command of kind {raw[0]} cannot be read: {error}") from None
    return command
