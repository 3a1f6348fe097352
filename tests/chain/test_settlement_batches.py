"""A thousand trades, of which each tenth has a maker who fails: all others settle."""

import itertools
import random  # noqa: TID251  # the draws of a test, from a seed
from collections import Counter

import pytest

from clob_server.chain.operation_bodies import SettleBody
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import BURNS, UNIT
from tests.chain.settlements import (
    EXCHANGE,
    INVALID,
    Makers,
    outcomes,
    verdicts,
)
from tests.chain.worlds import World, answer_of

NUM_TRADES, BATCH, EVERY = 1_000, 25, 10
AT_ONCE = 4
"""How many transactions are on their way at the same time."""
SEED = 8
SIZES = [UNIT // 10 * number for number in range(1, 6)]
APPROVE_ALL = "setApprovalForAll(address,bool)"


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        yield world
        world.check_conserved()


def failing(world, market):
    """Makers who fail, each in another way: what he is good for, and what is said of him."""
    revoked, drained, burner, refuser, unwilling, sold_out = (market.maker() for _ in range(6))
    place, tokens = world.contracts.collateral, world.contracts.conditional_tokens
    revoked.call(place, "approve(address,uint256)", EXCHANGE, 0)
    drained.give_collateral(world.friend.address, 100 * UNIT)
    burner.becomes(BURNS if world.node.kind == "anvil" else INVALID)
    refuser.becomes(bytes.fromhex("60006000fd"))
    unwilling.call(tokens, APPROVE_ALL, EXCHANGE, False)
    sold_out.give_token(world.friend.address, market.condition.yes, 100 * UNIT)
    return [
        (revoked, "buys", "ERC20InsufficientAllowance"),
        (drained, "buys", "ERC20InsufficientBalance"),
        (burner, "buys", "TokensNotAccepted"),
        (refuser, "buys", "TokensNotAccepted"),
        (unwilling, "sells", "TokensNotApproved"),
        (sold_out, "sells", "InsufficientTokens"),
    ]


class Ledger:
    """What ought to have moved, kept apart from the chain: collateral, YES and NO by maker."""

    def __init__(self):
        self.moved = Counter()

    def trade(self, buyer, seller, size, price=40):
        """Tokens for collateral."""
        paid = size * price // 100
        for maker, asset, amount in (
            (buyer, "cash", -paid), (buyer, "yes", size), (seller, "cash", paid),
            (seller, "yes", -size),
        ):  # fmt: skip
            self.moved[maker.address, asset] += amount

    def mint(self, one, other, size, price=40):
        """Collateral of two for both tokens; the second one pays what is left."""
        paid = size * price // 100
        for maker, asset, amount in (
            (one, "cash", -paid), (one, "yes", size), (other, "cash", paid - size),
            (other, "no", size),
        ):  # fmt: skip
            self.moved[maker.address, asset] += amount


@pytest.mark.long
def test_of_a_thousand_trades_those_with_a_failing_maker_fail_and_no_others(world):
    draws = random.Random(SEED)
    ledger = Ledger()
    with world.worker() as worker:
        market = Makers(world, worker)
        good = [market.maker(500) for _ in range(12)]
        bad = itertools.cycle(failing(world, market))
        before = world.holdings(good, market.condition)
        fills, fates = [], []
        for number in range(NUM_TRADES):
            one, other = draws.sample(good, 2)
            size = draws.choice(SIZES)
            if number % EVERY == EVERY // 2:
                maker, does, name = next(bad)
                pair = (maker, other) if does == "buys" else (other, maker)
                fills.append(market.trade(*pair, size))
                fates.append((name, (maker.address,)))
                continue
            kind = draws.choice(["trade", "trade", "mint"])
            fills.append(getattr(market, kind)(one, other, size))
            getattr(ledger, kind)(one, other, size)
            fates.append(None)
        hashes = settled(world, worker, fills)
        found = [
            verdict and (verdict.error.partition(":")[0], verdict.blamed)
            for hashed, batch in zip(hashes, batches(fills), strict=True)
            for verdict in verdicts(world, hashed, batch)
        ]
    assert Counter(map(str, found)) == Counter(map(str, fates))
    assert found == fates
    after = world.holdings(good, market.condition)
    for maker in good:
        changes = zip(
            ("cash", "yes", "no"), after[maker.address], before[maker.address], strict=True
        )
        for asset, now, then in changes:
            assert now - then == ledger.moved[maker.address, asset]
    assert world.holdings(good, market.condition)[world.operator] == (0, 0, 0)
    assert world.ledger.collateral(EXCHANGE) == 0


def batches(fills):
    """Give fills in the batches in which they are sent."""
    return [fills[first : first + BATCH] for first in range(0, len(fills), BATCH)]


def settled(world, worker, fills):
    """Have fills settled, some transactions at once, and give these in the order of the fills."""
    named = [(next(world.names), SettleBody(fills=batch)) for batch in batches(fills)]
    hashes = []
    for first in range(0, len(named), AT_ONCE):
        group = named[first : first + AT_ONCE]
        since = [worker.start(name, body) for name, body in group]
        ends = [worker.end(name, at) for (name, _), at in zip(group, since, strict=True)]
        hashes += [answer_of(end)["settleTx"] for end in ends]
    assert len(set(hashes)) == len(named)
    told = [
        outcomes(world, hashed, batch)
        for (hashed, batch) in zip(hashes, batches(fills), strict=True)
    ]
    assert not [each for each in itertools.chain(*told) if each == "SettledBefore"]
    return hashes
