"""Time of the chain: that of the machine, whatever the number of blocks or a short wrong clock."""

import pytest

from clob_server.chain.devchain.node import SECOND_NS, SteadyClock
from tests.chain.devchain.conftest import BEGIN_S
from tests.chain.devchain.senders import Sender

DAY_S = 86_400


class Machine:
    """A wall clock and the ticks since the start, in seconds."""

    def __init__(self):
        self.wall_s, self.ticks_s = BEGIN_S, 500
        self.clock = SteadyClock(lambda: self.wall_s * SECOND_NS, lambda: self.ticks_s * SECOND_NS)

    def wait(self, seconds):
        """Let time pass."""
        self.wall_s += seconds
        self.ticks_s += seconds


@pytest.fixture
def machine():
    return Machine()


def test_clock_follows_the_machine(machine):
    for _ in range(3):
        assert machine.clock() == machine.wall_s
        machine.wait(7)


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S, 3650 * DAY_S])
def test_short_jump_of_the_wall_clock_is_ignored(machine, jump_s):
    machine.wall_s += jump_s
    assert machine.clock() == BEGIN_S
    machine.wait(9)
    assert machine.clock() == BEGIN_S + 9
    machine.wall_s -= jump_s
    machine.wait(60)
    assert machine.clock() == BEGIN_S + 69


def test_lasting_jump_of_the_wall_clock_counts_after_ten_seconds(machine):
    machine.wall_s += DAY_S
    machine.clock()
    machine.wait(10)
    assert machine.clock() == machine.wall_s


def test_jump_counts_from_the_last_one(machine):
    for _ in range(5):
        machine.wall_s += 60
        machine.clock()
        machine.wait(5)
    assert machine.clock() == BEGIN_S + 25
    machine.wait(5)
    assert machine.clock() == machine.wall_s


def test_many_transactions_in_a_second_do_not_move_the_chain_ahead(rpc):
    sender = Sender()
    for _ in range(50):
        rpc.ask("eth_sendRawTransaction", sender.sign(f"0x{7:040x}", value=1))
    newest = rpc.ask("eth_getBlockByNumber", "latest", False)
    assert (newest["number"], newest["timestamp"]) == (hex(50), hex(BEGIN_S))
