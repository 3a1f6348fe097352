"""Records books, replays, the matcher, the journal and signatures, through the public library."""

import collections
import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import clob
import clob.journal
from benchmarks.workload import load, to_events
from clob import Book, Matcher, Order, RejectedError, Side, TimeInForce
from clob.replay import (
    CurveFees,
    Instrument,
    Kind,
    Latency,
    Recording,
    Stream,
    backtest,
    between,
    merge,
    open_stream,
    read_npz,
    sample_path,
    strategies,
    synthetic_day,
)
from clob.signing import (
    Domain,
    SignedOrder,
    explain,
    order_hash,
    personal_hash,
    recover_signer,
    sign,
    typed_data,
    verify,
    verify_batch,
)
from tests.recorder.commands import MAKERS, Commands
from tests.recorder.session import ADDRESSES, KEYS
from tests.recorder.values import Digest, Records, plain, short

GOLDEN = "golden_esh4_1_99.npz"
STREAMS = ("mixed", "depth1k", "depth100k", "depth1m")
NUM_COMMANDS, NUM_JOURNALED = 300_000, 20_000
TABLES = ("fills", "bests", "orders", "own_fills", "equity", "positions")
MINUTE_NS, MS_NS, ONE = 60 * 10**9, 10**6, 10**18

# ----- books and replays -----------------------------------------------------------------------


def record_run(records: Records, name: str, seed: Any, events: Any, **book: Any) -> None:
    """Run an array of events through a book."""
    target = Book(**book)
    target.seed(seed)
    status = np.zeros(len(events), np.uint8)
    fills = target.run(events, status=status)
    codes = collections.Counter(status.tolist())
    rows = [fills[field].tobytes() for field in fills.dtype.names]
    records.put(f"{name}.fills", b"".join([*rows, status.tobytes()]), fills=len(fills), codes=codes)
    depth = target.depth()
    records.put(f"{name}.depth", repr(msgspec.to_builtins(depth)), seq=depth.seq)
    records.put(f"{name}.state", target.state_hash(), orders=len(target))


def record_calls(records: Records, name: str, day: Recording) -> None:
    """Execute each event of a recording as one call of a book."""
    book, events, counts = Book(lot_wei=day.lot_wei), Digest(), collections.Counter()
    for row in [*day.seed.tolist(), *day.events.tolist()]:
        ts_ns, _, _, order_id, size, owner, price, _, kind, side, flags = row
        now_ms, wei = ts_ns // MS_NS, size * day.lot_wei
        try:
            if kind == Kind.CANCEL:
                result = book.cancel(order_id, now_ms)
            elif kind == Kind.REDUCE:
                result = book.reduce(order_id, wei, now_ms)
            elif kind == Kind.REPLACE:
                result = book.replace(order_id, price, wei, now_ms)
            else:
                tif = TimeInForce.IOC if kind == Kind.IOC else TimeInForce.GTC
                fields = {"time_in_force": tif, "post_only": bool(flags & 1), "maker": f"w{owner}"}
                order = Order(
                    id=order_id, token="", side=Side(side), price=price, size=wei, **fields
                )
                result = (book.rest if kind == Kind.SEED else book.submit)(order, now_ms)
        except RejectedError as error:
            result, counts[error.code] = [], counts[error.code] + 1
        for event in result:
            counts[type(event).__name__] += 1
            events.add(plain(event))
    events.put(records, f"{name}.events", counts=counts)
    records.put(f"{name}.state", book.state_hash(), orders=len(book))


def record_backtest(records: Records, name: str, stream: Stream, **options: Any) -> None:
    """Run a backtest; its tables are hashed by columns."""
    run = backtest(stream, **options)
    tables = {table: getattr(run, table) for table in TABLES}
    hashes = {
        table: short(repr([rows.dtype.names, rows.tolist()]).encode())
        for table, rows in tables.items()
    }
    portfolio = run.portfolio
    facts = {table: len(rows) for table, rows in tables.items()} | {"events": run.events}
    facts |= {"divergences": run.divergence.total, "ok": run.check and run.check.ok}
    facts["realised"] = None if portfolio is None else str(portfolio.realised)
    records.put(f"{name}.tables", hashes, keep=True, **facts)
    records.put(f"{name}.digest", run.digest)
    records.put(f"{name}.line.text", str(run), keep=True)


def data_dir() -> Path | None:
    """Return the folder of recorded data, if there is one."""
    folder = os.environ.get("CLOB_DATA_DIR")
    return Path(folder) if folder and Path(folder).is_dir() else None


