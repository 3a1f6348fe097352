"""Record the behaviour of the package as hashes, to compare two versions of it.

``python -m tests.record_behaviour OUT.json [--only NAME ...]`` runs the recorders and writes their
records; ``python -m tests.record_behaviour --compare A.json B.json [--without PATTERN ...]`` lists
the records that differ and exits with 1 if there are any. Only public interfaces are used: the
library, the two commands, HTTP and WebSocket. Records with wording in them end in ``.text``, so
``--without '*.text'`` compares everything else.

The golden hour and the venue files are read from ``CLOB_DATA_DIR``; without it they are skipped.
"""

import argparse
import difflib
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clob
from clob.replay import sample_path
from tests.recorder import engine, rejections, session
from tests.recorder.values import Records, canonical

BINARIES = Path(sys.executable).parent


# ----- the commands ----------------------------------------------------------------------------


def shell(*arguments: str | Path) -> tuple[int, str]:
    """Run a command of the package; return its exit code, and its output without its time."""
    name, *rest = map(str, arguments)
    done = subprocess.run(
        [BINARIES / name, *rest],
        capture_output=True,
        text=True,
        env=session.environment() | {"COLUMNS": "100", "NO_COLOR": "1"},
        check=False,
    )
    text = done.stdout + done.stderr
    return done.returncode, re.sub(r"\b[\d.,]+ ?(?:ms|s|events/s)\b", "<time>", text)


def record_help(records: Records) -> None:
    """Record the help of both commands and of every subcommand, found by reading it."""
    waiting: list[tuple[str, ...]] = [("clob",), ("clob-server",)]
    while waiting:
        command = waiting.pop(0)
        code, text = shell(*command, "--help")
        options = sorted(set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)))
        listed = re.findall(r"^    ([a-z]+)(?: |$)", text, re.MULTILINE)
        listed += re.findall(r"^  \{([a-z,]+)\}$", text, re.MULTILINE)
        commands = sorted({each for names in listed for each in names.split(",")})
        name = f"help.{' '.join(command)}"
        defaults = re.findall(r"\(default:\s+([^)]*)\)", text)
        facts = {"code": code, "options": options, "defaults": defaults, "commands": commands}
        records.put(name, facts, keep=True)
        records.put(f"{name}.text", text, keep=True)
        waiting += [(*command, each) for each in commands]


def record_commands(records: Records) -> None:
    """Record the results of ``clob replay`` and ``clob convert`` on the packaged sample."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("day.csv", "day.npz"):
            code, text = shell("clob", "convert", sample_path(), Path(folder, name))
            records.put(f"commands.convert.{name}", Path(folder, name).read_bytes(), code=code)
            records.put(f"commands.convert.{name}.text", text.replace(folder, ""), keep=True)
        maker = "clob.replay.strategies:MarketMaker"
        options = ("--strategy", maker, "--every", "1m", "--outcome", "0=100")
        for name, more in {
            "sample": (),
            "maker": options,
            "shadow": (*options, "--mode", "shadow"),
        }.items():
            code, text = shell("clob", "replay", *more)
            digests = re.findall(r"\b[0-9a-f]{64}\b", text)
            records.put(f"commands.replay.{name}", [code, digests], keep=True)
            records.put(f"commands.replay.{name}.text", text, keep=True)


# ----- the server ------------------------------------------------------------------------------


def record_server(records: Records) -> None:
    """Record the documents of a server, a session with it, its log, and a restart."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        with session.serving(data) as server:
            http_session = session.Session(server)
            record_documents(records, http_session)
            record_session(records, http_session)
            before = state_of(http_session)
            records.put("server.exit", server.stop(), keep=True)
        record_log(records, data, http_session.names)
        for kind in ("test", "production"):
            with session.serving(Path(folder, kind), kind) as server:
                routes = rejections.every_route(session.Session(server))
                records.put(f"routes.{kind}", routes, keep=True)
        with session.serving(data) as server:
            http_session.move(server)
            after = state_of(http_session)
        records.put("server.restarted", [before, after], keep=True, same=before == after)


def record_documents(records: Records, http_session: session.Session) -> None:
    """Record the documents, pages and metric names that a server publishes."""
    for path in ("openapi.json", "asyncapi.json", ""):
        document = http_session.names.plain(http_session.http.get(f"/{path}").json())
        records.put_split(f"documents.{path.partition('.')[0] or 'root'}", document)
    pages = {path: http_session.http.get(path) for path in ("/docs", "/admin")}
    for path, page in pages.items():
        records.put(
            f"documents{path}.text", http_session.names.text(page.text), size=len(page.text)
        )
    samples = re.findall(
        r"^([a-z_]+)(\{[^}]*\})?", http_session.http.get("/metrics").text, re.MULTILINE
    )
    labels = sorted({(name, *re.findall(r"(\w+)=", label)) for name, label in samples})
    records.put("documents.metrics", labels, keep=True)


