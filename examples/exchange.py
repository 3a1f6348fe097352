"""An exchange with accounts whose journal survives a crash.

    python examples/exchange.py FOLDER

Every command is on the disk before it is answered. Each start reads the journal, checks its hashes
and goes on where it ended; each run adds a trade.
"""

import os
import sys
from pathlib import Path

from clob import AddMarket, Event, Funds, Market, Order, RejectedError, SetBalance, Side, Submit
from clob.commands import Single
from clob.journal import Recorder
from clob.units import format_tokens, tokens

START_MS = 1_700_000_000_000


class Exchange:
    """A matcher with a durable journal in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "exchange.journal"
        journal = path.read_bytes() if path.exists() else b""
        self.recorder = Recorder.resume(journal)
        print(f"{self.recorder.next_seq - 1} commands in the journal, all hashes agree")
        self._file = path.open("ab")
        self._file.truncate(self.recorder.resumed_bytes)  # a crash may have torn the last frame

    def execute(self, command: Single) -> list[Event]:
        """Execute a command, make it durable, and return its events."""
        try:
            return self.recorder.apply(command)
        finally:  # a rejection belongs to the journal as well
            self._file.write(self.recorder.frame())
            self._file.flush()
            os.fsync(self._file.fileno())


def order(id: str, maker: str, side: Side, price: int, size: str) -> Order:
    """Return an order for YES, its size in tokens."""
    return Order(id=id, token="101", maker=maker, side=side, price=price, size=tokens(size))


def main(folder: Path) -> None:
    """Open the market once, then make a trade."""
    exchange = Exchange(folder)
    number = exchange.recorder.next_seq
    now_ms = START_MS + number
    if number == 1:
        rain = Market(id="rain", yes="101", no="102", funds=Funds.ACCOUNTS, collateral="usd")
        exchange.execute(AddMarket(market=rain, now_ms=now_ms))
        for wallet, asset in (("alice", "101"), ("bob", "usd")):
            exchange.execute(
                SetBalance(wallet=wallet, asset=asset, amount=tokens(100), now_ms=now_ms)
            )
    for maker, side, size in (("alice", Side.SELL, "10"), ("bob", Side.BUY, "7.5")):
        new = order(f"{maker}-{number}", maker, side, 60, size)
        exchange.execute(Submit(market="rain", order=new, now_ms=now_ms))
    try:
        much = order(f"much-{number}", "alice", Side.SELL, 61, "1000")
        exchange.execute(Submit(market="rain", order=much, now_ms=now_ms))
    except RejectedError as error:
        print(f"rejected: {error.code}")
    for (wallet, asset), balance in exchange.recorder.matcher.balances().items():
        print(f"{wallet} has {format_tokens(balance.balance)} of {asset}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "exchange-data"))