def record_golden(records: Records) -> None:
    """Record the hour of a futures exchange."""
    folder = data_dir()
    if folder is None:
        sys.stderr.write("golden, readers: skipped, CLOB_DATA_DIR is not set\n")
        return
    hour = read_npz(folder / GOLDEN)
    grid = {"lo": hour.lo, "hi": hour.hi, "lot_wei": hour.lot_wei}
    record_run(records, "golden.run", hour.seed, hour.events, **grid)
    record_calls(records, "golden.calls", hour)
    record_backtest(records, "golden.backtest", Stream.of(hour))


def record_readers(records: Records) -> None:
    """Record the replay of every data file whose format can be detected."""
    folder = data_dir()
    for path in sorted(folder.iterdir()) if folder else ():
        for policy in ("raise", "warn"):
            name = f"readers.{policy}.{path.name}"
            options = {} if policy == "raise" else {"on_problem": policy}
            try:
                with warnings.catch_warnings(action="ignore"):
                    record_backtest(records, name, open_stream(path, **options))
            except (clob.ClobError, OSError, TypeError, ValueError) as error:
                code = getattr(error, "code", "")
                records.put(name, [type(error).__name__, code], keep=True)
                records.put(f"{name}.text", str(error).replace(str(folder), ""), keep=True)


def record_sample(records: Records) -> None:
    """Record the packaged sample and a synthetic day."""
    for name, day in (("sample", read_npz(sample_path())), ("day", synthetic_day(7, 5_000))):
        grid = {"lo": day.lo, "hi": day.hi, "lot_wei": day.lot_wei}
        record_run(records, f"sample.{name}.run", day.seed, day.events, **grid)
        record_calls(records, f"sample.{name}.calls", day)


def record_streams(records: Records) -> None:
    """Record the streams of the benchmarks."""
    for name in STREAMS:
        events = to_events(load(name))
        record_run(records, f"streams.{name}", events[:0], events, lot_wei=ONE)


def both_outcomes() -> Stream:
    """Make a stream of a YES and a NO book, whose prices drift apart."""
    yes, no = (Stream.of(synthetic_day(seed, 5_000)) for seed in (3, 4))

    def blocks() -> Iterator[Any]:
        for chunk in no.chunks():
            chunk["instrument"] = 1
            yield chunk

    grid = {"lo": no.lo, "hi": no.hi, "lot_wei": no.lot_wei}
    return merge([yes, Stream(blocks, instruments=[Instrument(1, "", "NO")], **grid)])


def record_strategies(records: Records) -> None:
    """Record every bundled strategy in both modes, without latency and fees and with both."""
    costs = {
        "latency": Latency(order_ns=5 * MS_NS, reply_ns=between(MS_NS, 9 * MS_NS), seed=7),
        "fees": CurveFees(incoming_bps=700, resting_bps=100),
    }
    streams = {
        "sample": open_stream(sample_path()),
        "day": Stream.of(synthetic_day(7, 5_000)),
        "pair": both_outcomes(),
    }
    for name, stream in streams.items():
        record_backtest(records, f"strategies.{name}.none", stream)
        for strategy in sorted(strategies.__all__):
            for mode in ("rematch", "shadow"):
                for kind, more in (("free", {}), ("costs", costs)):
                    made = getattr(strategies, strategy)(size=500)
                    options = {"mode": mode, "strategy": made, "every_ns": MINUTE_NS, **more}
                    key = f"strategies.{name}.{strategy}.{mode}.{kind}"
                    record_backtest(records, key, stream, outcome={0: 100}, **options)


def record_matcher(records: Records) -> None:
    """Record a long stream of commands: events, wording, answers to questions, and the state."""
    matcher = Matcher()
    flow, counts = Commands(matcher, 20), collections.Counter()
    events, texts, questions, examples = Digest(), Digest(), Digest(), {}

    def execute(command: clob.Command) -> None:
        try:
            result = matcher.apply(command)
        except RejectedError as error:
            counts[f"{type(command).__name__} rejected: {error.code}"] += 1
            events.add(("rejected", error.code))
            texts.add(str(error))
            examples.setdefault(error.code, str(error))
            return
        counts[type(command).__name__] += 1
        for event in result:
            simple = plain(event)
            counts[simple["type"] if isinstance(simple, dict) else f"in batch: {simple[2]}"] += 1
            events.add(simple)
            if hasattr(event, "code"):
                texts.add(event.message)

    for command in flow.opening():
        execute(command)
    for number in range(NUM_COMMANDS):
        command = flow.draw()
        if not number % 20:
            questions.add(answers_of(matcher, command))
        execute(command)
    matcher.audit()
    events.put(records, "matcher.events", counts=dict(sorted(counts.items())))
    texts.put(records, "matcher.rejections.text", **examples)
    questions.put(records, "matcher.questions")
    record_state(records, matcher)


