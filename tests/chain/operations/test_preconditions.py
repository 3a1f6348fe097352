"""Operations that cannot succeed are rejected before any transaction, with the missing amount."""

import pytest

from clob_server.chain.messages import OperationRejected
from clob_server.chain.operation_bodies import RedeemBody, ReportBody
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import UNIT, ZERO
from tests.chain.worlds import World, done, faucet, merge, redeem, report, split

UNKNOWN = f"0x{'34' * 32}"


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rejections")
    with running(start_node(request.param, folder / "devchain")) as node:
        yield World(node, folder / "chain")


@pytest.fixture(scope="module")
def worker(world):
    with world.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def condition(world, worker):
    return world.condition(worker)


def rejected(world, worker, body):
    """Run an operation that must be rejected without a transaction."""
    num_sent, name = world.num_sent(), next(world.names)
    result = worker.do(name, body)
    assert type(result) is OperationRejected, result
    assert world.num_sent() == num_sent
    assert not [each for each in worker.operations() if each.id == name]
    return result


def test_unprepared_condition_is_rejected(world, worker, condition):
    user = world.user(worker, 5)
    other = condition._replace(id=UNKNOWN)
    for body in (split(user, other, 1), merge(user, other, 1), redeem(user, other)):
        result = rejected(world, worker, body)
        assert result.code == "UNKNOWN_CONDITION"
        assert UNKNOWN in result.detail
    result = rejected(world, worker, ReportBody(question_id=UNKNOWN, outcome="yes"))
    assert result.code == "UNKNOWN_CONDITION"


def test_tokens_of_another_condition_are_rejected(world, worker, condition):
    user = world.user(worker, 5)
    other = condition._replace(yes=condition.no, no=condition.yes)
    for body in (split(user, other, 1), merge(user, other, 1)):
        result = rejected(world, worker, body)
        assert result.code == "TOKENS_NOT_OF_CONDITION"
        assert result.more == {"yesTokenId": str(condition.yes), "noTokenId": str(condition.no)}


def test_insufficient_balance_is_rejected(world, worker, condition):
    user = world.user(worker, 5)
    result = rejected(world, worker, split(user, condition, 5 * UNIT + 1))
    assert result.code == "INSUFFICIENT_BALANCE"
    assert result.more == {"available": str(5 * UNIT), "needed": str(5 * UNIT + 1)}
    done(worker, next(world.names), split(user, condition, 2 * UNIT))
    result = rejected(world, worker, merge(user, condition, 2 * UNIT + 1))
    assert result.code == "INSUFFICIENT_BALANCE"
    assert result.more == {"available": str(2 * UNIT), "needed": str(2 * UNIT + 1)}


def test_unapproved_tokens_are_rejected(world, worker, condition):
    user = world.user(worker, 5, approved=False)
    user.approve_collateral()
    done(worker, next(world.names), split(user, condition, UNIT))
    result = rejected(world, worker, merge(user, condition, UNIT))
    call = f"setApprovalForAll({world.operator}, true)"
    assert result.code == "NOT_APPROVED"
    assert result.more == {"contract": world.contracts.conditional_tokens, "call": call}
    assert call in result.detail


def test_unapproved_collateral_is_rejected(world, worker, condition):
    user = world.user(worker, 5, approved=False)
    user.approve_collateral(UNIT - 1)
    result = rejected(world, worker, split(user, condition, UNIT))
    call = f"approve({world.operator}, {UNIT})"
    assert result.code == "NOT_APPROVED"
    assert result.more == {"contract": world.contracts.collateral, "call": call}
    assert f"has approved {UNIT - 1} wei" in result.detail


def test_permit_for_a_lower_amount_or_another_owner_is_rejected(world, worker, condition):
    user, other = (world.user(worker, 5, approved=False) for _ in range(2))
    result = rejected(world, worker, split(user, condition, UNIT, user.permit(UNIT - 1)))
    assert result.code == "NOT_APPROVED"
    assert f"its permit is for {UNIT - 1}" in result.detail
    result = rejected(world, worker, split(user, condition, UNIT, other.permit(UNIT)))
    assert result.code == "NOT_APPROVED"
    assert "ERC2612InvalidSigner" in result.detail


