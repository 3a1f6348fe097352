"""Large batches: written whole, applied and published in parts, with turns of the loop between."""

import asyncio

from clob import Batch, CancelAll, Limits, SetLimits
from clob_server.core import sequencer
from clob_server.core.sequencer import NewOrder, NewOrders
from tests.matchers import buy, sell
from tests.server.engines import NOW_MS, assert_as_logged, engine_over, logged, working

MAKER, OTHER = "0x" + "1" * 40, "0x" + "2" * 40


async def submit_all(engine, commands):
    tasks = [asyncio.create_task(engine.submit(command)) for command in commands]
    return await asyncio.gather(*tasks)


async def test_queue_is_written_in_batches_of_bounded_size(log, monkeypatch):
    monkeypatch.setattr(sequencer, "COMMANDS_MAX", 10)
    engine = engine_over(log)
    async with working(engine):
        orders = [sell(f"s{n}", 60, 5) for n in range(25)]
        done = await submit_all(engine, orders)
        assert [each.seq for each in done] == list(range(2, 27))
    assert [len(frame) for frame in logged(log)] == [1, 10, 10, 5]
    assert_as_logged(engine, log)


def test_orders_of_a_batch_count_one_by_one():
    submit = sell("s", 60, 5)
    new = NewOrder(submit)
    assert sequencer.num_commands(new) == 1
    assert sequencer.num_commands(NewOrders([new] * 7)) == 7
    assert sequencer.num_commands(Batch(commands=(submit,) * 5)) == 5
    assert sequencer.num_commands(lambda now_ms: submit) == 1


async def test_one_oversized_command_is_a_batch_of_its_own(log, monkeypatch):
    monkeypatch.setattr(sequencer, "COMMANDS_MAX", 3)
    engine = engine_over(log)
    async with working(engine):
        large = Batch(commands=tuple(sell(f"b{n}", 60, 5) for n in range(5)))
        await submit_all(engine, [sell("s", 60, 5), large, sell("t", 60, 5)])
    assert [[type(each).__name__ for each in frame] for frame in logged(log)] == [
        ["AddMarket"], ["Submit"], ["Batch"], ["Submit"],
    ]  # fmt: skip
    assert_as_logged(engine, log)


async def test_batch_is_answered_and_published_in_parts_between_turns_of_the_loop(log, monkeypatch):
    monkeypatch.setattr(sequencer, "WORK_MAX", 10)
    engine, history = engine_over(log), []
    async with working(engine):
        engine.subscribe(lambda batch: history.append([each.seq for each in batch]))

        async def turn():
            while True:
                history.append("turn")
                await asyncio.sleep(0)

        for n in range(12):  # an order and its event are two
            engine.enqueue(sell(f"s{n}", 60, 5), lambda done: history.append(done.seq))
        turns = asyncio.create_task(turn())
        await engine.submit(CancelAll(maker="unknown"))
        turns.cancel()
    parts = [each for each in history if each != "turn"]
    assert parts == [
        2, 3, 4, 5, 6, [2, 3, 4, 5, 6],
        7, 8, 9, 10, 11, [7, 8, 9, 10, 11],
        12, 13, [12, 13, 14],
    ]  # fmt: skip
    assert [history[history.index(first) - 1] for first in (7, 12)] == ["turn"] * 2
    assert "turn" not in history[history.index(7) : history.index([7, 8, 9, 10, 11])]
    assert len(logged(log)) == 2
    assert_as_logged(engine, log)


async def test_no_command_is_applied_before_the_listeners_are_done(log):
    engine, seen = engine_over(log), []

    def steps(batch):
        orders = len(engine.state.matcher)
        for _ in range(5):
            yield
            assert len(engine.state.matcher) == orders
        seen.append([each.seq for each in batch])

    async with working(engine):
        engine.subscribe(lambda batch: sequencer.begin(steps(batch)))
        await asyncio.gather(*(engine.submit(sell(f"s{n}", 60, 5)) for n in range(3)))
        await engine.submit(buy("b", 60, 5))
    assert seen == [[2, 3, 4], [5]]


async def test_failure_of_a_listener_fails_the_callers_of_later_parts_only(log, monkeypatch):
    monkeypatch.setattr(sequencer, "WORK_MAX", 2)
    engine, results = engine_over(log), []

    def fail(batch):
        if batch[0].seq == 2:
            raise RuntimeError("broken")

    task = asyncio.create_task(engine.run())
    await engine.submit(SetLimits(limits=Limits(), now_ms=NOW_MS))
    engine.subscribe(fail)
    for n in range(3):
        engine.enqueue(CancelAll(maker=MAKER if n else OTHER), results.append)
    [error] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(error, RuntimeError)
    assert [type(each).__name__ for each in results] == ["Committed"] * 2 + ["RuntimeError"]
