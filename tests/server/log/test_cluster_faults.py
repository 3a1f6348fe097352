"""Lost answers, partitions, competing writers, and killed servers under a ReplicatedLog.

The oracle: every acknowledged frame is in the stream exactly once and in its order, in every node.
"""

import asyncio
import contextlib
import itertools
import threading
import time

import pytest

from clob_server.log import (
    FencedError,
    FrameStream,
    LogError,
    LogFailedError,
    ReplicatedLog,
    SqliteLog,
    jetstream,
    put_back,
)
from tests.server.log.nats_servers import running, wait_until
from tests.server.log.proxy import DROP, HOLD, PASS, proxy_to

FAILOVER_S = 10
"""Longest pause of the appends when the leader of the stream is killed."""
numbers = itertools.count(1)


def commands_of(node, count=3):
    """Return commands that no other call returns."""
    return [b"\x80" + b"%s:%d" % (node.encode(), next(numbers)) for _ in range(count)]


class Node:
    """A log on a shared stream that notes the frames whose append was acknowledged."""

    def __init__(self, folder, name, urls, monitors, stream="clob", **options):
        self.name = name
        options = {"monitors": monitors, "timeout_s": 20} | options
        self.log = ReplicatedLog(folder / name, FrameStream(urls, stream, **options))
        self.acknowledged = {}

    def append(self, count=3):
        """Append commands; return whether they were acknowledged, False if they were fenced."""
        commands = tuple(commands_of(self.name, count))
        first = self.log.tail.seq + 1
        try:
            self.log.append(commands, self.log.tail.seq)
        except FencedError:
            return False
        self.acknowledged[first] = commands
        return True

    def catch_up(self):
        """Pull all frames of the other nodes."""
        while self.log.pull(0.3):
            pass


def check(nodes, reader, *, maybe=()):
    """Check that a new node reads all acknowledged frames once, and no others but ``maybe``."""
    reader.catch_up()
    found = {frame.first_seq: frame.raw for frame in reader.log.read()}
    expected = {}
    for node in nodes:
        assert not expected.keys() & node.acknowledged.keys()
        expected |= node.acknowledged
    assert expected.items() <= found.items()
    extra = [raws for first, raws in found.items() if first not in expected]
    assert all(raws in maybe for raws in extra)
    everything = [raw for raws in found.values() for raw in raws]
    assert len(everything) == len(set(everything))
    for node in nodes:
        node.catch_up()
        assert node.log.tail == reader.log.tail
        assert [frame.chain_hash for frame in node.log.read()] == [
            frame.chain_hash for frame in reader.log.read()
        ]
    return len(everything)


@pytest.fixture
def lab(nats_cluster, tmp_path):
    """Nodes on one stream of one server, with proxies before the server."""
    with contextlib.ExitStack() as stack:

        class Lab:
            stream = f"faults-{next(numbers)}"
            folder = tmp_path

            def proxy(self):
                return stack.enter_context(proxy_to(nats_cluster.servers[0].port))

            def node(self, name, proxy=None, **options):
                urls = [proxy.url] if proxy else nats_cluster.urls
                options = {"stream": self.stream, "replicas": 1} | options
                node = Node(self.folder, name, urls, nats_cluster.monitors, **options)
                stack.callback(node.log.close)
                return node

        yield Lab()


def in_thread(work):
    """Run a function in a thread; return a function that waits for its result or error."""
    done = []

    def run():
        try:
            done.append((work(), None))
        except Exception as error:
            done.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(60)
        value, error = done[0]
        if error is not None:
            raise error
        return value

    return result


def size_of(node):
    """Return the number of frames in the stream."""
    return node.log.stream.extent()[1]


# ----- lost and delayed answers --------------------------------------------------------------


