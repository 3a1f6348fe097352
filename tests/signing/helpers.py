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
    """Hash typed data as eth-account does."""
    return bytes(_hash_eip191_message(encode_typed_data(full_message=typed)))


def reference_keccak(data):
    """Hash with pycryptodome, not through our own module."""
    return keccak.new(data=data, digest_bits=256).digest()


def domain_of(data):
    """Make our domain of the one of a vector."""
    return Domain(data["name"], data["version"], data["chainId"], data.get("verifyingContract"))


def order(**changes):
    """Make an order of Alice's, not signed."""
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
    """Make an order of Alice's and sign it, by EIP-712 unless the profile says otherwise."""
    return sign(order(**changes), domain, key, profile=profile)


def parts(signature):
    """Take a signature apart: r, s, v."""
    return int(signature[2:66], 16), int(signature[66:130], 16), int(signature[130:], 16)


def joined(r, s, v):
    """Put a signature together."""
    return f"0x{r:064x}{s:064x}{v:02x}"


def high_twin(signature):
    """Give the other signature of the same digest by the same key, with the high s."""
    r, s, v = parts(signature)
    return joined(r, CURVE - s, 55 - v)


class RecordingHook:
    """A hook that gives one answer and keeps what it was asked."""

    def __init__(self, answer=True):
        self.answer = answer
        self.questions = []

    def __call__(self, *question):
        self.questions.append(question)
        return self.answer


def outcome(call, *arguments, **options):
    """Give what a call returns, or the class, code, path and words of its refusal."""
    try:
        return call(*arguments, **options)
    except RejectedError as error:
        return type(error), error.code, error.path, str(error)


def recovered_by_eth_account(digest, signature):
    """Give the address eth-account finds."""
    return Account._recover_hash(digest, signature=signature)
