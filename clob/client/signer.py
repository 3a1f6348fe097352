"""Signing of orders and requests: by a private key, an account object, or a callback."""

import re
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec
from coincurve import PrivateKey

from clob.client.errors import InvalidCallError
from clob.client.steps import DigestToSign, Steps
from clob.errors import RejectedError
from clob.signing import Domain, Signed, fields, keccak256, order_hash, recover
from clob.signing.errors import InvalidKeyError

KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")
SIGNATURE_BYTES: Final = 65

AnySigned = TypeVar("AnySigned", bound=Signed)


@runtime_checkable
class SigningAccount(Protocol):
    """An account that signs digests, such as ``eth_account.Account.from_key(...)``."""

    @property
    def address(self) -> Any:
        """Address, 0x and 40 hex digits."""

    def unsafe_sign_hash(self, message_hash: Any) -> Any:
        """Sign a digest of 32 bytes, without a prefix; the result has a ``signature``."""


class WalletSigner:
    """A wallet that signs digests of 32 bytes.

    Args:
        address: address of the wallet.
        sign: returns the signature of a digest: 65 bytes (r, s, v), or their hex digits. With
            :class:`~clob.client.AsyncClient` it may be a coroutine function. It must sign the
            digest itself, without the prefix of personal_sign. The first signature is checked.

    Raises:
        InvalidAddressError: the address is malformed.
    """

    def __init__(self, address: str, sign: Callable[[bytes], Any]) -> None:
        self.address: Final = fields.address("address", address)
        """Address of the wallet, checksummed (EIP-55)."""
        self._sign: Final = sign
        self._is_checked = False

    def __repr__(self) -> str:
        """Return the address, and nothing that is secret."""
        return f"WalletSigner({self.address})"

    @classmethod
    def from_key(cls, key: str | bytes) -> "WalletSigner":
        """Return the signer of a private key.

        Args:
            key: 32 bytes, or 64 hex digits with or without 0x.

        Raises:
            InvalidKeyError: the key is not a private key.
        """
        private = read_key(key)
        public = private.public_key.format(compressed=False)
        signer = cls(
            f"0x{keccak256(public[1:])[12:].hex()}",
            lambda digest: private.sign_recoverable(digest, hasher=None),
        )
        signer._is_checked = True
        return signer

    @classmethod
    def from_account(cls, account: SigningAccount) -> "WalletSigner":
        """Return the signer of an account of eth-account, or of one with the same methods."""
        return cls(str(account.address), lambda digest: account.unsafe_sign_hash(digest).signature)

    def signed(self, message: AnySigned, domain: Domain) -> Steps[AnySigned]:
        """Sign an order or another signed struct by EIP-712.

        Raises:
            InvalidCallError: the callback returned no signature, or that of another wallet.
        """
        digest = order_hash(message, domain)
        signature = hex_of((yield DigestToSign(self._sign, digest)))
        if not self._is_checked:
            self._check(digest, signature)
        return msgspec.structs.replace(message, signature=signature)

    def _check(self, digest: bytes, signature: str) -> None:
        """Compare the address of the first signature with that of the wallet."""
        try:
            found = recover(digest, signature)
        except RejectedError as error:
            raise InvalidCallError(f"the signature of {self.address} is invalid: {error}") from None
        if found != self.address:
            raise InvalidCallError(
                f"sign must sign the 32 bytes that it receives with the key of {self.address}; "
                f"the signature is that of {found}"
            )
        self._is_checked = True


AnySigner: TypeAlias = WalletSigner | SigningAccount | str | bytes
"""A signer, an account, or a private key."""


def signer_of(source: AnySigner | None) -> WalletSigner | None:
    """Return the signer of a key or an account; None without one.

    Raises:
        InvalidKeyError: a text or bytes that are not a private key.
        InvalidCallError: neither a key, an account nor a signer.
    """
    if source is None or isinstance(source, WalletSigner):
        return source
    if isinstance(source, str | bytes):
        return WalletSigner.from_key(source)
    if isinstance(source, SigningAccount):
        return WalletSigner.from_account(source)
    raise InvalidCallError(
        "signer must be a private key, an account with address and unsafe_sign_hash, or a "
        f"WalletSigner; got {type(source).__name__}"
    )


def read_key(key: str | bytes) -> PrivateKey:
    """Read a private key; an error does not contain it.

    Raises:
        InvalidKeyError: not a private key.
    """
    match = KEY.fullmatch(key.strip()) if isinstance(key, str) else None
    secret = bytes.fromhex(match[1]) if match else key
    try:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise ValueError("not 32 bytes")
        return PrivateKey(secret)
    except ValueError:  # its text may contain the key
        raise InvalidKeyError(
            "key must be 32 bytes or 64 hex digits, above 0 and below the order of the curve"
        ) from None


def hex_of(signature: Any) -> str:
    """Return a signature as 0x and 130 hex digits."""
    if isinstance(signature, bytes | bytearray) and len(signature) == SIGNATURE_BYTES:
        return f"0x{bytes(signature).hex()}"
    if isinstance(signature, str) and len(signature.removeprefix("0x")) == 2 * SIGNATURE_BYTES:
        return f"0x{signature.removeprefix('0x')}"
    raise InvalidCallError(
        f"sign must return 65 bytes or their hex digits; got {type(signature).__name__}"
    )
