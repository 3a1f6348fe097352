"""Which orders go when their makers take something back on the chain."""

import pytest

from clob import Side
from clob_server.chain.events import NonceRaised, Permission
from clob_server.settlement import reconcile
from tests.server.underway import (
    BUYER,
    NO,
    PAYEE,
    RICH,
    SELLER,
    USD,
    UnderWay,
    holding,
    news,
    played,
    rests,
    whole,
)


def test_a_nonce_is_raised_and_never_lowered():
    async def story():
        async with UnderWay() as stage:
            await stage.rise()
            order = await stage.order(BUYER, Side.BUY, nonce=3)
            raised = (NonceRaised(maker=BUYER, nonce="2"), NonceRaised(maker=BUYER, nonce="5"))
            await stage.hear(whole(raised=raised[:1]))
            assert rests(stage, order)
            await stage.hear(news(2, raised=raised[1:]), news(3, raised=raised))
            assert stage.exchange.matcher.nonce(BUYER) == 5
            assert not rests(stage, order)

    played(story())


def test_what_is_cancelled_by_hash_is_taken_out_and_remembered():
    async def story():
        async with UnderWay() as stage:
            await stage.rise()
            hashes = [bytes([place]) * 32 for place in range(3)]
            orders = [await stage.order(BUYER, Side.BUY, order_hash=each) for each in hashes[:2]]
            cancelled = tuple(f"0x{each.hex()}" for each in hashes[1:])
            await stage.hear(whole(cancelled=cancelled))
            assert [rests(stage, each) for each in orders] == [True, False]
            assert list(stage.settling.cancelled) == list(cancelled)

    played(story())


@pytest.mark.parametrize("kind", ["delegate", "gasless", "payer", "payee"])
def test_orders_that_lean_on_what_is_taken_back_are_taken_out(kind):
    async def story():
        async with UnderWay() as stage:
            await stage.rise()
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
            given = [
                Permission(kind=kind, owner=owner, other=other, allowed=allowed)
                for allowed in (True, False)
            ]
            holdings = (*whole().holdings, holding(PAYEE, USD, RICH))
            await stage.hear(whole(permissions=tuple(reversed(given)), holdings=holdings))
            assert all(rests(stage, each) for each in orders.values())
            assert stage.settling.allows(kind, owner, other)
            await stage.hear(news(2, permissions=tuple(given)))
            assert {name for name, each in orders.items() if not rests(stage, each)} == {kind}
            assert not stage.settling.allows(kind, owner, other)

    played(story())
