"""``clob-server market``: open, list, halt, resolve and remove markets of a running server."""

import argparse
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from clob.units import format_tokens
from clob_server.cli.keys import (
    Arguments,
    Environ,
    add_folder,
    call_server,
    guarded,
    print_line,
)

URL: Final = "http://127.0.0.1:8000"
"""Address of a server with default settings."""
PAGE: Final = 500
"""Markets per request."""
ROUTE: Final = "/api/admin/markets"

Parsers = argparse._SubParsersAction


def add_commands(commands: "Parsers[argparse.ArgumentParser]") -> None:
    """Add ``market``; ``arguments.act`` runs it and returns the exit code."""
    market = commands.add_parser(
        "market",
        help="open, list and resolve markets of a running server",
        description="Open, list and resolve markets of a running server, with the operator's token "
        "in CLOB_TOKEN or with one made in the data folder.",
        epilog="Exit code: 0 done, 1 the server rejected the request or does not answer, 2 an "
        "argument is unusable.",
    )
    actions = market.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="list the markets").set_defaults(act=guarded(list_markets))
    add_open(actions)
    for name, text in (
        ("reopen", "accept all commands of a market again"),
        ("cancel-only", "accept cancels in a market, but no orders"),
        ("halt", "accept no commands of makers in a market"),
        ("remove", "remove a market without trades"),
        ("resolve", "end a market with its outcome"),
    ):
        change = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
        change.add_argument("market", metavar="MARKET", help="id of the market")
        change.set_defaults(act=guarded(change_market))
    resolving = actions.choices["resolve"]
    resolving.add_argument("outcome", choices=("yes", "no"), help="the token that won")
    resolving.add_argument(
        "--now", action="store_true", help="report it although trades wait for settlement"
    )
    for each in actions.choices.values():
        add_folder(each)
        each.add_argument("--url", default=URL, help="address of the server (default: %(default)s)")


def add_open(actions: "Parsers[argparse.ArgumentParser]") -> None:
    """Add the options of a new market."""
    opening = actions.add_parser(
        "open",
        help="open a market",
        description="Open a market. Without --yes and --no, its tokens follow from its question "
        "and the chain of the server.",
    )
    opening.add_argument("market", metavar="MARKET", help="id of the market")
    opening.add_argument("--question", metavar="TEXT", help="the question")
    opening.add_argument("--description", metavar="TEXT", help="further explanation")
    opening.add_argument("--yes", metavar="ID", help="id of the YES token")
    opening.add_argument("--no", metavar="ID", help="id of the NO token")
    for name, text in (
        ("condition", "id of a condition that exists on the chain, instead of the tokens"),
        ("oracle", "address of the oracle that resolves the condition"),
        ("question-id", "question id of the condition"),
    ):
        metavar = "ADDRESS" if name == "oracle" else "HEX"
        opening.add_argument(f"--{name}", metavar=metavar, help=text)
    opening.add_argument("--min-size", metavar="WEI", help="minimum order size (default: 10^16)")
    opening.add_argument(
        "--complementary", action="store_true", help="match orders for YES with orders for NO"
    )
    opening.add_argument(
        "--settles", action="store_true", help="settle trades on the chain of the server"
    )
    opening.add_argument(
        "--custody",
        choices=("wallet", "escrow"),
        default="wallet",
        help="with --settles: cover orders by wallets, or by deposits in the exchange contract",
    )
    opening.set_defaults(act=guarded(open_market))


# ----- commands --------------------------------------------------------------------------------


def list_markets(arguments: Arguments, environ: Environ) -> None:
    """Print a line for each market: id, mode, or outcome once it is resolved, and question."""
    for market in pages(arguments, environ):
        state = market["outcome"] or market["mode"]
        question = market["question"] or ""
        shown = question if question.isprintable() else repr(question)
        print_line(f"{market['marketId']}  {state:11}  {shown}".rstrip())


def pages(arguments: Arguments, environ: Environ) -> Iterator[Any]:
    """Yield all markets of the server."""
    begin = 0
    while page := call_server(arguments, environ, "GET", f"{ROUTE}?limit={PAGE}&cursor={begin}"):
        yield from page
        begin += PAGE


def open_market(arguments: Arguments, environ: Environ) -> None:
    """Open a market and print its terms."""
    given = {
        "question": arguments.question,
        "description": arguments.description,
        "yesTokenId": arguments.yes,
        "noTokenId": arguments.no,
        "conditionId": arguments.condition,
        "oracle": arguments.oracle,
        "questionId": arguments.question_id,
        "minSize": arguments.min_size,
    }
    body = {name: value for name, value in given.items() if value is not None}
    body |= {"complementary": arguments.complementary, "settles": arguments.settles}
    if arguments.custody != "wallet":
        body["custody"] = arguments.custody
    market = call_server(arguments, environ, "POST", ROUTE, body | {"marketId": arguments.market})
    print_line(f"market {market['marketId']} is {market['mode']}")
    print_line(f"YES {market['yesTokenId']}")
    print_line(f"NO {market['noTokenId'] or 'not known yet'}")
    print_line(f"minimum size {format_tokens(int(market['minSize']))} tokens")


def change_market(arguments: Arguments, environ: Environ) -> None:
    """Change the mode of a market, resolve or remove it, and print its mode."""
    action, path = arguments.action, f"{ROUTE}/{quote(arguments.market, safe='')}"
    if action == "remove":
        call_server(arguments, environ, "DELETE", path)
        print_line(f"market {arguments.market} is removed")
        return
    body = None
    if action == "resolve":
        body = {"outcome": arguments.outcome, "now": arguments.now}
    route = {"reopen": "open"}.get(action, action)
    market = call_server(arguments, environ, "POST", f"{path}/{route}", body)
    print_line(f"market {arguments.market} is {market['mode']}")
