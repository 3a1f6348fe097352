"""Markets without a NO token: they trade YES only, until the token is set once."""

import msgspec
import pytest

from clob import AddMarket, Batch, Cancel, Funds, Mode, SetMarket, SetMode
from clob.errors import (
    InvalidMarketError,
    InvalidSnapshotError,
    MarketNotOpenError,
    TokenNotInMarketError,
)
from clob.journal import verify
from clob.order import Side
from tests.books import event_lines
from tests.journal.stories import journal_of, submit
from tests.matcher.test_snapshot import seal
from tests.matchers import MATCHERS, buy, load, market, opened, rejected, sell

UNNAMED = market(no="")


@pytest.fixture
def matcher(matcher_class):
    """A market ``m`` without a NO token, and a complete market ``n``."""
    return opened(matcher_class, UNNAMED, market("n"))


def name(no, **terms):
    """Return the command that sets the NO token of market ``m``."""
    return SetMarket(market=market(no=no, **terms))


# ----- without a NO token -----------------------------------------------------------------


def test_yes_trades_without_a_no_token(matcher):
    assert event_lines(matcher.apply(sell("s", 50, 5))) == ["added s 5"]
    assert event_lines(matcher.apply(buy("b", 50, 2))) == ["trade s b 2 @ 50"]
    assert matcher.market("m") == UNNAMED
    matcher.audit()


@pytest.mark.parametrize("token", ["", "m-no", "None", "n-no"])
def test_no_token_is_accepted_before_no_is_set(matcher, token):
    command = buy("b", 50, 5, token=token)
    words = "'m-yes'", "a NO token without an id yet", f"got {token!r}"
    assert type(matcher.check(command)) is TokenNotInMarketError
    for ask in (
        lambda: matcher.apply(command),
        lambda: matcher.simulate(command),
        lambda: matcher.apply(Batch(commands=(sell("s", 50, 5), command), atomic=True)),
        lambda: matcher.depth("m", token),
    ):
        with rejected(matcher, TokenNotInMarketError, *words):
            ask()


def test_empty_token_is_rejected_in_a_complete_market(matcher):
    with rejected(matcher, TokenNotInMarketError, "'n-yes'", "'n-no'", "got ''"):
        matcher.apply(buy("b", 50, 5, market="n", token=""))
    with rejected(matcher, TokenNotInMarketError, "got ''"):
        matcher.depth("n", "")


def test_several_markets_may_lack_a_no_token(matcher):
    matcher.add_market(market("o", no=""))
    matcher.add_market(market("p", no=""))
    matcher.apply(buy("b", 50, 5, market="o", token="o-yes"))
    assert [each.no for each in matcher.markets] == ["", "n-no", "", ""]


def test_market_needs_yes_and_collateral(matcher):
    for wrong in ({"yes": "", "no": "x-no"}, {"yes": "", "no": ""}, {"collateral": "", "no": ""}):
        with rejected(matcher, InvalidMarketError, "1 to 256", "got 0"):
            matcher.add_market(market("x", **wrong))


@pytest.mark.parametrize("settles", [False, True])
def test_market_with_accounts_needs_both_tokens(matcher, settles):
    described = market("x", no="", funds=Funds.ACCOUNTS, settles=settles)
    with rejected(matcher, InvalidMarketError, "no must have 1 to 256", "Funds.ACCOUNTS", "got 0"):
        matcher.add_market(described)


def test_terms_change_without_setting_no(matcher):
    changed = msgspec.structs.replace(UNNAMED, min_size=9)
    assert matcher.apply(SetMarket(market=changed)) == []
    assert matcher.market("m") == changed
    with rejected(matcher, InvalidMarketError, "lot_wei", "it is 1", "got 3"):
        matcher.apply(name("m-no", lot_wei=3))


# ----- setting NO ---------------------------------------------------------------------------


def test_no_trades_in_the_sequence_of_its_market(matcher):
    matcher.apply(buy("a", 50, 5))
    assert matcher.apply(name("m-no", min_size=2)) == []
    assert matcher.market("m") == market(min_size=2)
    (added,) = matcher.apply(sell("s", 50, 5, token="m-no"))
    assert (added.seq, added.market, added.token) == (2, "m", "m-no")
    (trade,) = matcher.apply(buy("b", 50, 4, token="m-no"))
    assert (trade.seq, trade.token, trade.resting_order_id) == (3, "m-no", "s")
    assert [level.size for level in matcher.depth("m", "m-no").asks] == [1]
    assert [level.size for level in matcher.depth("m").bids] == [5]
    assert (matcher.depth("m").seq, matcher.seq("m"), len(matcher)) == (3, 3, 2)
    matcher.audit()


def test_no_token_cannot_change_once_set(matcher):
    matcher.apply(name("m-no"))
    for other in ("other", ""):
        with rejected(matcher, InvalidMarketError, "no of", "it is 'm-no'", f"got {other!r}"):
            matcher.apply(name(other))
    assert matcher.apply(name("m-no", min_size=7)) == []


def test_no_token_of_a_complete_market_cannot_change(matcher):
    for other in ("other", ""):
        with rejected(matcher, InvalidMarketError, "it is 'n-no'", f"got {other!r}"):
            matcher.apply(SetMarket(market=market("n", no=other)))


