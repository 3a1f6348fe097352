"""Locks of conditions and reserved amounts."""

import asyncio

from clob_server.chain.operations.reserved import Reservation, ReservedAmounts
from clob_server.chain.worker.operations import Locks


def in_order(*wanted):
    """Acquire locks in this order, each for a moment, and return the sets of concurrent holders."""

    async def run():
        locks, together, holding = Locks(), [], set()

        async def hold(who, name, is_exclusive):
            await locks.acquire(name, is_exclusive)
            holding.add(who)
            together.append(frozenset(holding))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            holding.discard(who)
            locks.release(name)

        tasks = [asyncio.create_task(hold(*each)) for each in wanted]
        await asyncio.gather(*tasks)
        assert not locks._locks
        return together

    return asyncio.run(run())


def test_shared_locks_are_concurrent():
    assert in_order(("a", "x", False), ("b", "x", False))[-1] == {"a", "b"}


def test_exclusive_lock_has_one_holder():
    together = in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert all(each == {"b"} for each in together if "b" in each)


def test_locks_are_granted_in_order():
    together = in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert [next(iter(each)) for each in together if len(each) == 1] == ["a", "b", "c"]


def test_exclusive_locks_are_sequential():
    assert in_order(("a", "x", True), ("b", "x", True)) == [{"a"}, {"b"}]


def test_locks_with_different_names_are_independent():
    assert in_order(("a", "x", True), ("b", "y", True))[-1] == {"a", "b"}


def test_cancelled_waiter_does_not_block_others():
    async def run():
        locks = Locks()
        await locks.acquire("x", True)
        waiting = asyncio.create_task(locks.acquire("x", True))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        locks.release("x")
        async with asyncio.timeout(1):
            await locks.acquire("x", True)

    asyncio.run(run())


def test_reserved_amounts_add_up_until_released():
    async def run():
        reserved, mine = ReservedAmounts(), Reservation("me", "token", 5)
        reserved.reserve("first", [mine])
        reserved.reserve("second", [mine._replace(amount=7), mine._replace(asset="other")])
        assert reserved.total("me", "token") == 12
        waiting = asyncio.create_task(reserved.wait([mine], 10))
        await asyncio.sleep(0)
        reserved.release("first")
        reserved.release("first")
        await asyncio.sleep(0)
        assert (reserved.total("me", "token"), waiting.done()) == (7, False)
        reserved.release("second")
        await waiting
        assert reserved.total("me", "other") == 0

    asyncio.run(run())


def test_balance_is_read_again_after_a_reservation_was_released():
    async def run():
        reserved, mine = ReservedAmounts(), Reservation("me", "token", 5)
        reserved.reserve("first", [mine])
        reserved.reserve("elsewhere", [mine._replace(user="you")])
        balances = iter([8, 3])

        async def read():
            balance = next(balances)
            if balance == 8:
                # The first one ends and another one starts while the node answers.
                reserved.release("first")
                reserved.reserve("second", [mine._replace(amount=1)])
                reserved.release("elsewhere")
            return balance - reserved.total("me", "token")

        assert await reserved.read_unchanged([mine], read) == 2
        assert reserved.holders([mine]) == {"second"}
        reserved.release("second")
        assert reserved.holders([mine]) == set()

    asyncio.run(run())


def test_waiting_for_reservations_times_out():
    async def run():
        reserved, mine = ReservedAmounts(), Reservation("me", "token", 5)
        reserved.reserve("first", [mine])
        await reserved.wait([mine], 0.01)
        assert reserved.total("me", "token") == 5

    asyncio.run(run())
