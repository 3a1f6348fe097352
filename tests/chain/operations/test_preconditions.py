"""Operations that cannot succeed are rejected before any transaction, with the missing amount."""

import pytest

from clob.wire.operations import RedeemBody, ReportBody
from clob_server.chain.messages import OperationRejected
from tests.chain.chains import Chain, done, faucet, merge, redeem, report, split, unwrap, wrap
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.wallets import STABLE_UNIT, UNIT, ZERO

UNKNOWN = f"0x{'34' * 32}"


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rejections")
    with running(start_node(request.param, folder / "devchain")) as node:
        yield Chain(node, folder / "chain")


@pytest.fixture(scope="module")
def worker(chain):
    with chain.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def condition(chain, worker):
    return chain.condition(worker)


def rejected(chain, worker, body):
    """Run an operation that must be rejected without a transaction."""
    num_sent, name = chain.num_sent(), next(chain.names)
    result = worker.do(name, body)
    assert type(result) is OperationRejected, result
    assert chain.num_sent() == num_sent
    assert not [each for each in worker.operations() if each.id == name]
    return result


def test_unprepared_condition_is_rejected(chain, worker, condition):
    user = chain.user(worker, 5)
    other = condition._replace(id=UNKNOWN)
    for body in (split(user, other, 1), merge(user, other, 1), redeem(user, other)):
        result = rejected(chain, worker, body)
        assert result.code == "UNKNOWN_CONDITION"
        assert UNKNOWN in result.detail
    result = rejected(chain, worker, ReportBody(question_id=UNKNOWN, outcome="yes"))
    assert result.code == "UNKNOWN_CONDITION"


def test_tokens_of_another_condition_are_rejected(chain, worker, condition):
    user = chain.user(worker, 5)
    other = condition._replace(yes=condition.no, no=condition.yes)
    for body in (split(user, other, 1), merge(user, other, 1)):
        result = rejected(chain, worker, body)
        assert result.code == "TOKENS_NOT_OF_CONDITION"
        assert result.more == {"yesTokenId": str(condition.yes), "noTokenId": str(condition.no)}


def test_insufficient_balance_is_rejected(chain, worker, condition):
    user = chain.user(worker, 5)
    result = rejected(chain, worker, split(user, condition, 5 * UNIT + 1))
    assert result.code == "INSUFFICIENT_BALANCE"
    assert result.more == {"available": str(5 * UNIT), "needed": str(5 * UNIT + 1)}
    done(worker, next(chain.names), split(user, condition, 2 * UNIT))
    result = rejected(chain, worker, merge(user, condition, 2 * UNIT + 1))
    assert result.code == "INSUFFICIENT_BALANCE"
    assert result.more == {"available": str(2 * UNIT), "needed": str(2 * UNIT + 1)}


def test_unapproved_tokens_are_rejected(chain, worker, condition):
    user = chain.user(worker, 5, approved=False)
    user.approve_collateral()
    done(worker, next(chain.names), split(user, condition, UNIT))
    result = rejected(chain, worker, merge(user, condition, UNIT))
    call = f"setApprovalForAll({chain.operator}, true)"
    assert result.code == "NOT_APPROVED"
    assert result.more == {"contract": chain.contracts.conditional_tokens, "call": call}
    assert call in result.detail


def test_unapproved_collateral_is_rejected(chain, worker, condition):
    user = chain.user(worker, 5, approved=False)
    user.approve_collateral(UNIT - 1)
    result = rejected(chain, worker, split(user, condition, UNIT))
    call = f"approve({chain.operator}, {UNIT})"
    assert result.code == "NOT_APPROVED"
    assert result.more == {"contract": chain.contracts.collateral, "call": call}
    assert f"has approved {UNIT - 1} wei" in result.detail


def test_permit_for_a_lower_amount_or_another_owner_is_rejected(chain, worker, condition):
    user, other = (chain.user(worker, 5, approved=False) for _ in range(2))
    result = rejected(chain, worker, split(user, condition, UNIT, user.permit(UNIT - 1)))
    assert result.code == "NOT_APPROVED"
    assert f"its permit is for {UNIT - 1}" in result.detail
    result = rejected(chain, worker, split(user, condition, UNIT, other.permit(UNIT)))
    assert result.code == "NOT_APPROVED"
    assert "ERC2612InvalidSigner" in result.detail


def test_unneeded_permit_is_not_submitted(chain, worker, condition):
    user = chain.user(worker, 5)
    answer = done(worker, next(chain.names), split(user, condition, UNIT, user.permit(UNIT)))
    assert answer["permitTx"] is None


def test_fraction_of_the_smallest_unit_of_the_stablecoin_is_rejected(chain, worker):
    user = chain.user(worker, 5)
    for make in (wrap, unwrap):
        result = rejected(chain, worker, make(user, UNIT + 1))
        assert result.code == "INVALID_AMOUNT"
        assert f"a multiple of {UNIT // STABLE_UNIT} wei" in result.detail


