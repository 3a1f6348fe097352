"""Requests to the chain worker: operations, queries, and long lists in several messages."""

import asyncio

import pytest

from clob.units import UINT256_MAX
from clob_server.api.problems import ApiError
from clob_server.chain.events import StartWatching
from clob_server.chain.messages import (
    LINE_BYTES_MAX,
    BeginOperation,
    FindMissing,
    GetOperation,
    MissingOperations,
    OperationDone,
    OperationFailed,
    OperationUnknown,
    decode_server_message,
    encode,
)
from clob_server.chain.worker_client import NAMES_MAX, WorkerClient

HASH = f"0x{'ab' * 32}"


def make_client(check=lambda: None):
    """Return a client, the messages it sends, and the ends that no task waited for."""
    sent, ended = [], []
    return WorkerClient(send=sent.append, check=check, on_end=ended.append), sent, ended


def done(name):
    return OperationDone(id=name, kind="faucet", answer=b"{}")


async def test_pending_operation_is_resent_and_its_end_reported_once():
    client, sent, ended = make_client()
    waiting = asyncio.create_task(client.run_operation("a", None, 7))
    await asyncio.sleep(0)
    client.resend()
    assert sent == [BeginOperation(id="a", body=None, now_ms=7)] * 2
    client.on_operation(done("a"))
    assert (await waiting).id == "a"
    assert ended == []
    client.on_operation(done("a"))
    assert ended == [done("a")]
    client.resend()
    assert len(sent) == 2


async def test_query_returns_the_next_status_and_operation_waits_for_the_end():
    client, sent, _ = make_client()
    waiting = asyncio.create_task(client.run_operation("a", None, 7))
    await asyncio.sleep(0)
    queries = [asyncio.create_task(client.get_operation("a")) for _ in range(2)]
    await asyncio.sleep(0)
    assert sent[1:] == [GetOperation(id="a")] * 2
    client.on_operation(OperationUnknown(id="a"))
    assert [type(each) for each in await asyncio.gather(*queries)] == [OperationUnknown] * 2
    assert not waiting.done()
    failed = OperationFailed(
        id="a", kind="merge", code="OPERATION_FAILED", detail="", hashes={}, undone=True
    )
    client.on_operation(failed)
    assert await waiting == failed


async def test_queries_fail_when_the_worker_exits_and_operations_wait():
    client, sent, _ = make_client()
    waiting = asyncio.create_task(client.run_operation("a", None, 7))
    queries = [
        asyncio.create_task(client.get_operation("b")),
        asyncio.create_task(client.find_missing(["c"])),
    ]
    await asyncio.sleep(0)
    assert sent[-1] == FindMissing(request=1, ids=["c"])
    client.fail_queries("it exited")
    for each in await asyncio.gather(*queries, return_exceptions=True):
        assert type(each) is ApiError
        assert (each.code, str(each)) == ("CHAIN_UNAVAILABLE", "it exited")
    client.on_answer(MissingOperations(request=1, ids=[]))  # too late, and ignored
    assert not waiting.done()
    client.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_requests_without_a_worker_are_rejected():
    def check():
        raise ApiError("CHAIN_UNAVAILABLE", "no worker")

    client, sent, _ = make_client(check)
    for request in (
        client.run_operation("a", None, 7),
        client.get_operation("a"),
        client.find_missing([]),
    ):
        with pytest.raises(ApiError, match="no worker"):
            await request
    assert sent == []


# ----- long lists ------------------------------------------------------------------------------


@pytest.fixture
def sent():
    """Messages that the client has sent."""
    return []


@pytest.fixture
def client(sent):
    """A client whose messages are encoded and decoded as between the processes."""

    def send(message):
        line = encode(message)
        assert len(line) < LINE_BYTES_MAX
        sent.append(decode_server_message(line))

    return WorkerClient(send=send, check=lambda: None, on_end=lambda _: None)


def names(count):
    """Return wallets and tokens of maximum length."""
    wallets = [f"0x{number:040X}" for number in range(count)]
    return wallets, [str(UINT256_MAX - number) for number in range(count)]


@pytest.mark.parametrize(
    ("num_wallets", "num_tokens", "num_messages"),
    [(0, 0, 1), (1, 2, 1), (NAMES_MAX, 0, 1), (NAMES_MAX + 1, 2, 2), (3, 2 * NAMES_MAX + 1, 3)],
)
def test_long_lists_are_split_across_messages(client, sent, num_wallets, num_tokens, num_messages):
    wallets, tokens = names(num_wallets)[0], names(num_tokens)[1]
    client.start_watching(
        StartWatching(after_block=7, block_hash=HASH, wallets=wallets, tokens=tokens)
    )
    assert len(sent) == num_messages
    assert [each for message in sent for each in message.wallets] == wallets
    assert [each for message in sent for each in message.tokens] == tokens
    assert {(message.after_block, message.block_hash) for message in sent} == {(7, HASH)}
    assert [message.more for message in sent] == [True] * (num_messages - 1) + [False]


def test_additional_tokens_are_split_across_messages(client, sent):
    tokens = names(NAMES_MAX + 1)[1]
    client.watch_tokens(tokens)
    assert [each for message in sent for each in message.tokens] == tokens
    assert len(sent) == 2
