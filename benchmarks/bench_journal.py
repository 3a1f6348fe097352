"""Journal benchmarks: encode and decode a command, write a chained frame, replay a whole journal.

The replayed journal is the mixed stream from its first command on, in frames of 64 commands, with
one market. Reading, checking the hash chain, decoding and executing are all timed.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.bench_submit import NUM_TIMED, ROUNDS, ROUNDS_QUICK, TIMED_QUICK
from benchmarks.measure import Row, check_equal, timed
from benchmarks.workload import load
from clob import Order, Side, Submit
from clob.codec import decode, encode
from clob.commands import Command
from clob.journal import ZERO_HASH, encode_frame, frame_hash, run

PER_FRAME = 64
NUM_CODED = 100_000
NS_PER_S = 1_000_000_000


def submission(number: int) -> Submit:
    """Return a command with realistic fields: long token id, wallet address, own id, hash."""
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


def frames(todo: Sequence[Command], per_frame: int = PER_FRAME) -> Iterator[bytes]:
    """Yield the frames of a journal."""
    previous = ZERO_HASH
    for start in range(0, len(todo), per_frame):
        frame = encode_frame(todo[start : start + per_frame], start + 1, previous)
        yield frame
        previous = frame_hash(frame)


def drop(results: Iterable[object]) -> None:
    """Exhaust an iterator without keeping results, so that the allocator reuses warm memory."""
    deque(results, maxlen=0)


def ns_each(work: Callable[[], object], count: int, rounds: int) -> float:
    """Return the median time per item in nanoseconds."""
    return statistics.median(timed(work, gc_enabled=True) for _ in range(rounds)) / count


def codec_rows(count: int, rounds: int) -> Iterator[Row]:
    """Yield the cost of a submission, alone and in a frame."""
    todo = [submission(number) for number in range(count)]
    raws = list(map(encode, todo))
    check_equal("commands after encode and decode", todo, list(map(decode, raws)))
    for title, limit_ns, work in (
        ("journal encode a submission", 400, lambda: drop(map(encode, todo))),
        ("journal decode a submission", 900, lambda: drop(map(decode, raws))),
        ("journal encode and chain a submission", 1_500, lambda: drop(frames(todo))),
        ("journal encode and chain, one frame per command", None, lambda: drop(frames(todo, 1))),
    ):
        taken_ns = ns_each(work, count, rounds)
        target = "" if limit_ns is None else f"<= {limit_ns} ns"
        met = None if limit_ns is None else taken_ns <= limit_ns
        yield Row(title, target, f"{taken_ns:.0f} ns", met, None, taken_ns)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    rounds, num_timed = (ROUNDS_QUICK, TIMED_QUICK) if quick else (ROUNDS, NUM_TIMED)
    yield from codec_rows(num_timed if quick else NUM_CODED, rounds)
    todo = commands(load("mixed").head(num_timed), 1, hashed=False)
    data = b"".join(frames(todo))
    direct, replayed = (matcher_for(1, set(), accounts=False) for _ in range(2))
    check_equal("result of the journal", direct.replay(todo), run(data, replayed))
    check_equal("state after the journal", direct.state_hash(), replayed.state_hash())
    matchers = iter([matcher_for(1, set(), accounts=False) for _ in range(rounds)])
    taken_ns = ns_each(lambda: run(data, next(matchers)), len(todo), rounds)
    per_s = NS_PER_S / taken_ns
    yield Row(
        "journal replay, mixed",
        ">= 500,000 /s",
        f"{per_s:,.0f} /s",
        per_s >= 500_000,
        None,
        taken_ns,
    )
