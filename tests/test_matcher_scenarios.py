"""Runs the scenarios of ``tests/matcher_scenarios`` on both kinds of matcher.

The README there has their grammar. Scenarios of a single book are in ``tests/scenarios``.
"""

from pathlib import Path

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    Expire,
    Funds,
    Limits,
    Mode,
    Order,
    OrderAdded,
    OrderRecord,
    OrderReduced,
    OrderRemoved,
    PairedTrade,
    Reduce,
    Rejected,
    RejectedError,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Side,
    Submit,
    TimeInForce,
    Trade,
    format_tokens,
    tokens,
)
from tests.books import Ledger, depth_lines, event_lines
from tests.matchers import market
from tests.test_scenarios import Words, post_only, read_scenario

FOLDER = Path(__file__).parent / "matcher_scenarios"
SCENARIOS = sorted(FOLDER.glob("*.txt"))


# ----- reading -------------------------------------------------------------------------------


class Line(Words):
    """Reads one line of a scenario."""

    def word(self, field):
        """Return a reader of one word."""
        return lambda: {field: self.take()}

    def number(self, field):
        """Return a reader of one integer."""
        return lambda: {field: int(self.take())}

    def amount(self, field):
        """Return a reader of one amount of tokens."""
        return lambda: {field: self.size()}

    def fees(self):
        """Read the rates of the resting and of the incoming order."""
        return {
            "resting_fee_rate_bps": int(self.take()),
            "incoming_fee_rate_bps": int(self.take()),
        }

    def common(self):
        """Return the readers of options common to commands about orders."""
        return {"at": self.at, "by": self.word("maker"), "in": self.word("market")}


def read_market(line):
    """Read a market; the default has no accounts and no fees."""
    name = line.take()
    return market(
        name,
        **line.options(
            accounts=lambda: {"funds": Funds.ACCOUNTS},
            settles=lambda: {"funds": Funds.ACCOUNTS, "settles": True},
            fees=line.fees,
            stp=line.policy,
            smallest=line.amount("min_size"),
            lot=line.number("lot_wei"),
            yes_only=lambda: {"no": ""},
            complementary=lambda: {"complementary": True, "lot_wei": 100},
        ),
    )


def read_submit(line, side):
    """Read the rest of a ``buy`` or ``sell``."""
    order = {"id": line.take(), "size": line.size(), "price": line.price(), "side": side}
    options = line.options(
        **line.common(),
        no=lambda: {"token": "no"},
        until=line.number("expiration_s"),
        ioc=lambda: {"time_in_force": TimeInForce.IOC},
        fok=lambda: {"time_in_force": TimeInForce.FOK},
        stp=line.policy,
        post_only=post_only,
        nonce=line.number("nonce"),
        cap=line.number("fee_rate_bps"),
        collateral=line.amount("collateral"),
        paid_by=line.word("smart_wallet"),
        client=line.word("client_id"),
        hash=lambda: {"order_hash": line.take().encode().rjust(32)},
        deadline=line.number("deadline_ms"),
    )
    outside = ("now_ms", "client_id", "order_hash", "deadline_ms")
    envelope = {name: options.pop(name) for name in outside if name in options}
    name = options.pop("market", "m")
    order["token"] = f"{name}-{options.pop('token', 'yes')}"
    return Submit(market=name, order=Order(**({"maker": ""} | order | options)), **envelope)


def read_batch(line, atomic):
    """Read several commands with a semicolon between one and the next."""
    commands = tuple(read_command(text) for text in " ".join(line.words).split(";"))
    return Batch(commands=commands, atomic=atomic, now_ms=max(each.now_ms for each in commands))


def read_about_orders(word, line):
    """Read a command about known orders; None for another command."""
    match word:
        case "cancel":
            return Cancel(order_id=line.take(), **line.options(**line.common()))
        case "cancel-all":
            return CancelAll(**line.options(**line.common()))
        case "reduce":
            order_id, _ = line.take(), line.take("to")
            return Reduce(order_id=order_id, size=line.size(), **line.options(**line.common()))
        case "replace":
            fields = {"order_id": line.take(), "size": line.size(), "price": line.price()}
            options = line.options(**line.common(), stp=line.policy, post_only=post_only)
            return Replace(**fields, **options)
        case "nonce":
            fields = {"maker": line.take(), "nonce": int(line.take())}
            return SetNonce(**fields, **line.options(at=line.at))
        case "expire":
            return Expire(**line.options(at=line.at))
    return None


