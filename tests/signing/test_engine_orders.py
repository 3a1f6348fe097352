"""Signed orders converted to engine orders and matched: decisions 2, 16, 18 to 21 and 26."""

import msgspec
import pytest

from clob import (
    Cancel,
    Funds,
    OrderRemoved,
    OrderStatus,
    RemovalReason,
    SelfTrade,
    SetNonce,
    Side,
    Submit,
    TimeInForce,
    Trade,
    tokens,
)
from clob.errors import (
    InvalidAmountError,
    InvalidFeeRateError,
    InvalidSideError,
    NonceTooLowError,
    NotTheMakerError,
    OrderAlreadyUsedError,
    OrderExpiredError,
    PriceOutOfRangeError,
    TokenNotInMarketError,
)
from clob.order import Order
from clob.signing import (
    InvalidAddressError,
    InvalidSignatureError,
    SignedCancel,
    SignedOrder,
    SignedSetDelegate,
    SignedSetNonce,
    SignerNotAuthorisedError,
    TakerNotSupportedError,
    TimestampOutOfWindowError,
    order_hash,
    sign,
    to_order,
    verify,
)
from tests.matchers import funded, market, opened, rejected
from tests.signings import DOMAIN, KEYS, address_of

ALICE, BOB = KEYS[:2]
YES, NO = 2**255 + 7, 3
RAIN = market("rain", yes=str(YES), no=str(NO), funds=Funds.ACCOUNTS)
SIZE = tokens(100)
OPERATOR = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65"
BIG = 2**256 - 1


def order(side=Side.BUY, price=50, size=SIZE, *, key=ALICE, **fields):
    """Return a signed order."""
    fields = {"maker": address_of(key), "token_id": YES, "salt": 1} | fields
    unsigned = SignedOrder.from_price_size(side=side, price=price, size=size, **fields)
    return sign(unsigned, DOMAIN, key)


def changed(**fields):
    """Return an order with changed fields; conversion does not check the signature."""
    return msgspec.structs.replace(order(), **fields)


def rejection(signed, error, path, **how):
    """Assert a rejection of exactly this class and path; return its message."""
    with pytest.raises(error) as caught:
        to_order(signed, id="a", **how)
    assert (type(caught.value), caught.value.path) == (error, path)
    return str(caught.value)


# ----- field by field ------------------------------------------------------------------------


def test_a_buy_field_by_field():
    signed = SignedOrder(
        salt="a text",
        maker=address_of(ALICE),
        signer=address_of(BOB),
        token_id=YES,
        maker_amount=tokens(33),
        taker_amount=tokens(100),
        expiration_s=1_900_000_000,
        nonce=BIG,
        fee_rate_bps=1_000,
        side=0,
        signature_type=0,
    )
    made = to_order(signed, id="ord_1_abc")
    assert made == Order(
        id="ord_1_abc",
        token=str(YES),
        maker="0xe05fcC23807536bEe418f142D19fa0d21BB0cfF7",
        side=Side.BUY,
        price=33,
        size=tokens(100),
        expiration_s=1_900_000_000,
        nonce=BIG,
        collateral=tokens(33),
        fee_rate_bps=1_000,
    )
    assert type(made.side) is Side


def test_a_sell_names_its_tokens_first():
    signed = order(Side.SELL, 33, 7)
    assert (signed.maker_amount, signed.taker_amount) == (7, 2)
    made = to_order(msgspec.structs.replace(signed, maker_amount=700, taker_amount=231), id=5)
    assert (made.id, made.side, made.price, made.size, made.collateral) == (
        (5, Side.SELL, 33, 700, 231)
    )


def test_unsigned_options_are_passed_on():
    free = {
        "time_in_force": TimeInForce.GTD,
        "post_only": True,
        "self_trade": SelfTrade.CANCEL_BOTH,
        "smart_wallet": OPERATOR,
    }
    signed = order(expiration_s=9)
    made = to_order(signed, id="a", **free)
    assert {name: getattr(made, name) for name in free} == free
    assert to_order(signed, id="a") == msgspec.structs.replace(
        made, time_in_force=TimeInForce.GTC, post_only=False, self_trade=None, smart_wallet=""
    )


def test_the_maker_is_checksummed():
    upper = f"0x{address_of(ALICE)[2:].upper()}"
    for maker in (address_of(ALICE).lower(), upper, address_of(ALICE)):
        assert to_order(changed(maker=maker), id="a").maker == address_of(ALICE)
    rejection(changed(maker="0xA11CE"), InvalidAddressError, "maker")
    rejection(changed(taker=address_of(ALICE).swapcase()), InvalidAddressError, "taker")


def test_the_collateral_is_the_signed_amount():
    """A client whose amount is a few wei off the cent pays and receives the signed amount."""
    for amount in (tokens(50) - 1, tokens(50), tokens(50) + 10):
        made = to_order(changed(maker_amount=amount), id="a")
        assert (made.price, made.collateral) == (50, amount)
    assert to_order(changed(maker_amount=tokens(50) - 1), id="a", settles=True).price == 49
    message = rejection(changed(maker_amount=tokens(50) - 1), InvalidAmountError, "makerAmount",
                   strict=True)  # fmt: skip
    assert f"{tokens(50)} for {tokens(100)} (50 cents)" in message


