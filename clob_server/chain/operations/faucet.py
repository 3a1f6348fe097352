"""The faucet: test dollars are minted, and go to a wallet as collateral, with a little for gas."""

from typing import Final

import msgspec

from clob_server.chain.eth.accounts import ETHER_WEI
from clob_server.chain.eth.rpc import number, result
from clob_server.chain.operation_bodies import FaucetAnswer, FaucetBody
from clob_server.chain.operations.base import Run, Work, World, hash_of
from clob_server.chain.operations.calls import GAS_GIFT, StepBuilder
from clob_server.chain.operations.preconditions import check_gas, check_user, look
from clob_server.chain.tx.gas_limits import GasEstimateCall

POOR_WEI: Final = ETHER_WEI // 100
"""Who has less than this is given something for gas."""


class Faucet(Work):
    """Gives a wallet collateral.

    Args:
        body: what is asked for.
    """

    kind: str = "faucet"
    """What it does."""
    names: tuple[str, ...] = ("faucetTx", "transferTx", "gasTx")
    """Its steps."""
    gas: int = 400_000
    """What it takes in gas, generously."""

    def __init__(self, body: FaucetBody) -> None:
        self._body = body

    async def check(self, world: World) -> None:
        """Refuse what the operator cannot pay for.

        Raises:
            RefusalError: that, or a node that does not answer.
        """
        check_user(world, self._body.user)
        await look(world)
        check_gas(world, self.gas, world.gas_gift)

    async def run(self, run: Run) -> msgspec.Struct:
        """Mint, and wrap for the wallet.

        Test dollars that were minted and could not be wrapped stay with the operator, where they
        are worth nothing to anybody.

        Raises:
            StepFailedError: the wallet got nothing.
        """
        user, units = self._body.user, self._body.units
        calls = StepBuilder(run.world.addresses, run.world.node.operator)
        (mint,) = await run.must(calls.mint("faucetTx", units))
        (wrap,) = await run.must(calls.wrap("transferTx", user, units))
        gift = await self._gift(run)
        return FaucetAnswer(
            message=f"{units} units of collateral are in {user}",
            faucet_tx=hash_of(mint),
            transfer_tx=hash_of(wrap),
            gas_tx=gift,
            amount=units,
        )

    async def _gift(self, run: Run) -> str | None:
        """Give something for gas to who has little. A wallet that does not take it goes without."""
        if not run.world.gas_gift:
            return None
        if not run.has_begun("gasTx"):
            question = ("eth_getBalance", (self._body.user, "latest"))
            balance = await run.world.node.patiently(
                [question], lambda replies: number(result(replies[0]))
            )
            if balance >= POOR_WEI:
                return None
        call = GasEstimateCall(
            "gasTx", self._body.user, b"", value=run.world.gas_gift, gas_max=GAS_GIFT
        )
        (step,) = await run.send(call)
        return hash_of(step) if step is not None and step.status == "confirmed" else None


GAS: Final = 100_000
"""How much gas it may take; 21,000, and more where a chain asks for data to be paid."""
STEP: Final = "gapTx"
"""What its only step is called."""


class GapBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="gap"):
    """What the worker asks of itself."""

    nonce: int
    """The nonce that nobody used."""


class GapAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of it."""

    gap_tx: str
    """The transaction."""


class Gap(Work):
    """Uses a nonce, for nothing else.

    Args:
        body: what is asked for.
    """

    kind: str = "gap"
    """What it does."""
    names: tuple[str, ...] = (STEP,)
    """Its steps."""
    gas: int = GAS
    """What it takes in gas, generously."""

    def __init__(self, body: GapBody) -> None:
        self._body = body

    async def check(self, world: World) -> None:
        """Refuse nothing."""

    async def run(self, run: Run) -> msgspec.Struct:
        """Wait until it has happened.

        Raises:
            StepFailedError: it has not.
        """
        if not run.has_begun(STEP):
            call = to_itself(run.world)
            run.world.sender.sign_at(run.operation, call, self._body.nonce, GAS)
        (step,) = await run.must(to_itself(run.world))
        return GapAnswer(gap_tx=hash_of(step))


def to_itself(world: World) -> GasEstimateCall:
    """Send nothing from the operator to itself."""
    return GasEstimateCall(STEP, world.node.operator, b"")


# MERGED clob_server.chain.operations.faucet: A transaction of the operator to itself, so that a nonce is used which others wait for.
