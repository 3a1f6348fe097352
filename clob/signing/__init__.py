"""Signed orders: EIP-712 hashing, verification, and conversion to engine orders.

Not imported by ``import clob``.
"""

from clob.signing.domain import Domain
from clob.signing.errors import (
    InvalidAddressError,
    InvalidDomainError,
    InvalidFieldError,
    InvalidKeyError,
    InvalidSignatureError,
    SignerNotAuthorisedError,
    TakerNotSupportedError,
    TimestampOutOfWindowError,
    Verdict,
)
from clob.signing.explain import KNOWN_DOMAINS, Explanation, explain
from clob.signing.fields import salt_number
from clob.signing.messages import (
    SignedCancel,
    SignedCancelAll,
    SignedPermit,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    SignedWithdrawal,
)
from clob.signing.order import (
    ORDER,
    ZERO_ADDRESS,
    PriceSize,
    SignedOrder,
    amounts_of,
    price_and_size,
    to_order,
)
from clob.signing.profiles import Profile
from clob.signing.schema import Field, Schema, Written
from clob.signing.secp import BACKEND, keccak256
from clob.signing.signed_struct import Signed
from clob.signing.verify import (
    order_hash,
    personal_hash,
    recover,
    recover_signer,
    verify,
    verify_batch,
)
from clob.signing.wallet import sign, typed_data

__all__ = [
    "BACKEND",
    "KNOWN_DOMAINS",
    "ORDER",
    "ZERO_ADDRESS",
    "Domain",
    "Explanation",
    "Field",
    "InvalidAddressError",
    "InvalidDomainError",
    "InvalidFieldError",
    "InvalidKeyError",
    "InvalidSignatureError",
    "PriceSize",
    "Profile",
    "Schema",
    "Signed",
    "SignedCancel",
    "SignedCancelAll",
    "SignedOrder",
    "SignedPermit",
    "SignedReduce",
    "SignedSetDelegate",
    "SignedSetNonce",
    "SignedWithdrawal",
    "SignerNotAuthorisedError",
    "TakerNotSupportedError",
    "TimestampOutOfWindowError",
    "Verdict",
    "Written",
    "amounts_of",
    "explain",
    "keccak256",
    "order_hash",
    "personal_hash",
    "price_and_size",
    "recover",
    "recover_signer",
    "salt_number",
    "sign",
    "to_order",
    "typed_data",
    "verify",
    "verify_batch",
]