@pytest.mark.parametrize("lost", ["to_client", "to_server"])
def test_append_whose_answer_or_request_is_lost_is_stored_once(lab, lost):
    proxy = lab.proxy()
    one, other = lab.node("one", proxy), lab.node("other")
    assert one.append()
    setattr(proxy, lost, DROP)
    appended = in_thread(one.append)
    if lost == "to_client":
        wait_until(lambda: size_of(other) == 2)
    else:
        time.sleep(0.5)
        assert size_of(other) == 1
    proxy.heal()
    assert appended()
    assert size_of(other) == 2
    assert one.append()
    check([one, other], lab.node("reader"))


def test_append_whose_connection_ends_is_stored_once(lab):
    proxy = lab.proxy()
    one, other = lab.node("one", proxy), lab.node("other")
    for _ in range(5):
        before = size_of(other)
        proxy.to_client = HOLD
        appended = in_thread(one.append)
        wait_until(lambda before=before: size_of(other) == before + 1)
        proxy.cut()
        proxy.to_client = PASS
        assert appended()
    assert size_of(other) == 5
    check([one, other], lab.node("reader"))


def test_delayed_append_of_a_former_owner_is_fenced(lab):
    """The request of a paused process arrives after another node has taken over."""
    proxy = lab.proxy()
    old, new = lab.node("old", proxy), lab.node("new")
    assert old.append()
    new.catch_up()
    proxy.to_server = HOLD
    appended = in_thread(old.append)
    time.sleep(0.2)
    assert new.append()
    proxy.to_server = PASS
    assert not appended()
    check([old, new], lab.node("reader"))
    assert old.append()


def test_append_lost_with_its_answer_is_fenced_by_the_frame_in_its_place(lab):
    proxy = lab.proxy()
    old, new = lab.node("old", proxy), lab.node("new")
    assert old.append()
    new.catch_up()
    proxy.partition()
    appended = in_thread(old.append)
    assert new.append()
    proxy.heal()
    assert not appended()
    check([old, new], lab.node("reader"))


@pytest.mark.parametrize("lost", ["to_client", "to_server"])
def test_append_during_a_long_partition_fails_and_a_pull_finds_its_result(lab, lost):
    proxy = lab.proxy()
    one, other = lab.node("one", proxy, append_timeout_s=1), lab.node("other")
    assert one.append()
    setattr(proxy, lost, DROP)
    start = time.monotonic()
    with pytest.raises(LogFailedError, match=f"frame 2 of stream {lab.stream} may or may not"):
        one.append()
    assert time.monotonic() - start < FAILOVER_S
    proxy.heal()
    stored = lost == "to_client"
    assert size_of(other) == 1 + stored
    assert one.log.tail.seq == 3
    if stored:  # its own frame, which was not acknowledged
        (frame,) = wait_until(lambda: one.log.pull(0.5))
        assert frame.first_seq == 4
    else:
        assert one.log.pull(1) == []
    with pytest.raises(LogFailedError, match="an append failed before"):
        one.append()


@pytest.mark.parametrize("state", [DROP, HOLD])
def test_partitioned_node_pulls_all_frames_afterwards(lab, state):
    proxy = lab.proxy()
    owner, follower = lab.node("owner"), lab.node("follower", proxy)
    assert owner.append()
    follower.catch_up()
    proxy.partition(state)
    for _ in range(10):
        assert owner.append()
    assert follower.log.pull(0.5) == []
    proxy.heal()
    wait_until(lambda: follower.log.pull(0.5) or follower.log.tail == owner.log.tail)
    check([owner, follower], lab.node("reader"))


def test_opening_waits_for_the_end_of_a_partition(lab):
    proxy = lab.proxy()
    lab.node("one").append()
    proxy.partition()
    opened = in_thread(lambda: lab.node("two", proxy))
    time.sleep(0.5)
    proxy.heal()
    opened().catch_up()


def local_log(folder, frames):
    """Write a log in a folder, of one command per frame; return it."""
    log = SqliteLog(folder)
    for command in commands_of("local", frames):
        log.append([command], log.tail.seq)
    return log


