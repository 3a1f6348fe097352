"""A chain worker dies anywhere in an operation; the next one brings it to its end, exactly once.

In the long matrix each worker ends what the one before it left, is given something else to do,
and dies at the next place; so every place costs one start of a process. ``CLOB_CHAIN_EVERY=1``
goes through all places, a higher number through every so many of them.
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
"""What is signed along with the step before it, so that where that was signed, this was, too."""


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crashes")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        yield world
        world.check_conserved()


class Round:
    """Operations that are asked for together, of which one is to die.

    Args:
        world: where they happen.
        kinds: what they do.
        stories: the same, prepared.
    """

    def __init__(self, world, kinds, stories):
        self.world, self.kinds = world, kinds
        self._stories = stories
        self.named = [(next(world.names), story.body) for story in self._stories]
        self._before = None

    def note(self):
        """Note what there is before."""
        self._before = Before(self.world, self._stories)

    def begin(self, worker):
        """Ask for all of them."""
        self.note()
        for name, body in self.named:
            worker.start(name, body)

    def check(self, worker):
        """Each of them comes to its end, once."""
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
    """Have operations begun, or gone on with, and say if the worker died where it was to."""
    with world.starting(die=place) as worker, contextlib.suppress(WorkerDiedError):
        worker.ready()
        for name, body in named:
            worker.start(name, body)
        for name, _ in named:
            worker.end(name)
    assert worker.process.returncode in (0, DIED)
    return worker.process.returncode == DIED


def in_turn(places):
    """Order places so that two of a kind never follow each other."""
    left = {kind: list(each) for kind, each in places.items()}
    kind = None
    while any(left.values()):
        kind = max((each for each in left if each != kind), key=lambda each: len(left[each]))
        yield left[kind].pop(0)


def company_of(place, following):
    """Give what is done together: two of the kind that dies, one more, none of the next kind."""
    kind, after = place.partition(":")[0], following.partition(":")[0]
    return [kind, kind, *[each for each in COMPANY if each not in (kind, after)][:1]]


def go_through(world, planned):
    """Have one worker after the other die, each with what the one before it left.

    Args:
        world: where it happens.
        planned: where each dies, and what kinds of operations it has begun then.
    """
    # Prepared before anything dies, since that takes transactions and a worker of its own.
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


def test_an_operation_survives_a_death(world):
    go_through(world, [("merge:noTransferTx:after_insert", ["merge"])])


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_two_settlements_survive_a_death_at_every_point(world, point):
    go_through(world, [(f"settle:settleTx:{point}", ["settle", "settle", "merge"])])


@pytest.mark.long
def test_each_operation_alone_survives_a_death_anywhere(world):
    half = KINDS.index(world.node.kind)  # the other half is for the other kind of node
    places = {kind: each[half::2] for kind, each in PLACES.items()}
    go_through(world, [(place, [place.partition(":")[0]]) for place in in_turn(places)])


@pytest.mark.long
def test_operations_side_by_side_survive_a_death_anywhere(world):
    places = [*in_turn(PLACES), ""]
    assert len(places) == 1 + sum(map(len, PLACES.values()))
    planned = [(place, company_of(place, after)) for place, after in itertools.pairwise(places)]
    go_through(world, planned)


@pytest.mark.long
def test_an_operation_survives_a_death_at_every_point_there_is(world):
    asked = Round(world, ["merge"], Stock(world).take("merge"))
    asked.note()
    assert sum(dies(world, asked.named, place) for place in PLACES["merge"]) > 1
    with world.worker() as worker:
        asked.check(worker)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(POINTS)))
def test_the_contracts_are_deployed_once_although_workers_die(tmp_path, turn):
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
