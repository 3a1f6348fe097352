"""Writes clob/testing/vectors.json by eth-account and fractions, without code of the package.

python tests/testing/make_vectors.py > clob/testing/vectors.json
"""

import json
import sys
from fractions import Fraction

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

ONE = 10**18
KEYS = {name: f"0x{number:064x}" for name, number in {"alice": 0xA11CE, "bob": 0xB0B}.items()}
LOCAL = {
    "name": "clob",
    "version": "1",
    "chainId": 31337,
    "verifyingContract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
}
WITHOUT_CONTRACT = {"name": "Börse", "version": "2", "chainId": 137}
ZERO = "0x" + "0" * 40
FIELDS = [
    ("salt", "uint256"), ("maker", "address"), ("signer", "address"), ("taker", "address"),
    ("tokenId", "uint256"), ("makerAmount", "uint256"), ("takerAmount", "uint256"),
    ("expiration", "uint256"), ("nonce", "uint256"), ("feeRateBps", "uint256"),
    ("side", "uint8"), ("signatureType", "uint8"),
]  # fmt: skip
NUMBERS = ("expiration", "feeRateBps", "side", "signatureType")
"""Fields that are JSON numbers; the others are strings."""

ORDERS = {
    "buy 60 at 50, EIP-712": ("alice", LOCAL, {"makerAmount": 30 * ONE, "takerAmount": 60 * ONE}),
    "sell 100 at 50, EIP-712": (
        "bob", LOCAL, {"side": 1, "makerAmount": 100 * ONE, "takerAmount": 50 * ONE, "salt": 7},
    ),
    "buy 60 at 50, personal_sign": (
        "alice", LOCAL, {"makerAmount": 30 * ONE, "takerAmount": 60 * ONE, "signatureType": 0},
    ),
    "every field at its maximum": (
        "bob", LOCAL,
        {
            "salt": 2**256 - 1, "tokenId": 2**256 - 1, "nonce": 2**256 - 1, "side": 1,
            "makerAmount": 2**96 - 1, "takerAmount": (2**96 - 1) * 99 // 100,
            "expiration": 10**11 - 1, "feeRateBps": 1_000,
        },
    ),
    "token id of 78 digits": (
        "alice", LOCAL, {"tokenId": 10**77 + 1, "makerAmount": ONE, "takerAmount": 100 * ONE},
    ),
    "domain without a contract": (
        "alice", WITHOUT_CONTRACT, {"makerAmount": 99 * ONE, "takerAmount": 100 * ONE},
    ),
}  # fmt: skip
AMOUNTS = [
    (0, 30 * ONE, 60 * ONE), (1, 60 * ONE, 30 * ONE), (0, 330, 1001), (1, 1001, 330),
    (0, 20399999999999999488, 60 * ONE), (1, 60 * ONE, 20400000000000001024),
    (0, 289_000, 10**6), (1, 10**6, 289_000), (0, ONE, ONE), (1, ONE, ONE),
    (0, 99 * ONE, 100 * ONE), (0, ONE, 100 * ONE), (1, 100 * ONE, ONE), (1, 100 * ONE, 99 * ONE),
    (0, 9 * ONE, 1_000 * ONE), (0, 99_400_000, 10**8), (1, 10**8, 99_400_000), (0, 1, 1),
    (0, 333_333_333_333_333_333, ONE), (1, ONE, 333_333_333_333_333_334),
]  # fmt: skip


def price_of(side, maker_amount, taker_amount, *, settles):
    """Return the price in cents of two amounts (decision 3), or None outside 1 to 99."""
    collateral, tokens = (maker_amount, taker_amount)[:: -1 if side else 1]
    exact = Fraction(100 * collateral, tokens)
    nearest = (2 * exact + 1).__floor__() // 2
    off_wei = abs(exact - nearest) * tokens / 100
    near = off_wei < 1 or (not settles and abs(exact - nearest) * 10**9 <= nearest)
    price = nearest if near else exact.__ceil__() if side else exact.__floor__()
    return price if 1 <= price <= 99 else None


def order_vector(name, signer, domain, changes):
    """Return a signed order."""
    account = Account.from_key(KEYS[signer])
    message = {
        "salt": 1, "maker": account.address, "signer": account.address, "taker": ZERO,
        "tokenId": 101, "makerAmount": 0, "takerAmount": 0, "expiration": 0, "nonce": 0,
        "feeRateBps": 0, "side": 0, "signatureType": 1, **changes,
    }  # fmt: skip
    types = {"Order": [{"name": field, "type": kind} for field, kind in FIELDS]}
    typed = encode_typed_data(domain, types, message)
    digest = Account.sign_message(typed, KEYS[signer]).message_hash
    signable = typed if message["signatureType"] else encode_defunct(digest)
    signature = Account.sign_message(signable, KEYS[signer]).signature
    body = {
        field: value if isinstance(value, str) or field in NUMBERS else str(value)
        for field, value in message.items()
    }
    return {
        "name": name,
        "domain": domain,
        "key": KEYS[signer],
        "body": body | {"signature": "0x" + bytes(signature).hex()},
        "orderHash": "0x" + bytes(digest).hex(),
    }


def signature_vectors(order):
    """Return changes of a signed order after which its signature is invalid."""
    curve = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    r, s, v = (
        order["body"]["signature"][begin:end] for begin, end in ((2, 66), (66, 130), (130, 132))
    )
    high = f"{curve - int(s, 16):064x}"
    bad = {
        "amount changed after signing": {"takerAmount": str(61 * ONE)},
        "side changed after signing": {"side": 1},
        "no signature": {"signature": "0x" + "0" * 130},
        "64 bytes": {"signature": "0x" + r + s},
        "without 0x": {"signature": r + s + v},
        "v of 29": {"signature": "0x" + r + s + "1d"},
        "high s": {"signature": "0x" + r + high + ("1c" if v == "1b" else "1b")},
        "r above the curve": {"signature": "0x" + "f" * 64 + s + v},
    }
    return [{"name": name, "order": order["name"], "changes": each} for name, each in bad.items()]


def vectors():
    """Return all vectors."""
    orders = [order_vector(name, *parts) for name, parts in ORDERS.items()]
    prices = [
        {
            "side": side,
            "makerAmount": str(maker_amount),
            "takerAmount": str(taker_amount),
            "price": price_of(side, maker_amount, taker_amount, settles=False),
            "settledPrice": price_of(side, maker_amount, taker_amount, settles=True),
        }
        for side, maker_amount, taker_amount in AMOUNTS
    ]
    return {"orders": orders, "signatures": signature_vectors(orders[0]), "prices": prices}


if __name__ == "__main__":
    json.dump(vectors(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