@pytest.mark.parametrize(
    ("no", "words"),
    [
        ("m-yes", ["differ", "'m-yes'"]),
        ("collateral", ["differ", "'collateral'"]),
        ("n-yes", ["'n-yes'", "belongs to market 'n'"]),
        ("n-no", ["'n-no'", "belongs to market 'n'"]),
        ("gold", ["'gold'", "collateral of market 'g'"]),
        ("x" * 257, ["no must", 256, "got 257"]),
        (102, ["no must be a str", "got 102"]),
        (None, ["no must be a str", "got None"]),
    ],
)
def test_late_no_token_is_validated_like_a_new_market(matcher, no, words):
    matcher.add_market(market("g", collateral="gold"))
    command = name(no)
    assert type(matcher.check(command)) is InvalidMarketError
    with rejected(matcher, InvalidMarketError, *words):
        matcher.apply(command)
    assert matcher.apply(name("m-no")) == []


def test_late_no_token_is_reserved_for_its_market(matcher):
    matcher.apply(name("m-no"))
    matcher.add_market(market("o", no=""))
    for command in (
        SetMarket(market=market("o", no="m-no")),
        AddMarket(market=market("p", no="m-no")),
        AddMarket(market=market("p", yes="m-no")),
    ):
        with rejected(matcher, InvalidMarketError, "'m-no'", "belongs to market 'm'"):
            matcher.apply(command)
    with rejected(matcher, InvalidMarketError, "'m-no'", "must not be the token of a market"):
        matcher.add_market(market("p", collateral="m-no"))


def test_resolved_market_may_get_its_no_token(matcher):
    matcher.apply(buy("a", 50, 5))
    # Clears both books; the sequence number moves through the replaced one.
    matcher.apply(SetMode(market="m", mode=Mode.RESOLVED))
    again = matcher.fork()
    for each in (matcher, again):
        each.apply(name("m-no", mode=Mode.RESOLVED))
        assert each.seq("m") == each.depth("m", "m-no").seq == 2
        with rejected(each, MarketNotOpenError):
            each.apply(buy("b", 50, 5, token="m-no"))
    assert matcher.snapshot() == again.snapshot()


def test_atomic_batch_rolls_back_after_no_was_set(matcher):
    matcher.apply(buy("a", 50, 5))
    matcher.apply(name("m-no"))
    matcher.apply(buy("b", 50, 5, token="m-no"))
    commands = (
        sell("s", 50, 3, token="m-no"),
        sell("t", 50, 3),
        Cancel(order_id="b"),
        Cancel(order_id="nobody"),
    )
    before = matcher.snapshot()
    assert matcher.check(Batch(commands=commands, atomic=True)).index == 3
    assert matcher.snapshot() == before
    (done,) = matcher.batch(commands[:1], atomic=True)
    assert event_lines(done) == ["trade b s 3 @ 50"]


# ----- journals and snapshots ----------------------------------------------------------------


def test_journal_replays_a_late_no_token():
    whole = market()
    early, late = (submit(name, Side.BUY, 50, 5, "m", "m-no") for name in ("early", "late"))
    commands = [AddMarket(market=UNNAMED), early, SetMarket(market=whole), late]
    frames, recorder = journal_of(commands, per_frame=1)
    found = verify(frames)
    assert found.rejected == {"TOKEN_NOT_IN_MARKET": 1}
    assert found.state_hash == recorder.matcher.state_hash()
    assert recorder.matcher.markets == [whole]


def lived(matcher_class, *, named):
    """Submit orders of YES to market ``m``, and of NO if it is set."""
    matcher = opened(matcher_class, UNNAMED)
    matcher.apply(buy("a", 50, 5))
    if named:
        matcher.apply(name("m-no"))
        matcher.apply(buy("b", 40, 5, token="m-no"))
        matcher.apply(sell("s", 40, 2, token="m-no"))
    return matcher


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("other", MATCHERS)
def test_snapshot_keeps_set_and_unset_no_tokens(matcher_class, other, named):
    matcher = lived(matcher_class, named=named)
    again = load(other).restore(matcher.snapshot())
    again.audit()
    assert again.markets == matcher.markets
    assert again.snapshot() == matcher.snapshot() == matcher.fork().snapshot()
    assert again.state_hash() == matcher.state_hash()
    for command in (name("x"), name("m-no"), buy("c", 40, 5, token="m-no"), name("y")):
        expected = [str(each.check(command)) for each in (matcher, again)]
        assert expected[0] == expected[1]
        if expected[0] == "None":
            assert matcher.apply(command) == again.apply(command)
    assert again.snapshot() == matcher.snapshot()


def test_no_token_is_part_of_the_state(matcher_class):
    one, other, third = (opened(matcher_class, UNNAMED) for _ in range(3))
    one.apply(name("m-no"))
    third.apply(name("other"))
    assert len({each.state_hash() for each in (one, other, third)}) == 3
    assert one.snapshot() == opened(matcher_class).snapshot()


@pytest.mark.parametrize("finished", [False, True])
def test_snapshot_with_no_orders_but_without_no_token_is_rejected(matcher_class, finished):
    matcher = opened(matcher_class, market(no="the no"))
    matcher.apply(buy("b", 40, 5, token="the no"))
    if finished:
        matcher.cancel("b")
    state = matcher.snapshot()[:-32]
    assert state.count(b"\x01\x06the no") == 1
    with pytest.raises(InvalidSnapshotError, match="has an order for NO but no NO token"):
        matcher.restore(seal(state.replace(b"\x01\x06the no", b"\x00")))
