"""Escrow: deposits, withdrawals after a delay, and fills that move balances in the contract."""

import pytest
from eth_account import Account

from clob.signing import secp
from clob_server.chain.eth.abi import Function, encode
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DELAY_S,
    DEPOSIT,
    DEPOSITED,
    ESCROWS,
    REQUEST_WITHDRAWAL,
    REQUEST_WITHDRAWAL_FOR,
    WITHDRAW,
    WITHDRAWAL_REQUESTED,
    WITHDRAWN,
)
from tests.chain.contracts.calls import APPROVE, APPROVE_ALL, SEND_TOKENS, TRANSFER, ZERO
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import (
    BOSS,
    BUY,
    FEES,
    KEYS,
    MAKERS,
    ONE,
    OWNER,
    PAUSER,
    SELL,
    EvmMarket,
)
from tests.chain.signed_fills import Party, encode_settle
from tests.chain.wallets import BURNS, REVERTS

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
CASH = COLLATERAL_ASSET
DEEP = 100 * ONE
"""Deposit of each maker, of each asset."""
RATE = 200
SET_PAYER = Function("setPayer(address,bool)")
SET_PAYEE = Function("setPayee(address,bool)")
PAUSE = Function("pause()")
RESCUE = Function("rescue(address,address,uint256)")
RESCUE_TOKENS = Function("rescueTokens(address,uint256,address,uint256)")
SET_FEES = Function("setFeeWallet(address)")
DAY_S = 86_400
SAYS_ONE = bytes.fromhex("600160005260206000f3")
"""Code that returns 1 to every call."""
SIGNS = bytes.fromhex("631626ba7e60e01b60005260206000f3")
"""Code of a wallet that accepts every signature (EIP-1271)."""
WITHDRAWAL = (
    b"Withdrawal(address wallet,uint256 asset,uint256 amount,uint256 nonce,uint256 deadline)"
)
SEPARATOR_TYPE = (
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)


@pytest.fixture(scope="module")
def shared():
    market = EvmMarket()
    for maker in (ALICE, BOB):
        for asset in market.assets:
            market.deposit(maker, asset, DEEP)
    return market


@pytest.fixture
def market(shared):
    """The exchange with deposits of two makers, reset after each test."""
    state = shared.evm.snapshot()
    shared.at(NOW_S)
    yield shared
    assert shared.balances(shared.exchange) == shared.totals()
    shared.at(NOW_S)
    shared.evm.revert(state)


def changes(market, act):
    """Return the changed balances in escrow; no balance of a wallet may change."""
    wallets = ALICE, BOB, CAROL, FEES
    before = {each: market.escrows(each) for each in wallets}
    outside = {each: market.balances(each) for each in wallets}
    act()
    assert {each: market.balances(each) for each in wallets} == outside
    found = {
        each: tuple(new - old for new, old in zip(market.escrows(each), before[each], strict=True))
        for each in wallets
    }
    return {each: change for each, change in found.items() if any(change)}


def settle(market, *fills):
    return market.settle(*fills, custody="escrow")


# ----- deposits ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1])
def test_deposit_moves_an_asset_of_the_sender_into_the_escrow_of_a_wallet(market, place):
    asset, before = market.assets[place], market.balances(CAROL)
    [log] = [
        log
        for log in market.do(CAROL, market.exchange, DEPOSIT, FEES, asset, ONE)
        if DEPOSITED.is_in(log)
    ]
    assert DEPOSITED.decode(log) == (FEES, asset, ONE, CAROL)
    assert market.escrow(FEES, asset) == (ONE, 0, 0)
    assert market.escrow(CAROL, asset) == (0, 0, 0)
    assert before[place] - market.balances(CAROL)[place] == ONE
    assert market.totals()[place] == 2 * DEEP + ONE


def test_deposit_of_nothing_to_nobody_or_without_approval_is_rejected(market):
    def reason(*call):
        return market.evm.rejection(CAROL, market.exchange, DEPOSIT, *call)

    assert reason(CAROL, CASH, 0) == "NothingToMove()"
    assert reason(ZERO, CASH, ONE) == "ZeroAddress()"
    market.do(CAROL, market.wrapped, APPROVE, market.exchange, 0)
    market.do(CAROL, market.tokens, APPROVE_ALL, market.exchange, False)
    assert reason(CAROL, CASH, ONE).startswith("ERC20InsufficientAllowance(")
    assert reason(CAROL, market.yes, ONE).startswith("ERC1155: need operator approval")


