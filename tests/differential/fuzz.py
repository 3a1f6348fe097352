"""The same hostile input for the compiled package and its plain-Python twin.

``python -m tests.differential.fuzz --cases 10000000 --seed 1`` runs without pytest. A case is
damaged bytes of a command or event, of another Struct, of a frame or of a snapshot, a command of
valid bytes with hostile values, or one hostile record of a batch. Both kinds must accept the same
cases with the same results, and reject the same ones with the same error class, code, text and
position. Accepted bytes are those that the result is written as.
"""

import argparse
import hashlib
import importlib
import random  # noqa: TID251 - seeded, and outside the engine
import sys
import time
from collections import Counter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from clob.errors import ClobError, FillsFullError, InvariantError, RunRejectedError
from clob.journal.frames import ZERO_HASH
from clob.matcher import state_records
from clob.records import BEST, EVENT, FILL
from tests import books, matchers
from tests.differential.mutation import mutant, value_of
from tests.differential.test_dirty_fuzz import HI, LO, dirty_rows
from tests.journal import values
from tests.matcher_model.flow import Flow
from tests.matcher_model.spoil import spoiled
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT

STRUCTS = (*values.PARTS, *(
    kind
    for kind in vars(state_records).values()
    if isinstance(kind, type) and kind.__module__ == state_records.__name__
))  # fmt: skip
"""Structs that are read without the number of a kind."""


class Kind(NamedTuple):
    """The modules of one kind: the compiled package or the twin."""

    codec: Any
    frames: Any
    snapshots: Any
    matcher_class: Any
    book_class: Any

    @classmethod
    def load(cls, name):
        """Load one kind; the other one stays usable in the same process."""
        codec = values.load(name)
        return cls(
            codec,
            with_codec("clob.journal.frames", codec),
            with_codec("clob.matcher.snapshot", codec),
            matchers.load(name),
            books.load(name),
        )

    def restore(self, state):
        """Return a matcher with the state of a snapshot."""
        matcher = self.matcher_class()
        self.snapshots.restore(matcher._engine, state)
        return matcher


def with_codec(name, codec):
    """Load a module once more, with the functions of this codec in it."""
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for function in ("decode", "encode", "encode_all", "read", "split", "write"):
        if hasattr(module, function):
            setattr(module, function, getattr(codec, function))
    return module


def outcome(call, *arguments):
    """Return the result of a call, or the class, code, text and position of its error."""
    try:
        return call(*arguments)
    except (ClobError, TypeError, ValueError) as error:
        return Failure(
            type(error), getattr(error, "code", ""), str(error), getattr(error, "offset", None)
        )


class Failure(NamedTuple):
    """An error of one kind, to compare with that of the other."""

    kind: type
    code: str
    text: str
    offset: int | None


