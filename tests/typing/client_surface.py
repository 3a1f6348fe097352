"""Types of the client in a user's file; mypy and pyright check this file, nothing runs it."""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from clob import Side
from clob.client import (
    AsyncClient,
    Client,
    ClientError,
    LimitOrder,
    OutcomeUnknownError,
    RateLimitedError,
    ResponseError,
    WalletSigner,
)
from clob.wire.accounts import AccountBody
from clob.wire.admin import AdminMarketBody, KeyBody, NewKeyBody
from clob.wire.info import RootBody
from clob.wire.markets import MarketBody, OrderbookBody, TradeBody
from clob.wire.operations import FaucetAnswer, SplitAnswer
from clob.wire.orders import (
    CancelledBody,
    CreatedBody,
    InvalidBody,
    MakerFill,
    OrderBody,
    OrderWithFills,
    OutlookBody,
    ReplacedBody,
)


def blocking(client: Client) -> None:
    assert_type(client.info(), RootBody)
    assert_type(client.orderbook("rain", token_id=101, depth=5), OrderbookBody)
    assert_type(client.markets(), Iterator[MarketBody])
    assert_type(client.trades("rain", after=0), Iterator[TradeBody])
    assert_type(client.buy("rain", "YES", price=45, size="2.5", post_only=True), CreatedBody)
    assert_type(client.sell("rain", 101, price=45, size=10**18), CreatedBody)
    order = LimitOrder("rain", "YES", Side.BUY, 45, "1", {"time_in_force": "IOC"})
    assert_type(client.place(order), CreatedBody)
    assert_type(client.place_batch([order], atomic=True), list[CreatedBody | ResponseError])
    assert_type(client.replace("client:a", order), ReplacedBody)
    assert_type(client.validate(order), OutlookBody | InvalidBody)
    assert_type(client.cancel("client:a"), OrderBody)
    assert_type(client.cancel_some(["a"]), list[OrderBody | ResponseError])
    assert_type(client.cancel_all("rain", side="SELL"), CancelledBody)
    assert_type(client.reduce("client:a", "0.5"), OrderBody)
    assert_type(client.order("client:a", fills=True), OrderWithFills)
    assert_type(client.orders(market="rain"), Iterator[OrderBody])
    assert_type(client.fills(after=""), Iterator[MakerFill])
    assert_type(client.account(), AccountBody)
    assert_type(client.faucet(), FaucetAnswer)
    assert_type(client.split("rain", "10"), SplitAnswer)
    assert_type(client.admin_create_key("bot", ["read"]), NewKeyBody)
    assert_type(client.admin_list_keys(), Iterator[KeyBody])
    assert_type(client.admin_create_market("rain", {"question": "Rain?"}), AdminMarketBody)
    assert_type(client.sync_clock(), int)
    assert_type(client.maker, str)
    client.buy("rain", "YES", price="45", size="1")  # type: ignore[arg-type] # pyright: ignore
    client.buy("rain", "YES", price=45, size=2.5)  # type: ignore[arg-type] # pyright: ignore
    client.buy("rain", "YES", size="1")  # type: ignore[call-arg] # pyright: ignore
    client.buy("rain", "YES", price=45, size="1", postonly=True)  # type: ignore[call-arg] # pyright: ignore
    client.cancel(5)  # type: ignore[arg-type] # pyright: ignore


async def awaiting(client: AsyncClient) -> None:
    assert_type(await client.info(), RootBody)
    assert_type(await client.orderbook("rain"), OrderbookBody)
    assert_type(client.markets(), AsyncIterator[MarketBody])
    assert_type(await client.buy("rain", "YES", price=45, size="2.5"), CreatedBody)
    assert_type(await client.cancel("client:a"), OrderBody)
    assert_type(client.fills(), AsyncIterator[MakerFill])
    assert_type([each.price async for each in client.fills()], list[int])
    await client.buy("rain", "YES", price="45", size="1")  # type: ignore[arg-type] # pyright: ignore


def errors(client: Client) -> str:
    try:
        client.cancel_all()
    except RateLimitedError as error:
        assert_type(error.retry_after_s, int | None)
    except OutcomeUnknownError:
        return "unknown"
    except ResponseError as error:
        return f"{error.code} {error.status} {error.detail} {error.field} {error.request_id}"
    except ClientError as error:
        return error.hint
    return ""


async def remote_sign(digest: bytes) -> bytes:
    return digest


def clients(key: str) -> tuple[Client, AsyncClient]:
    with Client("http://localhost:8000", signer=key, api_key="k") as client:
        assert_type(client, Client)
    signer = WalletSigner("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", remote_sign)
    return client, AsyncClient("http://localhost:8000", signer=signer)
