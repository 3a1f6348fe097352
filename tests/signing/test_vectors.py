"""Signing vectors: hashes, signatures and signers match other libraries."""

import json

import msgspec
import pytest
from eth_account.messages import _hash_eip191_message, encode_defunct
from eth_utils import to_checksum_address

from clob.errors import AmountTooLargeError, InvalidAmountError, InvalidSideError
from clob.signing import (
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedOrder,
    Verdict,
    order_hash,
    personal_hash,
    recover,
    recover_signer,
    secp,
    sign,
    typed_data,
    verify,
    verify_batch,
)
from tests.signing.helpers import domain_of, eth_account_digest
from tests.signings import vectors

KNOWN_TYPES = {"spec": (0, 1), "ctf": (0, 1, 2, 3)}
WHY = {
    "format": {Verdict.MALFORMED},
    "v": {Verdict.INVALID_V},
    # An s above n is neither high nor low.
    "high_s": {Verdict.HIGH_S, Verdict.INVALID_R_OR_S},
    "unrecoverable": {Verdict.INVALID_R_OR_S, Verdict.NOT_RECOVERABLE},
}
"""Our error classes by the error names of the vectors."""

OUT_OF_RANGE = {
    "uint256-overflow": AmountTooLargeError,
    "uint8-overflow": InvalidSideError,
    "sigtype-300": InvalidFieldError,
    "hex-string": InvalidAmountError,
    "plus-sign": InvalidAmountError,
    "space": InvalidAmountError,
    "exp": InvalidAmountError,
    "addr-lower": None,
}
BY_FIELD = {
    "makerAmount": (InvalidAmountError, AmountTooLargeError),
    "takerAmount": (InvalidAmountError, AmountTooLargeError),
    "side": (InvalidSideError,),
    "maker": (InvalidAddressError,),
    "signer": (InvalidAddressError,),
    "taker": (InvalidAddressError,),
}
"""Error classes by field, for vectors that are not in the table above."""


def each(group):
    """Return parameters for the vectors of a group, one test each."""
    entries = vectors(group)
    assert entries
    assert len({entry["id"] for entry in entries}) == len(entries)
    return entries


def raw(text):
    return bytes.fromhex(text.removeprefix("0x"))


# ----- orders --------------------------------------------------------------------------------


def test_hashes_of_orders_match_other_libraries(backend):
    for entry in each("order_eip712"):
        domain, order = domain_of(entry["domain"]), SignedOrder.from_json(entry["order"])
        assert domain.separator == raw(entry["domainSeparator"]), entry["id"]
        assert secp.hash_struct(order) == raw(entry["structHash"]), entry["id"]
        assert order_hash(order, domain) == raw(entry["digest"]), entry["id"]
        assert eth_account_digest(typed_data(order, domain)) == raw(entry["digest"]), entry["id"]


def test_signatures_match_other_libraries(backend):
    for entry in each("order_eip712"):
        order = SignedOrder.from_json(entry["order"])
        made = sign(order, domain_of(entry["domain"]), entry["key"], profile="ctf")
        assert made.signature == entry["signature"], entry["id"]
        assert made.signature == entry.get("published", {}).get("signature", made.signature)
        assert msgspec.structs.replace(made, signature="") == order


def test_signers_of_orders_are_recovered(backend):
    for entry in each("order_eip712"):
        domain = domain_of(entry["domain"])
        order = SignedOrder.from_json(entry["order"] | {"signature": entry["signature"]})
        assert recover_signer(order, domain) == entry["signer_recovered"], entry["id"]
        assert recover(raw(entry["digest"]), entry["signature"]) == entry["signer_recovered"]


