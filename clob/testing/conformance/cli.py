"""The ``clob-conformance`` command: check a server at an address."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clob.client.errors import InvalidCallError
from clob.program import VersionAction, print_text, run_program
from clob.signing import InvalidDomainError
from clob.testing.conformance import subjects as subjects  # registers the checks
from clob.testing.conformance.checks import (
    Check,
    Result,
    UnusableServerError,
    result_of,
    selected,
)
from clob.testing.conformance.session import CheckSession, Options

PASSED: Final = 0
FAILED: Final = 1
"""A check failed."""
UNUSABLE: Final = 2
"""Arguments or server cannot be used."""
WORDS: Final = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the command name; None means ``sys.argv``.

    Returns:
        0 if no check failed, 1 if one failed, 2 if the arguments or the server cannot be used, 130
        after Ctrl-C.

    Raises:
        SystemExit: wrong arguments (2), ``--help`` or ``--version`` (0).
    """
    return run_program("clob-conformance", lambda: run_selected(argv))


def run_selected(argv: Sequence[str] | None) -> int:
    """Parse the arguments, run or list the selected checks, and return the exit code."""
    arguments = parser().parse_args(argv)
    checks = selected(arguments.only)
    if not checks:
        return complain(f"no check matches {' '.join(arguments.only)}; --list prints them")
    if arguments.list:
        for each in checks:
            print_text(f"{each.name:45} {each.text}\n")
        return PASSED
    if arguments.url is None:
        return complain("the address of the server is missing")
    try:
        return run(options_of(arguments), checks, as_json=arguments.json)
    except (UnusableServerError, InvalidCallError, InvalidDomainError) as error:
        return complain(str(error))
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        return complain(f"an option cannot be read: {error}")


def results_of(options: Options, checks: Sequence[Check]) -> Iterator[Result]:
    """Run checks against a server, one after the other.

    Raises:
        UnusableServerError: no check can run.
    """
    with CheckSession(options) as session:
        for each in checks:
            result = result_of(each, session)
            session.tidy()
            yield result


def run(options: Options, checks: Sequence[Check], *, as_json: bool = False) -> int:
    """Run checks and print their results; return the exit code.

    Raises:
        UnusableServerError: no check can run.
    """
    results = []
    for result in results_of(options, checks):
        results.append(result)
        if not as_json:
            print_text(line_of(result), flush=True)
    if as_json:
        print_text(msgspec.json.format(msgspec.json.encode(results)).decode() + "\n")
    else:
        counts = [sum(each.state == state for each in results) for state in WORDS]
        print_text("{} passed, {} failed, {} skipped\n".format(*counts))
    return FAILED if any(each.state == "failed" for each in results) else PASSED


def line_of(result: Result) -> str:
    """Return the lines of a result."""
    lines = [f"{WORDS[result.state]:8} {result.name}"]
    if result.state == "skipped":
        lines[0] += f": {result.reason}"
    if result.state == "failed":
        lines += [
            f"         {result.text}",
            f"         subject:  {result.subject}",
            f"         received: {result.received}",
            f"         expected: {result.expected}",
            f'         {result.source}: "{result.sentence}"',
        ]
    return "\n".join(lines) + "\n"


def complain(text: str) -> int:
    """Write a line to standard error; return the exit code of unusable input."""
    sys.stderr.write(f"clob-conformance: {text}\n")
    return UNUSABLE


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    made = argparse.ArgumentParser(
        prog="clob-conformance",
        description="Check a server that speaks the HTTP and WebSocket interface. The checks "
        "create wallets with new keys, place orders in a market of their own, and cancel them.",
        epilog="Exit code: 0 no check failed, 1 a check failed, 2 unusable arguments or server.",
    )
    made.add_argument("--version", action=VersionAction)
    made.add_argument("url", nargs="?", help="address of the server, http://127.0.0.1:8000")
    made.add_argument(
        "--only", action="append", default=[], metavar="NAME",
        help="run only this check, subject or pattern: book.fields, book, 'book.*'; repeatable",
    )  # fmt: skip
    made.add_argument("--list", action="store_true", help="print the names of the checks and exit")
    made.add_argument("--json", action="store_true", help="print the results as JSON")
    made.add_argument(
        "--market", metavar="ID",
        help="market to use; it must be without orders, settle nowhere and have both tokens",
    )  # fmt: skip
    made.add_argument("--ws-url", metavar="URL", help="address of the WebSocket; default URL/ws")
    made.add_argument(
        "--admin-token-file", type=Path, metavar="PATH",
        help="file with a token of the operator, to open the market; or CLOB_ADMIN_TOKEN",
    )  # fmt: skip
    made.add_argument(
        "--api-key-file", type=Path, metavar="PATH", help="file with an API key; or CLOB_API_KEY"
    )
    made.add_argument(
        "--domain", metavar="JSON",
        help="EIP-712 domain: name, version, chainId, verifyingContract; default from GET /",
    )  # fmt: skip
    made.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS",
        help="longest wait for an answer; default 10",
    )  # fmt: skip
    return made


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the options of a run.

    Raises:
        OSError: a file cannot be read.
        DecodeError, UnicodeError: the domain is not JSON.
    """
    domain = arguments.domain
    return Options(
        url=arguments.url,
        ws_url=arguments.ws_url,
        market=arguments.market,
        api_key=secret(arguments.api_key_file, "CLOB_API_KEY"),
        admin_token=secret(arguments.admin_token_file, "CLOB_ADMIN_TOKEN"),
        domain=None if domain is None else msgspec.json.decode(domain, type=dict),
        timeout_s=arguments.timeout,
    )


def secret(path: Path | None, name: str) -> str | None:
    """Return a secret from a file or the environment."""
    return path.read_text().strip() if path else os.environ.get(name)
