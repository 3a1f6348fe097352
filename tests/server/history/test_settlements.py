"""Settlement statuses over HTTP and in the history file; a status never goes back."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, closing
from functools import partial

import httpx
import msgspec
import pytest

from clob_server.app import App
from clob_server.core import settlement_ledger
from clob_server.core.clock import wall_clock_ms
from clob_server.core.commands import FollowChain
from clob_server.core.settlement_status import SettlementStatuses
from clob_server.history import history
from clob_server.history.store import DAY_MS, HistoryStore, StoreReader
from clob_server.service import Service
from clob_server.settings import Settings
from tests.matchers import buy, sell
from tests.server.history.logs import dump, follow_log, write_log
from tests.server.settled import ALICE, BOB, NO, YES, ended, opening, sent, settling, tx_of

SIZE = 10**16
KEPT = 20
PATIENCE_S = 60


class Server:
    """A service without sockets, with a market that settles."""

    def __init__(self, service):
        self.service = service
        transport = httpx.ASGITransport(App(service))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def apply(self, *commands):
        """Submit commands with the current time."""
        for command in commands:
            await self.service.sequencer.submit(
                lambda now_ms, each=command: msgspec.structs.replace(each, now_ms=now_ms)
            )

    async def trade(self, count=1, *, first=1):
        """Make trades."""
        for number in range(first, first + count):
            await self.apply(
                sell(f"s{number}", 60, SIZE, maker=ALICE, token=YES),
                buy(f"b{number}", 60, SIZE, maker=BOB, token=YES),
            )

    async def settle(self, *numbers):
        """Submit and settle trades."""
        await self.apply(sent(*numbers, operation=f"settle-{numbers[0]}", now_ms=0))
        await self.apply(ended(*numbers, now_ms=0))

    async def get(self, path, **params):
        """Send a GET request, again while the history process lacks processor time."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.http.get(path, params=params)).is_error:
                assert answer.json()["code"] == "RECOVERING", answer.text
        return answer

    def clear_statuses(self):
        """Clear the statuses in memory."""
        self.service.history._tape("m")._statuses.clear()

    async def statuses(self, **params):
        """Return settlement, txHash and reason of the newest trades."""
        answer = await self.get("/api/markets/m/trades", **params)
        return [
            (each["settlement"], each["txHash"], each.get("settlementReason"))
            for each in answer.json()
        ]


@asynccontextmanager
async def running_service(folder, markets=(), **settings):
    """Run a service for the block; add markets if it has none."""
    common = {"chain": "none", "rate_limits": False, "trades_kept": KEPT, "history": "thread"}
    clock_ms = settings.pop("clock_ms", wall_clock_ms)
    service = Service(Settings(data_dir=str(folder), **common | settings), clock_ms)
    await service.start()
    server = Server(service)
    try:
        if not service.state.settles:
            await server.apply(*opening(*markets))
        yield server
    finally:
        await server.http.aclose()
        await service.close()


def settled(number):
    """Return the status of a settled trade."""
    return "settled", tx_of(number), None


@pytest.fixture(params=["thread", "process"])
def mode(request):
    return request.param


async def test_each_status_change_invalidates_cached_pages(tmp_path, mode):
    async with running_service(tmp_path, history=mode) as server:
        await server.trade(2)
        for _ in range(2):
            assert await server.statuses() == [("pending", None, None)] * 2
        await server.apply(sent(1, now_ms=0))
        for _ in range(2):
            assert await server.statuses() == [
                ("pending", None, None),
                ("submitted", None, None),
            ]
        await server.apply(ended(1, now_ms=0))
        for _ in range(2):
            assert await server.statuses() == [
                ("pending", None, None),
                ("settled", tx_of(1), None),
            ]
        await server.apply(sent(2, operation="settle-2", now_ms=0))
        await server.apply(ended(2, reason="bob has 5 of 6 wei", now_ms=0))
        statuses = [("failed", None, "bob has 5 of 6 wei"), ("settled", tx_of(1), None)]
        assert await server.statuses() == statuses
        assert await server.statuses(wrapped="false", limit=1) == statuses[:1]
        await server.apply(ended(1, reason="statuses again", now_ms=0))
        assert await server.statuses() == statuses


