"""The commands of ``clob-server`` that make and take back keys and tokens.

A key is made in the data folder while no server has it, or, with ``--url``, by a running one.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from clob import ClobError
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN, SCOPES
from clob_server.auth.tokens import TTL_S, mint
from clob_server.cli import remote
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.remote import add_command, keys_in
from clob_server.core.commands import DeactivateKey
from clob_server.http.admin_schemas import KeyAsked, add_key, draw_key, read_object
from clob_server.log import LogLockedError
from clob_server.log.sqlite import DATABASE
from clob_server.service import wall_clock_ms
from clob_server.settings import PRODUCTION, SECRET_BYTES_MIN, TEST, Settings, SettingsError

ENVIRONMENTS: Final = (TEST, PRODUCTION)
"""Where a key may open something."""
BRIEFLY_S: Final = 60
"""How long a token is good that is made for one request."""

Arguments = argparse.Namespace
Environ = Mapping[str, str]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``token`` and ``key`` to a command line.

    What was chosen stands in ``arguments.act``, a function of the arguments and the environment
    that gives the exit code.
    """
    token = commands.add_parser("token", help="make a token for an operator")
    add_folder(token)
    token.add_argument("--sub", required=True, metavar="NAME", help="whose it is")
    token.add_argument(
        "--scope", default=ADMIN, metavar="WORDS", help="what it is good for (default: %(default)s)"
    )
    token.add_argument(
        "--ttl",
        type=positive,
        default=TTL_S,
        metavar="SECONDS",
        help="how long (default: %(default)s)",
    )
    token.set_defaults(act=guarded(make_token))
    key = commands.add_parser("key", help="make, list and deactivate API keys")
    actions = key.add_subparsers(dest="action", required=True)
    add_create(actions.add_parser("create", help="make a key, and show it this once"))
    listing = actions.add_parser("list", help="list the keys there are")
    listing.set_defaults(act=guarded(list_keys))
    revoking = actions.add_parser("revoke", help="deactivate a key, for good")
    revoking.add_argument("key_id", metavar="ID", help="the id of the key")
    revoking.set_defaults(act=guarded(revoke_key))
    for each in actions.choices.values():
        add_folder(each)
        each.add_argument("--url", metavar="URL", help="the address of the server that runs there")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the option of the data folder."""
    parser.add_argument(
        "--data-dir", metavar="DIR", help=f"the data folder (default: {Settings().data_dir})"
    )


def add_create(parser: argparse.ArgumentParser) -> None:
    """Add what is asked of a new key."""
    parser.add_argument("--name", required=True, metavar="NAME", help="what people call it")
    parser.add_argument(
        "--scopes", required=True, type=words, metavar="WORDS", help=f"of {','.join(SCOPES)}"
    )
    parser.add_argument(
        "--makers",
        type=words,
        default=(),
        metavar="ADDRESSES",
        help="whose orders it may place and cancel without a signature",
    )
    parser.add_argument(
        "--environment",
        choices=ENVIRONMENTS,
        help="where it opens something (default: that of the server, else test)",
    )
    for name in ("requests", "orders"):
        parser.add_argument(
            f"--{name}-per-minute", type=number, metavar="N", help="a limit of its own"
        )
    parser.set_defaults(act=guarded(create_key))


# ----- what they do ----------------------------------------------------------------------------


def make_token(arguments: Arguments, environ: Environ) -> None:
    """Make a token, and write it to standard output."""
    key = token_secret(folder_of(arguments, environ), environ)
    now_s = wall_clock_ms() // 1000
    say(mint(key, arguments.sub, arguments.scope, now_s, arguments.ttl))


def create_key(arguments: Arguments, environ: Environ) -> None:
    """Make a key, and write it to standard output, its id to standard error."""
    asked = {
        "name": arguments.name,
        "scopes": arguments.scopes,
        "makers": arguments.makers,
        "requestsPerMinute": arguments.requests_per_minute,
        "ordersPerMinute": arguments.orders_per_minute,
    }
    if arguments.url:
        if arguments.environment:
            raise SettingsError("--environment is that of the server, where --url names one")
        made = ask(arguments, environ, "POST", "/api/admin/keys", asked)
        key_id, whole = made["keyId"], made["key"]
    else:
        environment = arguments.environment or environ.get("CLOB_ENVIRONMENT", TEST)
        if environment not in ENVIRONMENTS:
            raise SettingsError(f"CLOB_ENVIRONMENT must be {' or '.join(ENVIRONMENTS)}")
        whole, key = draw_key(read_object(asked, KeyAsked), environment)
        folder = folder_of(arguments, environ)
        add_command(folder, lambda now_ms: add_key(key, now_ms), wall_clock_ms)
        key_id = key.id
    sys.stderr.write(f"key {key_id} is made; this is the only time that it is shown\n")
    say(whole)


def list_keys(arguments: Arguments, environ: Environ) -> None:
    """Write a line for each key."""
    if arguments.url:
        for key in ask(arguments, environ, "GET", "/api/admin/keys"):
            say_key(key["keyId"], key["active"], key["environment"], key["scopes"], key["name"])
        return
    for kept in keys_in(folder_with_log(arguments, environ)):
        active = kept.deactivated_ms is None
        say_key(kept.id, active, kept.environment, kept.scopes, kept.name)


def revoke_key(arguments: Arguments, environ: Environ) -> None:
    """Deactivate a key."""
    key_id = arguments.key_id
    if arguments.url:
        if not key_id.isalnum():
            raise SettingsError(f"the id of a key is letters and digits, not {key_id!r}")
        ask(arguments, environ, "DELETE", f"/api/admin/keys/{key_id}")
    else:
        add_command(
            folder_with_log(arguments, environ),
            lambda now_ms: DeactivateKey(key_id=key_id, now_ms=now_ms),
            wall_clock_ms,
        )
    say(f"key {key_id} is deactivated")


# ----- what they need --------------------------------------------------------------------------


def guarded(work: Callable[[Arguments, Environ], None]) -> Callable[[Arguments, Environ], int]:
    """Make a function that gives the exit code of a command, and says what went wrong."""

    def act(arguments: Arguments, environ: Environ = os.environ) -> int:
        try:
            work(arguments, environ)
        except LogLockedError as error:
            return complain(f"{error.code}: {error}; --url asks the server that has it", UNUSABLE)
        except ClobError as error:
            return complain(f"{error.code}: {error}", FAILED)
        except (SettingsError, OSError, ValueError) as error:
            return complain(str(error), UNUSABLE)
        return DONE

    return act


def ask(arguments: Arguments, environ: Environ, method: str, path: str, body: object = None) -> Any:
    """Ask the server that runs, with a token of its own folder, or one from ``CLOB_TOKEN``."""
    token = environ.get("CLOB_TOKEN")
    if not token:
        key = token_secret(folder_of(arguments, environ), environ)
        token = mint(key, "clob-server", ADMIN, wall_clock_ms() // 1000, BRIEFLY_S)
    return remote.ask(arguments.url, token, method, path, body)


def token_secret(folder: Path, environ: Environ) -> bytes:
    """Give the secret that tokens are signed with.

    Raises:
        SettingsError: there is none, or it is too short.
    """
    given = environ.get("CLOB_JWT_SECRET", "").encode()
    if given:
        if len(given) < SECRET_BYTES_MIN:
            raise SettingsError(f"CLOB_JWT_SECRET must have {SECRET_BYTES_MIN} bytes or more")
        return given
    if not (folder / TOKENS).is_file():
        raise SettingsError(
            f"there is no {TOKENS} in {folder}; a server makes it at its first start"
        )
    return secret(folder, TOKENS)


def folder_of(arguments: Arguments, environ: Environ) -> Path:
    """Give the data folder."""
    return Path(arguments.data_dir or environ.get("CLOB_DATA_DIR") or Settings().data_dir)


def folder_with_log(arguments: Arguments, environ: Environ) -> Path:
    """Give the data folder, which must have a log.

    Raises:
        SettingsError: it has none.
    """
    folder = folder_of(arguments, environ)
    if not (folder / DATABASE).is_file():
        raise SettingsError(f"there is no log in {folder}")
    return folder


def words(text: str) -> tuple[str, ...]:
    """Read words with commas between them."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def number(text: str) -> int:
    """Read a number, 0 or more."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Read a number, 1 or more."""
    found = number(text)
    if not found:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return found


def say_key(key_id: str, active: bool, environment: str, scopes: Iterable[str], name: str) -> None:
    """Write a line about a key."""
    state = "active" if active else "deactivated"
    shown = name if name.isprintable() else repr(name)
    say(f"{key_id}  {state:11}  {environment:10}  {','.join(scopes)}  {shown}")


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
