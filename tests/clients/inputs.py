"""Random orders in the input format of clients, and jobs for the JavaScript programs."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import Side
from clob.signing import Domain, SignedCancel, SignedSetDelegate, SignedSetNonce, verify
from tests.signings import DOMAIN, EXCHANGE, KEYS, address_of, random_order

POLYMARKET = Domain("Polymarket CTF Exchange", "1", 31337, EXCHANGE)
"""Domain of unmodified clients, configured with our chain and contract."""

AMOY = Domain("Polymarket CTF Exchange", "1", 80002, EXCHANGE)
"""Domain of unmodified clients that support only two chains."""

DOMAINS = {"as shipped": POLYMARKET, "with our name": DOMAIN}
"""Domains under which a client signs for our exchange."""

ADDRESSES = {key: address_of(key) for key in KEYS}

COUNTS = pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.long)])
"""Numbers of orders sent to node."""


def builder_inputs(seed, count, *, salt_bits=256):
    """Draw inputs of order builders: key, order fields as strings, and (side, price, size)."""
    rng = random.Random(seed)

    def wide(bits=256):
        return str(rng.getrandbits(rng.choice((1, 31, 53, 64, 128, bits))))

    for _ in range(count):
        key = rng.choice(KEYS)
        side = Side(rng.randrange(2))
        price, size = rng.randrange(1, 100), rng.randrange(1, 10**9) * 10**12
        amounts = (price * size // 100, size)[:: 1 if side is Side.BUY else -1]
        order = {
            "salt": str(rng.getrandbits(rng.choice((1, 31, 53, salt_bits)))),
            "maker": ADDRESSES[key],
            "signer": ADDRESSES[key],
            "taker": f"0x{0:040x}",
            "tokenId": wide(),
            "makerAmount": str(amounts[0]),
            "takerAmount": str(amounts[1]),
            "expiration": wide(32),
            "nonce": wide(),
            "feeRateBps": str(rng.choice((0, 1, 100, 1000))),
            "side": int(side),
            "signatureType": rng.randrange(2),
        }
        yield key, order, (side, price, size)


def user_orders(seed, count, kind, tick="0.01"):
    """Draw inputs of clients: side, size and price as floats, and the intended price in cents.

    The size of a market buy is in dollars, others are in tokens. A market buy is at least one
    dollar, since the client's rounding changes the price of smaller ones.
    """
    rng = random.Random(seed)
    step = {"0.1": 10}.get(tick, 1)
    for _ in range(count):
        side = Side(rng.randrange(2))
        least = 100 if kind == "market" and side is Side.BUY else 1
        size = rng.randrange(least, 10 ** rng.randrange(3, 9)) / 100
        cents = rng.randrange(step, 100, step)
        yield side, size, cents / 100, cents


def random_message(rng, maker):
    """Draw an unsigned order or message."""
    match rng.randrange(6):
        case 0:
            return SignedCancel(
                order_id=rng.choice(("ord_1_abc", "", "é" * 40, f"0x{rng.getrandbits(256):064x}")),
                maker=maker,
                timestamp_ms=rng.getrandbits(rng.choice((8, 41, 256))),
            )
        case 1:
            return SignedSetNonce(maker=maker, nonce=rng.getrandbits(rng.choice((8, 64, 256))))
        case 2:
            return SignedSetDelegate(
                maker=maker,
                delegate=ADDRESSES[rng.choice(KEYS)],
                allowed=rng.random() < 0.5,
                nonce=rng.getrandbits(rng.choice((8, 64, 256))),
            )
        case _:
            return random_order(rng, maker)


def assert_valid(order, domain):
    """Verify an order under both profiles; in the second, type 1 means a proxy wallet."""
    verify(order, domain)
    verify(order, domain, profile="ctf", proxies=lambda maker, signer, _: maker == signer)


def build_jobs(client, domain_name, inputs, kind="build"):
    """Return the jobs that build the orders of :func:`builder_inputs` in JavaScript."""
    domain = DOMAINS[domain_name]
    job = {"kind": kind, "client": client, "domain": domain.to_json()}
    job["shipped"] = domain is POLYMARKET
    return [job | {"key": key, "order": order} for key, order, _ in inputs]
