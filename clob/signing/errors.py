"""What a signed order can be refused for before the engine sees it, in order of precedence.

Amounts, prices, sides and fee rates are refused by the engine's own classes, in :mod:`clob.errors`.
"""

import enum

from clob.errors import ClobError, RejectedError


class Verdict(enum.IntEnum):
    """What came of checking a signature, in the sequence of the checks; 0 is good."""

    VALID = 0
    """The signer signed it, and may."""
    INVALID_FIELD = 1
    """A field does not fit the struct that is signed, so that there is nothing to check."""
    UNSUPPORTED_TYPE = 2
    """The profile does not know the signature type."""
    CONTRACT_WALLET = 3
    """Only a contract wallet could tell, and nobody who asks it was given."""
    MALFORMED = 4
    """The signature is not 0x and 130 hex digits."""
    INVALID_V = 5
    """The last byte, v, is not 0, 1, 27 or 28."""
    INVALID_R_OR_S = 6
    """r or s is 0, or not below the order of the curve."""
    HIGH_S = 7
    """s is above half the order of the curve; the same signature with a low s would do."""
    NOT_RECOVERABLE = 8
    """No key can have made it: r is no point of the curve."""
    WRONG_SIGNER = 9
    """Somebody else signed, or something else was signed."""
    NOT_AUTHORISED = 10
    """The signer signed, but may not sign for the maker."""


class InvalidDomainError(ClobError):
    """A domain or a schema cannot be as it is described."""

    code = "INVALID_DOMAIN"


class InvalidKeyError(ClobError):
    """It is no private key."""

    code = "INVALID_KEY"


class InvalidFieldError(RejectedError):
    """A field is missing, of the wrong type, or out of the range of its type."""

    code = "INVALID_FIELD"
    number = 64


class InvalidAddressError(RejectedError):
    """It is not 0x and 40 hex digits, or its capital letters are not those of EIP-55."""

    code = "INVALID_ADDRESS"
    number = 65


class TakerNotSupportedError(RejectedError):
    """The order is for a taker who is neither anybody nor the operator."""

    code = "TAKER_NOT_SUPPORTED"
    number = 66


class TimestampOutOfWindowError(RejectedError):
    """A signed request names a time too far from the clock."""

    code = "TIMESTAMP_OUT_OF_WINDOW"
    number = 67


class InvalidSignatureError(RejectedError):
    """A signature is unusable, or is not the signer's."""

    code = "INVALID_SIGNATURE"
    number = 68

    def __init__(
        self,
        message: str,
        verdict: Verdict = Verdict.MALFORMED,
        *,
        digest: bytes | None = None,
        expected: str | None = None,
        recovered: str | None = None,
    ) -> None:
        """Keep which check failed, and what it was held against."""
        super().__init__(message)
        self.path: str | None = "signature"
        self.verdict: Verdict = verdict
        """Which check failed."""
        self.digest: bytes | None = digest
        """The order hash that should have been signed, 32 bytes; None if there is none."""
        self.expected: str | None = expected
        """The address that should have signed."""
        self.recovered: str | None = recovered
        """The address that did sign, had it been this that was signed; None if there is none."""


class SignerNotAuthorisedError(InvalidSignatureError):
    """The signature is the signer's, but nobody said that he may sign for the maker."""

    code = "SIGNER_NOT_AUTHORISED"
    number = 69
