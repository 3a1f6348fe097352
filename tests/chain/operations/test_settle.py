"""Settlement operations: fills in one transaction, failed fills, and rejected batches."""

import time

import pytest
from msgspec.structs import replace

from clob.wire.operations import SettleBody
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.eth.exchange_abi import FILL_GAS, FILLS_MAX, encode_settle_bodies
from clob_server.chain.messages import OperationFailed, OperationRejected
from clob_server.chain.operations.settle import gas_limit
from tests.chain.chains import Chain, answer_of
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.settlements import (
    EXCHANGE,
    INVALID,
    Makers,
    failure_causes,
    outcomes,
    settle,
)
from tests.chain.wallets import REVERTS, UNIT, Wallet, read, receipt_of

GAS_CAP = 2**24
"""Maximum gas of a transaction since Osaka (EIP-7825)."""


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settle")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        yield chain
        chain.check_conserved()
        assert chain.ledger.collateral(EXCHANGE) == 0


@pytest.fixture(scope="module")
def worker(chain):
    with chain.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def market(chain, worker):
    return Makers(chain, worker)


@pytest.fixture(scope="module")
def pair(market):
    """Two makers with valid orders."""
    return market.maker(), market.maker()


def held(chain, market, *users):
    """Return collateral and both tokens of users."""
    holdings = chain.holdings(users, market.condition)
    return [holdings[one.address] for one in users]


# ----- settled and failed fills --------------------------------------------------------------


def test_direct_mint_and_merge_trades_settle_in_one_transaction(chain, worker, market, pair):
    one, other = pair
    fills = [market.trade(one, other), market.mint(one, other), market.merge(one, other)]
    before, num_sent = held(chain, market, one, other), chain.num_sent()
    hashed = settle(chain, worker, *fills)
    assert chain.num_sent() == num_sent + 1
    assert outcomes(chain, hashed, fills) == ["Settled"] * 3
    cents = UNIT // 100
    changes = [(-40 - 40 + 40, 100 + 100 - 100, 0), (40 - 60 + 60, -100, 100 - 100)]
    assert held(chain, market, one, other) == [
        tuple(old + more * cents for old, more in zip(had, change, strict=True))
        for had, change in zip(before, changes, strict=True)
    ]
    assert failure_causes(chain, hashed, fills) == [None] * 3


# ----- idempotency, concurrency and gas ------------------------------------------------------


def test_settled_trade_is_not_settled_again(chain, worker, market, pair):
    one, other = pair
    fills = [market.trade(one, other), market.trade(one, other)]
    settle(chain, worker, fills[0])
    before = held(chain, market, one, other)
    hashed = settle(chain, worker, *fills)
    assert outcomes(chain, hashed, fills) == ["SettledBefore", "Settled"]
    repeated = settle(chain, worker, *fills)
    assert outcomes(chain, repeated, fills) == ["SettledBefore"] * 2
    need = 40 * UNIT // 100
    assert held(chain, market, one, other) == [
        (before[0][0] - need, before[0][1] + UNIT, before[0][2]),
        (before[1][0] + need, before[1][1] - UNIT, before[1][2]),
    ]


def test_repeated_operation_settles_once(chain, worker, market, pair):
    body, name = SettleBody(fills=[market.trade(*pair)]), next(chain.names)
    num_sent = chain.num_sent()
    first = worker.do(name, body)
    assert worker.do(name, body) == first
    assert chain.num_sent() == num_sent + 1


def test_concurrent_settlements(chain, worker, market, pair):
    one, other = pair
    batches = [[market.trade(one, other) for _ in range(3)] for _ in range(4)]
    named = [(next(chain.names), SettleBody(fills=fills)) for fills in batches]
    since = [worker.start(name, body) for name, body in named]
    ends = [worker.end(name, first) for (name, _), first in zip(named, since, strict=True)]
    for end, fills in zip(ends, batches, strict=True):
        assert outcomes(chain, answer_of(end)["settleTx"], fills) == ["Settled"] * 3


def test_gas_burning_fills_leave_enough_gas_for_the_last_fill(chain, worker, market, pair):
    one, other = pair
    burner = market.maker()
    burner.set_code(INVALID)
    fills = [market.trade(burner, other) for _ in range(FILLS_MAX - 1)] + [market.trade(one, other)]
    hashed = settle(chain, worker, *fills)
    assert outcomes(chain, hashed, fills) == ["SettleFailed"] * (FILLS_MAX - 1) + ["Settled"]
    allowed = int(chain.node.ask("eth_getTransactionByHash", hashed)["gas"], 16)
    assert allowed == gas_limit(FILLS_MAX, encode_settle_bodies(fills)) < GAS_CAP
    used = int(receipt_of(chain.node, hashed)["gasUsed"], 16)
    assert (FILLS_MAX - 1) * FILL_GAS < used < allowed - 400_000


def test_gas_burning_signers_spend_no_trade_id_of_others(chain, worker, market, pair):
    one, other = pair
    burner = market.maker()
    burner.set_code(INVALID)
    unsigned = replace(market.buy(burner), signature=f"0x{'ab' * 65}")
    bad = [market.fill(unsigned, market.sell(other)) for _ in range(FILLS_MAX - 2)]
    good = [market.trade(one, other) for _ in range(2)]
    fills = [good[0], *bad, good[1]]
    hashed = settle(chain, worker, *fills)
    assert outcomes(chain, hashed, fills) == ["Settled", *["SettleFailed"] * len(bad), "Settled"]
    assert int(receipt_of(chain.node, hashed)["gasUsed"], 16) > len(bad) * 150_000
    for fill in fills:
        for name, is_so in (("settled", fill in good), ("failed", fill in bad)):
            assert read(chain.node, EXCHANGE, f"{name}(uint256)", int(fill.trade_id)) == is_so


