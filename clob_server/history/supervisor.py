"""The follower seen from the server: starting it, sending it frames, and restarting it.

The frames are not queued. After each batch the log thread reads the new rows, which SQLite still
has in its cache, and writes them to a pipe. If the pipe is full it stops, and continues from the
same position once there is room. So catching up and keeping up are the same code, and memory is
bounded.
"""

import asyncio
import logging
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from clob.journal import encode_frame
from clob_server.core.sequencer import Sequencer
from clob_server.history.store import move_aside
from clob_server.log import LogError, SqliteLog

MODULE: Final = "clob_server.history.follower"
"""Module that the process runs."""
NUMBER: Final = struct.Struct("<Q")
"""Encoding of a number written by the follower."""
READ_BYTES: Final = 65_536
"""Bytes per read from the log and from the pipe: the capacity of a pipe."""
BEAT: Final = 2**64 - 1
"""Number that the follower writes every ``BEAT_S`` seconds as a sign of life."""
BEAT_S: Final = 1.0
FROZEN_BEATS: Final = 10
"""Missed signs of life after which the follower counts as frozen."""
RESTART_BEATS: Final = 60
"""Missed signs of life after which the follower is killed and restarted."""
REPORT_BYTES: Final = 4096
"""Bytes per read of the follower's numbers."""
PAUSE_S: Final = 0.2
"""Seconds until the first restart of a follower; doubled with each further one."""
PAUSE_MAX_S: Final = 30.0
"""Upper limit of the pause."""

_LOG: Final = logging.getLogger("clob_server.history")


class Pipe:
    """Sends frames to one follower.

    Args:
        target: file descriptor of the pipe; closed by this object.
        after: last command that the follower has, the last of its frame.
        on_full: called in the sending thread when the pipe is full.
    """

    def __init__(
        self, log: SqliteLog, target: int, after: int, on_full: Callable[["Pipe"], None]
    ) -> None:
        self._log = log
        self._after = after
        self._on_full = on_full
        self._unsent = memoryview(b"")
        self._lock = threading.Lock()
        self._open = True
        self.is_full: bool = False
        """Whether the pipe was full at the last write and has not become writable since."""
        self.target: Final = target
        """File descriptor of the pipe."""
        os.set_blocking(target, False)

    def send(self) -> bool:
        """Send all new frames; call it only in the thread that owns the log.

        Returns:
            False if the pipe is full.
        """
        with self._lock:
            try:
                while self._open and (self._unsent or self._read()):
                    self._unsent = self._unsent[os.write(self.target, self._unsent) :]
            except BlockingIOError:
                self.is_full = True
                self._on_full(self)
                return False
            except BrokenPipeError:
                self._unsent, self._open = memoryview(b""), False
                os.close(self.target)
        return True

    def _read(self) -> bool:
        """Read the next frames of the log; return False if there are none."""
        frames = self._log.frames(self._after, READ_BYTES)
        if frames:
            self._after = frames[-1][0]
            self._unsent = memoryview(b"".join([frame for _, frame in frames]))
        return bool(frames)

    def finish(self, wait_s: float) -> None:
        """Send all frames within a time, then one without commands, and close the pipe."""
        deadline = time.monotonic() + wait_s
        poll = select.poll()
        poll.register(self.target, select.POLLOUT)

        def is_sent() -> bool:
            while not self.send():
                if (left_s := deadline - time.monotonic()) <= 0:
                    return False
                poll.poll(left_s * 1000)
            return True

        try:
            if is_sent():
                tail = self._log.tail
                self._unsent = memoryview(encode_frame([], tail.seq + 1, tail.chain_hash))
                is_sent()
        finally:
            self.close()

    def close(self) -> None:
        """Close the pipe, which ends the follower."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.target)


class Supervisor:
    """Runs a follower, and restarts it after an exit.

    Args:
        days: days to keep history; 0 for ever.
        on_written: called with the last command in history after each write.
        on_started: called when a follower has opened history, before ``on_written``.
    """

    def __init__(
        self,
        log: SqliteLog,
        folder: Path,
        *,
        snapshot_commands: int,
        days: int,
        on_written: Callable[[int], None],
        on_started: Callable[[], None],
    ) -> None:
        self._log = log
        self._folder = folder
        self._options = [str(snapshot_commands), str(days)]
        self._on_written = on_written
        self._on_started = on_started
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
        self._is_rebuilding = False
        self.num_deaths: int = 0
        """Number of unexpected exits."""

    @property
    def is_frozen(self) -> bool:
        """Whether the running follower gives no sign of life."""
        return self._process is not None and self._missed >= FROZEN_BEATS

    @property
    def is_connected(self) -> bool:
        """Whether a follower has opened history."""
        return self._pipe is not None

    def start(self) -> None:
        """Start the follower; it receives frames from :meth:`connect` on."""
        self._task = asyncio.create_task(self._keep_running())

    def rebuild(self) -> None:
        """Move a damaged file aside, and end the follower, so that the next one starts anew."""
        if self._process is not None and not self._is_rebuilding:
            self._is_rebuilding = True
            move_aside(self._folder)
            self._process.kill()

    def connect(self, engine: Sequencer) -> None:
        """Send the frames of the log, and those that an engine appends from now on."""
        self._engine = engine
        engine.after_commit.append(self._send)
        self._send_soon()

    async def close(self, wait_s: float) -> None:
        """Send the remaining frames within ``wait_s``, and end the follower.

        The log must not grow any more. The next follower writes missing rows.
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
            _LOG.error("the history follower exited", extra=fields)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _run_once(self) -> int:
        """Run a follower until it exits; return its exit code."""
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
        """Count a missed sign of life; kill a follower that missed too many.

        Rows and snapshots are written in transactions, so that the next follower continues.
        """
        self._missed += 1
        if self._missed == FROZEN_BEATS:
            _LOG.error("the history follower gives no sign of life", extra={"pid": process.pid})
        if self._missed == RESTART_BEATS:
            process.kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process; takes some milliseconds."""
        self._exited.clear()
        self._connected.clear()
        self._unparsed, self._missed, self._is_rebuilding = b"", 0, False
        tail = self._log.tail
        positions = [str(self._log.origin.seq), str(tail.seq), tail.chain_hash.hex()]
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(self._folder), *positions, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._on_output, process)
        return process

    def _on_output(self, process: "subprocess.Popen[bytes]") -> None:
        """Read numbers of the follower; the first is its start position."""
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
            self._on_written(numbers[-1])

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
        """Send new frames; runs in the log thread."""
        pipe = self._pipe
        if pipe is not None and not pipe.is_full:
            pipe.send()

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


def finish(process: "subprocess.Popen[bytes]", pipe: Pipe | None, wait_s: float) -> None:
    """Send the remaining frames, and wait for the exit, within a time."""
    begin = time.monotonic()
    if pipe is not None:
        with suppress(LogError):  # a failed log cannot be read
            pipe.finish(wait_s)
    wait(process, max(0.0, wait_s - (time.monotonic() - begin)))


def wait(process: "subprocess.Popen[bytes]", wait_s: float) -> int:
    """Wait for the exit of a follower; kill it after a time; return its exit code."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait()