def test_deposit_of_a_collateral_that_keeps_a_part_is_rejected(market):
    code = market.evm.code(market.wrapped)
    market.evm.set_code(market.wrapped, SAYS_ONE)
    reason = market.evm.rejection(CAROL, market.exchange, DEPOSIT, CAROL, CASH, ONE)
    assert reason == f"WrongAmount(received=0, expected={ONE})"
    market.evm.set_code(market.wrapped, code)


def test_tokens_that_are_not_deposited_are_rejected(market):
    move = (ALICE, market.exchange, market.yes, ONE, b"")
    reason = market.evm.rejection(ALICE, market.tokens, SEND_TOKENS, *move)
    assert reason == f"NotWanted(sender={ALICE})"


# ----- withdrawals ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 2])
def test_withdrawal_is_paid_to_its_wallet_after_the_delay_by_anybody(market, place):
    asset = market.assets[place]
    [log] = market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, asset, 3 * ONE)
    due_s = NOW_S + DELAY_S
    assert WITHDRAWAL_REQUESTED.decode(log) == (ALICE, asset, 3 * ONE, due_s)
    assert market.escrow(ALICE, asset) == (DEEP, 3 * ONE, due_s)
    market.at(due_s - 1)
    reason = market.evm.rejection(ALICE, market.exchange, WITHDRAW, ALICE, asset)
    assert reason == f"NotDue(from={due_s})"
    market.at(due_s)
    before = market.balances(ALICE)
    logs = market.do(CAROL, market.exchange, WITHDRAW, ALICE, asset)
    [log] = [log for log in logs if WITHDRAWN.is_in(log)]
    assert WITHDRAWN.decode(log) == (ALICE, asset, 3 * ONE)
    assert market.balances(ALICE)[place] - before[place] == 3 * ONE
    assert market.escrow(ALICE, asset) == (DEEP - 3 * ONE, 0, 0)
    reason = market.evm.rejection(CAROL, market.exchange, WITHDRAW, ALICE, asset)
    assert reason == f"NotRequested(wallet={ALICE}, asset={asset})"


def test_another_request_replaces_the_earlier_one_and_starts_the_delay_again(market):
    market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, CASH, ONE)
    market.at(NOW_S + DELAY_S - 1)
    market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, CASH, 2 * ONE)
    market.at(NOW_S + 2 * DELAY_S - 2)
    reason = market.evm.rejection(ALICE, market.exchange, WITHDRAW, ALICE, CASH)
    assert reason == f"NotDue(from={NOW_S + 2 * DELAY_S - 1})"
    [log] = market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, CASH, 0)
    assert WITHDRAWAL_REQUESTED.decode(log) == (ALICE, CASH, 0, 0)
    market.at(NOW_S + 3 * DELAY_S)
    assert market.evm.rejection(ALICE, market.exchange, WITHDRAW, ALICE, CASH).startswith(
        "NotRequested("
    )


def test_request_above_the_balance_is_rejected(market):
    reason = market.evm.rejection(ALICE, market.exchange, REQUEST_WITHDRAWAL, CASH, DEEP + 1)
    assert reason == (
        f"InsufficientEscrow(wallet={ALICE}, asset=0, balance={DEEP}, needed={DEEP + 1})"
    )


def test_withdrawal_works_while_settlement_is_paused(market):
    market.do(PAUSER, market.exchange, PAUSE)
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    outcome = market.evm.send(BOSS, market.exchange, encode_settle([fill], "escrow"))
    assert outcome.reason == "EnforcedPause()"
    market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, CASH, ONE)
    market.at(NOW_S + DELAY_S)
    market.do(ALICE, market.exchange, WITHDRAW, ALICE, CASH)


def test_requested_amount_settles_trades_until_it_is_withdrawn(market):
    market.do(BOB, market.exchange, REQUEST_WITHDRAWAL, market.yes, DEEP)
    market.at(NOW_S + DELAY_S + 99)
    sell = market.order(BOB, SELL, 50, DEEP)
    first = market.fill(market.order(ALICE, BUY, 50, 60 * ONE), sell, 50, 60 * ONE)
    assert settle(market, first) == [""]
    before = market.balances(BOB)
    market.do(CAROL, market.exchange, WITHDRAW, BOB, market.yes)
    assert market.balances(BOB)[1] - before[1] == 40 * ONE
    assert market.escrow(BOB, market.yes) == (0, 0, 0)
    second = market.fill(market.order(ALICE, BUY, 50, ONE), sell, 50, ONE)
    assert settle(market, second) == [
        f"InsufficientEscrow(wallet={BOB}, asset={market.yes}, balance=0, needed={ONE})"
    ]