@pytest.mark.parametrize("count", [1, 2])
def test_settlement_gas_limit_exceeds_the_estimate(chain, worker, market, pair, count):
    data = encode_settle_bodies([market.trade(*pair) for _ in range(count)])
    transaction = {"from": chain.operator, "to": EXCHANGE, "data": f"0x{data.hex()}"}
    estimate = int(chain.node.ask("eth_estimateGas", transaction), 16)
    assert FILL_GAS < estimate < gas_limit(count, data) - 15_000


def test_limits_equal_those_of_the_contract(chain):
    assert read(chain.node, EXCHANGE, "FILL_GAS()") == FILL_GAS
    assert read(chain.node, EXCHANGE, "FILLS_MAX()") == FILLS_MAX


# ----- rejected batches ----------------------------------------------------------------------


def rejected(chain, worker, fills):
    """Run a settlement that must be rejected without a transaction."""
    num_sent = chain.num_sent()
    result = worker.do(next(chain.names), SettleBody(fills=fills))
    assert type(result) is OperationRejected, result
    assert chain.num_sent() == num_sent
    return result.code, result.detail


def test_invalid_batches_are_rejected(chain, worker, market, pair):
    fill = market.trade(*pair)
    code, detail = rejected(chain, worker, [fill] * (FILLS_MAX + 1))
    assert (code, detail) == ("INVALID_COMMAND", "a settlement must have 1 to 25 trades; got 26")
    assert rejected(chain, worker, [])[0] == "INVALID_COMMAND"
    for wrong in ({"trade_id": str(2**256)}, {"size": "a lot"}):
        code, detail = rejected(chain, worker, [fill, replace(fill, **wrong)])
        assert code == "INVALID_COMMAND"
        assert detail.startswith("a trade cannot be encoded: ")


def test_settlement_without_an_exchange_is_rejected(chain, market, pair, tmp_path):
    with Chain(chain.node, tmp_path / "chain").starting(exchange="", deploy=False) as worker:
        assert worker.ready().addresses.exchange == ""
        code, detail = rejected(chain, worker, [market.trade(*pair)])
    assert (code, detail) == ("CHAIN_UNAVAILABLE", "there is no exchange contract on this chain")


def test_paused_exchange_rejects_settlements_until_unpaused(chain, worker, market, pair):
    owner = Wallet(chain.node, OPERATOR.private_key)
    fill = market.trade(*pair)
    owner.call(EXCHANGE, "pause()")
    code, detail = rejected(chain, worker, [fill])
    assert (code, detail) == ("CHAIN_UNAVAILABLE", f"the exchange {EXCHANGE} is paused")
    owner.call(EXCHANGE, "unpause()")
    assert outcomes(chain, settle(chain, worker, fill), [fill]) == ["Settled"]


@pytest.fixture
def alone(tmp_path):
    """An anvil for one test."""
    with running(start_anvil()) as node:
        yield Chain(node, tmp_path / "chain")


def test_reverted_transaction_fails_and_changes_nothing(alone):
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
        result = worker.end(name, since)
        assert (type(result), result.code, result.undone) == (
            OperationFailed,
            "OPERATION_FAILED",
            True,
        )
        assert result.detail == "settleTx failed: the transaction was reverted"
        alone.node.ask("anvil_setCode", EXCHANGE, code)
        assert outcomes(alone, settle(alone, worker, fill), [fill]) == ["Settled"]


@pytest.mark.long
def test_settlement_is_repeated_after_a_reorganisation(alone):
    with alone.worker() as worker:
        market = Makers(alone, worker)
        one, other, poor = (market.maker() for _ in range(3))
        fills = [market.trade(one, other), market.trade(one, poor)]
        snapshot = alone.node.ask("evm_snapshot")
        hashed = settle(alone, worker, *fills)
        assert outcomes(alone, hashed, fills) == ["Settled"] * 2
        alone.node.ask("evm_revert", snapshot)
        assert alone.node.ask("eth_getTransactionReceipt", hashed) is None
        poor.send_token(one.address, market.condition.yes, 100 * UNIT)
        assert outcomes(alone, hashed, fills) == ["Settled", "SettleFailed"]
        assert not worker.operations(status="stuck")
        assert alone.ledger.token(one.address, market.condition.yes) == 201 * UNIT


def test_batch_above_the_block_gas_limit_is_rejected(tmp_path):
    with running(start_anvil("--gas-limit", "10000000")) as node:
        chain = Chain(node, tmp_path / "chain")
        with chain.worker() as worker:
            market = Makers(chain, worker)
            one, other = market.maker(), market.maker()
            fills = [market.trade(one, other) for _ in range(20)]
            code, detail = rejected(chain, worker, fills)
            assert code == "CHAIN_UNAVAILABLE"
            assert detail == (
                f"20 trades need up to {gas_limit(20, encode_settle_bodies(fills))} gas; "
                "the block gas limit is 10000000"
            )
            assert outcomes(chain, settle(chain, worker, *fills[:10]), fills[:10])


def test_operator_without_gas_for_the_maximum_rejects_the_batch(tmp_path):
    with running(start_anvil()) as node:
        chain = Chain(node, tmp_path / "chain")
        with chain.worker() as worker:
            market = Makers(chain, worker)
            fills = [market.trade(market.maker(), market.maker())] * 25
            node.ask("anvil_setBalance", chain.operator, hex(10**15))
            assert rejected(chain, worker, fills)[0] == "OPERATOR_OUT_OF_GAS"
