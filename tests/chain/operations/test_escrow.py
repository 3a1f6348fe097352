"""Deposits, signed requests and payments of withdrawals, and settlements in escrow."""

import json
from pathlib import Path

import pytest

from clob.signing import SignedWithdrawal, sign
from clob.wire.operations import (
    DepositBody,
    Permit,
    SettleBody,
    WithdrawBody,
    WithdrawRequestBody,
)
from clob_server.chain.eth.abi import encode
from clob_server.chain.eth.accounts import DEPLOYER
from clob_server.chain.eth.exchange_abi import COLLATERAL_ASSET, DELAY_S, ESCROW_OF
from clob_server.chain.messages import OperationFailed, OperationRejected
from clob_server.chain.operations.settle import gas_limit
from tests.chain.chains import Chain, chain_behind_proxy, done
from tests.chain.failures import call_prefix, dry_run_reverts
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.settlements import (
    DOMAIN,
    EXCHANGE,
    Makers,
    advance_time,
    approve_exchange,
    error_and_wallets,
    now_s,
    outcomes,
    settle,
)
from tests.chain.wallets import REVERTS, UNIT, Wallet, read, receipt_of

OLD = json.loads((Path(__file__).parents[1] / "exchange" / "exchange_0_2_0.json").read_bytes())
"""Creation code of the exchange before escrow."""
OLD_ARGUMENTS = ["string", "string", "address", "address", "address", "address"]
DEPOSIT = "deposit(address,uint256,uint256)"
LATEST_S = 2**64
HALF = UNIT // 2


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("escrow")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        yield chain
        chain.check_conserved()


@pytest.fixture(scope="module")
def worker(chain):
    with chain.worker() as worker:
        assert worker.ready().has_escrow
        yield worker


@pytest.fixture(scope="module")
def market(chain, worker):
    return Makers(chain, worker)


def maker_of(market):
    """Return a maker with funds who approved the operator."""
    maker = market.maker(approved=False)
    maker.approve_collateral()
    maker.approve_tokens()
    return maker


def escrow_of(chain, user, asset="collateral"):
    """Return balance, requested amount and time of a withdrawal."""
    number = COLLATERAL_ASSET if asset == "collateral" else int(asset)
    data = f"0x{ESCROW_OF.encode(user.address, number).hex()}"
    answer = chain.node.ask("eth_call", {"to": EXCHANGE, "data": data}, "latest")
    (escrow,) = ESCROW_OF.decode(bytes.fromhex(answer[2:]))
    return tuple(escrow)


def deposit(chain, worker, user, asset="collateral", amount=UNIT, **more):
    """Deposit an asset and return the answer."""
    body = DepositBody(user=user.address, asset=str(asset), amount=str(amount), **more)
    return done(worker, next(chain.names), body)


def request_of(user, amount, *, asset="collateral", nonce=1, deadline_s=LATEST_S, key=None):
    """Return the body of a signed request."""
    number = COLLATERAL_ASSET if asset == "collateral" else int(asset)
    fields = {"wallet": user.address, "asset": number, "amount": amount, "nonce": nonce}
    signed = sign(SignedWithdrawal(**fields, deadline=deadline_s), DOMAIN, key or user.key)
    return WithdrawRequestBody(
        user=user.address,
        asset=str(asset),
        amount=str(amount),
        nonce=str(nonce),
        deadline=str(deadline_s),
        signature=signed.signature,
    )


def rejection(chain, worker, body):
    """Run an operation that must be rejected without a transaction; return code and detail."""
    num_sent = chain.num_sent()
    result = worker.do(next(chain.names), body)
    assert type(result) is OperationRejected, result
    assert chain.num_sent() == num_sent
    return result.code, result.detail, result.more


# ----- deposits ------------------------------------------------------------------------------


def test_deposits_move_collateral_and_tokens_into_escrow(chain, worker, market):
    maker, token = maker_of(market), market.condition.yes
    first = deposit(chain, worker, maker)
    assert list(first) == [
        "success",
        "message",
        "permitTx",
        "pullTx",
        "depositTx",
        "asset",
        "amount",
    ]
    second = deposit(chain, worker, maker, token, HALF)
    assert (first["permitTx"], second["asset"]) == (None, str(token))
    chain.check_happened([first["pullTx"], first["depositTx"], second["depositTx"]])
    assert escrow_of(chain, maker) == (UNIT, 0, 0)
    assert escrow_of(chain, maker, token) == (HALF, 0, 0)
    assert chain.ledger.collateral(maker.address) == 99 * UNIT
    assert chain.ledger.token(maker.address, token) == 100 * UNIT - HALF


