"""Fills that a maker did not sign or allow are rejected with a reason and move nothing."""

import msgspec
import pytest

from clob.signing import ZERO_ADDRESS, sign
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    AUTHORISED,
    CANCEL,
    DELAY_S,
    REGISTER,
    Party,
    encode_settle,
    order_values,
    signature_bytes,
)
from tests.chain.contracts.calls import SEND_TOKENS
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.venue import BOSS, BUY, KEYS, MAKERS, ONE, OWNER, SELL, Venue

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
SETTLE_ONE = Function(
    "settleOne((uint256,uint256,uint256,((uint256,address,address,address,uint256,uint256,uint256,"
    "uint256,uint256,uint256,uint8,uint8),bytes,address,uint256),((uint256,address,address,address,"
    "uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8),bytes,address,uint256)))"
)
RAISE = Function("raiseNonce(uint256)")
INCREMENT = Function("incrementNonce()")
DELEGATE = Function("setDelegate(address,bool)")
GASLESS = Function("setGasless(bool)")
PAUSE, UNPAUSE = Function("pause()"), Function("unpause()")
SET_OPERATOR = Function("setOperator(address)")
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

# Errors that no call of the exchange can raise.
OUT_OF_REACH = {
    "InvalidShortString",  # the name of the domain is short enough
    "Overpaid",  # prices are signed, and payments are rounded down
    "StringTooLong",
    "OwnableInvalidOwner",  # the constructor got a valid owner
    "SafeERC20FailedOperation",  # the collateral reverts with its own error
    "SafeCastOverflowedUintDowncast",  # no such nonce, size or time
    "ReentrancyGuardReentrantCall",  # only the operator may call, and it has no code here
    "TooLittleGas",  # the tests send enough gas; covered by the tests on nodes
}


@pytest.fixture(scope="module")
def shared():
    return Venue()


@pytest.fixture
def venue(shared):
    """The exchange, reset after each test."""
    state = shared.evm.snapshot()
    yield shared
    shared.at(NOW_S)
    shared.evm.revert(state)


def rejected(venue, fill):
    """Settle a fill that must fail without moving anything; return the name of the error."""
    before = venue.all_balances()
    [reason] = venue.settle(fill)
    assert reason
    assert venue.changes(before) == {}
    return reason.partition("(")[0]


def pair(venue, price=50, size=ONE, **fields):
    """Return a buy order with changed fields and a sell order that matches it."""
    return venue.order(ALICE, BUY, price, size, **fields), venue.order(BOB, SELL, price, size)


# ----- table of rejections -------------------------------------------------------------------


def expired(venue):
    fill = venue.fill(*pair(venue, expiration_s=NOW_S), 50, ONE)
    venue.at(NOW_S + DELAY_S + 1)
    return fill


def cancelled(venue):
    buy, sell = pair(venue)
    venue.do(ALICE, venue.exchange, CANCEL, order_values(buy))
    venue.at(NOW_S + DELAY_S + 2)
    return venue.fill(buy, sell, 50, ONE)


def nonce_raised(venue):
    venue.do(ALICE, venue.exchange, RAISE, 5)
    venue.at(NOW_S + DELAY_S + 2)
    return venue.fill(*pair(venue, nonce=4), 50, ONE)


def unsigned(venue):
    buy, sell = pair(venue)
    return venue.fill(msgspec.structs.replace(buy, signature=""), sell, 50, ONE)


def changed(**fields):
    """Return a case with an order that was changed after signing."""

    def case(venue):
        buy, sell = pair(venue)
        return venue.fill(msgspec.structs.replace(buy, **fields), sell, 50, ONE)

    return case


def signature(spoil):
    """Return a case with a changed signature."""

    def case(venue):
        buy, sell = pair(venue)
        spoilt = f"0x{spoil(bytes.fromhex(buy.signature[2:])).hex()}"
        return venue.fill(msgspec.structs.replace(buy, signature=spoilt), sell, 50, ONE)

    return case