@pytest.mark.parametrize("state", ["whole", "cut", "lost"])
def test_log_is_put_back_once_however_often_the_connection_ends(lab, tmp_path, state):
    proxy = lab.proxy()
    with contextlib.closing(local_log(tmp_path / "local", 300)) as local:
        done = in_thread(lambda: put_back(local, lab.node("one", proxy).log.stream))
        if state != "whole":
            other = lab.node("other")
            for least in (50, 100, 150):
                wait_until(lambda least=least: size_of(other) > least)
                if state == "lost":
                    proxy.to_client = DROP
                    time.sleep(0.05)
                    proxy.heal()
                proxy.cut()
        assert done() == 300
        reader = lab.node("reader")
        assert size_of(reader) == 300
        reader.catch_up()
        assert reader.log.tail == local.tail


def test_log_is_not_put_back_behind_the_frame_of_another_writer(lab, tmp_path):
    with contextlib.closing(local_log(tmp_path / "local", 100)) as local:
        stream, other = lab.node("one").log.stream, lab.node("other")
        append = stream.append

        def append_later(*arguments):
            if arguments[3] == 50:
                other.log.pull(2)
                assert other.append()
            return append(*arguments)

        stream.append = append_later
        with pytest.raises(FencedError, match="another writer has appended commands 51 to 53"):
            put_back(local, stream)
        assert stream.extent() == (1, 51)


# ----- deliberate faults ---------------------------------------------------------------------


def answer_is_lost(lab):
    test_append_whose_answer_or_request_is_lost_is_stored_once(lab, "to_client")


async def guess_stored(*_):
    return True


async def guess_fenced(*_):
    raise FencedError


async def send_again(self, frame, headers, after):
    """Send until an answer comes, without a condition; return the expected place."""
    headers = {key: value for key, value in headers.items() if key == jetstream._COMMANDS}
    while isinstance(await self._request(f"clob.log.{self.name}", frame, 1, headers), str):
        await asyncio.sleep(0.1)
    return after + 1


@pytest.mark.parametrize(
    ("method", "fault", "scenario"),
    [
        ("_append", send_again, answer_is_lost),
        ("_append", send_again, test_delayed_append_of_a_former_owner_is_fenced),
        ("_is_mine", guess_stored, test_delayed_append_of_a_former_owner_is_fenced),
        ("_is_mine", guess_fenced, answer_is_lost),
    ],
)
def test_deliberate_faults_are_found(lab, monkeypatch, method, fault, scenario):
    scenario(lab)
    lab.stream += "-faulty"
    lab.folder /= "faulty"
    monkeypatch.setattr(FrameStream, method, fault)
    with pytest.raises((AssertionError, LogError)):
        scenario(lab)


# ----- competing writers ---------------------------------------------------------------------


def compete(nodes, seconds):
    """Append with all nodes at the same time; each pulls after it was fenced."""
    end = time.monotonic() + seconds
    fenced = []

    def work(node):
        while time.monotonic() < end:
            if not node.append():
                fenced.append(node.name)
                node.log.pull(1)

    for result in [in_thread(lambda node=node: work(node)) for node in nodes]:
        result()
    return len(fenced)


def test_frames_of_competing_writers_are_stored_for_exactly_one(lab):
    nodes = [lab.node("one"), lab.node("two")]
    fenced = compete(nodes, 3)
    assert fenced > 20
    assert all(node.acknowledged for node in nodes)
    check(nodes, lab.node("reader"))


# ----- killed servers ------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path):
    """A cluster of three servers."""
    with running(tmp_path / "servers", 3) as cluster:
        yield cluster


def isolate_leader(cluster):
    """Cut the leader of the stream off from the others, then let it come back."""

    def fault():
        leader = wait_until(lambda: cluster.leader_of("clob"))
        cluster.isolate(leader)
        time.sleep(15)
        cluster.heal()
        time.sleep(5)

    return fault


def isolate_each(cluster):
    """Cut off one server after the other, which delays the bytes or loses them."""
    turns = itertools.count()

    def fault():
        turn = next(turns)
        cluster.isolate(cluster.servers[turn % 3], HOLD if turn % 2 else DROP)
        time.sleep(12)
        cluster.heal()
        time.sleep(5)

    return fault