class Fuzz:
    """Draws cases from a seed and compares both kinds; counts what it did."""

    def __init__(self, seed):
        self.seed = seed
        self.kinds = twin, compiled = Kind.load("python"), Kind.load("compiled")
        self.twin, self.compiled = twin, compiled
        self.counts = Counter()
        self.block = 0
        self.start_block()

    def run(self, cases, targets=None):
        """Run at least this many cases, all targets in turn in proportion to their speed."""
        chosen = [(name, n) for name, n in SHARES.items() if targets is None or name in targets]
        while sum(self.counts[name] for name, _ in chosen) < cases:
            self.start_block()
            for name, count in chosen:
                getattr(self, name)(count)
        return self.counts

    def start_block(self):
        """Draw new values to damage; a block depends on nothing but the seed and its number."""
        self.block += 1
        self.rng = rng = random.Random(f"{self.seed} {self.block}")
        kinds = (*values.COMMANDS, *values.EVENTS)
        drawn = [value_of(rng, kind) for kind in kinds]
        self.raws = list(map(self.twin.codec.encode, (*values.ONE_OF_EACH, *drawn)))
        self.story = self.commands_of(rng.choice((SMALL, TIGHT, PAIRED)), rng.randrange(30, 120))

    def commands_of(self, world, count):
        """Return a stream of mostly valid commands."""
        flow = Flow(self.rng, world, self.compiled.matcher_class())
        stream = []
        for command in [*flow.opening(), *(None for _ in range(count))]:
            command = command or flow.command()
            stream.append(command)
            outcome(flow.matcher.apply, command)
        self.matcher = flow.matcher
        return stream

    def same(self, name, case, expected, got):
        """Count a case and compare the results of the twin and of the compiled kind."""
        self.counts[name] += 1
        rejected = isinstance(expected, Failure)
        self.counts[f"{name} accepted"] += not rejected
        # Equal is not the same: True is 1, and a Side is a number.
        if expected != got or repr(expected) != repr(got):
            where, expected, got = first_difference(expected, got)
            raise AssertionError(
                f"{name} of seed {self.seed}, block {self.block}: {shown(case)}\n"
                f"{where or 'result'}:\n    twin {shown(expected)}\ncompiled {shown(got)}"
            )
        return not rejected

    # ----- bytes -----

    def values(self, count):
        """Damaged bytes of commands and events."""
        for _ in range(count):
            raw = mutant(self.rng, self.rng.choice(self.raws), self.raws)
            expected, got = (outcome(kind.codec.decode, raw) for kind in self.kinds)
            if self.same("values", raw, expected, got):
                for kind in self.kinds:
                    assert kind.codec.encode(expected) == raw, raw

    def structs(self, count):
        """Damaged bytes of other Structs, anywhere in the data."""
        kinds = [(kind, value_of(self.rng, kind)) for kind in STRUCTS]
        drawn = [(kind, self.twin.codec.write(value)) for kind, value in kinds]
        raws = [raw for _, raw in drawn]
        for _ in range(count):
            kind, raw = self.rng.choice(drawn)
            offset = self.rng.choice((0, 0, 1, 7, -1, len(raw) + 9))
            raw = bytes(max(0, offset)) + mutant(self.rng, raw, raws)
            case = kind, raw, offset
            expected, got = (outcome(each.codec.read, *case) for each in self.kinds)
            if self.same("structs", case, expected, got):
                value, end = expected
                for each in self.kinds:
                    assert each.codec.write(value) == raw[offset:end], case

    def wrong(self, count):
        """Commands with values of wrong types and ranges, to encode."""
        for _ in range(count):
            value = spoiled(self.rng, self.rng.choice(self.story))
            expected, got = (outcome(kind.codec.encode, value) for kind in self.kinds)
            self.same("wrong", value, expected, got)

    def journals(self, count):
        """Damaged frames, half of them with a valid length and chain hash."""
        frames = [self.frame() for _ in range(20)]
        for _ in range(count):
            raw = mutant(self.rng, self.rng.choice(frames), frames)
            if self.rng.random() < 0.7 and len(raw) > 44:
                raw = resealed(raw[:-32], self.rng.random() < 0.8)
            expected, got = (outcome(read_all, kind.frames, raw) for kind in self.kinds)
            self.same("journals", raw, expected, got)

    def frame(self):
        """Return a frame of a few commands."""
        rng = self.rng
        some = [outcome(self.twin.codec.encode, rng.choice(self.story)) for _ in range(4)]
        raws = [raw for raw in some if isinstance(raw, bytes)] + [b"\x80own"]
        return self.twin.frames.encode_frame(
            raws,
            1,
            ZERO_HASH,
            event_hash=rng.choice((None, rng.randbytes(32))),
            state_hash=rng.choice((None, rng.randbytes(32))),
            outcomes=rng.choice((None, [rng.randbytes(32) for _ in raws])),
        )

    def states(self, count):
        """Damaged snapshots with a valid hash; restored ones must be written as the same bytes."""
        bodies = [self.matcher.snapshot()[:-32]]
        for command in self.story[-3:]:
            outcome(self.matcher.apply, command)
            bodies.append(self.matcher.snapshot()[:-32])
        for _ in range(count):
            body = mutant(self.rng, self.rng.choice(bodies), bodies)
            state = body + hashlib.blake2b(body, digest_size=32).digest()
            restored = [outcome(kind.restore, state) for kind in self.kinds]
            expected, got = (each if isinstance(each, Failure) else True for each in restored)
            if self.same("states", state, expected, got):
                for kind, matcher in zip(self.kinds, restored, strict=True):
                    assert kind.snapshots.snapshot(matcher._engine) == state, state
                    try:
                        matcher.audit()
                    except InvariantError as error:
                        raise AssertionError(f"{error}: {state!r}") from error

    # ----- commands and records -----

    def calls(self, count):
        """Damaged commands that decode, applied by both matchers."""
        twin, compiled = (kind.matcher_class() for kind in self.kinds)
        for command in self.story:
            assert outcome(twin.apply, command) == outcome(compiled.apply, command), command
        raws = [outcome(self.twin.codec.encode, command) for command in self.story]
        raws = [raw for raw in raws if isinstance(raw, bytes)]
        latest = compiled.now_ms
        for _ in range(count):
            command = outcome(
                self.compiled.codec.decode, mutant(self.rng, self.rng.choice(raws), raws)
            )
            if isinstance(command, Failure):
                self.counts["calls"] += 1
                continue
            if type(command) in values.COMMANDS and self.rng.random() < 0.98:
                command = msgspec.structs.replace(command, now_ms=latest)
            expected, got = (outcome(each.apply, command) for each in (twin, compiled))
            self.same("calls", command, expected, got)
        assert twin.snapshot() == compiled.snapshot()
        for each in (twin, compiled):
            each.audit()

    def rows(self, count):
        """Hostile records, run in batches and in ranges."""
        rng = self.rng
        lot_wei = rng.choice((1, 10, 2**33, 2**90))
        capacity = rng.choice((0, 0, 1, 5, 64))
        pair = [kind.book_class(LO, HI, "", lot_wei, capacity) for kind in self.kinds]
        done = 0
        while done < count:
            rows = np.array(
                dirty_rows(
                    rng, rng.choice((1, 7, 100, 300)), rng.choice((8, 40)), rng.choice((0.02, 0.3))
                ),
                EVENT,
            )
            run = rng.choice((run_rows, advance_rows))
            choices = rng.getrandbits(64)
            results = [outcome(run, book, rows, random.Random(choices)) for book in pair]
            self.same("rows", rows.tolist(), *results)
            self.counts["rows"] += len(rows) - 1
            done += len(rows)
            states = [book.state_bytes() for book in pair]
            assert states[0] == states[1], f"seed {self.seed}, block {self.block}: {rows.tolist()}"
        pair[1].check()


