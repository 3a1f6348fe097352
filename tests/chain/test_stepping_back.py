"""The processes of the chain leave the processors to the server, also where sessions share them."""

import asyncio
import os
from pathlib import Path

import pytest

from clob_server.chain.link_child import NICE, Child
from tests.chain.test_server_edges import child_of

MODULE = "tests.server.chain.parrot"
PATIENCE_S = 30
POLL_S = 0.01


async def command():
    return [MODULE]


def ignore(*_):
    """Nothing is done about what it says, or how it ends."""


async def until(holds):
    """Wait for something that holds soon, and give it."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := holds()):
            await asyncio.sleep(POLL_S)
    return found


@pytest.mark.parametrize("is_heavy", [False, True])
def test_a_child_steps_back_and_so_does_its_session_where_it_computes_for_long(is_heavy):
    async def story():
        told = {"command": command, "begun": ignore, "heard": ignore, "died": ignore}
        child = Child("a parrot", **told, is_heavy=is_heavy)
        child.begin()
        pid = await until(lambda: child_of(os.getpid(), MODULE))
        await until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == NICE)
        assert os.getsid(pid) == pid != os.getsid(0)
        group = Path(f"/proc/{pid}/autogroup")
        if group.exists():  # not every kernel shares the processors among sessions
            nice = NICE if is_heavy else 0
            await until(lambda: group.read_text().endswith(f" nice {nice}\n"))
        await child.close(PATIENCE_S)

    asyncio.run(story())
