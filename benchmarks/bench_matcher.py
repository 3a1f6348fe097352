"""``Matcher.apply`` one command at a time, against the book one would write oneself.

That book has no accounts, no nonces, no open orders by maker, no finished orders and no sequence
numbers; the matcher has all of them. Commands are prebuilt, ids are fresh text objects, and
everything returned is kept on both sides.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from benchmarks.bench_submit import NUM_TIMED as NUM_TIMED_ALL
from benchmarks.bench_submit import (
    ROUNDS,
    ROUNDS_QUICK,
    TIMED_QUICK,
    actions,
    dense_id,
    order,
    text_id,
    trades,
)
from benchmarks.measure import Pair, Row, alternate, at_least, at_most, same, timed
from benchmarks.user_book import UserBook
from benchmarks.workload import Workload, load
from clob import (
    Batch,
    Cancel,
    Funds,
    Market,
    Matcher,
    MatchType,
    RejectedError,
    SetBalance,
    Side,
    Submit,
    Trade,
)
from clob.commands import Command

NUM_MARKETS = 50
RICH_WEI = 10**60
LOT_WEI = 100
DEPTH = 100_000
"""How many orders rest beside a quote."""


def place_of(number: int, num_markets: int) -> tuple[str, str]:
    """The market and the token that an order of this number goes to."""
    if num_markets == 1:
        return "m0", "m0-yes"
    name = f"m{number // 2 % num_markets}"
    return name, f"{name}-{'no' if number % 2 else 'yes'}"


def commands(workload: Workload, num_markets: int, *, hashed: bool) -> list[Command]:
    """A stream as commands."""
    made: list[Command] = []
    for cancels, name, side, price, size in actions(workload):
        number = dense_id(name)
        market, token = place_of(number, num_markets)
        plain = order(name, side, price, size)
        if cancels:
            made.append(Cancel(order_id=name, maker=plain.maker, now_ms=1))
            continue
        fields = {field: getattr(plain, field) for field in plain.__struct_fields__}
        signed = number.to_bytes(32, "little") if hashed else None
        routed = type(plain)(**(fields | {"token": token}))
        made.append(Submit(market=market, order=routed, order_hash=signed, now_ms=1))
    return made


def matcher_for(num_markets: int, makers: set[str], *, accounts: bool) -> Matcher:
    """A matcher with its markets, and all makers rich where there are accounts."""
    matcher = Matcher()
    funds = Funds.ACCOUNTS if accounts else Funds.NONE
    for place in range(num_markets):
        name = f"m{place}"
        matcher.add_market(Market(id=name, yes=f"{name}-yes", no=f"{name}-no", funds=funds))
    assets = ["collateral", *(t for m in matcher.markets for t in (m.yes, m.no))]
    for maker in makers if accounts else ():
        for asset in assets:
            matcher.apply(SetBalance(wallet=maker, asset=asset, amount=RICH_WEI))
    return matcher


def drive_matcher(matcher: Matcher, todo: list[Command], keep: Callable[[Any], None]) -> None:
    """Ours; a cancel of an order that is gone is refused where the other side says False."""
    apply = matcher.apply
    for command in todo:
        try:
            keep(apply(command))  # type: ignore[arg-type]
        except RejectedError:
            keep(False)


def drive_users(
    books: dict[str, UserBook], todo: list[tuple[Any, ...]], keep: Callable[[Any], None]
) -> None:
    """The other side: one book for each token."""
    for cancels, name, side, price, size, token in todo:
        keep(books[token].cancel(name) if cancels else books[token].add(name, side, price, size))


def users_once(workload: Workload, num_markets: int) -> tuple[int, list[Any]]:
    """Run a stream through the other side's books."""
    todo = [
        (*action, place_of(dense_id(action[1]), num_markets)[1]) for action in actions(workload)
    ]
    books = {token: UserBook() for token in {action[-1] for action in todo}}
    drive_users(books, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    taken_ns = timed(lambda: drive_users(books, ready, kept.append), collected=True)
    return taken_ns, kept


def once(
    workload: Workload, num_markets: int, *, accounts: bool, hashed: bool
) -> tuple[int, list[Any]]:
    """Run a stream through a matcher."""
    todo = commands(workload, num_markets, hashed=hashed)
    makers = {c.order.maker for c in todo if isinstance(c, Submit)}
    matcher = matcher_for(num_markets, makers, accounts=accounts)
    drive_matcher(matcher, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    taken_ns = timed(lambda: drive_matcher(matcher, ready, kept.append), collected=True)
    return taken_ns, kept


def compare(
    workload: Workload, num_markets: int, rounds: int, *, accounts: bool, hashed: bool
) -> Pair:
    """Compare the trades of both sides once, then measure."""

    def ours() -> tuple[int, list[Any]]:
        return once(workload, num_markets, accounts=accounts, hashed=hashed)

    def other() -> tuple[int, list[Any]]:
        return users_once(workload, num_markets)

    same("matcher", trades(other()[1]), trades(ours()[1]))
    return alternate(lambda: other()[0], lambda: ours()[0], workload.num_timed, rounds)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    rounds, num_timed = (ROUNDS_QUICK, TIMED_QUICK) if quick else (ROUNDS, NUM_TIMED_ALL)
    workload = load("mixed").head(num_timed)
    for title, num_markets, accounts, hashed, limit in (
        ("apply mixed / user", 1, False, False, 1.0),
        ("apply mixed, order hashes / user", 1, False, True, None),
        ("apply mixed, accounts / user", 1, True, False, 0.6),
        ("apply 50 markets / user", NUM_MARKETS, False, False, 1.0),
        ("apply 50 markets, accounts / user", NUM_MARKETS, True, False, 0.6),
    ):
        pair = compare(workload, num_markets, rounds, accounts=accounts, hashed=hashed)
        yield at_least(title, limit, pair)
    yield at_most("apply mixed, both tokens in one book / one token", None, pairs(workload, rounds))
    yield at_most(
        "a quote moved in an atomic batch / in two commands", None, quotes(rounds, num_timed)
    )


def pairs(workload: Workload, rounds: int) -> Pair:
    """Run a stream through an ordinary market, and through one in which both tokens meet.

    There every other order is for NO, at the price and on the side that come to the same.
    """
    todo = [enlarged(command) for command in commands(workload, 1, hashed=False)]

    def once_more(*, both: bool) -> tuple[int, list[Any]]:
        ours = [turned(command) for command in todo] if both else todo
        matcher = Matcher()
        matcher.add_market(
            Market(id="m0", yes="m0-yes", no="m0-no", lot_wei=LOT_WEI, complementary=both)
        )
        drive_matcher(matcher, ours[: workload.prefill], drop)
        ready, kept = ours[workload.prefill :], []
        taken_ns = timed(lambda: drive_matcher(matcher, ready, kept.append), collected=True)
        return taken_ns, kept

    same("both tokens", met(once_more(both=False)[1]), met(once_more(both=True)[1]))
    return alternate(
        lambda: once_more(both=False)[0],
        lambda: once_more(both=True)[0],
        workload.num_timed,
        rounds,
    )


def enlarged(command: Command) -> Command:
    """Let an order have whole lots."""
    if not isinstance(command, Submit):
        return command
    order = structs.replace(command.order, size=command.order.size * LOT_WEI)
    return structs.replace(command, order=order)


def turned(command: Command) -> Command:
    """Let every other order be one for NO."""
    if not isinstance(command, Submit) or dense_id(command.order.id) % 2:
        return command
    plain = command.order
    side = Side.SELL if plain.side is Side.BUY else Side.BUY
    order = structs.replace(plain, token="m0-no", side=side, price=100 - plain.price)
    return structs.replace(command, order=order)


def met(kept: list[Any]) -> list[Any]:
    """Who met whom, and how much they traded: once for a pair."""
    return [
        (event.resting_order_id, event.incoming_order_id, event.size, event.resting_remaining)
        for events in kept
        if events
        for event in events
        if isinstance(event, Trade)
        and (event.match_type is MatchType.DIRECT or event.token == "m0-yes")
    ]


def quotes(rounds: int, num_timed: int) -> Pair:
    """Move a quote in a deep book again and again: in one atomic batch, and in two commands."""
    num_quotes = min(num_timed, 10_000)

    def once_more(*, atomic: bool) -> int:
        matcher = matcher_for(1, set(), accounts=False)
        for number in range(DEPTH):
            plain = order(text_id(number), number % 2, 60 if number % 2 else 40, 1)
            matcher.submit("m0", structs.replace(plain, token="m0-yes"))
        quote = structs.replace(plain, token="m0-yes", side=Side.BUY, price=41)
        moves = [
            (
                Cancel(order_id=f"q{number}"),
                Submit(market="m0", order=structs.replace(quote, id=f"q{number + 1}")),
            )
            for number in range(num_quotes)
        ]
        matcher.submit("m0", structs.replace(quote, id="q0"))
        batches = [Batch(commands=move, atomic=True) for move in moves]
        singles = [command for move in moves for command in move]
        return timed(lambda: drive_matcher(matcher, batches if atomic else singles, drop))

    return alternate(
        lambda: once_more(atomic=False), lambda: once_more(atomic=True), num_quotes, rounds
    )


def drop(_: object) -> None:
    """Keep nothing."""
