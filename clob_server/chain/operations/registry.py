"""Creates the work of an operation from its parameters."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from clob.wire.operations import (
    AnyBody,
    DepositBody,
    FaucetBody,
    MergeBody,
    PrepareBody,
    RedeemBody,
    ReportBody,
    SettleBody,
    SplitBody,
    UnwrapBody,
    WithdrawBody,
    WithdrawRequestBody,
    WrapBody,
)
from clob_server.chain.operations.base import Work
from clob_server.chain.operations.collateral import DeployCollateral, DeployCollateralBody
from clob_server.chain.operations.deploy import (
    Deploy,
    DeployBody,
    DeployExchange,
    DeployExchangeBody,
)
from clob_server.chain.operations.escrow import Deposit, RequestWithdrawal, Withdraw
from clob_server.chain.operations.faucet import Faucet, Gap, GapBody
from clob_server.chain.operations.markets import Prepare, Report
from clob_server.chain.operations.merge import Merge
from clob_server.chain.operations.redeem import Redeem
from clob_server.chain.operations.settle import Settle
from clob_server.chain.operations.split import Split
from clob_server.chain.operations.wrap import Unwrap, Wrap

EveryBody: TypeAlias = AnyBody | DeployBody | DeployCollateralBody | DeployExchangeBody | GapBody
"""Parameters of any operation, including those that the command line and the worker start."""

_DECODE: Final = msgspec.json.Decoder(EveryBody).decode
_WORKS: Mapping[type[EveryBody], Callable[[Any], Work[Any]]] = {
    FaucetBody: Faucet,
    SplitBody: Split,
    MergeBody: Merge,
    RedeemBody: Redeem,
    DepositBody: Deposit,
    WithdrawRequestBody: RequestWithdrawal,
    WithdrawBody: Withdraw,
    WrapBody: Wrap,
    UnwrapBody: Unwrap,
    PrepareBody: Prepare,
    ReportBody: Report,
    SettleBody: Settle,
    DeployBody: Deploy,
    DeployCollateralBody: DeployCollateral,
    DeployExchangeBody: DeployExchange,
    GapBody: Gap,
}


def create_work(body: EveryBody) -> Work[Any]:
    """Return the work of an operation with these parameters."""
    return _WORKS[type(body)](body)


def decode_work(body: bytes) -> Work[Any]:
    """Return the work of an operation with these encoded parameters."""
    return create_work(_DECODE(body))
