"""Counts and indexes that spare a walk over all markets follow every command exactly."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

from clob import AddMarket, Funds, Mode, RejectedError, RemoveMarket, SetBalance, SetMarket, SetMode
from clob.market import Market
from clob_server.core.commands import BindMarket, Condition, RecordOpener
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import sorted_assets
from clob_server.core.state import ServerState
from clob_server.dialects.polymarket.markets import MarketIndex

NAMES = [f"m{number}" for number in range(8)]
PAYERS = [b"p", b"q"]


def random_command(rng, state):
    """Return a command about a market, which may be rejected."""
    name, now_ms = rng.choice(NAMES), state.now_ms + 1
    place = NAMES.index(name)
    no = rng.choice(["", str(2 * place + 1), "not a number"])
    term = Market(id=name, yes=str(2 * place), no=no)
    known = state.markets.get(name)
    condition = Condition(
        question_id=bytes(32),
        condition_id=rng.randbytes(32),
        oracle="",
        collateral="",
        yes="",
        no="",
    )
    return rng.choice(
        [
            RecordOpener(market=name, payer=rng.choice(PAYERS), now_ms=now_ms),
            AddMarket(market=term, now_ms=now_ms),
            AddMarket(market=term, now_ms=now_ms),
            SetMarket(market=term, now_ms=now_ms),
            SetMode(market=name, mode=rng.choice(list(Mode)), now_ms=now_ms),
            RemoveMarket(market=name, now_ms=now_ms),
            *([BindMarket(market=name, condition=condition, now_ms=now_ms)] if known else []),
        ]
    )


def apply(state, command):
    """Apply a command, and return it with its outcome."""
    try:
        outcome = state.apply(command)
    except RejectedError as rejection:
        outcome = rejection
    return Committed(1, command, outcome, 0)


def openers(state):
    """Return the client of each market that an order opened and that is not resolved."""
    return {
        name: opened.payer
        for name, opened in state.registry.opened.items()
        if name in state.markets and state.markets[name].mode is not Mode.RESOLVED
    }


def test_opened_markets_are_counted_by_client():
    state, rng = ServerState(), random.Random(1)
    for _ in range(2_000):
        apply(state, random_command(rng, state))
        assert state.openers == openers(state)
        assert state.num_opened == Counter(state.openers.values())
        assert list(state.markets.values()) == state.matcher.markets
    restored = ServerState.restore(state.snapshot())
    assert (restored.openers, restored.num_opened) == (state.openers, state.num_opened)
    assert state.openers


def test_visible_markets_of_the_dialect_follow_each_change():
    state, rng = ServerState(), random.Random(2)
    index, seen = MarketIndex(state), set()
    for _ in range(400):
        batch = [
            apply(state, random_command(rng, state)) for _ in range(rng.choice([1, 1, 1, 5, 20]))
        ]
        index.on_batch(batch)
        again = MarketIndex(state)
        for name in ("_visible", "_tokens", "_conditions"):
            assert getattr(index, name) == getattr(again, name)
        assert index.page(1, 3) == again.page(0, 9)[1:4]
        seen.add(len(again.page(0, 9)))
    assert {0, 1, 2} <= seen


def test_assets_of_a_wallet_are_sorted_by_market_with_collaterals_first():
    state = ServerState()
    for name in ("b", "a"):
        market = Market(
            id=name, yes=f"9{name}", no=f"8{name}", funds=Funds.ACCOUNTS, collateral="usd"
        )
        state.apply(AddMarket(market=market, now_ms=1))
    state.apply(AddMarket(market=Market(id="free", yes="f1", no="f2"), now_ms=1))
    assets = ["8b", "f1", "9b", "usd", "8a", "eur"]
    for asset in assets:
        state.apply(SetBalance(wallet="w", asset=asset, amount=5, now_ms=1))
    own = [asset for _, asset in state.matcher.balances("w")]
    assert sorted_assets(state.matcher, own) == ["eur", "usd", "8a", "9b", "8b"]