def read_command(text):
    """Turn a line into a command."""
    line = Line(text)
    word = line.take()
    match word:
        case "buy" | "sell":
            return read_submit(line, Side[word.upper()])
        case "together" | "each":
            return read_batch(line, word == "together")
        case "market":
            return AddMarket(market=read_market(line))
        case "terms":
            return SetMarket(market=read_market(line))
        case "mode":
            return SetMode(market=line.take(), mode=Mode[line.take().upper().replace("-", "_")])
        case "limit":
            names = ("orders", "trades", "batch", "finished")
            readers = {name: line.number(f"{name}_max") for name in names}
            return SetLimits(limits=Limits(**line.options(**readers)))
        case "give":
            return SetBalance(wallet=line.take(), asset=line.take(), amount=line.size())
        case "settled":
            return Settled(market=line.take(), trades=tuple(map(int, line.words)))
        case "failed":
            fields = {"market": line.take(), "trade": int(line.take())}
            return SettleFailed(**fields, **line.options(blame=line.word("wallet")))
    command = read_about_orders(word, line)
    assert command is not None, f"unknown command: {text!r}"
    return command


# ----- running -------------------------------------------------------------------------------


class Runner:
    """A matcher that runs the lines of a scenario."""

    def __init__(self, matcher):
        self.matcher = matcher
        self.ledgers = {}
        self.seqs = {}
        self.now_ms = 0

    def run(self, text):
        """Execute a line; return its results as lines."""
        match text.split():
            case ["book", *names]:
                return self.levels(*names)
            case ["balances", *wallets]:
                return self.balances(wallets)
            case ["order", order_id]:
                return [record_line(self.matcher.order(order_id))]
            case ["open", *makers]:
                results = [self.matcher.open_orders(maker) for maker in makers or [None]]
                return [record.order.id for records in results for record in records]
            case ["waiting", name]:
                return [str(seq) for seq in self.matcher.unsettled(name)]
        return self.command(text)

    def command(self, text):
        """Execute a command, by default at the time of the previous one."""
        command = read_command(text)
        if " at " not in f" {text} ":
            command = msgspec.structs.replace(command, now_ms=self.now_ms)
        before = self.matcher.snapshot()
        expected = self.matcher.check(command)
        caught, events = None, []
        try:
            events = self.matcher.apply(command)
        except RejectedError as rejection:
            caught = rejection
        assert (type(expected), str(expected)) == (type(caught), str(caught))
        if caught is not None:
            assert self.matcher.snapshot() == before, "a rejection changed the matcher"
            index = "" if caught.index is None else f" at {caught.index}"
            return [f"rejected {caught.code}{index}"]
        self.now_ms = command.now_ms
        return self.apply_events(events)

    def apply_events(self, events):
        """Check events against earlier ones and the books; return them as lines."""
        lines = []
        for event in events:
            if isinstance(event, Rejected):
                lines.append(f"rejected {event.code} at {event.index}")
                continue
            # Both books of a market share one sequence.
            self.seqs[event.market] = self.seqs.get(event.market, 0) + 1
            assert event.seq == self.seqs[event.market], "a gap in seq"
            self.apply_event(event)
            lines.append(event_line(event))
        self.compare_books()
        self.matcher.audit()
        return lines

    def apply_event(self, event):
        """Apply an event; in a complementary market, each book has the orders for both tokens."""
        market = self.matcher.market(event.market)
        tokens = (market.yes, market.no) if market.complementary else (event.token,)
        for token in tokens:
            event_seen = event_in_book_of(event, token)
            if event_seen is not None:
                self.ledgers.setdefault((event.market, token), Ledger())._apply(event_seen)

    def compare_books(self):
        """Check that every book matches its events."""
        for each in self.matcher.markets:
            assert self.matcher.seq(each.id) == self.seqs.get(each.id, 0)
            for token in filter(None, (each.yes, each.no)):
                ledger = self.ledgers.get((each.id, token), Ledger())
                depth = self.matcher.depth(each.id, token)
                assert (depth.bids, depth.asks) == (
                    ledger.levels(Side.BUY),
                    ledger.levels(Side.SELL),
                )

    def levels(self, name="m", token="yes"):
        """Return a book as lines, the highest price first."""
        return depth_lines(self.matcher.depth(name, f"{name}-{token}"), format_tokens)

    def balances(self, wallets):
        """Return the accounts that are not zero as lines, sorted; of some wallets, or all."""
        lines = []
        for (wallet, asset), account in self.matcher.balances().items():
            words = [wallet, asset, format_tokens(account.balance)]
            for name in ("reserved", "unsettled"):
                held = getattr(account, name)
                words += [name, format_tokens(held)] if held else []
            if (account.balance or len(words) > 3) and (not wallets or wallet in wallets):
                lines.append(" ".join(words))
        return lines


