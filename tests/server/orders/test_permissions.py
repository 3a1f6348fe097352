"""Permissions, balances and cancels on the chain for orders in markets that settle."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from clob import Mode, SetMode
from clob.errors import (
    InsufficientBalanceError,
    MarketNotOpenError,
    PriceOutOfRangeError,
    UnknownMarketError,
)
from clob.signing import SignerNotAuthorisedError, TakerNotSupportedError
from clob_server.api.problems import ApiError
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.events import WalletHolding, escrow_asset
from clob_server.core.commands import FollowChain, SetDelegate, StallMarket
from clob_server.core.rejections import MarketStalledError
from clob_server.orders.auto_open import AutoOpening
from clob_server.orders.preview import OrderPreview
from tests.chain.exchange.comparison import ALICE, BOB, CAROL, SAFE, Comparison, amounts
from tests.chain.exchange.evm_market import BUY, ONE, SELL
from tests.signings import DOMAIN, EXCHANGE

CALL = SimpleNamespace(key=None)
"""A request without a key."""


@pytest.fixture
def beside():
    """The order path of a server, without a contract."""
    venue = SimpleNamespace(domain=DOMAIN, wrapped=SAFE, yes=11, no=12, salt=0)
    return Comparison(venue)


def preview(beside):
    """Return the preview of orders over a server's state."""
    return OrderPreview(
        beside.placement, AutoOpening(beside.exchange, 10, 10), lambda: beside.now_ms
    )


def takes_back(beside, kind, owner, other):
    """Revoke a permission on the chain."""
    permissions = ((kind, owner, other, False),)
    beside.do(FollowChain, block=2, hash="0x2", permissions=permissions)


def bid(beside, **fields):
    return beside.signed(ALICE, BUY, *amounts(BUY, 5 * ONE, 10 * ONE), **fields)


def assert_rejected(beside, body, code, *words):
    """Assert that an order is rejected with this code and these words and changes nothing."""
    before = beside.exchange.snapshot()
    outcome = beside.place(body)
    assert outcome.code == code
    for word in words:
        assert word in str(outcome)
    beside.exchange.num_orders -= beside.exchange.snapshot() != before
    assert beside.exchange.snapshot() == before


def test_delegate_must_be_allowed_on_the_chain(beside):
    assert beside.place(bid(beside, signer=BOB))
    takes_back(beside, "delegate", ALICE, BOB)
    words = f"{ALICE} must call setDelegate({BOB}, true) at {EXCHANGE}"
    body = bid(beside, signer=BOB)
    assert_rejected(beside, body, "SIGNER_NOT_AUTHORISED", words, "the digest to sign is 0x")


def test_delegate_of_the_server_signs_only_in_other_markets(beside):
    takes_back(beside, "delegate", ALICE, BOB)
    beside.do(SetDelegate, maker=ALICE, delegate=BOB, allowed=True, nonce="0")
    assert_rejected(beside, bid(beside, signer=BOB), "SIGNER_NOT_AUTHORISED", "setDelegate")
    other_market = {**bid(beside, signer=BOB), "marketId": "elsewhere"}
    beside.placement.check_signature(beside.placement.read(other_market))


def test_error_in_other_markets_does_not_mention_the_contract(beside):
    body = {**bid(beside, signer=CAROL), "marketId": "elsewhere"}
    with pytest.raises(SignerNotAuthorisedError) as caught:
        beside.placement.check_signature(beside.placement.read(body))
    assert "setDelegate" not in str(caught.value)


def test_unsigned_order_needs_the_gasless_permission(beside):
    body = beside.unsigned(ALICE, BUY, 50, ONE)
    words = f"without a signature {ALICE} must call setGasless(true) at {EXCHANGE}"
    assert_rejected(beside, body, "GASLESS_NOT_ALLOWED", words)
    assert beside.place(beside.unsigned(CAROL, BUY, 50, ONE))
    takes_back(beside, "gasless", CAROL, CAROL)
    assert_rejected(beside, beside.unsigned(CAROL, BUY, 50, ONE), "GASLESS_NOT_ALLOWED", CAROL)


