"""The processes of the chain as the server keeps them, and what it says where there is none."""

import asyncio
import socket
import time

import pytest

from clob_server.api.problems import ApiError
from clob_server.chain import config
from clob_server.chain.client import ChainClient, Stage
from clob_server.chain.config import free_port
from clob_server.chain.messages import (
    Begin,
    Known,
    Look,
    NotKnown,
    OperationDone,
    OperationFailed,
    Unknown,
)
from clob_server.chain.subprocess import PAUSE_S, Child
from clob_server.chain.worker_client import Talk
from clob_server.settings import Settings

MODULE = "tests.server.chain.parrot"
PATIENCE_S = 30


class Cage:
    """A child with all that it said."""

    def __init__(self):
        self.heard, self.deaths, self.num_begun = [], [], 0
        self.child = Child(
            "a parrot",
            command=self.command,
            begun=self.begun,
            heard=self.heard.append,
            died=lambda why, pause_s: self.deaths.append((why, pause_s)),
        )

    async def command(self):
        return [MODULE]

    def begun(self):
        self.num_begun += 1

    async def until(self, holds):
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)


async def begun():
    """A child that runs."""
    stage = Cage()
    stage.child.begin()
    await stage.until(lambda: stage.num_begun)
    return stage


def test_what_is_said_is_heard_in_lines():
    async def story():
        stage = await begun()
        for text in (b"one\n", b"two\n"):
            stage.child.send(text)
        await stage.until(lambda: stage.heard == [b"one\n", b"two\n"])
        await stage.child.close(PATIENCE_S)
        assert not stage.deaths
        stage.child.send(b"nobody hears this\n")

    asyncio.run(story())


def test_one_that_died_is_begun_again_later_each_time_until_it_is_well():
    async def story():
        stage = await begun()
        for number in (1, 2):
            stage.child.send(b"die\n")
            await stage.until(lambda number=number: stage.num_begun == number + 1)
        assert stage.deaths == [("it ended with 7", PAUSE_S), ("it ended with 7", 2 * PAUSE_S)]
        stage.child.is_well()
        stage.child.send(b"die\n")
        await stage.until(lambda: stage.num_begun == 4)
        assert stage.deaths[-1] == ("it ended with 7", PAUSE_S)
        assert stage.child.num_deaths == 3
        await stage.child.close(PATIENCE_S)

    asyncio.run(story())


def test_one_that_does_not_end_is_killed():
    async def story():
        stage = await begun()
        stage.child.send(b"ready\n")
        stage.child.send(b"hang\n")
        await stage.until(lambda: stage.heard)
        begin = time.monotonic()
        await stage.child.close(0.1)
        assert time.monotonic() - begin < PATIENCE_S
        assert not stage.child.is_running

    asyncio.run(story())


# ----- the conversation ------------------------------------------------------------------------


def conversation(check=lambda: None):
    said, ended = [], []
    return Talk(send=said.append, check=check, ended=ended.append), said, ended


def done(name):
    return OperationDone(id=name, kind="faucet", answer=b"{}")


def test_an_operation_is_asked_of_the_next_worker_and_its_end_is_told_once():
    async def story():
        talk, said, ended = conversation()
        waits = asyncio.create_task(talk.carry_out("a", None, 7))
        await asyncio.sleep(0)
        talk.say_again()
        assert said == [Begin(id="a", body=None, now_ms=7)] * 2
        talk.hear(done("a"))
        assert (await waits).id == "a"
        assert ended == []
        talk.hear(done("a"))
        assert ended == [done("a")]
        talk.say_again()
        assert len(said) == 2

    asyncio.run(story())


def test_who_looks_is_told_by_the_next_word_and_who_waits_at_the_end_alone():
    async def story():
        talk, said, _ = conversation()
        waits = asyncio.create_task(talk.carry_out("a", None, 7))
        await asyncio.sleep(0)
        looks = [asyncio.create_task(talk.look("a")) for _ in range(2)]
        await asyncio.sleep(0)
        assert said[1:] == [Look(id="a")] * 2
        talk.hear(Unknown(id="a"))
        assert [type(each) for each in await asyncio.gather(*looks)] == [Unknown, Unknown]
        assert not waits.done()
        failed = OperationFailed(
            id="a", kind="merge", code="OPERATION_FAILED", detail="", hashes={}, undone=True
        )
        talk.hear(failed)
        assert await waits == failed

    asyncio.run(story())


def test_questions_of_a_worker_that_died_are_refused_and_operations_are_not():
    async def story():
        talk, said, _ = conversation()
        waits = asyncio.create_task(talk.carry_out("a", None, 7))
        asked = [asyncio.create_task(talk.look("b")), asyncio.create_task(talk.not_known(["c"]))]
        await asyncio.sleep(0)
        assert said[-1] == Known(request=1, ids=["c"])
        talk.let_go("it died")
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert (type(each), each.code, str(each)) == (ApiError, "CHAIN_UNAVAILABLE", "it died")
        talk.hear_answer(NotKnown(request=1, ids=[]))  # too late, and nobody minds
        assert not waits.done()
        talk.close()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(story())


def test_without_a_worker_nothing_is_asked():
    def check():
        raise ApiError("CHAIN_UNAVAILABLE", "no worker")

    async def story():
        talk, said, _ = conversation(check)
        for ask in (talk.carry_out("a", None, 7), talk.look("a"), talk.not_known([])):
            with pytest.raises(ApiError, match="no worker"):
                await ask
        assert said == []

    asyncio.run(story())


# ----- where there is none ---------------------------------------------------------------------


async def nothing():
    """Nothing was left over."""


def link(settings, folder):
    return ChainClient(settings, folder, risen=nothing, ended=lambda end: None)


def test_a_missing_package_is_said_with_what_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(config.importlib.util, "find_spec", lambda name: None)
    made = link(Settings(chain="embedded"), tmp_path)
    made.begin()
    assert made.stage is Stage.MISSING
    with pytest.raises(ApiError, match=r"pip install 'clob\[devchain\]'") as caught:
        made.check_open()
    assert caught.value.code == "CHAIN_UNAVAILABLE"
    assert list(tmp_path.iterdir()) == []


def test_without_a_chain_nothing_is_begun(tmp_path):
    made = link(Settings(chain="none"), tmp_path)
    made.begin()
    assert made.stage is Stage.NONE
    with pytest.raises(ApiError) as caught:
        made.check_open()
    assert caught.value.code == "CHAIN_NOT_CONFIGURED"


def test_a_port_that_is_taken_is_another():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert free_port(taken) != taken
    assert free_port(0) > 0
