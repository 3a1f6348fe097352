"""Escrow: deposits for a wallet, signed requests to withdraw, and payments of withdrawals."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from clob.wire.operations import (
    DepositAnswer,
    DepositBody,
    MergeBody,
    WithdrawAnswer,
    WithdrawBody,
    WithdrawRequestAnswer,
    WithdrawRequestBody,
)
from clob_server.chain.eth.abi import Event
from clob_server.chain.eth.exchange_abi import COLLATERAL_ASSET, WITHDRAWAL_REQUESTED, WITHDRAWN
from clob_server.chain.eth.rpc import integer, parsing, result
from clob_server.chain.eth.token_ids import token_ids
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import (
    ALLOWANCE,
    BALANCE,
    BALANCES,
    CONDITION_OF,
    IS_APPROVED,
    TOKEN_TRANSFER_GAS,
)
from clob_server.chain.operations.deploy import is_unlimited
from clob_server.chain.operations.payment import Payment
from clob_server.chain.operations.preconditions import (
    NO_ESCROW,
    Read,
    call_error,
    check_approved,
    check_balance,
    check_gas,
    check_user,
    escrow_read,
    read_and_estimate,
    read_once,
    read_until_valid,
    without_escrow,
)
from clob_server.chain.operations.refund import payment_step
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.outbox import clock_ms
from clob_server.chain.tx.steps import Step

COLLATERAL: Final = "collateral"
"""The asset that is not an outcome token."""
PULL_STEP: Final = "pullTx"
REFUND_STEP: Final = "refundTx"
"""Step that undoes a deposit."""
APPROVE_STEP: Final = "approveTx"
"""Step that approves the exchange for the operator's assets, before its first deposit."""
WITHDRAW_GAS: Final = 150_000
"""Maximum gas of a withdrawal, 53,000 for collateral, without the code of a token receiver."""
MS: Final = 1_000
"""Milliseconds in a second."""
NO_CONDITION: Final = bytes(32)
"""Condition of a token that is not registered."""
CODES: Final = {
    "SignatureExpired": "DEADLINE_PASSED",
    "NonceUsed": "NONCE_USED",
    "WrongSigner": "INVALID_SIGNATURE",
    "UnusableSignature": "INVALID_SIGNATURE",
    "InsufficientEscrow": "INSUFFICIENT_BALANCE",
}
"""Codes of rejected requests, by the contract's error."""


def asset_number(asset: str) -> int:
    """Return an asset of a wallet as the exchange contract numbers it."""
    return COLLATERAL_ASSET if asset == COLLATERAL else int(asset)


def check_escrow(context: OperationContext, escrow: Sequence[int]) -> None:
    """Reject an exchange that keeps no escrow."""
    if escrow == NO_ESCROW:
        raise OperationRejectedError(
            "ESCROW_NOT_SUPPORTED", without_escrow(context.addresses.exchange)
        )


def check_exchange(context: OperationContext) -> str:
    """Return the address of the exchange; reject a chain without one."""
    if not context.addresses.exchange:
        raise OperationRejectedError(
            "CHAIN_UNAVAILABLE", "there is no exchange contract on this chain"
        )
    return context.addresses.exchange


def event_of(step: Step, event: Event) -> tuple[Any, ...]:
    """Return the values of the event that a confirmed step emitted."""
    logs = msgspec.json.decode(step.logs or b"[]")
    return next(event.decode(log) for log in logs if event.is_in(log))


# ----- deposits ------------------------------------------------------------------------------


class Held(NamedTuple):
    """The condition of an outcome token that the operator holds for a moment."""

    condition: bytes
    tokens: tuple[int, int]
    """Ids of YES and NO."""


