"""Who signed, and may he: one signature or many, by the rules of a profile."""

from collections.abc import Callable, Sequence
from itertools import repeat

from clob.book.validation import show
from clob.signing import fields, secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidFieldError, InvalidSignatureError, Verdict
from clob.signing.profiles import Profile, rules_of
from clob.signing.rejections import describe, refusal
from clob.signing.signed_struct import Signed, plain

Delegates = Callable[[str, str], bool]
"""``delegates(maker, signer)`` says whether the signer may sign for the maker."""

Proxies = Callable[[str, str, int], bool]
"""``proxies(maker, signer, signature_type)`` says whether the maker is the signer's proxy or safe,
in profile ``ctf``."""

Contracts = Callable[[str, bytes, bytes], bool]
"""``contracts(wallet, digest, signature)`` asks a contract wallet, as ERC-1271 has it."""


def order_hash(order: Signed, domain: Domain) -> bytes:
    """Give what is signed, EIP-712's hash of domain and struct. About 2 us.

    Args:
        order: an order, or anything signed.
        domain: for which exchange.

    Returns:
        32 bytes, which name the order.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    digest: bytes = secp.digest_of(order, domain.separator)
    return digest


def personal_hash(digest: bytes) -> bytes:
    """Give what personal_sign signs for a hash (EIP-191, decision 12).

    Args:
        digest: the 32 bytes of the hash.

    Raises:
        InvalidFieldError: it has not 32 bytes.
    """
    check_digest(digest)
    hashed: bytes = secp.personal_digest(digest)
    return hashed


def check_digest(digest: object) -> None:
    """Refuse what is not 32 bytes."""
    if type(digest) is not bytes or len(digest) != 32:
        raise InvalidFieldError(f"digest must be 32 bytes, not {show(digest)}")


def check_digests(digests: Sequence[object], count: int) -> None:
    """Refuse what are not so many times 32 bytes."""
    if len(digests) != count:
        raise InvalidFieldError(f"digests must be as many as orders, {count}, not {len(digests)}")
    for digest in digests:
        check_digest(digest)


def recover(digest: bytes, signature: str) -> str:
    """Give the address that signed a digest, whatever the digest is of.

    Args:
        digest: the 32 bytes that were signed.
        signature: 0x and 130 hex digits; v of 0, 1, 27 or 28, and a low s (decision 15).

    Returns:
        The address, as EIP-55 writes it.

    Raises:
        InvalidFieldError: the digest has not 32 bytes.
        InvalidSignatureError: the signature is unusable.
    """
    check_digest(digest)
    found = secp.recover(digest, signature)
    if isinstance(found, bytes):
        address: str = secp.checksummed(found)
        return address
    verdict = Verdict(found)
    raise InvalidSignatureError(describe(verdict, signature), verdict, digest=digest)


def recover_signer(order: Signed, domain: Domain) -> str:
    """Give the address that signed, which need not be the signer that the order names.

    An order of type 0 may be signed in two ways; where neither gives the signer it names, the
    answer is the one for EIP-712.

    Args:
        order: an order, or anything signed.
        domain: for which exchange.

    Returns:
        The address, as EIP-55 writes it.

    Raises:
        InvalidFieldError: a value does not fit its type.
        InvalidSignatureError: the signature is unusable.
    """
    digest = order_hash(order, domain)
    first = recover(digest, order.signature)
    named = order.signer_address.lower()
    if order.signature_kind != 0 or first.lower() == named:
        return first
    second = recover(personal_hash(digest), order.signature)
    return second if second.lower() == named else first


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
    """Check that the signer signed this for this domain, and that he may sign for the maker.

    Args:
        order: an order, or anything signed.
        domain: for which exchange.
        digest: the order's hash where it is known already, as :func:`order_hash` gave it; it saves
            the hashing, and a wrong one is believed.
        profile: what the signature types mean; a :class:`Profile` or its name.
        delegates: says who may sign for whom, in profile ``spec``; without it, nobody for another.
        proxies: says whose proxies and safes wallets are, in profile ``ctf``; without it, nobody's.
        contracts: asks contract wallets; without it, none is believed.

    Raises:
        InvalidFieldError: a value does not fit its type, or the digest has not 32 bytes.
        InvalidSignatureError: the signature is unusable or somebody else's; its ``verdict`` says
            which check failed, in the sequence of :class:`Verdict`.
        SignerNotAuthorisedError: the signer signed, but may not sign for the maker.

    Costs one recovery, about 45 us, or two where an order of type 0 is signed by personal_sign.
    """
    if digest is not None:
        check_digest(digest)
    verdict = secp.judge(order, domain.separator, rules_of(profile), digest)
    if verdict:
        verdict = ask(order, domain, digest, profile, verdict, delegates, proxies, contracts)
    if verdict:
        asked = contracts is not None
        raise refusal(order, domain, digest, profile, Verdict(verdict), asked=asked)


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
    """Check many; a bad one raises nothing. The GIL is released, so that threads share the work.

    Args:
        orders: orders, or anything signed, also mixed.
        domain: for which exchange.
        digests: their hashes where they are known already, one for each, as for :func:`verify`.
        profile: as for :func:`verify`.
        delegates: as for :func:`verify`.
        proxies: as for :func:`verify`.
        contracts: as for :func:`verify`.

    Returns:
        A byte for each, a number of :class:`Verdict`: 0 where :func:`verify` would say nothing.
        ``not any(verdicts)`` says that all are good.

    Raises:
        InvalidFieldError: a digest has not 32 bytes, or there are not as many as orders.
    """
    if digests is not None:
        check_digests(digests, len(orders))
    verdicts: bytes = secp.judge_all(orders, domain.separator, rules_of(profile), digests)
    if not any(verdicts) or (delegates is None and proxies is None and contracts is None):
        return verdicts
    known = repeat(None, len(orders)) if digests is None else digests
    return bytes(
        verdict and ask(order, domain, digest, profile, verdict, delegates, proxies, contracts)
        for order, digest, verdict in zip(orders, known, verdicts, strict=True)
    )


def ask(
    order: Signed,
    domain: Domain,
    digest: bytes | None,
    profile: str,
    verdict: int,
    delegates: Delegates | None,
    proxies: Proxies | None,
    contracts: Contracts | None,
) -> int:
    """Ask those who may still allow what the signature alone does not; give the verdict then."""
    if verdict in (Verdict.INVALID_FIELD, Verdict.UNSUPPORTED_TYPE):
        return verdict
    maker, signer = plain(order.owner_address), plain(order.signer_address)
    if verdict != Verdict.NOT_AUTHORISED:
        by_contract = profile == Profile.SPEC or verdict == Verdict.CONTRACT_WALLET
        if contracts is None or not by_contract:
            return verdict
        signature = order.signature
        if type(signature) is not str or not fields.HEX_BYTES.fullmatch(signature):
            return verdict
        asked = order_hash(order, domain) if digest is None else digest
        if not contracts(signer, asked, bytes.fromhex(signature[2:])):
            return verdict
        if signer == maker:
            return Verdict.VALID
    if profile == Profile.SPEC:
        allowed = delegates is not None and delegates(maker, signer)
    else:
        kind = order.signature_kind
        allowed = proxies is not None and kind in (1, 2) and proxies(maker, signer, kind)
    return Verdict.VALID if allowed else Verdict.NOT_AUTHORISED
