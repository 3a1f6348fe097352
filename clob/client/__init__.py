"""Client of a server: markets, orders and accounts over HTTP, and the feed over a WebSocket.

Not imported by ``import clob``; needs ``pip install 'clob[client]'``. The folder has these parts:

- :mod:`~clob.client.errors`: all errors;
- :mod:`~clob.client.signer`: signing by key, by account object or by callback;
- ``steps``, ``calls``, ``base``: a request without input and output: its attempts,
  its waits, its result;
- ``market_routes``, ``order_routes``, ``admin_routes``, ``trading``: the methods of a client;
- ``http``: :class:`Client` and :class:`AsyncClient`, which do the input and output;
- ``cli``: the command ``clob-client``;
- ``local_book``, ``own_orders``, ``subscriptions``, ``socket_calls``: the state that the messages
  of the feed keep, and requests over a WebSocket, without input and output;
- ``connection``, ``message_stream``, ``feed_base``, ``feed``: :class:`Feed` and
  :class:`BlockingFeed`, a WebSocket that is kept.
"""

# ruff: noqa: E402 - the packages are checked before the imports that need them

from clob.errors import check_installed

check_installed("clob.client", "client", "httpx", "websockets")

from clob.client.connection import Backoff
from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    InvalidFieldInfo,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    RequestRejectedError,
    ResponseError,
    StreamOverflowError,
    UnauthorisedError,
    UnavailableError,
    UnexpectedReplyError,
)
from clob.client.feed import BlockingFeed, BlockingStream, Feed, FeedOptions, RequestOptions
from clob.client.http import AsyncClient, Client
from clob.client.local_book import BookGapError, BookMismatchError, LocalBook, OutcomeBook
from clob.client.message_stream import FeedState, MessageStream
from clob.client.order_routes import LimitOrder, LimitOrderOptions
from clob.client.own_orders import FeedPosition, MakerOrders
from clob.client.signer import WalletSigner
from clob.client.subscriptions import Followed

__all__ = [
    "AsyncClient",
    "Backoff",
    "BlockingFeed",
    "BlockingStream",
    "BookGapError",
    "BookMismatchError",
    "Client",
    "ClientError",
    "ConnectionFailedError",
    "Feed",
    "FeedOptions",
    "FeedPosition",
    "FeedState",
    "Followed",
    "InvalidCallError",
    "InvalidFieldInfo",
    "LimitOrder",
    "LimitOrderOptions",
    "LocalBook",
    "MakerOrders",
    "MessageStream",
    "NotFoundError",
    "OutcomeBook",
    "OutcomeUnknownError",
    "RateLimitedError",
    "RequestOptions",
    "RequestRejectedError",
    "ResponseError",
    "StreamOverflowError",
    "UnauthorisedError",
    "UnavailableError",
    "UnexpectedReplyError",
    "WalletSigner",
]
