"""Hypothesis strategies for orders and commands: few prices, ids and makers, so that orders match.

Every drawn order and command is valid by itself. A book or a matcher may still reject it for its
state: an id that rests already, an order that is gone, a post-only order that would trade.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from clob.commands import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Command,
    Expire,
    Reduce,
    Replace,
    SetBalance,
    SetMode,
    SetNonce,
    Submit,
)
from clob.market import Funds, Market, Mode
from clob.order import Order, SelfTrade, Side, TimeInForce

T = TypeVar("T")

LO: Final = 48
"""Lowest drawn price."""
HI: Final = 52
"""Highest drawn price."""
START_S: Final = 1_000
"""Earliest expiration, and time of the first command, in seconds."""
COMMANDS_MAX: Final = 40
"""Commands in a drawn stream, unless the caller states another limit."""
RUN_MAX: Final = 8
"""Commands in one of the runs that make a stream: lists of lists are longer than lists."""
FUNDED: Final = 12
"""Balances that are set before the first order of a market with accounts."""
RICH: Final = 10**40
"""Balance that covers every drawn order, in lots."""
BALANCES: Final = (0, 100, RICH)
"""Balances of wallets, in lots."""

prices: SearchStrategy[int] = st.integers(LO, HI)
"""Limit prices, in ticks."""
lots: SearchStrategy[int] = st.integers(1, 4) | st.sampled_from([1, 2, 9, 2**32])
"""Sizes, in lots."""
makers: SearchStrategy[str] = st.sampled_from(["owner:1", "owner:1", "", "0xA"])
"""Makers; an empty maker never matches itself."""
ids: SearchStrategy[int | str] = st.integers(0, 9) | st.sampled_from(["1", "2", "3", "a", "b", "é"])
"""Order ids, which collide often."""
few_ids: SearchStrategy[int | str] = st.sampled_from([1, 2, 3, 4, 5, "1", "a", "é"])
"""Order ids of a stream, so that most commands name a resting order."""
policies: SearchStrategy[SelfTrade | None] = st.sampled_from([None, *SelfTrade])
"""Self-trade policies; None uses the market's."""
pauses_ms: SearchStrategy[int] = st.sampled_from([1, 999, 3_000, 6_000])
"""Time between two commands, milliseconds."""
steps_ms: SearchStrategy[int] = st.sampled_from([0, 0, 0, 1, 1, 1, 999, 3_000])
"""Time between two commands of a stream, milliseconds; most orders with an expiration can trade."""

MARKET: Final = Market(id="m", yes="m-yes", no="m-no")
"""Market of :func:`matcher_commands`, unless the caller passes another one."""
BookCommand: TypeAlias = Submit | Cancel | Reduce | Replace | Expire
"""A command of :func:`commands`."""


# ----- orders --------------------------------------------------------------------------------


@st.composite
def orders(
    draw: DrawFn,
    lot_wei: int = 1,
    *,
    token: str = "",
    prices: SearchStrategy[int] = prices,
    ids: SearchStrategy[int | str] = ids,
    makers: SearchStrategy[str] = makers,
) -> Order:
    """Draw an order with any time in force, self-trade policy and valid combination of options.

    Args:
        draw: passed by hypothesis.
        lot_wei: sizes are a multiple of it, in wei.
        token: token of the order.
        prices: limit prices, in ticks.
        ids: order ids.
        makers: makers.

    Expirations are from ``START_S`` to 20 seconds later, so that some orders expire.
    """
    tif = draw(st.sampled_from([TimeInForce.GTC, *TimeInForce]))
    never_rests = tif in (TimeInForce.IOC, TimeInForce.FOK)
    expirations = st.integers(START_S, START_S + 20)
    return Order(
        id=draw(ids),
        token=token,
        maker=draw(makers),
        side=draw(st.sampled_from(Side)),
        price=draw(prices),
        size=draw(lots) * lot_wei,
        time_in_force=tif,
        expiration_s=draw(expirations if tif is TimeInForce.GTD else st.just(0) | expirations),
        post_only=False if never_rests else draw(st.sampled_from([False, False, True])),
        self_trade=draw(policies),
    )


# ----- commands of a book ----------------------------------------------------------------------


