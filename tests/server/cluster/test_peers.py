"""Connections between nodes: proof of membership, rejected messages, messages in pieces."""

import asyncio
import contextlib

import pytest

from clob_server.cluster.messages import (
    FRAME_MAX,
    FROM_OWNER,
    HEAD_BYTES,
    VERSION,
    FrameReader,
    PeerAnswer,
    PeerCall,
    PeerChallenge,
    PeerHello,
    PeerPlace,
    PeerPlaced,
    framed,
    proof_of,
)
from clob_server.cluster.peers import FollowerPeer, OwnerPeer

KEY = bytes(range(32))
CALL = PeerCall(
    7,
    "cancel_order",
    "/api/orders/x",
    b"a=1",
    {"orderId": "x"},
    [],
    b"{}",
    "1.2.3.4",
    "https",
    ("::1", 8),
)


class Echo:
    """Answers each request with its own number."""

    def call(self, call, reply):
        reply(PeerAnswer(call.number, 200, b"content-type: a\r\n", call.body))

    def place(self, place, reply):
        reply(PeerPlaced(place.number, 5))

    def lost(self, peer):
        """Hold nothing."""


@contextlib.asynccontextmanager
async def listening(key=KEY):
    """Listen as the owner; yield the port."""
    peers = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FollowerPeer(key, Echo(), peers), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for peer in tuple(peers):
            peer.transport.close()
        await asyncio.sleep(0)


async def connect(port, key=KEY):
    """Connect as a follower; return the end and a queue of what happens."""
    happened = asyncio.Queue()
    _, peer = await asyncio.get_running_loop().create_connection(
        lambda: OwnerPeer(
            key,
            "b",
            lambda: happened.put_nowait("open"),
            happened.put_nowait,
            lambda: happened.put_nowait("end"),
        ),
        "127.0.0.1",
        port,
    )
    return peer, happened


async def test_node_with_the_same_secret_sends_requests_and_orders():
    async with listening() as port:
        peer, happened = await connect(port)
        assert await happened.get() == "open"
        peer.send(CALL)
        peer.send(PeerPlace(8, b"x", None, None))
        assert await happened.get() == PeerAnswer(7, 200, b"content-type: a\r\n", b"{}")
        assert await happened.get() == PeerPlaced(8, 5)
        peer.transport.close()


async def test_node_with_another_secret_is_disconnected_without_an_answer():
    async with listening() as port:
        peer, happened = await connect(port, key=bytes(32))
        assert await happened.get() == "open"
        peer.send(CALL)
        assert await happened.get() == "end"
        assert not peer.is_open


@pytest.mark.parametrize(
    "first",
    [
        lambda nonce: CALL,
        lambda nonce: PeerHello(VERSION + 1, "b", proof_of(KEY, nonce)),
        lambda nonce: PeerHello(VERSION, "b", proof_of(KEY, bytes(16))),
    ],
)
async def test_first_message_that_proves_nothing_ends_the_connection(first):
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        size = int.from_bytes(await reader.readexactly(HEAD_BYTES), "little")
        (challenge,) = FROM_OWNER.decode(await reader.readexactly(size))
        assert type(challenge) is PeerChallenge
        writer.write(framed([first(challenge.nonce), CALL]))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("garbage", [b"\xff" * 8, (3).to_bytes(4, "little") + b"abc", bytes(5)])
async def test_bytes_that_are_no_message_end_the_connection(garbage):
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readexactly(HEAD_BYTES)
        writer.write(garbage)
        with contextlib.suppress(ConnectionError):
            while await reader.read(100):
                pass
        writer.close()


def test_frames_are_cut_from_any_pieces():
    data = framed([CALL]) + framed([CALL, CALL])
    for size in (1, 3, 10, len(data)):
        reader, frames = FrameReader(), []
        for start in range(0, len(data), size):
            frames += reader.feed(data[start : start + size])
        assert len(frames) == 2


def test_frame_beyond_the_limit_is_rejected_before_it_arrives():
    with pytest.raises(ValueError, match="may have"):
        FrameReader().feed((FRAME_MAX + 1).to_bytes(HEAD_BYTES, "little"))