@pytest.mark.parametrize("profile", KNOWN_TYPES)
def test_orders_of_supported_types_are_verified(backend, profile):
    """In ``ctf``, types 1 and 2 call the proxies hook and type 3 the contracts hook."""
    known = 0
    for entry in each("order_eip712"):
        domain, kind = domain_of(entry["domain"]), int(entry["order"]["signatureType"])
        order = SignedOrder.from_json(entry["order"] | {"signature": entry["signature"]})
        hooks = {"proxies": lambda *_: True} if profile == "ctf" and kind in (1, 2) else {}
        if kind in KNOWN_TYPES[profile]:
            known += 1
            verify(order, domain, profile=profile, **hooks)
            assert verify_batch([order], domain, profile=profile, **hooks) == b"\0"
        else:
            with pytest.raises(InvalidSignatureError) as caught:
                verify(order, domain, profile=profile)
            assert caught.value.verdict is Verdict.UNSUPPORTED_TYPE
            assert verify_batch([order], domain, profile=profile) == bytes([caught.value.verdict])
    assert known


def test_orders_round_trip_through_json(backend):
    for entry in each("order_eip712"):
        order = SignedOrder.from_json(entry["order"] | {"signature": entry["signature"]})
        read = SignedOrder.from_json(json.loads(json.dumps(order.to_json())))
        assert read == order
        assert secp.hash_struct(read) == raw(entry["structHash"])


# ----- other signed values -------------------------------------------------------------------


def test_personal_signatures(backend):
    """`personal_hash` accepts 32 bytes only; longer messages are hashed by eth-account."""
    short = 0
    for entry in each("personal"):
        message, digest = raw(entry["message"]), raw(entry["hash"])
        assert bytes(_hash_eip191_message(encode_defunct(message))) == digest
        if len(message) == 32:
            short += 1
            assert personal_hash(message) == digest, entry["id"]
        assert recover(digest, entry["signature"]) == entry["signer_recovered"], entry["id"]
    assert short


def test_signatures_at_the_edges_follow_the_policy(backend):
    accepted = 0
    for entry in each("recover"):
        digest, signature = raw(entry["hash"]), entry["signature"]
        if entry["policy"]:
            accepted += 1
            assert recover(digest, signature) == entry["policy"], entry["id"]
            continue
        with pytest.raises(InvalidSignatureError) as caught:
            recover(digest, signature)
        error = caught.value
        assert error.verdict in WHY[entry["policy_reject"]], entry["id"]
        assert (error.code, error.path, error.digest) == ("INVALID_SIGNATURE", "signature", digest)
    assert accepted


# ----- fields --------------------------------------------------------------------------------


def right_address(text):
    """Return the checksummed form of an address by decision 15, or None if it is invalid."""
    body = text[2:]
    if text[:2] != "0x" or len(body) != 40 or set(body) - set("0123456789abcdefABCDEF"):
        return None
    right = to_checksum_address(text.lower())
    return right if body in (body.lower(), body.upper(), right[2:]) else None


@pytest.mark.parametrize("field", ["maker", "signer", "taker"])
def test_decision_15_addresses_are_accepted_or_rejected(backend, field):
    order = each("order_eip712")[0]["order"]
    taken = 0
    for entry in each("addresses"):
        right = right_address(entry["input"])
        if right:
            taken += 1
            read = SignedOrder.from_json(order | {field: entry["input"]})
            assert getattr(read, field) == right == entry.get("checksummed", right)
            continue
        with pytest.raises(InvalidAddressError) as caught:
            SignedOrder.from_json(order | {field: entry["input"]})
        assert (caught.value.code, caught.value.path) == ("INVALID_ADDRESS", field), entry["id"]
    assert 0 < taken < len(each("addresses"))


def test_values_out_of_range_are_rejected_as_documented(backend):
    order = each("order_eip712")[0]["order"]
    for entry in each("out_of_range"):
        data, field = order | {entry["field"]: entry["value"]}, entry["field"]
        expected = OUT_OF_RANGE.get(entry["id"], BY_FIELD.get(field, (InvalidFieldError,)))
        if expected is None:
            assert getattr(SignedOrder.from_json(data), field) == right_address(entry["value"])
            continue
        with pytest.raises(expected) as caught:
            SignedOrder.from_json(data)
        assert caught.value.path == field, entry["id"]
