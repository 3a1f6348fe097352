"""Orders that are cancelled because of nonces, cancels and revoked permissions on the chain."""

import pytest

from clob import Side
from clob_server.chain.events import NonceRaised, Permission
from clob_server.settlement import reconcile
from tests.server.settlement.harness import (
    BUYER,
    NO,
    PAYEE,
    RICH,
    SELLER,
    USD,
    SettlementHarness,
    first_update,
    holding,
    is_resting,
    update,
)


async def test_nonce_is_raised_and_never_lowered():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        order = await harness.order(BUYER, Side.BUY, nonce=3)
        raised = (NonceRaised(maker=BUYER, nonce="2"), NonceRaised(maker=BUYER, nonce="5"))
        await harness.receive(first_update(raised=raised[:1]))
        assert is_resting(harness, order)
        await harness.receive(update(2, raised=raised[1:]), update(3, raised=raised))
        assert harness.exchange.matcher.nonce(BUYER) == 5
        assert not is_resting(harness, order)


async def test_order_cancelled_by_hash_is_removed_and_its_hash_kept():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        hashes = [bytes([number]) * 32 for number in range(3)]
        orders = [await harness.order(BUYER, Side.BUY, order_hash=each) for each in hashes[:2]]
        cancelled = tuple(f"0x{each.hex()}" for each in hashes[1:])
        await harness.receive(first_update(cancelled=cancelled))
        assert [is_resting(harness, each) for each in orders] == [True, False]
        assert list(harness.settling.cancelled) == list(cancelled)


@pytest.mark.parametrize("kind", ["delegate", "gasless", "payer", "payee"])
async def test_orders_that_depend_on_a_revoked_permission_are_cancelled(kind):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.do(reconcile.SetBalance, wallet=PAYEE, asset=USD, amount=RICH)
        orders = {
            "own": await harness.order(BUYER, Side.BUY, signer=BUYER, price=40),
            "delegate": await harness.order(BUYER, Side.BUY, signer=PAYEE, price=40),
            "gasless": await harness.order(BUYER, Side.BUY, price=40),
            "payer": await harness.order(
                BUYER, Side.BUY, signer=BUYER, price=40, smart_wallet=PAYEE
            ),
            "payee": await harness.order(
                BUYER, Side.SELL, signer=BUYER, token=NO, smart_wallet=PAYEE
            ),
            "others": await harness.order(SELLER, Side.SELL, price=60),
        }
        owner, other = {
            "gasless": (BUYER, BUYER),
            "payer": (PAYEE, BUYER),
        }.get(kind, (BUYER, PAYEE))
        changes = [
            Permission(kind=kind, owner=owner, other=other, allowed=allowed)
            for allowed in (True, False)
        ]
        holdings = (*first_update().holdings, holding(PAYEE, USD, RICH))
        await harness.receive(first_update(permissions=tuple(reversed(changes)), holdings=holdings))
        assert all(is_resting(harness, each) for each in orders.values())
        assert harness.settling.allows(kind, owner, other)
        await harness.receive(update(2, permissions=tuple(changes)))
        assert {name for name, each in orders.items() if not is_resting(harness, each)} == {kind}
        assert not harness.settling.allows(kind, owner, other)
