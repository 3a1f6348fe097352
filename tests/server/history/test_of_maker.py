"""Fills and finished orders of makers equal those computed from the events, page by page."""

import random  # noqa: TID251 - seeded
from contextlib import closing

import pytest

from clob import AddMarket, Cancel, OrderStatus, PairedTrade, RejectedError, Side, Trade
from clob.errors import UnknownOrderError
from clob_server.core.state import ServerState, outcome_of
from clob_server.history import of_maker
from clob_server.history.of_maker import (
    FINISHED,
    PLACE_MAX,
    FillRange,
    FinishedRange,
    read_fills,
    read_fills_of,
    read_finished,
)
from clob_server.history.rows import finished_orders
from clob_server.history.store import FILE, StoreReader
from tests.matchers import buy, sell
from tests.matchers import market as terms_of
from tests.server.history.logs import flow_of, follow_log, write_log
from tests.server.history.test_settlements import SIZE, running_service
from tests.server.settled import ALICE

SEEDS = range(4)
COUNT = 500


def replayed(seed):
    """Return the fills of each maker, as (number, order, side, is incoming), and its orders."""
    state, number, fills, finished, makers = ServerState(), 0, {}, {}, {}
    for command in flow_of(seed, COUNT):
        outcome = outcome_of(state, command)
        if isinstance(outcome, RejectedError):
            continue
        for event in outcome:
            if not isinstance(event, Trade):
                continue
            number += 1
            for side, maker in ((Side.BUY, event.buyer), (Side.SELL, event.seller)):
                if maker:
                    paired = isinstance(event, PairedTrade)
                    is_incoming = event.is_incoming if paired else event.incoming_side is side
                    order = event.incoming_order_id if is_incoming else event.resting_order_id
                    fills.setdefault(maker, []).append((number, str(order), side, is_incoming))
        for order_id, _ in finished_orders(command, outcome):
            try:
                record = state.matcher.order(order_id)
            except UnknownOrderError:
                continue  # more finished at once than the matcher keeps
            expired = record.removal is not None and record.removal.value == "expired"
            is_filled = record.status is OrderStatus.FILLED
            status = "filled" if is_filled else "expired" if expired else "cancelled"
            makers[str(order_id)] = record.order.maker
            finished.setdefault(record.order.maker, {})[str(order_id)] = status
    return fills, finished


