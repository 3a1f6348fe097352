"""ABI of the exchange contract: calldata of fills, functions and events."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

from clob.signing import salt_number
from clob.wire.operations import FillBody, PartyBody
from clob_server.chain.eth.abi import AbiError, Event, Function

FILLS_MAX: Final = 25
"""Maximum number of fills in a call."""
FILL_GAS: Final = 600_000
"""Gas limit of one fill."""
DELAY_S: Final = 300
"""Seconds until a maker's revocation takes effect on chain."""

WORD: Final = 32
"""Length of an ABI word."""
ADDRESS_BYTES: Final = 20
"""Length of an address."""
FILL_WORDS: Final = 5
"""Number of words of a fill before its orders."""
PARTY_WORDS: Final = 15
"""Number of words of an order in a fill before its signature."""

ORDER: Final = (
    "(uint256,address,address,address,uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8)"
)
"""ABI type of an order: its twelve fields in signing order."""
PARTY: Final = f"({ORDER},bytes,address,uint256)"
"""ABI type of an order in a fill."""
FILL: Final = f"(uint256,uint256,uint256,{PARTY},{PARTY})"
"""ABI type of a fill."""

Custody: TypeAlias = Literal["wallet", "escrow"]
"""Where the assets of a fill are: in the wallets, or in escrow in the contract."""

SETTLE: Final = Function(f"settle({FILL}[])")
SETTLE_ESCROW: Final = Function(f"settleEscrow({FILL}[])")
_SETTLES: Final[Mapping[Custody, Function]] = {"wallet": SETTLE, "escrow": SETTLE_ESCROW}
AUTHORISED: Final = Function(f"authorised({ORDER},bytes)", returns="bytes32")
HASH_ORDER: Final = Function(f"hashOrder({ORDER})", returns="bytes32")
CANCEL: Final = Function(f"cancel({ORDER})")
USED: Final = Function("used(bytes32)", returns="uint112,uint112,uint32")
IS_SETTLED: Final = Function("settled(uint256)", returns="bool")
IS_FAILED: Final = Function("failed(uint256)", returns="bool")
NONCE_OF: Final = Function("nonceOf(address)", returns="uint256")
REGISTER: Final = Function("registerCondition(bytes32)")
IS_PAUSED: Final = Function("paused()", returns="bool")
OPERATOR: Final = Function("operator()", returns="address")
IS_DELEGATE: Final = Function("isDelegate(address,address)", returns="bool")
IS_GASLESS: Final = Function("isGasless(address)", returns="bool")
IS_PAYER: Final = Function("isPayer(address,address)", returns="bool")
IS_PAYEE: Final = Function("isPayee(address,address)", returns="bool")
FEE_WALLET: Final = Function("feeWallet()", returns="address")

DEPOSIT: Final = Function("deposit(address,uint256,uint256)")
REQUEST_WITHDRAWAL: Final = Function("requestWithdrawal(uint256,uint256)")
REQUEST_WITHDRAWAL_FOR: Final = Function(
    "requestWithdrawalFor(address,uint256,uint256,uint256,uint256,bytes)"
)
WITHDRAW: Final = Function("withdraw(address,uint256)")
ESCROW_OF: Final = Function("escrowOf(address,uint256)", returns="uint256[3]")
"""Balance, requested amount, and the Unix second from which it can be withdrawn."""
ESCROWS: Final = Function("escrowOfBatch(address[],uint256[])", returns="uint256[2][]")
"""Balance and requested amount of each pair of a wallet and an asset."""
COLLATERAL_ASSET: Final = 0
"""Collateral as an asset in escrow; the others are outcome tokens."""

SETTLED: Final = Event(
    "Settled(uint256 indexed tradeId, bytes32 restingHash, bytes32 incomingHash, "
    "uint256 price, uint256 size)"
)
FAILED: Final = Event("SettleFailed(uint256 indexed tradeId, bytes reason)")
SETTLED_BEFORE: Final = Event("SettledBefore(uint256 indexed tradeId)")
FAILED_BEFORE: Final = Event("FailedBefore(uint256 indexed tradeId)")
ORDER_FILLED: Final = Event(
    "OrderFilled(bytes32 indexed orderHash, address indexed maker, address wallet, "
    "uint256 tokenId, uint8 side, bool inEscrow, uint256 paid, uint256 received, uint256 fee)"
)
DEPOSITED: Final = Event(
    "Deposited(address indexed wallet, uint256 indexed asset, uint256 amount, address from)"
)
WITHDRAWAL_REQUESTED: Final = Event(
    "WithdrawalRequested(address indexed wallet, uint256 indexed asset, uint256 amount, "
    "uint256 from)"
)
WITHDRAWN: Final = Event("Withdrawn(address indexed wallet, uint256 indexed asset, uint256 amount)")


