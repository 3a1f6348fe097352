"""The ``clob-client`` command: trade at a server from a terminal."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from clob.client.calls import seconds
from clob.client.errors import HINTS as LIBRARY_HINTS
from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    OutcomeUnknownError,
)
from clob.client.feed import Feed
from clob.client.http import Client
from clob.client.order_routes import LimitOrderOptions
from clob.client.signer import signer_of
from clob.depth import Depth, Level
from clob.errors import ClobError
from clob.order import Side
from clob.program import VersionAction, print_text, run_program
from clob.signing import InvalidKeyError
from clob.units import PRICE_MAX, PRICE_MIN, format_tokens, tokens
from clob.wire.markets import LevelBody, OrderbookBody
from clob.wire.orders import MakerFill

DONE: Final = 0
REJECTED: Final = 1
"""The server rejected the request."""
UNUSABLE: Final = 2
"""Arguments, key or address cannot be used; nothing was sent."""
UNREACHABLE: Final = 3
"""The server gave no answer; nothing was changed."""
UNKNOWN: Final = 4
"""A change was sent, and its outcome is unknown."""

DEADLINE_S: Final = 10
LOCAL: Final = "http://127.0.0.1:8000"
REDRAW_S: Final = 0.1
"""Shortest time between two pictures of a book that is watched."""
CLEAR: Final = "\x1b[H\x1b[2J"

HINTS: Final = {
    "UNKNOWN_MARKET": "clob-client markets lists the markets",
    "API_KEY_REQUIRED": "use --api-key-file or CLOB_API_KEY, or a private key",
    "NOT_APPROVED": "approve the operator on the chain, or split with --permit",
    "OUTCOME_UNKNOWN": "read clob-client fills and balance before you repeat it",
    "AMOUNT_TOO_SMALL": "",
    "MARKET_NOT_OPEN": "clob-client markets shows the mode of each market",
    "INVALID_CALL": "",
}
"""Advice by code in the terms of the command line, where that of the library names Python."""

Arguments: TypeAlias = argparse.Namespace


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the command name; None means ``sys.argv``.

    Returns:
        0 on success, 1 if the server rejects the request, 2 if an argument or the key cannot be
        used, 3 without a connection, 4 if the outcome of a change is unknown, 130 after Ctrl-C.

    Raises:
        SystemExit: wrong arguments (2), ``--help`` or ``--version`` (0).
    """
    return run_program("clob-client", lambda: run(argv))


def run(argv: Sequence[str] | None) -> int:
    """Parse the arguments, run the command and return its exit code."""
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except ClientError as error:
        error.hint = HINTS.get(error.code, error.hint if error.code not in LIBRARY_HINTS else "")
        return complain(str(error), exit_code(error))
    except ClobError as error:  # a value that was checked before it was sent
        return complain(f"{error.code}: {error}", UNUSABLE)
    return DONE


def exit_code(error: ClientError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, OutcomeUnknownError):
        return UNKNOWN
    if isinstance(error, ConnectionFailedError):
        return UNREACHABLE
    return UNUSABLE if isinstance(error, InvalidCallError) else REJECTED


def complain(text: str, code: int) -> int:
    """Write a line to standard error and return the exit code."""
    sys.stderr.write(f"clob-client: {text}\n")
    return code


# ----- arguments ---------------------------------------------------------------------------------


