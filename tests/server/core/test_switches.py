"""Switches on a sequencer with a clock that the test moves."""

import asyncio
import random  # noqa: TID251 - seeded

from clob import AddMarket, CancelAll, Market, Mode, Order, SetMode, Side, Submit
from clob.codec import decode
from clob_server.core.clock import ClockUnsureError
from clob_server.core.commands import FireSwitch, SetCancelOnDisconnect, decode_own
from clob_server.core.recovery import recover
from clob_server.core.registry import Switch
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.core.switches import RETURN_S, CancelSwitches, Deadlines
from clob_server.log import MemoryLog

START_MS = 1_700_000_000_000
LOOKS = 3


class Harness:
    """A sequencer with switches, whose monotonic clock is moved by :meth:`pass_s`."""

    def __init__(self, log=None, away_ms=0):
        self.log = log or MemoryLog()
        self.state = recover(self.log)[0]
        self.now_ms = max(START_MS, self.state.now_ms) + away_ms
        self.now_s = 1_000.0
        self.unsure = False
        self.sequencer = Sequencer(self.log, self.state, self.clock_ms)
        self.switches = CancelSwitches(self.sequencer, lambda: self.now_s)
        self.sequencer.subscribe(self.switches.on_batch)

    def clock_ms(self):
        if self.unsure:
            raise ClockUnsureError("the clock is not sure", 1)
        return self.now_ms

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(self.sequencer.run())]
        self.switches.start()
        return self

    async def __aexit__(self, *error):
        self.sequencer.stop()
        await asyncio.gather(*self.tasks)

    async def pass_s(self, seconds):
        """Let time pass on both clocks, and fire the switches that are due."""
        self.now_s += seconds
        self.now_ms += int(seconds * 1000)
        for _ in range(LOOKS):
            await asyncio.gather(*self.switches._tasks, self.switches._fire_due())
            self.now_s += 0.1

    async def rest(self, *makers, market="m"):
        """Place an order of each maker in a market, which is added if needed."""
        if market not in self.state.markets:
            await self.sequencer.submit(
                AddMarket(market=Market(id=market, yes=f"{market}y", no=f"{market}n"))
            )
        for maker in makers:
            order = Order(
                id=f"o{self.state.num_orders}",
                token=f"{market}y",
                maker=maker,
                side=Side.BUY,
                price=10,
                size=100,
            )
            await self.sequencer.submit(Submit(market=market, order=order))

    def num_open(self, maker):
        return len(self.state.matcher.open_orders(maker))

    def commands(self, *kinds):
        """Return the commands of some types in the log."""
        raws = [raw for frame in self.log.read(0) for raw in frame.raw]
        read = [decode_own(raw) if raw[0] >= 128 else decode(raw) for raw in raws]
        return [each for each in read if type(each) in kinds]


async def test_heartbeats_keep_the_orders_and_are_not_logged():
    async with Harness() as it:
        await it.rest("a", "b")
        assert await it.switches.heartbeat(["a"], 2_000)
        seq = it.sequencer.seq
        for _ in range(20):
            await it.pass_s(1.5)
            assert not await it.switches.heartbeat(["a"], 2_000)
        assert (it.num_open("a"), it.sequencer.seq) == (1, seq)
        await it.pass_s(2)
        assert (it.num_open("a"), it.num_open("b")) == (0, 1)
        await it.pass_s(3_600)
        assert len(it.commands(FireSwitch)) == len(it.commands(CancelAll)) == 1
        assert it.state.registry.switches == {}


async def test_shorter_and_longer_timeouts_count_from_their_change():
    async with Harness() as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 60_000)
        await it.switches.heartbeat(["a"], 2_000)
        await it.pass_s(1)
        await it.switches.heartbeat(["a"], 30_000)
        await it.pass_s(20)
        assert it.num_open("a") == 1
        await it.switches.heartbeat(["a"], 1_000)
        await it.pass_s(1)
        assert it.num_open("a") == 0


async def test_disarmed_switch_does_not_fire():
    async with Harness() as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 2_000)
        assert await it.switches.heartbeat(["a"], 0)
        await it.pass_s(3_600)
        assert it.num_open("a") == 1
        assert it.commands(FireSwitch) == []


async def test_jump_of_the_wall_clock_fires_nothing():
    async with Harness() as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 2_000)
        it.now_ms += 10**9
        await it.pass_s(1)
        assert it.num_open("a") == 1


async def test_switch_that_is_due_while_the_time_is_uncertain_fires_afterwards():
    async with Harness() as it:
        await it.rest("a", "b")
        await it.switches.heartbeat(["a", "b"], 2_000)
        it.unsure = True
        await it.pass_s(5)
        assert not await it.switches.heartbeat(["b"], 2_000)
        assert (it.num_open("a"), it.num_open("b")) == (1, 1)
        it.unsure = False
        await it.pass_s(1)
        assert (it.num_open("a"), it.num_open("b")) == (0, 1)


async def test_full_queue_delays_a_switch():
    async with Harness() as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 2_000)
        it.sequencer._max_queued = 0
        await it.pass_s(5)
        assert it.num_open("a") == 1
        it.sequencer._max_queued = 10
        await it.pass_s(1)
        assert it.num_open("a") == 0


