"""The thread of the log: in sequence, whatever is raised goes to the one who waits."""

import asyncio
import threading

import pytest

from clob_server.core.sequencer import LogThread


class Unheard(BaseException):
    """What no program expects."""


def test_it_does_one_thing_after_the_other_in_one_thread():
    async def main():
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
                waits.append(asyncio.ensure_future(worker.ask(handed(number))))
            else:
                worker.tell(handed(number))
            await asyncio.sleep(0)
        assert await asyncio.gather(*waits) == [number for number in range(100) if number % 3]
        worker.close()
        assert (done, threads) == (list(range(100)), {"log"})

    asyncio.run(main())


@pytest.mark.parametrize("raised", [KeyError("x"), Unheard("y")])
def test_what_is_raised_is_for_the_one_who_waits(raised):
    def fails():
        raise raised

    async def main():
        worker = LogThread("log")
        worker.tell(fails)
        with pytest.raises(type(raised)):
            await worker.ask(fails)
        assert await worker.ask(lambda: 5) == 5
        worker.close()

    asyncio.run(main())


def test_who_has_gone_disturbs_nobody_and_what_he_wanted_is_done():
    async def main():
        worker, gate, done = LogThread("log"), threading.Event(), []
        first = asyncio.ensure_future(worker.ask(gate.wait))
        second = asyncio.ensure_future(worker.ask(lambda: done.append(2)))
        await asyncio.sleep(0)
        second.cancel()
        gate.set()
        assert await first
        assert await worker.ask(lambda: 3) == 3
        assert done == [2]
        worker.close()

    asyncio.run(main())


def test_closing_does_what_was_handed_over_also_when_nobody_can_hear_of_it():
    worker, gate, done = LogThread("log"), threading.Event(), []

    async def leaves():
        waits = asyncio.ensure_future(worker.ask(lambda: gate.wait() and done.append(1)))
        await asyncio.sleep(0)
        waits.cancel()

    asyncio.run(leaves())
    worker.tell(lambda: done.append(2))
    gate.set()
    worker.close()
    assert done == [1, 2]