EPILOG: Final = """\
The private key is read from --key-file or CLOB_KEY, an API key from --api-key-file
or CLOB_API_KEY; neither is an argument, which other users could see.

Each command has --help. Exit code: 0 done, 1 rejected, 2 unusable arguments,
3 no connection, 4 unknown outcome, 130 after Ctrl-C."""
"""Last part of the help."""
MARKET: Final = "market id; see clob-client markets"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    made = argparse.ArgumentParser(
        prog="clob-client",
        description="Trade at a server from a terminal. Sizes and amounts are in tokens, such as "
        "2.5; prices in cents.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action=VersionAction)
    commands = made.add_subparsers(dest="command", required=True)
    common = common_options()

    def add(name: str, run: Callable[[Arguments], None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, parents=[common])
        command.set_defaults(run=run)
        return command

    add("markets", show_markets, "list the markets")
    book = add("book", show_book, "show the order book of a token")
    book.add_argument("market", help=MARKET)
    book.add_argument("token", nargs="?", default="YES", help="YES, NO or a token id; default YES")
    book.add_argument(
        "--depth", type=count, default=10, metavar="N", help="levels per side; default 10"
    )
    book.add_argument("--watch", action="store_true", help="draw every change until Ctrl-C")
    for side in Side:
        add_order(add(side.name.lower(), place, f"{side.name.lower()} tokens"), side)
    cancel = add("cancel", cancel_orders, "cancel orders")
    cancel.add_argument("order_ids", nargs="*", metavar="order", help="id, or client:NAME")
    cancel.add_argument("--all", action="store_true", help="cancel all orders of the wallet")
    cancel.add_argument(
        "--market", metavar="MARKET", help="cancel all orders of the wallet in this market"
    )
    fills = add("fills", show_fills, "list the trades of the wallet, the newest first")
    fills.add_argument("--market", metavar="MARKET", help="only trades of this market")
    fills.add_argument(
        "--limit", type=count, default=20, metavar="N", help="number of trades; default 20"
    )
    add("balance", show_balance, "show balances and positions of the wallet")
    add("faucet", faucet, "get test collateral; in the test environment only")
    for name, text in (("split", "collateral into tokens"), ("merge", "tokens into collateral")):
        conversion = add(name, convert, f"convert {text}")
        conversion.add_argument("market", help=MARKET)
        conversion.add_argument("amount", help="amount, such as 10")
        if name == "split":
            add_permit(conversion)
    for name, text in (
        ("wrap", "stablecoin into collateral"),
        ("unwrap", "collateral into stablecoin"),
    ):
        wrapping = add(name, convert, f"convert {text}")
        wrapping.add_argument("amount", help="amount of collateral, such as 10")
        add_permit(wrapping)
    add_escrow(add)
    return made


def add_escrow(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of escrow."""
    deposit = add("deposit", move_escrow, "move collateral or tokens into escrow")
    request = add("withdraw-request", move_escrow, "request a withdrawal from escrow")
    withdraw = add("withdraw", move_escrow, "pay a requested withdrawal after its delay")
    for command in (deposit, request):
        command.add_argument("amount", help="amount, such as 10")
    for command in (deposit, request, withdraw):
        command.add_argument("--token", metavar="ID", help="outcome token; default: collateral")
    add_permit(deposit)


def common_options() -> argparse.ArgumentParser:
    """Return the options of every command."""
    parent = argparse.ArgumentParser(add_help=False)
    common = parent.add_argument_group("options of every command")
    url = os.environ.get("CLOB_URL") or LOCAL
    common.add_argument("--url", default=url, help=f"server; default CLOB_URL or {LOCAL}")
    common.add_argument(
        "--key-file", type=Path, metavar="FILE", help="file with the private key in hex"
    )
    common.add_argument(
        "--api-key-file", type=Path, metavar="FILE", help="file with the API key of an operator"
    )
    common.add_argument(
        "--maker", metavar="ADDRESS", help="wallet; default: that of the private key"
    )
    common.add_argument("--json", action="store_true", help="print JSON, one object per line")
    common.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE_S,
        metavar="SECONDS",
        help=f"longest time of a request, with its repetitions; default {DEADLINE_S}",
    )
    return parent


def count(text: str) -> int:
    """Read a number of things.

    Raises:
        ArgumentTypeError: it is not a whole number above 0.
    """
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number above 0; got {text!r}")


def price_of(text: str) -> int:
    """Read a price.

    Raises:
        InvalidCallError: it is not a number of cents.
    """
    if text.isascii() and text.isdigit() and PRICE_MIN <= int(text) <= PRICE_MAX:
        return int(text)
    raise InvalidCallError(
        f"price must be a whole number of cents, {PRICE_MIN} to {PRICE_MAX}; got {text!r}"
    )


def size_of(name: str, text: str) -> str:
    """Return a size or an amount.

    Raises:
        InvalidCallError: it is not a number of tokens.
    """
    with suppress(ValueError):
        if tokens(text) > 0:
            return text
    raise InvalidCallError(
        f"{name} must be a number of tokens above 0 with at most 18 decimals, such as 2.5; "
        f"got {text!r}"
    )


def add_order(command: argparse.ArgumentParser, side: Side) -> None:
    """Add the arguments of an order."""
    command.set_defaults(side=side)
    command.add_argument("market", help=MARKET)
    command.add_argument("token", help="YES, NO or a token id")
    command.add_argument("price", help="limit in cents, 1 to 99")
    command.add_argument("size", help="tokens, such as 2.5")
    command.add_argument(
        "--time-in-force",
        choices=("GTC", "GTD", "IOC", "FOK"),
        help="default GTC: the size that does not trade at once rests",
    )
    command.add_argument(
        "--post-only", action="store_true", default=None, help="reject it if it would trade"
    )
    command.add_argument("--client-order-id", metavar="NAME", help="own name of the order")
    command.add_argument(
        "--expires-in-s", type=count, metavar="SECONDS", help="time for which it may trade"
    )


def add_permit(command: argparse.ArgumentParser) -> None:
    """Add the options of a permit."""
    command.add_argument(
        "--permit",
        action="store_true",
        help="sign an approval of the amount, valid for an hour; no transaction of the wallet",
    )
    command.add_argument(
        "--rpc-url",
        metavar="URL",
        help="node of the chain that --permit reads from; default CLOB_RPC_URL, or the "
        "development chain",
    )


OPTIONS: Final = ("time_in_force", "post_only", "client_order_id", "expires_in_s")


def client_of(arguments: Arguments) -> Client:
    """Return the client of the arguments."""
    try:
        signer = signer_of(secret(arguments.key_file, "CLOB_KEY"))
    except InvalidKeyError:
        source = arguments.key_file or "CLOB_KEY"
        raise InvalidCallError(
            f"{source} must contain a private key: 64 hex digits, with or without 0x"
        ) from None
    deadline_s = seconds("--deadline", arguments.deadline)
    return Client(
        arguments.url,
        signer=signer,
        maker=arguments.maker,
        rpc_url=getattr(arguments, "rpc_url", None) or os.environ.get("CLOB_RPC_URL") or None,
        api_key=secret(arguments.api_key_file, "CLOB_API_KEY"),
        deadline_s=deadline_s,
        timeout_s=min(10.0, deadline_s),
    )


def wallet_of(arguments: Arguments) -> Client:
    """Return the client of the arguments, which must name a wallet.

    Raises:
        InvalidCallError: they do not.
    """
    client = client_of(arguments)
    if client.signer is None and arguments.maker is None:
        raise InvalidCallError("this command needs a wallet: use --key-file, CLOB_KEY or --maker")
    return client


def secret(path: Path | None, variable: str) -> str | None:
    """Return a key of a file, else of the environment; None without one.

    Raises:
        InvalidCallError: the file cannot be read.
    """
    if path is None:
        return os.environ.get(variable) or None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidCallError(f"{path} cannot be read: {reason}") from None


# ----- output ------------------------------------------------------------------------------------


def write(
    arguments: Arguments, bodies: Iterable[Any], line: Callable[[Any], str], nothing: str = ""
) -> None:
    """Write a line per body: JSON, or in words; without a body a note to standard error."""
    is_empty = True
    for body in bodies:
        text = msgspec.json.encode(body).decode() if arguments.json else line(body)
        print_text(f"{text}\n")
        is_empty = False
    if is_empty and nothing:
        sys.stderr.write(f"{nothing}\n")


def amount(wei: str) -> str:
    """Format an amount in wei, which may be negative, in tokens."""
    return format_tokens(int(wei))


def cents(price: int | None) -> str:
    """Format a price that may be absent."""
    return "-" if price is None else str(price)


def ladder(title: str, asks: Sequence[Level], bids: Sequence[Level]) -> str:
    """Return the picture of a book: asks above, bids below, the best prices in the middle."""
    line = "{:>20}  {:>5}  {:<20}".format
    rows = [line("", each.price, format_tokens(each.size)) for each in reversed(asks)]
    rows.append(line("", "---", ""))
    rows += [line(format_tokens(each.size), each.price, "") for each in bids]
    return "\n".join([title, line("buy", "cents", "sell"), *rows])


def levels(bodies: Sequence[LevelBody]) -> list[Level]:
    """Return the levels of one side of a response."""
    return [Level(each.price, int(each.size), each.num_orders) for each in bodies]


# ----- commands ----------------------------------------------------------------------------------


def show_markets(arguments: Arguments) -> None:
    """List the markets."""
    with client_of(arguments) as client:
        write(
            arguments,
            client.markets(),
            lambda it: (
                f"{it.market_id}  {it.mode}  {cents(it.best_bid)} / {cents(it.best_ask)}"
                f"  {it.question}".rstrip()
            ),
            "no markets",
        )


def show_book(arguments: Arguments) -> None:
    """Show a book once, or every change of it."""
    with client_of(arguments) as client:
        token_id = token_of(client, arguments.market, arguments.token)
        if not arguments.watch:
            book = client.orderbook(arguments.market, token_id=token_id, depth=arguments.depth)
            write(arguments, [book], lambda it: picture(it, arguments.token))
            return
    asyncio.run(watch(arguments, token_id))


def token_of(client: Client, market_id: str, token: str) -> str:
    """Return the token id of an outcome or of digits.

    Raises:
        InvalidCallError: the market has no such token.
    """
    if token.isascii() and token.isdigit():
        return token
    market = client.market(market_id)
    found = {"YES": market.yes_token_id, "NO": market.no_token_id}.get(token.upper())
    if found is None:
        raise InvalidCallError(f"market {market_id} has no token {token}; use YES, NO or its id")
    return found


def picture(book: OrderbookBody, token: str) -> str:
    """Return the picture of a response."""
    title = f"{book.market_id}  {token}  seq {book.seq}"
    return ladder(title, levels(book.asks), levels(book.bids))


async def watch(arguments: Arguments, token_id: str) -> None:
    """Draw a book whenever it changes, until the feed ends."""
    api_key = secret(arguments.api_key_file, "CLOB_API_KEY")
    async with Feed(arguments.url, api_key=api_key, timeout_s=arguments.deadline) as feed:
        market = await feed.orderbook(arguments.market)
        shown: tuple[object, ...] = ()
        while True:
            depth = market.token(token_id).depth(arguments.depth)
            shown = (feed.state, market.seq)
            draw(arguments, depth, feed.state.value)
            await feed.until(lambda shown=shown: (feed.state, market.seq) != shown)  # type: ignore[misc]
            await asyncio.sleep(REDRAW_S)


def draw(arguments: Arguments, depth: Depth, state: str) -> None:
    """Draw a book; on a terminal over the one before."""
    if arguments.json:
        sides = {"bids": depth.bids, "asks": depth.asks}
        text = msgspec.json.encode({"seq": depth.seq, "state": state, **sides}).decode()
    else:
        title = f"{arguments.market}  {arguments.token}  seq {depth.seq}  {state}"
        text = ladder(title, depth.asks, depth.bids)
    clear = CLEAR if sys.stdout.isatty() and not arguments.json else ""
    print_text(f"{clear}{text}\n", flush=True)


def place(arguments: Arguments) -> None:
    """Place an order."""
    price, size = price_of(arguments.price), size_of("size", arguments.size)
    given: Mapping[str, Any] = {name: getattr(arguments, name) for name in OPTIONS}
    options = LimitOrderOptions(
        **{name: value for name, value in given.items() if value is not None}  # type: ignore[typeddict-item]
    )
    with wallet_of(arguments) as client:
        send = client.buy if arguments.side is Side.BUY else client.sell
        done = send(
            arguments.market,
            arguments.token,
            price=price,
            size=size,
            **options,
        )
        trades = "".join(
            f", {format_tokens(int(each.size))} at {each.price}" for each in done.trades
        )
        write(arguments, [done], lambda it: f"{it.order_id}  {it.status}{trades}")


def cancel_orders(arguments: Arguments) -> None:
    """Cancel some or all orders."""
    is_many = arguments.all or arguments.market is not None
    if is_many == bool(arguments.order_ids):
        raise InvalidCallError("cancel needs order ids, or --all, or --market, but not both")
    with wallet_of(arguments) as client:
        if is_many:
            done = client.cancel_all(arguments.market)
            write(arguments, [done], lambda it: f"{it.num_cancelled} orders cancelled")
            return
        orders = (client.cancel(each) for each in arguments.order_ids)
        write(
            arguments, orders, lambda it: f"{it.id}  {it.status}, {amount(it.filled_tokens)} traded"
        )


def show_fills(arguments: Arguments) -> None:
    """List the newest trades of the wallet; times are UTC."""

    def line(fill: MakerFill) -> str:
        when = datetime.fromtimestamp(fill.timestamp // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        trade = f"{Side(fill.side).name.lower()} {format_tokens(int(fill.size))} at {fill.price}"
        return f"{when}  {fill.market_id}  {trade}  {fill.settlement}"

    with wallet_of(arguments) as client:
        limit = min(arguments.limit, 500)
        fills = client.fills(market=arguments.market, limit=limit)
        write(arguments, islice(fills, arguments.limit), line, "no trades")


def show_balance(arguments: Arguments) -> None:
    """Show balances and positions of the wallet."""
    with wallet_of(arguments) as client:
        account = client.account()
    if arguments.json:
        write(arguments, [account], str)
        return
    write(
        arguments,
        account.balances,
        lambda it: f"{it.asset}  {amount(it.available)} of {amount(it.balance)} available",
        "no balances; the server keeps those of markets with accounts, not those of the chain",
    )
    write(
        arguments,
        account.positions,
        lambda it: (
            f"{it.market_id}  {it.token_id}  {amount(it.net_size)} tokens at "
            f"{it.average_price or '-'}, realised {amount(it.realised)}"
        ),
        "no positions",
    )


def faucet(arguments: Arguments) -> None:
    """Get test collateral."""
    with wallet_of(arguments) as client:
        write(arguments, [client.faucet()], lambda it: it.message)


def move_escrow(arguments: Arguments) -> None:
    """Deposit into escrow, request a withdrawal, or pay it."""
    token = arguments.token
    if token is not None and not (token.isascii() and token.isdigit()):
        raise InvalidCallError(f"--token must be the id of an outcome token; got {token!r}")
    if arguments.command != "withdraw":
        size_of("amount", arguments.amount)
    with wallet_of(arguments) as client:
        done: Any
        if arguments.command == "deposit":
            done = client.deposit(arguments.amount, token, permit=arguments.permit)
        elif arguments.command == "withdraw":
            done = client.withdraw(token)
        else:
            done = client.request_withdrawal(arguments.amount, token)
        write(arguments, [done], lambda it: it.message)


def convert(arguments: Arguments) -> None:
    """Split, merge, wrap or unwrap."""
    size_of("amount", arguments.amount)
    with wallet_of(arguments) as client:
        done: Any
        if arguments.command == "wrap":
            done = client.wrap(arguments.amount, permit=arguments.permit)
        elif arguments.command == "unwrap":
            done = client.unwrap(arguments.amount, permit=arguments.permit)
        elif arguments.command == "split":
            done = client.split(arguments.market, arguments.amount, permit=arguments.permit)
        else:
            done = client.merge(arguments.market, arguments.amount)
        write(arguments, [done], lambda it: it.message)
