"""Follow one page of the documentation word by word; runs in an empty environment and folder.

``python follow_page.py PAGE WHEEL``, by the Python of the environment, which needs no package. In
the order of the page, it runs

- each ``pip install`` of the text, with the wheel in place of the package's name,
- each line of a fence of shell commands,
- each fence of Python: what is entered after ``>>>``, with its output compared, or a piece of a
  program.

``make run`` installs the wheel with the packages of the demo and serves the demo on a free port; it
ends with the page. A command that cannot run in an empty folder is listed with the reason.
"""

import doctest
import importlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w*)$")
PIP = re.compile(r"`(pip install [^`]+)`")
DEMO = "http://127.0.0.1:8000"
DEMO_EXTRAS = "devchain,replay"
DEMO_READY = "listening on"
NOT_RUN = {
    r"git clone ": "the repository is the tree of this wheel; see tests/release/clone.py",
    r"make test\b": "needs the tree",
    r"\.venv/bin/": "needs the tree; see tests/release/clone.py",
    r"clob-client ": "needs the key of a wallet in a file",
    r"clob (record|paper) ": "runs until it is stopped",
    r"clob .*\b(dump|day|day1|AAPL[\w-]*|my-day)\.": "needs a recording of the reader's own",
}
"""Reasons by the pattern of a command."""


class Follower:
    """Runs the parts of one page, in one Python namespace."""

    def __init__(self, page: Path, wheel: Path) -> None:
        self.page, self.wheel = page, wheel
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.url = DEMO
        self.demo: subprocess.Popen[str] | None = None
        self.failed = 0
        self.ran: dict[str, int] = {"pip": 0, "shell": 0, "python": 0, "not run": 0}

    def follow(self) -> int:
        """Run all parts; return the number of failures."""
        actions = {"pip": self.install, "shell": self.shell, "python": self.python}
        try:
            for line, kind, text in parts(self.page.read_text(encoding="utf-8")):
                self.ran[kind] += 1
                actions[kind](line, text)
        finally:
            if self.demo:
                self.demo.terminate()
                self.demo.communicate()
        write(", ".join(f"{count} {kind}" for kind, count in self.ran.items()))
        return self.failed

    def fail(self, line: int, text: str) -> None:
        """Report a failure with its line."""
        self.failed += 1
        write(f"{self.page.name}:{line}: {text}")

    def install(self, line: int, command: str) -> None:
        """Run ``pip install`` with the wheel in place of ``.`` and ``clob``."""
        words = [re.sub(r"^(clob|\.)(?=\[|$)", str(self.wheel), w) for w in shlex.split(command)]
        if subprocess.run([sys.executable, "-m", *words, "-q"], check=False).returncode:
            self.fail(line, command)
        importlib.invalidate_caches()

    def shell(self, line: int, command: str) -> None:
        """Run one shell command, or list it with the reason why not."""
        if command.startswith("pip install"):
            self.install(line, command)
        elif command.startswith("make run"):
            self.start_demo(line)
        elif reasons := [reason for regex, reason in NOT_RUN.items() if re.match(regex, command)]:
            self.ran["not run"] += 1
            write(f"not run: {command}: {reasons[0]}")
        else:
            programs = str(Path(sys.executable).parent)
            path = os.pathsep.join([programs, os.environ["PATH"]])
            options = " -sS --fail" if command.startswith("curl ") else ""
            done = subprocess.run(
                command.replace(DEMO, self.url) + options,
                shell=True,
                env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                self.fail(line, f"{command}: exit code {done.returncode}\n{done.stdout}")

    def start_demo(self, line: int) -> None:
        """Serve the demo on a free port."""
        self.install(line, f"pip install '.[{DEMO_EXTRAS}]'")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "clob_server", "--demo", "--port", str(port)]
        with tempfile.TemporaryFile("w+") as errors:
            self.demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            assert self.demo.stdout is not None
            for printed in self.demo.stdout:
                if DEMO_READY in printed:
                    return
            errors.seek(0)
            self.fail(line, f"make run: the demo ended before it served\n{errors.read()}")

    def python(self, line: int, text: str) -> None:
        """Run a fence of Python: examples with their output, or a piece of a program."""
        if ">>>" not in text:
            exec(compile(text, f"{self.page.name}:{line}", "exec"), self.names)
            return
        test = doctest.DocTestParser().get_doctest(text, {}, self.page.name, str(self.page), line)
        test.globs = self.names
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        self.failed += runner.run(test, clear_globs=False, out=sys.stdout.write).failed


def write(text: str) -> None:
    """Write a line."""
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()


def parts(text: str) -> Iterator[tuple[int, str, str]]:
    """Split a page into line number, kind (``pip``, ``shell``, ``python``) and text."""
    language: str | None = None
    block: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if language is None:
            for command in PIP.findall(line):
                yield number, "pip", command
            if fence := FENCE.match(line):
                language, block = fence[1], []
            elif line.startswith("```"):
                language, block = "other", []
        elif line.startswith("```"):
            if language == "python":
                yield number - len(block), "python", "\n".join(block) + "\n"
            elif language in ("", "sh", "console"):
                for command in "\n".join(block).replace("\\\n", " ").splitlines():
                    yield number - len(block), "shell", command.removeprefix("$ ")
            language = None
        else:
            block.append(line)


def main() -> int:
    """Follow the page; return 1 if a part failed."""
    page, wheel = map(Path, sys.argv[1:])
    return bool(Follower(page, wheel).follow())


if __name__ == "__main__":
    sys.exit(main())
