"""Golden vectors: they are those of the script, and this package agrees with each."""

import json
from importlib import resources

import pytest

from clob.errors import PriceOutOfRangeError
from clob.signing import (
    InvalidSignatureError,
    SignedOrder,
    order_hash,
    price_and_size,
    sign,
    verify,
)
from clob.testing import load_vectors
from tests.testing.make_vectors import vectors

GOLDEN = load_vectors()


def test_file_is_the_output_of_the_script():
    text = resources.files("clob.testing").joinpath("vectors.json").read_text()
    assert json.loads(text) == vectors()


@pytest.mark.parametrize("vector", GOLDEN.orders, ids=lambda vector: vector.name)
def test_signed_order(vector):
    order, domain = vector.signed_order(), vector.signing_domain()
    assert f"0x{order_hash(order, domain).hex()}" == vector.order_hash
    verify(order, domain)
    assert sign(order, domain, vector.key).signature == vector.body["signature"]


@pytest.mark.parametrize("vector", GOLDEN.signatures, ids=lambda vector: vector.name)
def test_invalid_signature(vector):
    (signed,) = [each for each in GOLDEN.orders if each.name == vector.order]
    with pytest.raises(InvalidSignatureError):
        verify(SignedOrder.from_json(signed.body | vector.changes), signed.signing_domain())


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("vector", GOLDEN.prices, ids=lambda each: each.maker_amount)
def test_price_of_amounts(vector, settles):
    amounts = vector.side, int(vector.maker_amount), int(vector.taker_amount)
    expected = vector.settled_price if settles else vector.price
    if expected is None:
        with pytest.raises(PriceOutOfRangeError):
            price_and_size(*amounts, settles=settles)
    else:
        assert price_and_size(*amounts, settles=settles).price == expected


def test_vectors_have_both_ways_to_sign_and_both_outcomes_of_prices():
    assert {each.body["signatureType"] for each in GOLDEN.orders} == {0, 1}
    assert {each.price is None for each in GOLDEN.prices} == {False, True}
    assert any(each.price != each.settled_price for each in GOLDEN.prices)
