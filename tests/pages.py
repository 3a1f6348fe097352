"""Runs the commands of pages, and finds those that a mark excludes.

Every ``sh`` block of a page is a script of bash. The blocks of a page run in order, in one folder
that is empty at first. A server in the last line of a block runs on a free port until the page ends
or a later block needs its folder. A block that calls a server finds one: the first one of the page,
or a demo. Files that a command reads and no command before it wrote are made from samples.

The mark ``<!-- needs: docker, root -->`` before a block excludes the commands that these reasons of
:data:`NEEDS` explain; the others of the block run.
"""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from clob import AddMarket, Market, Order, Submit
from clob.journal import Recorder
from clob.replay import open_stream
from clob.replay.io.write import write_stream
from tests.server.live import END_S, START_S, environment

ROOT = Path(__file__).parent.parent
PATTERNS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "docs/**/*.md")
PAGES = sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)})
NEEDS = {
    "docker": r"^docker |^\w+=.* docker ",
    "systemd": r"^(systemctl|journalctl) ",
    "root": r"^(useradd|sudo|install) |/(opt|etc|var)/",
    "a public network": r"^(pip install|git clone|python -m tests.real.published|clob record wss:)",
    "a chain": r" --chain https://",
    "a key": r"^python -m clob_server\.chain\.signer ",
    "a cluster": (
        r"^clob-server cluster( --|$)|^kill -9|/health$| --log nats://|^  --|^clob-server run "
    ),
    "an installation": r"^make( (?!run|help)\w+)?$|^\.venv/",
    "minutes": (
        r"^make (test|bench)$|^CFLAGS=.* build_ext|^python -m benchmarks\b|^pytest benchmarks/"
    ),
}
"""Reasons that exclude commands, and the commands that each explains."""
MARK = re.compile(r"<!-- needs: (.*) -->\n*$")
FENCE = re.compile(r"^ *```(.*)\n((?:.*\n)*?) *```$", re.MULTILINE)
ADDRESS = "http://127.0.0.1:8000"
CALLS_SERVER = re.compile(rf"{ADDRESS}|^clob-client |^clob-server market ", re.MULTILINE)
NEEDS_FOLDER = re.compile(
    r"^clob-server (deploy|export|repair-clock|restore|verify|key (?!.* --url))", re.MULTILINE
)
NODE = "python -m clob_server.chain.devchain "
SERVER = re.compile(rf"clob-server run|make run$|{NODE}")
DEMO = ["clob-server run --demo --chain none --data-dir clob-data"]
"""The server of pages that call one and start none."""
WATCHED = r"\g<0> > watched & until grep -q . watched; do kill -0 $!; sleep 0.1; done; kill $!"
"""Runs a command that would last until Ctrl-C, up to its first line."""
LIVE_S = 3
"""Seconds of a recording that would last until Ctrl-C."""
COMMAND_S = 300


def commands(block):
    """Return the commands of a block, without comments."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    return [line.split("  #")[0].rstrip() for line in lines if line and line[0] != "#"]


def marked_before(text):
    """Return the reasons of the mark at the end of a text."""
    mark = MARK.search(text)
    return mark[1].split(", ") if mark else []


def explained(command, reasons):
    """Return the reasons that exclude a command."""
    return [each for each in reasons if re.search(NEEDS.get(each, r"$^"), command)]


def blocks(page):
    """Yield the language, the commands and the reasons of every block of a page."""
    text = page.read_text()
    for fence in FENCE.finditer(text):
        yield fence[1], commands(fence[2]), marked_before(text[: fence.start()])


# ----- samples ------------------------------------------------------------------------------------

STRATEGY = '''"""A strategy that keeps a bid at the best price."""
from clob.replay import Strategy


class Maker(Strategy):
    """Bids below the best price."""

    def __init__(self, size=100, edge=1):
        self.size = size
        self.edge = edge

    def on_wake(self, market):
        book = getattr(market, "yes", market)
        for order in book.open_orders:
            market.cancel(order)
        if book.best_bid and book.best_bid > self.edge:
            book.buy(book.best_bid - self.edge, self.size)
'''
LOBSTER = "34200.1,1,11,100,5850000,1\n34200.2,1,12,50,5860000,-1\n34200.3,4,12,20,5860000,-1\n"
EVENTS = """ts_ns,kind,order_id,side,price,size
1000000000,limit,1,B,48,500
2000000000,limit,2,S,52,500
3000000000,ioc,3,B,52,200
3000000000,fill,2,S,52,200
"""
POLYMARKET = (
    '{"event_type":"book","market":"0x28","asset_id":"71321","timestamp":"1757908892000",'
    '"hash":"0x","bids":[{"price":"0.48","size":"30"}],"asks":[{"price":"0.52","size":"25"}]}\n'
)


def journal(market):
    """Return a journal with a resting order."""
    recorder = Recorder()
    recorder.apply(AddMarket(market=Market(id=market, yes="101", no="102"), now_ms=1_000))
    bid = Order.buy(48, 10**18, id=market, token="101", maker="0xA11CE")
    recorder.apply(Submit(market=market, order=bid, now_ms=2_000))
    return recorder.frame()


def converted(name):
    """Return the events in the format of a file name."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "events.csv")
        table.write_text(EVENTS)
        write_stream(Path(folder, name), open_stream(table))
        return Path(folder, name).read_bytes()


