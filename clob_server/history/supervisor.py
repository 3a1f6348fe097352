"""The follower as the server has it: started, fed, listened to, and started again when it dies."""

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

from clob_server.core.sequencer import Sequencer
from clob_server.log import LogError, SqliteLog

NUMBER: Final = struct.Struct("<Q")
"""How the follower writes a number."""
PIECE_BYTES: Final = 65_536
"""How much goes the way at once: what a pipe holds."""


class Pipe:
    """The way to one follower.

    Args:
        log: whose frames are sent.
        target: the descriptor they are written to; it is closed here.
        after: the command after which the follower begins, the last of its frame.
        full: called, in the thread that pumps, where the pipe takes nothing more for now.
    """

    def __init__(
        self, log: SqliteLog, target: int, after: int, full: Callable[["Pipe"], None]
    ) -> None:
        self._log = log
        self._after = after
        self._full = full
        self._left = memoryview(b"")
        self._lock = threading.Lock()
        self._open = True
        self.is_full: bool = False
        """If it took nothing more, and nobody has seen room since."""
        self.target: Final = target
        """The descriptor."""
        os.set_blocking(target, False)

    def pump(self) -> bool:
        """Send what there is, as far as it is taken; by whoever has the log.

        Returns:
            False where the pipe is full.
        """
        with self._lock:
            try:
                while self._open and (self._left or self._read()):
                    self._left = self._left[os.write(self.target, self._left) :]
            except BlockingIOError:
                self.is_full = True
                self._full(self)
                return False
            except BrokenPipeError:
                self._left, self._open = memoryview(b""), False
                os.close(self.target)
        return True

    def _read(self) -> bool:
        """Read on in the log; False where there is nothing new."""
        found = self._log.frames(self._after, PIECE_BYTES)
        if found:
            self._after = found[-1][0]
            self._left = memoryview(b"".join([frame for _, frame in found]))
        return bool(found)

    def finish(self, wait_s: float) -> None:
        """Send all there is, for so long at most, and close."""
        deadline = time.monotonic() + wait_s
        room = select.poll()
        room.register(self.target, select.POLLOUT)
        try:
            while not self.pump() and (left_s := deadline - time.monotonic()) > 0:
                room.poll(left_s * 1000)
        finally:
            self.close()

    def close(self) -> None:
        """Send nothing more, which ends the follower."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.target)


MODULE: Final = "clob_server.history.follower"
"""What the process runs."""
PAUSE_S: Final = 0.2
"""How long until a follower that died is started again, at first; twice as long each time."""
PAUSE_MAX_S: Final = 30.0
"""How long at most."""
HEARD_BYTES: Final = 4096
"""How much is heard at once."""

_LOG: Final = logging.getLogger("clob_server.history")


class Supervisor:
    """Keeps a follower running.

    Args:
        log: the log that is followed.
        folder: its folder.
        snapshot_commands: after how many commands the follower takes a snapshot.
        days: how many days history stays; 0 is for ever.
        reached: told of the last command in history, each time that is written.
        begun: called each time a follower has opened history, before it is told how far that is.
    """

    def __init__(
        self,
        log: SqliteLog,
        folder: Path,
        *,
        snapshot_commands: int,
        days: int,
        reached: Callable[[int], None],
        begun: Callable[[], None],
    ) -> None:
        self._log = log
        self._folder = folder
        self._options = [str(snapshot_commands), str(days)]
        self._reached = reached
        self._begun = begun
        self._engine: Sequencer | None = None
        self._pipe: Pipe | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._connected = asyncio.Event()
        self._heard = b""
        self._pause_s = PAUSE_S
        self._furthest = 0
        self.num_deaths: int = 0
        """How often a follower died."""

    def begin(self) -> None:
        """Start the follower. It is sent nothing before :meth:`feed`."""
        self._task = asyncio.create_task(self._keep_running())

    def feed(self, engine: Sequencer) -> None:
        """Send what the log holds, and from now on what an engine appends.

        Args:
            engine: it must be about to work, or at it.
        """
        self._engine = engine
        engine.afterwards.append(self._pump)
        engine.tell(self._pump)

    async def close(self, wait_s: float) -> None:
        """Have the follower take what the log holds, and end; nobody may append any more.

        Args:
            wait_s: how long at most, seconds. What is missing then is made up for by the next one.
        """
        begin = time.monotonic()
        if self._process is not None:  # it may be about to say where it begins
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._connected.wait()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        pipe, process = self._forget(), self._process
        if process is not None:
            left_s = max(0.0, wait_s - (time.monotonic() - begin))
            await asyncio.to_thread(finish, process, pipe, left_s)

    # ----- a follower ------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        """Start a follower, and another when it has died."""
        while True:
            code: int | str
            try:
                code = await self._one()
            except OSError as error:  # there is no room for another process at the moment
                code = str(error)
            self.num_deaths += 1
            more = {"exit_code": code, "again_s": self._pause_s}
            _LOG.error("the follower died", extra=more)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _one(self) -> int:
        """Go with one follower through its life, and give its exit code."""
        process = self._start()
        await self._ended.wait()
        pipe, self._process = self._forget(), None
        if pipe is not None:
            pipe.close()
        return await asyncio.to_thread(wait, process, PAUSE_S)

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start a follower, and listen to it. Some milliseconds."""
        self._ended.clear()
        self._connected.clear()
        self._heard = b""
        tail = self._log.tail
        places = [str(self._log.origin.seq), str(tail.seq), tail.chain_hash.hex()]
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(self._folder), *places, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._listen, process)
        return process

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        """Hear how far the follower is; the first number is where it wants to begin."""
        assert process.stdout is not None
        try:
            data = os.read(process.stdout.fileno(), HEARD_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(process.stdout.fileno())
            self._ended.set()
            self._connected.set()  # nobody needs to wait for it
            return
        data = self._heard + data
        end = len(data) - len(data) % NUMBER.size
        numbers = [number for (number,) in NUMBER.iter_unpack(data[:end])]
        self._heard = data[end:]
        if numbers and self._pipe is None:
            self._begun()
            self._connect(process, numbers.pop(0))
        if numbers:
            if numbers[-1] > self._furthest:
                self._furthest, self._pause_s = numbers[-1], PAUSE_S
            self._reached(numbers[-1])

    def _connect(self, process: "subprocess.Popen[bytes]", after: int) -> None:
        """Begin to send."""
        assert process.stdin is not None
        loop = asyncio.get_running_loop()

        def full(pipe: Pipe) -> None:
            with suppress(RuntimeError):  # the loop is closed, and so is the server
                loop.call_soon_threadsafe(self._wait_for_room, pipe)

        self._pipe = Pipe(self._log, os.dup(process.stdin.fileno()), after, full)
        process.stdin.close()
        self._connected.set()
        if self._engine is not None:
            self._engine.tell(self._pump)

    def _pump(self) -> None:
        """Send what there is, in the thread of the log."""
        pipe = self._pipe
        if pipe is not None and not pipe.is_full:
            pipe.pump()

    def _wait_for_room(self, pipe: Pipe) -> None:
        """Go on once the pipe takes more."""
        if pipe is self._pipe:
            asyncio.get_running_loop().add_writer(pipe.target, self._room, pipe)

    def _room(self, pipe: Pipe) -> None:
        """Have more sent."""
        asyncio.get_running_loop().remove_writer(pipe.target)
        pipe.is_full = False
        if self._engine is not None:
            self._engine.tell(self._pump)

    def _forget(self) -> Pipe | None:
        """Hear of a follower no more, and give the way to it, which is to be closed."""
        pipe, self._pipe = self._pipe, None
        loop = asyncio.get_running_loop()
        if pipe is not None:
            loop.remove_writer(pipe.target)
        if self._process is not None and self._process.stdout is not None:
            loop.remove_reader(self._process.stdout.fileno())
        return pipe


def finish(process: "subprocess.Popen[bytes]", pipe: Pipe | None, wait_s: float) -> None:
    """Have a follower take the rest and end, within a time."""
    begin = time.monotonic()
    if pipe is not None:
        with suppress(LogError):  # a log that has failed gives nothing more
            pipe.finish(wait_s)
    wait(process, max(0.0, wait_s - (time.monotonic() - begin)))


def wait(process: "subprocess.Popen[bytes]", wait_s: float) -> int:
    """Wait until a follower has ended, kill it after a time, and give its exit code."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait()


# MERGED clob_server.history.supervisor: What the follower is sent: the frames of the log, read where they are kept, as far as it takes.
#
# There is no queue. After each batch the thread of the log reads the rows that were just committed,
# out of SQLite's cache, and writes them to a pipe; where the pipe is full it stops, and goes on where
# it was once there is room. So catching up and keeping up are the same, and memory is bounded.
