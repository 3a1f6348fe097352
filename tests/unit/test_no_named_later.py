"""A market whose NO token is not named yet: it trades YES alone, and the name comes once."""

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
from tests.books import told
from tests.journal.stories import journal_of, submit
from tests.matchers import MATCHERS, buy, load, market, opened, refused, sell
from tests.unit.test_matcher_snapshots import seal

UNNAMED = market(no="")


@pytest.fixture
def matcher(matcher_class):
    """A market ``m`` without a NO, and a whole market ``n`` beside it."""
    return opened(matcher_class, UNNAMED, market("n"))


def name(no, **terms):
    """Write the command that names the NO of market ``m``."""
    return SetMarket(market=market(no=no, **terms))


# ----- before it is named --------------------------------------------------------------------


def test_yes_trades_while_no_is_not_named(matcher):
    assert told(matcher.apply(sell("s", 50, 5))) == ["added s 5"]
    assert told(matcher.apply(buy("b", 50, 2))) == ["trade s b 2 @ 50"]
    assert matcher.market("m") == UNNAMED
    matcher.audit()


@pytest.mark.parametrize("token", ["", "m-no", "None", "n-no"])
def test_no_token_whatever_stands_for_the_one_that_is_not_named(matcher, token):
    command = buy("b", 50, 5, token=token)
    words = "'m-yes'", "not named yet", f"not {token!r}"
    assert type(matcher.check(command)) is TokenNotInMarketError
    for ask in (
        lambda: matcher.apply(command),
        lambda: matcher.simulate(command),
        lambda: matcher.apply(Batch(commands=(sell("s", 50, 5), command), atomic=True)),
        lambda: matcher.depth("m", token),
    ):
        with refused(matcher, TokenNotInMarketError, *words):
            ask()


def test_the_empty_token_is_refused_in_a_whole_market_too(matcher):
    with refused(matcher, TokenNotInMarketError, "'n-yes'", "'n-no'", "not ''"):
        matcher.apply(buy("b", 50, 5, market="n", token=""))
    with refused(matcher, TokenNotInMarketError, "not ''"):
        matcher.depth("n", "")


def test_several_markets_may_lack_their_no(matcher):
    matcher.add_market(market("o", no=""))
    matcher.add_market(market("p", no=""))
    matcher.apply(buy("b", 50, 5, market="o", token="o-yes"))
    assert [each.no for each in matcher.markets] == ["", "n-no", "", ""]


def test_there_is_no_market_without_a_yes_or_without_a_collateral(matcher):
    for wrong in ({"yes": "", "no": "x-no"}, {"yes": "", "no": ""}, {"collateral": "", "no": ""}):
        with refused(matcher, InvalidMarketError, "1 to 256", "not 0"):
            matcher.add_market(market("x", **wrong))


@pytest.mark.parametrize("settles", [False, True])
def test_a_market_with_accounts_needs_both_tokens(matcher, settles):
    described = market("x", no="", funds=Funds.ACCOUNTS, settles=settles)
    with refused(matcher, InvalidMarketError, "no must have 1 to 256", "Funds.ACCOUNTS", "not 0"):
        matcher.add_market(described)


def test_the_terms_of_a_market_without_its_no_may_change(matcher):
    changed = msgspec.structs.replace(UNNAMED, min_size=9)
    assert matcher.apply(SetMarket(market=changed)) == []
    assert matcher.market("m") == changed
    with refused(matcher, InvalidMarketError, "lot_wei", "stays 1", "not 3"):
        matcher.apply(name("m-no", lot_wei=3))


# ----- naming it -----------------------------------------------------------------------------


def test_what_was_named_trades_in_the_sequence_of_its_market(matcher):
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


def test_a_name_is_for_good(matcher):
    matcher.apply(name("m-no"))
    for other in ("other", ""):
        with refused(matcher, InvalidMarketError, "no of", "stays 'm-no'", f"not {other!r}"):
            matcher.apply(name(other))
    assert matcher.apply(name("m-no", min_size=7)) == []


def test_a_market_that_was_whole_from_the_beginning_keeps_its_no(matcher):
    for other in ("other", ""):
        with refused(matcher, InvalidMarketError, "stays 'n-no'", f"not {other!r}"):
            matcher.apply(SetMarket(market=market("n", no=other)))