async def test_both_trades_of_a_mint_have_one_transaction(tmp_path):
    async with running_service(tmp_path, [settling(complementary=True)]) as server:
        await server.apply(buy("a", 60, SIZE, maker=ALICE, token=YES))
        await server.apply(buy("b", 45, SIZE, maker=BOB, token=NO))
        assert await server.statuses() == [("pending", None, None)] * 2
        await server.settle(1)
        assert await server.statuses() == [("settled", tx_of(1), None)] * 2
        answer = await server.get("/api/markets/m/trades")
        assert [each["matchType"] for each in answer.json()] == ["mint", "mint"]
    with closing(StoreReader(tmp_path)) as reader:
        assert list(reader.statuses([1, 2])) == [1]


async def test_old_statuses_are_found_in_history_also_after_a_restart(tmp_path, mode, monkeypatch):
    monkeypatch.setattr(history, "SettlementStatuses", partial(SettlementStatuses, kept=3))
    count = KEPT + 15

    async def check(server):
        expected = [("pending", None, None)]
        expected += [("settled", tx_of(number), None) for number in range(count - 1, 0, -1)]
        assert await server.statuses(limit=100) == expected
        assert await server.statuses(limit=4) == expected[:4]
        found, cursor = [], {}
        while cursor is not None:
            answer = await server.get("/api/markets/m/trades", limit=9, **cursor)
            found += [each["txHash"] for each in answer.json()]
            following = answer.headers.get("x-next-cursor")
            cursor = following and {"cursor": following}
        assert found == [tx for _, tx, _ in expected]

    async with running_service(tmp_path, history=mode) as server:
        await server.trade(count)
        for number in range(1, count):
            await server.settle(number)
        await check(server)
    async with running_service(tmp_path, history=mode) as server:
        server.service.state.registry.settling.ended.clear()
        await check(server)


async def test_status_does_not_go_back_while_history_is_behind(tmp_path, monkeypatch):
    """A status is answered from memory, or the request fails with RECOVERING."""
    monkeypatch.setattr(settlement_ledger, "ENDED_MAX", 2)
    monkeypatch.setattr(history, "SettlementStatuses", partial(SettlementStatuses, kept=2))
    monkeypatch.setattr(history.History.wait_for, "__defaults__", (0.2,))

    async with running_service(tmp_path, history="process") as server:
        await server.trade(3)
        follower = server.service.history._supervisor._process.pid
        os.kill(follower, signal.SIGSTOP)
        try:
            for number in (1, 2, 3):
                await server.settle(number)
                statuses = await server.statuses(limit=3)
                assert statuses[3 - number :] == [settled(each) for each in range(number, 0, -1)]
            server.clear_statuses()
            assert await server.statuses(limit=2) == [settled(3), settled(2)]
            answer = await server.http.get("/api/markets/m/trades", params={"limit": 4})
            assert (answer.status_code, answer.json()["code"]) == (503, "RECOVERING")
        finally:
            os.kill(follower, signal.SIGCONT)
        await server.service.history.wait_for(server.service.sequencer.seq, 30)
        assert await server.statuses(limit=4) == [settled(3), settled(2), settled(1)]


async def test_recent_statuses_stay_available_after_history_prunes_them(tmp_path, monkeypatch):
    monkeypatch.setattr(settlement_ledger, "ENDED_MAX", 1)
    monkeypatch.setattr(history, "SettlementStatuses", partial(SettlementStatuses, kept=1))
    day = [DAY_MS]

    settings = {"history_days": 2, "clock_ms": lambda: day[0]}
    async with running_service(tmp_path, [settling(), settling("n", 201)], **settings) as server:
        await server.trade(2)
        await server.settle(1)
    async with running_service(tmp_path, **settings) as server:
        assert await server.statuses(limit=1) == [("pending", None, None)]
        day[0] += 9 * DAY_MS
        await server.settle(2)
        await server.trade(1, first=3)
        await server.settle(3)
        await server.service.history.wait_for(server.service.sequencer.seq)
        assert [row[0] for row in dump(tmp_path)["settlements"]] == [3]
        server.service.state.registry.settling.ended.clear()
        assert await server.statuses() == [settled(3), settled(2), settled(1)]


