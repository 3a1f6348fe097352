"""Errors for rejected signatures: the failed check, the digest and the addresses."""

from clob.errors import RejectedError
from clob.signing import secp
from clob.signing._secp_py import ORDER_OF_CURVE, PARITY
from clob.signing.domain import Domain
from clob.signing.errors import (
    InvalidFieldError,
    InvalidSignatureError,
    SignerNotAuthorisedError,
    Verdict,
)
from clob.signing.fields import received
from clob.signing.profiles import Profile, types_of
from clob.signing.signed_struct import Signed, checksum_address

WITHOUT_CONTRACT = (Verdict.UNSUPPORTED_TYPE, Verdict.NOT_AUTHORISED)
"""Verdicts for which no contract wallet is called."""


def describe(verdict: Verdict, signature: str) -> str:
    """Describe a malformed signature."""
    match verdict:
        case Verdict.MALFORMED:
            return f"signature must be 0x and 130 hex digits; got {received(signature)}"
        case Verdict.INVALID_V:
            return f"v, the last byte, must be 0, 1, 27 or 28; got {int(signature[130:], 16)}"
        case Verdict.INVALID_R_OR_S:
            return "r and s of the signature must be above 0 and below the order of the curve"
        case Verdict.HIGH_S:
            return (
                "s must be at most half the order of the curve; the equivalent signature is "
                f"{with_low_s(signature)}"
            )
        case _:
            return "no key can have made this signature: r is not on the curve"


def with_low_s(signature: str) -> str:
    """Return the equivalent signature by the same key with a low s."""
    s, parity = int(signature[66:130], 16), PARITY[int(signature[130:], 16)]
    return f"{signature[:66]}{ORDER_OF_CURVE - s:064x}{28 - parity:02x}"


def rejection(
    order: Signed,
    domain: Domain,
    known: bytes | None,
    profile: str,
    verdict: Verdict,
    *,
    calls_contracts: bool,
) -> RejectedError:
    """Return the error for a rejected signature; ``known`` is the order hash if computed before."""
    try:
        digest = known
        if digest is None or verdict is Verdict.INVALID_FIELD:  # hashing raises for that field
            digest = secp.digest_of(order, domain.separator)
        signer = checksum_address(order.signer_address)
        owner = checksum_address(order.owner_address)
    except InvalidFieldError as field_error:
        return field_error
    except (TypeError, ValueError):
        return InvalidFieldError("signer and owner must be addresses")
    kind = 1 if order.signature_kind is None else order.signature_kind
    address = secp.recover(digest, order.signature)
    recovered = secp.checksummed(address) if isinstance(address, bytes) else None
    match verdict:
        case Verdict.UNSUPPORTED_TYPE:
            text = f"signatureType must be {types_of(profile)} in profile {profile}; got {kind}"
        case Verdict.CONTRACT_WALLET:
            reason = "rejects it" if calls_contracts else "is not called here"
            text = f"only the contract wallet {signer} can verify this signature, and it {reason}"
        case Verdict.NOT_AUTHORISED:
            text = (
                f"the signature is by {signer}, which may not sign for "
                f"the {order.SCHEMA.owner} {owner}"
            )
        case Verdict.WRONG_SIGNER:
            signed_by = recovered or "no address"
            text = f"the signature must be by {signer}; as EIP-712 it is by {signed_by}"
        case _:
            text = describe(verdict, order.signature)
    if calls_contracts and profile == Profile.SPEC and verdict not in WITHOUT_CONTRACT:
        text = f"{text}; the contract wallet {signer} rejects it as well"
    unauthorised = verdict is Verdict.NOT_AUTHORISED
    error = (SignerNotAuthorisedError if unauthorised else InvalidSignatureError)(
        f"{text}; the digest to sign is 0x{digest.hex()}, for {domain}, signatureType {kind}",
        verdict,
        digest=digest,
        expected=signer,
        recovered=recovered,
    )
    if verdict is Verdict.UNSUPPORTED_TYPE:
        error.path = "signatureType"
    return error