SAMPLES = {
    "mine.py": STRATEGY.encode,
    "wallet.key": lambda: b"0x" + b"11" * 32,
    "AAPL_2012-06-21_message_10.csv": LOBSTER.encode,
    "day.csv.gz": lambda: gzip.compress(EVENTS.encode()),
    "day.npz": lambda: converted("day.npz"),
    "day1.frames.gz": lambda: gzip.compress(journal("sun")),
    "day2.frames.gz": lambda: gzip.compress(journal("rain")),
    "dump.jsonl": POLYMARKET.encode,
    "rain.jsonl": POLYMARKET.encode,
    "dump.jsonl.gz": lambda: gzip.compress(POLYMARKET.encode()),
}
"""Files that the pages read, and functions that return their content."""


class Page:
    """The folder and the server of one page."""

    def __init__(self):
        self.before = Path.cwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.server = self.url = None
        self.served = None

    def close(self):
        """Stop the server and remove the folder."""
        self.stop()
        os.chdir(self.before)
        self.folder.cleanup()

    def run_block(self, example):
        """Run a block, or skip it if its mark excludes all its commands."""
        reasons = marked_before(example.document.text[: example.start])
        lines = [each for each in commands(example.parsed) if not explained(each, reasons)]
        if not lines:
            pytest.skip(f"not here: needs {', '.join(reasons)}")
        self.add_samples("\n".join(lines))
        if NEEDS_FOLDER.search("\n".join(lines)):
            self.stop()
        if SERVER.search(lines[-1]):
            self.serve(lines)
        else:
            self.run("\n".join(lines), example.namespace.get("url"))

    def add_samples(self, text):
        """Write the files that a block names and that are missing."""
        for name, content in SAMPLES.items():
            named = re.search(rf"(?<![\w/.-]){re.escape(name.replace('.py', ':'))}", text)
            if named and not Path(name).exists():
                Path(name).write_bytes(content())
                Path(name).chmod(0o600)
        for name in ("deploy", "examples"):
            if f" {name}/" in text and not Path(name).exists():
                shutil.copytree(ROOT / name, name)

    def run(self, text, url):
        """Run commands to their end; ``url`` is that of a server that the page started itself."""
        if CALLS_SERVER.search(text):
            if url is None and self.server is None:
                self.serve(self.served or DEMO)
            url = self.url if self.server else url
            text = text.replace(ADDRESS, url)
        for pattern, replacement in (
            (r"^clob-server market .*", rf"\g<0> --url {url}"),
            (r"^clob (record|paper) .*", rf"\g<0> --for {LIVE_S}s"),
            (r".* --watch$", WATCHED),
            (r"^curl ", "curl -sS --fail "),
            (r"^make ", f"make -C {ROOT} "),
        ):
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        for program in ("curl", "promtool"):
            if re.search(rf"^{program} ", text, re.MULTILINE) and not shutil.which(program):
                pytest.skip(f"{program} is not installed")
        with tempfile.TemporaryFile("w+") as output:
            # A process group, so that a command that is late ends with its children.
            shell = subprocess.Popen(
                ["bash", "-euc", text],
                env=self.environment(CLOB_URL=url or ""),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = shell.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                code = shell.wait()
            output.seek(0)
            assert code == 0, f"{text}\nended with {code}:\n{output.read()}"

    def environment(self, **more):
        """Return the environment of commands, with the programs of this Python."""
        found = environment() | more
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return found | {"PATH": path, "PYTHONPATH": str(ROOT)}

    def serve(self, lines):
        """Start the server in the last line on a free port, and wait until it and its chain are
        ready."""
        self.stop()
        self.served = self.served or lines
        is_node = lines[-1].startswith(NODE)
        command = made_by_make() if lines[-1] == "make run" else lines[-1]
        script = "\n".join([*lines[:-1], f"exec {command} --port 0"])
        if not is_node:
            script += " --chain-port 0 --drain-s 0"
            script += "" if re.search(" --(demo|chain) ", script) else " --chain none"
        self.server = subprocess.Popen(
            ["bash", "-euc", script],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.server.stdout.readline()
        assert line.startswith("listening on "), f"{script}\nprinted {line!r}"
        self.url = line.split()[-1]
        if is_node:
            return
        end_s = time.monotonic() + START_S
        while httpx.get(f"{self.url}/ready").json()["chain"] not in ("ready", "none"):
            assert time.monotonic() < end_s, "the chain is not ready"
            time.sleep(0.1)

    def stop(self):
        """Stop the server, if one runs."""
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(END_S)
            self.server.stdout.close()
            self.server = None


def made_by_make():
    """Return the command of ``make run``, for this Python; without a Makefile, as it is there."""
    if not (ROOT / "Makefile").is_file():
        return f"{sys.executable} -m clob_server --demo"
    lines = subprocess.check_output(["make", "-n", "-C", ROOT, "run"], text=True).splitlines()
    [command] = [line for line in lines if line.endswith(" -m clob_server --demo")]
    return re.sub(r"^\S+", sys.executable, command)
