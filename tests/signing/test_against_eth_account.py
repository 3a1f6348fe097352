"""Hashes and signers of random orders equal those of eth-account and eth-abi."""

import random  # noqa: TID251 - seeded, and outside the engine
from concurrent.futures import ThreadPoolExecutor

import pytest
from eth_abi import encode
from eth_account import Account
from eth_account.messages import _hash_eip191_message, encode_defunct, encode_typed_data

from clob.signing import (
    ORDER,
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedCancel,
    SignedCancelAll,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    Verdict,
    _secp_py,
    order_hash,
    personal_hash,
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
    CURVE,
    RecordingHook,
    high_twin,
    joined,
    parts,
    reference_keccak,
    replace,
)
from tests.signings import DOMAIN, KEYS, address_of, random_order

COUNTS = [300, pytest.param(4_000, marks=pytest.mark.long)]
NAMES = [
    "salt",
    "maker",
    "signer",
    "taker",
    "token_id",
    "maker_amount",
    "taker_amount",
    "expiration_s",
    "nonce",
    "fee_rate_bps",
    "side",
    "signature_type",
]
TYPES = ["uint256", *["address"] * 3, *["uint256"] * 6, *["uint8"] * 2]
TYPE_STRING = (
    "Order(uint256 salt,address maker,address signer,address taker,uint256 tokenId,"
    "uint256 makerAmount,uint256 takerAmount,uint256 expiration,uint256 nonce,uint256 feeRateBps,"
    "uint8 side,uint8 signatureType)"
)
TYPE_HASH = "a852566c4e14d00869b6db0220888a9090a13eccdaea03713ff0a3d27bf9767c"
"""Type hash of decision 14."""


def struct_hash(order):
    """Return the struct hash, computed by eth-abi with the field order of decision 14."""
    values = [getattr(order, name) for name in NAMES]
    return reference_keccak(encode(["bytes32", *TYPES], [bytes.fromhex(TYPE_HASH), *values]))


def flip_signature(order, rng):
    """Change one bit of r or s."""
    number = int(order.signature[2:130], 16) ^ (1 << rng.randrange(512))
    return replace(order, signature=f"0x{number:0128x}{order.signature[130:]}")


def flip_field(order, rng):
    """Change one bit of a signed field."""
    at = rng.randrange(len(NAMES))
    value, width = (
        getattr(order, NAMES[at]),
        {"uint256": 256, "address": 160, "uint8": 8}[TYPES[at]],
    )
    bit = 1 << rng.randrange(width)
    if TYPES[at] == "address":
        return replace(order, **{NAMES[at]: f"0x{int(value, 16) ^ bit:040x}"})
    return replace(order, **{NAMES[at]: value ^ bit})


def test_type_string_matches_the_exchange():
    assert ORDER.type_string == TYPE_STRING
    assert ORDER.type_hash.hex() == TYPE_HASH == reference_keccak(TYPE_STRING.encode()).hex()


@pytest.mark.parametrize("count", COUNTS)
def test_hashes_and_signers_of_random_orders_match_eth_account(backend, count):
    rng = random.Random(712)
    for _ in range(count):
        key = f"0x{rng.randrange(1, CURVE):064x}"
        order = random_order(rng, maker=address_of(key))
        profile = rng.choice(("spec", "ctf"))
        made = sign(order, DOMAIN, key, profile=profile)
        digest = order_hash(order, DOMAIN)
        message = encode_typed_data(full_message=typed_data(order, DOMAIN))
        assert digest == bytes(_hash_eip191_message(message))
        assert secp.hash_struct(order) == struct_hash(order)
        if profile == "spec" and order.signature_type == 0:
            message = encode_defunct(digest)
            assert personal_hash(digest) == bytes(_hash_eip191_message(message))
        assert Account.recover_message(message, signature=made.signature) == order.maker
        assert recover_signer(made, DOMAIN) == order.maker
        verify(made, DOMAIN)


@pytest.mark.parametrize("count", COUNTS)
def test_one_flipped_bit_is_rejected(backend, count):
    rng = random.Random(1559)
    keys = [(key, address_of(key)) for key in KEYS]
    for _ in range(count):
        key, maker = rng.choice(keys)
        made = sign(random_order(rng, maker), DOMAIN, key, profile=rng.choice(("spec", "ctf")))
        assert verify_batch([made], DOMAIN) == b"\0"
        for other in (flip_signature(made, rng), flip_field(made, rng)):
            with pytest.raises(InvalidSignatureError):
                verify(other, DOMAIN, delegates=RecordingHook(False))
            assert any(verify_batch([other], DOMAIN))


# ----- batches -------------------------------------------------------------------------------


def altered(order, rng):
    """Return an order or message with a changed field or an invalid signature."""
    r, s, v = parts(order.signature)
    bad = (
        joined(r, s, v + 2), joined(r, s, 55 - v), joined(0, s, v), joined(r, 0, v),
        joined(r, CURVE, v), joined(CURVE, s, v), joined(5, s, v), high_twin(order.signature),
        "", "0x", order.signature[:-1], order.signature + "00", order.signature + "\n",
        order.signature.replace("0x", "0X"), order.signature.encode(), None, 7,
    )  # fmt: skip
    # The last has the right digits with a wrong checksum.
    makers = (BOB, ALICE, "0x", "", None, 5, ALICE + "\n", f"0x{order.maker[2:].swapcase()}")
    return rng.choice(
        (
            flip_signature(order, rng),
            replace(order, signature=rng.choice(bad)),
            replace(order, maker=rng.choice(makers)),
        )
    )


