"""A thread that does what it is handed, one thing after the other.

As an executor of one thread does, with less on the way there and back: an acknowledgement to one
client took 1.45 times a sync with the executor, and takes 1.15 times with this.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias

Waits: TypeAlias = "asyncio.Future[Any] | None"


class Worker:
    """One thread, from now until :meth:`close`.

    Args:
        name: what the thread is called.
    """

    def __init__(self, name: str) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], object], Waits] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def ask(self, work: Callable[[], object]) -> Any:
        """Have something done, and wait for what comes of it.

        Args:
            work: what to do; what it raises is raised here.
        """
        waits = asyncio.get_running_loop().create_future()
        self._todo.put((work, waits))
        return await waits

    def tell(self, work: Callable[[], object]) -> None:
        """Have something done, and hear nothing of it, nor of what it raises."""
        self._todo.put((work, None))

    def close(self) -> None:
        """Do what has been handed over, and end."""
        self._todo.put(None)
        self._thread.join()

    def _work(self) -> None:
        """Do one thing after the other."""
        while (item := self._todo.get()) is not None:
            work, waits = item
            try:
                done, error = work(), None
            except BaseException as raised:  # it is for the one who waits
                done, error = None, raised
            if waits is not None:
                with suppress(RuntimeError):  # the loop is closed, and nobody waits
                    waits.get_loop().call_soon_threadsafe(settle, waits, done, error)
            del item, work, waits, done, error  # not to be kept until something comes


def settle(waits: "asyncio.Future[Any]", done: object, error: BaseException | None) -> None:
    """Answer, if anybody still waits."""
    if waits.done():
        return
    if error is None:
        waits.set_result(done)
    else:
        waits.set_exception(error)