def test_nothing_is_paid_if_trades_took_the_requested_amount(market):
    market.do(BOB, market.exchange, REQUEST_WITHDRAWAL, market.yes, DEEP)
    buy, sell = market.order(ALICE, BUY, 50, DEEP), market.order(BOB, SELL, 50, DEEP)
    assert settle(market, market.fill(buy, sell, 50, DEEP)) == [""]
    market.at(NOW_S + DELAY_S)
    [log] = market.do(BOB, market.exchange, WITHDRAW, BOB, market.yes)
    assert WITHDRAWN.decode(log) == (BOB, market.yes, 0)


# ----- signed requests -----------------------------------------------------------------------


def signed(market, wallet, asset, amount, nonce, deadline_s, key=None):
    """Return the arguments of a signed request; its hashes are computed by eth-abi."""
    word = secp.keccak256
    domain = encode(
        ["bytes32", "bytes32", "bytes32", "uint256", "address"],
        [word(SEPARATOR_TYPE), word(b"clob"), word(b"1"), 31337, market.exchange],
    )
    values = [word(WITHDRAWAL), wallet, asset, amount, nonce, deadline_s]
    struct = encode(["bytes32", "address", *["uint256"] * 4], values)
    digest = word(b"\x19\x01" + word(domain) + word(struct))
    signature = Account.from_key(key or KEYS[wallet]).unsafe_sign_hash(digest).signature
    return wallet, asset, amount, nonce, deadline_s, bytes(signature)


def test_signed_request_counts_once_until_its_deadline(market):
    call = signed(market, ALICE, market.yes, ONE, 7, NOW_S)
    logs = market.do(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *call)
    assert [WITHDRAWAL_REQUESTED.decode(log) for log in logs] == [
        (ALICE, market.yes, ONE, NOW_S + DELAY_S)
    ]
    reason = market.evm.rejection(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *call)
    assert reason == f"NonceUsed(wallet={ALICE}, nonce=7)"
    market.do(
        BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *signed(market, ALICE, CASH, 5, 3, NOW_S)
    )
    late = signed(market, ALICE, CASH, ONE, 8, NOW_S - 1)
    reason = market.evm.rejection(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *late)
    assert reason == f"SignatureExpired(deadline={NOW_S - 1})"
    market.at(NOW_S + DELAY_S)
    before = market.balances(ALICE)
    market.do(BOSS, market.exchange, WITHDRAW, ALICE, market.yes)
    assert market.balances(ALICE)[1] - before[1] == ONE


def test_request_signed_by_another_key_or_changed_is_rejected(market):
    foreign = signed(market, ALICE, CASH, ONE, 7, NOW_S, key=KEYS[BOB])
    reason = market.evm.rejection(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *foreign)
    assert reason == f"WrongSigner(found={BOB}, named={ALICE})"
    own = signed(market, ALICE, CASH, ONE, 7, NOW_S)
    for place in range(5):
        changed = list(own)
        changed[place] = BOB if place == 0 else own[place] + 1
        reason = market.evm.rejection(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *changed)
        assert reason.startswith("WrongSigner("), place
    short = (*own[:5], own[5][:64])
    reason = market.evm.rejection(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *short)
    assert reason.startswith("UnusableSignature(")


def test_wallet_with_code_signs_requests(market):
    market.evm.set_code(ALICE, SIGNS)
    call = (ALICE, CASH, ONE, 7, NOW_S, b"whatever")
    market.do(BOSS, market.exchange, REQUEST_WITHDRAWAL_FOR, *call)
    assert market.escrow(ALICE)[1] == ONE


# ----- fills ---------------------------------------------------------------------------------


def test_direct_trade_moves_balances_and_fees(market):
    size = 4 * ONE + 7
    buy = market.order(ALICE, BUY, 60, 10 * ONE, fee_rate_bps=RATE)
    sell = market.order(BOB, SELL, 55, 10 * ONE, fee_rate_bps=RATE)
    parties = [Party(order=order, fee_rate_bps=RATE) for order in (buy, sell)]
    fill = market.fill(*parties, 57, size)
    found = changes(market, lambda: settle(market, fill))
    paid = 57 * size // 100
    tokens, cash = RATE * 43 * size // (10_000 * 57), RATE * 43 * size // 1_000_000
    assert found == {
        ALICE: (-paid, size - tokens, 0),
        BOB: (paid - cash, -size, 0),
        FEES: (cash, tokens, 0),
    }