def test_insufficient_balance_or_approval_rejects_wrap_and_unwrap(chain, worker):
    user, contracts = chain.user(worker, 5, approved=False), chain.contracts
    user.unwrap(2 * UNIT)
    for make, held, token, scale in (
        (wrap, 2 * UNIT, contracts.stablecoin, UNIT // STABLE_UNIT),
        (unwrap, 3 * UNIT, contracts.collateral, 1),
    ):
        result = rejected(chain, worker, make(user, 4 * UNIT))
        assert result.code == "INSUFFICIENT_BALANCE"
        assert result.more == {"available": str(held), "needed": str(4 * UNIT)}
        result = rejected(chain, worker, make(user, UNIT))
        call = f"approve({chain.operator}, {UNIT // scale})"
        assert (result.code, result.more) == ("NOT_APPROVED", {"contract": token, "call": call})
        permit = user.permit(UNIT // scale - 1, contract=token)
        result = rejected(chain, worker, make(user, UNIT, permit))
        assert f"its permit is for {UNIT // scale - 1}" in result.detail


def test_wraps_of_one_balance_at_the_same_time_do_not_use_it_twice(chain, worker):
    user = chain.user(worker, 3)
    user.unwrap(3 * UNIT)
    user.approve_stablecoin()
    names = [next(chain.names) for _ in range(2)]
    for name in names:
        worker.start(name, wrap(user, 2 * UNIT))
    ends = {type(worker.end(name)).__name__ for name in names}
    assert ends == {"OperationDone", "OperationRejected"}
    assert chain.ledger.stable(user.address) == STABLE_UNIT


def test_redeem_without_outcome_or_payout_is_rejected(chain, worker):
    condition = chain.condition(worker)
    user, loser = (chain.user(worker, 5) for _ in range(2))
    for each in (user, loser):
        done(worker, next(chain.names), split(each, condition, UNIT))
    loser.send_token(user.address, condition.yes, UNIT)
    assert rejected(chain, worker, redeem(user, condition)).code == "CONDITION_NOT_RESOLVED"
    done(worker, next(chain.names), report(condition, "yes"))
    result = rejected(chain, worker, redeem(loser, condition))
    assert result.code == "NOTHING_TO_REDEEM"
    assert "1/1 and 0/1" in result.detail
    result = rejected(chain, worker, report(condition, "no"))
    assert result.code == "CONDITION_RESOLVED"
    answer = done(worker, next(chain.names), redeem(user, condition))
    assert answer["amount"] == str(2 * UNIT)


def test_repeated_report_succeeds_without_a_transaction(chain, worker):
    condition = chain.condition(worker)
    done(worker, next(chain.names), report(condition, "no"))
    num_sent = chain.num_sent()
    assert done(worker, next(chain.names), report(condition, "no"))["reportTx"] is None
    assert chain.num_sent() == num_sent


@pytest.mark.parametrize("holder", ["zero", "operator", "collateral", "tokens", "exchange"])
def test_zero_operator_and_contract_addresses_are_rejected(chain, worker, condition, holder):
    address = {
        "zero": f"0x{ZERO.hex()}",
        "operator": chain.operator,
        "collateral": chain.contracts.collateral,
        "tokens": chain.contracts.conditional_tokens,
        "exchange": chain.contracts.exchange,
    }[holder]
    user = chain.stranger()
    user.address = address
    for body in (
        faucet(user, 1),
        split(user, condition, 1),
        merge(user, condition, 1),
        RedeemBody(user=address, condition_id=condition.id),
    ):
        assert rejected(chain, worker, body).code == "INVALID_ADDRESS"


def test_concurrent_merges_of_the_same_tokens_succeed_once(chain, worker, condition):
    user = chain.user(worker, 5)
    done(worker, next(chain.names), split(user, condition, 3 * UNIT))
    names = [next(chain.names) for _ in range(4)]
    for name in names:
        worker.start(name, merge(user, condition, 2 * UNIT))
    ends = [worker.end(name) for name in names]
    codes = sorted(getattr(end, "code", "done") for end in ends)
    assert codes == ["INSUFFICIENT_BALANCE"] * 3 + ["done"]
    [result] = {end.detail for end in ends if type(end) is OperationRejected}
    assert f"has {UNIT} wei" in result


def test_concurrent_merges_with_sufficient_balance_all_succeed(chain, worker, condition):
    user = chain.user(worker, 8)
    done(worker, next(chain.names), split(user, condition, 8 * UNIT))
    names = [next(chain.names) for _ in range(8)]
    for name in names:
        worker.start(name, merge(user, condition, UNIT))
    assert {type(worker.end(name)).__name__ for name in names} == {"OperationDone"}
    assert chain.ledger.collateral(user.address) == 8 * UNIT


def test_operator_without_gas_rejects_operations(chain, worker, condition):
    if chain.node.kind != "anvil":
        pytest.skip("not here: only anvil can set balances")
    before = chain.ledger.ether(chain.operator)
    chain.node.ask("anvil_setBalance", chain.operator, "0x1")
    try:
        result = rejected(chain, worker, faucet(chain.stranger(), 1))
    finally:
        chain.node.ask("anvil_setBalance", chain.operator, hex(before))
    assert result.code == "OPERATOR_OUT_OF_GAS"
    assert result.more["available"] == "1"
