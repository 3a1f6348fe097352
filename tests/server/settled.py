"""Shared by tests of markets that settle: how they open, and how trades end."""

from clob import AddMarket, Funds, SetBalance
from clob_server.core.commands import BeginSettlement, EndTrades, SendTrades, TradeEnd
from tests.matchers import market

ALICE, BOB, CAROL = ("0x" + digit * 40 for digit in "123")
COLLATERAL = "0x" + "c" * 40
YES, NO = "101", "102"
RICH = 10**30


def settling(name="m", yes=101, **fields):
    """Return a market that settles."""
    tokens = {"yes": f"{yes}", "no": f"{yes + 1}", "lot_wei": 100}
    chain = {"funds": Funds.ACCOUNTS, "settles": True, "collateral": COLLATERAL}
    return market(name, **(tokens | chain | fields))


def opening(*markets, now_ms=1, makers=(ALICE, BOB, CAROL)):
    """Yield the commands that open markets, with large balances for the makers."""
    markets = markets or (settling(),)
    yield BeginSettlement(base=b"sixteen bytes...", now_ms=now_ms)
    for each in markets:
        yield AddMarket(market=each, now_ms=now_ms)
    for maker in makers:
        for asset in (COLLATERAL, *(token for each in markets for token in (each.yes, each.no))):
            yield SetBalance(wallet=maker, asset=asset, amount=RICH, now_ms=now_ms)


def tx_of(number):
    """Return the hash of the transaction that settles a trade."""
    return f"0x{number:064x}"


def sent(*numbers, operation="settle-1", now_ms):
    """Return the command that sends trades."""
    return SendTrades(operation=operation, trades=numbers, now_ms=now_ms)


def ended(*numbers, reason="", now_ms):
    """Return the command that ends trades."""
    ends = tuple(TradeEnd(trade=number, tx=tx_of(number), reason=reason) for number in numbers)
    return EndTrades(ends=ends, now_ms=now_ms)
