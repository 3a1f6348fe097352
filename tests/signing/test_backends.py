"""Backends are chosen at import; each case runs in its own process."""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clob.signing import _secp_py
from tests import signings

ROOT = Path(__file__).parent.parent.parent

NO_COINCURVE = """
import sys
sys.modules["coincurve"] = sys.modules["coincurve._libsecp256k1"] = None
"""
NO_COMPILED = """
import sys
sys.modules["clob.signing._secp_c"] = None
"""
WRONG_COINCURVE = """
from coincurve import PublicKey
wrong = PublicKey.from_secret(b"\\1" * 32)
PublicKey.from_signature_and_message = staticmethod(lambda *_, **__: wrong)
"""
BROKEN_COINCURVE = """
from coincurve import PublicKey
def broken(*_, **__):
    raise MemoryError("out of curves")
PublicKey.from_signature_and_message = staticmethod(broken)
"""
MISSING_SYMBOL = """
import coincurve, coincurve._libsecp256k1 as private
class Without:
    "A library of another version that lacks a function."
    def __init__(self, of):
        self.of = of
    def __getattr__(self, name):
        if name.startswith(MISSING):
            raise AttributeError(name)
        return getattr(self.of, name)
    def addressof(self, library, *names):
        if names and names[0].startswith(MISSING):
            raise AttributeError(names[0])
        return self.of.addressof(getattr(library, "of", library), *names)
private.ffi, private.lib = Without(private.ffi), Without(private.lib)
"""
COMPILED = """
import sys, types
fake = sys.modules["clob.signing._secp_c"] = types.ModuleType("clob.signing._secp_c")
def twin(name):
    return getattr(sys.modules["clob.signing._secp_py"], name)
fake.__getattr__ = twin
fake.BACKEND = "a fake"
"""
"""A fake compiled backend that forwards to the Python one; tests break parts of it."""

REPORT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import clob.signing
print(clob.signing.BACKEND, *(each.category.__name__ for each in caught))
"""
VERIFY = """
from clob.signing import Domain, SignedOrder, verify, verify_batch
order = SignedOrder.from_json({ORDER})
domain = Domain("Polymarket CTF Exchange", "1", 80001, "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E")
verify(order, domain, profile="ctf")
print(*verify_batch([order, SignedOrder.from_json({ORDER} | {{"salt": 1}})], domain))
"""
ORDER = {
    "salt": "479249096354",
    "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "tokenId": "1234",
    "makerAmount": "100000000",
    "takerAmount": "50000000",
    "feeRateBps": "100",
    "signatureType": 0,
    "signature": (
        "0x3874d2cfe79c0e82577f4f76ec58d950522ee5923a6f08441927d382c8178a5a"
        "2190fd4d5c49705e94d75999a58ec843f94a432e87ebc15cdb2186d315b3cc201b"
    ),
}
"""Order and signature of the tests of python-order-utils."""


def run(*code, env=None):
    """Run code in a new Python process; return its printed lines."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent("".join(code))],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT if (ROOT / "clob").is_dir() else None,
        env={**os.environ, "CLOB_PURE_PYTHON": "", **(env or {})},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def chosen_backend(*preamble, env=None):
    """Return the chosen backend and its warnings, after verifying an order with it."""
    backend, verdicts = run(*preamble, REPORT, VERIFY.format(ORDER=ORDER), env=env)
    assert verdicts == "0 9"
    return backend


@pytest.fixture
def compiled():
    """The compiled backend; skips the test if it is not built."""
    return signings.load("compiled")


# ----- the choice ----------------------------------------------------------------------------


def test_the_compiled_backend_is_chosen_if_built(compiled):
    assert chosen_backend() == "libsecp256k1"


@pytest.mark.parametrize("name", ["python", "compiled"])
def test_each_backend_has_its_name(name):
    assert {"python": "coincurve", "compiled": "libsecp256k1"}[name] == signings.load(name).BACKEND


def test_plain_python_can_be_selected():
    assert chosen_backend(env={"CLOB_PURE_PYTHON": "1"}) == "coincurve"


def test_coincurve_is_used_without_the_compiled_backend():
    assert chosen_backend(NO_COMPILED) == "coincurve"


def test_eth_keys_is_used_without_coincurve_with_a_warning():
    assert chosen_backend(NO_COINCURVE) == "eth_keys RuntimeWarning"
    assert chosen_backend(NO_COINCURVE, env={"CLOB_PURE_PYTHON": "1"}) == "eth_keys RuntimeWarning"