def test_amounts_and_sides_are_rejected_as_by_price_and_size():
    rejection(changed(side=2), InvalidSideError, "side")
    rejection(changed(taker_amount=0), InvalidAmountError, "takerAmount")
    rejection(changed(maker_amount=tokens(100)), PriceOutOfRangeError, "makerAmount")


@pytest.mark.parametrize("operators", [(), [OPERATOR], {OPERATOR: 1}, frozenset({OPERATOR})])
def test_decision_19_taker(operators):
    """Zero address or the operator; otherwise 422 TAKER_NOT_SUPPORTED."""
    assert to_order(changed(taker=f"0x{0:040x}"), id="a", operators=operators)
    for taker in (OPERATOR, OPERATOR.lower()):
        if operators:
            assert to_order(changed(taker=taker), id="a", operators=operators)
        else:
            message = rejection(changed(taker=taker), TakerNotSupportedError, "taker")
            assert OPERATOR in message
    another = changed(taker=address_of(BOB))
    rejection(another, TakerNotSupportedError, "taker", operators=operators)


def test_decision_20_fee_rate():
    """At most 1000 in."""
    for rate in (0, 1, 1_000):
        assert to_order(changed(fee_rate_bps=rate), id="a").fee_rate_bps == rate
    for rate in (1_001, -1, BIG, None, "5", 1.0, True):
        message = rejection(changed(fee_rate_bps=rate), InvalidFeeRateError, "feeRateBps")
        assert "0 to 1000" in message


def test_the_side_defaults_to_buy_in_json():
    """Decision 21: BUY; the signature binds it anyway."""
    written = order().to_json()
    del written["side"]
    read = SignedOrder.from_json(written)
    verify(read, DOMAIN)
    assert to_order(read, id="a").side is Side.BUY


# ----- through a matcher ---------------------------------------------------------------------


@pytest.fixture
def matcher(matcher_class):
    """A matcher with a market, and two wallets with 1,000 units of collateral and both tokens."""
    wallets = (address_of(ALICE), address_of(BOB))
    return funded(opened(matcher_class, RAIN), wallets, tokens(1_000),
                  ("collateral", str(YES), str(NO)))  # fmt: skip


def submit(signed, order_id, *, now_ms=0, **how):
    """Verify a signed order and return its command, as a server does."""
    verify(signed, DOMAIN)
    return Submit(
        market="rain",
        order=to_order(signed, id=order_id, **how),
        order_hash=order_hash(signed, DOMAIN),
        now_ms=now_ms,
    )


def test_signed_orders_of_two_wallets_trade(matcher):
    matcher.apply(submit(order(Side.SELL, 40, key=BOB), "s"))
    events = matcher.apply(submit(order(Side.BUY, 60, tokens(25)), "b"))
    (trade,) = [event for event in events if isinstance(event, Trade)]
    assert (trade.buyer, trade.seller) == (address_of(ALICE), address_of(BOB))
    assert (trade.token, trade.price, trade.size) == (str(YES), 40, tokens(25))
    assert matcher.balance(address_of(ALICE), "collateral").available == tokens(990)
    assert matcher.balance(address_of(ALICE), str(YES)).balance == tokens(1_025)
    assert matcher.balance(address_of(BOB), "collateral").balance == tokens(1_010)


def test_the_same_signed_order_is_rejected_a_second_time(matcher):
    signed = order()
    matcher.apply(submit(signed, "a"))
    with rejected(matcher, OrderAlreadyUsedError, "'a'"):
        matcher.apply(submit(signed, "b"))
    # The same order in another spelling.
    letters = f"0x{signed.signature[2:].upper()}"
    written = signed.to_json() | {"signature": letters, "salt": "0x1", "side": "BUY",
                                  "maker": signed.maker.lower()}  # fmt: skip
    assert order_hash(SignedOrder.from_json(written), DOMAIN) == order_hash(signed, DOMAIN)
    with rejected(matcher, OrderAlreadyUsedError, "'a'"):
        matcher.apply(submit(SignedOrder.from_json(written), "c"))
    assert matcher.order_by_hash(order_hash(signed, DOMAIN)).order.id == "a"
    # With another salt it is another order.
    matcher.apply(submit(order(salt=2), "d"))
    assert len(matcher) == 2