def test_deposit_with_a_permit_needs_no_approval(chain, worker, market):
    maker = market.maker(approved=False)
    given = maker.permit(UNIT)
    answer = deposit(chain, worker, maker, permit=Permit(**given))
    assert answer["permitTx"]
    assert escrow_of(chain, maker) == (UNIT, 0, 0)


def test_deposit_without_funds_approval_or_a_known_token_is_rejected(chain, worker, market):
    maker, token = market.maker(approved=False), str(market.condition.no)
    body = DepositBody(user=maker.address, asset="collateral", amount=str(UNIT))
    code, detail, more = rejection(chain, worker, body)
    assert (code, more["contract"]) == ("NOT_APPROVED", chain.contracts.collateral)
    assert f"approve({chain.operator}, {UNIT})" in detail
    body = DepositBody(user=maker.address, asset=token, amount=str(UNIT))
    assert rejection(chain, worker, body)[0] == "NOT_APPROVED"
    maker.approve_collateral()
    for asset in ("collateral", token):
        body = DepositBody(user=maker.address, asset=asset, amount=str(101 * UNIT))
        code, _, more = rejection(chain, worker, body)
        assert (code, more["available"]) == ("INSUFFICIENT_BALANCE", str(100 * UNIT))
    body = DepositBody(user=maker.address, asset="7", amount="1")
    assert rejection(chain, worker, body)[0] == "UNKNOWN_CONDITION"


@pytest.mark.parametrize("kind", KINDS)
def test_failed_deposit_returns_what_was_taken(tmp_path, kind):
    with chain_behind_proxy(kind, tmp_path) as chain, chain.worker() as worker:
        market = Makers(chain, worker)
        maker, yes = maker_of(market), market.condition.yes
        deposit(chain, worker, maker, amount=1)  # the operator approves the exchange
        for asset, before in (("collateral", 100 * UNIT - 1), (str(yes), 100 * UNIT)):
            body = DepositBody(user=maker.address, asset=asset, amount=str(UNIT))
            fault = dry_run_reverts(call_prefix(DEPOSIT, maker.address))
            with chain.proxy.inject(fault):
                end = worker.do(next(chain.names), body)
            assert (type(end), end.undone) == (OperationFailed, True), end
            assert list(end.hashes) == ["permitTx", "approveTx", "pullTx", "depositTx", "refundTx"]
            assert end.hashes["refundTx"]
            place = 0 if asset == "collateral" else 1
            held = chain.holdings([maker], market.condition)
            assert held[maker.address][place] == before
            assert held[chain.operator][place] == 0


# ----- withdrawals ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_token", [False, True])
def test_withdrawal_is_requested_by_signature_and_paid_when_due(chain, worker, market, is_token):
    maker = maker_of(market)
    asset = str(market.condition.yes) if is_token else "collateral"
    deposit(chain, worker, maker, asset)
    answer = done(worker, next(chain.names), request_of(maker, HALF, asset=asset))
    due_s = now_s(chain.node) + DELAY_S
    assert (answer["from"], answer["amount"]) == (due_s, str(HALF))
    chain.check_happened([answer["requestTx"]])
    assert escrow_of(chain, maker, asset) == (UNIT, HALF, due_s)
    body = WithdrawBody(user=maker.address, asset=asset)
    code, detail, more = rejection(chain, worker, body)
    assert (code, more) == ("WITHDRAWAL_NOT_DUE", {"from": str(due_s)})
    assert str(due_s) in detail
    advance_time(chain.node, DELAY_S)
    answer = done(worker, next(chain.names), body)
    assert (answer["amount"], answer["asset"]) == (str(HALF), asset)
    chain.check_happened([answer["withdrawTx"]])
    assert escrow_of(chain, maker, asset) == (HALF, 0, 0)
    assert rejection(chain, worker, body)[0] == "NOTHING_TO_WITHDRAW"


def test_invalid_request_is_rejected_without_a_transaction(chain, worker, market):
    maker, other = maker_of(market), market.maker(approved=False)
    deposit(chain, worker, maker)
    cases = {
        "INVALID_SIGNATURE": request_of(maker, UNIT, key=other.key),
        "DEADLINE_PASSED": request_of(maker, UNIT, deadline_s=now_s(chain.node) - 1),
        "INSUFFICIENT_BALANCE": request_of(maker, UNIT + 1),
    }
    for code, body in cases.items():
        assert rejection(chain, worker, body)[0] == code
    used = request_of(maker, 5, nonce=9)
    done(worker, next(chain.names), used)
    assert rejection(chain, worker, used)[0] == "NONCE_USED"
    assert escrow_of(chain, maker)[1] == 5


