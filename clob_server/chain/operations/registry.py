"""Creates the work of an operation from its parameters."""

from typing import Final, TypeAlias

import msgspec

from clob_server.chain.operation_bodies import (
    AnyBody,
    FaucetBody,
    MergeBody,
    PrepareBody,
    RedeemBody,
    ReportBody,
    SettleBody,
    SplitBody,
)
from clob_server.chain.operations.base import Work
from clob_server.chain.operations.deploy import (
    Deploy,
    DeployBody,
    DeployExchange,
    DeployExchangeBody,
)
from clob_server.chain.operations.faucet import Faucet, Gap, GapBody
from clob_server.chain.operations.markets import Prepare, Report
from clob_server.chain.operations.merge import Merge
from clob_server.chain.operations.redeem import Redeem
from clob_server.chain.operations.settle import Settle
from clob_server.chain.operations.split import Split

EveryBody: TypeAlias = AnyBody | DeployBody | DeployExchangeBody | GapBody
"""Parameters of any operation, including those that the command line and the worker start."""

_DECODE: Final = msgspec.json.Decoder(EveryBody).decode
_ENCODE: Final = msgspec.json.Encoder().encode


def create_work(body: EveryBody) -> Work:
    """Return the work of an operation with these parameters."""
    match body:
        case FaucetBody():
            return Faucet(body)
        case SplitBody():
            return Split(body)
        case MergeBody():
            return Merge(body)
        case RedeemBody():
            return Redeem(body)
        case PrepareBody():
            return Prepare(body)
        case ReportBody():
            return Report(body)
        case SettleBody():
            return Settle(body)
        case DeployBody():
            return Deploy(body)
        case DeployExchangeBody():
            return DeployExchange(body)
        case GapBody():
            return Gap(body)


def encode_body(body: EveryBody) -> bytes:
    """Encode parameters as JSON; equal parameters have equal bytes."""
    return _ENCODE(body)


def decode_work(body: bytes) -> Work:
    """Return the work of an operation with these encoded parameters."""
    return create_work(_DECODE(body))
