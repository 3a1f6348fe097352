"""``clob-server token`` and ``key``, offline in a data folder and with a running server."""

import argparse
import os
import re
import stat
from contextlib import closing

import jwt
import pytest

from clob.journal import ZERO_HASH
from clob_server import cli
from clob_server.cli import keys
from clob_server.cli.verify import audit
from clob_server.core.commands import DescribeExchange, encode
from clob_server.core.identity import exchange_settings
from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from clob_server.settings import Settings
from tests.server.auth.budgets import place
from tests.server.auth.guard_harness import MAKER
from tests.server.auth.servers import operated_server

KEY = re.compile(r"clob_([0-9a-f]{12})_[0-9a-f]{64}")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command; return its exit code, standard output and standard error."""
    for name in list(os.environ):
        if name.startswith("CLOB_"):
            monkeypatch.delenv(name)

    def command(*words, **environ):
        parser = argparse.ArgumentParser()
        keys.add_commands(parser.add_subparsers())
        arguments = parser.parse_args([str(word) for word in words])
        code = arguments.act(arguments, environ)
        return (code, *capsys.readouterr())

    return command


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("cli"), "test", rate_limits=False) as made:
        yield made


def prepared(folder, environment="test"):
    """Make a folder as after the first start of a server; return it."""
    exchange = exchange_settings(Settings(environment=environment))
    with closing(SqliteLog(folder)) as log:
        command = DescribeExchange(exchange=exchange, now_ms=1)
        log.append([encode(command)], 0, event_hash=ZERO_HASH)
    return folder


def in_folder(folder):
    return "--data-dir", folder


def keys_of(folder):
    with closing(SqliteLog(folder)) as log:
        return recover(log)[0].registry.keys


def test_key_is_created_offline(run, tmp_path):
    folder = prepared(tmp_path / "data", "production")
    code, out, err = run(
        *("key", "create", *in_folder(folder), "--name", "bot", "--scopes", "trade,cancel"),
        *("--makers", MAKER.lower(), "--orders-per-minute", 50, "--environment", "production"),
    )
    assert code == 0
    key_id = KEY.fullmatch(out.strip())[1]
    assert key_id in err
    assert out.strip() not in err
    key = keys_of(folder)[key_id]
    assert (key.name, key.scopes, key.makers) == ("bot", ("trade", "cancel"), (MAKER,))
    assert (key.environment, key.orders_per_minute) == ("production", 50)
    assert key.requests_per_minute is None
    run("key", "create", *in_folder(folder), "--name", "\x1b[2J\n", "--scopes", "read")
    code, out, _ = run("key", "list", *in_folder(folder))
    out, second = out.splitlines()
    assert second.endswith(r"active       production  read  '\x1b[2J\n'")
    assert (code, out.split()) == (0, [key_id, "active", "production", "trade,cancel", "bot"])


def test_server_accepts_offline_keys_and_rejects_revoked_ones(run, tmp_path):
    folder = prepared(tmp_path / "test")
    options = ("--name", "k", "--scopes", "read")
    active, revoked = (
        run("key", "create", *in_folder(folder), *options)[1].strip() for _ in range(2)
    )
    code, out, _ = run("key", "revoke", revoked[5:17], *in_folder(folder))
    assert (code, out) == (0, f"key {revoked[5:17]} deactivated\n")
    with operated_server(tmp_path, "test") as server:
        assert server.http.get("/", headers={"X-API-Key": active}).status_code == 200
        assert server.http.get("/", headers={"X-API-Key": revoked}).status_code == 401
        assert place(server).status_code == 200
        assert server.live.stop() == 0
    code, out, _ = run("key", "revoke", active[5:17], *in_folder(folder))
    assert code == 0
    assert all(key.deactivated_ms for key in keys_of(folder).values())
    with closing(SqliteLog(folder)) as log:
        assert audit(log).last_seq == log.tail.seq


def test_rejected_revocation_writes_nothing(run, tmp_path):
    prepared(tmp_path)
    key = run("key", "create", *in_folder(tmp_path), "--name", "k", "--scopes", "read")[1]
    run("key", "revoke", key[5:17], *in_folder(tmp_path))
    with closing(SqliteLog(tmp_path)) as log:
        before = log.tail
    for key_id, code in ((key[5:17], "KEY_INACTIVE"), ("000000000000", "UNKNOWN_KEY")):
        exit_code, out, err = run("key", "revoke", key_id, *in_folder(tmp_path))
        assert (exit_code, out) == (1, "")
        assert err.startswith(f"clob-server: {code}: ")
    with closing(SqliteLog(tmp_path)) as log:
        assert log.tail == before


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--name", "k", "--scopes", "read,admin"), "scopes[1]"),
        (("--name", "k", "--scopes", ","), "scopes"),
        (("--name", "", "--scopes", "read"), "name"),
        (("--name", "k", "--scopes", "read", "--makers", "0x12"), "makers[0]"),
        (("--name", "k", "--scopes", "read", "--orders-per-minute", 100_001), "ordersPerMinute"),
    ],
)
def test_invalid_key_is_rejected(run, tmp_path, words, field):
    folder = prepared(tmp_path / "data")
    code, out, err = run("key", "create", *in_folder(folder), *words)
    assert (code, out) == (1, "")
    assert field in err
    assert not keys_of(folder)


def test_unknown_environment_is_rejected(run, tmp_path):
    words = ("key", "create", *in_folder(prepared(tmp_path)), "--name", "k", "--scopes", "read")
    for given in ("mainnet", "production"):
        code, out, err = run(*words, CLOB_ENVIRONMENT=given)
        assert (code, out) == (2, "")
        assert f"runs in test and would reject a key for '{given}'" in err
    code, out, err = run(*words, "--environment", "production")
    assert (code, out, "runs in test" in err) == (2, "", True)
    assert not keys_of(tmp_path)


def test_log_without_an_environment_needs_one_for_a_key(run, tmp_path):
    SqliteLog(tmp_path).close()
    words = ("key", "create", *in_folder(tmp_path), "--name", "k", "--scopes", "read")
    code, out, err = run(*words)
    assert (code, out, "no environment yet" in err) == (2, "", True)
    assert run(*words, CLOB_ENVIRONMENT="production")[0] == 0
    assert [key.environment for key in keys_of(tmp_path).values()] == ["production"]


CREATE = ("create", "--name", "k", "--scopes", "read")


@pytest.mark.parametrize("words", [("list",), ("revoke", "000000000000"), CREATE])
def test_folder_without_a_log_is_not_changed(run, tmp_path, monkeypatch, words):
    folder = tmp_path / "mistyped"
    for options in (in_folder(folder), ()):
        monkeypatch.chdir(tmp_path)
        code, out, err = run("key", *words, *options)
        assert (code, out) == (2, "")
        assert err.startswith(f"clob-server: no log found in {folder if options else 'clob-data'},")
        assert ("started once" if options else "with --data-dir or CLOB_DATA_DIR") in err
        assert not list(tmp_path.iterdir())


def test_token_and_deployment_create_no_default_folder(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("token", "--sub", "olga")
    assert (code, out, "with --data-dir or CLOB_DATA_DIR" in err) == (2, "", True)
    assert cli.main(["deploy", "--chain", "http://127.0.0.1:1"]) == 2
    assert "--data-dir must name a data folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_folder_of_a_running_server_is_not_changed(run, server):
    code, out, err = run("key", "list", *in_folder(server.live.folder))
    assert (code, out) == (2, "")
    assert "LOG_LOCKED" in err
    assert "--url" in err


def test_keys_are_created_listed_and_revoked_on_a_running_server(run, server):
    target = (*in_folder(server.live.folder), "--url", server.live.url)
    options = ("--name", "by url", "--scopes", "read", "--makers", MAKER)
    code, out, err = run("key", "create", *target, *options)
    assert code == 0
    key = out.strip()
    key_id = KEY.fullmatch(key)[1]
    assert key_id in err
    assert server.http.get("/", headers={"X-API-Key": key}).status_code == 200
    assert f"{key_id}  active" in run("key", "list", *target)[1]
    assert run("key", "revoke", key_id, *target)[:2] == (0, f"key {key_id} deactivated\n")
    assert f"{key_id}  deactivated" in run("key", "list", *target)[1]
    assert server.http.get("/", headers={"X-API-Key": key}).status_code == 401
    code, out, err = run("key", "revoke", key_id, *target)
    assert (code, out) == (1, "")
    assert "KEY_INACTIVE" in err


def test_given_token_is_used_without_a_secret(run, server, tmp_path):
    target = (*in_folder(tmp_path), "--url", server.live.url)
    assert run("key", "list", *target)[0] == 2
    assert run("key", "list", *target, CLOB_TOKEN=server.token())[0] == 0
    code, _, err = run("key", "list", *target, CLOB_TOKEN=server.token(scope="metrics"))
    assert (code, "SCOPE_MISSING" in err) == (1, True)


@pytest.mark.parametrize("token", ["a\nb", "t\u20acken"])
def test_token_that_no_header_can_have_is_rejected_and_not_printed(run, server, token):
    target = (*in_folder(server.live.folder), "--url", server.live.url)
    assert run("key", "list", *target, CLOB_TOKEN=token) == (
        2,
        "",
        "clob-server: CLOB_TOKEN must be a token of printable ASCII characters\n",
    )


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1", "127.0.0.1:80", "http://", "http://[", "", "http://127.0.0.1:port",
        "http://127.0.0.1:99999", "http://user:word@127.0.0.1", "http://127.0.0.1/?x=1",
    ],
)  # fmt: skip
def test_unusable_url_is_rejected(run, server, url):
    words = ("key", "revoke", "000000000000", *in_folder(server.live.folder), "--url", url)
    rule = "--url must be http:// or https://, a host, and a port and a path if needed"
    assert run(*words) == (2, "", f"clob-server: {rule}; got {url!r}\n")


def test_path_of_a_url_comes_before_that_of_the_route(run, server):
    target = (*in_folder(server.live.folder), "--url")
    assert run("key", "list", *target, f"{server.live.url}/")[0] == 0
    code, _, err = run("key", "list", *target, f"{server.live.url}/exchange/")
    assert (code, 'there is nothing at "/exchange/api/admin/keys"' in err) == (1, True)


def test_unreachable_server_is_named_in_the_error(run, server):
    target = (*in_folder(server.live.folder), "--url", "http://127.0.0.1:1")
    code, _, err = run("key", "list", *target)
    assert (code, "http://127.0.0.1:1" in err) == (1, True)


def test_environment_option_is_rejected_with_a_running_server(run, server):
    target = (
        *in_folder(server.live.folder),
        "--url",
        server.live.url,
        "--environment",
        "production",
    )
    assert run("key", "create", *target, "--name", "k", "--scopes", "read")[0] == 2


def test_server_accepts_a_minted_token(run, server):
    words = ("token", *in_folder(server.live.folder), "--sub", "olga")
    code, out, _ = run(*words)
    assert code == 0
    headers = {"Authorization": f"Bearer {out.strip()}"}
    assert server.http.get("/api/admin/keys", headers=headers).status_code == 200
    weak = {"Authorization": f"Bearer {run(*words, '--scope', 'metrics')[1].strip()}"}
    assert server.http.get("/api/admin/keys", headers=weak).json()["code"] == "SCOPE_MISSING"


def test_token_is_minted_with_the_secret_of_the_settings(run, tmp_path):
    target = in_folder(tmp_path)
    _, out, _ = run("token", *target, "--sub", "olga", "--ttl", 5, CLOB_JWT_SECRET="s" * 40)
    claims = jwt.decode(out.strip(), "s" * 40, algorithms=["HS256"])
    assert (claims["sub"], claims["scope"]) == ("olga", "admin")
    assert claims["exp"] == claims["iat"] + 5
    code, _, err = run("token", *target, "--sub", "olga", CLOB_JWT_SECRET="short")
    assert (code, "32 bytes" in err) == (2, True)


def test_minting_a_token_without_a_secret_is_rejected(run, tmp_path):
    code, out, err = run("token", *in_folder(tmp_path), "--sub", "olga")
    assert (code, out, "tokens.key" in err) == (2, "", True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ttl", ["0", "-1", "x", "1.5"])
def test_token_with_an_invalid_ttl_is_rejected(run, ttl):
    with pytest.raises(SystemExit) as ended:
        run("token", "--sub", "olga", "--ttl", ttl)
    assert ended.value.code == 2


def test_data_dir_defaults_to_the_environment_variable(run, tmp_path):
    prepared(tmp_path)
    _, out, _ = run("key", "create", "--name", "k", "--scopes", "read", CLOB_DATA_DIR=str(tmp_path))
    assert KEY.fullmatch(out.strip())[1] in keys_of(tmp_path)


def test_empty_data_dir_is_rejected(run, tmp_path, monkeypatch):
    monkeypatch.chdir(prepared(tmp_path))
    words = ("key", "create", "--name", "k", "--scopes", "read")
    code, _, err = run(*words, *in_folder(""))
    assert (code, err) == (2, "clob-server: --data-dir must not be empty\n")
    code, _, err = run(*words, CLOB_DATA_DIR="")
    assert (code, err) == (2, "clob-server: CLOB_DATA_DIR must not be empty\n")


def test_argument_that_is_not_utf8_is_rejected(run, tmp_path):
    words = ("key", "create", "--name", "k\udcff", "--scopes", "read")
    code, _, err = run(*words, *in_folder(prepared(tmp_path)))
    assert (code, err) == (2, "clob-server: arguments must be UTF-8; got 'k\\udcff'\n")


def test_secret_files_are_readable_by_their_owner_only(server):
    for name in ("tokens.key", "ids.key"):
        assert stat.S_IMODE((server.live.folder / name).stat().st_mode) == 0o600