def under_load(cluster, folder, fault, times, pause_s):
    """Append and pull while a fault is repeated; return the longest pause of an append."""
    with contextlib.ExitStack() as stack:

        def node(name):
            made = Node(folder, name, cluster.urls, cluster.monitors, append_timeout_s=60)
            stack.callback(made.log.close)
            return made

        owner, follower = node("owner"), node("follower")
        stop, pauses_s = threading.Event(), [0.0]

        def append():
            while not stop.is_set():
                start = time.monotonic()
                assert owner.append()
                pauses_s.append(time.monotonic() - start)

        def pull():
            while not stop.is_set():
                follower.log.pull(0.5)

        working = [in_thread(append), in_thread(pull)]
        try:
            for _ in range(times):
                time.sleep(1)
                before = len(pauses_s)
                fault()
                wait_until(lambda before=before: len(pauses_s) > before + 20)
                time.sleep(pause_s)
        finally:
            stop.set()
            for result in working:
                result()
        assert check([owner, follower], node("reader")) > 100 * times
        return max(pauses_s)


def kill_leader(cluster):
    """Kill the leader of the stream and start it again after the others have elected another."""

    def fault():
        leader = wait_until(lambda: cluster.leader_of("clob"))
        leader.kill()
        wait_until(lambda: cluster.leader_of("clob") not in (None, leader))
        leader.start()
        leader.wait()

    return fault


def kill_all(cluster):
    """Kill all servers and start them again."""

    def fault():
        for server in cluster.servers:
            server.kill()
        for server in cluster.servers:
            server.start()
        for server in cluster.servers:
            server.wait()

    return fault


def pause_leader(cluster):
    """Stop the leader of the stream with SIGSTOP until the others have elected another."""

    def fault():
        leader = wait_until(lambda: cluster.leader_of("clob"))
        leader.pause()
        time.sleep(12)
        leader.resume()
        leader.wait()

    return fault


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "times"),
    [(kill_leader, 4), (kill_all, 4), (pause_leader, 2), (isolate_leader, 2), (isolate_each, 3)],
)
def test_acknowledged_frames_survive_faults_of_the_servers(
    three, tmp_path, record_property, fault, times
):
    pause_s = under_load(three, tmp_path, fault(three), times, 1)
    record_property("longest append, seconds", round(pause_s, 1))
    assert fault is not kill_leader or pause_s < FAILOVER_S
    if fault is isolate_leader:
        assert pause_s > 2, "the leader was not cut off"


@pytest.mark.long
def test_competing_writers_and_killed_leaders(three, tmp_path):
    with contextlib.ExitStack() as stack:
        nodes = []
        for name in ("one", "two", "reader"):
            node = Node(tmp_path, name, three.urls, three.monitors, append_timeout_s=60)
            stack.callback(node.log.close)
            nodes.append(node)
        competing = in_thread(lambda: compete(nodes[:2], 25))
        fault = kill_leader(three)
        for _ in range(2):
            time.sleep(2)
            fault()
        assert competing() > 2
        check(nodes[:2], nodes[2])


@pytest.mark.long
def test_frame_that_the_server_in_reach_lacks_is_read_at_the_leader(three, tmp_path):
    with contextlib.ExitStack() as stack:
        node = Node(tmp_path, "one", three.urls, three.monitors, append_timeout_s=60)
        stack.callback(node.log.close)
        assert node.append()
        leader = wait_until(lambda: three.leader_of("clob"))
        behind = next(each for each in three.servers if each is not leader)
        urls = [behind.url, *(each.url for each in three.servers if each is not behind)]
        reader = FrameStream(urls, monitors=three.monitors, timeout_s=20)
        stack.callback(reader.close)
        three.isolate(behind)
        stack.callback(three.heal)
        assert node.append()
        assert not reader.read(1, 1), "the server in reach has the frame"
        assert reader.get(2) == node.log.stream.get(2)
