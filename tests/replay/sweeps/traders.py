"""Strategies for sweeps, in a module so that worker processes can import them."""

import os
import signal
from pathlib import Path

from clob.replay import Strategy
from clob.replay.samples.synthetic import Draws
from clob.replay.strategies import MarketMaker

MINUTE_NS = 60 * 10**9


class Moody(MarketMaker):
    """Skips some wakes, drawn from its seed."""

    def __init__(self, size=100, half_spread=1, seed=0):
        super().__init__(half_spread, size)
        self.draws = Draws(seed if isinstance(seed, int) else sum(seed.encode()))

    def on_wake(self, market):
        if self.draws.chance(70):
            super().on_wake(market)


class Faulty(MarketMaker):
    """Fails at some sizes, each in another way."""

    def __init__(self, size):
        super().__init__(size=size)
        if size == 2:
            raise ValueError("size 2 is\nnot for me")

    def on_wake(self, market):
        if self.size == 3:
            raise SystemExit("gone")
        if self.size == 4:
            raise AssertionError
        super().on_wake(market)


class Fragile(MarketMaker):
    """Is killed at size 2, as by the kernel, until a file exists."""

    def __init__(self, size, file):
        super().__init__(size=size)
        if size == 2 and not Path(file).exists():
            os.kill(os.getpid(), signal.SIGKILL)


class Interrupter(MarketMaker):
    """Presses Ctrl-C in the parent process at size 3, and then never ends."""

    def __init__(self, size):
        super().__init__(size=size)
        if size == 3:
            os.kill(os.getppid(), signal.SIGINT)
            signal.pause()


class Idle(Strategy):
    """Sends nothing."""


def shy_maker(size):
    """Return a strategy; a function is as good as a class."""
    return MarketMaker(2, size)


def local_class():
    """Return a class that no other process can import."""

    class Local(MarketMaker):
        pass

    return Local
