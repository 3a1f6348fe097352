"""What cannot succeed is refused before any transaction, and the refusal says what is missing."""

import pytest

from clob_server.chain.messages import OperationRejected
from clob_server.chain.operation_bodies import RedeemBody, ReportBody
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import UNIT, ZERO
from tests.chain.worlds import World, done, faucet, merge, redeem, report, split

UNKNOWN = f"0x{'34' * 32}"


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    with running(start_node(request.param, folder / "devchain")) as node:
        yield World(node, folder / "chain")


@pytest.fixture(scope="module")
def worker(world):
    with world.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def condition(world, worker):
    return world.condition(worker)


def refused(world, worker, body):
    """Have something refused, and nothing done."""
    num_sent, name = world.num_sent(), next(world.names)
    told = worker.do(name, body)
    assert type(told) is OperationRejected, told
    assert world.num_sent() == num_sent
    assert not [each for each in worker.operations() if each.id == name]
    return told


def test_a_condition_that_nobody_prepared(world, worker, condition):
    user = world.user(worker, 5)
    other = condition._replace(id=UNKNOWN)
    for body in (split(user, other, 1), merge(user, other, 1), redeem(user, other)):
        told = refused(world, worker, body)
        assert told.code == "UNKNOWN_CONDITION"
        assert UNKNOWN in told.detail
    told = refused(world, worker, ReportBody(question_id=UNKNOWN, outcome="yes"))
    assert told.code == "UNKNOWN_CONDITION"


def test_tokens_of_something_else(world, worker, condition):
    user = world.user(worker, 5)
    other = condition._replace(yes=condition.no, no=condition.yes)
    for body in (split(user, other, 1), merge(user, other, 1)):
        told = refused(world, worker, body)
        assert told.code == "TOKENS_NOT_OF_CONDITION"
        assert told.more == {"yesTokenId": str(condition.yes), "noTokenId": str(condition.no)}


def test_more_than_there_is(world, worker, condition):
    user = world.user(worker, 5)
    told = refused(world, worker, split(user, condition, 5 * UNIT + 1))
    assert told.code == "INSUFFICIENT_BALANCE"
    assert told.more == {"available": str(5 * UNIT), "needed": str(5 * UNIT + 1)}
    done(worker, next(world.names), split(user, condition, 2 * UNIT))
    told = refused(world, worker, merge(user, condition, 2 * UNIT + 1))
    assert told.code == "INSUFFICIENT_BALANCE"
    assert told.more == {"available": str(2 * UNIT), "needed": str(2 * UNIT + 1)}


def test_tokens_that_the_operator_may_not_take(world, worker, condition):
    user = world.user(worker, 5, approved=False)
    user.approve_collateral()
    done(worker, next(world.names), split(user, condition, UNIT))
    told = refused(world, worker, merge(user, condition, UNIT))
    call = f"setApprovalForAll({world.operator}, true)"
    assert told.code == "NOT_APPROVED"
    assert told.more == {"contract": world.contracts.conditional_tokens, "call": call}
    assert call in told.detail


def test_collateral_that_the_operator_may_not_take(world, worker, condition):
    user = world.user(worker, 5, approved=False)
    user.approve_collateral(UNIT - 1)
    told = refused(world, worker, split(user, condition, UNIT))
    call = f"approve({world.operator}, {UNIT})"
    assert told.code == "NOT_APPROVED"
    assert told.more == {"contract": world.contracts.collateral, "call": call}
    assert f"has approved {UNIT - 1} wei" in told.detail


def test_a_permit_that_is_for_too_little_or_somebody_elses(world, worker, condition):
    user, other = (world.user(worker, 5, approved=False) for _ in range(2))
    told = refused(world, worker, split(user, condition, UNIT, user.permit(UNIT - 1)))
    assert told.code == "NOT_APPROVED"
    assert f"its permit is for {UNIT - 1}" in told.detail
    told = refused(world, worker, split(user, condition, UNIT, other.permit(UNIT)))
    assert told.code == "NOT_APPROVED"
    assert "ERC2612InvalidSigner" in told.detail


