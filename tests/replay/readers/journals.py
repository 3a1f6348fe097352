"""Journals of random flow, and helpers to compare their replay with the matcher."""

import random  # noqa: TID251 - seeded

from clob import RejectedError
from clob.journal import Recorder
from tests.matcher_model.flow import Flow


def record_flow(world, seed, count, *, per_frame=7, recorder=None):
    """Record a random flow; return the matcher and the frames."""
    recorder = recorder or Recorder()
    flow = Flow(random.Random(seed), world, recorder.matcher)
    # After an earlier flow it continues at that time, with ids of its own.
    flow.now_ms, flow.count = max(flow.now_ms, recorder.matcher.now_ms), 10_000 * seed
    frames = []
    for number, command in enumerate((*flow.opening(), *(None,) * count)):
        run_commands(recorder, command or flow.command())
        if number % per_frame == per_frame - 1:
            frames.append(recorder.frame())
    frames.append(recorder.frame())
    return recorder.matcher, b"".join(frames)


def run_commands(recorder, *commands):
    """Execute commands and ignore rejections."""
    for command in commands:
        try:
            recorder.apply(command)
        except (RejectedError, TypeError, ValueError):
            continue


def depth_of(found):
    """Return both sides of a depth as price and size in wei."""
    return [[(level.price, level.size) for level in side] for side in (found.bids, found.asks)]
