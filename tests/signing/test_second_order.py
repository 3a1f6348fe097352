"""Polymarket's second order, declared in the test; the verifier supports it unchanged."""

import json
import random  # noqa: TID251 - seeded, and outside the engine
from typing import ClassVar

import pytest
from eth_abi import encode

from clob.signing import (
    Domain,
    Field,
    InvalidFieldError,
    InvalidSignatureError,
    Profile,
    Schema,
    Signed,
    Verdict,
    Written,
    fields,
    order_hash,
    recover_signer,
    secp,
    sign,
    typed_data,
    verify,
    verify_batch,
)
from tests.signing.helpers import (
    ALICE,
    BOB,
    RecordingHook,
    eth_account_digest,
    outcome,
    recovered_by_eth_account,
    reference_keccak,
    replace,
    signed,
)
from tests.signings import DOMAIN, KEYS

AS_IT_IS, HEX, NUMBER = Written.AS_IT_IS, Written.HEX, Written.NUMBER


V2_TYPE_HASH = "bb86318a2138f5fa8ae32fbe8e659f8fcf13cc6ae4014a707893055433818589"
"""Type hash published by its exchange."""

ORDER_V2 = Schema(
    "Order",
    (
        Field("salt", "uint256", "salt", fields.salt, AS_IT_IS),
        Field("maker", "address", "maker", fields.address, AS_IT_IS),
        Field("signer", "address", "signer", fields.address, AS_IT_IS),
        Field("tokenId", "uint256", "token_id"),
        Field("makerAmount", "uint256", "maker_amount", fields.amount),
        Field("takerAmount", "uint256", "taker_amount", fields.amount),
        Field("side", "uint8", "side", fields.side, NUMBER),
        Field("signatureType", "uint8", "signature_type", fields.uint8, NUMBER),
        Field("timestamp", "uint256", "timestamp_ms"),
        Field("metadata", "bytes32", "metadata", fields.word, HEX),
        Field("builder", "bytes32", "builder", fields.word, HEX),
    ),
    signer="signer",
    signature_type="signature_type",
)


class OrderV2(Signed, frozen=True, kw_only=True, gc=False):
    """An order without taker, nonce and fee, and with an unsigned expiration."""

    SCHEMA: ClassVar[Schema] = ORDER_V2

    salt: int | str
    maker: str
    signer: str
    token_id: int
    maker_amount: int
    taker_amount: int
    side: int
    signature_type: int
    timestamp_ms: int
    metadata: bytes
    builder: bytes
    expiration_s: int = 0


V2_DOMAIN = Domain(
    "Polymarket CTF Exchange", "2", 137, "0xE111180000d2663C0091e4f400237545B87B996B"
)
V2_TYPES = ["uint256", "address", "address", *["uint256"] * 3, "uint8", "uint8", "uint256"]


def random_v2(rng, maker=ALICE):
    return OrderV2(
        salt=rng.getrandbits(256), maker=maker, signer=maker, token_id=rng.getrandbits(256),
        maker_amount=rng.getrandbits(128), taker_amount=rng.getrandbits(128),
        side=rng.randrange(2), signature_type=rng.randrange(2), timestamp_ms=rng.getrandbits(41),
        metadata=rng.randbytes(32), builder=rng.randbytes(32), expiration_s=rng.getrandbits(31),
    )  # fmt: skip


def flipped(order, rng):
    """Change one signed field."""
    field = rng.choice([each for each in ORDER_V2.fields if each.attribute != "maker"])
    value = getattr(order, field.attribute)
    if field.type == "bytes32":
        value = bytes([value[0] ^ 1]) + value[1:]
    elif field.type == "address":
        value = BOB
    else:
        value ^= 1
    return replace(order, **{field.attribute: value})


def test_type_hash_of_the_second_order_matches_its_exchange():
    assert ORDER_V2.type_hash.hex() == V2_TYPE_HASH