@pytest.fixture(scope="module", params=SEEDS)
def history(request, tmp_path_factory):
    """A history, with the fills and orders that it has to contain; built twice."""
    folder = tmp_path_factory.mktemp("history")
    write_log(folder, flow_of(request.param, COUNT), 7)
    follow_log(folder, stop=COUNT // 2)
    follow_log(folder)
    if request.param % 2:
        (folder / FILE).unlink()
        follow_log(folder)
    with closing(StoreReader(folder)) as reader:
        yield reader.db, *replayed(request.param)


def pages(db, maker, rng, *, newest, market=None):
    """Yield the fills of all pages of random sizes."""
    after = PLACE_MAX if newest else 0
    while True:
        limit = rng.randint(1, 20)
        rows = read_fills(db, FillRange(maker, market, after, limit, newest))
        yield from rows
        if len(rows) < limit:
            return
        after = rows[-1].place


def shape(row):
    return row.trade.number, str(row.order_id), row.side, row.is_incoming


@pytest.mark.parametrize("newest", [False, True])
def test_fills_of_all_makers_equal_the_trades(history, newest):
    db, fills, _ = history
    rng = random.Random(1)
    assert fills
    for maker, expected in fills.items():
        found = [shape(row) for row in pages(db, maker, rng, newest=newest)]
        key = lambda fill: (fill[0], fill[3])  # noqa: E731
        assert found == sorted(expected, key=key, reverse=newest)


def test_fills_of_a_market_are_those_of_the_maker_in_it(history):
    db, fills, _ = history
    rng = random.Random(2)
    for maker in fills:
        rows = list(pages(db, maker, rng, newest=False))
        for market in {row.trade.event.market for row in rows}:
            of_market = list(pages(db, maker, rng, newest=False, market=market))
            assert of_market == [row for row in rows if row.trade.event.market == market]


def test_fills_of_an_order_are_those_of_its_maker(history):
    db, fills, _ = history
    by_order = {}
    for own in fills.values():
        for fill in own:
            by_order.setdefault(fill[1], []).append(fill)
    for order, expected in by_order.items():
        assert [shape(row) for row in read_fills_of(db, order, 100)] == sorted(expected)
        assert [shape(row) for row in read_fills_of(db, order, 1)] == sorted(expected)[:1]


def test_finished_orders_are_listed_once_by_status(history):
    db, _, finished = history
    rng = random.Random(3)
    statuses = set()
    for maker, orders in finished.items():
        for wanted in (*((each,) for each in FINISHED), FINISHED):
            before, found = PLACE_MAX, []
            while before is not None:
                limit = 1 + rng.randrange(9)
                page, before = read_finished(db, FinishedRange(maker, wanted, before, limit, ()))
                found += page
                assert len(page) == limit or before is None
            ids = [body.split(b'"id":"')[1].split(b'"')[0].decode() for _, body in found]
            assert set(ids) >= {id for id, status in orders.items() if status in wanted}
            assert len(ids) == len(set(ids))
            statuses |= {status for id, status in orders.items() if id in ids}
    assert statuses >= {"filled", "cancelled"}


def bodies_of(db, maker):
    """Return number, JSON, market, token and side of the finished orders of a maker."""
    return db.execute(
        "SELECT rowid, body, market, token, side FROM orders WHERE maker=? ORDER BY rowid DESC",
        (maker,),
    ).fetchall()


@pytest.mark.parametrize("examined", [1, 2, 7, 2_000])
def test_filtered_pages_join_to_all_orders_and_read_a_bounded_number_of_rows(
    history, monkeypatch, examined
):
    monkeypatch.setattr(of_maker, "EXAMINED_MAX", examined)
    db, _, finished = history
    rng, short = random.Random(4), 0
    for maker in finished:
        rows = bodies_of(db, maker)
        for column, place in (("token", 3), ("side", 4), ("market", 2)):
            for value in {row[place] for row in rows}:
                filters = ((column, value),)
                expected = [row[:2] for row in rows if row[place] == value]
                before, found = PLACE_MAX, []
                while before is not None:
                    limit = 1 + rng.randrange(9)
                    wanted = FinishedRange(maker, FINISHED, before, limit, filters)
                    page, after = read_finished(db, wanted)
                    assert after is None or after < before
                    short += len(page) < limit and after is not None
                    assert len(page) <= limit
                    found += page
                    before = after
                assert found == expected
    assert bool(short) == (examined < 2_000)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (lambda db: read_fills(db, FillRange("m", None, 0, 9, False)), "trades_buyer"),
        (lambda db: read_fills(db, FillRange("m", "a", 9, 9, True)), "trades_seller_market"),
        (lambda db: read_fills_of(db, "o", 9), "trades_resting"),
        (lambda db: read_finished(db, FinishedRange("m", FINISHED, 9, 9, ())), "orders_maker"),
        (
            lambda db: read_finished(db, FinishedRange("m", FINISHED, 9, 9, (("client_id", "c"),))),
            "orders_client",
        ),
        (
            lambda db: read_finished(db, FinishedRange("m", FINISHED, 9, 9, (("market", "a"),))),
            "orders_market",
        ),
    ],
)
def test_queries_use_an_index_and_sort_nothing(history, query, index):
    db, *_ = history
    plans = []

    def explain(cursor, statement, bindings):
        if not statement.startswith("EXPLAIN"):
            rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", bindings).fetchall()
            plans.extend(row[3] for row in rows)
        return True

    db.exec_trace = explain
    try:
        query(db)
    finally:
        db.exec_trace = None
    assert any(index in plan for plan in plans)
    assert not any("SCAN" in plan or "TEMP B-TREE" in plan for plan in plans)


# ----- over HTTP -------------------------------------------------------------------------------


async def test_short_pages_over_http_lead_on_to_the_selected_orders(tmp_path, monkeypatch):
    monkeypatch.setattr(of_maker, "EXAMINED_MAX", 3)
    async with running_service(tmp_path) as server:
        await server.apply(AddMarket(market=terms_of("x"), now_ms=0))
        for number, make in enumerate((buy, buy, *(sell,) * 7)):
            price = 40 if make is buy else 60
            fields = {"maker": ALICE, "market": "x", "token": "x-yes"}
            await server.apply(make(f"o{number}", price, SIZE, **fields))
            await server.apply(Cancel(order_id=f"o{number}", now_ms=0))
        pages, url = [], f"/api/orders?maker={ALICE}&status=cancelled&side=BUY"
        while url:
            answer = await server.http.get(url)
            pages.append([each["id"] for each in answer.json()])
            url = answer.links.get("next", {}).get("url")
        assert [each for page in pages for each in page] == ["o1", "o0"]
        assert pages[:2] == [[], []]
