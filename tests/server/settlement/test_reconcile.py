"""Orders that are cancelled because of nonces, cancels and revoked permissions on the chain."""

import pytest

from clob import Side
from clob_server.chain.events import NonceRaised, Permission
from clob_server.settlement import reconcile
from tests.server.settlement.underway import (
    BUYER,
    NO,
    PAYEE,
    RICH,
    SELLER,
    USD,
    UnderWay,
    holding,
    rests,
    run,
    update,
    whole,
)


def test_nonce_is_raised_and_never_lowered():
    async def story():
        async with UnderWay() as stage:
            await stage.start_worker()
            order = await stage.order(BUYER, Side.BUY, nonce=3)
            raised = (NonceRaised(maker=BUYER, nonce="2"), NonceRaised(maker=BUYER, nonce="5"))
            await stage.receive(whole(raised=raised[:1]))
            assert rests(stage, order)
            await stage.receive(update(2, raised=raised[1:]), update(3, raised=raised))
            assert stage.exchange.matcher.nonce(BUYER) == 5
            assert not rests(stage, order)

    run(story())


def test_order_cancelled_by_hash_is_removed_and_its_hash_kept():
    async def story():
        async with UnderWay() as stage:
            await stage.start_worker()
            hashes = [bytes([place]) * 32 for place in range(3)]
            orders = [await stage.order(BUYER, Side.BUY, order_hash=each) for each in hashes[:2]]
            cancelled = tuple(f"0x{each.hex()}" for each in hashes[1:])
            await stage.receive(whole(cancelled=cancelled))
            assert [rests(stage, each) for each in orders] == [True, False]
            assert list(stage.settling.cancelled) == list(cancelled)

    run(story())


@pytest.mark.parametrize("kind", ["delegate", "gasless", "payer", "payee"])
def test_orders_that_depend_on_a_revoked_permission_are_cancelled(kind):
    async def story():
        async with UnderWay() as stage:
            await stage.start_worker()
            await stage.do(reconcile.SetBalance, wallet=PAYEE, asset=USD, amount=RICH)
            orders = {
                "own": await stage.order(BUYER, Side.BUY, signer=BUYER, price=40),
                "delegate": await stage.order(BUYER, Side.BUY, signer=PAYEE, price=40),
                "gasless": await stage.order(BUYER, Side.BUY, price=40),
                "payer": await stage.order(
                    BUYER, Side.BUY, signer=BUYER, price=40, smart_wallet=PAYEE
                ),
                "payee": await stage.order(
                    BUYER, Side.SELL, signer=BUYER, token=NO, smart_wallet=PAYEE
                ),
                "others": await stage.order(SELLER, Side.SELL, price=60),
            }
            owner, other = {
                "gasless": (BUYER, BUYER),
                "payer": (PAYEE, BUYER),
            }.get(kind, (BUYER, PAYEE))
            changes = [
                Permission(kind=kind, owner=owner, other=other, allowed=allowed)
                for allowed in (True, False)
            ]
            holdings = (*whole().holdings, holding(PAYEE, USD, RICH))
            await stage.receive(whole(permissions=tuple(reversed(changes)), holdings=holdings))
            assert all(rests(stage, each) for each in orders.values())
            assert stage.settling.allows(kind, owner, other)
            await stage.receive(update(2, permissions=tuple(changes)))
            assert {name for name, each in orders.items() if not rests(stage, each)} == {kind}
            assert not stage.settling.allows(kind, owner, other)

    run(story())