def test_paying_wallet_must_allow_the_maker(beside):
    body = beside.unsigned(CAROL, BUY, 50, ONE, wallet=BOB)
    words = f"to pay for {CAROL}, {BOB} must call setPayer"
    assert_rejected(beside, body, "WALLET_NOT_ALLOWED", words)
    assert beside.place(beside.unsigned(CAROL, BUY, 50, ONE, wallet=SAFE))
    takes_back(beside, "payer", SAFE, CAROL)
    body = beside.unsigned(CAROL, BUY, 50, ONE, wallet=SAFE)
    assert_rejected(beside, body, "WALLET_NOT_ALLOWED", f"setPayer({CAROL}, true) at {EXCHANGE}")
    assert beside.place(beside.unsigned(CAROL, BUY, 50, ONE, wallet=CAROL))
    assert beside.place(beside.unsigned(CAROL, SELL, 60, ONE, wallet=SAFE))


def test_seller_must_allow_another_payee(beside):
    body = beside.unsigned(CAROL, SELL, 50, ONE, wallet=BOB)
    words = f"for {BOB} to be paid, {CAROL} must call setPayee({BOB}, true) at {EXCHANGE}"
    assert_rejected(beside, body, "WALLET_NOT_ALLOWED", words)
    assert beside.place(beside.unsigned(CAROL, SELL, 50, ONE, wallet=SAFE))
    takes_back(beside, "payee", CAROL, SAFE)
    body = beside.unsigned(CAROL, SELL, 50, ONE, wallet=SAFE)
    assert_rejected(beside, body, "WALLET_NOT_ALLOWED")
    assert beside.place(beside.unsigned(CAROL, BUY, 40, ONE, wallet=SAFE))


def test_signed_order_names_a_wallet_that_the_contract_knows(beside):
    """The signature does not cover the wallet, so the contract's permission decides."""
    terms = amounts(BUY, 5 * ONE, 10 * ONE)
    known = {**beside.signed(CAROL, BUY, *terms), "smartWallet": SAFE}
    [added] = beside.place(known)
    assert beside.exchange.matcher.order(added.order_id).order.smart_wallet == SAFE
    assert beside.exchange.matcher.balance(SAFE, SAFE).reserved == 5 * ONE
    assert beside.place({**beside.signed(CAROL, SELL, *terms[::-1]), "smartWallet": SAFE})
    unknown = {**beside.signed(CAROL, BUY, *terms), "smartWallet": BOB}
    assert_rejected(beside, unknown, "WALLET_NOT_ALLOWED", f"{BOB} must call setPayer({CAROL}")
    unknown = {**beside.signed(CAROL, SELL, *terms[::-1]), "smartWallet": BOB}
    assert_rejected(beside, unknown, "WALLET_NOT_ALLOWED", f"{CAROL} must call setPayee({BOB}")
    takes_back(beside, "payer", SAFE, CAROL)
    again = {**beside.signed(CAROL, BUY, *terms), "smartWallet": SAFE}
    assert_rejected(beside, again, "WALLET_NOT_ALLOWED", "setPayer")


def test_signed_order_in_other_markets_names_no_wallet(beside):
    body = {**bid(beside), "smartWallet": SAFE, "marketId": "elsewhere"}
    with pytest.raises(ApiError, match="smartWallet must be the maker or absent"):
        beside.placement.read_signed(body)


def test_other_markets_need_no_permissions(beside):
    body = {**beside.unsigned(ALICE, BUY, 50, ONE, wallet=BOB), "marketId": "elsewhere"}
    assert beside.placement.read(body).order.smart_wallet == BOB


def test_order_cancelled_on_the_chain_is_rejected(beside):
    late, early = ({"marketId": "rain", **bid(beside)} for _ in "ab")
    hashes = [beside.placement.read_signed(body).order_hash for body in (late, early)]
    assert beside.place(early)
    names = tuple(f"0x{each.hex()}" for each in hashes)
    beside.do(FollowChain, block=2, hash="0x2", cancelled=names)
    assert_rejected(beside, late, "ORDER_CANCELLED", names[0], "cancelled on the chain")
    repeated = beside.placement.read_signed(
        early
    )  # placed before the cancel, so a repeat returns it
    assert repeated.order_hash == hashes[1]


def test_taker_must_be_the_operator(beside):
    assert beside.place(bid(beside, taker=OPERATOR.address))
    body = {"marketId": "rain", **bid(beside, taker=BOB)}
    with pytest.raises(TakerNotSupportedError):
        beside.placement.read_signed(body)