def commands(
    lot_wei: int = 1,
    *,
    token: str = "",
    prices: SearchStrategy[int] = prices,
    max_size: int = COMMANDS_MAX,
) -> SearchStrategy[list[BookCommand]]:
    """Return a strategy for streams of commands for one book, with times that never fall.

    Args:
        lot_wei: sizes are a multiple of it, in wei.
        token: token of the orders.
        prices: limit prices, in ticks.
        max_size: commands in a stream, at most.
    """
    drawn = orders(lot_wei, token=token, prices=prices, ids=few_ids)
    sizes = lots.map(lambda count: count * lot_wei)
    submit = st.builds(Submit, order=drawn)
    replace = st.builds(
        Replace,
        order_id=few_ids,
        price=prices,
        size=sizes,
        post_only=st.booleans(),
        self_trade=policies,
    )
    kinds: list[SearchStrategy[BookCommand]] = [
        *[submit] * 5,
        st.builds(Cancel, order_id=few_ids),
        st.builds(Reduce, order_id=few_ids, size=sizes),
        replace,
        st.builds(Expire),
    ]
    single = one_of_list(kinds)
    return runs_of(st.tuples(steps_ms, single), max_size).map(timed)


def one_of_list(several: list[SearchStrategy[T]]) -> SearchStrategy[T]:
    """Return a strategy for a value of one of several; those listed twice are drawn more often.

    ``st.one_of`` drops repeated strategies.
    """
    return st.integers(0, len(several) - 1).flatmap(several.__getitem__)