def altered_order(order, rng):
    """Like `altered`, also with fields that only an order has."""
    return rng.choice(
        (
            flip_field(order, rng),
            replace(order, signature_type=rng.choice((2, 3, 4, 255, 256, -1, True, None))),
            replace(order, token_id=rng.choice((2**256, -1, None, 1.0, True, b""))),
            replace(order, taker=rng.choice(("0x", "", None, ALICE[2:]))),
            replace(order, signer=rng.choice((BOB, "0x", None))),
        )
    )


def message(rng, key, maker):
    """Return a signed message of a random kind."""
    nonce = rng.getrandbits(256)
    made = rng.choice(
        (
            SignedCancel(maker=maker, order_id=f"ord_{nonce}", timestamp_ms=nonce),
            SignedCancelAll(
                maker=maker,
                market_id=rng.choice(("", f"m{nonce}")),
                token_id=rng.choice(("", str(nonce))),
                side=rng.randrange(3),
                timestamp_ms=nonce,
            ),
            SignedReduce(maker=maker, order_id="o", remaining=nonce, timestamp_ms=nonce),
            SignedSetNonce(maker=maker, nonce=nonce),
            SignedSetDelegate(maker=maker, delegate=BOB, allowed=rng.random() < 0.5, nonce=nonce),
        )
    )
    return sign(made, DOMAIN, key)


def mixture(seed, count):
    """Return valid and invalid orders and messages."""
    rng = random.Random(seed)
    keys = [(key, address_of(key)) for key in KEYS]
    made = []
    for _ in range(count):
        key, maker = rng.choice(keys)
        if rng.random() < 0.3:
            made.append(message(rng, key, maker))
            spoil = altered
        else:
            order = random_order(rng, rng.choice((maker, maker, BOB)), signer=maker)
            made.append(sign(order, DOMAIN, key, profile=rng.choice(("spec", "ctf"))))
            spoil = rng.choice((altered, altered_order))
        if rng.random() < 0.6:
            made[-1] = spoil(made[-1], rng)
    return made


def one_by_one(values, **options):
    """Verify each value alone; return the verdicts."""
    verdicts = []
    for value in values:
        try:
            verify(value, DOMAIN, **options)
        except (InvalidFieldError, InvalidAddressError):
            verdicts.append(Verdict.INVALID_FIELD)
        except InvalidSignatureError as error:
            verdicts.append(error.verdict)
        else:
            verdicts.append(Verdict.VALID)
    return bytes(verdicts)


@pytest.mark.parametrize("profile", ["spec", "ctf"])
def test_verify_batch_equals_single_verify(backend, profile):
    values = mixture(1271, 800)
    verdicts = verify_batch(values, DOMAIN, profile=profile)
    assert verdicts == one_by_one(values, profile=profile)
    missing = set(Verdict) - {Verdict(each) for each in verdicts}
    assert missing <= ({Verdict.CONTRACT_WALLET} if profile == "spec" else set())


@pytest.mark.parametrize("profile", ["spec", "ctf"])
@pytest.mark.parametrize("answer", [True, False])
def test_verify_batch_with_hooks_equals_single_verify(backend, profile, answer):
    values = mixture(1272, 400)
    hooks = {name: RecordingHook(answer) for name in ("delegates", "proxies", "contracts")}
    verdicts = verify_batch(values, DOMAIN, profile=profile, **hooks)
    num_calls = {name: len(hook.calls) for name, hook in hooks.items()}
    assert num_calls["contracts"]
    assert num_calls["delegates" if profile == "spec" else "proxies"]
    assert verdicts == one_by_one(values, profile=profile, **hooks)
    assert {name: len(hook.calls) for name, hook in hooks.items()} == {
        name: 2 * count for name, count in num_calls.items()
    }


def test_a_batch_may_be_empty_or_a_tuple(backend):
    values = tuple(mixture(1273, 20))
    assert verify_batch([], DOMAIN) == verify_batch((), DOMAIN) == b""
    assert verify_batch(values, DOMAIN) == verify_batch(list(values), DOMAIN)
    assert len(verify_batch(values, DOMAIN)) == 20


def test_two_threads_verify_batches_independently(backend):
    values = mixture(1274, 600)
    expected = verify_batch(values, DOMAIN)
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(verify_batch, values, DOMAIN) for _ in range(2)]
        tasks += [pool.submit(verify_batch, values[at::4], DOMAIN) for at in range(4)]
        whole = [task.result() for task in tasks[:2]]
        shares = [task.result() for task in tasks[2:]]
    assert whole == [expected, expected]
    assert shares == [expected[at::4] for at in range(4)]


def test_backends_agree_on_batches(backend):
    """The backend in plain Python is the reference."""
    values = mixture(1275, 400)
    rules = bytes([3, 1])
    ours = backend.verdicts_of(values, DOMAIN.separator, rules)
    assert ours == _secp_py.verdicts_of(values, DOMAIN.separator, rules)
    assert ours == bytes(backend.verdict_of(value, DOMAIN.separator, rules) for value in values)
