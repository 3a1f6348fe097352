"""Managed child processes: lines, restarts and termination."""

import asyncio
import os
import signal
import time

from clob_server.chain.subprocess import BEAT_S, PAUSE_S, RESTART_BEATS, ManagedProcess

MODULE = "tests.server.chain.echo_process"
PATIENCE_S = 30


class Recorder:
    """A managed process with all its output and exits."""

    def __init__(self, beat_s=BEAT_S):
        self.lines, self.exits, self.num_starts = [], [], 0
        self.process = ManagedProcess(
            "echo",
            command=self.command,
            on_start=self.on_start,
            on_line=self.lines.append,
            on_exit=lambda reason, pause_s: self.exits.append((reason, pause_s)),
            beat_s=beat_s,
        )

    async def command(self):
        return [MODULE]

    def on_start(self):
        self.num_starts += 1

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.01)


async def started(**options):
    """Return a recorder whose process is running."""
    recorder = Recorder(**options)
    recorder.process.start()
    await recorder.until(lambda: recorder.num_starts)
    return recorder


async def test_lines_are_sent_and_received():
    recorder = await started()
    for line in (b"one\n", b"two\n"):
        recorder.process.send(line)
    await recorder.until(lambda: recorder.lines == [b"one\n", b"two\n"])
    await recorder.process.close(PATIENCE_S)
    assert not recorder.exits
    recorder.process.send(b"ignored\n")


async def test_restart_pause_doubles_until_it_is_reset():
    recorder = await started()
    for number in (1, 2):
        recorder.process.send(b"die\n")
        await recorder.until(lambda number=number: recorder.num_starts == number + 1)
    assert recorder.exits == [("exit code 7", PAUSE_S), ("exit code 7", 2 * PAUSE_S)]
    recorder.process.reset_pause()
    recorder.process.send(b"die\n")
    await recorder.until(lambda: recorder.num_starts == 4)
    assert recorder.exits[-1] == ("exit code 7", PAUSE_S)
    assert recorder.process.num_deaths == 3
    await recorder.process.close(PATIENCE_S)


async def test_process_that_does_not_exit_is_killed():
    recorder = await started()
    recorder.process.send(b"ready\n")
    recorder.process.send(b"hang\n")
    await recorder.until(lambda: recorder.lines)
    begin = time.monotonic()
    await recorder.process.close(0.1)
    assert time.monotonic() - begin < PATIENCE_S
    assert recorder.process._process is None


async def test_frozen_process_is_reported_then_killed_and_replaced():
    recorder = await started(beat_s=0.05)
    recorder.process.send(b"beat\n")
    recorder.process.send(b"ready\n")
    await recorder.until(lambda: recorder.lines)
    assert recorder.lines == [b"ready\n"]
    os.kill(recorder.process._process.pid, signal.SIGSTOP)
    await recorder.until(lambda: recorder.process.is_frozen)
    await recorder.until(lambda: recorder.num_starts >= 2)
    (reason, _), *_ = recorder.exits
    assert reason == f"no sign of life for {RESTART_BEATS * 0.05:g} s"
    await recorder.until(lambda: not recorder.process.is_frozen)
    await recorder.process.close(PATIENCE_S)


async def test_process_with_a_line_that_is_too_long_is_replaced():
    recorder = await started()
    recorder.process.send(b"long\n")
    await recorder.until(lambda: recorder.num_starts == 2)
    assert recorder.lines == []
    await recorder.process.close(PATIENCE_S)
