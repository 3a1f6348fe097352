"""Structs declared in the test, which the verifier supports unchanged; domains and keys."""

import json
import random  # noqa: TID251 - seeded, and outside the engine
from typing import ClassVar

import msgspec
import pytest
from eth_account.messages import encode_typed_data

from clob.signing import (
    Domain,
    Field,
    InvalidDomainError,
    InvalidFieldError,
    InvalidKeyError,
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
    CURVE,
    domain_of,
    eth_account_digest,
    outcome,
    replace,
    signed,
)
from tests.signings import DOMAIN, KEYS, vectors

TOP = 2**256 - 1
AS_IT_IS, HEX, NUMBER = Written.AS_IT_IS, Written.HEX, Written.NUMBER


# ----- nested structs ------------------------------------------------------------------------

PERSON = Schema(
    "Person",
    (
        Field("name", "string", "name", fields.text, AS_IT_IS),
        Field("wallet", "address", "wallet", fields.address, AS_IT_IS),
    ),
)


class Person(msgspec.Struct, frozen=True):
    """The struct Person of the example of EIP-712."""

    name: str
    wallet: str


def person(path, value):
    return Person(
        fields.text(f"{path}.name", value["name"]),
        fields.address(f"{path}.wallet", value["wallet"]),
    )


class Mail(Signed, frozen=True, kw_only=True):
    """The struct Mail of the example of EIP-712, with two nested structs."""

    SCHEMA: ClassVar[Schema] = Schema(
        "Mail",
        (
            Field("from", "Person", "sender", person),
            Field("to", "Person", "to", person),
            Field("contents", "string", "contents", fields.text, AS_IT_IS),
        ),
        (PERSON,),
    )
    sender: Person
    to: Person
    contents: str

    @property
    def maker(self):
        """The sender signs the mail."""
        return self.sender.wallet


def mail():
    """Return the vector, its domain and its mail."""
    (entry,) = [each for each in vectors("typed") if each["primaryType"] == "Mail"]
    message = entry["message"]
    made = Mail.from_json(message | {"signature": entry["signature"]})
    return entry, domain_of(entry["domain"]), made


def test_the_type_string_ends_with_nested_types():
    nested = "Mail(Person from,Person to,string contents)Person(string name,address wallet)"
    assert Mail.SCHEMA.type_string == nested
    b, a = (Schema(name, (Field("x", "bool", "x"),)) for name in "BA")
    outer = Schema("C", (Field("b", "B", "b"), Field("a", "A", "a")), (b, a))
    assert Schema("D", (Field("c", "C", "c"),), (outer,)).type_string == (
        "D(C c)A(bool x)B(bool x)C(B b,A a)"
    )


def test_the_example_of_eip_712(backend):
    entry, domain, made = mail()
    assert domain.separator.hex() == entry["domainSeparator"][2:]
    assert secp.hash_struct(made).hex() == entry["structHash"][2:]
    assert order_hash(made, domain).hex() == entry["digest"][2:] == entry["published"]["digest"][2:]
    assert recover_signer(made, domain) == entry["signer_recovered"]
    assert sign(made, domain, entry["key"]).signature == entry["published"]["signature"]
    verify(made, domain)
    assert verify_batch([made, signed(), made], domain) == bytes([0, Verdict.WRONG_SIGNER, 0])


def test_a_change_in_a_nested_struct_invalidates_the_signature(backend):
    _, domain, made = mail()
    for changed in (
        replace(made, to=replace(made.to, name="bob")),
        replace(made, sender=replace(made.sender, wallet=BOB)),
        replace(made, sender=made.to, to=made.sender),
        replace(made, contents=""),
    ):
        assert verify_batch([changed], domain) == bytes([Verdict.WRONG_SIGNER])
    for unfit in (None, 5, replace(made.to, wallet="0x"), replace(made.to, name=None)):
        broken = replace(made, to=unfit)
        with pytest.raises(InvalidFieldError):
            verify(broken, domain)
        assert verify_batch([broken], domain) == bytes([Verdict.INVALID_FIELD])


