"""Processes that follow the log: starting one, sending it the frames, and restarting it.

The process receives the frames on its standard input, and reports on its standard output; see
:mod:`clob_server.log.pipe`. One that exits is started again, one that sends no sign of life is
killed first.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from clob_server.core.sequencer import Sequencer
from clob_server.log import LogError, SqliteLog
from clob_server.log.pipe import BEAT, BEAT_S, NUMBER, Pipe

FROZEN_BEATS: Final = 10
"""Missed signs of life after which a process counts as frozen."""
SILENT_S: Final = 60
"""Seconds without a sign of life after which a process is killed and restarted."""
REPORT_BYTES: Final = 4096
"""Bytes per read of the numbers of a process."""
PAUSE_S: Final = 0.2
"""Seconds until the first restart of a process; doubled with each further one."""
PAUSE_MAX_S: Final = 30.0
"""Upper limit of the pause."""

_LOG: Final = logging.getLogger("clob_server")


class Supervisor:
    """Runs a process that follows the log, and restarts it after an exit.

    Args:
        log: the log.
        name: name of the process in log lines.
        arguments: arguments of Python, before the positions in the log.
        on_report: called with each number that it reports after the first.
        on_started: called when it has reported its start position, before ``on_report``.
        start: starts the process with its arguments.
        silent_s: seconds without a sign of life after which it is killed.
    """

    def __init__(
        self,
        log: SqliteLog,
        name: str,
        arguments: Sequence[str],
        *,
        on_report: Callable[[int], None],
        on_started: Callable[[], None],
        start: Callable[[list[str]], "subprocess.Popen[bytes]"] | None = None,
        silent_s: int = SILENT_S,
    ) -> None:
        self._log = log
        self._name = name
        self._arguments = arguments
        self._on_report = on_report
        self._on_started = on_started
        self._start_process = start or start_process
        self._silent_s = silent_s
        self._engine: Sequencer | None = None
        self._pipe: Pipe | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._exited = asyncio.Event()
        self._connected = asyncio.Event()
        self._unparsed = b""
        self._pause_s = PAUSE_S
        self._furthest = 0
        self._missed = 0
        self.num_deaths: int = 0
        """Number of unexpected exits."""

    @property
    def is_frozen(self) -> bool:
        """Whether the running process sends no sign of life."""
        return self._process is not None and self._missed >= FROZEN_BEATS

    @property
    def is_connected(self) -> bool:
        """Whether a process has reported its start position."""
        return self._pipe is not None

    @property
    def pid(self) -> int | None:
        """Process id; None while none runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process unless it was; it receives frames from :meth:`connect` on."""
        self._task = self._task or asyncio.create_task(self._keep_running())

    def kill(self) -> None:
        """End the process; the next one starts afresh."""
        if self._process is not None:
            self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM to the process, after which it may end by itself; none is started again."""
        if self._task is not None:
            self._task.cancel()
        if self._process is not None:
            self._process.terminate()

    async def wait_for_exit(self, wait_s: float) -> None:
        """Wait until a process that was asked to end has done so, or a time has passed."""
        if self._process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._exited.wait()

    def connect(self, engine: Sequencer, *, is_urgent: bool) -> None:
        """Send the frames of the log, and those that an engine appends from now on.

        With ``is_urgent`` a frame is sent at once, otherwise with those of the next milliseconds.
        """
        self._engine = engine
        (engine.after_commit if is_urgent else engine.upkeep).append(self._send)
        self._send_soon()

    async def close(self, wait_s: float) -> None:
        """Send the remaining frames within ``wait_s``, and end the process.

        The log must not grow any more.
        """
        begin = time.monotonic()
        if self._process is not None:  # it may not have sent its start position yet
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._connected.wait()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        pipe, process = self._disconnect(), self._process
        if process is not None:
            left_s = max(0.0, wait_s - (time.monotonic() - begin))
            await asyncio.to_thread(finish, process, pipe, left_s)

    # ----- one process -----------------------------------------------------------------------

    async def _keep_running(self) -> None:
        while True:
            code: int | str
            try:
                code = await self._run_once()
            except OSError as error:  # the process could not be started
                code = str(error)
            self.num_deaths += 1
            fields = {"exit_code": code, "again_s": self._pause_s}
            _LOG.error("%s exited", self._name, extra=fields)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _run_once(self) -> int:
        """Run a process until it exits; return its exit code."""
        process = self._start()
        while not self._exited.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._exited.wait()
            self._count_missed(process)
        pipe, self._process = self._disconnect(), None
        if pipe is not None:
            pipe.close()
        return await asyncio.to_thread(wait, process, PAUSE_S)

    def _count_missed(self, process: "subprocess.Popen[bytes]") -> None:
        """Count a missed sign of life; kill a process that missed too many."""
        self._missed += 1
        if self._missed == FROZEN_BEATS:
            _LOG.error("%s gives no sign of life", self._name, extra={"pid": process.pid})
        if self._missed * BEAT_S == self._silent_s:
            process.kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process; takes some milliseconds."""
        self._exited.clear()
        self._connected.clear()
        self._unparsed, self._missed = b"", 0
        tail = self._log.tail
        positions = [str(self._log.origin.seq), str(tail.seq), tail.chain_hash.hex()]
        self._process = process = self._start_process([*self._arguments, *positions])
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._on_output, process)
        return process

    def _on_output(self, process: "subprocess.Popen[bytes]") -> None:
        """Read numbers of the process; the first is its start position."""
        assert process.stdout is not None
        try:
            data = os.read(process.stdout.fileno(), REPORT_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(process.stdout.fileno())
            self._exited.set()
            self._connected.set()  # close() must not wait for it
            return
        self._missed = 0
        data = self._unparsed + data
        end = len(data) - len(data) % NUMBER.size
        numbers = [number for (number,) in NUMBER.iter_unpack(data[:end]) if number != BEAT]
        self._unparsed = data[end:]
        if numbers and self._pipe is None:
            self._on_started()
            self._open_pipe(process, numbers.pop(0))
        if numbers:
            if numbers[-1] > self._furthest:
                self._furthest, self._pause_s = numbers[-1], PAUSE_S
            self._on_report(numbers[-1])

    def _open_pipe(self, process: "subprocess.Popen[bytes]", after: int) -> None:
        """Start to send frames."""
        assert process.stdin is not None
        loop = asyncio.get_running_loop()

        def on_full(pipe: Pipe) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has ended
                loop.call_soon_threadsafe(self._wait_until_writable, pipe)

        self._pipe = Pipe(self._log, os.dup(process.stdin.fileno()), after, on_full)
        process.stdin.close()
        self._connected.set()
        self._send_soon()

    def _send_soon(self) -> None:
        if self._engine is not None:
            self._engine.run_on_log_thread(self._send)

    def _send(self) -> None:
        """Send new frames, but none before the engine has applied it; runs in the log thread."""
        pipe, engine = self._pipe, self._engine
        if pipe is not None and engine is not None and not pipe.is_full:
            pipe.send(engine.complete_seq)

    def _wait_until_writable(self, pipe: Pipe) -> None:
        if pipe is self._pipe:
            asyncio.get_running_loop().add_writer(pipe.target, self._on_writable, pipe)

    def _on_writable(self, pipe: Pipe) -> None:
        asyncio.get_running_loop().remove_writer(pipe.target)
        pipe.is_full = False
        self._send_soon()

    def _disconnect(self) -> Pipe | None:
        """Stop reading and writing; return the pipe, which the caller must close."""
        pipe, self._pipe = self._pipe, None
        loop = asyncio.get_running_loop()
        if pipe is not None:
            loop.remove_writer(pipe.target)
        if self._process is not None and self._process.stdout is not None:
            loop.remove_reader(self._process.stdout.fileno())
        return pipe


def start_process(arguments: list[str]) -> "subprocess.Popen[bytes]":
    """Start a Python process with pipes."""
    return subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def finish(process: "subprocess.Popen[bytes]", pipe: Pipe | None, wait_s: float) -> None:
    """Send the remaining frames, and wait for the exit, within a time."""
    begin = time.monotonic()
    if pipe is not None:
        with suppress(LogError):  # a failed log cannot be read
            pipe.finish(wait_s)
    wait(process, max(0.0, wait_s - (time.monotonic() - begin)))


def wait(process: "subprocess.Popen[bytes]", wait_s: float) -> int:
    """Wait for the exit of a process; kill it after a time; return its exit code."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait()
