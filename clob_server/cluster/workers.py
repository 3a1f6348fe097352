"""The worker processes of a server on one machine, and their role.

Each follows the log through a pipe, answers clients at the same port, and sends changes to the
first process, which owns the log. Its settings go through a pipe too, since they have secrets.
"""

import asyncio
import os
import subprocess
import sys
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from clob_server.cluster.node import Beat
from clob_server.core.sequencer import Sequencer
from clob_server.core.supervisor import Supervisor
from clob_server.log import SqliteLog
from clob_server.settings import NO_CHAIN, Settings

MODULE: Final = "clob_server.cli.worker"
"""Module that the processes run."""
CHAIN_READS: Final = frozenset({
    "admin_chain", "admin_settlement", "admin_list_operations", "admin_list_markets",
    "admin_get_market", "list_dev_wallets", "get_receipt", "gasless_operation", "get_account",
    "root", "list_markets", "get_market",
})  # fmt: skip
"""Routes whose reads need the chain, to which only the owner of the log is connected."""
OWNER_READS: Final = frozenset({
    "admin_list_keys", "admin_get_limits", "admin_engine", "admin_get_clock", "admin_backup",
    "admin_backup_frames", "admin_backup_snapshot", "health", "metrics",
})  # fmt: skip
"""Routes whose reads the first process answers: they are about the whole server."""
SILENT_S: Final = 15
"""Seconds without a sign of life after which a worker is killed: its clients wait meanwhile."""


class WorkerSettings(msgspec.Struct, frozen=True):
    """Settings of a worker process."""

    settings: Settings
    number: int
    """Its number, from 2: the first process is number 1."""
    owner: str
    """Host and port at which the first process listens for workers."""
    has_chain: bool
    """Whether the first process is connected to a chain."""


class WorkerProcess:
    """One worker process."""

    def __init__(self, log: SqliteLog, described: WorkerSettings) -> None:
        self.seq: int = 0
        """Last command that it has applied, as it reports every second."""
        self.answers: bool = False
        """Whether it answers clients."""
        self.supervisor: Final = Supervisor(
            log,
            f"worker {described.number}",
            ["-m", MODULE],
            on_report=self._on_report,
            on_started=self._on_started,
            start=partial(start_process, described),
            silent_s=SILENT_S,
        )

    def _on_started(self) -> None:
        self.seq, self.answers = 0, False

    def _on_report(self, seq: int) -> None:
        self.seq, self.answers = seq, True


class Workers:
    """All worker processes.

    Args:
        log: the log.
        sequencer: appends to it.
        settings: the settings of the server.
        owner: host and port at which this process listens for workers.
    """

    def __init__(
        self, log: SqliteLog, sequencer: Sequencer, settings: Settings, owner: str
    ) -> None:
        self._log, self._sequencer = log, sequencer
        self._settings, self._owner = settings, owner
        self.workers: list[WorkerProcess] = []
        """The processes, once they were started."""
        self._is_draining = False

    def start(self, port: int) -> None:
        """Start the processes, which listen at the port of this one."""
        if self._is_draining:
            return
        settings = replace(self._settings, port=port, chain=NO_CHAIN, demo=False)
        has_chain = self._settings.chain_source != NO_CHAIN
        for number in range(2, settings.workers + 1):
            described = WorkerSettings(settings, number, self._owner, has_chain)
            worker = WorkerProcess(self._log, described)
            worker.supervisor.start()
            worker.supervisor.connect(self._sequencer, is_urgent=True)
            self.workers.append(worker)

    @property
    def num_running(self) -> int:
        """Number of workers that answer clients."""
        return sum(each.answers and each.supervisor.is_connected for each in self.workers)

    @property
    def num_deaths(self) -> int:
        """Number of unexpected exits."""
        return sum(each.supervisor.num_deaths for each in self.workers)

    @property
    def lag(self) -> int:
        """Commands that the slowest worker had not applied when it reported last."""
        return max((self._log.tail.seq - each.seq for each in self.workers), default=0)

    def drain(self) -> None:
        """Ask the processes to answer the requests that they have, and to end; once."""
        if self._is_draining:
            return
        self._is_draining = True
        for each in self.workers:
            each.supervisor.terminate()

    async def close(self, wait_s: float) -> None:
        """Wait for the end of the processes; kill those that take longer."""
        supervisors = [each.supervisor for each in self.workers]
        await asyncio.gather(*(each.wait_for_exit(wait_s) for each in supervisors))
        await asyncio.gather(*(each.close(0) for each in supervisors))


def start_process(described: WorkerSettings, arguments: list[str]) -> "subprocess.Popen[bytes]":
    """Start a worker, and send its settings through a pipe that it inherits."""
    source, target = os.pipe()
    try:
        with open(target, "wb") as pipe:
            os.set_blocking(target, False)  # the settings fit into a pipe
            pipe.write(msgspec.json.encode(described))
        return subprocess.Popen(
            [sys.executable, *arguments, str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=[source],
            start_new_session=True,  # Ctrl-C goes to the first process, which ends the others
        )
    finally:
        os.close(source)


class WorkerNode(NamedTuple):
    """The role of a worker: it follows the first process, which never changes."""

    name: str
    owner: Beat
    """The first process."""
    is_owner: bool = False
    is_unsure: bool = False
