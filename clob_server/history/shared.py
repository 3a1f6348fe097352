"""History for a worker process: another process writes the file, this one only reads it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from clob_server.api.problems import ApiError
from clob_server.history.history import WAIT_S, History
from clob_server.history.store import StoreReader

BUSY_S: Final = 0.005
"""Seconds between two looks at the file while requests wait for it."""
IDLE_S: Final = 1.0
"""Seconds between two looks otherwise."""
REOPEN_S: Final = 0.25
"""Seconds without progress until the file is opened again: its writer may have replaced it."""


class SharedHistory(History):
    """Finished orders, past trades and their settlement, from the file of another process."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.on_damage: Callable[[], object] = lambda: None
        """Called when a damaged page was read."""
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        """``ready``, or ``starting`` while the file has not been read."""
        return "ready" if self._written or not self._log.tail.seq else "starting"

    async def open(self) -> None:
        """Begin to look at the file."""
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop looking at the file, and close it."""
        if self._task is not None:
            self._task.cancel()
        await super().close()

    async def wait_for(self, seq: int, wait_s: float = WAIT_S) -> None:
        """Wait until the file contains a command; see :meth:`History.wait_for`."""
        if self._written < seq:
            self._is_wanted.set()
        await super().wait_for(seq, wait_s)

    async def _watch(self) -> None:
        """Look for the last command in the file, again and again, until cancelled."""
        progress_s = self._loop.time()
        while True:
            self._is_wanted.clear()
            before = self._written
            with suppress(ApiError):
                self._on_written((await self.read(StoreReader.applied)).seq)
            now_s = self._loop.time()
            if self._written != before or self._written >= self._log.tail.seq:
                progress_s = now_s
            elif now_s - progress_s > REOPEN_S:
                self._reader_thread.enqueue(self._close_reader)
                progress_s = now_s
            if self._waiting:
                await asyncio.sleep(BUSY_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self._is_wanted.wait()

    def rebuild(self) -> None:
        """Report the damage to the process that writes the file."""
        self.on_damage()
