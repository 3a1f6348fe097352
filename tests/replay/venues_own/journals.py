"""Journals of random flow to be read, and how a replay of them is held against the matcher."""

import random  # noqa: TID251 - seeded

from clob import RejectedError
from clob.journal import Recorder
from tests.matcher_model.flow import Flow


def recorded(world, seed, count, *, per_frame=7, recorder=None):
    """Tell a random flow to a matcher; give it, and the frames."""
    recorder = recorder or Recorder()
    flow = Flow(random.Random(seed), world, recorder.matcher)
    # Where there was another flow before it, it goes on at that time, with names of its own.
    flow.now_ms, flow.count = max(flow.now_ms, recorder.matcher.now_ms), 10_000 * seed
    frames = []
    for number, command in enumerate((*flow.opening(), *(None,) * count)):
        told(recorder, command or flow.command())
        if number % per_frame == per_frame - 1:
            frames.append(recorder.frame())
    frames.append(recorder.frame())
    return recorder.matcher, b"".join(frames)


def told(recorder, *commands):
    """Tell commands, whether they are refused or not."""
    for command in commands:
        try:
            recorder.apply(command)
        except (RejectedError, TypeError, ValueError):
            continue


def depth_of(found):
    """Give both sides of a depth as price and size in wei."""
    return [[(level.price, level.size) for level in side] for side in (found.bids, found.asks)]