SHARES = {
    "values": 1_000,
    "structs": 300,
    "wrong": 100,
    "journals": 300,
    "states": 100,
    "calls": 200,
    "rows": 1_500,
}
"""Cases of each target in a block, by its method of :class:`Fuzz`."""


def first_difference(one, other, where=""):
    """Return the path to the first difference of two results, and both values there."""
    if isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            if repr(left) != repr(right):
                return first_difference(left, right, f"{where}[{place}]")
    return where, one, other


def shown(value):
    """Return the text of a case, a very long one without its middle."""
    text = repr(value)
    return text if len(text) < 6_000 else f"{text[:4_000]} ... {text[-1_500:]}"


def resealed(body, lengthened):
    """Append the chain hash of a first frame, with the length set to the number of bytes."""
    if lengthened:
        body = body[:8] + (len(body) - 12 + 32).to_bytes(4, "little") + body[12:]
    return body + hashlib.blake2b(ZERO_HASH + body, digest_size=32).digest()


def read_all(frames, raw):
    """Return the fields of each frame, and its commands or their error."""
    return [
        (msgspec.structs.astuple(frame), outcome(frame.commands))
        for frame in frames.read_frames(raw)
    ]


def run_rows(book, rows, rng):
    """Run a batch with random arrays; return everything it reports."""
    status = np.full(len(rows), 99, np.uint8) if rng.random() < 0.7 else None
    fills = np.zeros(rng.choice((0, 3, 400)), FILL) if rng.random() < 0.5 else None
    try:
        made, stop = book.run(rows, fills, status), None
    except (RunRejectedError, FillsFullError) as error:
        made, stop = error.fills, (type(error), error.index, str(error))
    return made.tolist(), stop, None if status is None else status.tolist()


def advance_rows(book, rows, rng):
    """Execute a range with random options; return everything it reports."""
    fills = np.zeros(rng.choice((0, 3, 400)), FILL)
    bests = np.zeros(rng.choice((1, 400)), BEST) if rng.random() < 0.5 else None
    arrays = [np.full(len(rows), 99, np.uint8) if rng.random() < 0.6 else None for _ in range(3)]
    options = {
        "base": rng.choice((0, 1, 2**40)),
        "watch": rng.choice((0, 0, 1, 3)),
        "passes": rng.random() < 0.3,
        "verify": rng.random() < 0.2,
        "start": rng.randrange(len(rows)) if rng.random() < 0.3 else 0,
        "until_ns": rng.choice((None, None, -1, 0, 1, 2**62)),
        "instrument": None if rng.random() < 0.9 else int(rows["instrument"][0]),
    }
    status, kinds, differs = arrays
    try:
        ended = book.advance(
            rows, fills, status=status, bests=bests, kinds=kinds, differs=differs, **options
        )
    except RunRejectedError as error:
        ended = error.index, str(error), error.fills.tolist()
    written = (fills, bests, *arrays)
    return ended, [None if array is None else array.tolist() for array in written]


def main(argv=None):
    """Run cases until there are enough or a difference was found; print the counts."""
    parser = argparse.ArgumentParser(description="Compare the compiled package with its twin.")
    parser.add_argument("--cases", type=int, default=100_000, help="the number of cases")
    parser.add_argument("--seed", default="1", help="any text; each seed draws other cases")
    parser.add_argument("--only", nargs="+", choices=SHARES, help="the targets; all by default")
    arguments = parser.parse_args(argv)
    began = time.perf_counter()
    try:
        counts = Fuzz(arguments.seed).run(arguments.cases, arguments.only)
    except AssertionError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    lines = [
        f"{name:10}{counts[name]:12,} cases,{counts[name + ' accepted']:12,} accepted"
        for name in SHARES
    ]
    total, seconds = sum(counts[name] for name in SHARES), time.perf_counter() - began
    lines.append(f"{total:,} cases without a difference, {seconds:.0f} s\n")
    sys.stdout.write("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