class Deposit(Work[DepositBody]):
    """Moves an asset of a wallet into its escrow: to the operator, then to the exchange."""

    step_names: tuple[str, ...] = ("permitTx", APPROVE_STEP, PULL_STEP, "depositTx")
    gas: int = 500_000

    def __init__(self, body: DepositBody) -> None:
        super().__init__(body)
        self._asset = asset_number(body.asset)
        self._amount = int(body.amount)
        self.reservations: tuple[Reservation, ...] = (
            Reservation(body.user, body.asset, self._amount),
        )

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject an invalid wallet, an exchange without escrow, an unknown token, and a lack of the
        asset or an approval.

        Returns:
            Gas estimate of the transfer to the operator, unless a permit precedes it.
        """  # noqa: D205
        body, exchange = self.body, check_exchange(context)
        check_user(context, body.user)
        reads = [escrow_read(exchange), *self._reads(context)]
        calls = [] if body.permit else [self._pull(context)]
        (escrow, *values), gas = await read_and_estimate(context, reads, calls)
        check_escrow(context, escrow)
        if self._asset == COLLATERAL_ASSET:
            await self._check_collateral(context, *values)
        else:
            self._check_token(context, *values)
        check_gas(context, self.gas)
        return gas

    def _reads(self, context: OperationContext) -> list[Read]:
        """Return the reads of the wallet's balance and approval, and of a token's condition."""
        user, operator, places = self.body.user, context.node.operator, context.addresses
        if self._asset == COLLATERAL_ASSET:
            allowance = self._payment(context).allowance(context)
            return [Read(places.collateral, BALANCE, (user,)), allowance]
        return [
            Read(places.exchange, CONDITION_OF, (self._asset,)),
            Read(places.conditional_tokens, BALANCES, ([user], [self._asset])),
            Read(places.conditional_tokens, IS_APPROVED, (user, operator)),
        ]

    async def _check_collateral(
        self, context: OperationContext, balance: int, allowance: int
    ) -> None:
        """Reject a lack of collateral or an approval."""
        name = f"the collateral {context.addresses.collateral}"
        check_balance(context, name, balance, self.reservations[0])
        reserved = context.reserved.total(self.body.user, self.body.asset)
        await self._payment(context).check_approved(context, allowance - reserved)

    def _check_token(
        self,
        context: OperationContext,
        condition: bytes,
        balances: Sequence[int],
        is_approved: bool,
    ) -> None:
        """Reject an unknown token, and a lack of tokens or an approval."""
        if condition == NO_CONDITION:
            raise OperationRejectedError(
                "UNKNOWN_CONDITION",
                f"the token {self.body.asset} is not registered with the exchange "
                f"{context.addresses.exchange}",
            )
        check_balance(context, f"the token {self.body.asset}", balances[0], self.reservations[0])
        check_approved(context, self.body.user, is_approved)

    def _payment(self, context: OperationContext) -> Payment:
        """Return the transfer of collateral to the operator."""
        body, token = self.body, context.addresses.collateral
        return Payment(PULL_STEP, "wei of collateral", token, body.user, self._amount, body.permit)

    def _pull(self, context: OperationContext) -> StepCall:
        """Return the step that transfers the asset to the operator."""
        if self._asset == COLLATERAL_ASSET:
            return self._payment(context).pull(context)
        user = self.body.user
        return context.builder.pull_token(PULL_STEP, user, self._asset, self._amount)

    async def run(self, run: Run) -> DepositAnswer:
        """Transfer the asset to the operator and deposit it.

        Raises:
            StepFailedError: it failed and the asset was returned.
            StuckError: it failed and the operator still holds the asset.
        """
        body, context = self.body, run.context
        deposit = context.builder.deposit("depositTx", body.user, self._asset, self._amount)
        async with self._refunding(run):
            permit_tx = await self._payment(context).submit_permit(run) if body.permit else None
            await self._approve(run)
            (pulled,) = await run.confirm(self._pull(context), then=deposit)
            context.reserved.release(run.operation.id)
            (deposited,) = await run.confirm(deposit)
        return DepositAnswer(
            message=f"{body.amount} wei of {body.asset} are in the escrow of {body.user}",
            permit_tx=permit_tx,
            pull_tx=step_hash(pulled),
            deposit_tx=step_hash(deposited),
            asset=body.asset,
            amount=body.amount,
        )

    @asynccontextmanager
    async def _refunding(self, run: Run) -> AsyncIterator[None]:
        """Return the transferred asset to the wallet if a step in the context fails.

        A redemption takes all tokens of the operator, so none may run meanwhile.
        """
        held = await self._held(run.context)
        lock = None if held is None else Lock(f"0x{held.condition.hex()}", is_exclusive=False)
        async with run.context.locks.hold(lock):
            try:
                run.continue_undoing(REFUND_STEP)
                yield
            except StepFailedError:
                if run.is_confirmed(PULL_STEP):
                    await run.confirm_or_stick(await self._refund(run, held))
                raise

    async def _held(self, context: OperationContext) -> Held | None:
        """Return the condition of the token; None for collateral."""
        if self._asset == COLLATERAL_ASSET:
            return None
        read = Read(context.addresses.exchange, CONDITION_OF, (self._asset,))
        (condition,) = await read_until_valid(context, read)
        return Held(condition, token_ids(context.addresses.collateral, condition))

    async def _refund(self, run: Run, held: Held | None) -> StepCall:
        """Return the step that returns the asset, or the payout of a token redeemed meanwhile."""
        if held is None:
            return self._payment(run.context).refund(REFUND_STEP, run.context)
        yes, no = held.tokens
        owed = MergeBody(
            user=self.body.user,
            amount=self.body.amount,
            condition_id=f"0x{held.condition.hex()}",
            yes_token_id=str(yes),
            no_token_id=str(no),
        )
        outcome = held.tokens.index(self._asset)
        return await payment_step(run, REFUND_STEP, owed, held.tokens, outcome, self._amount)

    async def _approve(self, run: Run) -> None:
        """Approve the exchange for the operator's assets, unless that was done before."""
        context, exchange = run.context, run.context.addresses.exchange
        operator, places = context.node.operator, context.addresses
        if self._asset == COLLATERAL_ASSET:
            read = Read(places.collateral, ALLOWANCE, (operator, exchange))
            step = context.builder.approve(APPROVE_STEP, places.collateral, exchange)
        else:
            read = Read(places.conditional_tokens, IS_APPROVED, (operator, exchange))
            step = context.builder.approve_tokens(APPROVE_STEP, exchange)
        (approved,) = await read_until_valid(context, read)
        is_done = approved if isinstance(approved, bool) else is_unlimited(approved)
        if not is_done or run.has_begun(APPROVE_STEP):
            await run.confirm(step)


