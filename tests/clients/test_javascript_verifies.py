"""JavaScript libraries accept signatures made here, and no altered ones."""

import random  # noqa: TID251 - seeded, and outside the engine
import re

import pytest

from clob.signing import (
    SignedOrder,
    order_hash,
    sign,
    typed_data,
)
from tests.clients.inputs import ADDRESSES, COUNTS, DOMAINS, build_jobs, random_message
from tests.signings import DOMAIN, KEYS, random_order

BUILDERS = ("order-utils", "clob-client")


def check_job(message):
    return {
        "typed": typed_data(message, DOMAIN),
        "personal": isinstance(message, SignedOrder) and message.signature_type == 0,
        "signature": message.signature,
        "address": message.maker,
    }


def altered_job(rng, message):
    """Return the job that checks an altered message or signature."""
    good = check_job(message)
    others = [key for key in KEYS if ADDRESSES[key] != message.maker]
    typed = good["typed"]
    changes = [
        {"signature": flip_bit(rng, message.signature)},
        {"address": ADDRESSES[rng.choice(others)]},
        {"typed": typed | {"domain": typed["domain"] | {"chainId": 31338}}},
        {"typed": typed | {"domain": typed["domain"] | {"name": "Clob"}}},
        {"personal": not good["personal"]},
    ]
    numbers = [name for name, value in typed["message"].items() if re.fullmatch(r"\d+", str(value))]
    for name in numbers:
        value = typed["message"][name]
        other = type(value)(int(value) ^ 1)
        changes.append({"typed": typed | {"message": typed["message"] | {name: other}}})
    return good | rng.choice(changes)


def flip_bit(rng, signature):
    """Change one bit of r or s."""
    number = int(signature, 16) ^ 1 << rng.randrange(8, 520)
    return f"0x{number:0130x}"


@COUNTS
def test_ethers_and_viem_accept_our_signatures_and_no_altered_ones(run_jobs, count):
    rng = random.Random(16)
    keys = [rng.choice(KEYS) for _ in range(count)]
    messages = [random_message(rng, ADDRESSES[key]) for key in keys]
    signed = [sign(message, DOMAIN, key) for key, message in zip(keys, messages, strict=True)]
    good = [check_job(each) for each in signed]
    bad = [altered_job(rng, each) for each in signed]
    answers = run_jobs("check.mjs", [*good, *bad])
    for message, answer in zip(signed, answers[:count], strict=True):
        digest = f"0x{order_hash(message, DOMAIN).hex()}"
        assert answer == {"ethersHash": digest, "viemHash": digest, "ethers": True, "viem": True}
    for job, answer in zip(bad, answers[count:], strict=True):
        assert (answer["ethers"], answer["viem"]) == (False, False), job


@COUNTS
@pytest.mark.parametrize("domain_name", DOMAINS)
@pytest.mark.parametrize("client", BUILDERS)
def test_builders_compute_the_same_hash_and_signature(run_jobs, client, domain_name, count):
    rng, domain = random.Random(17), DOMAINS[domain_name]
    keys = [rng.choice(KEYS) for _ in range(count)]
    orders = [sign(random_order(rng, ADDRESSES[key]), domain, key, profile="ctf") for key in keys]
    client_orders = [
        (key, typed_data(order, domain)["message"], None)
        for key, order in zip(keys, orders, strict=True)
    ]
    answers = run_jobs("sign.mjs", build_jobs(client, domain_name, client_orders, kind="hash"))
    for order, answer in zip(orders, answers, strict=True):
        assert answer["hash"] == f"0x{order_hash(order, domain).hex()}"
        assert answer["signature"] == order.signature
