"""A chain worker for tests: its process, what it is told, and what it has said."""

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
    Begin,
    Config,
    Known,
    List,
    Listed,
    Look,
    NotKnown,
    OperationDone,
    OperationFailed,
    OperationPending,
    OperationRejected,
    Ready,
    Retry,
    State,
    Unknown,
    encode,
    read_told,
)
from tests.server.live import environment

DIED = 70
"""The exit code of a worker that died where it was to."""
PATIENCE_S = 60
ENDS = (OperationDone, OperationFailed, OperationRejected)
NOW_MS = 1_700_000_000_000


class WorkerDiedError(Exception):
    """The worker ended while something was awaited of it; its exit code."""


class Worker:
    """A worker that runs.

    Args:
        folder: where it keeps its outbox; made if it is not there.
        url: the node.
        die: where it is to die, ``kind:step:point``; None is nowhere.
        settings: fields of its :class:`Config`.
    """

    def __init__(self, folder, url, *, die=None, **settings):
        folder.mkdir(parents=True, exist_ok=True)
        self.heard = []
        """All that it has said."""
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
        self.tell(Config(url=url, **settings))

    def _listen(self):
        """Hear what it says until it ends."""
        for line in self.process.stdout:
            with self._changed:
                self.heard.append(read_told(line))
                self._changed.notify_all()
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    def tell(self, message):
        """Say something to it; one that has died hears nothing."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(encode(message))
            self.process.stdin.flush()

    def wait_for(self, found, since=0):
        """Wait for a message, and give it.

        Args:
            found: says whether a message is the one.
            since: how many messages are not looked at, since they came before.

        Raises:
            WorkerDiedError: it ended instead.
        """
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                for message in self.heard[since:]:
                    if found(message):
                        return message
                if self.process.returncode is not None:
                    raise WorkerDiedError(self.process.returncode)
                assert time.monotonic() < end, self.heard[since:]
                self._changed.wait(end - time.monotonic())

    # ----- what is asked of it ---------------------------------------------------------------

    def ready(self):
        """Wait until operations can begin."""
        return self.wait_for(lambda told: type(told) is Ready)

    def state(self, found=lambda state: True, since=0):
        """Wait until it tells a state of this kind."""
        return self.wait_for(lambda told: type(told) is State and found(told), since)

    def last_state(self):
        """Give the state that it told last."""
        return [told for told in self.heard if type(told) is State][-1]

    def start(self, name, body):
        """Have an operation begun, and give how many messages came before."""
        since = len(self.heard)
        self.tell(Begin(id=name, body=body, now_ms=NOW_MS))
        return since

    def keep(self, name, body):
        """Have an operation begun and kept, and give how many messages came before."""
        since = self.start(name, body)
        self.wait_for(lambda told: type(told) is OperationPending and told.id == name, since)
        return since

    def end(self, name, since=0):
        """Wait for the end of an operation, and give it: Done, Failed or Refused."""
        return self.wait_for(lambda told: isinstance(told, ENDS) and told.id == name, since)

    def do(self, name, body):
        """Have an operation done, and give what came of it."""
        return self.end(name, self.start(name, body))

    def look(self, name):
        """Ask where an operation stands."""
        return self._about(Look(id=name), name)

    def retry(self, name):
        """Have an operation that is stuck go on, and give where it stands at first."""
        return self._about(Retry(id=name), name)

    def _about(self, message, name):
        kinds = (*ENDS, OperationPending, Unknown)
        since = len(self.heard)
        self.tell(message)
        return self.wait_for(lambda told: isinstance(told, kinds) and told.id == name, since)

    def operations(self, status=None, limit=50, before=None):
        """Ask for the operations, the newest first."""
        asked = List(request=next(self._requests), status=status, limit=limit, before=before)
        self.tell(asked)
        return self.wait_for(
            lambda told: type(told) is Listed and told.request == asked.request
        ).operations

    def unknown_of(self, names):
        """Ask which of these operations never came to anything."""
        asked = Known(request=next(self._requests), ids=names)
        self.tell(asked)
        return self.wait_for(
            lambda told: type(told) is NotKnown and told.request == asked.request
        ).ids

    # ----- its end ---------------------------------------------------------------------------

    def wait(self):
        """Wait until it has ended by itself, and give its exit code."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.process.returncode

    def pause(self, paused):
        """Stop its process as a busy machine would, or let it go on."""
        self.process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def kill(self):
        """End it as a crash would."""
        self.process.kill()
        self.wait()

    def close(self):
        """End it as its server does, by an end of what it reads, and give its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.wait()
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def working(folder, url, **settings):
    """A worker for as long as the block takes."""
    worker = Worker(folder, url, **settings)
    try:
        yield worker
    finally:
        if worker.process.poll() is None and worker.process.stdin.closed:
            worker.kill()
        worker.close()