def test_typed_data_contains_nested_structs(backend):
    entry, domain, made = mail()
    typed = json.loads(json.dumps(typed_data(made, domain)))
    assert typed["message"] == entry["message"]
    assert typed["types"] == entry["types"]
    assert eth_account_digest(typed).hex() == entry["digest"][2:]
    assert made.to_json() == entry["message"] | {"signature": entry["signature"]}
    assert Mail.from_json(made.to_json()) == made


# ----- a domain without a contract -----------------------------------------------------------


class ClobAuth(Signed, frozen=True, kw_only=True, gc=False):
    """The message that Polymarket's clients sign to get an API key."""

    SCHEMA: ClassVar[Schema] = Schema(
        "ClobAuth",
        (
            Field("address", "address", "maker", fields.address, AS_IT_IS),
            Field("timestamp", "string", "timestamp", fields.text, AS_IT_IS),
            Field("nonce", "uint256", "nonce", written=NUMBER),
            Field("message", "string", "message", fields.text, AS_IT_IS),
        ),
    )
    maker: str
    timestamp: str
    nonce: int
    message: str


def test_a_domain_without_a_contract(backend):
    (entry,) = [each for each in vectors("typed") if each["primaryType"] == "ClobAuth"]
    domain = domain_of(entry["domain"])
    made = ClobAuth.from_json(entry["message"] | {"signature": entry["signature"]})
    assert domain.separator.hex() == entry["domainSeparator"][2:]
    assert secp.hash_struct(made).hex() == entry["structHash"][2:]
    assert order_hash(made, domain).hex() == entry["digest"][2:]
    typed = typed_data(made, domain)
    assert typed["types"] == entry["types"]
    assert eth_account_digest(typed).hex() == entry["digest"][2:]
    assert recover_signer(made, domain) == entry["signer_recovered"]
    assert sign(made, domain, entry["key"]).signature == entry["published"]["signature"]
    assert made.to_json() == entry["message"] | {"signature": entry["signature"]}
    verify(made, domain)
    with_contract = Domain(domain.name, domain.version, domain.chain_id, f"0x{0:040x}")
    assert verify_batch([made], with_contract) == bytes([Verdict.WRONG_SIGNER])


# ----- every type ----------------------------------------------------------------------------


class Everything(Signed, frozen=True, kw_only=True, gc=False):
    """A field of each supported type."""

    SCHEMA: ClassVar[Schema] = Schema(
        "Everything",
        (
            Field("maker", "address", "maker", fields.address, AS_IT_IS),
            Field("large", "uint256", "large"),
            Field("small", "uint8", "small", fields.uint8, NUMBER),
            Field("flag", "bool", "flag", fields.flag, AS_IT_IS),
            Field("word", "bytes32", "word", fields.word, HEX),
            Field("text", "string", "text", fields.text, AS_IT_IS),
            Field("blob", "bytes", "blob", written=HEX),
        ),
    )
    maker: str
    large: int
    small: int
    flag: bool
    word: bytes
    text: str
    blob: bytes


def test_hashes_of_every_type_match_eth_account(backend):
    rng = random.Random(8)
    for length in (0, 1, 31, 32, 33, 135, 136, 137, 1000):
        made = Everything(
            maker=ALICE, large=rng.getrandbits(256), small=rng.getrandbits(8), text="é" * length,
            flag=rng.random() < 0.5, word=rng.randbytes(32), blob=rng.randbytes(length),
        )  # fmt: skip
        typed = json.loads(json.dumps(typed_data(made, DOMAIN)))
        assert order_hash(made, DOMAIN) == eth_account_digest(typed), length
        verify(sign(made, DOMAIN, KEYS[0]), DOMAIN)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("large", [-1, TOP + 1, 1.0, True, None]), ("small", [-1, 256, 1.0, True, None, "5"]),
        ("flag", [0, 1, None, "true", 1.0]), ("text", [None, 5, b"x", "\ud800", []]),
        ("word", [None, "", b"", b"x" * 31]), ("blob", [None, 0, "", "ab", False, [], 1.5]),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_a_type_are_not_hashed(backend, name, values):
    good = Everything(maker=ALICE, large=1, small=1, flag=True, word=bytes(32), text="", blob=b"")
    for value in values:
        broken = replace(good, **{name: value})
        result = outcome(order_hash, broken, DOMAIN)
        assert result[:3] == (InvalidFieldError, "INVALID_FIELD", name), value
        assert verify_batch([broken], DOMAIN) == bytes([Verdict.INVALID_FIELD])
        if name in ("large", "small"):
            assert outcome(typed_data, broken, DOMAIN)[:3] == result[:3], value


