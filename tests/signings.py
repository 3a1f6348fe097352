"""What tests of signatures share: both backends, the vectors, wallets, and orders at random."""

import importlib
import importlib.util
import json
import os
import random  # noqa: TID251 - seeded, and outside the engine
from pathlib import Path

import pytest

from clob.signing import Domain, SignedOrder, secp

BACKENDS = ("python", "compiled")
"""The backends, by the name the tests call them."""

KEYS = tuple(f"0x{number:064x}" for number in (0xA11CE, 0xB0B, 0xCA401, 0xDA7E))
"""Private keys that anybody may know."""

EXCHANGE = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
DOMAIN = Domain("clob", "1", 31337, EXCHANGE)
"""The domain of the tests: that of the decisions."""


def load(name):
    """Give the module of one backend; skip the test where it is not built."""
    ending = {"python": "py", "compiled": "c"}[name]
    if importlib.util.find_spec(f"clob.signing._secp_{ending}") is None:
        pytest.skip(f"the {name} backend of clob.signing is not built")
    return importlib.import_module(f"clob.signing._secp_{ending}")


def use(monkeypatch, name):
    """Have ``clob.signing`` work through one backend; give its module."""
    backend = load(name)
    for each in set(secp.__all__) - {"BACKEND"}:
        monkeypatch.setattr(secp, each, getattr(backend, each))
    return backend


def vectors(group):
    """Give a group of the signing vectors; skip the test where they are not here."""
    folder = os.environ.get("CLOB_VECTORS_DIR")
    if not folder:
        pytest.skip("CLOB_VECTORS_DIR does not name the folder with signing.json")
    return json.loads((Path(folder) / "signing.json").read_text())[group]


def address_of(key):
    """Give the address of a private key, as eth-account has it."""
    from eth_account import Account  # noqa: PLC0415 - half a second, for those who need it

    return Account.from_key(key).address


def random_order(rng: random.Random, maker, signer=None):
    """Make an order with fields of every width, not signed."""

    def wide():
        return rng.getrandbits(rng.choice((1, 8, 31, 53, 64, 65, 128, 255, 256)))

    return SignedOrder(
        salt=wide(),
        maker=maker,
        signer=signer or maker,
        taker=rng.choice((f"0x{0:040x}", f"0x{rng.getrandbits(160):040x}")),
        token_id=wide(),
        maker_amount=wide(),
        taker_amount=wide(),
        expiration_s=wide(),
        nonce=wide(),
        fee_rate_bps=rng.choice((0, 100, 1000, wide())),
        side=rng.randrange(2),
        signature_type=rng.randrange(2),
    )