async def test_halted_market_keeps_its_orders_until_it_opens():
    async with Harness() as it:
        await it.rest("a", market="m")
        await it.rest("a", market="n")
        await it.sequencer.submit(SetMode(market="m", mode=Mode.HALTED))
        await it.switches.heartbeat(["a"], 2_000)
        await it.pass_s(5)
        assert it.num_open("a") == 1
        seq = it.sequencer.seq
        await it.pass_s(5)
        assert it.sequencer.seq == seq
        await it.sequencer.submit(SetMode(market="m", mode=Mode.OPEN))
        await it.pass_s(1)
        assert it.num_open("a") == 0
        assert len(it.commands(FireSwitch)) == 1


async def test_stopped_server_fires_nothing_and_logs_the_time():
    log = MemoryLog()
    async with Harness(log) as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 2_000)
        it.switches.hold("a")
        await it.pass_s(1)
        it.now_ms += 10_000  # heartbeats without commands
        lease = it.switches.hold("a")
        it.switches.stop()
        lease.end()
        await it.pass_s(60)
        await it.switches.close()
        assert it.num_open("a") == 1
    async with Harness(log, away_ms=1_900) as it:
        await it.rest("b")
        assert it.num_open("a") == 1


async def test_start_after_the_timeout_fires_before_the_first_command():
    log = MemoryLog()
    async with Harness(log) as it:
        await it.rest("a", "b", "c")
        await it.switches.heartbeat(["a"], 2_000)
        await it.switches.heartbeat(["b"], 3_000)
    async with Harness(log, away_ms=3_000) as it:
        it.unsure = True
        await it.pass_s(0)
        assert it.num_open("a") == 1
        it.unsure = False
        await it.rest("d")
        assert [it.num_open(maker) for maker in "abcd"] == [0, 1, 1, 1]
        assert [each.maker for each in it.commands(FireSwitch)] == ["a"]
        await it.pass_s(2)
        assert it.num_open("b") == 1
        await it.pass_s(1)
        assert it.num_open("b") == 0
    async with Harness(log, away_ms=10**6) as it:
        await it.rest("e")
        assert len(it.commands(FireSwitch)) == 2


async def test_socket_has_a_time_to_return_after_a_start():
    log = MemoryLog()
    async with Harness(log) as it:
        await it.rest("a", "b")
        for maker in "ab":
            await it.sequencer.submit(SetCancelOnDisconnect(maker=maker, armed=True))
    async with Harness(log, away_ms=10**6) as it:
        await it.pass_s(RETURN_S - 1)
        lease = it.switches.hold("a")
        assert it.switches.is_armed(lease)
        await it.pass_s(2)
        assert (it.num_open("a"), it.num_open("b")) == (1, 0)
        lease.end()
        await it.pass_s(0)
        assert it.num_open("a") == 0


async def test_socket_that_returns_at_once_finds_no_orders_and_stays_armed():
    async with Harness() as it:
        await it.rest("a")
        await it.sequencer.submit(SetCancelOnDisconnect(maker="a", armed=True))
        it.switches.hold("a").end()
        lease = it.switches.hold("a")
        await it.pass_s(60)
        assert it.num_open("a") == 0
        assert len(it.commands(CancelAll)) == 1
        assert it.switches.is_armed(lease)
        await it.rest("a")
        await it.pass_s(60)
        assert it.num_open("a") == 1
        lease.end()
        await it.pass_s(0)
        assert it.num_open("a") == 0
        assert not it.state.registry.switches
        assert len(it.commands(FireSwitch)) == 1


async def test_heartbeat_during_a_firing_arms_anew():
    """A heartbeat that arrives while the switch is written counts from after the firing."""
    async with Harness() as it:
        await it.rest("a")
        await it.switches.heartbeat(["a"], 2_000)
        it.now_s += 3
        firing = asyncio.create_task(it.switches._fire(("a", "heartbeat")))
        while ("a", "heartbeat") not in it.switches._ending:
            await asyncio.sleep(0)
        assert await it.switches.heartbeat(["a"], 2_000)
        await firing
        assert it.state.registry.switches == {"a": Switch(timeout_ms=2_000)}
        assert it.num_open("a") == 0


async def test_snapshot_keeps_the_switches():
    async with Harness() as it:
        await it.switches.heartbeat(["b", "a"], 2_000)
        await it.sequencer.submit(SetCancelOnDisconnect(maker="a", armed=True))
        snapshot = it.state.snapshot()
    restored = ServerState.restore(snapshot)
    assert restored.registry.switches == {"a": Switch(2_000, True), "b": Switch(2_000)}
    assert restored.snapshot() == snapshot


def test_deadlines_equal_those_of_a_plain_table():
    """Every due switch is returned, and none before it is due."""
    chance = random.Random(21)
    for _ in range(50):
        deadlines, table, now = Deadlines(), {}, 0.0
        for _ in range(300):
            key = (chance.choice("abcdef"), "heartbeat")
            choice = chance.random()
            if choice < 0.5:
                table[key] = now + chance.choice((1, 5, 30))
                deadlines.set(key, table[key])
            elif choice < 0.6:
                table.pop(key, None)
                deadlines.remove(key)
            else:
                now += chance.random() * 3
                due = deadlines.take_due(now)
                assert sorted(due) == sorted(each for each in table if table[each] <= now)
                for each in due:
                    deadlines.remove(each)
                    del table[each]