def test_mint_and_merge_move_balances_and_totals(market):
    size, totals = 4 * ONE, market.totals()
    mint = market.fill(
        market.order(ALICE, BUY, 57, size), market.order(BOB, BUY, 43, size, market.no), 57, size
    )
    part = 57 * size // 100
    assert changes(market, lambda: settle(market, mint)) == {
        ALICE: (-part, size, 0),
        BOB: (part - size, 0, size),
    }
    assert market.totals() == (totals[0] - size, totals[1] + size, totals[2] + size)
    merge = market.fill(
        market.order(BOB, SELL, 43, size, market.no), market.order(ALICE, SELL, 57, size), 43, size
    )
    assert changes(market, lambda: settle(market, merge)) == {
        ALICE: (part, -size, 0),
        BOB: (size - part, 0, -size),
    }
    assert market.totals() == totals


@pytest.mark.parametrize("side", [BUY, SELL])
@pytest.mark.parametrize("token", [0, 7])
def test_tokens_without_a_condition_are_not_made_from_nothing(market, side, token):
    """The record of an unregistered token names the token 0, which is the collateral here."""
    orders = market.order(ALICE, side, 57, ONE, 7), market.order(BOB, side, 43, ONE, token)
    fill = market.fill(*orders, 57, ONE)
    assert changes(market, lambda: settle(market, fill)) == {}
    assert settle(market, fill) == ["FailedBefore"]


def test_permitted_wallet_pays_and_is_paid_in_escrow(market):
    market.deposit(CAROL, CASH, ONE)
    buy, sell = market.order(ALICE, BUY, 50, 2 * ONE), market.order(BOB, SELL, 50, 2 * ONE)

    def fill():
        parties = Party(order=buy, wallet=CAROL), Party(order=sell, wallet=FEES)
        return market.fill(*parties, 50, 2 * ONE)

    assert settle(market, fill())[0].startswith("NotPayer(")
    market.do(CAROL, market.exchange, SET_PAYER, ALICE, True)
    assert settle(market, fill())[0].startswith("NotPayee(")
    market.do(BOB, market.exchange, SET_PAYEE, FEES, True)
    assert changes(market, lambda: settle(market, fill())) == {
        ALICE: (0, 2 * ONE, 0),
        BOB: (0, -2 * ONE, 0),
        CAROL: (-ONE, 0, 0),
        FEES: (ONE, 0, 0),
    }


@pytest.mark.parametrize("code", [REVERTS, BURNS], ids=["reverts", "burns"])
def test_code_of_a_buyer_cannot_stop_a_trade_in_escrow(market, code):
    market.evm.set_code(ALICE, code)
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    assert settle(market, fill) == [""]


def test_makers_cannot_undo_a_trade_within_the_delay(market):
    """Everything that makes a trade between wallets fail changes nothing in escrow."""
    buy, sell = market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE)
    fill = market.fill(buy, sell, 50, ONE)
    for maker in (ALICE, BOB):
        market.do(maker, market.wrapped, APPROVE, market.exchange, 0)
        market.do(maker, market.tokens, APPROVE_ALL, market.exchange, False)
        market.do(maker, market.wrapped, TRANSFER, CAROL, market.balances(maker)[0])
        for asset in market.assets:
            market.do(maker, market.exchange, REQUEST_WITHDRAWAL, asset, DEEP)
    market.at(NOW_S + DELAY_S - 1)
    for maker in (ALICE, BOB):
        for asset in market.assets:
            reason = market.evm.rejection(maker, market.exchange, WITHDRAW, maker, asset)
            assert reason.startswith("NotDue(")
    assert settle(market, fill) == [""]


def test_fill_between_wallets_does_not_touch_escrow(market):
    before = [market.escrows(maker) for maker in (ALICE, BOB)]
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    assert market.settle(fill) == [""]
    assert [market.escrows(maker) for maker in (ALICE, BOB)] == before


def test_trade_id_is_spent_in_both_custodies(market):
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    assert settle(market, fill) == [""]
    assert market.settle(fill) == ["SettledBefore"]


def test_only_the_operator_settles_in_escrow(market):
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    for sender in (ALICE, OWNER):
        outcome = market.evm.send(sender, market.exchange, encode_settle([fill], "escrow"))
        assert outcome.reason == f"NotOperator(sender={sender})"


def test_escrow_of_pairs_is_read_in_one_call(market):
    market.do(ALICE, market.exchange, REQUEST_WITHDRAWAL, market.yes, 5)
    pairs = ((ALICE, CASH), (ALICE, market.yes), (CAROL, market.no))
    read = market.evm.ask(market.exchange, ESCROWS, *zip(*pairs, strict=True))
    assert [tuple(each) for each in read] == [(DEEP, 0), (DEEP, 5), (0, 0)]


# ----- hostile receivers ---------------------------------------------------------------------


