"""The kept connection: waits, handshakes, ends that are final, and proxies."""

import asyncio
import contextlib
from collections import Counter

import pytest

from clob.client import (
    Backoff,
    ConnectionFailedError,
    Feed,
    FeedState,
    UnauthorisedError,
)
from clob.client.connection import final_error
from tests.client.conftest import SECRET
from tests.server.api.makers import operator_token
from tests.server.live import started

QUICK = Backoff(first_s=0.02, max_s=0.1, steady_s=1)


@contextlib.asynccontextmanager
async def tcp_server(on_client):
    """Run a server; ``on_client`` receives the head of each request. Yields the port."""

    async def serve(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await on_client((await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(*answers):
    """Return a handler that answers each request with the next status, and the heads it read."""
    heads, left = [], list(answers)

    async def answer(head, reader, writer):
        heads.append(head)
        status, body = left.pop(0) if len(left) > 1 else left[0]
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    return answer, heads


# ----- waits -------------------------------------------------------------------------------------


def test_window_of_the_waits_doubles_up_to_its_limit():
    backoff = Backoff(first_s=0.25, max_s=4)
    longest = [backoff.wait_s(each, 1006, lambda: 1) for each in range(6)]
    assert longest == [0.25, 0.5, 1, 2, 4, 4]
    assert [backoff.wait_s(each, 1006, lambda: 0) for each in range(6)] == [0] * 6


@pytest.mark.parametrize(("code", "least", "most"), [(1012, 1, 3), (1008, 2, 6), (1013, 5, 15)])
def test_close_code_has_its_own_wait(code, least, most):
    waits = [Backoff().wait_s(0, code, lambda part=part: part) for part in (0, 1)]
    assert waits == [least, most]


def test_clients_that_reconnect_are_spread():
    waits = Counter()
    for number in range(1_000):
        waits[int(Backoff().wait_s(0, 1012, lambda part=number / 1_000: part) * 10)] += 1
    assert max(waits.values()) <= 51  # 1,000 clients in 2 seconds: 50 in each tenth


@pytest.mark.parametrize(
    ("code", "reason", "is_final"),
    [
        (1008, "INVALID_API_KEY: the key was deactivated", True),
        (1008, "too slow: buffer unread for 30 s", False),
        (1008, "RATE_LIMITED: more than 600 messages per minute", False),
        (1012, "INVALID_API_KEY", False),
        (1006, "", False),
    ],
)
def test_only_an_end_that_would_be_repeated_is_final(code, reason, is_final):
    error = final_error(code, reason)
    assert (error is not None) == is_final
    if error is not None:
        assert (error.code, type(error)) == ("INVALID_API_KEY", UnauthorisedError)


# ----- handshakes --------------------------------------------------------------------------------


async def test_handshake_has_path_headers_and_subprotocols():
    problem = '{"code": "INVALID_API_KEY", "detail": "the key is unknown", "status": 401}'
    answer, heads = answering(("502 Bad Gateway", ""), ("401 Unauthorized", problem))
    async with tcp_server(answer) as port:
        url = f"http://127.0.0.1:{port}/exchange/"
        feed = Feed(
            url,
            api_key="k-1",
            headers={"X-Tenant": "t"},
            subprotocols=["clob"],
            backoff=QUICK._replace(first_s=0),
            proxy=None,
        )
        feed_waits = asyncio.timeout(60)
        with pytest.raises(UnauthorisedError, match="the key is unknown"):
            async with feed_waits, feed:
                pass
    assert feed.state is FeedState.CLOSED
    assert len(heads) == 2  # 502 is repeated, 401 is not
    assert heads[0].startswith("GET /exchange/ws HTTP/1.1\r\n")
    for line in ("X-API-Key: k-1", "X-Tenant: t", "Sec-WebSocket-Protocol: clob"):
        assert f"\r\n{line}\r\n" in heads[1]


async def test_connection_passes_an_http_proxy(live, market):
    targets = []

    async def tunnel(head, reader, writer):
        target = head.split()[1]
        targets.append(target)
        host, _, port = target.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host.strip("[]"), port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def copy(source, sink):
            with contextlib.suppress(OSError):
                while data := await source.read(65_536):
                    sink.write(data)
                sink.close()

        await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    async with (
        tcp_server(tunnel) as port,
        Feed(live.url, proxy=f"http://127.0.0.1:{port}") as feed,
    ):
        assert (await feed.request("get_time")).now_s > 0
    assert targets == [live.url.removeprefix("http://")]


async def test_connection_that_is_not_needed_is_not_replaced(tmp_path):
    server = await asyncio.to_thread(started, tmp_path, rate_limits=False, ws_subscribe_timeout_s=1)
    try:
        async with Feed(server.url, backoff=QUICK) as feed:
            await feed.until(lambda: feed.state is FeedState.RECONNECTING)
            assert feed.num_connections == 1
            assert (await feed.request("get_time")).now_s > 0  # connects again
            assert feed.num_connections == 2
    finally:
        server.http.close()
        server.kill()
        server.process.stdout.close()


async def test_feed_closes_when_its_key_is_deactivated(production):
    operator = {"Authorization": f"Bearer {operator_token(SECRET)}"}
    wanted = {"name": "feed", "scopes": ["read"], "makers": []}
    made = production.http.post("/api/admin/keys", json=wanted, headers=operator).json()
    async with Feed(production.url, api_key=made["key"], backoff=QUICK) as feed:
        await feed.request("get_time")
        path = f"/api/admin/keys/{made['keyId']}"
        assert production.http.delete(path, headers=operator).status_code == 200
        await feed.until(lambda: feed.state is FeedState.CLOSED)
        assert feed.error.code == "INVALID_API_KEY"
        with pytest.raises(UnauthorisedError):
            await feed.request("get_time")


async def test_request_without_an_answer_ends_by_its_time_out():
    async def accept(head, reader, writer):
        await reader.read()

    async with tcp_server(accept) as port:
        with pytest.raises(ConnectionFailedError, match=r"no connection within 0\.5 s"):
            async with Feed(f"http://127.0.0.1:{port}", timeout_s=0.5, proxy=None):
                pass