def mirrored(signed):
    """Return the other signature of the same digest: a high s."""
    s = N - int.from_bytes(signed[32:64])
    return signed[:32] + s.to_bytes(32) + bytes([55 - signed[64]])


def fields(**given):
    """Return a case with an order that was signed with these fields."""

    def case(venue):
        return venue.fill(*pair(venue, **given), 50, ONE)

    return case


CASES = {
    "PriceOutOfRange": [
        lambda venue: venue.fill(*pair(venue), 0, ONE),
        lambda venue: venue.fill(*pair(venue), 100, ONE),
    ],
    "NothingToFill": [lambda venue: venue.fill(*pair(venue), 50, 0)],
    "WrongPrice": [
        lambda venue: venue.fill(*pair(venue), 51, ONE),
        lambda venue: venue.fill(*pair(venue), 49, ONE),
    ],
    "Overfilled": [lambda venue: venue.fill(*pair(venue), 50, ONE + 1)],
    "OrdersDoNotMeet": [
        lambda venue: venue.fill(
            venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, BUY, 50, ONE), 50, ONE
        ),
        lambda venue: venue.fill(
            venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE, venue.no), 50, ONE
        ),
    ],
    "NotComplementary": [
        lambda venue: venue.fill(
            venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, BUY, 50, ONE, 7), 50, ONE
        )
    ],
    "SizeNotWhole": [
        lambda venue: venue.fill(
            venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, BUY, 50, ONE, venue.no), 50, 101
        )
    ],
    "TakerNotSupported": [fields(taker=CAROL)],
    "Expired": [expired],
    "Cancelled": [cancelled],
    "NonceTooLow": [nonce_raised],
    "FeeTooHigh": [
        lambda venue: venue.fill(
            Party(order=pair(venue, fee_rate_bps=10)[0], fee_rate_bps=11),
            venue.order(BOB, SELL, 50, ONE),
            50,
            ONE,
        )
    ],
    "NotGasless": [unsigned],
    "UnknownSignatureType": [changed(signature_type=2)],
    "WrongSide": [],
    "WrongSigner": [
        changed(token_id=5),
        changed(taker_amount=10 * ONE),
        changed(maker=CAROL),
        changed(signer=CAROL),
        changed(fee_rate_bps=1),
        changed(nonce=1),
        changed(salt=10**9),
        changed(expiration_s=2**40),
        changed(signature_type=0),
    ],
    "UnusableSignature": [
        signature(mirrored),
        signature(lambda signed: signed[:64]),
        signature(lambda signed: signed + b"\0"),
        signature(lambda signed: signed[:64] + b"\x1d"),
        signature(lambda signed: bytes(32) + signed[32:]),
    ],
    "NotDelegate": [fields(signer=CAROL)],
    "NotPayer": [
        lambda venue: venue.fill(Party(order=pair(venue)[0], wallet=CAROL), pair(venue)[1], 50, ONE)
    ],
    "NotPayee": [
        lambda venue: venue.fill(pair(venue)[0], Party(order=pair(venue)[1], wallet=CAROL), 50, ONE)
    ],
}


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{name}-{place}")
        for name, cases in CASES.items()
        for place, case in enumerate(cases)
    ],
)
def test_unauthorised_fill_is_rejected_and_moves_nothing(venue, name, case):
    assert rejected(venue, case(venue)) == name


def test_unknown_side_is_rejected(venue):
    order = venue.order(ALICE, BUY, 50, ONE)
    odd = sign(msgspec.structs.replace(order, side=2), venue.domain, KEYS[ALICE])
    fill = venue.fill(odd, venue.order(BOB, SELL, 50, ONE), 50, ONE)
    assert rejected(venue, fill) == "WrongSide"


# ----- permissions of callers ----------------------------------------------------------------


def test_only_the_operator_settles(venue):
    fill = venue.fill(*pair(venue), 50, ONE)
    outcome = venue.evm.send(ALICE, venue.exchange, encode_settle([fill]))
    assert outcome.reason == f"NotOperator(sender={ALICE})"
    values = encode_settle([fill])[4 + 3 * 32 :]
    inside = SETTLE_ONE.selector + (32).to_bytes(32) + values
    for sender in (ALICE, BOSS, OWNER):
        outcome = venue.evm.send(sender, venue.exchange, inside)
        assert outcome.reason == f"NotOperator(sender={sender})"


