"""A salt that went through a number of JavaScript: what was signed is found, or it is refused."""

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
from tests.clients.drawn import ADDRESSES, COUNTS, POLYMARKET, accepted, build_jobs, data
from tests.signings import DOMAIN, KEYS, random_order


def salted(rng, *widths):
    """Draw an order whose salt has one of these widths."""
    width = rng.choice(widths)
    order = random_order(rng, ADDRESSES[KEYS[0]])
    return msgspec.structs.replace(order, salt=rng.getrandbits(width - 1) | 1 << (width - 1))


@COUNTS
def test_a_salt_that_was_signed_as_a_double_is_explained(ask, count):
    """A number of JavaScript is signed to the last digit, and posted in as few as tell it apart."""
    rng = random.Random(18)
    orders = [salted(rng, 54, 60, 64, 69) for _ in range(count)]
    jobs = [
        {"kind": "double", "key": KEYS[0], "text": json.dumps(typed_data(order, DOMAIN))}
        for order in orders
    ]
    rounded = 0
    for order, answer in zip(orders, ask("sign.mjs", jobs), strict=True):
        assert type(answer["salt"]) is int
        exact = int(float(order.salt))
        received = SignedOrder.from_json(order.to_json() | answer)
        if answer["salt"] == exact:
            accepted(received, DOMAIN)
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
def test_a_salt_that_clob_client_lost_on_the_way_is_never_taken_for_another(ask, count):
    """It signs the text of the salt, and posts it as a number of JavaScript."""
    drawn = [
        (
            key,
            order | {"salt": str(salted(random.Random(seed), 54, 64, 70, 71, 128, 256).salt)},
            how,
        )
        for seed, (key, order, how) in enumerate(data(19, count))
    ]
    posted = ask("sign.mjs", build_jobs("clob-client", "as shipped", drawn, kind="post"))
    seen = set()
    for job, (_, given, _) in zip(posted, drawn, strict=True):
        if type(job["salt"]) is float:
            # From 1e21 on JavaScript writes it with an exponent, which is no integer any more.
            with pytest.raises(InvalidFieldError) as caught:
                SignedOrder.from_json(job)
            assert caught.value.path == "salt"
            seen.add("refused")
            continue
        received = SignedOrder.from_json(job)
        if str(received.salt) == given["salt"]:
            accepted(received, POLYMARKET)
            continue
        with pytest.raises(InvalidSignatureError) as caught:
            verify(received, POLYMARKET)
        assert caught.value.verdict is Verdict.WRONG_SIGNER
        found = explain(received, POLYMARKET).found
        assert found == (int(given["salt"]) == int(float(received.salt)))
        seen.add("lost")
    assert seen == {"refused", "lost"}
