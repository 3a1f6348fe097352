"""LogThread: calls run in sequence, and errors are raised to the caller that waits."""

import asyncio
import threading

import pytest

from clob_server.core.threads import LogThread


class Unheard(BaseException):
    """An error outside the hierarchy of Exception."""


async def test_calls_run_in_sequence_in_one_thread():
    worker, done, threads = LogThread("log"), [], set()

    def work(number):
        threads.add(threading.current_thread().name)
        done.append(number)
        return number

    def handed(number):
        return lambda: work(number)

    waits = []
    for number in range(100):
        if number % 3:
            waits.append(asyncio.ensure_future(worker.run(handed(number))))
        else:
            worker.enqueue(handed(number))
        await asyncio.sleep(0)
    assert await asyncio.gather(*waits) == [number for number in range(100) if number % 3]
    worker.close()
    assert (done, threads) == (list(range(100)), {"log"})


@pytest.mark.parametrize("raised", [KeyError("x"), Unheard("y")])
async def test_error_is_raised_to_the_caller_that_waits(raised):
    def fails():
        raise raised

    worker = LogThread("log")
    worker.enqueue(fails)
    with pytest.raises(type(raised)):
        await worker.run(fails)
    assert await worker.run(lambda: 5) == 5
    worker.close()


async def test_call_runs_after_its_caller_was_cancelled():
    worker, gate, done = LogThread("log"), threading.Event(), []
    first = asyncio.ensure_future(worker.run(gate.wait))
    second = asyncio.ensure_future(worker.run(lambda: done.append(2)))
    await asyncio.sleep(0)
    second.cancel()
    gate.set()
    assert await first
    assert await worker.run(lambda: 3) == 3
    assert done == [2]
    worker.close()


def test_close_runs_queued_calls_after_the_event_loop_ended():
    worker, gate, done = LogThread("log"), threading.Event(), []

    async def enqueue_and_cancel():
        waits = asyncio.ensure_future(worker.run(lambda: gate.wait() and done.append(1)))
        await asyncio.sleep(0)
        waits.cancel()

    asyncio.run(enqueue_and_cancel())
    worker.enqueue(lambda: done.append(2))
    gate.set()
    worker.close()
    assert done == [1, 2]


async def test_stop_iteration_is_raised_as_runtime_error():
    """A future does not accept StopIteration, so the caller would wait forever."""
    worker = LogThread("log")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(worker.run(lambda: next(iter(()))), 5)
    worker.close()
