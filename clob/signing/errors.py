"""Errors of signed orders, in order of precedence.

Invalid amounts, prices, sides and fee rates raise the classes of :mod:`clob.errors`.
"""

import enum

from clob.errors import ClobError, RejectedError


class Verdict(enum.IntEnum):
    """Result of checking a signature, in the order of the checks; 0 is valid."""

    VALID = 0
    """The signer signed, and may sign for the maker."""
    INVALID_FIELD = 1
    """A field does not fit the signed struct, so there is no hash to check."""
    UNSUPPORTED_TYPE = 2
    """The profile does not define the signature type."""
    CONTRACT_WALLET = 3
    """Only a contract wallet can verify this, and no ``contracts`` function was passed."""
    MALFORMED = 4
    """The signature is not 0x and 130 hex digits."""
    INVALID_V = 5
    """The last byte, v, is not 0, 1, 27 or 28."""
    INVALID_R_OR_S = 6
    """r or s is 0, or not below the order of the curve."""
    HIGH_S = 7
    """s is above half the order of the curve; the equivalent signature with a low s is valid."""
    NOT_RECOVERABLE = 8
    """No public key can be recovered: r is not on the curve."""
    WRONG_SIGNER = 9
    """Another key signed, or other data was signed."""
    NOT_AUTHORISED = 10
    """The signer signed, but may not sign for the maker."""


class InvalidDomainError(ClobError, code="INVALID_DOMAIN"):
    """A domain or a schema is invalid."""


class InvalidKeyError(ClobError, code="INVALID_KEY"):
    """The value is not a private key."""


class InvalidFieldError(RejectedError, code="INVALID_FIELD", number=64):
    """A field is missing, of the wrong type, or out of the range of its type."""


class InvalidAddressError(RejectedError, code="INVALID_ADDRESS", number=65):
    """An address is not 0x and 40 hex digits, or its checksum (EIP-55) is wrong."""


class TakerNotSupportedError(RejectedError, code="TAKER_NOT_SUPPORTED", number=66):
    """The taker is neither the zero address (anyone) nor the operator."""


class TimestampOutOfWindowError(RejectedError, code="TIMESTAMP_OUT_OF_WINDOW", number=67):
    """The timestamp of a signed request is too far from the current time."""


class InvalidSignatureError(RejectedError, code="INVALID_SIGNATURE", number=68):
    """A signature is malformed or not from the signer."""

    def __init__(
        self,
        message: str,
        verdict: Verdict = Verdict.MALFORMED,
        *,
        digest: bytes | None = None,
        expected: str | None = None,
        recovered: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path: str | None = "signature"
        self.verdict: Verdict = verdict
        """Which check failed."""
        self.digest: bytes | None = digest
        """The hash to sign, 32 bytes; None if there is no hash."""
        self.expected: str | None = expected
        """The expected signer."""
        self.recovered: str | None = recovered
        """The address recovered from signature and digest; None if recovery failed."""


class SignerNotAuthorisedError(InvalidSignatureError, code="SIGNER_NOT_AUTHORISED", number=69):
    """The signature is valid, but the signer may not sign for the maker."""
