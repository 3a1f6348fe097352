"""The role of a node: when it tries to own the log, and when it stops."""

import msgspec
import pytest

from clob_server.auth.api_keys import IDS
from clob_server.cluster.node import (
    LEASE_S,
    SILENCE_S,
    SPREAD_S,
    Beat,
    ClusterNode,
    fingerprint,
)
from clob_server.cluster.replica import KeysDifferError, ReplicaSequencer
from clob_server.core.commands import Owner
from clob_server.core.rejections import NotOwnerError
from clob_server.core.state import ServerState
from clob_server.log import MemoryLog

LATE_S = SILENCE_S + 8 * SPREAD_S


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def owner(epoch=1, keys=b"keys"):
    return Owner(epoch=epoch, node="a", url="http://a", keys=keys)


def replica(state=None):
    return ReplicaSequencer(
        MemoryLog(), state or ServerState(), lambda: 1, ownership=owner, keys=b"keys"
    )


@pytest.fixture
def node(clock):
    made = ClusterNode("b", replica(), lambda _: None, may_own=True, clock=clock)
    made.url = "http://b"
    return made


def beat(**changes):
    fields = {"node": "a", "url": "http://a", "address": "a:1", "epoch": 1, "seq": 9} | changes
    return msgspec.msgpack.encode(Beat(**fields))


def test_owner_is_known_from_its_sign_of_life_until_it_is_silent(node, clock):
    assert node.owner is None
    node.on_beat(beat())
    assert node.owner.address == "a:1"
    assert node.lag == 9
    clock.now += LATE_S
    assert node.owner is None
    assert node.lag == 0


def test_leaving_owner_is_replaced_at_once(node):
    node.on_beat(beat(is_leaving=True))
    assert node._replica.is_candidate


def test_node_that_may_not_own_the_log_never_tries(clock):
    node = ClusterNode("b", replica(), lambda _: None, may_own=False, clock=clock)
    node.on_beat(beat(is_leaving=True))
    assert not node._replica.is_candidate


@pytest.mark.parametrize("data", [b"", b"\xff", msgspec.msgpack.encode([1, 2])])
def test_sign_of_life_that_cannot_be_read_is_ignored(node, data):
    node.on_beat(data)
    assert node.owner is None


def test_sign_of_life_of_an_earlier_owner_is_ignored(node):
    node._replica.state.registry.owner = owner(epoch=5)
    node.on_beat(beat(epoch=4))
    assert node.owner is None


def test_owner_steps_down_at_the_sign_of_life_of_a_later_one(node):
    node._replica.is_owner = True
    node.on_beat(beat(epoch=3))
    assert not node._replica.is_owner


def test_owner_is_unsure_while_its_signs_of_life_do_not_come_back(clock):
    own = replica()
    own.is_owner = True
    node = ClusterNode("b", own, lambda _: None, may_own=True, clock=clock)
    node.on_role(True)
    assert not node.is_unsure
    clock.now += LEASE_S + 0.01
    assert node.is_unsure
    node.on_beat(beat(node="b", sent_s=clock.now - LEASE_S))
    assert not node.is_unsure
    clock.now += 0.01
    assert node.is_unsure
    own.is_owner = False
    assert not node.is_unsure


def test_follower_rejects_commands():
    with pytest.raises(NotOwnerError, match="does not own the log"):
        replica().enqueue(lambda now_ms: None, lambda result: None)


def test_node_with_other_secret_files_is_rejected():
    state = ServerState()
    state.registry.owner = owner(keys=b"others")
    with pytest.raises(KeysDifferError, match="differ from those of a"):
        replica(state)


def test_fingerprint_depends_on_each_secret_file(tmp_path):
    empty = fingerprint(tmp_path)
    (tmp_path / IDS).write_bytes(bytes(range(32)))
    assert fingerprint(tmp_path) != empty
