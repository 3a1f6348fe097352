"""The words of a refused signature: which check failed, and everything it was held against."""

from clob.book.validation import show
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
from clob.signing.profiles import Profile, types_of
from clob.signing.signed_struct import Signed, plain

UNASKED = (Verdict.UNSUPPORTED_TYPE, Verdict.NOT_AUTHORISED)
"""Where a contract wallet is not asked."""


def describe(verdict: Verdict, signature: str) -> str:
    """Say what is wrong with a signature, whatever it is of."""
    match verdict:
        case Verdict.MALFORMED:
            return f"the signature must be 0x and 130 hex digits, not {show(signature)}"
        case Verdict.INVALID_V:
            return f"v, the last byte, must be 0, 1, 27 or 28, not {int(signature[130:], 16)}"
        case Verdict.INVALID_R_OR_S:
            return "r and s must be above 0 and below the order of the curve"
        case Verdict.HIGH_S:
            return (
                "s must be at most half the order of the curve; the same signature with a low s is "
                f"{with_low_s(signature)}"
            )
        case _:
            return "no key makes this signature: r is no point of the curve"


def with_low_s(signature: str) -> str:
    """Give the other signature by the same key of the same digest."""
    s, parity = int(signature[66:130], 16), PARITY[int(signature[130:], 16)]
    return f"{signature[:66]}{ORDER_OF_CURVE - s:064x}{28 - parity:02x}"


def refusal(
    order: Signed,
    domain: Domain,
    known: bytes | None,
    profile: str,
    verdict: Verdict,
    *,
    asked: bool,
) -> RejectedError:
    """Give the error for a signature that was not accepted.

    Args:
        order: what was to be signed.
        domain: for which exchange.
        known: the order's hash, if it is known already.
        profile: what the signature types mean.
        verdict: the check that failed.
        asked: contract wallets are asked here.
    """
    try:
        digest = known
        if digest is None or verdict is Verdict.INVALID_FIELD:  # hashing says which one it is
            digest = secp.digest_of(order, domain.separator)
        signer, owner = plain(order.signer_address), plain(order.owner_address)
    except InvalidFieldError as error:
        return error
    except (TypeError, ValueError):
        return InvalidFieldError("the signer or the owner is no address")
    kind = 1 if order.signature_kind is None else order.signature_kind
    found = secp.recover(digest, order.signature)
    recovered = secp.checksummed(found) if isinstance(found, bytes) else None
    match verdict:
        case Verdict.UNSUPPORTED_TYPE:
            what = f"signatureType must be {types_of(profile)} in profile {profile}, not {kind}"
        case Verdict.CONTRACT_WALLET:
            tells = "it does not accept this signature" if asked else "it is not asked here"
            what = f"only the contract wallet {signer} can tell, and {tells}"
        case Verdict.NOT_AUTHORISED:
            what = (
                f"the signature is that of {signer}, who may not sign for "
                f"the {order.SCHEMA.owner} {owner}"
            )
        case Verdict.WRONG_SIGNER:
            who = recovered or "nobody"
            what = f"the signature is not that of {signer}: as EIP-712 it is that of {who}"
        case _:
            what = describe(verdict, order.signature)
    if asked and profile == Profile.SPEC and verdict not in UNASKED:
        what = f"{what}; nor does a contract wallet {signer} accept it"
    right = verdict is Verdict.NOT_AUTHORISED
    refused = (SignerNotAuthorisedError if right else InvalidSignatureError)(
        f"{what}; to be signed is 0x{digest.hex()}, for {domain}, signatureType {kind}",
        verdict,
        digest=digest,
        expected=signer,
        recovered=recovered,
    )
    if verdict is Verdict.UNSUPPORTED_TYPE:
        refused.path = "signatureType"
    return refused
