"""The worker crashes at any point of an operation; the next worker completes it exactly once.

In the long matrix each worker completes the operations of the previous one, starts new ones, and
crashes at the next failpoint, so each failpoint costs one process start. ``CLOB_CHAIN_EVERY=1``
covers all failpoints, half of them with each kind of node, a higher number every n-th of them.
"""

import contextlib
import itertools
import os

import msgspec
import pytest

from tests.chain.chains import Chain, answer_of, hashes_of
from tests.chain.nodes import KINDS, running, start_devchain, start_node
from tests.chain.prepared_operations import POINTS, STEPS, BalancesBefore, OperationPool
from tests.chain.wallets import UNIT
from tests.chain.workers import DIED, WorkerDiedError

EVERY = int(os.environ.get("CLOB_CHAIN_EVERY", "3"))
FAILPOINTS = {
    kind: [f"{kind}:{step}:{point}" for step, point in itertools.product(steps, POINTS)][::EVERY]
    for kind, steps in STEPS.items()
}
OTHER_KINDS = ("merge", "split", "redeem", "faucet")
DEPLOYMENT = (
    "conditionalTokensTx",
    "stablecoinTx",
    "collateralTx",
    "approveStablecoinTx",
    "approveCollateralTx",
)
TOGETHER = ("stablecoinTx", "approveCollateralTx")
"""Steps that are signed together with the previous step."""


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crashes")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        yield chain
        chain.check_conserved()


class Round:
    """Concurrent operations, one of which crashes the worker.

    Args:
        chain: the chain.
        kinds: kinds of the operations.
        operations: the prepared operations.
    """

    def __init__(self, chain, kinds, operations):
        self.chain, self.kinds = chain, kinds
        self._operations = operations
        self.named = [(next(chain.names), operation.body) for operation in self._operations]
        self._before = None

    def record_balances(self):
        """Record the balances before the operations."""
        self._before = BalancesBefore(self.chain, self._operations)

    def begin(self, worker):
        """Start all operations."""
        self.record_balances()
        for name, body in self.named:
            worker.start(name, body)

    def check(self, worker):
        """Check that each operation ended exactly once."""
        ends = [worker.do(name, body) for name, body in self.named]
        hashes = [hashes_of(answer_of(end)) for end in ends]
        assert [len(each) for each in hashes] == [len(STEPS[kind]) for kind in self.kinds]
        all_hashes = list(itertools.chain(*hashes))
        assert len(set(all_hashes)) == len(all_hashes)
        self._before.check_happened(len(all_hashes))
        self.chain.check_happened(all_hashes)
        assert [worker.do(name, body) for name, body in self.named] == ends
        assert not worker.operations(status="pending")


def crashes(chain, named, failpoint):
    """Start or resume operations; return whether the worker crashed at its failpoint."""
    with chain.starting(die=failpoint) as worker, contextlib.suppress(WorkerDiedError):
        worker.ready()
        for name, body in named:
            worker.start(name, body)
        for name, _ in named:
            worker.end(name)
    assert worker.process.returncode in (0, DIED)
    return worker.process.returncode == DIED


def alternate(failpoints):
    """Order failpoints so that consecutive ones are of different kinds."""
    left = {kind: list(each) for kind, each in failpoints.items()}
    kind = None
    while any(left.values()):
        kind = max((each for each in left if each != kind), key=lambda each: len(left[each]))
        yield left[kind].pop(0)


def concurrent_kinds(failpoint, following):
    """Return kinds that run together: two of the crashing kind and one other."""
    kind, after = failpoint.partition(":")[0], following.partition(":")[0]
    return [kind, kind, *[each for each in OTHER_KINDS if each not in (kind, after)][:1]]


def half_of_failpoints(chain):
    """Return half of the failpoints; the other kind of node covers the other half."""
    half = KINDS.index(chain.node.kind)
    return {kind: each[half::2] for kind, each in FAILPOINTS.items()}


def crash_workers(chain, planned):
    """Crash workers one after the other; each resumes the operations of the previous one.

    Args:
        chain: the chain.
        planned: failpoint and kinds of operations of each worker.
    """
    # Prepared before the first crash, because preparing needs transactions and a worker.
    operations = iter(OperationPool(chain).take(*itertools.chain(*(kinds for _, kinds in planned))))
    rounds = [
        (failpoint, Round(chain, kinds, list(itertools.islice(operations, len(kinds)))))
        for failpoint, kinds in planned
    ]
    pending = None
    for failpoint, current in rounds:
        with chain.worker(die=failpoint) as worker:
            if pending is not None:
                pending.check(worker)
            current.begin(worker)
            assert worker.wait() == DIED, failpoint
        pending = current
    with chain.worker() as worker:
        pending.check(worker)


def test_operation_survives_a_crash(chain):
    crash_workers(chain, [("merge:noTransferTx:after_insert", ["merge"])])


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_settlements_survive_a_crash_at_every_point(chain, point):
    crash_workers(chain, [(f"settle:settleTx:{point}", ["settle", "settle", "merge"])])


@pytest.mark.long
def test_single_operation_survives_a_crash_at_any_step(chain):
    failpoints = alternate(half_of_failpoints(chain))
    crash_workers(chain, [(each, [each.partition(":")[0]]) for each in failpoints])


@pytest.mark.long
def test_concurrent_operations_survive_a_crash_at_any_step(chain):
    failpoints = [*alternate(half_of_failpoints(chain)), ""]
    pairs = itertools.pairwise(failpoints)
    planned = [(failpoint, concurrent_kinds(failpoint, after)) for failpoint, after in pairs]
    crash_workers(chain, planned)


@pytest.mark.long
def test_operation_survives_crashes_at_all_points_in_turn(chain):
    merge = Round(chain, ["merge"], OperationPool(chain).take("merge"))
    merge.record_balances()
    assert sum(crashes(chain, merge.named, failpoint) for failpoint in FAILPOINTS["merge"]) > 1
    with chain.worker() as worker:
        merge.check(worker)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(POINTS)))
def test_contracts_are_deployed_once_despite_crashes(tmp_path, turn):
    with running(start_devchain(tmp_path / "devchain")) as node:
        chain = Chain(node, tmp_path / "chain")
        for number, step in enumerate(DEPLOYMENT):
            point = POINTS[(number + turn) % len(POINTS)]
            if point == "before_insert" and step in TOGETHER:
                continue
            assert crashes(chain, [], f"deploy:{step}:{point}"), (step, point)
        with chain.worker() as worker:
            assert chain.num_sent() == len(DEPLOYMENT)
            for address in msgspec.structs.astuple(chain.contracts):
                assert len(node.ask("eth_getCode", address, "latest")) > 2
            user = chain.user(worker, 10)
            assert chain.ledger.collateral(user.address) == 10 * UNIT
