"""Every kind of operation, by what it is asked for with."""

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
from clob_server.chain.operations.deploy import Deploy, DeployBody, FindExchange, FoundBody
from clob_server.chain.operations.faucet import Faucet, Gap, GapBody
from clob_server.chain.operations.markets import Prepare, Report
from clob_server.chain.operations.merge import Merge
from clob_server.chain.operations.redeem import Redeem
from clob_server.chain.operations.settle import Settle
from clob_server.chain.operations.split import Split

EveryBody: TypeAlias = AnyBody | DeployBody | FoundBody | GapBody
"""What the server asks for, what an operator asks for without one, and what the worker asks of
itself."""

_DECODE: Final = msgspec.json.Decoder(EveryBody).decode
_ENCODE: Final = msgspec.json.Encoder().encode


def work_of(body: EveryBody) -> Work:
    """Give what there is to do."""
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
        case FoundBody():
            return FindExchange(body)
        case GapBody():
            return Gap(body)


def write_body(body: EveryBody) -> bytes:
    """Write what is asked for, the same bytes each time."""
    return _ENCODE(body)


def read_work(body: bytes) -> Work:
    """Give what there is to do for a body that was written."""
    return work_of(_DECODE(body))