def event_in_book_of(event, token):
    """Return an event as it applies to the book of a token, or None if it does not.

    Events of the other token of a complementary market are mirrored: BUY for SELL, and 100 minus
    the price. Mints and merges have one trade for each token.
    """
    if event.token == token or isinstance(event, OrderReduced | OrderRemoved):
        return event
    if isinstance(event, PairedTrade):
        return None
    side = "side" if isinstance(event, OrderAdded) else "incoming_side"
    turned = {side: Side(1 - getattr(event, side)), "price": 100 - event.price}
    return msgspec.structs.replace(event, **turned)


def event_line(event):
    """Return an event as a line, with fees that are not zero."""
    (line,) = event_lines([event], format_tokens)
    if isinstance(event, Trade):
        fees = (("buyer-fee", event.buyer_fee), ("seller-fee", event.seller_fee))
        line += "".join(f" {name} {format_tokens(fee)}" for name, fee in fees if fee)
    return line


def record_line(record: OrderRecord):
    """Return the state of an order as a line."""
    reason = f" {record.removal.value}" if record.removal else ""
    return (
        f"{record.status.value}{reason} filled {format_tokens(record.filled)} "
        f"for {format_tokens(record.filled_collateral)} left {format_tokens(record.remaining)}"
    )


# ----- the tests -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(matcher_class, path):
    runner = Runner(matcher_class())
    for number, command, expected in read_scenario(path.read_text(encoding="utf-8")):
        assert runner.run(command) == expected, f"{path.name}, line {number}: {command}"


def test_every_scenario_starts_with_a_description():
    assert len(SCENARIOS) >= 20
    for path in SCENARIOS:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_scenario_of_the_readme(matcher_class):
    fenced = (FOLDER / "README.md").read_text(encoding="utf-8").split("```")[1]
    runner = Runner(matcher_class())
    for _, command, expected in read_scenario(fenced):
        assert runner.run(command) == expected


@pytest.mark.parametrize("wrong", ["alice collateral 9", "alice collateral 10 reserved 1", ""])
def test_unlisted_outcomes_fail(matcher_class, wrong):
    runner = Runner(matcher_class())
    runner.run("market m accounts")
    runner.run("give alice collateral 10")
    ((_, command, expected),) = read_scenario(f"balances\n    {wrong}")
    assert runner.run(command) != expected


@pytest.mark.parametrize(
    "line", ["hold a", "market m maybe", "buy a 5 @ 50 cap", "mode m ajar", "together", "give a b"]
)
def test_invalid_line_raises(line):
    with pytest.raises((AssertionError, KeyError, IndexError)):
        read_command(line)


def test_sizes_are_tokens_with_wei_decimals():
    submit = read_command("sell a 0.000000000000000003 @ 50 no in x cap 7")
    assert (submit.market, submit.order.token, submit.order.size) == ("x", "x-no", 3)
    assert (submit.order.fee_rate_bps, tokens(1)) == (7, 10**18)
