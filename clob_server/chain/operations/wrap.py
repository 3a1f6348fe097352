"""Wrap and unwrap: convert stablecoin of a wallet into collateral, and back.

The amount of collateral is in wei, a multiple of the smallest unit of the stablecoin. The wallet
pays the operator first, and the wrapping contract pays the wallet.
"""

from abc import abstractmethod
from typing import Final, TypeVar

import msgspec

from clob.wire.operations import UnwrapAnswer, UnwrapBody, WrapAnswer, WrapBody, WrappingBody
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import BALANCE
from clob_server.chain.operations.collateral import check_wrapper, wrapper_reads
from clob_server.chain.operations.payment import Payment
from clob_server.chain.operations.preconditions import (
    Read,
    check_balance,
    check_gas,
    check_user,
    read_once,
    read_until_valid,
    scale_read,
)
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall

REFUND: Final = "refundTx"
"""Step that returns the taken tokens."""

Body = TypeVar("Body", bound=WrappingBody)


class Wrapping(Work[Body]):
    """Takes one token from a wallet and pays out the other one."""

    gas: int = 500_000
    asset: str
    """Token that the wallet pays: ``stablecoin`` or ``collateral``."""
    answer: type[WrapAnswer] | type[UnwrapAnswer]
    """Type of the answer; its hashes have the names of the steps."""
    message: str
    """Message of the answer, for an amount and a wallet."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._amount = int(body.amount)
        # In wei for both tokens, since the scale is not known yet.
        self.reservations: tuple[Reservation, ...] = (
            Reservation(body.user, self.asset, self._amount),
        )

    @abstractmethod
    def _payment(self, context: OperationContext, scale: int) -> Payment:
        """Return the transfer to the operator."""

    @abstractmethod
    def _convert(self, context: OperationContext, scale: int) -> StepCall:
        """Return the step that pays the wallet."""

    async def check(self, context: OperationContext) -> None:
        """Reject an invalid wallet or amount, and a lack of tokens or of an approval."""
        body, addresses = self.body, context.addresses
        check_user(context, body.user)
        is_wrap = self.asset == "stablecoin"
        token = addresses.stablecoin if is_wrap else addresses.collateral
        reads = [
            Read(token, BALANCE, (body.user,)),
            self._payment(context, 1).allowance(context),
            *wrapper_reads(addresses.collateral),
        ]
        balance, allowance, scale, *wrapped = await read_once(context, *reads)
        check_wrapper(addresses, scale, *wrapped)
        if self._amount % scale:
            raise OperationRejectedError(
                "INVALID_AMOUNT",
                f"amount must be a multiple of {scale} wei, the smallest unit of the stablecoin; "
                f"got {self._amount}",
            )
        reserved, worth = context.reserved.total(body.user, self.asset), scale if is_wrap else 1
        # The amounts are in wei of collateral for both tokens.
        name = f"collateral in the {self.asset} {token}"
        check_balance(context, name, balance * worth, self.reservations[0])
        await self._payment(context, scale).check_approved(context, allowance - reserved // worth)
        check_gas(context, self.gas)

    async def run(self, run: Run) -> WrapAnswer | UnwrapAnswer:
        """Take one token and pay out the other.

        Raises:
            StepFailedError: it failed and the wallet has its token back.
            StuckError: it failed and the operator still holds the token.
        """
        context = run.context
        (scale,) = await read_until_valid(context, scale_read(context))
        payment, convert = self._payment(context, scale), self._convert(context, scale)
        try:
            run.continue_undoing(REFUND)
            permit_tx = await payment.submit_permit(run)
            (pulled,) = await run.confirm(payment.pull(context), then=convert)
            context.reserved.release(run.operation.id)
            (converted,) = await run.confirm(convert)
        except StepFailedError:
            if run.is_confirmed(payment.step):
                await run.confirm_or_stick(payment.refund(REFUND, context))
            raise
        hashes = (permit_tx, step_hash(pulled), step_hash(converted))
        fields = {
            "message": self.message.format(self.body.amount, self.body.user),
            **dict(zip(self.step_names, hashes, strict=True)),
            "amount": self.body.amount,
            "stablecoinAmount": str(self._amount // scale),
        }
        return msgspec.convert(fields, self.answer)


class Wrap(Wrapping[WrapBody]):
    """Wraps stablecoin of a wallet into collateral."""

    step_names: tuple[str, ...] = ("permitTx", "stablecoinTransferTx", "wrapTx")
    asset = "stablecoin"
    answer: type[WrapAnswer] | type[UnwrapAnswer] = WrapAnswer
    message: str = "stablecoin was wrapped into {} wei of collateral of {}"

    def _payment(self, context: OperationContext, scale: int) -> Payment:
        body, units, token = self.body, self._amount // scale, context.addresses.stablecoin
        name = "of the smallest unit of stablecoin"
        return Payment(self.step_names[1], name, token, body.user, units, body.permit)

    def _convert(self, context: OperationContext, scale: int) -> StepCall:
        return context.builder.wrap(self.step_names[2], self.body.user, self._amount // scale)


class Unwrap(Wrapping[UnwrapBody]):
    """Unwraps collateral of a wallet into stablecoin."""

    step_names: tuple[str, ...] = ("permitTx", "collateralTransferTx", "unwrapTx")
    asset = "collateral"
    answer: type[WrapAnswer] | type[UnwrapAnswer] = UnwrapAnswer
    message: str = "{} wei of collateral were unwrapped into stablecoin of {}"

    def _payment(self, context: OperationContext, scale: int) -> Payment:
        body, token = self.body, context.addresses.collateral
        name = "wei of collateral"
        return Payment(self.step_names[1], name, token, body.user, self._amount, body.permit)

    def _convert(self, context: OperationContext, scale: int) -> StepCall:
        return context.builder.unwrap(self.step_names[2], self.body.user, self._amount)