@pytest.mark.parametrize(
    ("no", "words"),
    [
        ("m-yes", ["differ", "'m-yes'"]),
        ("collateral", ["differ", "'collateral'"]),
        ("n-yes", ["'n-yes'", "in market 'n'"]),
        ("n-no", ["'n-no'", "in market 'n'"]),
        ("gold", ["'gold'", "collateral of market 'g'"]),
        ("x" * 257, ["no must", 256, "not 257"]),
        (102, ["no must be a text", "not 102"]),
        (None, ["no must be a text", "not None"]),
    ],
)
def test_a_name_is_checked_as_that_of_a_new_market(matcher, no, words):
    matcher.add_market(market("g", collateral="gold"))
    command = name(no)
    assert type(matcher.check(command)) is InvalidMarketError
    with refused(matcher, InvalidMarketError, *words):
        matcher.apply(command)
    assert matcher.apply(name("m-no")) == []


def test_what_was_named_is_nobody_elses(matcher):
    matcher.apply(name("m-no"))
    matcher.add_market(market("o", no=""))
    for command in (
        SetMarket(market=market("o", no="m-no")),
        AddMarket(market=market("p", no="m-no")),
        AddMarket(market=market("p", yes="m-no")),
    ):
        with refused(matcher, InvalidMarketError, "'m-no'", "in market 'm'"):
            matcher.apply(command)
    with refused(matcher, InvalidMarketError, "'m-no'", "is a token of a market"):
        matcher.add_market(market("p", collateral="m-no"))


def test_a_resolved_market_may_be_named_and_stays_over(matcher):
    matcher.apply(buy("a", 50, 5))
    # It clears both books, and the sequence number goes by way of the one that is replaced.
    matcher.apply(SetMode(market="m", mode=Mode.RESOLVED))
    again = matcher.fork()
    for each in (matcher, again):
        each.apply(name("m-no", mode=Mode.RESOLVED))
        assert each.seq("m") == each.depth("m", "m-no").seq == 2
        with refused(each, MarketNotOpenError):
            each.apply(buy("b", 50, 5, token="m-no"))
    assert matcher.snapshot() == again.snapshot()


def test_an_atomic_batch_over_both_tokens_is_taken_back_after_the_name(matcher):
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
    assert told(done) == ["trade b s 3 @ 50"]


# ----- journals and snapshots ----------------------------------------------------------------


def test_a_journal_leads_to_the_same_tokens():
    whole = market()
    early, late = (submit(name, Side.BUY, 50, 5, "m", "m-no") for name in ("early", "late"))
    commands = [AddMarket(market=UNNAMED), early, SetMarket(market=whole), late]
    frames, recorder = journal_of(commands, per_frame=1)
    found = verify(frames)
    assert found.refused == {"TOKEN_NOT_IN_MARKET": 1}
    assert found.state_hash == recorder.matcher.state_hash()
    assert recorder.matcher.markets == [whole]


def lived(matcher_class, *, named):
    """Give a market ``m`` orders of YES, and of NO where it is named."""
    matcher = opened(matcher_class, UNNAMED)
    matcher.apply(buy("a", 50, 5))
    if named:
        matcher.apply(name("m-no"))
        matcher.apply(buy("b", 40, 5, token="m-no"))
        matcher.apply(sell("s", 40, 2, token="m-no"))
    return matcher


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("other", MATCHERS)
def test_a_snapshot_keeps_what_is_named_and_what_is_not(matcher_class, other, named):
    matcher = lived(matcher_class, named=named)
    again = load(other).restore(matcher.snapshot())
    again.audit()
    assert again.markets == matcher.markets
    assert again.snapshot() == matcher.snapshot() == matcher.fork().snapshot()
    assert again.state_hash() == matcher.state_hash()
    for command in (name("x"), name("m-no"), buy("c", 40, 5, token="m-no"), name("y")):
        foreseen = [str(each.check(command)) for each in (matcher, again)]
        assert foreseen[0] == foreseen[1]
        if foreseen[0] == "None":
            assert matcher.apply(command) == again.apply(command)
    assert again.snapshot() == matcher.snapshot()


def test_the_name_is_part_of_the_state(matcher_class):
    one, other, third = (opened(matcher_class, UNNAMED) for _ in range(3))
    one.apply(name("m-no"))
    third.apply(name("other"))
    assert len({each.state_hash() for each in (one, other, third)}) == 3
    assert one.snapshot() == opened(matcher_class).snapshot()


@pytest.mark.parametrize("finished", [False, True])
def test_a_snapshot_with_orders_of_a_no_that_is_not_named_is_refused(matcher_class, finished):
    matcher = opened(matcher_class, market(no="the no"))
    matcher.apply(buy("b", 40, 5, token="the no"))
    if finished:
        matcher.cancel("b")
    state = matcher.snapshot()[:-32]
    assert state.count(b"\x01\x06the no") == 1
    with pytest.raises(InvalidSnapshotError, match="a NO that is not named"):
        matcher.restore(seal(state.replace(b"\x01\x06the no", b"\x00")))