SYMBOLS = (
    "secp256k1_ecdsa_recover",
    "secp256k1_ecdsa_recoverable_signature_parse_compact",
    "secp256k1_ec_pubkey_serialize",
    "secp256k1_",
)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_library_without_a_required_symbol_is_not_used(compiled, symbol):
    assert chosen_backend(f"MISSING = {symbol!r}", MISSING_SYMBOL) == "coincurve"


def test_a_library_with_other_struct_sizes_is_not_used(compiled):
    code = "import sys, coincurve\nsys.modules['coincurve._libsecp256k1'] = None\n"
    assert chosen_backend(code) == "coincurve"


INCORRECT = {
    "recovers another address": """
def recover(*given):
    found = twin("recover")(*given)
    return found[::-1] if isinstance(found, bytes) else found
fake.recover = recover
""",
    "recovers an address for every signature": """
def recover(*given):
    found = twin("recover")(*given)
    return found if isinstance(found, bytes) else bytes(20)
fake.recover = recover
""",
    "recovers no address": "fake.recover = lambda *_: 8\n",
    "uses another hash": """
import hashlib
fake.keccak256 = lambda data: hashlib.sha3_256(data).digest()
""",
    "lacks a function": """
def without(name):
    if name == "recover":
        raise AttributeError(name)
    return twin(name)
fake.__getattr__ = without
""",
}


@pytest.mark.parametrize("defect", INCORRECT)
def test_an_incorrect_backend_is_not_chosen(defect):
    assert chosen_backend(COMPILED, INCORRECT[defect]) == "coincurve"


def test_a_correct_backend_is_chosen():
    assert chosen_backend(COMPILED) == "a fake"


@pytest.mark.parametrize("defect", [WRONG_COINCURVE, BROKEN_COINCURVE], ids=["wrong", "broken"])
def test_an_incorrect_coincurve_is_replaced_by_eth_keys(defect):
    assert chosen_backend(defect, env={"CLOB_PURE_PYTHON": "1"}) == "eth_keys RuntimeWarning"


def test_both_libraries_recover_the_same_keys():
    recover_by_coincurve, recover_by_eth_keys = (
        _secp_py.coincurve_recover(),
        _secp_py.eth_keys_recover(),
    )
    rng = random.Random(1)
    result = set()
    for number in range(60):
        digest = rng.randbytes(32)
        r = rng.randbytes(32) if number % 2 else rng.getrandbits(10).to_bytes(32)
        s = rng.randrange(1, _secp_py.ORDER_OF_CURVE // 2).to_bytes(32)
        compact = r + s + bytes([rng.randrange(2)])
        key = recover_by_coincurve(digest, compact)
        assert recover_by_eth_keys(digest, compact) == key
        result.add(key)
    # Half of all r are on the curve, so both results occur.
    assert None in result
    assert len(result) > 20


# ----- imports -------------------------------------------------------------------------------

IMPORTED = """
import sys
print(*(name for name in {names} if name in sys.modules))
"""
HEAVY = (
    "clob.signing", "clob.signing.secp", "clob.signing._secp_py", "coincurve", "eth_account",
    "eth_keys", "eth_abi", "eth_utils", "Crypto", "Crypto.Hash.keccak",
)  # fmt: skip


def test_importing_clob_does_not_import_signing():
    assert run("import clob", IMPORTED.format(names=HEAVY)) == [""]


@pytest.mark.parametrize("pure", ["", "1"])
def test_importing_signing_does_not_import_eth_account(pure):
    names = ("eth_account", "eth_abi", "eth_keys", "clob.signing")
    modules = run(
        "import clob.signing", IMPORTED.format(names=names), env={"CLOB_PURE_PYTHON": pure}
    )
    assert modules == ["clob.signing"]


def test_importing_signing_does_not_import_pycryptodome():
    assert run("import clob.signing", IMPORTED.format(names=("Crypto.Hash.keccak",))) == [""]


def test_signing_restores_the_recursion_limit():
    limit = "import sys\nprint(sys.getrecursionlimit())\n"
    sign = f"from clob.signing import sign\nsign(order, domain, '{1:064x}')\n"
    _, before, after = run(VERIFY.format(ORDER=ORDER), limit, sign, limit)
    assert before == after


def test_verifying_does_not_import_eth_account_and_signing_does():
    names = ("eth_account",)
    verified = run(VERIFY.format(ORDER=ORDER), IMPORTED.format(names=names))
    assert verified == ["0 9", ""]
    sign = f"from clob.signing import sign\nsign(order, domain, '{1:064x}')\n"
    assert run(VERIFY.format(ORDER=ORDER), sign, IMPORTED.format(names=names))[1] == "eth_account"
