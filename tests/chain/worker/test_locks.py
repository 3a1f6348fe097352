"""Locks of conditions and reserved amounts."""

import asyncio

from clob_server.chain.operations.base import Lock, Locks
from clob_server.chain.operations.reserved import Reservation, ReservedAmounts


async def holders_in_order(*requests):
    """Acquire locks in this order, each for a moment; return the sets of concurrent holders."""
    locks, concurrent, holding = Locks(), [], set()

    async def hold(holder, name, is_exclusive):
        async with locks.hold(Lock(name, is_exclusive)):
            holding.add(holder)
            concurrent.append(frozenset(holding))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            holding.discard(holder)

    await asyncio.gather(*(asyncio.create_task(hold(*each)) for each in requests))
    assert not locks._held
    return concurrent


async def test_shared_locks_are_concurrent():
    assert (await holders_in_order(("a", "x", False), ("b", "x", False)))[-1] == {"a", "b"}


async def test_exclusive_lock_has_one_holder():
    concurrent = await holders_in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert all(each == {"b"} for each in concurrent if "b" in each)


async def test_locks_are_granted_in_order():
    concurrent = await holders_in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert [next(iter(each)) for each in concurrent if len(each) == 1] == ["a", "b", "c"]


async def test_exclusive_locks_are_sequential():
    assert (await holders_in_order(("a", "x", True), ("b", "x", True))) == [{"a"}, {"b"}]


async def test_locks_with_different_names_are_independent():
    assert (await holders_in_order(("a", "x", True), ("b", "y", True)))[-1] == {"a", "b"}


async def test_cancelled_waiter_does_not_block_others():
    locks, lock = Locks(), Lock("x", True)
    async with locks.hold(lock):
        waiting = asyncio.create_task(locks.hold(lock).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), locks.hold(lock):
        pass


async def test_reserved_amounts_add_up_until_released():
    reserved, reservation = ReservedAmounts(), Reservation("me", "token", 5)
    reserved.reserve("first", [reservation])
    reserved.reserve(
        "second", [reservation._replace(amount=7), reservation._replace(asset="other")]
    )
    assert reserved.total("me", "token") == 12
    waiting = asyncio.create_task(reserved.wait([reservation], 10))
    await asyncio.sleep(0)
    reserved.release("first")
    reserved.release("first")
    await asyncio.sleep(0)
    assert (reserved.total("me", "token"), waiting.done()) == (7, False)
    reserved.release("second")
    await waiting
    assert reserved.total("me", "other") == 0


async def test_balance_is_read_again_after_a_reservation_was_released():
    reserved, reservation = ReservedAmounts(), Reservation("me", "token", 5)
    reserved.reserve("first", [reservation])
    reserved.reserve("elsewhere", [reservation._replace(user="you")])
    balances = iter([8, 3])

    async def read():
        balance = next(balances)
        if balance == 8:
            # The first one ends and another one starts while the node answers.
            reserved.release("first")
            reserved.reserve("second", [reservation._replace(amount=1)])
            reserved.release("elsewhere")
        return balance - reserved.total("me", "token")

    assert await reserved.read_unchanged([reservation], read) == 2
    assert reserved.holders([reservation]) == {"second"}
    reserved.release("second")
    assert reserved.holders([reservation]) == set()


async def test_waiting_for_reservations_times_out():
    reserved, reservation = ReservedAmounts(), Reservation("me", "token", 5)
    reserved.reserve("first", [reservation])
    await reserved.wait([reservation], 0.01)
    assert reserved.total("me", "token") == 5
