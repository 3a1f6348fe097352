"""A process that the server keeps running and speaks with in lines: begun, heard, begun again."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from clob_server.chain.messages import LINE_BYTES_MAX

PAUSE_S: Final = 0.2
"""How long until a process that died is begun again, at first; twice as long each time."""
PAUSE_MAX_S: Final = 30.0
"""How long at most."""
KILL_S: Final = 1.0
"""How long a process that was killed may take to be gone."""
NICE: Final = 10
"""How far a process steps back where the processors are busy: orders wait for the loop alone."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Child:
    """A process with lines in and lines out. It ends by itself when its input does.

    Args:
        name: what the log calls it.
        command: gives the arguments, the module first, each time it is begun.
        begun: called when it was begun, before anything is heard; it may send.
        heard: called with each line, its end included.
        died: called when it has ended and nobody wanted that, with the reason and the pause until
            it is begun again, seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        command: Callable[[], Awaitable[Sequence[str]]],
        begun: Callable[[], None],
        heard: Callable[[bytes], None],
        died: Callable[[str, float], None],
    ) -> None:
        self.name: Final = name
        self.num_deaths: int = 0
        """How often it died."""
        self._command = command
        self._begun = begun
        self._heard = heard
        self._died = died
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._pause_s = PAUSE_S
        self._is_closing = False

    def begin(self) -> None:
        """Begin it, and again whenever it dies; nothing is waited for."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_running())

    @property
    def is_running(self) -> bool:
        """If there is a process to speak with."""
        return self._process is not None

    def send(self, line: bytes) -> None:
        """Say a line, if there is a process to hear it; what it does not take yet waits here."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(line)

    def is_well(self) -> None:
        """State that it works: after its next death it is begun again soon."""
        self._pause_s = PAUSE_S

    def end(self) -> None:
        """Have the process that runs end, so that another is begun."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self, wait_s: float) -> None:
        """End it for good.

        Args:
            wait_s: how long it may take, seconds; then it is killed.
        """
        self._is_closing = True
        self.end()
        if self._task is not None:
            if self.is_running:
                await asyncio.wait((self._task,), timeout=wait_s)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # ----- a process -----------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        """Begin a process, and another when it has died."""
        while not self._is_closing:
            try:
                why = f"it ended with {await self._one()}"
            except OSError as error:  # there is no room for another process at the moment
                why = str(error)
            if self._is_closing:
                return
            self.num_deaths += 1
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_MAX_S)
            self._died(why, pause_s)
            await asyncio.sleep(pause_s)

    async def _one(self) -> int:
        """Go with one process through its life, and give its exit code.

        It is the first of a session of its own, so that Ctrl-C on a terminal ends the server alone,
        which then ends it.
        """
        arguments = await self._command()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
        self._process = process
        with suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        try:
            self._begun()
            await self._listen(process)
            async with asyncio.timeout(KILL_S):
                return await process.wait()
        except TimeoutError:  # it says nothing more and does not end
            process.kill()
            return await process.wait()
        finally:
            self._process = None
            await self._see_off(process)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Hear what it says until it says nothing more."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._heard(line)
        except ValueError:  # a line that is longer than any that was agreed on
            _LOG.exception("the process says too much at once", extra={"process": self.name})
            process.kill()

    async def _see_off(self, process: asyncio.subprocess.Process) -> None:
        """Leave nothing of it behind."""
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()
            with suppress(OSError):
                await process.stdin.wait_closed()
