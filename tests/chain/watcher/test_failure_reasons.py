"""Encoding of fills, and error texts of failed fills."""

from pathlib import Path

import msgspec
import pytest
from eth_abi import encode as abi_encode
from eth_utils import keccak, to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from clob.signing import SignedOrder, salt_number
from clob.wire.operations import FillBody, PartyBody
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.abi import AbiError
from clob_server.chain.eth.exchange_abi import (
    FILL_GAS,
    FILLS_MAX,
    SETTLE,
    decode_settle,
    encode_settle_bodies,
)
from clob_server.chain.operations.settle import gas_limit
from clob_server.chain.watcher.failure_checks import CheckInput, failure_checks
from clob_server.chain.watcher.failure_reasons import (
    DESCRIPTIONS,
    ERROR_NAMES,
    REASON_MAX,
    describe,
    payment,
    read_reason,
)
from tests.chain.settlements import party_of
from tests.chain.signed_fills import Party, SettlementFill, encode_settle

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "exchange.md"
WORD = 2**256 - 1
addresses = st.binary(min_size=20, max_size=20).map(to_checksum_address)
words = st.integers(0, WORD).map(str)
signatures = st.just("0x") | st.binary(min_size=65, max_size=65).filter(any).map(
    lambda raw: f"0x{raw.hex()}"
)
party_bodies = st.builds(
    PartyBody,
    salt=words,
    maker=addresses,
    signer=addresses,
    taker=addresses,
    token_id=words,
    maker_amount=words,
    taker_amount=words,
    expiration=words,
    nonce=words,
    fee_rate_bps=words,
    side=st.integers(0, 1),
    signature_type=st.integers(0, 1),
    signature=signatures,
    wallet=addresses,
    charged_bps=st.integers(0, 10_000),
)
fill_bodies = st.builds(
    FillBody,
    trade_id=words,
    price=st.integers(1, 99),
    size=words,
    resting=party_bodies,
    incoming=party_bodies,
)
VALUES = {
    "address": f"0x{'ab' * 20}",
    "uint256": 2**256 - 1,
    "uint8": 255,
    "bytes32": bytes(range(32)),
    "bytes": bytes(range(65)),
    "string": "words",
}
"""A value of each type of error parameters."""
OTHER_ERRORS = {
    "EnforcedPause",
    "ExpectedPause",
    "InvalidShortString",
    "NoOwner",
    "NonceNotRaised",
    "NonceUsed",
    "NotBinary",
    "NotDue",
    "NotMaker",
    "NotOperator",
    "NotPauser",
    "NotRequested",
    "NotStray",
    "NothingToMove",
    "OwnableInvalidOwner",
    "OwnableUnauthorizedAccount",
    "ReentrancyGuardReentrantCall",
    "SafeCastOverflowedUintDowncast",
    "SafeERC20FailedOperation",
    "SignatureExpired",
    "StringTooLong",
    "TooLittleGas",
    "TooManyFills",
    "NotWanted",
    "WrongAmount",
    "ZeroAddress",
}
"""Errors of the exchange that do not occur in fills."""
ERRORS = [entry for entry in artifact("Exchange").abi if entry["type"] == "error"]
COLLATERAL_ERRORS = [
    entry
    for entry in artifact("WrappedCollateral").abi
    if entry["type"] == "error" and entry["name"].startswith("ERC20Insufficient")
]


def reverted(entry):
    """Return the revert data of an error with a value of each type."""
    types = [part["type"] for part in entry["inputs"]]
    head = keccak(text=f"{entry['name']}({','.join(types)})")[:4]
    return head + abi_encode(types, [VALUES[each] for each in types])


def words_of(text):
    """Return the revert data of a text."""
    return keccak(text="Error(string)")[:4] + abi_encode(["string"], [text])


@given(st.lists(fill_bodies, max_size=3))
def test_encoded_fills_equal_eth_abi_and_round_trip(fills):
    data = encode_settle_bodies(fills)
    assert SETTLE.encode(*SETTLE.arguments(data)) == data
    assert decode_settle(data) == fills


@pytest.mark.parametrize(
    "wrong",
    [
        {"side": 256},
        {"signature_type": -1},
        {"salt": "\ud800"},
        {"token_id": str(WORD + 1)},
        {"nonce": "seven"},
        {"maker": f"0x{'ab' * 21}"},
        {"wallet": "0x"},
        {"signature": "0xghi"},
        {"charged_bps": -1},
    ],
    ids=str,
)
def test_invalid_order_fields_are_not_encoded(wrong):
    good = PartyBody(**{**PARTY_FIELDS, "token_id": "1", "side": 0})
    fill = FillBody(trade_id="1", price=1, size="1", resting=good, incoming=good)
    assert encode_settle_bodies([fill])
    bad = msgspec.structs.replace(fill, incoming=msgspec.structs.replace(good, **wrong))
    with pytest.raises(
        ValueError, match=r"does not fit|not an address|invalid literal|non-hex|surrogates"
    ):
        encode_settle_bodies([bad])


def test_both_encoders_return_the_same_bytes():
    order = SignedOrder.from_price_size(
        side=0, price=40, size=10**18, maker=DEVELOPMENT.exchange, token_id=7, salt=5
    )
    signed = msgspec.structs.replace(order, signature=f"0x{'1b' * 65}")
    parties = [
        Party(order=each, wallet=VALUES["address"], fee_rate_bps=3) for each in (signed, order)
    ]
    fill = SettlementFill(
        trade_id=9, price=40, size=10**18, resting=parties[0], incoming=parties[1]
    )
    bodies = [party_of(each, VALUES["address"], 3) for each in (signed, order)]
    body = FillBody(trade_id="9", price=40, size=str(10**18), resting=bodies[0], incoming=bodies[1])
    assert encode_settle_bodies([body]) == encode_settle([fill])


