"""Salts rounded to a JavaScript number: the signed salt is recovered, or the order rejected."""

import json
import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest

from clob.signing import (
    SignedOrder,
    Verdict,
    explain,
    order_hash,
    typed_data,
    verify,
)
from clob.signing.errors import InvalidFieldError, InvalidSignatureError
from tests.clients.inputs import (
    ADDRESSES,
    COUNTS,
    POLYMARKET,
    assert_valid,
    build_jobs,
    builder_inputs,
)
from tests.signings import DOMAIN, KEYS, random_order


def order_with_salt(rng, *widths):
    """Draw an order whose salt has one of these widths."""
    width = rng.choice(widths)
    order = random_order(rng, ADDRESSES[KEYS[0]])
    return msgspec.structs.replace(order, salt=rng.getrandbits(width - 1) | 1 << (width - 1))


@COUNTS
def test_salt_signed_as_a_double_is_explained(run_jobs, count):
    """JavaScript signs all digits of a number, and posts the shortest text that identifies it."""
    rng = random.Random(18)
    orders = [order_with_salt(rng, 54, 60, 64, 69) for _ in range(count)]
    jobs = [
        {"kind": "double", "key": KEYS[0], "text": json.dumps(typed_data(order, DOMAIN))}
        for order in orders
    ]
    rounded = 0
    for order, answer in zip(orders, run_jobs("sign.mjs", jobs), strict=True):
        assert type(answer["salt"]) is int
        exact = int(float(order.salt))
        received = SignedOrder.from_json(order.to_json() | answer)
        if answer["salt"] == exact:
            assert_valid(received, DOMAIN)
            continue
        rounded += 1
        with pytest.raises(InvalidSignatureError):
            verify(received, DOMAIN)
        explanation = explain(received, DOMAIN)
        assert explanation.found
        assert f"with salt {exact}" in explanation.text
        assert explanation.digest == order_hash(msgspec.structs.replace(order, salt=exact), DOMAIN)
    assert rounded > count // 2


@COUNTS
def test_salt_that_clob_client_rounds_when_posting_is_rejected(run_jobs, count):
    """clob-client signs the salt as text and posts it as a JavaScript number."""
    inputs = [
        (
            key,
            order
            | {"salt": str(order_with_salt(random.Random(seed), 54, 64, 70, 71, 128, 256).salt)},
            meaning,
        )
        for seed, (key, order, meaning) in enumerate(builder_inputs(19, count))
    ]
    posted = run_jobs("sign.mjs", build_jobs("clob-client", "as shipped", inputs, kind="post"))
    seen = set()
    for job, (_, drawn_order, _) in zip(posted, inputs, strict=True):
        if type(job["salt"]) is float:
            # From 1e21 on, JavaScript writes an exponent, which is not a JSON integer.
            with pytest.raises(InvalidFieldError) as caught:
                SignedOrder.from_json(job)
            assert caught.value.path == "salt"
            seen.add("rejected")
            continue
        received = SignedOrder.from_json(job)
        if str(received.salt) == drawn_order["salt"]:
            assert_valid(received, POLYMARKET)
            continue
        with pytest.raises(InvalidSignatureError) as caught:
            verify(received, POLYMARKET)
        assert caught.value.verdict is Verdict.WRONG_SIGNER
        explained = explain(received, POLYMARKET).found
        assert explained == (int(drawn_order["salt"]) == int(float(received.salt)))
        seen.add("lost")
    assert seen == {"rejected", "lost"}
