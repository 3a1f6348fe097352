"""Settlements: fills in one transaction, those that fail alone, and what is refused as a whole."""

import time

import pytest
from msgspec.structs import replace

from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.eth.exchange_abi import FILL_GAS, FILLS_MAX, settle_bodies
from clob_server.chain.messages import OperationFailed, OperationRejected
from clob_server.chain.operation_bodies import SettleBody
from clob_server.chain.operations.settle import gas_limit
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.people import REVERTS, UNIT, Person, read, receipt_of
from tests.chain.settlements import (
    EXCHANGE,
    INVALID,
    Makers,
    outcomes,
    settle,
    verdicts,
)
from tests.chain.worlds import World, answer_of

GAS_CAP = 2**24
"""How much gas a transaction may take since Osaka (EIP-7825)."""


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settle")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        yield world
        world.check_conserved()
        assert world.ledger.collateral(EXCHANGE) == 0


@pytest.fixture(scope="module")
def worker(world):
    with world.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def market(world, worker):
    return Makers(world, worker)


@pytest.fixture(scope="module")
def pair(market):
    """Two makers with whom nothing is wrong."""
    return market.maker(), market.maker()


def held(world, market, *people):
    """The collateral and both tokens of people."""
    found = world.holdings(people, market.condition)
    return [found[one.address] for one in people]


# ----- what settles, and what fails alone ----------------------------------------------------


def test_trades_of_three_kinds_settle_in_one_transaction(world, worker, market, pair):
    one, other = pair
    fills = [market.trade(one, other), market.mint(one, other), market.merge(one, other)]
    before, num_sent = held(world, market, one, other), world.num_sent()
    hashed = settle(world, worker, *fills)
    assert world.num_sent() == num_sent + 1
    assert outcomes(world, hashed, fills) == ["Settled"] * 3
    cents = UNIT // 100
    changes = [(-40 - 40 + 40, 100 + 100 - 100, 0), (40 - 60 + 60, -100, 100 - 100)]
    assert held(world, market, one, other) == [
        tuple(old + more * cents for old, more in zip(had, change, strict=True))
        for had, change in zip(before, changes, strict=True)
    ]
    assert verdicts(world, hashed, fills) == [None] * 3


# ----- once, side by side, and with enough gas -----------------------------------------------


def test_what_settled_moves_nothing_again(world, worker, market, pair):
    one, other = pair
    fills = [market.trade(one, other), market.trade(one, other)]
    settle(world, worker, fills[0])
    before = held(world, market, one, other)
    hashed = settle(world, worker, *fills)
    assert outcomes(world, hashed, fills) == ["SettledBefore", "Settled"]
    again = settle(world, worker, *fills)
    assert outcomes(world, again, fills) == ["SettledBefore"] * 2
    need = 40 * UNIT // 100
    assert held(world, market, one, other) == [
        (before[0][0] - need, before[0][1] + UNIT, before[0][2]),
        (before[1][0] + need, before[1][1] - UNIT, before[1][2]),
    ]


def test_an_operation_settles_once_however_often_it_is_asked_for(world, worker, market, pair):
    body, name = SettleBody(fills=[market.trade(*pair)]), next(world.names)
    num_sent = world.num_sent()
    first = worker.do(name, body)
    assert worker.do(name, body) == first
    assert world.num_sent() == num_sent + 1


def test_settlements_side_by_side(world, worker, market, pair):
    one, other = pair
    batches = [[market.trade(one, other) for _ in range(3)] for _ in range(4)]
    named = [(next(world.names), SettleBody(fills=fills)) for fills in batches]
    since = [worker.start(name, body) for name, body in named]
    ends = [worker.end(name, first) for (name, _), first in zip(named, since, strict=True)]
    for end, fills in zip(ends, batches, strict=True):
        assert outcomes(world, answer_of(end)["settleTx"], fills) == ["Settled"] * 3


def test_a_batch_of_burners_leaves_enough_gas_for_the_last(world, worker, market, pair):
    one, other = pair
    burner = market.maker()
    burner.becomes(INVALID)
    fills = [market.trade(burner, other) for _ in range(FILLS_MAX - 1)] + [market.trade(one, other)]
    hashed = settle(world, worker, *fills)
    assert outcomes(world, hashed, fills) == ["SettleFailed"] * (FILLS_MAX - 1) + ["Settled"]
    allowed = int(world.node.ask("eth_getTransactionByHash", hashed)["gas"], 16)
    assert allowed == gas_limit(FILLS_MAX, settle_bodies(fills)) < GAS_CAP
    used = int(receipt_of(world.node, hashed)["gasUsed"], 16)
    assert (FILLS_MAX - 1) * FILL_GAS < used < allowed - 400_000


@pytest.mark.parametrize("count", [1, 2])
def test_the_gas_of_a_settlement_is_more_than_the_node_estimates(
    world, worker, market, pair, count
):
    data = settle_bodies([market.trade(*pair) for _ in range(count)])
    asked = {"from": world.operator, "to": EXCHANGE, "data": f"0x{data.hex()}"}
    estimate = int(world.node.ask("eth_estimateGas", asked), 16)
    assert FILL_GAS < estimate < gas_limit(count, data) - 15_000


def test_the_limits_are_those_of_the_contract(world):
    assert read(world.node, EXCHANGE, "FILL_GAS()") == FILL_GAS
    assert read(world.node, EXCHANGE, "FILLS_MAX()") == FILLS_MAX