def encode_settle_bodies(fills: Sequence[FillBody], custody: Custody = "wallet") -> bytes:
    """Encode the call that settles fills in trading order, ten times as fast as eth-abi.

    Raises:
        ValueError: a number is invalid, or a value does not match its type.
    """
    encoded = [_encode_fill(fill) for fill in fills]
    lengths = [WORD * len(encoded), *map(len, encoded[:-1])][: len(encoded)]
    places = accumulate(lengths)
    return b"".join(
        (
            _SETTLES[custody].selector,
            _word(WORD),
            _word(len(encoded)),
            *map(_word, places),
            *encoded,
        )
    )


def is_settle_escrow(calldata: bytes) -> bool:
    """Return whether a call settles fills in escrow."""
    return calldata[: len(SETTLE_ESCROW.selector)] == SETTLE_ESCROW.selector


def decode_settle(calldata: bytes) -> list[FillBody]:
    """Decode the fills of a call that settles them, in wallets or in escrow.

    Raises:
        AbiError: another call.
    """
    function = SETTLE_ESCROW if is_settle_escrow(calldata) else SETTLE
    (fills,) = function.arguments(calldata)
    return [
        FillBody(
            trade_id=str(trade_id),
            price=price,
            size=str(size),
            resting=_read_party(resting),
            incoming=_read_party(incoming),
        )
        for trade_id, price, size, resting, incoming in fills
    ]


def body_values(party: PartyBody) -> tuple[Any, ...]:
    """Return the twelve fields of an order for the contract.

    Raises:
        ValueError: a number is invalid.
    """
    return (
        salt_number(party.salt),
        party.maker,
        party.signer,
        party.taker,
        int(party.token_id),
        int(party.maker_amount),
        int(party.taker_amount),
        int(party.expiration),
        int(party.nonce),
        int(party.fee_rate_bps),
        party.side,
        party.signature_type,
    )


def body_signature(party: PartyBody) -> bytes:
    """Return the signature of an order; empty if it is unsigned or all zeros.

    Raises:
        ValueError: the signature is not 0x and hex digits.
    """
    signature = bytes.fromhex(party.signature[2:])
    return signature if any(signature) else b""


def _encode_fill(fill: FillBody) -> bytes:
    """Encode a fill: numbers, offsets of its two orders, the orders."""
    resting, incoming = _encode_party(fill.resting), _encode_party(fill.incoming)
    numbers = int(fill.trade_id), fill.price, int(fill.size)
    places = FILL_WORDS * WORD, FILL_WORDS * WORD + len(resting)
    return b"".join((*map(_word, (*numbers, *places)), resting, incoming))


def _encode_party(party: PartyBody) -> bytes:
    """Encode an order in a fill: fields, offset of the signature, signature."""
    signature = body_signature(party)
    *fields, side, signature_type = body_values(party)
    words = (
        *(_address(value) if isinstance(value, str) else _word(value) for value in fields),
        _word(side, 1),
        _word(signature_type, 1),
        _word(PARTY_WORDS * WORD),
        _address(party.wallet),
        _word(party.charged_bps),
        _word(len(signature)),
        signature.ljust(-(-len(signature) // WORD) * WORD, b"\0"),
    )
    return b"".join(words)


def _word(value: int, length: int = WORD) -> bytes:
    """Encode a number of at most ``length`` bytes as a word.

    Raises:
        AbiError: the number is longer.
    """
    try:
        return value.to_bytes(length).rjust(WORD, b"\0")
    except OverflowError as error:
        raise AbiError(f"{value} does not fit {8 * length} bits") from error


def _address(text: str) -> bytes:
    """Encode an address as a word.

    Raises:
        ValueError: not an address.
    """
    raw = bytes.fromhex(text[2:])
    if len(raw) != ADDRESS_BYTES:
        raise AbiError(f"not an address: {text}")
    return raw.rjust(WORD, b"\0")


def _read_party(values: tuple[Any, ...]) -> PartyBody:
    """Decode an order in a fill."""
    order, signature, wallet, charged = values
    salt, maker, signer, taker, *numbers, side, signature_type = order
    token_id, maker_amount, taker_amount, expiration, nonce, rate = map(str, numbers)
    return PartyBody(
        salt=str(salt),
        maker=maker,
        signer=signer,
        taker=taker,
        token_id=token_id,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        expiration=expiration,
        nonce=nonce,
        fee_rate_bps=rate,
        side=side,
        signature_type=signature_type,
        signature=f"0x{signature.hex()}",
        wallet=wallet,
        charged_bps=charged,
    )