def test_decision_02_a_sell_is_filled_by_its_signed_collateral(matcher):
    """SELL: floor(filledTokens * takerAmount / makerAmount), and exactly takerAmount when
    complete."""
    # One wei more than 33 cents, which off a chain is still 33.
    amount = tokens(33) + 1
    unsigned = msgspec.structs.replace(order(Side.SELL, 33, key=BOB), taker_amount=amount)
    matcher.apply(submit(sign(unsigned, DOMAIN, BOB), "s"))
    matcher.apply(submit(order(Side.BUY, 33, tokens(50)), "b1"))
    half = matcher.order("s")
    assert (half.status, half.filled_amount) == (OrderStatus.PARTIAL, amount // 2)
    matcher.apply(submit(order(Side.BUY, 90, tokens(50)), "b2"))
    whole = matcher.order("s")
    assert (whole.status, whole.filled, whole.filled_amount) == (
        (OrderStatus.FILLED, tokens(100), amount)
    )
    assert matcher.order("b1").filled_amount == tokens(50)


def test_another_token_and_an_expired_order_are_rejected(matcher):
    with rejected(matcher, TokenNotInMarketError):
        matcher.apply(submit(order(token_id=4), "a"))
    late = submit(order(expiration_s=9), "a", now_ms=10_000)
    with rejected(matcher, OrderExpiredError, 9):
        matcher.apply(late)
    matcher.apply(submit(order(expiration_s=10), "a", now_ms=10_000))


# ----- the other signed messages -------------------------------------------------------------


def test_decision_18_a_signed_nonce_cancels_lower_ones(matcher):
    """Lower than the maker's current nonce is rejected; raising it cancels resting orders below
    it."""
    for nonce in (4, 5, BIG):
        matcher.apply(submit(order(nonce=nonce), f"a{nonce}"))
    signed = sign(SignedSetNonce(maker=address_of(ALICE), nonce=5), DOMAIN, ALICE)
    verify(signed, DOMAIN)
    assert signed.to_command(7) == SetNonce(maker=address_of(ALICE), nonce=5, now_ms=7)
    (removed,) = matcher.apply(signed.to_command(7))
    assert type(removed) is OrderRemoved
    assert (removed.order_id, removed.reason) == ("a4", RemovalReason.NONCE)
    with rejected(matcher, NonceTooLowError):
        matcher.apply(submit(order(nonce=4, salt=2), "b", now_ms=7))
    with rejected(matcher, NonceTooLowError):
        matcher.apply(
            sign(SignedSetNonce(maker=signed.maker, nonce=4), DOMAIN, ALICE).to_command(8)
        )


def test_decision_26_a_signed_cancel_removes_the_makers_order(matcher):
    """An EIP-712 Cancel(string orderId,address maker,uint256 timestamp) signature; 403 not the
    maker."""
    matcher.apply(submit(order(), "a"))
    fields = {"order_id": "a", "timestamp_ms": 1_000}
    by_bob = sign(SignedCancel(maker=address_of(BOB), **fields), DOMAIN, BOB)
    verify(by_bob, DOMAIN)
    with rejected(matcher, NotTheMakerError):
        matcher.apply(by_bob.to_command(1_000))
    signed = sign(SignedCancel(maker=address_of(ALICE), **fields), DOMAIN, ALICE)
    verify(signed, DOMAIN)
    command = signed.to_command(1_500, market="rain")
    assert command == Cancel(market="rain", order_id="a", maker=signed.maker, now_ms=1_500)
    (removed,) = matcher.apply(command)
    assert (removed.order_id, removed.reason) == ("a", RemovalReason.CANCELLED)


@pytest.mark.parametrize(("window", "limit"), [({}, 60_000), ({"window_ms": 5}, 5)])
def test_decision_26_a_cancel_is_valid_within_its_window(window, limit):
    """Timestamp in Unix ms within 60 s of the server's clock (else 422 TIMESTAMP_OUT_OF_WINDOW)."""
    signed = SignedCancel(order_id="a", maker=address_of(ALICE), timestamp_ms=1_000_000)
    for now_ms in (1_000_000 - limit, 1_000_000, 1_000_000 + limit):
        assert signed.to_command(now_ms, **window).now_ms == now_ms
    for now_ms in (1_000_000 - limit - 1, 1_000_000 + limit + 1):
        with pytest.raises(TimestampOutOfWindowError, match=f"{limit} ms of {now_ms}") as caught:
            signed.to_command(now_ms, **window)
        assert caught.value.path == "timestamp"


def test_decision_16_an_allowed_delegate_trades_for_the_maker(matcher):
    """Needs an explicit authorisation; rejected by default."""
    allowed = {}

    def apply(message):
        verify(message, DOMAIN)
        allowed[message.maker, message.delegate] = message.allowed

    signed = sign(order(signer=address_of(BOB)), DOMAIN, BOB)

    def check():
        verify(signed, DOMAIN, delegates=lambda *pair: allowed.get(pair, False))

    with pytest.raises(SignerNotAuthorisedError):
        check()
    pair = {"maker": address_of(ALICE), "delegate": address_of(BOB)}
    for nonce, yes in ((1, True), (2, False)):
        message = SignedSetDelegate(allowed=yes, nonce=nonce, **pair)
        with pytest.raises(InvalidSignatureError):
            apply(sign(message, DOMAIN, BOB))
        apply(sign(message, DOMAIN, ALICE))
        if yes:
            check()
            made = to_order(signed, id="a")
            matcher.apply(Submit(market="rain", order=made, order_hash=order_hash(signed, DOMAIN)))
            assert matcher.order("a").order.maker == address_of(ALICE)
    with pytest.raises(SignerNotAuthorisedError):
        check()
