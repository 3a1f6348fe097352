"""Locks of conditions, and what is promised of wallets."""

import asyncio

from clob_server.chain.operations.reserved import Reservation, ReservedAmounts
from clob_server.chain.worker.operations import Locks


def in_order(*wanted):
    """Take locks in this order, each for a moment, and give who had them together."""

    async def run():
        locks, together, holding = Locks(), [], set()

        async def hold(who, name, is_exclusive):
            await locks.take(name, is_exclusive)
            holding.add(who)
            together.append(frozenset(holding))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            holding.discard(who)
            locks.give_back(name)

        tasks = [asyncio.create_task(hold(*each)) for each in wanted]
        await asyncio.gather(*tasks)
        assert not locks._locks
        return together

    return asyncio.run(run())


def test_those_that_share_have_it_together():
    assert in_order(("a", "x", False), ("b", "x", False))[-1] == {"a", "b"}


def test_an_exclusive_one_has_it_alone():
    together = in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert all(each == {"b"} for each in together if "b" in each)


def test_nobody_overtakes_one_that_waits():
    together = in_order(("a", "x", False), ("b", "x", True), ("c", "x", False))
    assert [next(iter(each)) for each in together if len(each) == 1] == ["a", "b", "c"]


def test_two_exclusive_ones_come_one_after_the_other():
    assert in_order(("a", "x", True), ("b", "x", True)) == [{"a"}, {"b"}]


def test_locks_of_other_names_do_not_matter():
    assert in_order(("a", "x", True), ("b", "y", True))[-1] == {"a", "b"}


def test_who_gives_up_waiting_holds_nobody_up():
    async def run():
        locks = Locks()
        await locks.take("x", True)
        waiting = asyncio.create_task(locks.take("x", True))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        locks.give_back("x")
        async with asyncio.timeout(1):
            await locks.take("x", True)

    asyncio.run(run())


def test_what_is_promised_adds_up_until_it_is_taken():
    async def run():
        promises, mine = ReservedAmounts(), Reservation("me", "token", 5)
        promises.hold("first", [mine])
        promises.hold("second", [mine._replace(amount=7), mine._replace(asset="other")])
        assert promises.total("me", "token") == 12
        waiting = asyncio.create_task(promises.wait([mine], 10))
        await asyncio.sleep(0)
        promises.release("first")
        promises.release("first")
        await asyncio.sleep(0)
        assert (promises.total("me", "token"), waiting.done()) == (7, False)
        promises.release("second")
        await waiting
        assert promises.total("me", "other") == 0

    asyncio.run(run())


def test_a_balance_from_before_it_was_taken_is_looked_up_again():
    async def run():
        promises, mine = ReservedAmounts(), Reservation("me", "token", 5)
        promises.hold("first", [mine])
        promises.hold("elsewhere", [mine._replace(user="you")])
        balances = iter([8, 3])

        async def look():
            balance = next(balances)
            if balance == 8:
                # The first is done, and another one has come, while the node answers.
                promises.release("first")
                promises.hold("second", [mine._replace(amount=1)])
                promises.release("elsewhere")
            return balance - promises.total("me", "token")

        assert await promises.steady([mine], look) == 2
        assert promises.holders([mine]) == {"second"}
        promises.release("second")
        assert promises.holders([mine]) == set()

    asyncio.run(run())


def test_nobody_waits_for_ever():
    async def run():
        promises, mine = ReservedAmounts(), Reservation("me", "token", 5)
        promises.hold("first", [mine])
        await promises.wait([mine], 0.01)
        assert promises.total("me", "token") == 5

    asyncio.run(run())
