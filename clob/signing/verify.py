"""Verifies signatures of orders and other signed structs, one or many."""

from collections.abc import Callable, Sequence
from itertools import repeat

from clob.book.validation import show
from clob.signing import fields, secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidFieldError, InvalidSignatureError, Verdict
from clob.signing.profiles import RULES, Profile, rules_of
from clob.signing.rejections import describe, rejection
from clob.signing.signed_struct import Signed, checksum_address

Delegates = Callable[[str, str], bool]
"""``delegates(maker, signer)`` returns whether the signer may sign for the maker."""

Proxies = Callable[[str, str, int], bool]
"""``proxies(maker, signer, signature_type)`` returns whether the maker is a proxy or safe of the
signer, in profile ``ctf``."""

Contracts = Callable[[str, bytes, bytes], bool]
"""``contracts(wallet, digest, signature)`` calls a contract wallet (ERC-1271 isValidSignature)."""


def order_hash(order: Signed, domain: Domain) -> bytes:
    """Return the order hash: the 32-byte EIP-712 digest of domain and struct. About 2 us.

    Args:
        order: an order or another signed struct.
        domain: domain of the exchange.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    return secp.digest_of(order, domain.separator)


def personal_hash(digest: bytes) -> bytes:
    """Return the digest that personal_sign signs for a hash of 32 bytes (EIP-191, decision 12).

    Raises:
        InvalidFieldError: the hash does not have 32 bytes.
    """
    check_digest(digest)
    return secp.personal_digest(digest)


def check_digest(digest: object) -> None:
    """Check that a digest is 32 bytes."""
    if type(digest) is not bytes or len(digest) != 32:
        raise InvalidFieldError(f"digest must be 32 bytes; got {show(digest)}")


def recover(digest: bytes, signature: str) -> str:
    """Return the address that signed a digest, checksummed (EIP-55).

    Args:
        digest: the signed 32 bytes.
        signature: 0x and 130 hex digits; v is 0, 1, 27 or 28, and s is low (decision 15).

    Raises:
        InvalidFieldError: the digest does not have 32 bytes.
        InvalidSignatureError: the signature is malformed.
    """
    check_digest(digest)
    result = secp.recover(digest, signature)
    if isinstance(result, bytes):
        return secp.checksummed(result)
    verdict = Verdict(result)
    raise InvalidSignatureError(describe(verdict, signature), verdict, digest=digest)


def recover_signer(order: Signed, domain: Domain) -> str:
    """Return the address that signed, checksummed (EIP-55); it may differ from ``order.signer``.

    Orders of type 0 are signed by EIP-712 or personal_sign; if neither recovers to
    ``order.signer``, the result is the address for EIP-712.

    Args:
        order: an order or another signed struct.
        domain: domain of the exchange.

    Raises:
        InvalidFieldError: a value does not fit its type.
        InvalidSignatureError: the signature is malformed.
    """
    digest = order_hash(order, domain)
    first = recover(digest, order.signature)
    signer = order.signer_address.lower()
    if order.signature_kind != 0 or first.lower() == signer:
        return first
    second = recover(personal_hash(digest), order.signature)
    return second if second.lower() == signer else first


def verify(
    order: Signed,
    domain: Domain,
    *,
    digest: bytes | None = None,
    profile: Profile | str = Profile.SPEC,
    delegates: Delegates | None = None,
    proxies: Proxies | None = None,
    contracts: Contracts | None = None,
) -> None:
    """Verify that the signer signed this struct for this domain and may sign for the maker.

    Args:
        order: an order or another signed struct.
        domain: domain of the exchange.
        digest: the result of :func:`order_hash` if known, which saves the hashing; it is not
            checked.
        profile: meaning of the signature types, a :class:`Profile` or its name.
        delegates: signers allowed for a maker, in profile ``spec``; None allows the maker only.
        proxies: proxies and safes of a signer, in profile ``ctf``; None has none.
        contracts: calls contract wallets; None rejects their signatures.

    Raises:
        InvalidFieldError: a value does not fit its type, or the digest does not have 32 bytes.
        InvalidSignatureError: the signature is malformed or from another key; ``verdict`` is the
            first check that failed, in the order of :class:`Verdict`.
        SignerNotAuthorisedError: the signature is valid, but the signer may not sign for the maker.

    Costs one recovery, about 45 us, or two if an order of type 0 is signed by personal_sign.
    """
    if digest is not None:
        check_digest(digest)
    rules = RULES[profile] if profile in RULES else rules_of(profile)
    verdict = secp.verdict_of(order, domain.separator, rules, digest)
    if verdict:
        verdict = authorise(order, domain, digest, profile, verdict, delegates, proxies, contracts)
    if verdict:
        calls = contracts is not None
        raise rejection(order, domain, digest, profile, Verdict(verdict), calls_contracts=calls)


def verify_batch(
    orders: Sequence[Signed],
    domain: Domain,
    *,
    digests: Sequence[bytes] | None = None,
    profile: Profile | str = Profile.SPEC,
    delegates: Delegates | None = None,
    proxies: Proxies | None = None,
    contracts: Contracts | None = None,
) -> bytes:
    """Verify many signatures without raising; the GIL is released, so threads can share the work.

    Args:
        orders: orders or other signed structs, also mixed.
        domain: domain of the exchange.
        digests: their order hashes if known, one for each, as for :func:`verify`.
        profile: as for :func:`verify`.
        delegates: as for :func:`verify`.
        proxies: as for :func:`verify`.
        contracts: as for :func:`verify`.

    Returns:
        One byte per order, the number of a :class:`Verdict`; 0 if :func:`verify` would accept it.
        All are valid if ``not any(verdicts)``.

    Raises:
        InvalidFieldError: a digest does not have 32 bytes, or their number is wrong.
    """
    if digests is not None:
        if len(digests) != len(orders):
            raise InvalidFieldError(
                f"digests must have one item per order, {len(orders)}; got {len(digests)}"
            )
        for digest in digests:
            check_digest(digest)
    verdicts = secp.verdicts_of(orders, domain.separator, rules_of(profile), digests)
    if not any(verdicts) or (delegates is None and proxies is None and contracts is None):
        return verdicts
    known = repeat(None, len(orders)) if digests is None else digests
    return bytes(
        verdict
        and authorise(order, domain, digest, profile, verdict, delegates, proxies, contracts)
        for order, digest, verdict in zip(orders, known, verdicts, strict=True)
    )


def authorise(
    order: Signed,
    domain: Domain,
    digest: bytes | None,
    profile: str,
    verdict: int,
    delegates: Delegates | None,
    proxies: Proxies | None,
    contracts: Contracts | None,
) -> int:
    """Return the verdict after asking contracts, delegates and proxies about a failed one."""
    if verdict in (Verdict.INVALID_FIELD, Verdict.UNSUPPORTED_TYPE):
        return verdict
    maker = checksum_address(order.owner_address)
    signer = checksum_address(order.signer_address)
    if verdict != Verdict.NOT_AUTHORISED:
        by_contract = profile == Profile.SPEC or verdict == Verdict.CONTRACT_WALLET
        if contracts is None or not by_contract:
            return verdict
        signature = order.signature
        if type(signature) is not str or not fields.HEX_BYTES.fullmatch(signature):
            return verdict
        signed = order_hash(order, domain) if digest is None else digest
        if not contracts(signer, signed, bytes.fromhex(signature[2:])):
            return verdict
        if signer == maker:
            return Verdict.VALID
    if profile == Profile.SPEC:
        allowed = delegates is not None and delegates(maker, signer)
    else:
        kind = order.signature_kind
        allowed = proxies is not None and kind in (1, 2) and proxies(maker, signer, kind)
    return Verdict.VALID if allowed else Verdict.NOT_AUTHORISED
