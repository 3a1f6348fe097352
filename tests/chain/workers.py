"""A chain worker process for tests, with the messages it sent."""

import contextlib
import itertools
import signal
import subprocess
import sys
import threading
import time

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.messages import (
    BeginOperation,
    Config,
    FindMissing,
    GetOperation,
    ListOperations,
    MissingOperations,
    OperationDone,
    OperationFailed,
    OperationList,
    OperationPending,
    OperationRejected,
    OperationUnknown,
    RetryOperation,
    WorkerReady,
    WorkerState,
    decode_worker_message,
    encode,
)
from tests.server.live import environment

DIED = 70
"""Exit code of a worker at a failpoint."""
PATIENCE_S = 60
ENDS = (OperationDone, OperationFailed, OperationRejected)
NOW_MS = 1_700_000_000_000


class WorkerDiedError(Exception):
    """The worker exited while a message was awaited; the argument is its exit code."""


class Worker:
    """A worker process.

    Args:
        folder: folder of its outbox; created if it is missing.
        url: URL of the node.
        die: failpoint ``kind:step:point`` at which it exits, or None.
        settings: fields of its :class:`Config`.
    """

    def __init__(self, folder, url, *, die=None, **settings):
        folder.mkdir(parents=True, exist_ok=True)
        self.messages = []
        """All messages that the worker sent."""
        self._changed = threading.Condition()
        self._requests = itertools.count(1)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clob_server.chain.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment() | ({} if die is None else {"CLOB_CHAIN_DIE": die}),
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        usual = {
            "chain_id": 31337,
            "operator_key": OPERATOR.private_key,
            "exchange": DEVELOPMENT.exchange,
        }
        settings = usual | settings
        self.send(Config(url=url, **settings))

    def _listen(self):
        """Read its messages until it exits."""
        for line in self.process.stdout:
            if not line.strip():
                continue  # a heartbeat
            with self._changed:
                self.messages.append(decode_worker_message(line))
                self._changed.notify_all()
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    def send(self, message):
        """Send a message, if the worker is still running."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(encode(message))
            self.process.stdin.flush()

    def wait_for(self, matches, since=0):
        """Wait for a message and return it.

        Args:
            matches: returns whether a message matches.
            since: number of earlier messages to ignore.

        Raises:
            WorkerDiedError: the worker exited instead.
        """
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                for message in self.messages[since:]:
                    if matches(message):
                        return message
                if self.process.returncode is not None:
                    raise WorkerDiedError(self.process.returncode)
                assert time.monotonic() < end, self.messages[since:]
                self._changed.wait(end - time.monotonic())

    # ----- requests --------------------------------------------------------------------------

    def ready(self):
        """Wait until operations can begin."""
        return self.wait_for(lambda message: type(message) is WorkerReady)

    def state(self, matches=lambda state: True, since=0):
        """Wait for a matching state."""
        return self.wait_for(
            lambda message: type(message) is WorkerState and matches(message), since
        )

    def last_state(self):
        """Return the last state."""
        return [message for message in self.messages if type(message) is WorkerState][-1]

    def start(self, name, body):
        """Start an operation and return the number of earlier messages."""
        since = len(self.messages)
        self.send(BeginOperation(id=name, body=body, now_ms=NOW_MS))
        return since

    def keep(self, name, body):
        """Start an operation, wait until it is stored, return the number of earlier messages."""
        since = self.start(name, body)
        self.wait_for(
            lambda message: type(message) is OperationPending and message.id == name, since
        )
        return since

    def end(self, name, since=0):
        """Wait for the end of an operation and return it: done, failed or rejected."""
        return self.wait_for(
            lambda message: isinstance(message, ENDS) and message.id == name, since
        )

    def do(self, name, body):
        """Run an operation and return its end."""
        return self.end(name, self.start(name, body))

    def get(self, name):
        """Return the status of an operation."""
        return self._about(GetOperation(id=name), name)

    def retry(self, name):
        """Resume a stuck operation and return its first status."""
        return self._about(RetryOperation(id=name), name)

    def _about(self, message, name):
        kinds = (*ENDS, OperationPending, OperationUnknown)
        since = len(self.messages)
        self.send(message)
        return self.wait_for(
            lambda message: isinstance(message, kinds) and message.id == name, since
        )

    def operations(self, status=None, limit=50, before=None):
        """Return operations, newest first."""
        request = ListOperations(
            request=next(self._requests), status=status, limit=limit, before=before
        )
        self.send(request)
        return self.wait_for(
            lambda message: type(message) is OperationList and message.request == request.request
        ).operations

    def find_missing(self, names):
        """Return the ids without a pending, done or stuck operation."""
        request = FindMissing(request=next(self._requests), ids=names)
        self.send(request)
        return self.wait_for(
            lambda message: (
                type(message) is MissingOperations and message.request == request.request
            )
        ).ids

    # ----- end -------------------------------------------------------------------------------

    def wait(self):
        """Wait until it exits by itself and return the exit code."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.process.returncode

    def pause(self, paused):
        """Stop the process as a busy machine would, or continue it."""
        self.process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def kill(self):
        """Kill the process, as in a crash."""
        self.process.kill()
        self.wait()

    def close(self):
        """Close its input, as the server does, and return the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.wait()
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def working(folder, url, **settings):
    """Yield a worker and stop it at the end."""
    worker = Worker(folder, url, **settings)
    try:
        yield worker
    finally:
        if worker.process.poll() is None and worker.process.stdin.closed:
            worker.kill()
        worker.close()
