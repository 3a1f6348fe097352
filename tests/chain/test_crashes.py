"""The worker crashes at any point of an operation; the next worker completes it exactly once.

In the long matrix each worker completes the operations of the previous one, starts new ones, and
crashes at the next failpoint, so each failpoint costs one process start. ``CLOB_CHAIN_EVERY=1``
covers all failpoints, a higher number every n-th of them.
"""

import contextlib
import itertools
import os

import msgspec
import pytest

from tests.chain.nodes import KINDS, running, start_devchain, start_node
from tests.chain.people import UNIT
from tests.chain.stories import POINTS, STEPS, Before, Stock
from tests.chain.workers import DIED, WorkerDiedError
from tests.chain.worlds import World, answer_of, hashes_of

EVERY = int(os.environ.get("CLOB_CHAIN_EVERY", "3"))
PLACES = {
    kind: [f"{kind}:{step}:{point}" for step, point in itertools.product(steps, POINTS)][::EVERY]
    for kind, steps in STEPS.items()
}
COMPANY = ("merge", "split", "redeem", "faucet")
DEPLOYMENT = (
    "conditionalTokensTx",
    "stablecoinTx",
    "collateralTx",
    "approveStablecoinTx",
    "approveCollateralTx",
)
TOGETHER = ("stablecoinTx", "approveCollateralTx")
"""Steps signed together with the previous step."""


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crashes")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        yield world
        world.check_conserved()


class Round:
    """Concurrent operations, one of which crashes the worker.

    Args:
        world: the chain.
        kinds: kinds of the operations.
        stories: the prepared operations.
    """

    def __init__(self, world, kinds, stories):
        self.world, self.kinds = world, kinds
        self._stories = stories
        self.named = [(next(world.names), story.body) for story in self._stories]
        self._before = None

    def note(self):
        """Record the balances before."""
        self._before = Before(self.world, self._stories)

    def begin(self, worker):
        """Start all operations."""
        self.note()
        for name, body in self.named:
            worker.start(name, body)

    def check(self, worker):
        """Check that each operation ended exactly once."""
        ends = [worker.do(name, body) for name, body in self.named]
        hashes = [hashes_of(answer_of(end)) for end in ends]
        assert [len(each) for each in hashes] == [len(STEPS[kind]) for kind in self.kinds]
        together = list(itertools.chain(*hashes))
        assert len(set(together)) == len(together)
        self._before.check_happened(len(together))
        self.world.check_happened(together)
        assert [worker.do(name, body) for name, body in self.named] == ends
        assert not worker.operations(status="pending")


def dies(world, named, place):
    """Start or resume operations; return whether the worker crashed at its failpoint."""
    with world.starting(die=place) as worker, contextlib.suppress(WorkerDiedError):
        worker.ready()
        for name, body in named:
            worker.start(name, body)
        for name, _ in named:
            worker.end(name)
    assert worker.process.returncode in (0, DIED)
    return worker.process.returncode == DIED


def in_turn(places):
    """Order failpoints so that no two consecutive ones are of the same kind."""
    left = {kind: list(each) for kind, each in places.items()}
    kind = None
    while any(left.values()):
        kind = max((each for each in left if each != kind), key=lambda each: len(left[each]))
        yield left[kind].pop(0)


def company_of(place, following):
    """Return kinds that run together: two of the crashing kind and one other."""
    kind, after = place.partition(":")[0], following.partition(":")[0]
    return [kind, kind, *[each for each in COMPANY if each not in (kind, after)][:1]]


def go_through(world, planned):
    """Crash workers one after the other; each resumes the operations of the previous one.

    Args:
        world: the chain.
        planned: failpoint and kinds of operations of each worker.
    """
    # Prepared before the first crash, because preparing needs transactions and a worker.
    stories = iter(Stock(world).take(*itertools.chain(*(kinds for _, kinds in planned))))
    rounds = [
        (place, Round(world, kinds, list(itertools.islice(stories, len(kinds)))))
        for place, kinds in planned
    ]
    left = None
    for place, asked in rounds:
        with world.worker(die=place) as worker:
            if left is not None:
                left.check(worker)
            asked.begin(worker)
            assert worker.wait() == DIED, place
        left = asked
    with world.worker() as worker:
        left.check(worker)


def test_operation_survives_a_crash(world):
    go_through(world, [("merge:noTransferTx:after_insert", ["merge"])])


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_settlements_survive_a_crash_at_every_point(world, point):
    go_through(world, [(f"settle:settleTx:{point}", ["settle", "settle", "merge"])])


@pytest.mark.long
def test_single_operation_survives_a_crash_at_any_step(world):
    half = KINDS.index(world.node.kind)  # the other kind of node covers the other half
    places = {kind: each[half::2] for kind, each in PLACES.items()}
    go_through(world, [(place, [place.partition(":")[0]]) for place in in_turn(places)])


@pytest.mark.long
def test_concurrent_operations_survive_a_crash_at_any_step(world):
    places = [*in_turn(PLACES), ""]
    assert len(places) == 1 + sum(map(len, PLACES.values()))
    planned = [(place, company_of(place, after)) for place, after in itertools.pairwise(places)]
    go_through(world, planned)


@pytest.mark.long
def test_operation_survives_crashes_at_all_points_in_turn(world):
    asked = Round(world, ["merge"], Stock(world).take("merge"))
    asked.note()
    assert sum(dies(world, asked.named, place) for place in PLACES["merge"]) > 1
    with world.worker() as worker:
        asked.check(worker)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(POINTS)))
def test_contracts_are_deployed_once_despite_crashes(tmp_path, turn):
    with running(start_devchain(tmp_path / "devchain")) as node:
        world = World(node, tmp_path / "chain")
        for number, step in enumerate(DEPLOYMENT):
            point = POINTS[(number + turn) % len(POINTS)]
            if point == "before_insert" and step in TOGETHER:
                continue
            assert dies(world, [], f"deploy:{step}:{point}"), (step, point)
        with world.worker() as worker:
            assert world.num_sent() == len(DEPLOYMENT)
            for address in msgspec.structs.astuple(world.contracts):
                assert len(node.ask("eth_getCode", address, "latest")) > 2
            user = world.user(worker, 10)
            assert world.ledger.collateral(user.address) == 10 * UNIT