def test_a_permit_that_is_not_needed_is_not_used(world, worker, condition):
    user = world.user(worker, 5)
    answer = done(worker, next(world.names), split(user, condition, UNIT, user.permit(UNIT)))
    assert answer["permitTx"] is None


def test_a_condition_without_an_outcome_and_nothing_to_redeem(world, worker):
    condition = world.condition(worker)
    user, loser = (world.user(worker, 5) for _ in range(2))
    for each in (user, loser):
        done(worker, next(world.names), split(each, condition, UNIT))
    loser.give_token(user.address, condition.yes, UNIT)
    assert refused(world, worker, redeem(user, condition)).code == "CONDITION_NOT_RESOLVED"
    done(worker, next(world.names), report(condition, "yes"))
    told = refused(world, worker, redeem(loser, condition))
    assert told.code == "NOTHING_TO_REDEEM"
    assert "1/1 and 0/1" in told.detail
    told = refused(world, worker, report(condition, "no"))
    assert told.code == "CONDITION_RESOLVED"
    answer = done(worker, next(world.names), redeem(user, condition))
    assert answer["amount"] == str(2 * UNIT)


def test_what_is_prepared_or_reported_already_is_done_without_a_transaction(world, worker):
    condition = world.condition(worker)
    done(worker, next(world.names), report(condition, "no"))
    num_sent = world.num_sent()
    assert done(worker, next(world.names), report(condition, "no"))["reportTx"] is None
    assert world.num_sent() == num_sent


@pytest.mark.parametrize("whose", ["zero", "operator", "collateral", "tokens", "exchange"])
def test_a_wallet_that_is_nobodys(world, worker, condition, whose):
    address = {
        "zero": f"0x{ZERO.hex()}",
        "operator": world.operator,
        "collateral": world.contracts.collateral,
        "tokens": world.contracts.conditional_tokens,
        "exchange": world.contracts.exchange,
    }[whose]
    user = world.stranger()
    user.address = address
    for body in (
        faucet(user, 1),
        split(user, condition, 1),
        merge(user, condition, 1),
        RedeemBody(user=address, condition_id=condition.id),
    ):
        assert refused(world, worker, body).code == "INVALID_ADDRESS"


def test_the_same_tokens_twice_at_once(world, worker, condition):
    user = world.user(worker, 5)
    done(worker, next(world.names), split(user, condition, 3 * UNIT))
    names = [next(world.names) for _ in range(4)]
    for name in names:
        worker.start(name, merge(user, condition, 2 * UNIT))
    ends = [worker.end(name) for name in names]
    codes = sorted(getattr(end, "code", "done") for end in ends)
    assert codes == ["INSUFFICIENT_BALANCE"] * 3 + ["done"]
    [told] = {end.detail for end in ends if type(end) is OperationRejected}
    assert f"has {UNIT} wei" in told


def test_amounts_that_suffice_for_all_are_not_held_up(world, worker, condition):
    user = world.user(worker, 8)
    done(worker, next(world.names), split(user, condition, 8 * UNIT))
    names = [next(world.names) for _ in range(8)]
    for name in names:
        worker.start(name, merge(user, condition, UNIT))
    assert {type(worker.end(name)).__name__ for name in names} == {"Done"}
    assert world.ledger.collateral(user.address) == 8 * UNIT


def test_an_operator_without_money(world, worker, condition):
    if world.node.kind != "anvil":
        pytest.skip("not here: only anvil changes balances as one likes")
    before = world.ledger.ether(world.operator)
    world.node.ask("anvil_setBalance", world.operator, "0x1")
    try:
        told = refused(world, worker, faucet(world.stranger(), 1))
    finally:
        world.node.ask("anvil_setBalance", world.operator, hex(before))
    assert told.code == "OPERATOR_OUT_OF_GAS"
    assert told.more["available"] == "1"