def answers_of(matcher: Matcher, command: clob.Command) -> list[Any]:
    """Ask a matcher everything that can be asked before a command."""
    error = matcher.check(command)
    answers: list[Any] = [error and error.code, matcher.next_expiry_s, len(matcher)]
    if isinstance(command, clob.Submit):
        answers.append(msgspec.to_builtins(matcher.depth(command.market, limit=3)))
        with contextlib.suppress(RejectedError):
            answers.append(msgspec.to_builtins(matcher.simulate(command)))
    elif isinstance(command, clob.Cancel):
        with contextlib.suppress(RejectedError):
            answers.append(msgspec.to_builtins(matcher.ahead(command.order_id)))
    return answers


def record_state(records: Records, matcher: Matcher) -> None:
    """Record the state of a matcher: its hash, its snapshot, and all that can be read of it."""
    books, settling = [], []
    for market in matcher.markets:
        settling.append(matcher.unsettled(market.id))
        books += [matcher.depth(market.id, token) for token in (market.yes, market.no) if token]
    orders = matcher.open_orders()
    readable: dict[str, Any] = {
        "books": books,
        "markets": matcher.markets,
        "unsettled": settling,
        "orders": orders,
        "limits": matcher.limits,
        "seqs": [matcher.seq(market.id) for market in matcher.markets],
        "nonces": [matcher.nonce(maker) for maker in MAKERS],
        "balances": list(matcher.balances().items()),
    }
    for name, value in readable.items():
        size = len(value) if isinstance(value, list) else 1
        records.put(f"matcher.state.{name}", repr(msgspec.to_builtins(value)), size=size)
    snapshot = matcher.snapshot()
    same = Matcher.restore(snapshot).state_hash() == matcher.state_hash()
    records.put("matcher.state.hash", matcher.state_hash(), restored=same)
    records.put("matcher.snapshot", snapshot)


def record_journal(records: Records) -> None:
    """Record the journal of a shorter stream; the bytes of its frames depend on their version."""
    recorder = clob.journal.Recorder(state_hashes=True)
    flow, frames = Commands(recorder.matcher, 21), []
    for number, command in enumerate([*flow.opening(), *[None] * NUM_JOURNALED]):
        with contextlib.suppress(RejectedError, TypeError, ValueError):
            recorder.apply(command or flow.draw())
        if not number % 500:
            frames.append(recorder.frame())
    frames.append(recorder.frame())
    summary = clob.journal.verify(frames)
    counts = {"frames": summary.frames, "commands": summary.commands, "last": summary.last_seq}
    records.put("journal.events", summary.event_hash, **counts)
    records.put("journal.state", summary.state_hash)
    records.put("journal.frames", b"".join(frames), bytes=sum(map(len, frames)))


def record_signing(records: Records) -> None:
    """Record hashes, signatures, verdicts and explanations of orders with fixed keys."""
    domain = Domain("clob", "1", 31337, "0x5FbDB2315678afecb367f032d93F642f64180aa3")
    hashes, verdicts, texts, signed = Digest(), Digest(), Digest(), []
    for number in range(60):
        key = KEYS[number % 3]
        order = SignedOrder.from_price_size(
            side=Side(number % 2), price=1 + number, size=ONE * (number + 1), token_id=101 + number,
            salt=number, maker=ADDRESSES[number % 3], signature_type=number // 2 % 2,
        )  # fmt: skip
        made = sign(order, domain, key)
        signed += [made, msgspec.structs.replace(made, salt=number + 1)]
        digest = order_hash(order, domain)
        hashes.add([digest.hex(), personal_hash(digest).hex()])
        hashes.add([made.to_json(), typed_data(order, domain), recover_signer(made, domain)])
    for made, verdict in zip(signed, verify_batch(signed, domain), strict=True):
        code = None
        try:
            verify(made, domain)
        except RejectedError as error:
            code = error.code
            texts.add(str(error))
        verdicts.add((code, repr(verdict).split("(")[0]))
    texts.add([str(explain(made, domain)) for made in signed[:12]])
    hashes.put(records, "signing.hashes")
    verdicts.put(records, "signing.verdicts")
    texts.put(records, "signing.text")
