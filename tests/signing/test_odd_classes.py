"""Unusual subclasses of ``Signed``: the compiled backend equals its twin, or falls back to it.

The compiled backend reads the fields of an instance where they lie. A class may have more of them
than it takes, look at them as they are set, or name its signer otherwise.
"""

from typing import ClassVar

import msgspec
import pytest

from clob.errors import RejectedError
from clob.signing import Field, Schema, Signed, Verdict, fields, order_hash, sign, verify_batch
from clob.signing.schema import Written
from tests.signings import DOMAIN, KEYS, address_of

ALICE = address_of(KEYS[0])
MAKER = Field("maker", "address", "maker", fields.address, Written.AS_IT_IS)
NONCE = Field("nonce", "uint256", "nonce")


class Picky(Signed, frozen=True, kw_only=True):
    """Checks its values in ``__post_init__``."""

    SCHEMA: ClassVar[Schema] = Schema("Picky", (MAKER, NONCE))
    maker: str
    nonce: int

    def __post_init__(self):
        if not isinstance(self.nonce, int):
            raise TypeError(self.nonce)


class Loose(Signed, kw_only=True, frozen=False):
    """Is mutable, has an unsigned field, and has a default factory."""

    SCHEMA: ClassVar[Schema] = Schema(
        "Loose", (MAKER, Field("nonce", "uint256", "nonce", required=False))
    )
    maker: str
    nonce: int = 7
    notes: list = msgspec.field(default_factory=list)


class Renamed(Signed, frozen=True, kw_only=True, rename="upper"):
    """Renames its fields in msgspec encodings."""

    SCHEMA: ClassVar[Schema] = Schema("Renamed", (MAKER, NONCE))
    maker: str
    nonce: int


class NoAddress(Signed, frozen=True, kw_only=True):
    """Has a number as maker."""

    SCHEMA: ClassVar[Schema] = Schema("NoAddress", (NONCE,), owner="nonce")
    nonce: int


WIDE = [f"n{number}" for number in range(40)]
Wide = msgspec.defstruct(
    "Wide",
    [("maker", str), *[(name, int) for name in WIDE]],
    bases=(Signed,),
    namespace={"SCHEMA": Schema("Wide", (MAKER, *[Field(name, "uint256", name) for name in WIDE]))},
    frozen=True,
    kw_only=True,
)

BODIES = {
    Picky: {"maker": ALICE, "nonce": "5"},
    Loose: {"maker": ALICE},
    Renamed: {"maker": ALICE, "nonce": 2**255},
    Wide: {"maker": ALICE} | {name: str(number) for number, name in enumerate(WIDE)},
}


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_an_unusual_class_is_read_hashed_signed_and_verified(backend, kind):
    made = kind.from_json(BODIES[kind])
    values = [getattr(made, field.attribute) for field in kind.SCHEMA.fields]
    by_hand = kind.SCHEMA.type_hash + b"".join(map(kind.SCHEMA.word_of, kind.SCHEMA.fields, values))
    digest = backend.keccak256(b"\x19\x01" + DOMAIN.separator + backend.keccak256(by_hand))
    assert order_hash(made, DOMAIN) == digest
    signed = sign(made, DOMAIN, KEYS[0])
    forged = sign(made, DOMAIN, KEYS[1])
    verdicts = verify_batch([signed, forged], DOMAIN)
    assert list(verdicts) == [Verdict.VALID, Verdict.WRONG_SIGNER]
    assert kind.from_json(signed.to_json()) == signed


def test_a_default_factory_runs_for_each_instance(backend):
    one, other = Loose.from_json({"maker": ALICE}), Loose.from_json({"maker": ALICE})
    one.notes.append("mine")
    assert (one.nonce, other.notes) == (7, [])


def test_a_changed_field_of_a_mutable_class_is_hashed(backend):
    made = Loose(maker=ALICE)
    before = order_hash(made, DOMAIN)
    made.nonce = 8
    assert order_hash(made, DOMAIN) != before
    made.nonce = "8"
    with pytest.raises(RejectedError) as rejected:
        order_hash(made, DOMAIN)
    assert rejected.value.path == "nonce"


def test_a_signer_that_is_not_an_address_is_rejected(backend):
    made = NoAddress(nonce=int(ALICE, 16))
    assert list(verify_batch([made], DOMAIN)) == [Verdict.INVALID_FIELD]


def test_an_error_in_post_init_is_raised(backend):
    with pytest.raises(TypeError):
        Picky(maker=ALICE, nonce="5")
    with pytest.raises(RejectedError):
        Picky.from_json({"maker": ALICE, "nonce": "x"})