# ----- withdrawals ---------------------------------------------------------------------------


class RequestWithdrawal(Work[WithdrawRequestBody]):
    """Submits the signed request of a wallet to withdraw from its escrow."""

    step_names: tuple[str, ...] = ("requestTx",)
    gas: int = 400_000

    async def check(self, context: OperationContext) -> None:
        """Reject an invalid wallet, an exchange without escrow, and a request that would fail."""
        exchange = check_exchange(context)
        check_user(context, self.body.user)
        (escrow,) = await read_once(context, escrow_read(exchange))
        check_escrow(context, escrow)
        reason = await call_error(context, self._step(context))
        if reason is not None:
            code = CODES.get(reason.partition("(")[0], "OPERATION_FAILED")
            raise OperationRejectedError(code, f"the withdrawal cannot be requested: {reason}")
        check_gas(context, self.gas)

    def _step(self, context: OperationContext) -> StepCall:
        """Return the only step."""
        body = self.body
        numbers = int(body.amount), int(body.nonce), int(body.deadline)
        arguments = body.user, asset_number(body.asset), *numbers
        signature = bytes.fromhex(body.signature[2:])
        return context.builder.request_withdrawal("requestTx", *arguments, signature)

    async def run(self, run: Run) -> WithdrawRequestAnswer:
        """Send the transaction.

        Raises:
            StepFailedError: it failed, and nothing changed.
        """
        body = self.body
        (step,) = await run.confirm(self._step(run.context))
        *_, from_s = event_of(step, WITHDRAWAL_REQUESTED)
        return WithdrawRequestAnswer(
            message=f"{body.amount} wei of {body.asset} can be withdrawn to {body.user} from "
            f"{from_s} on",
            request_tx=step_hash(step),
            from_s=from_s,
            asset=body.asset,
            amount=body.amount,
        )


class Withdraw(Work[WithdrawBody]):
    """Pays a requested withdrawal to its wallet."""

    step_names: tuple[str, ...] = ("withdrawTx",)
    gas: int = WITHDRAW_GAS + TOKEN_TRANSFER_GAS

    async def check(self, context: OperationContext) -> None:
        """Reject an invalid wallet, an exchange without escrow, and no request that is due."""
        exchange, body = check_exchange(context), self.body
        check_user(context, body.user)
        read = escrow_read(exchange, body.user, asset_number(body.asset))
        (escrow,) = await read_once(context, read)
        check_escrow(context, escrow)
        _, requested, from_s = escrow
        if not requested:
            raise OperationRejectedError(
                "NOTHING_TO_WITHDRAW",
                f"{body.user} has not requested a withdrawal of {body.asset} from escrow",
            )
        now_s = await self._now_s(context)
        if now_s < from_s:
            raise OperationRejectedError(
                "WITHDRAWAL_NOT_DUE",
                f"the withdrawal of {requested} wei of {body.asset} by {body.user} is due at "
                f"{from_s}; the time is {now_s}",
                **{"from": str(from_s)},
            )
        check_gas(context, self.gas)

    async def _now_s(self, context: OperationContext) -> int:
        """Return the time of the next block at the earliest, Unix seconds."""
        (reply,) = await context.node.request([("eth_getBlockByNumber", ("latest", False))])
        with parsing():
            return max(integer(result(reply)["timestamp"]), clock_ms() // MS)

    async def run(self, run: Run) -> WithdrawAnswer:
        """Send the transaction.

        Raises:
            StepFailedError: it failed, and nothing changed.
        """
        body = self.body
        step = run.context.builder.withdraw("withdrawTx", body.user, asset_number(body.asset))
        # An estimate would run at the time of the newest block, at which it may not be due.
        (paid,) = await run.confirm(step._replace(gas=self.gas))
        *_, amount = event_of(paid, WITHDRAWN)
        return WithdrawAnswer(
            message=f"{amount} wei of {body.asset} were paid to {body.user}",
            withdraw_tx=step_hash(paid),
            asset=body.asset,
            amount=str(amount),
        )