@pytest.mark.parametrize("kind", ["uint", "uint128", "int256", "Person", "address[]", "", "bytes4"])
def test_an_unknown_type_is_rejected_by_the_schema(kind):
    with pytest.raises(InvalidDomainError, match="must be a Solidity type or nested struct"):
        Schema("Order", (Field("x", kind, "x"),))


# ----- domains and keys ----------------------------------------------------------------------


def test_separators_of_random_domains_match_eth_account(backend):
    rng = random.Random(9)
    for _ in range(100):
        contract = rng.choice((None, f"0x{rng.getrandbits(160):040x}"))
        name = "".join(
            chr(rng.choice((65, 233, 0x20AC, 0x1F600))) for _ in range(rng.randrange(40))
        )
        chain = rng.getrandbits(rng.choice((1, 32, 53, 64, 256)))
        domain = Domain(name, str(rng.randrange(9)), chain, contract)
        typed = typed_data(signed(), domain)
        assert bytes(encode_typed_data(full_message=typed).header) == domain.separator
        assert order_hash(signed(), domain) == eth_account_digest(typed)
        assert Domain(name, domain.version, chain, contract and contract.lower()) == domain


NO_DOMAINS = (
    (5, "1", 1, None), (None, "1", 1, None), (b"clob", "1", 1, None), ("\ud800", "1", 1, None),
    ("clob", 1, 1, None), ("clob", None, 1, None), ("clob", "\udfff", 1, None),
    ("clob", "1", "1", None), ("clob", "1", True, None), ("clob", "1", 1.0, None),
    ("clob", "1", -1, None), ("clob", "1", TOP + 1, None), ("clob", "1", 10**5000, None),
    ("clob", "1", 1, ""), ("clob", "1", 1, "0x"), ("clob", "1", 1, BOB[2:]), ("clob", "1", 1, 5),
    ("clob", "1", 1, BOB + "\n"), ("clob", "1", 1, f"0x{BOB[2:].swapcase()}"),
)  # fmt: skip


@pytest.mark.parametrize("parts", NO_DOMAINS, ids=range(len(NO_DOMAINS)))
def test_an_invalid_domain_is_rejected(parts):
    with pytest.raises(InvalidDomainError) as caught:
        Domain(*parts)
    assert caught.value.code == "INVALID_DOMAIN"
    assert len(str(caught.value)) < 300


CURVE_KEYS = (f"{CURVE:064x}", f"{CURVE + 1:064x}", "0" * 64, "f" * 64)
NO_KEYS = (
    "",
    "0x",
    "5ecret",
    "1" * 63,
    "1" * 65,
    "g" * 64,
    bytes(31),
    bytes(33),
    None,
    5,
    *CURVE_KEYS,
)


@pytest.mark.parametrize("key", NO_KEYS, ids=range(len(NO_KEYS)))
def test_an_invalid_key_is_rejected_and_not_shown(backend, key):
    with pytest.raises(InvalidKeyError) as caught:
        sign(signed(), DOMAIN, key)
    messages = f"{caught.value} {caught.value.__cause__}"
    assert not (type(key) is str and len(key) > 2 and key in messages)
    # Nor is it in what a traceback would show of the error before.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_key_may_be_bytes_or_digits_with_or_without_0x(backend):
    raw = bytes.fromhex(KEYS[0][2:])
    assert sign(signed(), DOMAIN, raw) == sign(signed(), DOMAIN, raw.hex()) == signed()
