"""``clob-server key`` and ``token``: create, list and revoke credentials.

Keys are changed in the data folder of a stopped server or, with ``--url``, by a running server.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from clob import ClobError
from clob.program import print_text
from clob_server.api.convert import convert
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN, SCOPES, TOKEN_SCOPES
from clob_server.auth.tokens import TTL_MAX_S, TTL_S, mint
from clob_server.cli import remote
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.options import number, positive, read_values
from clob_server.cli.remote import add_command, keys_in
from clob_server.core.clock import wall_clock_ms
from clob_server.core.commands import AddKey, DeactivateKey
from clob_server.core.state import ServerState
from clob_server.http.admin_schemas import KeyRequest, add_key, draw_key
from clob_server.log import LogDamagedError, LogError, LogFailedError, LogLockedError
from clob_server.log.sqlite import DATABASE
from clob_server.settings import PRODUCTION, SECRET_BYTES_MIN, TEST, Settings, SettingsError

ENVIRONMENTS: Final = (TEST, PRODUCTION)
"""Environments of a key."""
BRIEFLY_S: Final = 60
"""Lifetime of a token for a single request."""

Arguments = argparse.Namespace
Environ = Mapping[str, str]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``token`` and ``key``; ``arguments.act`` runs them and returns the exit code."""
    token = commands.add_parser("token", help="create a token for an operator")
    add_folder(token)
    token.add_argument("--sub", required=True, metavar="NAME", help="name of the operator")
    token.add_argument(
        "--scope",
        default=ADMIN,
        type=token_scope,
        metavar="WORDS",
        help=f"scopes, of {','.join(TOKEN_SCOPES)} (default: %(default)s)",
    )
    ttl = f"lifetime, at most {TTL_MAX_S} (default: %(default)s)"
    token.add_argument("--ttl", type=positive, default=TTL_S, metavar="SECONDS", help=ttl)
    token.set_defaults(act=guarded(make_token))
    key = commands.add_parser("key", help="create, list and revoke API keys")
    actions = key.add_subparsers(dest="action", required=True)
    add_create(actions.add_parser("create", help="create a key and show it once"))
    listing = actions.add_parser("list", help="list the keys")
    listing.set_defaults(act=guarded(list_keys))
    revoking = actions.add_parser("revoke", help="deactivate a key permanently")
    revoking.add_argument("key_id", metavar="ID", help="id of the key")
    revoking.set_defaults(act=guarded(revoke_key))
    for each in actions.choices.values():
        add_folder(each)
        each.add_argument("--url", metavar="URL", help="address of the running server")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-dir``."""
    parser.add_argument(
        "--data-dir", metavar="DIR", help=f"the data folder (default: {Settings().data_dir})"
    )


def add_create(parser: argparse.ArgumentParser) -> None:
    """Add the options of a new key."""
    parser.add_argument("--name", required=True, metavar="NAME", help="display name")
    scopes = f"scopes, of {','.join(SCOPES)}"
    parser.add_argument("--scopes", required=True, type=words, metavar="WORDS", help=scopes)
    parser.add_argument(
        "--makers",
        type=words,
        default=(),
        metavar="ADDRESSES",
        help="makers whose orders it may place and cancel without a signature",
    )
    parser.add_argument(
        "--environment",
        choices=ENVIRONMENTS,
        help="environment of the key (default, and only valid one: that of the server)",
    )
    for name in ("requests", "orders"):
        parser.add_argument(
            f"--{name}-per-minute", type=number, metavar="N", help="a limit for this key"
        )
    parser.set_defaults(act=guarded(create_key))


# ----- commands --------------------------------------------------------------------------------


def make_token(arguments: Arguments, environ: Environ) -> None:
    """Create a token and print it."""
    key = token_secret(arguments, environ)
    now_s = wall_clock_ms() // 1000
    print_line(mint(key, arguments.sub, arguments.scope, now_s, arguments.ttl))


def create_key(arguments: Arguments, environ: Environ) -> None:
    """Create a key; print it to standard output and its id to standard error."""
    body = {
        "name": arguments.name,
        "scopes": arguments.scopes,
        "makers": arguments.makers,
        "requestsPerMinute": arguments.requests_per_minute,
        "ordersPerMinute": arguments.orders_per_minute,
    }
    if arguments.url is not None:
        if arguments.environment:
            raise SettingsError(
                "--environment cannot be combined with --url: the server has its own"
            )
        created = call_server(arguments, environ, "POST", "/api/admin/keys", body)
        key_id, whole = created["keyId"], created["key"]
    else:
        request = convert(body, KeyRequest)
        folder = folder_with_log(arguments, environ)
        drawn: list[str] = []

        def make(now_ms: int, state: ServerState) -> AddKey:
            whole, key = draw_key(request, environment_of(state, arguments, environ))
            drawn[:] = whole, key.id
            return add_key(key, now_ms)

        add_command(folder, make)
        whole, key_id = drawn
    sys.stderr.write(f"key {key_id} created; it is not shown again\n")
    print_line(whole)


def list_keys(arguments: Arguments, environ: Environ) -> None:
    """Print one line per key."""
    if arguments.url is not None:
        for key in call_server(arguments, environ, "GET", "/api/admin/keys"):
            print_key(key["keyId"], key["active"], key["environment"], key["scopes"], key["name"])
        return
    for kept in keys_in(folder_with_log(arguments, environ)):
        active = kept.deactivated_ms is None
        print_key(kept.id, active, kept.environment, kept.scopes, kept.name)


def revoke_key(arguments: Arguments, environ: Environ) -> None:
    """Deactivate a key."""
    key_id = arguments.key_id
    if arguments.url is not None:
        if not key_id.isalnum():
            raise SettingsError(f"the id of a key has letters and digits only; got {key_id!r}")
        call_server(arguments, environ, "DELETE", f"/api/admin/keys/{key_id}")
    else:
        folder = folder_with_log(arguments, environ)
        add_command(folder, lambda now_ms, _: DeactivateKey(key_id=key_id, now_ms=now_ms))
    print_line(f"key {key_id} deactivated")


# ----- helpers ---------------------------------------------------------------------------------


def guarded(work: Callable[[Arguments, Environ], None]) -> Callable[[Arguments, Environ], int]:
    """Wrap a command: print errors and return the exit code."""

    def act(arguments: Arguments, environ: Environ = os.environ) -> int:
        try:
            work(arguments, environ)
        except LogLockedError as error:
            hint = "it must be stopped"
            if "url" in arguments and arguments.url is None:
                hint = "use --url to reach the server that is using it"
            return complain(f"{error.code}: {error}; {hint}", UNUSABLE)
        except LogError as error:
            has_failed = isinstance(error, LogDamagedError | LogFailedError)
            return complain(f"{error.code}: {error}", FAILED if has_failed else UNUSABLE)
        except ClobError as error:
            return complain(f"{error.code}: {error}", FAILED)
        except UnicodeEncodeError as error:
            return complain(f"arguments must be UTF-8; got {error.object!r}", UNUSABLE)
        except (SettingsError, OSError, ValueError) as error:
            return complain(str(error), UNUSABLE)
        return DONE

    return act


def environment_of(state: ServerState, arguments: Arguments, environ: Environ) -> str:
    """Return the environment of a new key: that of the exchange, if its log has one.

    Raises:
        SettingsError: another one is given, or none is known.
    """
    given = arguments.environment or environ.get("CLOB_ENVIRONMENT")
    recorded = state.registry.exchange
    if recorded is None:
        if given not in ENVIRONMENTS:
            raise SettingsError(
                "the log has no environment yet: start the server once, or set --environment or "
                f"CLOB_ENVIRONMENT to {' or '.join(ENVIRONMENTS)}; got {given or 'none'}"
            )
        return given
    if given not in (None, recorded.environment):
        raise SettingsError(
            f"the server of this folder runs in {recorded.environment} and would reject a key for "
            f"{given!r} (--environment or CLOB_ENVIRONMENT)"
        )
    return recorded.environment


def call_server(
    arguments: Arguments, environ: Environ, method: str, path: str, body: object = None
) -> Any:
    """Call the running server with ``CLOB_TOKEN`` or a token from its data folder."""
    return remote.call(arguments.url, admin_token(arguments, environ), method, path, body)


def admin_token(arguments: Arguments, environ: Environ) -> str:
    """Return ``CLOB_TOKEN``, or a token for one request made with the secret of a data folder."""
    token = environ.get("CLOB_TOKEN")
    if token:
        if not (token.isascii() and token.isprintable()):
            raise SettingsError("CLOB_TOKEN must be a token of printable ASCII characters")
        return token
    key = token_secret(arguments, environ)
    return mint(key, "clob-server", ADMIN, wall_clock_ms() // 1000, BRIEFLY_S)


def token_secret(arguments: Arguments, environ: Environ) -> bytes:
    """Return the secret that signs tokens."""
    folder = folder_of(arguments, environ)
    given = environ.get("CLOB_JWT_SECRET", "").encode()
    if given:
        if len(given) < SECRET_BYTES_MIN:
            raise SettingsError(f"CLOB_JWT_SECRET must have at least {SECRET_BYTES_MIN} bytes")
        return given
    if not (folder / TOKENS).is_file():
        raise SettingsError(f"no {TOKENS} found in {folder}{hint_for(arguments, environ)}")
    return secret(folder, TOKENS)


def folder_of(arguments: Arguments, environ: Environ) -> Path:
    """Return the data folder."""
    given = read_values(vars(arguments), environ, ("data_dir",))
    return Path(given.get("data_dir", Settings().data_dir))


def folder_with_log(arguments: Arguments, environ: Environ) -> Path:
    """Return the data folder, which must have a log."""
    folder = folder_of(arguments, environ)
    if not (folder / DATABASE).is_file():
        raise SettingsError(f"no log found in {folder}{hint_for(arguments, environ)}")
    return folder


def hint_for(arguments: Arguments, environ: Environ) -> str:
    """Return how to name the data folder, if the default one was used."""
    if arguments.data_dir or environ.get("CLOB_DATA_DIR"):
        return ", where the server has to be started once"
    return ", the default folder; name that of the server with --data-dir or CLOB_DATA_DIR"


def words(text: str) -> tuple[str, ...]:
    """Parse words separated by commas."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def token_scope(text: str) -> str:
    """Parse the scopes of a token, separated by commas or spaces."""
    scopes = text.replace(",", " ").split()
    if not scopes or not set(TOKEN_SCOPES).issuperset(scopes):
        known = ",".join(TOKEN_SCOPES)
        raise argparse.ArgumentTypeError(f"expected words of {known}; got {text!r}")
    return " ".join(scopes)


def print_key(
    key_id: str, active: bool, environment: str, scopes: Iterable[str], name: str
) -> None:
    """Print one line about a key."""
    state = "active" if active else "deactivated"
    shown = name if name.isprintable() else repr(name)
    print_line(f"{key_id}  {state:11}  {environment:10}  {','.join(scopes)}  {shown}")


def print_line(text: str) -> None:
    """Print a line."""
    print_text(f"{text}\n")