def test_price_is_computed_as_by_the_contract(beside):
    body = beside.signed(ALICE, BUY, *amounts(BUY, 5 * ONE - 1_000, 10 * ONE))
    [added] = beside.place(body)
    assert added.price == 49
    assert beside.placement.read_signed({**body, "marketId": "elsewhere"}).order.price == 50
    tiny = beside.signed(ALICE, BUY, *amounts(BUY, ONE // 100 - 1_000, ONE))
    with pytest.raises(PriceOutOfRangeError):
        beside.placement.read_signed({**tiny, "marketId": "rain"})


def test_order_needs_the_balance_on_the_chain(beside):
    big = beside.signed(ALICE, SELL, *amounts(SELL, 600 * ONE, 1_200 * ONE))
    outcome = beside.place(big)
    assert isinstance(outcome, InsufficientBalanceError)
    expected = f"has {1_000 * ONE} wei of '11' available, {1_200 * ONE} needed; 0 reserved"
    assert expected in str(outcome)


def test_preview_applies_the_same_rules(beside):
    beside.place(beside.signed(BOB, SELL, *amounts(SELL, 2 * ONE, 4 * ONE)))
    reply = preview(beside).simulate(CALL, {"marketId": "rain", **bid(beside)})
    assert (reply.matched, reply.filled_tokens) == (True, str(4 * ONE))
    with pytest.raises(ApiError, match="setGasless"):
        preview(beside).simulate(CALL, {"marketId": "rain", **beside.unsigned(ALICE, BUY, 50, ONE)})


def test_preview_states_no_balance_without_the_signature(beside):
    """Only the maker's signature, or a key bound to the maker, shows its balance."""
    beside.place(beside.signed(BOB, SELL, *amounts(SELL, 2 * ONE, 4 * ONE)))
    big = {"marketId": "rain", **beside.signed(ALICE, BUY, *amounts(BUY, 4_000 * ONE, 8_000 * ONE))}
    junk = {**big, "signature": bid(beside)["signature"]}
    with pytest.raises(InsufficientBalanceError, match=f"has {1_000 * ONE} wei"):
        preview(beside).simulate(CALL, big)
    reply = preview(beside).simulate(CALL, junk)
    assert (reply.filled_tokens, reply.account_checked) == (str(4 * ONE), False)
    key = SimpleNamespace(scopes=("trade",), makers=(ALICE,))
    with pytest.raises(InsufficientBalanceError):
        preview(beside).simulate(SimpleNamespace(key=key), junk)
    for other in ({"scopes": ("read",)}, {"makers": (BOB,)}):
        call = SimpleNamespace(key=SimpleNamespace(**vars(key) | other))
        assert not preview(beside).simulate(call, junk).account_checked


async def test_validation_of_a_wrong_signature_states_no_balance(beside):
    big = {"marketId": "rain", **beside.signed(ALICE, BUY, *amounts(BUY, 4_000 * ONE, 8_000 * ONE))}
    call = SimpleNamespace(key=None, request_id="1")
    reply = await preview(beside).validate(call, big)
    assert reply.rejection["code"] == "INSUFFICIENT_BALANCE"
    reply = await preview(beside).validate(call, {**big, "signature": bid(beside)["signature"]})
    assert reply.rejection["code"] == "INVALID_SIGNATURE"
    assert str(1_000 * ONE) not in str(reply.rejection)


def test_order_read_before_its_market_opened_is_rejected(beside):
    """The order was checked by the rules of a market that does not settle."""
    opened = beside.exchange.markets.pop("rain")
    body = {"marketId": "rain", **beside.unsigned(ALICE, BUY, 50, ONE)}
    late = beside.placement.read(body)
    beside.exchange.markets["rain"] = opened
    assert late.opens_market
    with pytest.raises(UnknownMarketError, match="has just opened"):
        AutoOpening(beside.exchange, 10, 10)(late.new().submit, b"", {}, beside.now_ms)


# ----- markets that stopped ------------------------------------------------------------------


def test_order_in_a_market_that_stopped_gets_the_reason(beside):
    beside.place(beside.signed(BOB, SELL, *amounts(SELL, 2 * ONE, 4 * ONE)))
    beside.do(SetMode, market="rain", mode=Mode.CANCEL_ONLY)
    body, words = bid(beside), "accepts cancels only until it opens again by itself: late"
    with pytest.raises(MarketNotOpenError):
        preview(beside).simulate(CALL, {"marketId": "rain", **body})
    beside.do(StallMarket, market="rain", reason="late")
    with pytest.raises(MarketStalledError, match=words):
        preview(beside).simulate(CALL, {"marketId": "rain", **body})
    rejection = beside.place(body)
    order = beside.placement.read({"marketId": "rain", **body}).order
    assert beside.placement.explained(order, "rain", rejection).code == "MARKET_STALLED"
    beside.do(SetMode, market="rain", mode=Mode.HALTED)
    with pytest.raises(MarketNotOpenError):
        preview(beside).simulate(CALL, {"marketId": "rain", **body})


# ----- missing funds -------------------------------------------------------------------------

USD = "the collateral"


def remedy(beside, side, holding):
    """Return the text of the rejection of a big order, given the last report of its account."""
    amounts_ = amounts(side, 4_000 * ONE, 8_000 * ONE)
    body = {"marketId": "rain", **beside.signed(ALICE, side, *amounts_)}
    beside.placement.holding = lambda wallet, asset: holding
    with pytest.raises(InsufficientBalanceError) as caught:
        preview(beside).simulate(CALL, body)
    return str(caught.value)


def report(balance, approved):
    """Return the report of an account of collateral."""
    return WalletHolding(
        wallet=ALICE, asset=USD, amount=str(min(balance, approved)),
        balance=str(balance), approved=str(approved),
    )  # fmt: skip


@pytest.mark.parametrize(("holding", "says", "calls"), [
    (None, "has no approval and no balance", ("approve",)),
    (report(9_000 * ONE, 0), f"a balance of {9_000 * ONE} wei and approved 0 wei", ("approve",)),
    (report(9_000 * ONE, ONE), f"and approved {ONE} wei", ("approve",)),
    (report(ONE, 2**200), f"a balance of {ONE} wei", ("faucet",)),
    (report(ONE, ONE), f"a balance of {ONE} wei and approved {ONE} wei", ("approve", "faucet")),
    (report(9_000 * ONE, 9_000 * ONE), f"and approved {9_000 * ONE} wei", ()),
])  # fmt: skip
def test_missing_collateral_tells_balance_and_approval_apart(beside, holding, says, calls):
    text = remedy(beside, BUY, holding)
    assert says in text
    assert (f"approve({EXCHANGE}, {4_000 * ONE})" in text) is ("approve" in calls)
    assert ("POST /api/gasless/faucet" in text) is ("faucet" in calls)


@pytest.mark.parametrize("side", [BUY, SELL])
@pytest.mark.parametrize("is_reported", [True, False])
def test_missing_escrow_names_the_deposit(beside, side, is_reported):
    terms = replace(beside.exchange.markets["rain"], collateral=escrow_asset(SAFE))
    order = beside.placement.read(
        {"marketId": "rain", **beside.unsigned(CAROL, side, 50, ONE)}
    ).order
    holding = WalletHolding(wallet=CAROL, asset="11", amount="3", balance="7", requested="4")
    rejection = beside.placement.permissions.with_remedy(
        order, terms, InsufficientBalanceError("too little"), holding if is_reported else None
    )
    asset, needed = ("0", ONE // 2) if side is BUY else ("11", ONE)
    assert f"deposit({CAROL}, {asset}, {needed}) or more at {EXCHANGE}" in str(rejection)
    assert "POST /api/gasless/deposit" in str(rejection)
    assert "approve" not in str(rejection)
    state = "has 7 wei in escrow and requested 4 wei of it back"
    assert (state in str(rejection)) is is_reported


@pytest.mark.parametrize("amount", [None, 0, ONE])
def test_missing_tokens_name_the_approval_and_the_split(beside, amount):
    holding = None
    if amount is not None:
        holding = WalletHolding(wallet=ALICE, asset="11", amount=str(amount))
    text = remedy(beside, SELL, holding)
    assert (f"setApprovalForAll({EXCHANGE}, true)" in text) is (not amount)
    assert "POST /api/gasless/split" in text
