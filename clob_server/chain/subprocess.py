"""A child process that talks in lines over pipes and is restarted when it exits."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from clob_server.chain.messages import LINE_BYTES_MAX

PAUSE_S: Final = 0.2
"""Pause before the first restart, seconds; doubled each time."""
PAUSE_MAX_S: Final = 30.0
"""Maximum pause before a restart, seconds."""
KILL_S: Final = 1.0
"""Seconds to wait for a process to exit after it closed its output."""
BEAT: Final = b"\n"
"""Line that a process writes every ``BEAT_S`` seconds as a sign of life."""
BEAT_S: Final = 1.0
FROZEN_BEATS: Final = 10
"""Missed signs of life after which a process counts as frozen."""
RESTART_BEATS: Final = 60
"""Missed signs of life after which a process is killed and restarted."""
START_BEATS: Final = 300
"""The same for a process that has not given its first one."""
NUMBER_BYTES: Final = 8
"""Bytes of a number in :class:`Replies`, big-endian."""
NICE: Final = 10
"""Niceness of child processes: the order loop has priority on busy processors."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Replies:
    """A pipe through which one process receives numbers, apart from its input.

    The process may wait for one of them without looking at its input.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self.reader: Final[int] = reader
        """File descriptor that the process reads from."""

    def send(self, number: int) -> None:
        """Send a number, unless the process has ended."""
        if self._writer >= 0:
            with suppress(BrokenPipeError):
                os.write(self._writer, number.to_bytes(NUMBER_BYTES))

    def close(self) -> None:
        """Close this side; the process reads the end."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


class ManagedProcess:
    """A Python child process, restarted after each exit. It exits when its input is closed.

    A process that writes nothing, not even :data:`BEAT`, is killed: everything that must survive a
    crash is in its files. Beats are counted by a timer of this process, so that a server that was
    stopped itself counts one missed beat, not all of them.

    Args:
        name: name in the log.
        command: returns the arguments, the module first; awaited at each start. An ``OSError``
            from it counts as an exit.
        on_start: called after the start, before any line is read; it may send.
        on_line: called with each line of output but beats, including the line feed.
        on_exit: called after an unexpected exit with the reason and the seconds until the restart.
        beat_s: seconds between two signs of life.
        has_replies: whether a process gets a pipe for :attr:`replies`, whose file descriptor is its
            last argument.
    """

    def __init__(
        self,
        name: str,
        *,
        command: Callable[[], Awaitable[Sequence[str]]],
        on_start: Callable[[], None],
        on_line: Callable[[bytes], None],
        on_exit: Callable[[str, float], None],
        beat_s: float = BEAT_S,
        has_replies: bool = False,
    ) -> None:
        self.name: Final = name
        self.num_deaths: int = 0
        """Number of unexpected exits."""
        self._command = command
        self._on_start = on_start
        self._on_line = on_line
        self._on_exit = on_exit
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._pause_s = PAUSE_S
        self._is_closing = False
        self._beat_s = beat_s
        self._has_spoken = False
        self._missed = 0
        self._has_replies = has_replies
        self.replies: Replies | None = None
        """The pipe of the running process; of each process another one."""

    @property
    def is_frozen(self) -> bool:
        """Whether the running process has stopped to write."""
        return self._has_spoken and self._missed >= FROZEN_BEATS

    def start(self) -> None:
        """Start the process and keep it running; returns at once."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_running())

    def send(self, line: bytes) -> None:
        """Write a line to a running process; the transport buffers the rest of a full pipe."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(line)

    def reset_pause(self) -> None:
        """Reset the restart pause; called when the process works."""
        self._pause_s = PAUSE_S

    def end(self) -> None:
        """Close the input of the running process, so that it exits and is restarted."""
        if self.replies is not None:
            self.replies.close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self, wait_s: float) -> None:
        """Stop the process for good; kill it after ``wait_s``."""
        self._is_closing = True
        self.end()
        if self._task is not None:
            if self._process is not None:
                await asyncio.wait((self._task,), timeout=wait_s)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # ----- one process ---------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        """Run processes one after the other until :meth:`close`."""
        while not self._is_closing:
            try:
                code = await self._run_once()
                reason = f"exit code {code}"
                if self._missed >= RESTART_BEATS:
                    reason = f"no sign of life for {self._missed * self._beat_s:g} s"
            except OSError as error:  # no process could be created
                reason = str(error)
            if self._is_closing:
                return
            self.num_deaths += 1
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_MAX_S)
            self._on_exit(reason, pause_s)
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> int:
        """Run one process until it exits and return its exit code.

        It gets its own session, so that Ctrl-C on a terminal reaches only the server, which then
        stops it.
        """
        process = self._process = await self._create()
        with suppress(OSError):  # it has exited already
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        self._has_spoken, self._missed = False, 0
        watch = asyncio.create_task(self._watch(process))
        try:
            self._on_start()
            await self._read_lines(process)
            async with asyncio.timeout(KILL_S):
                return await process.wait()
        except TimeoutError:  # its output is closed, but it does not exit
            process.kill()
            return await process.wait()
        finally:
            watch.cancel()
            self._process, self._has_spoken = None, False
            await self._clean_up(process)

    async def _create(self) -> asyncio.subprocess.Process:
        """Create a process, with a pipe for replies if it gets one."""
        arguments = [sys.executable, "-m", *await self._command()]
        create = partial(
            asyncio.create_subprocess_exec,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
        if not self._has_replies:
            return await create(*arguments)
        replies = self.replies = Replies()
        try:
            return await create(*arguments, str(replies.reader), pass_fds=(replies.reader,))
        except OSError:
            replies.close()
            raise
        finally:
            os.close(replies.reader)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Count missed signs of life, and kill a process that missed too many."""
        while self._missed < (RESTART_BEATS if self._has_spoken else START_BEATS):
            await asyncio.sleep(self._beat_s)
            self._missed += 1
            if self._missed == FROZEN_BEATS and self._has_spoken:
                more = {"child": self.name, "pid": process.pid}
                _LOG.error("a process gives no sign of life", extra=more)
        with suppress(ProcessLookupError):
            process.kill()

    async def _read_lines(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._has_spoken, self._missed = True, 0
                if line != BEAT:
                    self._on_line(line)
        except ValueError:  # the line is longer than LINE_BYTES_MAX
            _LOG.exception("a line of the process is too long", extra={"child": self.name})
            process.kill()

    async def _clean_up(self, process: asyncio.subprocess.Process) -> None:
        """Kill and reap the process and close its pipes."""
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self.replies is not None:
            self.replies.close()
        if process.stdin is not None:
            process.stdin.close()
            with suppress(OSError):
                await process.stdin.wait_closed()
