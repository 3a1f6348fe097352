"""Request bodies of orders for the HTTP benchmarks, signed or gasless, all distinct."""

import json
from collections.abc import Iterator

import numpy as np
from coincurve import PrivateKey

from clob import Side, tokens
from clob.signing import Domain, SignedOrder, keccak256, order_hash

MARKET = "bench"
TOKENS = (
    71321045679252212594626385532706912750332728571942532289631379312455583992563,
    52114319501245915516055106046884209969926127482827954674443846427813813222426,
)
MAKERS = 200


def keys() -> list[tuple[str, PrivateKey]]:
    """Return the addresses and keys of the trading wallets."""
    wallets = []
    for number in range(1, MAKERS + 1):
        key = PrivateKey(number.to_bytes(32))
        wallets.append(
            (f"0x{keccak256(key.public_key.format(compressed=False)[1:])[12:].hex()}", key)
        )
    return wallets


def order_terms(count: int, seed: int) -> Iterator[tuple[int, Side, int, int]]:
    """Yield wallet number, side, price in cents and size in wei; about half trade at once."""
    rng = np.random.default_rng(seed)
    owners, sides = rng.integers(0, MAKERS, count), rng.integers(0, 2, count)
    prices, sizes = rng.integers(40, 53, count), rng.integers(1, 101, count)
    for owner, side, price, size in zip(owners, sides, prices, sizes, strict=True):
        yield int(owner), Side(int(side)), int(price + 8 * side), tokens(int(size))


def signed_bodies(count: int, domain: Domain, seed: int) -> list[str]:
    """Return the JSON bodies of ``count`` valid signed orders."""
    wallets, bodies = keys(), []
    for number, (owner, side, price, size) in enumerate(order_terms(count, seed)):
        maker, key = wallets[owner]
        order = SignedOrder.from_price_size(
            side=side, price=price, size=size, maker=maker, token_id=TOKENS[0],
            salt=f"{seed}-{number}",
        )  # fmt: skip
        raw = key.sign_recoverable(order_hash(order, domain), hasher=None)
        body = order.to_json() | {
            "signature": f"0x{raw[:64].hex()}{raw[64] + 27:02x}",
            "marketId": MARKET,
        }
        bodies.append(json.dumps(body, separators=(",", ":")))
    return bodies


def gasless_bodies(count: int, seed: int) -> list[str]:
    """Return the JSON bodies of ``count`` unsigned orders.

    They are spread over enough makers to keep each below its limit of resting orders.
    """
    return [
        json.dumps(
            {
                "maker": f"0x{owner * 10 + number % 10 + 1:040x}",
                "tokenId": str(TOKENS[0]),
                "side": int(side),
                "price": price,
                "size": str(size),
                "marketId": MARKET,
            },
            separators=(",", ":"),
        )
        for number, (owner, side, price, size) in enumerate(order_terms(count, seed))
    ]
