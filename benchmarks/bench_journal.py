"""The journal: a command to bytes and back, into a chained frame, and a whole journal run again.

What is run again is the mixed stream from its first command on, in frames of 64, by a matcher with
one market: reading, checking the chain, decoding and executing are all under the clock.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.bench_submit import NUM_TIMED, ROUNDS, ROUNDS_QUICK, TIMED_QUICK
from benchmarks.measure import Row, same, timed
from benchmarks.workload import load
from clob import Order, Side, Submit
from clob.codec import decode, encode
from clob.commands import Command
from clob.journal import ZERO_HASH, encode_frame, frame_hash, run

PER_FRAME = 64
NUM_CODED = 100_000
NS_PER_S = 1_000_000_000


def submission(number: int) -> Submit:
    """A command as a venue has it: a long token, a wallet, an id of its own, a hash."""
    order = Order(
        id=f"{number:022x}",
        token="7" * 78,
        maker=f"0x{number % 1000:040x}",
        side=Side.SELL,
        price=1 + number % 99,
        size=(1 + number % 100) * 10**18,
        nonce=1,
    )
    signed = number.to_bytes(32, "little")
    return Submit(market="m0", order=order, order_hash=signed, now_ms=1_700_000_000_000 + number)


def frames(todo: list[Command], per_frame: int = PER_FRAME) -> Iterator[bytes]:
    """A journal of commands."""
    previous = ZERO_HASH
    for start in range(0, len(todo), per_frame):
        frame = encode_frame(todo[start : start + per_frame], start + 1, previous)
        yield frame
        previous = frame_hash(frame)


def drop(made: Iterable[object]) -> None:
    """Make everything and keep nothing, so that the allocator has its memory warm."""
    deque(made, maxlen=0)


def each(work: Callable[[], object], count: int, rounds: int) -> float:
    """The median of the nanoseconds that one of so many takes."""
    return statistics.median(timed(work, collected=True) for _ in range(rounds)) / count


def codec_rows(count: int, rounds: int) -> Iterator[Row]:
    """What a submission costs, on its own and in a frame."""
    todo = [submission(number) for number in range(count)]
    raws = list(map(encode, todo))
    same("the codec", todo, list(map(decode, raws)))
    for title, limit_ns, work in (
        ("journal encode a submission", 400, lambda: drop(map(encode, todo))),
        ("journal decode a submission", 900, lambda: drop(map(decode, raws))),
        ("journal encode and chain a submission", 1_500, lambda: drop(frames(todo))),
        ("journal encode and chain, a frame each", None, lambda: drop(frames(todo, 1))),
    ):
        taken_ns = each(work, count, rounds)
        target = "" if limit_ns is None else f"<= {limit_ns} ns"
        met = None if limit_ns is None else taken_ns <= limit_ns
        yield Row(title, target, f"{taken_ns:.0f} ns", met, None, taken_ns)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    rounds, num_timed = (ROUNDS_QUICK, TIMED_QUICK) if quick else (ROUNDS, NUM_TIMED)
    yield from codec_rows(num_timed if quick else NUM_CODED, rounds)
    todo = commands(load("mixed").head(num_timed), 1, hashed=False)
    data = b"".join(frames(todo))
    straight, again = (matcher_for(1, set(), accounts=False) for _ in range(2))
    same("the journal", straight.replay(todo), run(data, again))
    same("the journal", straight.state_hash(), again.state_hash())
    makers = iter([matcher_for(1, set(), accounts=False) for _ in range(rounds)])
    taken_ns = each(lambda: run(data, next(makers)), len(todo), rounds)
    per_s = NS_PER_S / taken_ns
    yield Row(
        "journal run again, mixed",
        ">= 500,000 /s",
        f"{per_s:,.0f} /s",
        per_s >= 500_000,
        None,
        taken_ns,
    )
