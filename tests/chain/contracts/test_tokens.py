"""The test stablecoin and its wrapped form: permissions, permits and backing."""

import re
from pathlib import Path

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import AbiError, encode
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, WALLETS, create_address
from tests.chain.contracts.calls import (
    ALLOWANCE,
    APPROVE,
    APPROVED,
    BALANCE,
    DECIMALS,
    MAX,
    MINT,
    MINTER,
    NAME,
    NONCES,
    PERMIT,
    SEPARATOR,
    STABLECOIN,
    SUPPLY,
    SYMBOL,
    TRANSFER,
    TRANSFER_FROM,
    TRANSFERRED,
    UNIT,
    UNWRAP,
    WRAP,
    ZERO,
)
from tests.chain.contracts.evm import CHAIN_ID, NOW_S, Evm

BOSS = OPERATOR.address
ALICE, BOB = WALLETS[0].address, WALLETS[1].address
WEI = 10**12
FOLDER = Path(__file__).parent
RETURNS_ONE = bytes.fromhex("600160005260206000f3")
"""Code of a token that answers 1 to every call: its decimals, its balances, its transfers."""
TYPES = {
    "Permit": [
        {"name": "owner", "type": "address"},
        {"name": "spender", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
    ]
}


def funded(evm, addresses, user, amount):
    """Mint stablecoin for a user and approve the wrapper."""
    evm.do(BOSS, addresses.stablecoin, MINT, user, amount)
    evm.do(user, addresses.stablecoin, APPROVE, addresses.collateral, MAX)


def backed(world):
    """Check that all wrapped tokens are backed."""
    evm, addresses = world
    supply = evm.ask(addresses.collateral, SUPPLY)
    assert supply == WEI * evm.ask(addresses.stablecoin, BALANCE, addresses.collateral)


def permit(evm, token, owner, spender, value, deadline=NOW_S + 60, **domain):
    """Sign a permit and return the arguments of the call."""
    nonce = evm.ask(token, NONCES, owner.address)
    plain = {"name": "Wrapped Test Dollar", "version": "1", "chainId": CHAIN_ID}
    signed = Account.sign_typed_data(
        owner.private_key,
        {**plain, "verifyingContract": token, **domain},
        TYPES,
        {
            "owner": owner.address,
            "spender": spender,
            "value": value,
            "nonce": nonce,
            "deadline": deadline,
        },
    )
    r, s = signed.r.to_bytes(32), signed.s.to_bytes(32)
    return owner.address, spender, value, deadline, signed.v, r, s


def test_names_symbols_and_decimals(world):
    evm, addresses = world
    dollar, wrapped = addresses.stablecoin, addresses.collateral
    assert [evm.ask(dollar, function) for function in (NAME, SYMBOL, DECIMALS, MINTER)] == [
        "Test Dollar",
        "tUSD",
        6,
        BOSS,
    ]
    assert [
        evm.ask(wrapped, function) for function in (NAME, SYMBOL, DECIMALS, UNIT, STABLECOIN)
    ] == [
        "Wrapped Test Dollar",
        "wtUSD",
        18,
        WEI,
        dollar,
    ]


@given(amount=st.integers(0, 10**15))
def test_minter_mints_any_amount(world, amount):
    evm, addresses = world
    before = evm.ask(addresses.stablecoin, BALANCE, BOB)
    (log,) = evm.do(BOSS, addresses.stablecoin, MINT, BOB, amount).logs
    assert TRANSFERRED.decode(log) == (ZERO, BOB, amount)
    assert evm.ask(addresses.stablecoin, BALANCE, BOB) == before + amount


@given(amount=st.integers(0, 10**15), part=st.fractions(0, 1))
def test_wrapping_and_unwrapping_round_trips(world, amount, part):
    evm, addresses = world
    dollar, wrapped = addresses.stablecoin, addresses.collateral
    funded(evm, addresses, ALICE, amount)
    had = evm.ask(wrapped, BALANCE, BOB)
    pulled, credited = evm.do(ALICE, wrapped, WRAP, BOB, amount).logs[::-1]
    assert TRANSFERRED.decode(pulled) == (ALICE, wrapped, amount)
    assert TRANSFERRED.decode(credited) == (ZERO, BOB, amount * WEI)
    assert evm.ask(wrapped, BALANCE, BOB) == had + amount * WEI
    backed(world)
    back = int(amount * part)
    had = evm.ask(dollar, BALANCE, ALICE)
    evm.do(BOB, wrapped, UNWRAP, ALICE, back * WEI)
    assert evm.ask(dollar, BALANCE, ALICE) == had + back
    backed(world)


@given(whole=st.integers(0, 10**9), rest=st.integers(1, WEI - 1))
def test_unwrapping_a_fraction_of_the_smallest_unit_is_rejected(world, whole, rest):
    evm, addresses = world
    amount = whole * WEI + rest
    reason = evm.rejection(BOB, addresses.collateral, UNWRAP, BOB, amount)
    assert reason == f"NotAMultiple(amount={amount}, unit={WEI})"


def test_wrapping_needs_balance_and_approval(world):
    evm, addresses = world
    user = WALLETS[2].address
    wrapped = addresses.collateral
    assert "ERC20InsufficientAllowance" in evm.rejection(user, wrapped, WRAP, user, 1)
    evm.do(user, addresses.stablecoin, APPROVE, wrapped, 5)
    reason = evm.rejection(user, wrapped, WRAP, user, 5)
    assert reason == f"ERC20InsufficientBalance(sender={user}, balance=0, needed=5)"
    assert evm.ask(wrapped, BALANCE, user) == 0
    backed(world)


def test_overflowing_amount_is_rejected(world):
    evm, addresses = world
    reason = evm.rejection(ALICE, addresses.collateral, WRAP, ALICE, MAX)
    assert reason == "panic 0x11: an arithmetic operation overflowed"


def test_unwrapping_needs_balance(world):
    evm, addresses = world
    user = WALLETS[3].address
    reason = evm.rejection(user, addresses.collateral, UNWRAP, user, WEI)
    assert reason == f"ERC20InsufficientBalance(sender={user}, balance=0, needed={WEI})"


def test_unwrapping_to_the_wrapper_is_rejected(world):
    evm, addresses = world
    wrapped = addresses.collateral
    funded(evm, addresses, ALICE, 1)
    evm.do(ALICE, wrapped, WRAP, ALICE, 1)
    reason = evm.rejection(ALICE, wrapped, UNWRAP, wrapped, WEI)
    assert reason == f"ERC20InvalidReceiver(receiver={wrapped})"
    backed(world)


@given(value=st.integers(0, MAX), spent=st.integers(0, 10**6))
def test_permit_sets_the_allowance(world, value, spent):
    evm, addresses = world
    wrapped, owner = addresses.collateral, WALLETS[4]
    funded(evm, addresses, ALICE, spent)
    evm.do(ALICE, wrapped, WRAP, owner.address, spent)
    args = permit(evm, wrapped, owner, BOSS, value)
    (log,) = evm.do(BOB, wrapped, PERMIT, *args).logs  # anyone may submit it
    assert APPROVED.decode(log) == (owner.address, BOSS, value)
    call = (BOSS, wrapped, TRANSFER_FROM, owner.address, BOB, spent * WEI)
    if spent * WEI <= value:
        evm.do(*call)
        left = value if value == MAX else value - spent * WEI
        assert evm.ask(wrapped, ALLOWANCE, owner.address, BOSS) == left
    else:
        assert "ERC20InsufficientAllowance" in evm.rejection(*call)
        evm.do(owner.address, wrapped, TRANSFER, BOB, spent * WEI)


def test_permit_is_used_once(world):
    evm, addresses = world
    args = permit(evm, addresses.collateral, WALLETS[5], BOSS, 7)
    evm.do(BOB, addresses.collateral, PERMIT, *args)
    assert "ERC2612InvalidSigner" in evm.rejection(BOB, addresses.collateral, PERMIT, *args)


def test_permit_expires_at_its_deadline(world):
    evm, addresses = world
    late = permit(evm, addresses.collateral, WALLETS[5], BOSS, 7, deadline=1)
    reason = evm.rejection(BOB, addresses.collateral, PERMIT, *late)
    assert reason == "ERC2612ExpiredSignature(deadline=1)"


@pytest.mark.parametrize(
    "domain",
    [
        {"name": "Test Dollar"},
        {"version": "2"},
        {"chainId": 1},
        {"verifyingContract": ACCOUNTS[0].address},
    ],
    ids=lambda domain: next(iter(domain)),
)
def test_permit_for_another_domain_is_rejected(world, domain):
    evm, addresses = world
    args = permit(evm, addresses.collateral, WALLETS[5], BOSS, 7, **domain)
    assert "ERC2612InvalidSigner" in evm.rejection(BOB, addresses.collateral, PERMIT, *args)


@given(place=st.integers(0, 3), other=st.integers(1, 10**6))
def test_changed_permit_is_rejected(world, place, other):
    evm, addresses = world
    args = list(permit(evm, addresses.collateral, WALLETS[5], BOSS, 7))
    args[place] = f"0x{other:040x}" if place < 2 else args[place] + other
    assert "ERC2612InvalidSigner" in evm.rejection(BOB, addresses.collateral, PERMIT, *args)


def test_another_wrapper_has_another_domain():
    evm = Evm()
    addresses = evm.deploy_all()
    other = evm.wrapper(addresses.stablecoin, 6)
    assert evm.ask(other, SEPARATOR) != evm.ask(addresses.collateral, SEPARATOR)


# ----- other decimals ------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [0, 1, 2, 6, 8, 17, 18])
def test_stablecoin_of_any_decimals_is_wrapped_at_its_scale(decimals):
    evm = Evm()
    coin = evm.deploy(BOSS, "TestDollar", ["uint8"], [decimals])
    wrapped = evm.wrapper(coin, decimals, "Wrapped Coin", "wCOIN")
    unit = 10 ** (18 - decimals)
    assert [evm.ask(wrapped, each) for each in (DECIMALS, UNIT, STABLECOIN, NAME, SYMBOL)] == [
        18,
        unit,
        coin,
        "Wrapped Coin",
        "wCOIN",
    ]
    evm.do(BOSS, coin, MINT, ALICE, 7)
    evm.do(ALICE, coin, APPROVE, wrapped, MAX)
    evm.do(ALICE, wrapped, WRAP, BOB, 7)
    assert evm.ask(wrapped, BALANCE, BOB) == 7 * unit
    evm.do(BOB, wrapped, UNWRAP, ALICE, 3 * unit)
    assert (evm.ask(wrapped, SUPPLY), evm.ask(coin, BALANCE, wrapped)) == (4 * unit, 4)
    if unit > 1:
        reason = evm.rejection(BOB, wrapped, UNWRAP, ALICE, unit - 1)
        assert reason == f"NotAMultiple(amount={unit - 1}, unit={unit})"


@pytest.mark.parametrize(
    ("stated", "expected", "reason"),
    [
        (6, 18, "WrongDecimals(decimals=6, expected=18)"),
        (18, 6, "WrongDecimals(decimals=18, expected=6)"),
        (19, 19, "TooManyDecimals(decimals=19)"),
        (255, 255, "TooManyDecimals(decimals=255)"),
    ],
)
def test_wrapper_rejects_other_decimals_than_expected(stated, expected, reason):
    evm = Evm()
    coin = evm.deploy(BOSS, "TestDollar", ["uint8"], [stated])
    with pytest.raises(AbiError, match=f"^{re.escape(reason)}$"):
        evm.wrapper(coin, expected)


def test_stablecoin_that_keeps_a_fee_cannot_be_wrapped(world):
    """The wrapper of collateral that pays nothing: each transfer of this token moves 0."""
    evm, _ = world
    liar = f"0x{'77' * 20}"
    evm.set_code(liar, RETURNS_ONE)
    wrapped = evm.wrapper(liar, 1)
    reason = evm.rejection(ALICE, wrapped, WRAP, ALICE, 5)
    assert reason == "WrongAmount(received=0, expected=5)"


def test_wrapper_of_an_earlier_version_has_the_same_interface():
    evm = Evm()
    codes = (FOLDER.joinpath(f"{name}_before.hex").read_text() for name in ("dollar", "wrapper"))
    dollar, wrapped = (create_address(BOSS, nonce) for nonce in range(2))
    for code, arguments in zip(codes, (b"", encode(["address"], [dollar])), strict=True):
        assert not evm.send(BOSS, "", bytes.fromhex(code) + arguments).reason
    assert [evm.ask(wrapped, each) for each in (DECIMALS, UNIT, STABLECOIN)] == [18, WEI, dollar]
    funded(evm, Addresses(stablecoin=dollar, collateral=wrapped, conditional_tokens=""), ALICE, 9)
    evm.do(ALICE, wrapped, WRAP, BOB, 9)
    evm.do(BOB, wrapped, UNWRAP, ALICE, 9 * WEI)
    assert evm.ask(dollar, BALANCE, ALICE) == 9
