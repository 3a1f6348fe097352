"""Signed transactions: their encoding, and the signer that holds the operator's key.

The key is in this process (:class:`LocalSigner`) or behind a URL
(:class:`~clob_server.chain.tx.remote_signer.RemoteSigner`). The signed bytes equal those of
eth-account, in a tenth of its time.
"""

import re
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from coincurve import PrivateKey

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.chain.eth.accounts import RlpValue, rlp
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.steps import Draft, SignedTransaction

FEE_MARKET: Final = b"\x02"
"""Type byte of an EIP-1559 transaction."""
EIP155_PARITY: Final = 35
"""Offset of v in a legacy transaction (EIP-155), besides the parity and twice the chain id."""
WORD_BYTES: Final = 32
"""Length of r and of s."""
FEE_MARKET_FIELDS: Final = (
    "chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "data",
    "accessList",
)  # fmt: skip
"""Fields of an EIP-1559 transaction before the signature, in JSON-RPC terms."""
LEGACY_FIELDS: Final = ("nonce", "gasPrice", "gas", "to", "value", "data")
"""Fields of a legacy transaction before the signature."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class SignerError(Exception):
    """The signer did not sign a transaction as requested; nothing was sent."""


class UnsignedTransaction(NamedTuple):
    """The fields of a transaction that are signed."""

    chain_id: int
    is_legacy: bool
    fields: tuple[RlpValue, ...]
    """Values of :data:`FEE_MARKET_FIELDS` or :data:`LEGACY_FIELDS`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return LEGACY_FIELDS if self.is_legacy else FEE_MARKET_FIELDS

    def digest(self) -> bytes:
        """Return the hash that is signed."""
        if self.is_legacy:  # with the replay protection of EIP-155
            return keccak256(rlp([*self.fields, self.chain_id, 0, 0]))
        return keccak256(FEE_MARKET + rlp(self.fields))

    def with_signature(self, parity: int, r: int, s: int) -> bytes:
        """Return the signed bytes."""
        if self.is_legacy:
            return rlp([*self.fields, EIP155_PARITY + 2 * self.chain_id + parity, r, s])
        return FEE_MARKET + rlp([*self.fields, parity, r, s])


def unsigned(draft: Draft, fees: Fees, chain_id: int) -> UnsignedTransaction:
    """Return the transaction of a step that has a nonce, without an access list."""
    assert draft.nonce is not None
    payload = bytes.fromhex(draft.target[2:]), draft.value, draft.data
    if fees.is_legacy:
        return UnsignedTransaction(chain_id, True, (draft.nonce, fees.max_fee, draft.gas, *payload))
    head = chain_id, draft.nonce, fees.tip, fees.max_fee
    return UnsignedTransaction(chain_id, False, (*head, draft.gas, *payload, ()))


def signed(raw: bytes, fees: Fees) -> SignedTransaction:
    """Return signed bytes with their hash and fees."""
    return SignedTransaction(f"0x{keccak256(raw).hex()}", raw, fees.max_fee, fees.tip)


class Signer(ABC):
    """Signs the operator's transactions for one chain."""

    address: str
    """Address of the operator, EIP-55."""
    problem: str = ""
    """Why the signer cannot be used, as far as known; empty if it can."""

    @abstractmethod
    async def sign(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Sign a step that has a nonce.

        Raises:
            SignerError: it was not signed, or not as requested.
        """

    @abstractmethod
    async def check(self) -> None:
        """Check that the signer is there and holds the operator's key.

        Raises:
            SignerError: it does not; the reason is kept in :attr:`problem`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close connections."""


class LocalSigner(Signer):
    """Signs with a key in memory.

    Args:
        key: the private key, 32 bytes in hex.
        chain_id: chain id of the transactions.

    Raises:
        ValueError: the key is invalid.
    """

    def __init__(self, key: str, chain_id: int) -> None:
        try:
            digits = _KEY.fullmatch(key)
            if digits is None:
                raise ValueError
            self._key = PrivateKey(bytes.fromhex(digits[1]))
        except Exception:  # the library's message may contain the key
            raise ValueError("the operator's key must be 32 bytes in hex") from None
        self.address: str = address_of(self._key.public_key.format(compressed=False))
        self._chain_id = chain_id

    async def sign(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Sign without waiting; see :meth:`sign_at_once`."""
        return self.sign_at_once(draft, fees)

    async def check(self) -> None:
        """Do nothing: the key is here."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def sign_at_once(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Sign a step that has a nonce; s is low."""
        transaction = unsigned(draft, fees, self._chain_id)
        signature = self._key.sign_recoverable(transaction.digest(), hasher=None)
        r, s = signature[:WORD_BYTES], signature[WORD_BYTES : 2 * WORD_BYTES]
        raw = transaction.with_signature(signature[-1], int.from_bytes(r), int.from_bytes(s))
        return signed(raw, fees)


def address_of(public_key: bytes) -> str:
    """Return the address (EIP-55) of an uncompressed public key."""
    return checksummed(keccak256(public_key[1:])[12:])