def runs_of(step: SearchStrategy[T], max_size: int) -> SearchStrategy[list[T]]:
    """Return a strategy for lists that are mostly long, and that still shrink to short ones."""
    if max_size < RUN_MAX:
        return st.lists(step, max_size=max_size)
    runs = st.lists(st.lists(step, min_size=1, max_size=RUN_MAX), max_size=max_size // RUN_MAX)
    return runs.map(lambda several: [each for run in several for each in run])


def timed(steps: list[tuple[int, BookCommand]]) -> list[BookCommand]:
    """Return commands with the sums of the pauses before them as their times."""
    now_ms, stream = START_S * 1_000, list[BookCommand]()
    for pause_ms, command in steps:
        now_ms += pause_ms
        stream.append(msgspec.structs.replace(command, now_ms=now_ms))
    return stream


# ----- commands of a matcher -------------------------------------------------------------------


class Place(NamedTuple):
    """Position of a command in its stream: the id that it creates, and those that it may name."""

    number: int
    """Index of the command."""
    ago: int
    """How many commands before it the order was submitted that it names."""
    now_ms: int
    """Time of the command, Unix milliseconds."""

    @property
    def new_id(self) -> str:
        """Id of an order that this command submits."""
        return f"o{self.number}"

    @property
    def old_id(self) -> str:
        """Id of an earlier order."""
        return f"o{max(self.number - self.ago, 0)}"


Draft: TypeAlias = Callable[[Place], Command]
"""A command without its position in the stream."""
Step: TypeAlias = tuple[int, int, Draft]
"""Milliseconds before a command, how many commands back the order is that it names, its draft."""


def matcher_commands(
    market: Market = MARKET,
    *,
    makers: SearchStrategy[str] = makers,
    max_size: int = COMMANDS_MAX,
) -> SearchStrategy[list[Command]]:
    """Return a strategy for streams of commands for a matcher with one market.

    The stream adds the market first. Orders are for its YES and NO tokens, their ids are never used
    twice, and times never fall. In a market with accounts (``Funds.ACCOUNTS``) balances are set and
    changed as well, so that some orders are covered and some are not.

    Args:
        market: the market; it needs both tokens.
        makers: makers of the orders.
        max_size: commands in a stream besides those that prepare the market, at most.
    """
    single = one_of_list(drafts_of(market, makers))
    steps = st.tuples(steps_ms, st.integers(1, 8), single)
    funding = st.tuples(st.just(0), st.just(0), balances(market, makers, (RICH,)))
    count = FUNDED if market.funds is Funds.ACCOUNTS else 0
    opening = st.lists(funding, min_size=count, max_size=count)
    return st.tuples(st.just(market), opening, runs_of(steps, max_size)).map(placed)


def placed(drawn: tuple[Market, list[Step], list[Step]]) -> list[Command]:
    """Return the opening commands, and the drafts as commands with ids and times."""
    market, opening, steps = drawn
    now_ms = START_S * 1_000
    stream: list[Command] = [AddMarket(market=market, now_ms=now_ms)]
    for number, (pause_ms, ago, draft) in enumerate([*opening, *steps]):
        now_ms += pause_ms
        stream.append(draft(Place(number, ago, now_ms)))
    return stream


def drafts_of(market: Market, makers: SearchStrategy[str]) -> list[SearchStrategy[Draft]]:
    """Return a strategy per kind of command of a matcher; frequent kinds occur several times."""
    tokens = st.sampled_from([market.yes, market.no])
    submit = st.builds(submit_draft, st.just(market), tokens, orders(market.lot_wei, makers=makers))
    about_one = amendments(market)
    kinds = [submit] * 6 + [about_one] * 2
    kinds.append(st.builds(batch_draft, st.lists(submit | about_one, min_size=1, max_size=4),
                           st.booleans()))  # fmt: skip
    kinds.append(removals(market, makers))
    if market.funds is Funds.ACCOUNTS:
        kinds += [balances(market, makers)] * 3
    return kinds


def submit_draft(market: Market, token: str, order: Order) -> Draft:
    """Return the draft of a submission."""
    return lambda place: Submit(
        market=market.id,
        order=msgspec.structs.replace(order, id=place.new_id, token=token),
        now_ms=place.now_ms,
    )


def amendments(market: Market) -> SearchStrategy[Draft]:
    """Return a strategy for drafts about one earlier order."""
    sizes = lots.map(lambda count: count * market.lot_wei)

    def cancel() -> Draft:
        return lambda place: Cancel(market=market.id, order_id=place.old_id, now_ms=place.now_ms)

    def reduce(size: int) -> Draft:
        return lambda place: Reduce(
            market=market.id, order_id=place.old_id, size=size, now_ms=place.now_ms
        )

    def replace(price: int, size: int, post_only: bool, policy: SelfTrade | None) -> Draft:
        return lambda place: Replace(
            market=market.id,
            order_id=place.old_id,
            price=price,
            size=size,
            post_only=post_only,
            self_trade=policy,
            now_ms=place.now_ms,
        )

    return st.one_of(
        st.builds(cancel),
        st.builds(reduce, sizes),
        st.builds(replace, prices, sizes, st.booleans(), policies),
    )


def removals(market: Market, makers: SearchStrategy[str]) -> SearchStrategy[Draft]:
    """Return a strategy for drafts that remove many orders, raise a nonce or change the mode."""

    def expire() -> Draft:
        return lambda place: Expire(now_ms=place.now_ms)

    def cancel_all(maker: str) -> Draft:
        return lambda place: CancelAll(maker=maker, market=market.id, now_ms=place.now_ms)

    def cancel_some(maker: str, side: Side) -> Draft:
        return lambda place: CancelSome(
            maker=maker, market=market.id, side=side, now_ms=place.now_ms
        )

    def set_nonce(maker: str) -> Draft:
        return lambda place: SetNonce(maker=maker, nonce=place.number + 1, now_ms=place.now_ms)

    def set_mode(mode: Mode) -> Draft:
        return lambda place: SetMode(market=market.id, mode=mode, now_ms=place.now_ms)

    named = makers.filter(bool)
    modes = st.sampled_from([Mode.OPEN, Mode.OPEN, Mode.CANCEL_ONLY, Mode.HALTED])
    return st.one_of(
        st.builds(expire),
        st.builds(cancel_all, named),
        st.builds(cancel_some, named, st.sampled_from(Side)),
        st.builds(set_nonce, named),
        st.builds(set_mode, modes),
    )


def balances(
    market: Market, makers: SearchStrategy[str], counts: Sequence[int] = BALANCES
) -> SearchStrategy[Draft]:
    """Return a strategy for drafts that set the balance of a wallet."""

    def set_balance(wallet: str, asset: str, count: int) -> Draft:
        return lambda place: SetBalance(
            wallet=wallet, asset=asset, amount=count * market.lot_wei, now_ms=place.now_ms
        )

    assets = st.sampled_from([market.collateral, market.yes, market.no])
    return st.builds(set_balance, makers.filter(bool), assets, st.sampled_from(counts))


def batch_draft(drafts: list[Draft], atomic: bool) -> Draft:
    """Return the draft of a batch; its orders have ids of their own."""

    def batch(place: Place) -> Command:
        commands = [draft(place) for draft in drafts]
        return Batch(
            commands=tuple(numbered(each, index) for index, each in enumerate(commands)),
            atomic=atomic,
            now_ms=place.now_ms,
        )

    return batch


def numbered(command: Command, index: int) -> Submit | Cancel | CancelAll | Reduce | Replace:
    """Return a command of a batch, with an id of its own if it submits an order."""
    if isinstance(command, Submit) and index:
        order = msgspec.structs.replace(command.order, id=f"{command.order.id}-{index}")
        return msgspec.structs.replace(command, order=order)
    assert isinstance(command, Submit | Cancel | CancelAll | Reduce | Replace)
    return command
