"""Verification with a known digest has the same verdicts without hashing."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob.errors import RejectedError
from clob.signing import (
    Domain,
    InvalidFieldError,
    InvalidSignatureError,
    SignedOrder,
    Verdict,
    _secp_py,
    order_hash,
    secp,
    sign,
    verify,
    verify_batch,
)
from tests.signing.helpers import ALICE, BOB, RecordingHook, domain_of, outcome, replace, signed
from tests.signing.test_against_eth_account import mixture
from tests.signing.test_odd_classes import BODIES
from tests.signing.test_schemas import mail
from tests.signings import DOMAIN, EXCHANGE, KEYS, vectors

RULES = (bytes([3, 1]), bytes([1, 5, 5, 8]))
PROFILES = ["spec", "ctf"]


def hashed(values):
    """Return the values that have a hash, and the hashes."""
    pairs = []
    for value in values:
        try:
            pairs.append((value, order_hash(value, DOMAIN)))
        except RejectedError:
            continue
    return [value for value, _ in pairs], [digest for _, digest in pairs]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_known_digest_leads_to_the_same_verdict(backend, profile):
    values, digests = hashed(mixture(1276, 800))
    verdicts = verify_batch(values, DOMAIN, profile=profile)
    assert verify_batch(values, DOMAIN, digests=digests, profile=profile) == verdicts
    missing = set(Verdict) - {Verdict(each) for each in verdicts}
    known = {Verdict.INVALID_FIELD} | ({Verdict.CONTRACT_WALLET} if profile == "spec" else set())
    assert missing <= known
    for value, digest in zip(values, digests, strict=True):
        alone = outcome(verify, value, DOMAIN, digest=digest, profile=profile)
        assert alone == outcome(verify, value, DOMAIN, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("answer", [True, False])
def test_hooks_get_the_same_arguments_with_a_known_digest(backend, profile, answer):
    values, digests = hashed(mixture(1277, 300))
    results = []
    for options in ({}, {"digests": digests}):
        hooks = {name: RecordingHook(answer) for name in ("delegates", "proxies", "contracts")}
        verdicts = verify_batch(values, DOMAIN, profile=profile, **options, **hooks)
        results.append((verdicts, {name: hook.calls for name, hook in hooks.items()}))
    assert results[0] == results[1]
    assert results[0][1]["contracts"]


def test_every_vector_is_verified_by_its_published_hash(backend):
    for entry in vectors("order_eip712"):
        domain = domain_of(entry["domain"])
        order = SignedOrder.from_json({**entry["order"], "signature": entry["signature"]})
        digest = bytes.fromhex(entry["digest"].removeprefix("0x"))
        for profile in PROFILES:
            alone = outcome(verify, order, domain, digest=digest, profile=profile)
            assert alone == outcome(verify, order, domain, profile=profile), entry["id"]


def test_backends_agree_on_any_digest(backend):
    rng = random.Random(1278)
    values = mixture(1279, 400)
    digests = [rng.randbytes(32) for _ in values]
    for rules in RULES:
        ours = backend.verdicts_of(values, DOMAIN.separator, rules, digests)
        assert ours == _secp_py.verdicts_of(values, DOMAIN.separator, rules, digests)
        assert ours == bytes(
            backend.verdict_of(value, DOMAIN.separator, rules, digest)
            for value, digest in zip(values, digests, strict=True)
        )


@pytest.mark.parametrize("profile", PROFILES)
def test_a_wrong_digest_is_not_checked_and_has_another_signer(backend, profile):
    made = signed(profile=profile)
    other = order_hash(replace(made, nonce=1), DOMAIN)
    with pytest.raises(InvalidSignatureError) as caught:
        verify(made, DOMAIN, digest=other, profile=profile)
    assert caught.value.verdict is Verdict.WRONG_SIGNER
    assert caught.value.digest == other
    assert list(verify_batch([made], DOMAIN, digests=[other])) == [Verdict.WRONG_SIGNER]


def test_a_digest_of_another_domain_is_not_checked(backend):
    other_domain = Domain("clob", "2", 31337, EXCHANGE)
    made = signed(domain=other_domain)
    verify(made, DOMAIN, digest=order_hash(made, other_domain))


@pytest.mark.parametrize("digest", [b"", b"x" * 31, b"x" * 33, bytearray(32), "x" * 32, 7])
def test_an_invalid_digest_is_rejected(backend, digest):
    made = signed()
    with pytest.raises(InvalidFieldError, match="digest must be 32 bytes; got "):
        verify(made, DOMAIN, digest=digest)
    with pytest.raises(InvalidFieldError, match="digest must be 32 bytes; got "):
        verify_batch([made, made], DOMAIN, digests=[order_hash(made, DOMAIN), digest])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_digests_is_rejected(backend, count):
    made = signed()
    digests = [order_hash(made, DOMAIN)] * count
    with pytest.raises(InvalidFieldError, match=f"one item per order, 2; got {count}"):
        verify_batch([made, made], DOMAIN, digests=digests)
    with pytest.raises(ValueError, match=r"digests|argument 2"):
        backend.verdicts_of([made, made], DOMAIN.separator, RULES[0], digests)


def test_a_batch_with_digests_may_be_empty_or_longer_than_a_chunk(backend):
    assert verify_batch([], DOMAIN, digests=()) == b""
    values, digests = hashed(mixture(1280, 40))
    many = 1_100 // len(values) + 1  # more than are judged at a time without the GIL
    verdicts = verify_batch(values * many, DOMAIN, digests=digests * many)
    assert verdicts == verify_batch(values, DOMAIN) * many


def test_a_known_digest_skips_hashing(backend, monkeypatch):
    made = signed()
    digest = order_hash(made, DOMAIN)

    def rejected(*_):
        raise AssertionError("hashed")

    for module in {backend, secp, _secp_py}:
        monkeypatch.setattr(module, "digest_of", rejected)
        monkeypatch.setattr(module, "hash_struct", rejected)
    verify(made, DOMAIN, digest=digest)
    assert verify_batch([made], DOMAIN, digests=[digest]) == b"\0"
    with pytest.raises(InvalidSignatureError):
        verify(replace(made, signature="0x"), DOMAIN, digest=digest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[(field, bad) for field in ("maker", "signer") for bad in ("0x", None, 7, ALICE[2:])],
        *[("signature_type", bad) for bad in (256, 2**300, -1, None, True, "1", 1.0)],
    ],
    ids=str,
)
def test_owner_signer_and_type_are_checked_with_a_known_digest(backend, field, value):
    made = signed()
    digest = order_hash(made, DOMAIN)
    bad = replace(made, **{field: value})
    verdicts = verify_batch([bad, made], DOMAIN, digests=[digest, digest])
    assert list(verdicts) == [Verdict.INVALID_FIELD, Verdict.VALID]
    alone = outcome(verify, bad, DOMAIN, digest=digest)
    assert alone == outcome(verify, bad, DOMAIN)
    assert alone[1] == InvalidFieldError.code


def test_other_fields_are_not_checked_with_a_known_digest(backend):
    made = signed()
    digest = order_hash(made, DOMAIN)
    verify(replace(made, token_id=None, nonce="x"), DOMAIN, digest=digest)


def test_authorisation_is_checked_with_a_known_digest(backend):
    made = signed(KEYS[1], maker=ALICE, signer=BOB)
    digest = order_hash(made, DOMAIN)
    verdicts = verify_batch([made], DOMAIN, digests=[digest])
    assert list(verdicts) == [Verdict.NOT_AUTHORISED]
    verify(made, DOMAIN, digest=digest, delegates=RecordingHook(True))


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_an_odd_class_is_verified_by_its_hash(backend, kind):
    made = [sign(kind.from_json(BODIES[kind]), DOMAIN, key) for key in KEYS[:2]]
    digests = [order_hash(each, DOMAIN) for each in made]
    verdicts = verify_batch(made, DOMAIN, digests=digests)
    assert list(verdicts) == [Verdict.VALID, Verdict.WRONG_SIGNER]


def test_a_struct_with_structs_in_it_is_verified_by_its_hash(backend):
    entry, domain, made = mail()
    digest = bytes.fromhex(entry["digest"].removeprefix("0x"))
    verify(made, domain, digest=digest)
    forged = replace(made, signature=signed().signature)
    verdicts = verify_batch([made, forged], domain, digests=[digest, digest])
    assert list(verdicts) == [Verdict.VALID, Verdict.WRONG_SIGNER]