async def test_page_that_changed_while_it_was_built_is_not_cached(tmp_path, monkeypatch):
    """A query waits for the history of an old trade; meanwhile a recent trade settles."""
    monkeypatch.setattr(settlement_ledger, "ENDED_MAX", 1)
    monkeypatch.setattr(history, "SettlementStatuses", partial(SettlementStatuses, kept=1))

    async with running_service(tmp_path) as server:
        await server.trade(3)
        await server.settle(1)
        await server.settle(2)
        server.clear_statuses()
        reading, done = asyncio.Event(), asyncio.Event()
        wait_for = server.service.history.wait_for

        async def slow(seq):
            reading.set()
            await done.wait()
            await wait_for(seq)

        monkeypatch.setattr(server.service.history, "wait_for", slow)
        page = asyncio.create_task(server.statuses(limit=3))
        await reading.wait()
        await server.settle(3)
        done.set()
        assert (await page)[0] == ("pending", None, None)
        assert (await server.statuses(limit=3))[0] == settled(3)


async def test_repeated_order_returns_the_transaction_of_its_trade(tmp_path):
    async def post(server, maker, side):
        body = {
            "maker": maker,
            "tokenId": YES,
            "side": side,
            "price": 60,
            "size": str(SIZE),
            "marketId": "m",
            "clientOrderId": "mine",
        }
        answer = await server.http.post("/api/orders/gasless", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async with running_service(tmp_path) as server:
        allowed = (("gasless", ALICE, ALICE, True), ("gasless", BOB, BOB, True))
        await server.apply(FollowChain(block=1, hash="0x1", permissions=allowed, now_ms=0))
        answers = [await post(server, maker, side) for maker, side in ((ALICE, 1), (BOB, 0))]
        [trade] = answers[1]["trades"]
        assert trade["txHash"] is None
        assert (await post(server, BOB, 0))["trades"] == [trade]
        await server.settle(1)
        again = await post(server, BOB, 0)
        assert again == {
            **answers[1],
            "trades": [{**trade, "txHash": tx_of(1)}],
            "duplicate": True,
        }


# ----- the file ------------------------------------------------------------------------------


def settlement_commands():
    """Yield trades that settle, fail or wait, and ends without a waiting trade."""
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
    yield ended(7, 9, now_ms=25)  # the mint's second trade, and an unknown trade
    yield ended(5, now_ms=26)  # never submitted


def test_file_has_the_first_end_of_each_trade_after_any_interruption(tmp_path):
    commands = list(settlement_commands())
    whole = tmp_path / "whole"
    whole.mkdir()
    write_log(whole, commands)
    follow_log(whole)
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
        write_log(part, commands)
        follow_log(part, stop=stop, snapshot_commands=4)
        follow_log(part)
        assert [each for each in dump(part).items() if each[0] != "applied"] == [
            each for each in rows.items() if each[0] != "applied"
        ]


def test_ends_are_pruned_with_their_trades_also_in_a_rebuild(tmp_path):
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
        write_log(folder, commands)
        for stop in stops:
            follow_log(folder, days=2, stop=stop)
        follow_log(folder, days=2)
    late, early = dump(tmp_path / "late"), dump(tmp_path / "early")
    assert late == early
    assert [row[0] for row in late["settlements"]] == [3]
    assert len(late["trades"]) == 1


async def test_file_of_an_older_version_is_moved_aside_and_rebuilt(tmp_path):
    write_log(tmp_path, settlement_commands())
    follow_log(tmp_path)
    rows = dump(tmp_path)
    with closing(HistoryStore(tmp_path)) as store:
        store._db.execute("PRAGMA user_version=2")

    async with running_service(tmp_path) as server:
        assert len(await server.statuses()) == 7
    assert dump(tmp_path)["settlements"] == rows["settlements"]
    assert (tmp_path / "history.db.aside").exists()
