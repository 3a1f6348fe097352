"""Orders signed by JavaScript clients and wallets are valid and have the intended meaning."""

import json
import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import Side
from clob.signing import (
    SignedOrder,
    Verdict,
    explain,
    order_hash,
    sign,
    to_order,
    typed_data,
    verify,
    verify_batch,
)
from clob.signing.errors import InvalidSignatureError
from tests.clients.inputs import (
    ADDRESSES,
    AMOY,
    COUNTS,
    DOMAINS,
    POLYMARKET,
    assert_valid,
    build_jobs,
    builder_inputs,
    random_message,
    user_orders,
)
from tests.signings import DOMAIN, KEYS, random_order

BUILDERS = ("order-utils", "clob-client")
LIBRARIES = ("ethers", "viem")


@COUNTS
@pytest.mark.parametrize("domain_name", DOMAINS)
@pytest.mark.parametrize("client", BUILDERS)
def test_orders_of_javascript_builders_are_valid_and_keep_their_meaning(
    run_jobs, client, domain_name, count
):
    inputs = list(builder_inputs(11, count))
    answers = run_jobs("sign.mjs", build_jobs(client, domain_name, inputs))
    orders = [SignedOrder.from_json(answer) for answer in answers]
    for order, (_, drawn_order, (side, price, size)) in zip(orders, inputs, strict=True):
        assert_valid(order, DOMAINS[domain_name])
        made = to_order(order, id="a", settles=True)
        assert (made.side, made.price, made.size) == (side, price, size)
        assert (made.maker, made.token) == (drawn_order["maker"], drawn_order["tokenId"])
        assert str(order.salt) == drawn_order["salt"]
    assert verify_batch(orders, DOMAINS[domain_name]) == bytes(count)
    other = DOMAIN if DOMAINS[domain_name] is POLYMARKET else POLYMARKET
    assert set(verify_batch(orders, other)) == {Verdict.WRONG_SIGNER}
    assert {order.signature_type for order in orders} == {0, 1}


@COUNTS
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_json_posted_by_clob_client_is_valid(run_jobs, domain_name, count):
    inputs = list(builder_inputs(12, count, salt_bits=53))
    posted = run_jobs("sign.mjs", build_jobs("clob-client", domain_name, inputs, kind="post"))
    for job, (_, drawn_order, _) in zip(posted, inputs, strict=True):
        assert type(job["salt"]) is int
        assert job["side"] == Side(drawn_order["side"]).name
        order = SignedOrder.from_json(job)
        assert_valid(order, DOMAINS[domain_name])
        assert SignedOrder.from_json(order.to_json()) == order


@COUNTS
@pytest.mark.parametrize("kind", ["limit", "market"])
@pytest.mark.parametrize("shipped", [True, False])
def test_orders_of_clob_client_are_valid_and_keep_their_meaning(run_jobs, kind, shipped, count):
    rng = random.Random(13)
    inputs = list(user_orders(13, count, kind))
    jobs = [
        {
            "kind": kind,
            "domain": DOMAIN.to_json(),
            "shipped": shipped,
            "key": rng.choice(KEYS),
            "signatureType": rng.randrange(2),
            "tick": "0.01",
            "chance": rng.random(),
            "order": {
                "tokenID": str(rng.getrandbits(256)),
                "price": price,
                "size": size,
                "amount": size,
                "side": side.name,
            },
        }
        for side, size, price, _ in inputs
    ]
    answers = run_jobs("sign.mjs", jobs)
    for answer, job, (side, size, _, cents) in zip(answers, jobs, inputs, strict=True):
        order = SignedOrder.from_json(answer)
        assert_valid(order, AMOY if shipped else DOMAIN)
        made = to_order(order, id="a", settles=True)
        assert (made.side, made.price, made.maker) == (side, cents, ADDRESSES[job["key"]])
        if kind == "market" and side is Side.BUY:
            assert order.maker_amount == round(size * 10**6)
        else:
            assert made.size == round(size * 10**6)


@COUNTS
@pytest.mark.parametrize("by", LIBRARIES)
def test_wallet_signatures_of_typed_data_are_valid(run_jobs, by, count):
    """The typed data is serialised as JSON, as for a wallet in a browser."""
    rng = random.Random(14)
    keys = [rng.choice(KEYS) for _ in range(count)]
    messages = [random_message(rng, ADDRESSES[key]) for key in keys]
    signatures = run_jobs(
        "sign.mjs",
        [
            {"kind": "typed", "by": by, "key": key, "text": json.dumps(typed_data(message, DOMAIN))}
            for key, message in zip(keys, messages, strict=True)
        ],
    )
    for key, message, signature in zip(keys, messages, signatures, strict=True):
        whole = type(message).from_json(message.to_json() | {"signature": signature})
        assert_valid(whole, DOMAIN)
        assert signature == sign(message, DOMAIN, key, profile="ctf").signature


@COUNTS
@pytest.mark.parametrize("by", LIBRARIES)
def test_personal_sign_of_the_order_hash_is_valid_for_type_0_only(run_jobs, by, count):
    rng = random.Random(15)
    keys = [rng.choice(KEYS) for _ in range(count)]
    orders = [random_order(rng, ADDRESSES[key]) for key in keys]
    hashes = [f"0x{order_hash(order, DOMAIN).hex()}" for order in orders]
    signatures = run_jobs(
        "sign.mjs",
        [
            {"kind": "personal", "by": by, "key": key, "digest": digest}
            for key, digest in zip(keys, hashes, strict=True)
        ],
    )
    seen = set()
    for order, signature in zip(orders, signatures, strict=True):
        signed = SignedOrder.from_json(order.to_json() | {"signature": signature})
        seen.add(signed.signature_type)
        if signed.signature_type == 0:
            verify(signed, DOMAIN)
        else:
            with pytest.raises(InvalidSignatureError) as caught:
                verify(signed, DOMAIN)
            assert caught.value.verdict is Verdict.WRONG_SIGNER
        assert "personal_sign of its hash" in explain(signed, DOMAIN).text
    assert seen == {0, 1}
