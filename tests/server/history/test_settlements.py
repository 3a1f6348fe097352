"""How trades stand, over HTTP and in the file of history: at once, and never a step back."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, closing
from functools import partial

import httpx
import msgspec
import pytest

from clob_server.app import App
from clob_server.core.commands import FollowChain
from clob_server.core.settlement_status import Fates
from clob_server.history import history
from clob_server.history.store import DAY_MS, HistoryStore, StoreReader
from clob_server.service import Service, wall_clock_ms
from clob_server.settings import Settings
from tests.matchers import buy, sell
from tests.server.history.logs import dump, followed, logged
from tests.server.settled import ALICE, BOB, NO, YES, ended, opening, sent, settling, tx_of

SIZE = 10**16
KEPT = 20


class Venue:
    """A server without its sockets, with a market that settles."""

    def __init__(self, service):
        self.service = service
        transport = httpx.ASGITransport(App(service))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://here")

    async def do(self, *commands):
        """Have commands done, at the time it is."""
        for command in commands:
            await self.service.engine.ask(
                lambda now_ms, each=command: msgspec.structs.replace(each, now_ms=now_ms)
            )

    async def trade(self, count=1, *, first=1):
        """Make trades."""
        for number in range(first, first + count):
            await self.do(
                sell(f"s{number}", 60, SIZE, maker=ALICE, token=YES),
                buy(f"b{number}", 60, SIZE, maker=BOB, token=YES),
            )

    async def settle(self, *numbers):
        """Have trades sent and settled."""
        await self.do(sent(*numbers, operation=f"settle-{numbers[0]}", now_ms=0))
        await self.do(ended(*numbers, now_ms=0))

    async def get(self, path, **params):
        """Ask for something."""
        answer = await self.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer

    def forget(self):
        """Forget how the trades stand that are at hand."""
        self.service.history._recent.tape("m")._ends.clear()

    async def stands(self, **params):
        """Tell how the newest trades stand: seq, settlement, txHash, reason."""
        answer = await self.get("/api/markets/m/trades", **params)
        return [
            (each["settlement"], each["txHash"], each.get("settlementReason"))
            for each in answer.json()
        ]


@asynccontextmanager
async def venue(folder, markets=(), **settings):
    """A server for as long as the block takes; with markets, if it has none yet."""
    common = {"chain": "none", "rate_limits": False, "trades_kept": KEPT, "history": "thread"}
    clock_ms = settings.pop("clock_ms", wall_clock_ms)
    service = Service(Settings(data_dir=str(folder), **common | settings), clock_ms)
    await service.start()
    made = Venue(service)
    try:
        if not service.exchange.settles:
            await made.do(*opening(*markets))
        yield made
    finally:
        await made.http.aclose()
        await service.close()


def settled(number):
    """How a trade stands that was settled."""
    return "settled", tx_of(number), None


def played(story):
    asyncio.run(asyncio.wait_for(story, 120))


@pytest.fixture(params=["thread", "process"])
def mode(request):
    return request.param


def test_each_step_is_seen_at_once_though_pages_are_kept(tmp_path, mode):
    async def story():
        async with venue(tmp_path, history=mode) as here:
            await here.trade(2)
            for _ in range(2):
                assert await here.stands() == [("pending", None, None)] * 2
            await here.do(sent(1, now_ms=0))
            for _ in range(2):
                assert await here.stands() == [("pending", None, None), ("submitted", None, None)]
            await here.do(ended(1, now_ms=0))
            for _ in range(2):
                assert await here.stands() == [("pending", None, None), ("settled", tx_of(1), None)]
            await here.do(sent(2, operation="settle-2", now_ms=0))
            await here.do(ended(2, reason="bob has 5 of 6 wei", now_ms=0))
            told = [("failed", None, "bob has 5 of 6 wei"), ("settled", tx_of(1), None)]
            assert await here.stands() == told
            assert await here.stands(wrapped="false", limit=1) == told[:1]
            await here.do(ended(1, reason="told again", now_ms=0))
            assert await here.stands() == told

    played(story())


def test_both_trades_of_a_mint_have_one_transaction(tmp_path):
    async def story():
        async with venue(tmp_path, [settling(complementary=True)]) as here:
            await here.do(buy("a", 60, SIZE, maker=ALICE, token=YES))
            await here.do(buy("b", 45, SIZE, maker=BOB, token=NO))
            assert await here.stands() == [("pending", None, None)] * 2
            await here.settle(1)
            assert await here.stands() == [("settled", tx_of(1), None)] * 2
            answer = await here.get("/api/markets/m/trades")
            assert [each["matchType"] for each in answer.json()] == ["mint", "mint"]
        with closing(StoreReader(tmp_path)) as reader:
            assert list(reader.fates([1, 2])) == [1]

    played(story())


def test_what_ended_long_ago_is_found_also_after_a_restart(tmp_path, mode, monkeypatch):
    monkeypatch.setattr(history, "Fates", partial(Fates, kept=3))
    count = KEPT + 15

    async def story():
        async with venue(tmp_path, history=mode) as here:
            await here.trade(count)
            for number in range(1, count):
                await here.settle(number)
            await check(here)
        async with venue(tmp_path, history=mode) as here:
            here.service.exchange.registry.settling.ended.clear()
            await check(here)

    async def check(here):
        expected = [("pending", None, None)]
        expected += [("settled", tx_of(number), None) for number in range(count - 1, 0, -1)]
        assert await here.stands(limit=100) == expected
        assert await here.stands(limit=4) == expected[:4]
        found, cursor = [], {}
        while cursor is not None:
            answer = await here.get("/api/markets/m/trades", limit=9, **cursor)
            found += [each["txHash"] for each in answer.json()]
            following = answer.headers.get("x-next-cursor")
            cursor = following and {"cursor": following}
        assert found == [tx for _, tx, _ in expected]

    played(story())


def test_history_that_is_behind_takes_nothing_back(tmp_path, monkeypatch):
    """What is at hand is told; of what is not, it is said that it cannot be told."""
    monkeypatch.setattr(history, "Fates", partial(Fates, kept=2))
    monkeypatch.setattr(history.History.reach, "__defaults__", (0.2,))

    async def story():
        async with venue(tmp_path, history="process") as here:
            await here.trade(3)
            follower = here.service.history._supervisor._process.pid
            os.kill(follower, signal.SIGSTOP)
            try:
                for number in (1, 2, 3):
                    await here.settle(number)
                    told = await here.stands(limit=3)
                    assert told[3 - number :] == [settled(each) for each in range(number, 0, -1)]
                here.forget()
                assert await here.stands(limit=2) == [settled(3), settled(2)]
                answer = await here.http.get("/api/markets/m/trades", params={"limit": 4})
                assert (answer.status_code, answer.json()["code"]) == (503, "RECOVERING")
            finally:
                os.kill(follower, signal.SIGCONT)
            await here.service.history.reach(here.service.engine.seq, 30)
            assert await here.stands(limit=4) == [settled(3), settled(2), settled(1)]

    played(story())


def test_what_history_has_let_go_of_still_stands_as_it_did_while_it_is_at_hand(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(history, "Fates", partial(Fates, kept=1))
    day = [DAY_MS]

    async def story():
        settings = {"history_days": 2, "clock_ms": lambda: day[0]}
        async with venue(tmp_path, [settling(), settling("n", 201)], **settings) as here:
            await here.trade(2)
            await here.settle(1)
        async with venue(tmp_path, **settings) as here:
            assert await here.stands(limit=1) == [("pending", None, None)]
            day[0] += 9 * DAY_MS
            await here.settle(2)
            await here.trade(1, first=3)
            await here.settle(3)
            await here.service.history.reach(here.service.engine.seq)
            assert [row[0] for row in dump(tmp_path)["settlements"]] == [3]
            here.service.exchange.registry.settling.ended.clear()
            assert await here.stands() == [settled(3), settled(2), settled(1)]

    played(story())


def test_a_page_that_changed_while_it_was_made_is_not_kept(tmp_path, monkeypatch):
    """An old trade sends the reader to history; meanwhile a young one is settled."""
    monkeypatch.setattr(history, "Fates", partial(Fates, kept=1))

    async def story():
        async with venue(tmp_path) as here:
            await here.trade(3)
            await here.settle(1)
            await here.settle(2)
            here.forget()
            reading, done = asyncio.Event(), asyncio.Event()
            reach = here.service.history.reach

            async def slow(seq):
                reading.set()
                await done.wait()
                await reach(seq)

            monkeypatch.setattr(here.service.history, "reach", slow)
            page = asyncio.create_task(here.stands(limit=3))
            await reading.wait()
            await here.settle(3)
            done.set()
            assert (await page)[0] == ("pending", None, None)
            assert (await here.stands(limit=3))[0] == settled(3)

    played(story())


def test_an_order_says_null_then_and_the_transaction_when_it_is_asked_again(tmp_path):
    async def story():
        async with venue(tmp_path) as here:
            allowed = (("gasless", ALICE, ALICE, True), ("gasless", BOB, BOB, True))
            await here.do(FollowChain(block=1, hash="0x1", permissions=allowed, now_ms=0))
            answers = [await post(here, maker, side) for maker, side in ((ALICE, 1), (BOB, 0))]
            [trade] = answers[1]["trades"]
            assert trade["txHash"] is None
            assert (await post(here, BOB, 0))["trades"] == [trade]
            await here.settle(1)
            again = await post(here, BOB, 0)
            assert again == {
                **answers[1],
                "trades": [{**trade, "txHash": tx_of(1)}],
                "duplicate": True,
            }

    async def post(here, maker, side):
        body = {
            "maker": maker,
            "tokenId": YES,
            "side": side,
            "price": 60,
            "size": str(SIZE),
            "marketId": "m",
            "clientOrderId": "mine",
        }
        answer = await here.http.post("/api/orders/gasless", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    played(story())


# ----- the file ------------------------------------------------------------------------------


def commands_told():
    """Trades that settle, fail, wait; and ends of what is no trade that waits."""
    yield from opening(settling(complementary=True))
    now_ms = 10
    for number in range(1, 6):
        now_ms += 1
        yield sell(f"s{number}", 60, SIZE, maker=ALICE, token=YES, now_ms=now_ms)
        yield buy(f"b{number}", 60, SIZE, maker=BOB, token=YES, now_ms=now_ms)
    yield buy("y", 60, SIZE, maker=ALICE, token=YES, now_ms=20)
    yield buy("n", 40, SIZE, maker=BOB, token=NO, now_ms=20)
    yield sent(1, 2, 3, 6, now_ms=21)
    yield ended(1, 6, now_ms=22)
    yield ended(2, reason="why", now_ms=23)
    yield ended(1, 2, reason="too late", now_ms=24)
    yield ended(7, 9, now_ms=25)  # the second trade of the mint, and none at all
    yield ended(5, now_ms=26)  # never sent


def test_the_file_has_the_first_end_of_each_trade_wherever_it_was_broken_off(tmp_path):
    commands = list(commands_told())
    whole = tmp_path / "whole"
    whole.mkdir()
    logged(whole, commands)
    followed(whole)
    rows = dump(whole)
    ends = {row[0]: row[1:3] for row in rows["settlements"]}
    assert ends == {
        1: (tx_of(1), ""),
        2: (tx_of(2), "why"),
        5: (tx_of(5), ""),
        6: (tx_of(6), ""),
    }
    assert [row[-4] for row in sorted(rows["trades"], key=lambda row: row[-1])] == [
        *(1, 2, 3, 4, 5, 6, 6)
    ]
    for stop in range(0, len(commands), 3):
        part = tmp_path / f"{stop}"
        part.mkdir()
        logged(part, commands)
        followed(part, stop=stop, snapshot_commands=4)
        followed(part)
        assert [each for each in dump(part).items() if each[0] != "applied"] == [
            each for each in rows.items() if each[0] != "applied"
        ]


def test_ends_go_with_their_trades_however_history_is_made(tmp_path):
    commands = [
        *opening(),
        sell("s1", 60, SIZE, maker=ALICE, token=YES, now_ms=5),
        buy("b1", 60, SIZE, maker=BOB, token=YES, now_ms=5),
        ended(1, now_ms=6),
        sell("s2", 60, SIZE, maker=ALICE, token=YES, now_ms=7),
        buy("b2", 60, SIZE, maker=BOB, token=YES, now_ms=7),
        sell("s3", 60, SIZE, maker=ALICE, token=YES, now_ms=5 * DAY_MS),
        buy("b3", 60, SIZE, maker=BOB, token=YES, now_ms=5 * DAY_MS),
        ended(2, 3, now_ms=5 * DAY_MS),
    ]
    for name, stops in (("late", ()), ("early", range(len(commands)))):
        folder = tmp_path / name
        folder.mkdir()
        logged(folder, commands)
        for stop in stops:
            followed(folder, days=2, stop=stop)
        followed(folder, days=2)
    late, early = dump(tmp_path / "late"), dump(tmp_path / "early")
    assert late == early
    assert [row[0] for row in late["settlements"]] == [3]
    assert len(late["trades"]) == 1


def test_a_file_of_the_version_before_is_put_aside_and_made_again(tmp_path):
    logged(tmp_path, commands_told())
    followed(tmp_path)
    rows = dump(tmp_path)
    with closing(HistoryStore(tmp_path)) as store:
        store._db.execute("PRAGMA user_version=2")

    async def story():
        async with venue(tmp_path) as here:
            assert len(await here.stands()) == 7

    played(story())
    assert dump(tmp_path)["settlements"] == rows["settlements"]
    assert (tmp_path / "history.db.aside").exists()
