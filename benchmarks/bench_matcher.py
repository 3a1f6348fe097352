"""``Matcher.apply``, one command at a time, compared with the book of ``user_book.py``.

That book has no accounts, nonces, open orders by maker, finished orders or sequence numbers; the
matcher has all of them. Commands are prebuilt, ids are fresh text objects, and both sides keep all
returned values.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import structs

from benchmarks.bench_submit import NUM_TIMED as NUM_TIMED_ALL
from benchmarks.bench_submit import (
    ROUNDS,
    ROUNDS_QUICK,
    TIMED_QUICK,
    actions,
    dense_id,
    make_order,
    text_id,
    trades,
)
from benchmarks.measure import Pair, Row, alternate, at_least, at_most, check_equal, timed
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
"""Resting orders in the book of the quote."""


def market_and_token(number: int, num_markets: int) -> tuple[str, str]:
    """Return the market and the token of an order by its number."""
    if num_markets == 1:
        return "m0", "m0-yes"
    name = f"m{number // 2 % num_markets}"
    return name, f"{name}-{'no' if number % 2 else 'yes'}"


def commands(workload: Workload, num_markets: int, *, hashed: bool) -> list[Command]:
    """Return a stream as commands."""
    made: list[Command] = []
    for cancels, name, side, price, size in actions(workload):
        number = dense_id(name)
        market, token = market_and_token(number, num_markets)
        plain = make_order(name, side, price, size)
        if cancels:
            made.append(Cancel(order_id=name, maker=plain.maker, now_ms=1))
            continue
        fields = {field: getattr(plain, field) for field in plain.__struct_fields__}
        signed = number.to_bytes(32, "little") if hashed else None
        routed = type(plain)(**(fields | {"token": token}))
        made.append(Submit(market=market, order=routed, order_hash=signed, now_ms=1))
    return made


def matcher_for(num_markets: int, makers: set[str], *, accounts: bool) -> Matcher:
    """Return a matcher with its markets; with accounts, every maker has a large balance."""
    matcher = Matcher()
    funds = Funds.ACCOUNTS if accounts else Funds.NONE
    for number in range(num_markets):
        name = f"m{number}"
        matcher.add_market(Market(id=name, yes=f"{name}-yes", no=f"{name}-no", funds=funds))
    assets = ["collateral", *(t for m in matcher.markets for t in (m.yes, m.no))]
    for maker in makers if accounts else ():
        for asset in assets:
            matcher.apply(SetBalance(wallet=maker, asset=asset, amount=RICH_WEI))
    return matcher


def drive_matcher(matcher: Matcher, todo: Sequence[Command], keep: Callable[[Any], None]) -> None:
    """Apply commands; keep False for a rejected cancel, as the other side returns it."""
    apply = matcher.apply
    for command in todo:
        try:
            keep(apply(command))
        except RejectedError:
            keep(False)


def drive_users(
    books: dict[str, UserBook], todo: list[tuple[Any, ...]], keep: Callable[[Any], None]
) -> None:
    """Run the other side, with one book per token."""
    for cancels, name, side, price, size, token in todo:
        keep(books[token].cancel(name) if cancels else books[token].add(name, side, price, size))


def users_once(workload: Workload, num_markets: int) -> tuple[int, list[Any]]:
    """Run a stream through the other side's books; return nanoseconds and results."""
    todo = [
        (*action, market_and_token(dense_id(action[1]), num_markets)[1])
        for action in actions(workload)
    ]
    books = {token: UserBook() for token in {action[-1] for action in todo}}
    drive_users(books, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    taken_ns = timed(lambda: drive_users(books, ready, kept.append), gc_enabled=True)
    return taken_ns, kept


def once(
    workload: Workload, num_markets: int, *, accounts: bool, hashed: bool
) -> tuple[int, list[Any]]:
    """Run a stream through a matcher; return nanoseconds and results."""
    todo = commands(workload, num_markets, hashed=hashed)
    makers = {c.order.maker for c in todo if isinstance(c, Submit)}
    matcher = matcher_for(num_markets, makers, accounts=accounts)
    drive_matcher(matcher, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    taken_ns = timed(lambda: drive_matcher(matcher, ready, kept.append), gc_enabled=True)
    return taken_ns, kept


def compare(
    workload: Workload, num_markets: int, rounds: int, *, accounts: bool, hashed: bool
) -> Pair:
    """Check that both sides make the same trades, then measure."""

    def ours() -> tuple[int, list[Any]]:
        return once(workload, num_markets, accounts=accounts, hashed=hashed)

    def other() -> tuple[int, list[Any]]:
        return users_once(workload, num_markets)

    check_equal("trades", trades(other()[1]), trades(ours()[1]))
    return alternate(lambda: other()[0], lambda: ours()[0], workload.num_timed, rounds)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    rounds, num_timed = (ROUNDS_QUICK, TIMED_QUICK) if quick else (ROUNDS, NUM_TIMED_ALL)
    workload = load("mixed").head(num_timed)
    for title, num_markets, accounts, hashed, limit in (
        ("apply mixed / user", 1, False, False, 1.1),
        ("apply mixed, order hashes / user", 1, False, True, 0.8),
        ("apply mixed, accounts / user", 1, True, False, 0.85),
        ("apply 50 markets / user", NUM_MARKETS, False, False, 1.1),
        ("apply 50 markets, accounts / user", NUM_MARKETS, True, False, 0.85),
    ):
        pair = compare(workload, num_markets, rounds, accounts=accounts, hashed=hashed)
        yield at_least(title, limit, pair)
    pair = compare_complementary(workload, rounds)
    yield at_most("apply mixed, complementary market / ordinary market", None, pair)
    pair = compare_quotes(rounds, num_timed)
    yield at_most("quote moved by an atomic batch / by two commands", None, pair)


def compare_complementary(workload: Workload, rounds: int) -> Pair:
    """Run a stream through an ordinary market and through a complementary one.

    In the complementary market every other order is the equivalent order for NO.
    """
    todo = [in_lots(command) for command in commands(workload, 1, hashed=False)]

    def run(*, both: bool) -> tuple[int, list[Any]]:
        ours = [on_no_token(command) for command in todo] if both else todo
        matcher = Matcher()
        matcher.add_market(
            Market(id="m0", yes="m0-yes", no="m0-no", lot_wei=LOT_WEI, complementary=both)
        )
        drive_matcher(matcher, ours[: workload.prefill], drop)
        ready, kept = ours[workload.prefill :], []
        taken_ns = timed(lambda: drive_matcher(matcher, ready, kept.append), gc_enabled=True)
        return taken_ns, kept

    check_equal("matches", matches(run(both=False)[1]), matches(run(both=True)[1]))
    return alternate(
        lambda: run(both=False)[0], lambda: run(both=True)[0], workload.num_timed, rounds
    )


def in_lots(command: Command) -> Command:
    """Return a command whose order size is a whole number of lots."""
    if not isinstance(command, Submit):
        return command
    order = structs.replace(command.order, size=command.order.size * LOT_WEI)
    return structs.replace(command, order=order)


def on_no_token(command: Command) -> Command:
    """Return the equivalent command for NO, for every other order."""
    if not isinstance(command, Submit) or dense_id(command.order.id) % 2:
        return command
    plain = command.order
    side = Side.SELL if plain.side is Side.BUY else Side.BUY
    order = structs.replace(plain, token="m0-no", side=side, price=100 - plain.price)
    return structs.replace(command, order=order)


def matches(kept: list[Any]) -> list[Any]:
    """Return ids and sizes of all matches; a minted or merged pair counts once."""
    return [
        (event.resting_order_id, event.incoming_order_id, event.size, event.resting_remaining)
        for events in kept
        if events
        for event in events
        if isinstance(event, Trade)
        and (event.match_type is MatchType.DIRECT or event.token == "m0-yes")
    ]


def compare_quotes(rounds: int, num_timed: int) -> Pair:
    """Move a quote in a deep book repeatedly, by atomic batches and by single commands."""
    num_quotes = min(num_timed, 10_000)

    def run(*, atomic: bool) -> int:
        matcher = matcher_for(1, set(), accounts=False)
        for number in range(DEPTH):
            plain = make_order(text_id(number), number % 2, 60 if number % 2 else 40, 1)
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

    return alternate(lambda: run(atomic=False), lambda: run(atomic=True), num_quotes, rounds)


def drop(_: object) -> None:
    """Discard a result."""
