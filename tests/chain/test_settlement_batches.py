"""Of a thousand trades a tenth has a failing maker; all others settle."""

import itertools
import random  # noqa: TID251  # the draws of a test, from a seed
from collections import Counter

import pytest

from clob.wire.operations import SettleBody
from tests.chain.chains import Chain, answer_of
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.settlements import (
    EXCHANGE,
    INVALID,
    Makers,
    failure_causes,
    outcomes,
)
from tests.chain.wallets import BURNS, UNIT

NUM_TRADES, BATCH, EVERY = 1_000, 25, 10
CONCURRENT = 4
"""Number of concurrent transactions."""
SEED = 8
SIZES = [UNIT // 10 * number for number in range(1, 6)]
APPROVE_ALL = "setApprovalForAll(address,bool)"


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        yield chain
        chain.check_conserved()


def failing_makers(chain, market):
    """Return makers that fail in different ways, with their side and expected error."""
    revoked, drained, burner, rejecter, unapproved, sold_out = (market.maker() for _ in range(6))
    collateral, tokens = chain.contracts.collateral, chain.contracts.conditional_tokens
    revoked.call(collateral, "approve(address,uint256)", EXCHANGE, 0)
    drained.send_collateral(chain.friend.address, 100 * UNIT)
    burner.set_code(BURNS if chain.node.kind == "anvil" else INVALID)
    rejecter.set_code(bytes.fromhex("60006000fd"))
    unapproved.call(tokens, APPROVE_ALL, EXCHANGE, False)
    sold_out.send_token(chain.friend.address, market.condition.yes, 100 * UNIT)
    return [
        (revoked, "buys", "ERC20InsufficientAllowance"),
        (drained, "buys", "ERC20InsufficientBalance"),
        (burner, "buys", "TokensNotAccepted"),
        (rejecter, "buys", "TokensNotAccepted"),
        (unapproved, "sells", "TokensNotApproved"),
        (sold_out, "sells", "InsufficientTokens"),
    ]


class Ledger:
    """Expected transfers by maker, computed independently of the chain."""

    def __init__(self):
        self.moved = Counter()

    def trade(self, buyer, seller, size, price=40):
        """Record a trade of tokens for collateral."""
        paid = size * price // 100
        for maker, asset, amount in (
            (buyer, "cash", -paid), (buyer, "yes", size), (seller, "cash", paid),
            (seller, "yes", -size),
        ):  # fmt: skip
            self.moved[maker.address, asset] += amount

    def mint(self, one, other, size, price=40):
        """Record a mint; the second buyer pays the rest."""
        paid = size * price // 100
        for maker, asset, amount in (
            (one, "cash", -paid), (one, "yes", size), (other, "cash", paid - size),
            (other, "no", size),
        ):  # fmt: skip
            self.moved[maker.address, asset] += amount


@pytest.mark.long
def test_only_trades_of_failing_makers_fail(chain):
    draws = random.Random(SEED)
    ledger = Ledger()
    with chain.worker() as worker:
        market = Makers(chain, worker)
        good = [market.maker(500) for _ in range(12)]
        bad = itertools.cycle(failing_makers(chain, market))
        before = chain.holdings(good, market.condition)
        fills, expected = [], []
        for number in range(NUM_TRADES):
            one, other = draws.sample(good, 2)
            size = draws.choice(SIZES)
            if number % EVERY == EVERY // 2:
                maker, role, name = next(bad)
                pair = (maker, other) if role == "buys" else (other, maker)
                fills.append(market.trade(*pair, size))
                expected.append((name, (maker.address,)))
                continue
            kind = draws.choice(["trade", "trade", "mint"])
            fills.append(getattr(market, kind)(one, other, size))
            getattr(ledger, kind)(one, other, size)
            expected.append(None)
        hashes = settled(chain, worker, fills)
        results = [
            cause and (cause.error.partition(":")[0], cause.responsible)
            for hashed, batch in zip(hashes, batches(fills), strict=True)
            for cause in failure_causes(chain, hashed, batch)
        ]
    assert Counter(map(str, results)) == Counter(map(str, expected))
    assert results == expected
    after = chain.holdings(good, market.condition)
    for maker in good:
        changes = zip(
            ("cash", "yes", "no"), after[maker.address], before[maker.address], strict=True
        )
        for asset, after_wei, before_wei in changes:
            assert after_wei - before_wei == ledger.moved[maker.address, asset]
    assert chain.holdings(good, market.condition)[chain.operator] == (0, 0, 0)
    assert chain.ledger.collateral(EXCHANGE) == 0


def batches(fills):
    """Split fills into batches."""
    return [fills[first : first + BATCH] for first in range(0, len(fills), BATCH)]


def settled(chain, worker, fills):
    """Settle fills in concurrent transactions; return their hashes in order."""
    named = [(next(chain.names), SettleBody(fills=batch)) for batch in batches(fills)]
    hashes = []
    for first in range(0, len(named), CONCURRENT):
        group = named[first : first + CONCURRENT]
        since = [worker.start(name, body) for name, body in group]
        ends = [worker.end(name, at) for (name, _), at in zip(group, since, strict=True)]
        hashes += [answer_of(end)["settleTx"] for end in ends]
    assert len(set(hashes)) == len(named)
    result = [
        outcomes(chain, hashed, batch)
        for (hashed, batch) in zip(hashes, batches(fills), strict=True)
    ]
    assert not [each for each in itertools.chain(*result) if each == "SettledBefore"]
    return hashes
