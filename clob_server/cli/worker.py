"""The program of a worker process: serves clients from a copy of the first process's state.

The first process starts it with its settings in one pipe and the frames of the log in another.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import msgspec

from clob_server.app import App
from clob_server.cli.run import RECURSION_MAX, config_of, report
from clob_server.cluster.forward import Forwarding
from clob_server.cluster.node import Beat
from clob_server.cluster.replica import ReplicaSequencer
from clob_server.cluster.workers import CHAIN_READS, OWNER_READS, WorkerNode, WorkerSettings
from clob_server.core.clock import ClockGuard
from clob_server.core.sequencer import Sequencer
from clob_server.history.shared import SharedHistory
from clob_server.log import Log, Tail
from clob_server.log.pipe import BEAT, BEAT_S, write_number
from clob_server.log.piped import PipedLog
from clob_server.service import Service
from clob_server.telemetry import logging as json_logging
from clob_server.transport.server import HttpServer, shared_sockets

SKEW_MAX_S: Final = 1e9
"""Largest difference of the clocks: the first process alone decides about the time of commands."""
CONNECT_S: Final = 30.0
"""Seconds for the connection to the first process."""
SETTINGS_BYTES: Final = 1 << 20
"""Largest description of the settings."""

_LOG: Final = logging.getLogger("clob_server")


class WorkerService(Service):
    """The parts of a worker process, which follows a log and sends changes to its owner.

    Args:
        described: its settings.
        origin: last command dropped from the log.
        end: end of the log when this process was started.
    """

    def __init__(self, described: WorkerSettings, origin: int, end: Tail) -> None:
        super().__init__(described.settings)
        self._described, self._origin, self._end = described, origin, end
        self._commits = False
        self.clock: ClockGuard = ClockGuard(skew_max_s=SKEW_MAX_S)
        self.clock_ms: Callable[[], int] = self.clock.now_ms
        self.is_listening: threading.Event = threading.Event()
        """Set once clients are answered."""

    def _open_log(self) -> Log:
        """Receive the log from the newest snapshot on."""
        return PipedLog(self.folder, sys.stdin.fileno(), self._origin, self._end)

    def _build_history(self, log: Log) -> SharedHistory:
        return SharedHistory(log, self.folder, self.settings, self.ids, self.metrics)

    def _build_sequencer(self, log: Log, options: dict[str, Any]) -> Sequencer:
        """Build the sequencer that follows the log, and the way to the owner."""
        assert isinstance(log, PipedLog)
        replica = ReplicaSequencer(log, self.state, self.clock.commit_ms, **options)
        described = self._described
        owner = Beat("worker 1", url="", address=described.owner, epoch=0, seq=0)
        node = WorkerNode(f"worker {described.number}", owner)
        reads = OWNER_READS | CHAIN_READS if described.has_chain else OWNER_READS
        self.forwarding: Forwarding | None = Forwarding(self._ids_key, node, replica, reads)
        return replica

    def _changed_exchange(self) -> None:
        """Compare nothing: the owner has checked its settings."""

    def _build_followers(self) -> None:
        """Build nothing: no process follows this one."""

    async def _begin_role(self, log: Log) -> None:
        """Connect to the owner, and report progress to it."""
        assert self.forwarding is not None
        self.forwarding.page = self.metrics.page
        assert isinstance(self.history, SharedHistory)
        self.history.on_damage = self.forwarding.report_damage
        async with asyncio.timeout(CONNECT_S):
            await self.forwarding.connect()
        self._tasks.append(asyncio.create_task(self.forwarding.run()))
        self._tasks.append(asyncio.create_task(self._report()))

    async def _report(self) -> None:
        """Report the last applied command every second, as a sign of life, until cancelled."""
        await asyncio.to_thread(self.is_listening.wait)
        while True:
            write_number(self.sequencer.seq)
            await asyncio.sleep(BEAT_S)

    def listen(self, url: str, port: int) -> None:
        """Note that clients are answered."""
        self.is_listening.set()


def main(arguments: Sequence[str]) -> int:
    """Serve clients until the first process ends this one.

    Args:
        arguments: last command dropped from the log, last command of the log, chain hash there, and
            the file descriptor of the settings.

    Returns:
        0 after a clean stop, else 1.
    """
    origin, tail_seq, chain_hash, source = arguments
    with os.fdopen(int(source), "rb") as pipe:
        described = msgspec.json.decode(pipe.read(SETTINGS_BYTES), type=WorkerSettings)
    settings, name = described.settings, f"worker {described.number}"
    json_logging.configure(settings.log_level, node=name)
    end = Tail(int(tail_seq), bytes.fromhex(chain_hash))
    service = WorkerService(described, int(origin), end)
    threading.Thread(target=show_life, args=(service.is_listening,), daemon=True).start()
    app = App(service)
    config = config_of(app)
    sys.setrecursionlimit(RECURSION_MAX)

    server = HttpServer(
        config,
        on_listening=lambda _, port: service.listen("", port),
        on_draining=service.drain,
        on_lag=service.metrics.loop_lag_seconds.observe,
    )

    def end_process(error: BaseException) -> NoReturn:
        _LOG.critical("ended at once", extra={"reason": str(error)})
        server.fail(error)

    service.on_failure = end_process
    service.metrics.add_transport_rejections(server.server_state.rejected)
    code = server.run(shared_sockets(settings.host, settings.port))
    return code if app.failure is None else report(app.failure)


def show_life(is_listening: threading.Event) -> None:
    """Write signs of life until the process has started."""
    while not is_listening.wait(BEAT_S):
        write_number(BEAT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
