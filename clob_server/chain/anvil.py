"""Runs anvil as the embedded chain: ``python -m clob_server.chain.anvil FOLDER --anvil PATH``.

Anvil keeps its chain in memory. This process asks it for the state after new blocks and replaces
the file with it, so that the file is complete at any moment; anvil's own option writes into it.
"""

import argparse
import ctypes
import fcntl
import gzip
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from clob_server.chain.subprocess import BEAT, BEAT_S

STATE: Final = "state.json"
"""File with the state of the chain, as anvil reads it."""
LOCK: Final = "lock"
"""File that is locked while anvil runs."""
LOCK_S: Final = 5.0
"""Seconds to wait for an anvil of a process that was killed."""
RPC_S: Final = 30.0
"""Timeout of a request to anvil, seconds."""
SHARE: Final = 10
"""Writing the state takes at most one part in this number of the time."""
STOP_S: Final = 5.0
"""Seconds until anvil must have stopped."""
UNUSABLE: Final = 2
"""Exit code if the chain cannot start."""
DEATH_SIGNAL: Final = 1
"""``PR_SET_PDEATHSIG`` of Linux: the signal of a process whose parent has died."""
OPTIONS: Final = (
    *("--host", "127.0.0.1", "--threads", "1", "--hardfork", "prague"),
    *("--gas-limit", "30000000", "--no-cors", "--color", "never"),
)
"""Options of anvil: one thread, and the rules of the other embedded chain."""


class AnvilError(Exception):
    """The chain cannot start; the text is the reason."""


class Anvil:
    """A running anvil with its state in a folder.

    Args:
        folder: the data folder; created if missing.
        path: the executable.
        port: port on loopback; 0 for any free port.
        chain_id: the chain id of a new chain.

    Raises:
        AnvilError: another process uses the folder, or anvil does not start.
    """

    def __init__(self, folder: Path, path: str, port: int, chain_id: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._state = folder / STATE
        self._lock = lock_folder(folder / LOCK)
        arguments = ["--port", str(port), "--chain-id", str(chain_id), *OPTIONS]
        if self._state.exists():
            arguments += ["--load-state", str(self._state)]
        try:
            self.process: Final[subprocess.Popen[str]] = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[self._lock],  # the lock lasts as long as anvil
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise AnvilError(f"{path} cannot be run: {error}") from error
        self.url: Final[str] = self._read_url()
        self._saved = self._head()
        self._next_save = 0.0
        self._keep_time()

    def _read_url(self) -> str:
        """Return the address that anvil prints, and discard its further output."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Listening on "):
                # Without a reader the output would fill the pipe and block anvil.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return f"http://{line.split()[-1]}"
        code = self.process.wait()
        raise AnvilError(f"anvil exited with {code}: is the port in use, or {self._state} damaged?")

    def _keep_time(self) -> None:
        """Advance the clock of a restarted chain to its newest block."""
        block = self.ask("eth_getBlockByNumber", "latest", False)
        ahead_s = int(block["timestamp"], 16) - time.time_ns() // 10**9
        if ahead_s > 0:
            self.ask("evm_increaseTime", ahead_s)

    def ask(self, method: str, *params: Any) -> Any:
        """Send a request to anvil and return its result.

        Raises:
            OSError: it sends no answer, or an error.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=RPC_S) as reply:
            answer = json.load(reply)
        if "result" not in answer:
            raise OSError(f"anvil rejected {method}: {answer.get('error')}")
        return answer["result"]

    def _head(self) -> tuple[str, str]:
        """Return hash and number of the newest block."""
        block = self.ask("eth_getBlockByNumber", "latest", False)
        return block["hash"], block["number"]

    def save(self, *, is_last: bool = False) -> None:
        """Replace the file of the state if there are new blocks.

        Args:
            is_last: whether to do so even if a recent state took long to write.

        Raises:
            OSError: anvil sends no answer, or the file cannot be written.
        """
        begin = time.monotonic()
        if begin < self._next_save and not is_last:
            return
        head = self._head()
        if head == self._saved and self._state.exists():
            return
        state = gzip.decompress(bytes.fromhex(self.ask("anvil_dumpState")[2:]))
        new = self._state.with_suffix(".new")
        with new.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._state)
        self._saved, now = head, time.monotonic()
        self._next_save = now + (now - begin) * SHARE

    def close(self) -> None:
        """Write the last state and stop anvil."""
        with suppress(OSError):  # it has exited
            self.save(is_last=True)
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._lock)


def lock_folder(path: Path) -> int:
    """Lock the folder of a chain; return the open file.

    Raises:
        AnvilError: another anvil uses it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(file)
                raise AnvilError(f"another anvil uses {path.parent}") from None
            time.sleep(BEAT_S / 10)
        else:
            return file


def end_with_parent() -> None:
    """Make the kernel end this process with its parent, which may be killed."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def run(anvil: Anvil) -> int:
    """Save the state and send signs of life until standard input ends; return the exit code."""
    while True:
        is_read, _, _ = select.select([0], [], [], BEAT_S)
        if is_read and not os.read(0, 4096):
            return 0
        if anvil.process.poll() is not None:
            sys.stderr.write(f"clob-anvil: anvil exited with {anvil.process.returncode}\n")
            return 1
        try:
            anvil.save()
        except OSError as error:  # it may be frozen, or the disk full; no sign of life then
            sys.stderr.write(f"clob-anvil: the state was not written: {error}\n")
            continue
        os.write(1, BEAT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments after its name; None means ``sys.argv``.

    Returns:
        0 after a clean stop, 1 if anvil exited, 2 if the chain could not start.
    """
    parser = argparse.ArgumentParser(prog="python -m clob_server.chain.anvil", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--anvil", required=True)
    parser.add_argument("--port", type=int, default=8545)
    parser.add_argument("--chain-id", type=int, default=31337)
    given = parser.parse_args(argv)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: sys.exit(0))
    try:
        anvil = Anvil(given.folder, given.anvil, given.port, given.chain_id)
    except (AnvilError, OSError) as error:
        sys.stderr.write(f"clob-anvil: {error}\n")
        return UNUSABLE
    try:
        sys.stdout.write(f"listening on {anvil.url}\n")
        sys.stdout.flush()
        with suppress(BrokenPipeError):  # the parent is gone
            return run(anvil)
        return 0
    finally:
        anvil.close()


if __name__ == "__main__":
    sys.exit(main())
