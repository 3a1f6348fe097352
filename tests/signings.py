"""Shared by the tests of signatures: backends, vectors, wallets, and random orders."""

import importlib
import importlib.util
import json
import os
import random  # noqa: TID251 - seeded, and outside the engine
from pathlib import Path

import pytest

from clob.signing import Domain, SignedOrder, _secp_py, secp

BACKENDS = ("python", "compiled")
"""The backends, by their names in the tests."""

KEYS = tuple(f"0x{number:064x}" for number in (0xA11CE, 0xB0B, 0xCA401, 0xDA7E))
"""Public test keys."""

EXCHANGE = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
DOMAIN = Domain("clob", "1", 31337, EXCHANGE)
"""The domain of the tests, from the decisions."""


def load(name):
    """Return the module of a backend; skip the test if it is not built."""
    ending = {"python": "py", "compiled": "c"}[name]
    if importlib.util.find_spec(f"clob.signing._secp_{ending}") is None:
        pytest.skip(f"the {name} backend of clob.signing is not built")
    return importlib.import_module(f"clob.signing._secp_{ending}")


def use(monkeypatch, name):
    """Make ``clob.signing`` use one backend; return its module."""
    backend = load(name)
    for each in set(_secp_py.__all__) - {"BACKEND"}:
        monkeypatch.setattr(secp, each, getattr(backend, each))
    return backend


def vectors(group):
    """Return a group of the signing vectors; skip the test if they are missing."""
    folder = os.environ.get("CLOB_VECTORS_DIR")
    if not folder:
        pytest.skip("CLOB_VECTORS_DIR does not name the folder with signing.json")
    return json.loads((Path(folder) / "signing.json").read_text())[group]


def address_of(key):
    """Return the address of a private key, by eth-account."""
    from eth_account import Account  # noqa: PLC0415 - takes half a second

    return Account.from_key(key).address


def random_order(rng: random.Random, maker, signer=None):
    """Return an unsigned order with fields of every width."""

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
