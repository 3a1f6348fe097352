"""Fills that a maker did not sign or allow are rejected with a reason and move nothing."""

import msgspec
import pytest

from clob.signing import ZERO_ADDRESS, sign
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import AUTHORISED, CANCEL, DELAY_S, REGISTER
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import BOSS, BUY, KEYS, MAKERS, ONE, OWNER, SELL
from tests.chain.signed_fills import Party, encode_settle, order_values, signature_bytes

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
SETTLE_ONE = Function(
    "settleOne(bool,(uint256,uint256,uint256,((uint256,address,address,address,uint256,uint256,uint256,"
    "uint256,uint256,uint256,uint8,uint8),bytes,address,uint256),((uint256,address,address,address,"
    "uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8),bytes,address,uint256)))"
)
RAISE = Function("raiseNonce(uint256)")
INCREMENT = Function("incrementNonce()")
DELEGATE = Function("setDelegate(address,bool)")
GASLESS = Function("setGasless(bool)")
PAUSE, UNPAUSE = Function("pause()"), Function("unpause()")
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


ROLES = {"NoOwner", "NotPauser", "OwnableUnauthorizedAccount", "ZeroAddress"}
"""Errors that ``test_roles.py`` covers."""
ESCROW = {
    "InsufficientEscrow", "NonceUsed", "NotDue", "NotRequested", "NotStray", "NotWanted",
    "NothingToMove", "SignatureExpired", "WrongAmount",
}  # fmt: skip
"""Errors that ``test_escrow.py`` covers."""


def rejected(market, fill):
    """Settle a fill that must fail without moving anything; return the name of the error."""
    before = market.all_balances()
    [reason] = market.settle(fill)
    assert reason
    assert market.changes(before) == {}
    return reason.partition("(")[0]


def pair(market, price=50, size=ONE, **fields):
    """Return a buy order with changed fields and a sell order that matches it."""
    return market.order(ALICE, BUY, price, size, **fields), market.order(BOB, SELL, price, size)


# ----- table of rejections -------------------------------------------------------------------


def expired(market):
    fill = market.fill(*pair(market, expiration_s=NOW_S), 50, ONE)
    market.at(NOW_S + DELAY_S + 1)
    return fill


def cancelled(market):
    buy, sell = pair(market)
    market.do(ALICE, market.exchange, CANCEL, order_values(buy))
    market.at(NOW_S + DELAY_S + 2)
    return market.fill(buy, sell, 50, ONE)


def nonce_raised(market):
    market.do(ALICE, market.exchange, RAISE, 5)
    market.at(NOW_S + DELAY_S + 2)
    return market.fill(*pair(market, nonce=4), 50, ONE)


def unsigned(market):
    buy, sell = pair(market)
    return market.fill(msgspec.structs.replace(buy, signature=""), sell, 50, ONE)


def changed(**fields):
    """Return a case with an order that was changed after signing."""

    def case(market):
        buy, sell = pair(market)
        return market.fill(msgspec.structs.replace(buy, **fields), sell, 50, ONE)

    return case


def signature(spoil):
    """Return a case with a changed signature."""

    def case(market):
        buy, sell = pair(market)
        spoilt = f"0x{spoil(bytes.fromhex(buy.signature[2:])).hex()}"
        return market.fill(msgspec.structs.replace(buy, signature=spoilt), sell, 50, ONE)

    return case


def mirrored(signed):
    """Return the other signature of the same digest: a high s."""
    s = N - int.from_bytes(signed[32:64])
    return signed[:32] + s.to_bytes(32) + bytes([55 - signed[64]])


def fields(**given):
    """Return a case with an order that was signed with these fields."""

    def case(market):
        return market.fill(*pair(market, **given), 50, ONE)

    return case


