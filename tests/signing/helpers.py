"""References for the tests of signatures: eth-account, and hooks that record their calls."""

import msgspec
from Crypto.Hash import keccak
from eth_account import Account
from eth_account.messages import _hash_eip191_message, encode_typed_data

from clob.errors import RejectedError
from clob.signing import Domain, SignedOrder, sign
from tests.signings import DOMAIN, KEYS, address_of

CURVE = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""The order of secp256k1, from SEC 2."""

ALICE, BOB, CAROL, DAN = (address_of(key) for key in KEYS)

replace = msgspec.structs.replace


def eth_account_digest(typed):
    """Return the digest of typed data, computed by eth-account."""
    return bytes(_hash_eip191_message(encode_typed_data(full_message=typed)))


def reference_keccak(data):
    """Return the Keccak-256 hash, computed by pycryptodome."""
    return keccak.new(data=data, digest_bits=256).digest()


def domain_of(data):
    """Return the domain of a vector."""
    return Domain(data["name"], data["version"], data["chainId"], data.get("verifyingContract"))


def order(**changes):
    """Return an unsigned order of Alice."""
    fields = {
        "salt": 479249096354,
        "maker": ALICE,
        "signer": ALICE,
        "token_id": 1234,
        "maker_amount": 50 * 10**18,
        "taker_amount": 100 * 10**18,
    }
    return SignedOrder(**fields | changes)


def signed(key=KEYS[0], *, profile="ctf", domain=DOMAIN, **changes):
    """Return a signed order of Alice; profile ctf signs by EIP-712."""
    return sign(order(**changes), domain, key, profile=profile)


def parts(signature):
    """Split a signature into r, s and v."""
    return int(signature[2:66], 16), int(signature[66:130], 16), int(signature[130:], 16)


def joined(r, s, v):
    """Return the signature of r, s and v."""
    return f"0x{r:064x}{s:064x}{v:02x}"


def high_twin(signature):
    """Return the signature with the high s that recovers the same key."""
    r, s, v = parts(signature)
    return joined(r, CURVE - s, 55 - v)


class RecordingHook:
    """A hook that returns a fixed answer and records its arguments."""

    def __init__(self, answer=True):
        self.answer = answer
        self.calls = []

    def __call__(self, *question):
        self.calls.append(question)
        return self.answer


def outcome(call, *arguments, **options):
    """Return the result of a call, or class, code, path and text of its rejection."""
    try:
        return call(*arguments, **options)
    except RejectedError as error:
        return type(error), error.code, error.path, str(error)


def recovered_by_eth_account(digest, signature):
    """Return the address that eth-account recovers."""
    return Account._recover_hash(digest, signature=signature)
