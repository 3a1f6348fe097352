"""Texts that arrive whole: handled at once where possible, and in the order of all messages."""

import asyncio
import itertools
import socket

from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from clob_server.transport.config import TransportLimits
from clob_server.transport.connections import PIECE_BYTES, Connections
from clob_server.transport.server import config_for
from clob_server.transport.websocket import PUSH, FeedProtocol, frame_end
from tests.server.transport.test_websocket import handshake

LIMITS = TransportLimits(message_max_bytes=6_000)
NOW, LATER, SLOW = "now", "later", "slow"


class Transport(asyncio.Transport):
    """Records what the server writes, and whether it reads."""

    def __init__(self, unconnected):
        super().__init__({"socket": unconnected})
        self.written = b""
        self.is_reading, self.is_closed = True, False

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def write(self, data):
        self.written += data

    def pause_reading(self):
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading
        self.is_reading = True

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True


class App:
    """Handles texts that begin with NOW at once, and waits after those that begin with SLOW."""

    def __init__(self, *, at_once=True):
        self.offers = at_once
        self.received, self.num_at_once = [], 0
        self.is_busy = False

    def at_once(self, text):
        assert not self.is_busy
        if not text.startswith(NOW):
            return False
        self.received.append(text)
        self.num_at_once += 1
        return True

    async def __call__(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        if self.offers:
            scope["extensions"][PUSH].at_once = self.at_once
        while (message := await receive())["type"] == "websocket.receive":
            self.is_busy = True
            content = message.get("text", message.get("bytes"))
            if isinstance(content, str) and content.startswith(SLOW):
                for _ in range(3):
                    await asyncio.sleep(0)
            self.received.append(content)
            self.is_busy = False
        self.received.append(message["code"])


async def fed(app, chunks):
    """Feed a connection with chunks of input as fast as it reads; return what it wrote."""
    config = config_for(app, limits=LIMITS)
    protocol = FeedProtocol(config=config, server_state=Connections(config), app_state={})
    with socket.socket() as unconnected:
        transport = Transport(unconnected)
        protocol.connection_made(transport)
    protocol.is_counted = False
    protocol.start_handshake(handshake(b"ws"))
    await until(lambda: protocol.handshake_complete)
    await asyncio.sleep(0)
    start = len(transport.written)
    for chunk in chunks:
        await until(lambda: transport.is_reading or transport.is_closed)
        if not transport.is_closed:
            protocol.data_received(chunk)
    await until(lambda: (transport.is_reading and not app.is_busy) or transport.is_closed)
    await asyncio.sleep(0)
    protocol.connection_lost(None)
    await asyncio.gather(*protocol.tasks)
    return transport.written[start:]


async def until(condition):
    """Run the event loop until a condition holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the server neither reads nor closes")


def frame(opcode, content, *, fin=True):
    """Return a frame of a client."""
    return Frame(opcode, content, fin).serialize(mask=True)


def text(content):
    return frame(Opcode.TEXT, content.encode())


def parts(content):
    """Return a text in three fragments with a ping between them."""
    data = content.encode()
    return (
        frame(Opcode.TEXT, data[:1], fin=False)
        + frame(Opcode.CONT, data[1:3], fin=False)
        + frame(Opcode.PING, b"in parts")
        + frame(Opcode.CONT, data[3:])
    )


CONTENTS = st.builds(
    lambda kind, size, end: kind + "x" * size + end,
    st.sampled_from([NOW, NOW, LATER, SLOW]),
    st.sampled_from([0, 20, 119, 120, 121, 122, 1_000, PIECE_BYTES, 5_900]),
    st.text(max_size=5),
)
MESSAGES = st.one_of(
    CONTENTS.map(text),
    CONTENTS.map(text),
    CONTENTS.map(parts),
    st.binary(max_size=200).map(lambda content: frame(Opcode.BINARY, content)),
    st.binary(max_size=125).map(lambda content: frame(Opcode.PING, content)),
    st.just(frame(Opcode.PONG, b"none was asked")),
)
INVALID = st.sampled_from([
    frame(Opcode.TEXT, b"\xff"),
    frame(Opcode.TEXT, b"x" * 6_001),
    frame(Opcode.CONT, b"x"),
    frame(Opcode.TEXT, b"x", fin=False) + text(NOW),
    Frame(Opcode.TEXT, NOW.encode()).serialize(mask=False),
    b"\x83\x80" + bytes(4),
    b"\xc1\x80" + bytes(4),
])  # fmt: skip


def split(stream, data):
    """Return the input in chunks that hypothesis chooses."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)]) if a < b]


def outcome(chunks, *, at_once):
    """Return what the application received, and what the connection wrote."""
    app = App(at_once=at_once)
    return app.received, asyncio.run(fed(app, chunks))


@settings(max_examples=150, deadline=None)
@given(messages=st.lists(MESSAGES, max_size=12), closes=st.booleans(), data=st.data())
def test_split_of_the_input_changes_neither_messages_nor_replies(messages, closes, data):
    ends = [frame(Opcode.CLOSE, b"\x03\xe8"), text(NOW)] if closes else []
    chunks = split(b"".join([*messages, *ends]), data)
    assert outcome(chunks, at_once=True) == outcome([*messages, *ends], at_once=False)


@settings(max_examples=150, deadline=None)
@given(messages=st.lists(MESSAGES, max_size=12), invalid=INVALID, data=st.data())
def test_invalid_frame_closes_alike_however_the_input_is_split(messages, invalid, data):
    chunks = split(b"".join([*messages, invalid, text(NOW)]), data)
    (*received, code), reply = outcome(chunks, at_once=True)
    (*expected, expected_code), expected_reply = outcome([*messages, invalid], at_once=False)
    # An invalid frame drops the messages that websockets parses in the same piece.
    assert received == expected[: len(received)]
    assert code == expected_code
    size = 2 + expected_reply[expected_reply.rindex(b"\x88", 0, -2) + 1] if expected_reply else 0
    assert reply[-size:] == expected_reply[-size:]


def test_whole_texts_in_one_piece_are_all_handled_at_once():
    app = App()
    asyncio.run(fed(app, [text(NOW) * 3, text(NOW + "x" * 200) * 2]))
    assert app.num_at_once == 5


def test_long_input_of_whole_texts_is_handled_at_once_whatever_its_split():
    app, stream = App(), text(NOW + "x" * 700) * 100 + frame(Opcode.PING, b"") + text(NOW)
    chunks = [stream[start : start + 9_999] for start in range(0, len(stream), 9_999)]
    asyncio.run(fed(app, chunks))
    assert app.num_at_once == 101


def test_texts_behind_one_that_waits_are_received_in_order():
    app = App()
    asyncio.run(fed(app, [text(NOW) + text(SLOW) + text(NOW + "2")]))
    assert app.received[:3] == [NOW, SLOW, NOW + "2"]


def test_texts_are_handled_at_once_again_after_fragments():
    app = App()
    asyncio.run(fed(app, [parts(LATER), text(NOW)]))
    assert (app.num_at_once, app.received[:2]) == (1, [LATER, NOW])


def test_incomplete_text_is_kept_up_to_the_limit_of_messages():
    whole = text("x" * 6_000)
    assert frame_end(whole, 0, 6_000) == len(whole)
    assert frame_end(whole[:5], 0, 6_000) == len(whole)
    assert frame_end(whole[:3], 0, 6_000) > 3
    assert frame_end(whole[:1], 0, 6_000) > 1
    assert frame_end(whole, 0, 5_999) is None