@pytest.mark.parametrize("salt", ["17", "0xff", "1700000000000-abc", str(WORD), str(WORD + 1)])
def test_salt_is_encoded_as_signed(salt):
    party = PartyBody(**{**PARTY_FIELDS, "token_id": "1", "side": 0, "salt": salt})
    fill = FillBody(trade_id="1", price=1, size="1", resting=party, incoming=party)
    (decoded,) = decode_settle(encode_settle_bodies([fill]))
    assert decoded.resting.salt == str(salt_number(salt))


def test_another_call_is_rejected():
    with pytest.raises(AbiError, match="not a call of settle"):
        decode_settle(b"\x01\x02\x03\x04")


# ----- error texts ---------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [*ERRORS, *COLLATERAL_ERRORS], ids=lambda entry: entry["name"])
def test_each_error_of_a_fill_has_a_description(entry):
    text = describe(read_reason(reverted(entry)), None, ["0x1234"])
    name, _, meaning = text.partition(": ")
    assert name == entry["name"]
    assert (name in DESCRIPTIONS) == (name not in OTHER_ERRORS)
    assert len(text) <= REASON_MAX
    assert "{" not in meaning
    if name in DESCRIPTIONS and entry["inputs"]:
        values = {part["name"] for part in entry["inputs"]} - {"orderHash", "resting", "incoming"}
        shown = [each for each in values if f"{{{each}}}" in DESCRIPTIONS[name]]
        assert shown or name in ("Cancelled", "OrdersDoNotMeet"), values


@pytest.mark.parametrize("text", ERROR_NAMES)
def test_revert_messages_of_conditional_tokens_have_names(text):
    name = ERROR_NAMES[text]
    assert text.encode() in artifact("ConditionalTokens").creation
    text = describe(read_reason(words_of(text)))
    assert text.startswith(f"{name}: somebody ") or name == "TokensNotAccepted"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", f"NoReason: the fill used up {FILL_GAS} gas or reverted without a reason"),
        (words_of("I\0will not"), "Refused: I?will not"),
        (words_of("x" * 9_999)[:256], "Unknown: unknown error 0x08c379a0"),
        (
            keccak(text="Panic(uint256)")[:4] + (0x11).to_bytes(32),
            "Panic: 0x11: an arithmetic operation overflowed",
        ),
        (b"\x01\x02", "Unknown: unknown error 0x0102"),
    ],
)
def test_arbitrary_revert_data_is_shown_safely(data, text):
    assert describe(read_reason(data)).startswith(text)


@given(st.sampled_from([*ERRORS, *COLLATERAL_ERRORS]), st.binary(max_size=252), fill_bodies)
def test_arbitrary_revert_data_blames_only_the_parties(entry, tail, fill):
    reason = read_reason(reverted(entry)[:4] + tail)
    assert len(describe(reason, fill)) <= REASON_MAX
    parties = fill.resting, fill.incoming
    context = CheckInput(DEVELOPMENT, fill, ())
    wallets = {each.wallet for each in failure_checks(reason, context)}
    assert wallets <= {each for party in parties for each in (party.maker, party.wallet)}


@pytest.mark.parametrize("price", [1, 33, 50, 99])
def test_payments_of_a_mint_add_up_to_the_size(price):
    buys = [{**PARTY_FIELDS, "token_id": token, "side": 0} for token in ("1", "2")]
    one, other = (PartyBody(**fields) for fields in buys)
    fill = FillBody(trade_id="1", price=price, size="701", resting=one, incoming=other)
    assert payment(fill, one) == 701 * price // 100
    assert payment(fill, one) + payment(fill, other) == 701


PARTY_FIELDS = dict.fromkeys(
    ["salt", "maker_amount", "taker_amount", "expiration", "nonce", "fee_rate_bps"], "0"
) | {
    **dict.fromkeys(["maker", "signer", "taker", "wallet"], f"0x{'00' * 20}"),
    "signature_type": 1,
    "signature": "0x",
    "charged_bps": 0,
}


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")
def test_documentation_names_each_reason():
    text = PAGE.read_text()
    assert [name for name in DESCRIPTIONS if f"`{name}`" not in text] == []
    most = gas_limit(FILLS_MAX, b"\1" * len(longest_calldata()))
    assert f"take at most {most:,}," in text
    assert most < 2**24


def longest_calldata():
    """Return the longest calldata of a full batch."""
    party = PartyBody(**{**PARTY_FIELDS, "token_id": "1", "side": 0, "signature": f"0x{'1b' * 65}"})
    fill = FillBody(trade_id="1", price=1, size="1", resting=party, incoming=party)
    return encode_settle_bodies([fill] * FILLS_MAX)


def test_gas_limit_covers_all_fills_burning_their_gas():
    assert gas_limit(FILLS_MAX, b"\xff" * 1_000) - gas_limit(FILLS_MAX, b"") == 16_000
    assert gas_limit(1, bytes(10)) - gas_limit(1, b"") == 40
    assert gas_limit(FILLS_MAX, b"") > FILLS_MAX * FILL_GAS
