"""Worker processes that run the points of a sweep, and the end of each of them."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from clob.replay.errors import SweepError
from clob.replay.sweeps.grid import RunPoint
from clob.replay.sweeps.rows import SweepRow, SweepTask, killed_row

STARTS = ("spawn", "fork")
"""How worker processes start."""

STOP_S = 5
"""Seconds until a worker that does not stop is killed."""


class Worker:
    """A process that runs one point at a time.

    Args:
        task: runs the points.
        start: one of :data:`STARTS`.
    """

    def __init__(self, task: SweepTask, start: str) -> None:
        context: Any = multiprocessing.get_context(start)
        ours, theirs = context.Pipe()
        self.connection: Connection = ours
        """The end of the pipe that belongs to the parent."""
        arguments = (task, theirs, self.connection if start == "fork" else None)
        self.process: BaseProcess = context.Process(target=_serve, args=arguments, daemon=True)
        with _interrupts_held(), warnings.catch_warnings():
            # Python 3.12 warns of a fork with threads, which the libraries below NumPy have.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            self.process.start()
        theirs.close()
        self.point: RunPoint | None = None
        """The point that it runs."""
        self.is_ready: bool = False
        """Whether it has started."""

    def send(self, point: RunPoint | None) -> None:
        """Send the next point, or None to end; a worker that has ended is noticed later."""
        self.point = point
        with contextlib.suppress(OSError):
            self.connection.send(point)

    def receive(self) -> SweepRow | None:
        """Return the row that has arrived, or None for a sign that it has started.

        Raises:
            EOFError: the process has ended.
        """
        try:
            row: SweepRow | None = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self.is_ready = True
        if row is not None:
            self.point = None
        return row

    def ending(self) -> str:
        """Wait for the process, which has ended, and return the reason."""
        self.process.join()
        return describe_exit(self.process.exitcode or 0)

    def stop(self) -> None:
        """Stop the process, in the middle of a run if it has one."""
        self.connection.close()
        self.process.terminate()

    def join(self) -> None:
        """Wait until the process has stopped."""
        self.process.join(STOP_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def describe_exit(code: int) -> str:
    """Describe the exit code of a worker; a negative one is the number of a signal.

    >>> describe_exit(3)
    'the worker process ended with exit code 3'
    """
    if code >= 0:
        return f"the worker process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    text = f"the worker process was killed by {name}"
    if name == "SIGKILL":
        return f"{text}, as the system does when memory runs out; use fewer jobs"
    return text


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C while a process starts; a worker inherits this, and leaves it to its parent."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(task: SweepTask, connection: Connection, parents: Connection | None) -> None:
    """Run points until the parent closes the connection or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parents is not None:
        parents.close()
    parent = multiprocessing.parent_process()
    assert parent is not None
    with contextlib.suppress(EOFError, OSError):
        connection.send(None)
        while connection in wait([connection, parent.sentinel]):
            point = connection.recv()
            if point is None:
                return
            connection.send(task.run(point))
    # The parent has ended without a word, and cannot remove its files.
    if task.folder is not None:
        shutil.rmtree(task.folder, ignore_errors=True)


def run_points(
    task: SweepTask, points: Sequence[RunPoint], jobs: int, start: str
) -> Generator[SweepRow]:
    """Run points in worker processes, and yield each row when its run is done.

    A worker that is killed ends its run with a row, and another one takes its place. Closing the
    iterator stops all of them.

    Args:
        task: runs the points.
        points: the points.
        jobs: number of workers, 1 or more.
        start: one of :data:`STARTS`.

    Raises:
        SweepError: a worker ended before it could run a point.
    """
    left = deque(points)
    workers: list[Worker] = []
    try:
        # One by one, since a failed start must stop the ones before it.
        while len(workers) < min(jobs, len(left)):
            workers.append(Worker(task, start))
        while workers:
            ready = wait([worker.connection for worker in workers])
            for worker in [one for one in workers if one.connection in ready]:
                try:
                    row = worker.receive()
                except EOFError:
                    workers.remove(worker)
                    if left:
                        workers.append(Worker(task, start))
                    row = _ended(worker)
                else:
                    _next(worker, left, workers)
                if row is not None:
                    yield row
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()


def _next(worker: Worker, left: "deque[RunPoint]", workers: list[Worker]) -> None:
    """Send the next point to a worker, or end it if there is none."""
    if left:
        worker.send(left.popleft())
    elif worker.point is None:
        workers.remove(worker)
        worker.send(None)
        worker.join()
        worker.connection.close()


def _ended(worker: Worker) -> SweepRow | None:
    """Return the row of the point of a worker that has ended."""
    reason = worker.ending()
    worker.connection.close()
    if not worker.is_ready:
        raise SweepError(
            f"{reason} before its first run; its error is above. A script that starts a sweep with "
            "start='spawn' must do so under: if __name__ == '__main__'"
        )
    return None if worker.point is None else killed_row(worker.point, reason)


def processors() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