def test_number_of_fills_is_limited(venue):
    fills = [venue.fill(*pair(venue, size=100), 50, 100) for _ in range(26)]
    outcome = venue.evm.send(BOSS, venue.exchange, encode_settle(fills))
    assert outcome.reason == "TooManyFills(count=26, most=25)"
    assert venue.settle(*fills[:25]) == [""] * 25


def test_owner_pauses_only_settlement(venue):
    buy, sell = pair(venue)
    assert venue.evm.rejection(BOSS, venue.exchange, PAUSE).startswith(
        "OwnableUnauthorizedAccount("
    )
    assert venue.evm.rejection(OWNER, venue.exchange, UNPAUSE) == "ExpectedPause()"
    venue.do(OWNER, venue.exchange, PAUSE)
    outcome = venue.evm.send(BOSS, venue.exchange, encode_settle([venue.fill(buy, sell, 50, ONE)]))
    assert outcome.reason == "EnforcedPause()"
    venue.do(ALICE, venue.exchange, INCREMENT)
    venue.do(ALICE, venue.exchange, CANCEL, order_values(buy))
    venue.do(OWNER, venue.exchange, UNPAUSE)
    assert venue.settle(venue.fill(buy, sell, 50, ONE)) == [""]


def test_owner_sets_the_operator(venue):
    fill = venue.fill(*pair(venue, taker=BOSS), 50, ONE)
    reason = venue.evm.rejection(ALICE, venue.exchange, SET_OPERATOR, ALICE)
    assert reason == f"OwnableUnauthorizedAccount(account={ALICE})"
    venue.do(OWNER, venue.exchange, SET_OPERATOR, CAROL)
    assert venue.settle(fill, sender=CAROL)[0].startswith("TakerNotSupported(")
    assert venue.settle(venue.fill(*pair(venue, taker=CAROL), 50, ONE), sender=CAROL) == [""]


def test_direct_token_transfers_are_rejected(venue):
    move = (ALICE, venue.exchange, venue.yes, ONE, b"")
    reason = venue.evm.rejection(ALICE, venue.tokens, SEND_TOKENS, *move)
    assert reason == f"NotWanted(sender={ALICE})"


def test_only_binary_conditions_are_registered(venue):
    nothing = bytes(31) + b"\1"
    reason = venue.evm.rejection(ALICE, venue.exchange, REGISTER, nothing)
    assert reason == f"NotBinary(conditionId=0x{nothing.hex()})"


def test_only_the_maker_cancels_orders_and_raises_its_nonce(venue):
    buy = venue.order(ALICE, BUY, 50, ONE)
    reason = venue.evm.rejection(BOB, venue.exchange, CANCEL, order_values(buy))
    assert reason == f"NotMaker(sender={BOB}, maker={ALICE})"
    assert (
        venue.evm.rejection(BOB, venue.exchange, RAISE, 0) == "NonceNotRaised(nonce=0, present=0)"
    )


def test_every_error_is_raised_here_or_unreachable():
    known = {entry["name"] for entry in artifact("Exchange").abi if entry["type"] == "error"}
    others = {
        "NotOperator", "TooManyFills", "NotWanted", "NotBinary", "NotMaker", "NonceNotRaised",
        "EnforcedPause", "ExpectedPause", "OwnableUnauthorizedAccount",
    }  # fmt: skip
    raised = {*CASES, *others}
    assert raised | OUT_OF_REACH == known
    assert not raised & OUT_OF_REACH


def test_signature_is_checked_without_settling(venue):
    buy = venue.order(ALICE, BUY, 50, ONE)
    found = venue.evm.ask(venue.exchange, AUTHORISED, order_values(buy), signature_bytes(buy))
    assert found == venue.order_hash(buy)
    assert buy.taker == ZERO_ADDRESS