def calling(target, data):
    """Return the code of a wallet that calls a contract for each token that it receives."""
    data = data.ljust(-(-len(data) // 32) * 32, b"\0")
    store = b"".join(
        b"\x7f" + data[place : place + 32] + b"\x61" + place.to_bytes(2) + b"\x52"
        for place in range(0, len(data), 32)
    )
    call = bytes.fromhex("60006000") + b"\x61" + len(data).to_bytes(2) + bytes.fromhex("60006000")
    call += b"\x73" + bytes.fromhex(target[2:]) + bytes.fromhex("5af150")
    return store + call + bytes.fromhex("63f23a6e6160e01b60005260206000f3")


@pytest.mark.parametrize("kind", ["withdraw", "request", "deposit"])
def test_receiver_cannot_withdraw_twice_by_calling_back(market, kind):
    data = {
        "withdraw": WITHDRAW.encode(BOB, market.yes),
        "request": REQUEST_WITHDRAWAL.encode(market.yes, DEEP - ONE),
        "deposit": DEPOSIT.encode(BOB, CASH, ONE),
    }[kind]
    market.evm.set_code(BOB, calling(market.exchange, data))
    market.do(BOB, market.exchange, REQUEST_WITHDRAWAL, market.yes, ONE)
    market.at(NOW_S + DELAY_S)
    before = market.balances(BOB)
    market.do(CAROL, market.exchange, WITHDRAW, BOB, market.yes)
    assert market.balances(BOB) == (before[0], before[1] + ONE, before[2])
    assert market.escrow(BOB, market.yes)[0] == DEEP - ONE
    market.at(NOW_S + 3 * DELAY_S)


def test_withdrawal_that_its_wallet_rejects_stays_in_escrow(market):
    market.do(BOB, market.exchange, REQUEST_WITHDRAWAL, market.yes, ONE)
    market.at(NOW_S + DELAY_S)
    market.evm.set_code(BOB, REVERTS)
    outcome = market.evm.send(CAROL, market.exchange, WITHDRAW.encode(BOB, market.yes))
    assert not outcome.logs
    assert market.escrow(BOB, market.yes) == (DEEP, ONE, NOW_S + DELAY_S)
    market.evm.set_code(BOB, b"")
    market.do(CAROL, market.exchange, WITHDRAW, BOB, market.yes)


# ----- stray tokens --------------------------------------------------------------------------


def test_owner_rescues_stray_collateral_but_never_escrow(market):
    reason = market.evm.rejection(OWNER, market.exchange, RESCUE, market.wrapped, CAROL, 1)
    assert reason == "NotStray(amount=1, most=0)"
    market.do(CAROL, market.wrapped, TRANSFER, market.exchange, 5)
    reason = market.evm.rejection(OWNER, market.exchange, RESCUE, market.wrapped, CAROL, 6)
    assert reason == "NotStray(amount=6, most=5)"
    reason = market.evm.rejection(ALICE, market.exchange, RESCUE, market.wrapped, CAROL, 5)
    assert reason == f"OwnableUnauthorizedAccount(account={ALICE})"
    before = market.balances(CAROL)
    market.do(OWNER, market.exchange, RESCUE, market.wrapped, CAROL, 5)
    assert market.balances(CAROL)[0] - before[0] == 5


def test_owner_rescues_stray_tokens_but_never_escrow(market):
    take = (RESCUE_TOKENS, market.tokens, market.yes, CAROL)
    assert market.evm.rejection(OWNER, market.exchange, *take, 1) == "NotStray(amount=1, most=0)"
    market.do(OWNER, market.exchange, SET_FEES, market.exchange)
    market.at(NOW_S + DAY_S)
    buy = market.order(ALICE, BUY, 50, ONE, fee_rate_bps=100)
    party = Party(order=buy, fee_rate_bps=100)
    assert market.settle(market.fill(party, market.order(BOB, SELL, 50, ONE), 50, ONE)) == [""]
    reason = market.evm.rejection(OWNER, market.exchange, *take, ONE // 100 + 1)
    assert reason == f"NotStray(amount={ONE // 100 + 1}, most={ONE // 100})"
    before = market.balances(CAROL)
    market.do(OWNER, market.exchange, *take, ONE // 100)
    assert market.balances(CAROL)[1] - before[1] == ONE // 100


def test_stray_stablecoin_is_rescued(market):
    dollar = market.addresses.stablecoin
    mint = Function("mint(address,uint256)")
    market.do(BOSS, dollar, mint, market.exchange, 9)
    market.do(OWNER, market.exchange, RESCUE, dollar, CAROL, 9)
