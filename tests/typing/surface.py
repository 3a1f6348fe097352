"""Types of the public names; mypy checks this file, nothing runs it."""

from collections.abc import Mapping
from typing import Any, ClassVar, assert_type

from clob import (
    Ahead,
    Batch,
    Book,
    Cancel,
    CancelSome,
    Depth,
    Event,
    Level,
    Order,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    Reduce,
    Rejected,
    SetNonce,
    Side,
    TimeInForce,
    Trade,
    tokens,
)
from clob.journal import Recorder
from clob.signing import (
    BACKEND,
    KNOWN_DOMAINS,
    ORDER,
    ZERO_ADDRESS,
    Domain,
    Explanation,
    Field,
    InvalidFieldError,
    InvalidSignatureError,
    PriceSize,
    Profile,
    Schema,
    Signed,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    Verdict,
    Written,
    amounts_of,
    explain,
    keccak256,
    order_hash,
    personal_hash,
    price_and_size,
    recover,
    recover_signer,
    salt_number,
    sign,
    to_order,
    typed_data,
    verify,
    verify_batch,
)

book = Book(lo=1, hi=99, token="101")
order = Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=tokens(60))

assert_type(tokens("0.5"), int)
assert_type(order.id, str | int)
assert_type(order.time_in_force, TimeInForce)

assert_type(book.submit(order, now_ms=1), list[Event])
assert_type(book.rest(order), list[Event])
assert_type(book.cancel("a"), list[Event])
assert_type(book.reduce("a", size=1), list[Event])
assert_type(book.replace("a", price=2, size=1), list[Event])
assert_type(book.expire(now_ms=1), list[Event])
assert_type(book.clear(), list[Event])
assert_type(book.simulate(order), list[Trade])
assert_type(book.fork(), Book)
assert_type(book.state_hash(), bytes)
assert_type(book.state_bytes(), bytes)
assert_type(book.best_bid, int | None)
assert_type(book.seq, int)
assert_type(book.ahead("a"), Ahead)
assert_type(book.depth(), Depth)
assert_type(book.depth().bids, tuple[Level, ...])


def size_of(event: Event) -> int:
    """Handle every kind of event; the checker rejects a missing one."""
    match event:
        case OrderAdded(remaining=size) | OrderReduced(remaining=size):
            return assert_type(size, int)
        case OrderRemoved(remaining=size) | Trade(size=size):
            return assert_type(size, int)


Order(id="a", token="101", maker="", side=0, price=1, size=1)  # type: ignore[arg-type]
Order("a", "101", "", Side.BUY, 1, 1)  # type: ignore[call-arg]
book.submit(order).append(1)  # type: ignore[arg-type]

# ----- signed orders -------------------------------------------------------------------------

domain = Domain("clob", "1", 31337)
assert_type(domain.separator, bytes)
assert_type(domain.verifying_contract, str | None)
assert_type(KNOWN_DOMAINS, tuple[Domain, ...])
assert_type(BACKEND, str)


def read(body: Mapping[str, Any]) -> SignedOrder:
    """Check that ``from_json`` returns the class it is called on."""
    assert_type(SignedCancel.from_json(body), SignedCancel)
    assert_type(SignedSetNonce.from_json(body).to_command(1), SetNonce)
    assert_type(SignedCancelAll.from_json(body).to_command(1), CancelSome)
    assert_type(SignedReduce.from_json(body).to_command(1), Reduce)
    return assert_type(SignedOrder.from_json(body), SignedOrder)


signed = SignedOrder.from_price_size(
    side=Side.BUY,
    price=50,
    size=tokens(60),
    maker="0xA11CE",
    taker=ZERO_ADDRESS,
    token_id=101,
    salt="a",
)
cancel = SignedCancel(order_id="a", maker="0xA11CE", timestamp_ms=1)
delegate = SignedSetDelegate(maker="0xA11CE", delegate="0xB0B", allowed=True, nonce=1)
assert_type(signed.salt, int | str)
assert_type(signed.to_json(), dict[str, object])
assert_type(cancel.to_command(1, market="rain"), Cancel)
assert_type(sign(signed, domain, "0x01"), SignedOrder)
assert_type(sign(delegate, domain, b"", profile=Profile.CTF), SignedSetDelegate)
assert_type(typed_data(cancel, domain), dict[str, Any])
assert_type(order_hash(signed, domain), bytes)
assert_type(personal_hash(b""), bytes)
assert_type(keccak256(b""), bytes)
assert_type(recover(b"", signed.signature), str)
assert_type(recover_signer(signed, domain), str)
assert_type(verify_batch([signed, cancel], domain, profile="ctf"), bytes)
assert_type(explain(signed, [domain, *KNOWN_DOMAINS]), Explanation)
assert_type(explain(cancel, domain).domain, Domain | None)
assert_type(to_order(signed, id=1, operators={"0xA11CE"}), Order)
assert_type(price_and_size(Side.BUY, 30, 60, strict=True), PriceSize)
assert_type(price_and_size(1, 60, 30).price, int)
assert_type(amounts_of(Side.SELL, 50, 60), tuple[int, int])
assert_type(salt_number("a"), int)
assert_type(Verdict(verify_batch([signed], domain)[0]), Verdict)


def may_sign(maker: str, signer: str) -> bool:
    """Return whether a signer may sign for a maker."""
    return maker == signer


def owns(maker: str, signer: str, signature_type: int) -> bool:
    """Return whether the maker is a proxy or safe of the signer."""
    return maker == signer and signature_type == 1


def is_valid(wallet: str, digest: bytes, signature: bytes) -> bool:
    """Return whether a contract wallet accepts a signature."""
    return bool(wallet and digest and signature)


def rejection_of(order: Signed) -> Verdict | str | None:
    """Check the attributes of the errors."""
    try:
        verify(order, domain, delegates=may_sign, proxies=owns, contracts=is_valid)
    except InvalidSignatureError as error:
        assert_type(error.digest, bytes | None)
        assert_type(error.recovered, str | None)
        return assert_type(error.verdict, Verdict)
    except InvalidFieldError as error:
        return assert_type(error.path, str | None)
    return None


class Quote(Signed, frozen=True, kw_only=True):
    """A signed struct defined by a user."""

    SCHEMA: ClassVar[Schema] = Schema(
        "Quote", (ORDER.fields[1], Field("price", "uint8", "price", written=Written.NUMBER))
    )
    maker: str
    price: int


assert_type(sign(Quote(maker="0xA11CE", price=50), domain, "0x01").price, int)

SignedOrder(maker="0xA11CE")  # type: ignore[call-arg]
verify(signed, domain, delegates=is_valid)  # type: ignore[arg-type]
sign(order, domain, "0x01")  # type: ignore[type-var]
to_order(cancel, id="a")  # type: ignore[arg-type]

recorder = Recorder.resume(b"")
assert_type(recorder, Recorder)
assert_type(recorder.resumed_bytes, int)
assert_type(recorder.apply(Cancel(order_id="a")), list[Event])
assert_type(recorder.apply(Batch(commands=())), list[Event | Rejected])
assert_type(recorder.matcher.apply(Batch(commands=())), list[Event | Rejected])
assert_type(Book.restore(book.state_bytes()), Book)