CASES = {
    "PriceOutOfRange": [
        lambda market: market.fill(*pair(market), 0, ONE),
        lambda market: market.fill(*pair(market), 100, ONE),
    ],
    "NothingToFill": [lambda market: market.fill(*pair(market), 50, 0)],
    "WrongPrice": [
        lambda market: market.fill(*pair(market), 51, ONE),
        lambda market: market.fill(*pair(market), 49, ONE),
    ],
    "Overfilled": [lambda market: market.fill(*pair(market), 50, ONE + 1)],
    "OrdersDoNotMeet": [
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE), market.order(BOB, BUY, 50, ONE), 50, ONE
        ),
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE, market.no), 50, ONE
        ),
    ],
    "NotComplementary": [
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE), market.order(BOB, BUY, 50, ONE, 7), 50, ONE
        ),
        # The record of an unregistered token names the token 0.
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE, 7), market.order(BOB, BUY, 50, ONE, 0), 50, ONE
        ),
    ],
    "NotToken": [
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE, 0), market.order(BOB, SELL, 50, ONE, 0), 50, ONE
        )
    ],
    "SizeNotWhole": [
        lambda market: market.fill(
            market.order(ALICE, BUY, 50, ONE), market.order(BOB, BUY, 50, ONE, market.no), 50, 101
        )
    ],
    "TakerNotSupported": [fields(taker=CAROL)],
    "Expired": [expired],
    "Cancelled": [cancelled],
    "NonceTooLow": [nonce_raised],
    "FeeTooHigh": [
        lambda market: market.fill(
            Party(order=pair(market, fee_rate_bps=10)[0], fee_rate_bps=11),
            market.order(BOB, SELL, 50, ONE),
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
        lambda market: market.fill(
            Party(order=pair(market)[0], wallet=CAROL), pair(market)[1], 50, ONE
        )
    ],
    "NotPayee": [
        lambda market: market.fill(
            pair(market)[0], Party(order=pair(market)[1], wallet=CAROL), 50, ONE
        )
    ],
}


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{name}-{index}")
        for name, cases in CASES.items()
        for index, case in enumerate(cases)
    ],
)
def test_unauthorised_fill_is_rejected_and_moves_nothing(market, name, case):
    assert rejected(market, case(market)) == name


def test_unknown_side_is_rejected(market):
    order = market.order(ALICE, BUY, 50, ONE)
    odd = sign(msgspec.structs.replace(order, side=2), market.domain, KEYS[ALICE])
    fill = market.fill(odd, market.order(BOB, SELL, 50, ONE), 50, ONE)
    assert rejected(market, fill) == "WrongSide"


# ----- permissions of callers ----------------------------------------------------------------


def test_only_the_operator_settles(market):
    fill = market.fill(*pair(market), 50, ONE)
    outcome = market.evm.send(ALICE, market.exchange, encode_settle([fill]))
    assert outcome.reason == f"NotOperator(sender={ALICE})"
    values = encode_settle([fill])[4 + 3 * 32 :]
    inside = SETTLE_ONE.selector + (0).to_bytes(32) + (64).to_bytes(32) + values
    for sender in (ALICE, BOSS, OWNER):
        outcome = market.evm.send(sender, market.exchange, inside)
        assert outcome.reason == f"NotOperator(sender={sender})"


def test_number_of_fills_is_limited(market):
    fills = [market.fill(*pair(market, size=100), 50, 100) for _ in range(26)]
    outcome = market.evm.send(BOSS, market.exchange, encode_settle(fills))
    assert outcome.reason == "TooManyFills(count=26, most=25)"
    assert market.settle(*fills[:25]) == [""] * 25


def test_owner_pauses_only_settlement(market):
    buy, sell = pair(market)
    assert market.evm.rejection(OWNER, market.exchange, UNPAUSE) == "ExpectedPause()"
    market.do(OWNER, market.exchange, PAUSE)
    outcome = market.evm.send(
        BOSS, market.exchange, encode_settle([market.fill(buy, sell, 50, ONE)])
    )
    assert outcome.reason == "EnforcedPause()"
    market.do(ALICE, market.exchange, INCREMENT)
    market.do(ALICE, market.exchange, CANCEL, order_values(buy))
    market.do(OWNER, market.exchange, UNPAUSE)
    assert market.settle(market.fill(buy, sell, 50, ONE)) == [""]


def test_only_binary_conditions_are_registered(market):
    nothing = bytes(31) + b"\1"
    reason = market.evm.rejection(ALICE, market.exchange, REGISTER, nothing)
    assert reason == f"NotBinary(conditionId=0x{nothing.hex()})"


def test_only_the_maker_cancels_orders_and_raises_its_nonce(market):
    buy = market.order(ALICE, BUY, 50, ONE)
    reason = market.evm.rejection(BOB, market.exchange, CANCEL, order_values(buy))
    assert reason == f"NotMaker(sender={BOB}, maker={ALICE})"
    assert (
        market.evm.rejection(BOB, market.exchange, RAISE, 0) == "NonceNotRaised(nonce=0, present=0)"
    )


def test_every_error_is_raised_here_or_unreachable():
    known = {entry["name"] for entry in artifact("Exchange").abi if entry["type"] == "error"}
    here = {
        "NotOperator", "TooManyFills", "NotBinary", "NotMaker", "NonceNotRaised", "EnforcedPause",
        "ExpectedPause",
    }  # fmt: skip
    raised = {*CASES, *here, *ROLES, *ESCROW}
    assert raised | OUT_OF_REACH == known
    assert not raised & OUT_OF_REACH


def test_signature_is_checked_without_settling(market):
    buy = market.order(ALICE, BUY, 50, ONE)
    result = market.evm.ask(market.exchange, AUTHORISED, order_values(buy), signature_bytes(buy))
    assert result == market.order_hash(buy)
    assert buy.taker == ZERO_ADDRESS