def record_session(records: Records, http_session: session.Session) -> None:
    """Record the answers to a fixed script of requests, and the frames of its feeds."""
    session.open_markets(http_session)
    feeds = session.feeds_of(http_session)
    first = {name: feed.received() for name, feed in feeds.items()}
    records.put_split("server.markets", http_session.taken())
    rested = session.trade(http_session)
    records.put_split("server.trading", http_session.taken())
    session.change(http_session, rested)
    records.put_split("server.changing", http_session.taken())
    for name, feed in feeds.items():
        records.put_split(f"feed.{name}", [*first[name], *feed.received()])
    back = session.Feed(
        http_session, session.subscribe("orderbook", marketId="rain", resume={"seq": 5})
    )
    records.put_split("feed.resumed", back.received())
    session.read(http_session, rested)
    records.put_split("server.reading", http_session.taken())
    rejections.reject_orders(http_session)
    records.put_split("rejected.orders", http_session.taken())
    rejections.reject_others(http_session, rested[0]["orderId"])
    records.put_split("rejected.others", http_session.taken())
    rejections.reject_operators(http_session)
    records.put_split("rejected.operators", http_session.taken())
    records.put_split("rejected.frames", rejections.reject_frames(http_session))


def state_of(http_session: session.Session) -> dict[str, Any]:
    """Read the state that must survive a restart."""
    lists = ("orderbook", "trades")
    paths = [f"/api/markets/{name}/{each}" for name in session.TOKENS for each in lists]
    paths += ["/api/markets", "/api/orders?limit=500"]
    return {path: http_session.names.plain(http_session.http.get(path).json()) for path in paths}


def record_log(records: Records, data: Path, names: session.Names) -> None:
    """Record the verification and the exports of the data folder of a stopped server."""
    journal, tables = data.with_name("journal"), data.with_name("tables")
    for name, arguments in {
        "verify": ("clob-server", "verify", data),
        "export": ("clob-server", "export", journal, data),
        "tables": ("clob-server", "export", tables, data, "--form", "jsonl"),
        "journal": ("clob", "verify", journal),
        "replay": ("clob", "replay", journal),
        "missing": ("clob", "verify", data.with_name("missing")),
    }.items():
        code, text = shell(*arguments)
        text = re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text.replace(str(data.parent), "<folder>"))
        records.put(f"log.{name}", [code, re.findall(r"\d+(?:,\d{3})*", text)], keep=True)
        records.put(f"log.{name}.text", text, keep=True)
    for path in sorted(tables.glob("*")):
        rows = [names.plain(json.loads(line)) for line in path.read_text().splitlines()]
        records.put(f"log.rows.{path.name}", rows, keep=True, rows=len(rows))


# ----- comparing -------------------------------------------------------------------------------


def differences(path: str, one: Any, two: Any) -> Iterator[str]:
    """Yield the places in which two JSON values differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            if key not in one or key not in two:
                yield f"{path}.{key}: only in {'B' if key in two else 'A'}"
            else:
                yield from differences(f"{path}.{key}", one[key], two[key])
    elif isinstance(one, str) and isinstance(two, str) and "\n" in one + two:
        lines = difflib.unified_diff(one.splitlines(), two.splitlines(), lineterm="", n=0)
        yield from (
            f"{path}: {line}" for line in lines if not line.startswith(("@@", "---", "+++"))
        )
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, pair in enumerate(zip(one, two, strict=True)):
            yield from differences(f"{path}[{index}]", *pair)
    elif one != two:
        yield f"{path}: {shown(one)} -> {shown(two)}"


def shown(value: Any) -> str:
    """Write a value in a line that is not too long."""
    text = canonical(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"


def compare(paths: list[Path], without: list[str], most: int) -> int:
    """List the records that differ; return 1 if there are any."""
    one, two = (json.loads(path.read_text())["records"] for path in paths)
    names = [
        n
        for n in sorted(one.keys() | two.keys())
        if not any(fnmatch.fnmatch(n, p) for p in without)
    ]
    count = 0
    for name in names:
        if name not in one or name not in two:
            lines = [f"only in {paths[name in two]}"]
        elif one[name]["hash"] != two[name]["hash"]:
            pairs = (
                differences(part, one[name].get(part), two[name].get(part))
                for part in ("facts", "value")
            )
            lines = [line for pair in pairs for line in pair] or ["the hash"]
        else:
            continue
        count += 1
        sys.stdout.write(f"{name}\n" + "".join(f"    {line}\n" for line in lines[:most]))
        if len(lines) > most:
            sys.stdout.write(f"    and {len(lines) - most} more\n")
    sys.stdout.write(f"{len(names)} records, {count} differ\n")
    return 1 if count else 0


RECORDERS: dict[str, Callable[[Records], None]] = {
    "golden": engine.record_golden,
    "readers": engine.record_readers,
    "sample": engine.record_sample,
    "streams": engine.record_streams,
    "strategies": engine.record_strategies,
    "matcher": engine.record_matcher,
    "journal": engine.record_journal,
    "signing": engine.record_signing,
    "help": record_help,
    "commands": record_commands,
    "server": record_server,
}


def main() -> int:
    """Record or compare, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", help="the file to write")
    parser.add_argument("--only", nargs="+", choices=RECORDERS, default=list(RECORDERS))
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"))
    parser.add_argument("--without", nargs="+", default=[], help="names to skip, as '*.text'")
    parser.add_argument("--most", type=int, default=20, help="lines for each difference")
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(arguments.compare, arguments.without, arguments.most)
    if arguments.out is None:
        parser.error("name the file to write, or --compare two of them")
    records = Records()
    for name in arguments.only:
        start = time.perf_counter()
        RECORDERS[name](records)
        sys.stderr.write(f"{name}: {time.perf_counter() - start:.1f} s\n")
    content = {"version": clob.__version__, "records": dict(sorted(records.items()))}
    arguments.out.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    sys.stderr.write(f"{len(records)} records in {arguments.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
