"""Nonce gaps: a dropped foreign transaction leaves a nonce unused that later ones wait for."""

import pytest
from eth_account import Account

from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.messages import OperationPending
from tests.chain.chains import Chain, answer_of, done, faucet
from tests.chain.nodes import running, start_anvil
from tests.chain.wallets import UNIT

QUICK = {"bump_after_s": 0.5}


@pytest.fixture
def world(tmp_path):
    with running(start_anvil()) as node:
        yield Chain(node, tmp_path / "chain")


def waiting(world):
    """Send a pending transaction of the operator and return its hash."""
    world.node.ask("evm_setAutomine", False)
    signed = Account.sign_transaction(
        {
            "chainId": 31337,
            "nonce": world.num_sent(),
            "gas": 21_000,
            "to": world.friend.address,
            "value": 1,
            "maxFeePerGas": 10**10,
            "maxPriorityFeePerGas": 10**9,
        },
        OPERATOR.private_key,
    )
    return world.node.ask("eth_sendRawTransaction", f"0x{bytes(signed.raw_transaction).hex()}")


def test_unused_nonce_is_filled(world):
    with world.worker() as worker:
        done(worker, next(world.names), faucet(world.stranger(), 1))
    first, foreign = world.num_sent(), waiting(world)
    with world.worker(**QUICK) as worker:
        name, user = next(world.names), world.stranger()
        since = worker.start(name, faucet(user, 3))
        worker.wait_for(lambda each: type(each) is OperationPending and each.id == name, since)
        while not worker.operations()[0].steps:
            assert worker.process.poll() is None
        assert worker.operations()[0].steps[0].nonce == first + 1
        assert world.node.ask("anvil_dropTransaction", foreign) == foreign
        world.node.ask("evm_setAutomine", True)
        answer_of(worker.end(name, since))
        [gap] = [each for each in worker.operations() if each.kind == "gap"]
        assert (gap.status, gap.steps[0].nonce) == ("done", first)
    assert world.ledger.collateral(user.address) == 3 * UNIT