# ----- what is refused as a whole ------------------------------------------------------------


def refused(world, worker, fills):
    """Have a settlement refused, before any transaction."""
    num_sent = world.num_sent()
    told = worker.do(next(world.names), SettleBody(fills=fills))
    assert type(told) is OperationRejected, told
    assert world.num_sent() == num_sent
    return told.code, told.detail


def test_what_the_contract_would_not_take_is_refused(world, worker, market, pair):
    fill = market.trade(*pair)
    code, detail = refused(world, worker, [fill] * (FILLS_MAX + 1))
    assert (code, detail) == ("INVALID_COMMAND", "1 to 25 trades settle, not 26")
    assert refused(world, worker, [])[0] == "INVALID_COMMAND"
    for wrong in ({"trade_id": str(2**256)}, {"size": "a lot"}):
        code, detail = refused(world, worker, [fill, replace(fill, **wrong)])
        assert code == "INVALID_COMMAND"
        assert detail.startswith("a trade cannot be written: ")


def test_nothing_settles_where_there_is_no_exchange(world, market, pair, tmp_path):
    with World(world.node, tmp_path / "chain").starting(exchange="", deploy=False) as worker:
        assert worker.ready().addresses.exchange == ""
        code, detail = refused(world, worker, [market.trade(*pair)])
    assert (code, detail) == ("CHAIN_UNAVAILABLE", "there is no exchange contract on this chain")


def test_a_paused_exchange_takes_nothing_until_it_goes_on(world, worker, market, pair):
    owner = Person(world.node, OPERATOR.private_key)
    fill = market.trade(*pair)
    owner.call(EXCHANGE, "pause()")
    code, detail = refused(world, worker, [fill])
    assert (code, detail) == ("CHAIN_UNAVAILABLE", f"the exchange {EXCHANGE} is paused")
    owner.call(EXCHANGE, "unpause()")
    assert outcomes(world, settle(world, worker, fill), [fill]) == ["Settled"]


@pytest.fixture
def alone(tmp_path):
    """An anvil for one test."""
    with running(start_anvil()) as node:
        yield World(node, tmp_path / "chain")


def test_a_transaction_that_is_reverted_is_a_failure_that_undid_everything(alone):
    with alone.worker() as worker:
        market = Makers(alone, worker)
        one, other = market.maker(), market.maker()
        fill, name = market.trade(one, other), next(alone.names)
        alone.node.ask("evm_setAutomine", False)
        since = worker.keep(name, SettleBody(fills=[fill]))
        while alone.node.ask("eth_getBlockTransactionCountByNumber", "pending") == "0x0":
            time.sleep(0.01)
        code = alone.node.ask("eth_getCode", EXCHANGE, "latest")
        alone.node.ask("anvil_setCode", EXCHANGE, f"0x{REVERTS.hex()}")
        alone.node.ask("evm_mine")
        alone.node.ask("evm_setAutomine", True)
        told = worker.end(name, since)
        assert (type(told), told.code, told.undone) == (OperationFailed, "OPERATION_FAILED", True)
        assert told.detail == "settleTx failed: the transaction was reverted"
        alone.node.ask("anvil_setCode", EXCHANGE, code)
        assert outcomes(alone, settle(alone, worker, fill), [fill]) == ["Settled"]


@pytest.mark.long
def test_what_a_reorganisation_took_back_settles_in_the_new_branch(alone):
    with alone.worker() as worker:
        market = Makers(alone, worker)
        one, other, poor = (market.maker() for _ in range(3))
        fills = [market.trade(one, other), market.trade(one, poor)]
        snapshot = alone.node.ask("evm_snapshot")
        hashed = settle(alone, worker, *fills)
        assert outcomes(alone, hashed, fills) == ["Settled"] * 2
        alone.node.ask("evm_revert", snapshot)
        assert alone.node.ask("eth_getTransactionReceipt", hashed) is None
        poor.give_token(one.address, market.condition.yes, 100 * UNIT)
        assert outcomes(alone, hashed, fills) == ["Settled", "SettleFailed"]
        assert not worker.operations(status="stuck")
        assert alone.ledger.token(one.address, market.condition.yes) == 201 * UNIT


def test_a_batch_that_fits_into_no_block_is_refused(tmp_path):
    with running(start_anvil("--gas-limit", "10000000")) as node:
        world = World(node, tmp_path / "chain")
        with world.worker() as worker:
            market = Makers(world, worker)
            one, other = market.maker(), market.maker()
            fills = [market.trade(one, other) for _ in range(20)]
            code, detail = refused(world, worker, fills)
            assert code == "CHAIN_UNAVAILABLE"
            assert detail == (
                f"20 trades may take {gas_limit(20, settle_bodies(fills))} gas, and a block has "
                "10000000"
            )
            assert outcomes(world, settle(world, worker, *fills[:10]), fills[:10])


def test_an_operator_who_cannot_pay_for_the_most_it_may_take_is_refused(tmp_path):
    with running(start_anvil()) as node:
        world = World(node, tmp_path / "chain")
        with world.worker() as worker:
            market = Makers(world, worker)
            fills = [market.trade(market.maker(), market.maker())] * 25
            node.ask("anvil_setBalance", world.operator, hex(10**15))
            assert refused(world, worker, fills)[0] == "OPERATOR_OUT_OF_GAS"