def test_hashes_of_the_second_order_match_eth_account_and_eth_abi(backend):
    rng = random.Random(2)
    for _ in range(200):
        order = random_v2(rng)
        typed = json.loads(json.dumps(typed_data(order, V2_DOMAIN)))
        assert order_hash(order, V2_DOMAIN) == eth_account_digest(typed)
        values = [getattr(order, field.attribute) for field in ORDER_V2.fields]
        packed = encode(
            ["bytes32", *V2_TYPES, "bytes32", "bytes32"], [bytes.fromhex(V2_TYPE_HASH), *values]
        )
        assert secp.hash_struct(order) == reference_keccak(packed)


def test_the_second_order_is_signed_and_verified(backend):
    rng = random.Random(3)
    for _ in range(100):
        profile = rng.choice(("spec", "ctf"))
        made = sign(random_v2(rng), V2_DOMAIN, KEYS[0], profile=profile)
        verify(made, V2_DOMAIN)
        if profile == "ctf" or made.signature_type == 1:
            digest = order_hash(made, V2_DOMAIN)
            assert recovered_by_eth_account(digest, made.signature) == ALICE
        assert recover_signer(made, V2_DOMAIN) == ALICE
        # Its expiration is not signed.
        verify(replace(made, expiration_s=5), V2_DOMAIN)
        with pytest.raises(InvalidSignatureError):
            verify(flipped(made, rng), V2_DOMAIN)
        with pytest.raises(InvalidSignatureError):
            verify(made, DOMAIN)


def test_the_second_order_in_a_batch_with_the_first(backend):
    rng = random.Random(4)
    good, values = [], []
    for _ in range(100):
        if rng.random() < 0.5:
            order = sign(random_v2(rng), DOMAIN, KEYS[0])
            spoilt = flipped(order, rng)
        else:
            order = signed(salt=rng.getrandbits(256))
            spoilt = replace(order, token_id=order.token_id ^ 1)
        good.append(rng.random() < 0.5)
        values.append(order if good[-1] else spoilt)
    verdicts = verify_batch(values, DOMAIN)
    assert [verdict == Verdict.VALID for verdict in verdicts] == good


ZEROS = "0" * 63
NO_WORDS = (
    "", "0x", f"0x{ZEROS}", f"0x{ZEROS}00", f"{ZEROS}0", f"0X{ZEROS}0", f"0x{ZEROS}\n",
    f"0x{ZEROS}g", f"0x{ZEROS}\uff10", f"0x{ZEROS}0\n", 5, bytes(32), True, [], 1.5, None,
)  # fmt: skip


def test_the_second_order_round_trips_through_json(backend):
    rng = random.Random(5)
    for _ in range(50):
        made = sign(replace(random_v2(rng), expiration_s=0), V2_DOMAIN, KEYS[0])
        written = json.loads(json.dumps(made.to_json()))
        assert OrderV2.from_json(written) == made
    for name in ("metadata", "builder"):
        for wrong in NO_WORDS:
            result = outcome(OrderV2.from_json, written | {name: wrong})
            assert result[:3] == (InvalidFieldError, "INVALID_FIELD", name)


@pytest.mark.parametrize(
    "value", [b"", b"\0" * 31, b"\0" * 33, "0x" + "0" * 64, None, 0, bytearray(32)]
)
def test_bytes32_of_another_length_is_not_hashed(backend, value):
    order = replace(sign(random_v2(random.Random(6)), DOMAIN, KEYS[0]), metadata=value)
    result = outcome(verify, order, DOMAIN)
    assert result[:3] == (InvalidFieldError, "INVALID_FIELD", "metadata")
    assert verify_batch([order], DOMAIN) == bytes([Verdict.INVALID_FIELD])


def test_authorisation_rules_apply_to_the_second_order(backend):
    order = replace(random_v2(random.Random(7)), signer=BOB, signature_type=1)
    made = sign(order, DOMAIN, KEYS[1])
    for profile, hook in ((Profile.SPEC, "delegates"), (Profile.CTF, "proxies")):
        assert verify_batch([made], DOMAIN, profile=profile) == bytes([Verdict.NOT_AUTHORISED])
        recorder = RecordingHook()
        verify(made, DOMAIN, profile=profile, **{hook: recorder})
        assert [question[:2] for question in recorder.calls] == [(ALICE, BOB)]