def test_unneeded_permit_is_not_submitted(world, worker, condition):
    user = world.user(worker, 5)
    answer = done(worker, next(world.names), split(user, condition, UNIT, user.permit(UNIT)))
    assert answer["permitTx"] is None


def test_redeem_without_outcome_or_payout_is_rejected(world, worker):
    condition = world.condition(worker)
    user, loser = (world.user(worker, 5) for _ in range(2))
    for each in (user, loser):
        done(worker, next(world.names), split(each, condition, UNIT))
    loser.send_token(user.address, condition.yes, UNIT)
    assert rejected(world, worker, redeem(user, condition)).code == "CONDITION_NOT_RESOLVED"
    done(worker, next(world.names), report(condition, "yes"))
    result = rejected(world, worker, redeem(loser, condition))
    assert result.code == "NOTHING_TO_REDEEM"
    assert "1/1 and 0/1" in result.detail
    result = rejected(world, worker, report(condition, "no"))
    assert result.code == "CONDITION_RESOLVED"
    answer = done(worker, next(world.names), redeem(user, condition))
    assert answer["amount"] == str(2 * UNIT)


def test_repeated_report_succeeds_without_a_transaction(world, worker):
    condition = world.condition(worker)
    done(worker, next(world.names), report(condition, "no"))
    num_sent = world.num_sent()
    assert done(worker, next(world.names), report(condition, "no"))["reportTx"] is None
    assert world.num_sent() == num_sent


@pytest.mark.parametrize("holder", ["zero", "operator", "collateral", "tokens", "exchange"])
def test_zero_operator_and_contract_addresses_are_rejected(world, worker, condition, holder):
    address = {
        "zero": f"0x{ZERO.hex()}",
        "operator": world.operator,
        "collateral": world.contracts.collateral,
        "tokens": world.contracts.conditional_tokens,
        "exchange": world.contracts.exchange,
    }[holder]
    user = world.stranger()
    user.address = address
    for body in (
        faucet(user, 1),
        split(user, condition, 1),
        merge(user, condition, 1),
        RedeemBody(user=address, condition_id=condition.id),
    ):
        assert rejected(world, worker, body).code == "INVALID_ADDRESS"


def test_concurrent_merges_of_the_same_tokens_succeed_once(world, worker, condition):
    user = world.user(worker, 5)
    done(worker, next(world.names), split(user, condition, 3 * UNIT))
    names = [next(world.names) for _ in range(4)]
    for name in names:
        worker.start(name, merge(user, condition, 2 * UNIT))
    ends = [worker.end(name) for name in names]
    codes = sorted(getattr(end, "code", "done") for end in ends)
    assert codes == ["INSUFFICIENT_BALANCE"] * 3 + ["done"]
    [result] = {end.detail for end in ends if type(end) is OperationRejected}
    assert f"has {UNIT} wei" in result


def test_concurrent_merges_with_sufficient_balance_all_succeed(world, worker, condition):
    user = world.user(worker, 8)
    done(worker, next(world.names), split(user, condition, 8 * UNIT))
    names = [next(world.names) for _ in range(8)]
    for name in names:
        worker.start(name, merge(user, condition, UNIT))
    assert {type(worker.end(name)).__name__ for name in names} == {"OperationDone"}
    assert world.ledger.collateral(user.address) == 8 * UNIT


def test_operator_without_gas_rejects_operations(world, worker, condition):
    if world.node.kind != "anvil":
        pytest.skip("not here: only anvil can set balances")
    before = world.ledger.ether(world.operator)
    world.node.ask("anvil_setBalance", world.operator, "0x1")
    try:
        result = rejected(world, worker, faucet(world.stranger(), 1))
    finally:
        world.node.ask("anvil_setBalance", world.operator, hex(before))
    assert result.code == "OPERATOR_OUT_OF_GAS"
    assert result.more["available"] == "1"