def test_withdrawal_that_a_wallet_rejects_fails_and_changes_nothing(chain, worker, market):
    maker, token = maker_of(market), str(market.condition.yes)
    deposit(chain, worker, maker, token)
    done(worker, next(chain.names), request_of(maker, UNIT, asset=token))
    maker.set_code(REVERTS)
    advance_time(chain.node, DELAY_S)
    end = worker.do(next(chain.names), WithdrawBody(user=maker.address, asset=token))
    assert (type(end), end.undone) == (OperationFailed, True)
    assert escrow_of(chain, maker, token)[:2] == (UNIT, UNIT)


# ----- settlements ---------------------------------------------------------------------------


def test_trades_settle_in_escrow_and_failures_name_the_responsible_wallet(chain, worker, market):
    buyer, seller, poor = (market.maker(approved=False) for _ in range(3))
    for maker in (buyer, seller):
        approve_exchange(maker)
        for asset in (COLLATERAL_ASSET, market.condition.yes):
            maker.call(EXCHANGE, DEPOSIT, maker.address, asset, 10 * UNIT)
    fills = [
        market.trade(buyer, seller),
        market.trade(poor, seller),
        market.trade(buyer, poor),
        market.mint(buyer, seller),
    ]
    hashed = settle(chain, worker, *fills, custody="escrow")
    assert outcomes(chain, hashed, fills) == ["Settled", "SettleFailed", "SettleFailed", "Settled"]
    assert error_and_wallets(chain, hashed, fills) == [
        None,
        ("InsufficientEscrow", (poor.address,)),
        ("InsufficientEscrow", (poor.address,)),
        None,
    ]
    paid = 2 * 40 * UNIT // 100
    assert escrow_of(chain, buyer)[0] == 10 * UNIT - paid
    assert escrow_of(chain, buyer, market.condition.yes)[0] == 12 * UNIT
    again = settle(chain, worker, *fills, custody="escrow")
    assert outcomes(chain, again, fills) == [
        "SettledBefore", "FailedBefore", "FailedBefore", "SettledBefore"
    ]  # fmt: skip


# ----- exchanges of before -------------------------------------------------------------------


@pytest.fixture(scope="module", params=KINDS)
def old_chain(request, tmp_path_factory):
    """A chain with the exchange contract of version 0.2.0."""
    folder = tmp_path_factory.mktemp("old")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        with chain.worker(exchange=""):
            pass
        places = chain.contracts.collateral, chain.contracts.conditional_tokens
        arguments = encode(OLD_ARGUMENTS, ["clob", "1", *places, chain.operator, chain.operator])
        creation = bytes.fromhex(OLD["bytecode"][2:]) + arguments
        Wallet(node, DEPLOYER.private_key).send("", creation, gas=5_000_000)
        yield chain


def test_exchange_of_before_settles_between_wallets_and_rejects_escrow(old_chain):
    chain = old_chain
    with chain.worker() as worker:
        ready = worker.ready()
        assert (ready.addresses.exchange, ready.has_escrow) == (EXCHANGE, False)
        market = Makers(chain, worker)
        one, other = market.maker(), market.maker()
        fill = market.trade(one, other)
        hashed = settle(chain, worker, fill)
        assert outcomes(chain, hashed, [fill]) == ["Settled"]
        body = SettleBody(fills=[market.trade(one, other)], custody="escrow")
        code, detail, _ = rejection(chain, worker, body)
        problem = (
            f"the exchange {EXCHANGE} is of an earlier version and keeps no escrow; deploy another "
            "exchange for escrow markets"
        )
        assert (code, detail) == ("CHAIN_UNAVAILABLE", problem)
        for body in (
            DepositBody(user=one.address, asset="collateral", amount="1"),
            request_of(one, 1),
            WithdrawBody(user=one.address, asset="collateral"),
        ):
            assert rejection(chain, worker, body)[:2] == ("ESCROW_NOT_SUPPORTED", problem)


def test_gas_limit_covers_the_record_of_every_failure(chain, worker, market):
    """Each failed fill of another group of ids writes another word of storage."""
    poor = market.maker()
    poor.call(chain.contracts.collateral, "transfer(address,uint256)", chain.friend.address, UNIT)
    poor.send_collateral(chain.friend.address, 99 * UNIT)
    other = market.maker()
    fills = [market.trade(poor, other) for _ in range(25)]
    hashed = settle(chain, worker, *fills)
    assert outcomes(chain, hashed, fills) == ["SettleFailed"] * 25
    used = int(receipt_of(chain.node, hashed)["gasUsed"], 16)
    assert used < 25 * 130_000
    assert read(chain.node, EXCHANGE, "failed(uint256)", int(fills[0].trade_id), kind="bool")
    assert gas_limit(25, b"") == 60_000 + 25 * 640_000
