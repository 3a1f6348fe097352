"""Chain configuration from the settings, and rejected settings."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from clob_server.chain.config import (
    DEVELOPMENT,
    KeyAccess,
    contracts_of,
    free_port,
    operator_access,
    operator_key,
    operator_of,
    oracle_access,
    oracle_of,
    redacted_url,
)
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.cli.options import read_settings
from clob_server.settings import SettingsError

ONE, TWO, THREE = (f"0x{number:040x}" for number in (1, 2, 3))
NODE = "https://user:secret@rpc.example:8545/v3/token?key=1"
SIGNER = "https://user:secret@signer.example:9000/sign"
CONTRACTS = {"stablecoin": ONE, "collateral": TWO, "conditional_tokens": THREE}
PRODUCTION = {
    "environment": "production",
    "eip712_name": "x",
    "eip712_version": "1",
    "chain_id": "137",
    "verifying_contract": ONE,
}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "operator.key"
    path.write_text(f"{'AB' * 32}\n")
    path.chmod(0o600)
    return str(path)


def settings(**values):
    return read_settings(values, {})


@pytest.mark.parametrize(("values", "source"), [
    ({}, "embedded"), ({"chain": "none"}, "none"), ({"chain": NODE}, NODE),
    (PRODUCTION, "none"), (PRODUCTION | {"chain": "none"}, "none"),
])  # fmt: skip
def test_default_chain_is_embedded_in_the_test_environment_only(values, source):
    assert settings(**values).chain_source == source


@pytest.mark.parametrize(("values", "message"), [
    ({"chain": "anvil"}, "--chain must be none, embedded or the http or https URL of a node; "
     "got 'anvil'"),
    ({"chain": "ftp://x"}, "--chain must be none"),
    ({"chain": "http://"}, "--chain must be none"),
    ({"chain": "http://x:99999"}, "--chain must be none"),
    ({"collateral": ONE}, "--collateral cannot be used with --chain embedded"),
    ({"chain": "none", "operator_key_file": "x"}, "--operator-key-file cannot be used with"),
    ({"chain": NODE, "stablecoin": ONE}, "--conditional-tokens must be set together"),
    ({"chain": NODE, "chain_nodes": "node"}, "--chain-nodes must be http or https URLs"),
    ({"chain": NODE, "chain_nodes": NODE}, "--chain and --chain-nodes must differ; got"),
    ({"chain": NODE, "chain_quorum": "2"}, "--chain-quorum must be at most 1, the number of nodes"),
    ({"chain": "embedded", "chain_nodes": NODE}, "--chain-nodes cannot be used with --chain emb"),
    ({"chain": NODE, **CONTRACTS, "collateral": "0x1"}, "--collateral: collateral must be 0x and"),
    ({"chain": NODE, "chain_id": "1"}, "needs --operator-key-file, CLOB_OPERATOR_KEY or"),
    ({"chain": NODE, "operator_key_file": "/nowhere"}, "--operator-key-file cannot be read"),
    ({"operator_signer": SIGNER, "operator_address": ONE}, "--operator-signer, --operator-address "
     "cannot be used with --chain embedded"),
    ({"chain": NODE, "operator_signer": SIGNER}, "--operator-signer needs --operator-address"),
    ({"chain": NODE, "operator_signer": "x", "operator_address": ONE}, "--operator-signer must be"),
    ({"chain": NODE, "operator_signer": SIGNER, "operator_address": "0x1"},
     '--operator-address must be 0x and 40 hex digits; got "0x1"'),
    ({"chain": NODE, "operator_address": ONE}, "only be used with --operator-signer"),
    ({"chain": NODE, "operator_signer": SIGNER, "operator_address": ONE, "operator_key_file": "x"},
     "--operator-key-file cannot be used with --operator-signer"),
    ({"chain": NODE, "operator_key": "ab" * 32, "operator_key_file": "x"},
     "--operator-key-file cannot be used with --operator-key"),
    ({"chain": NODE, "operator_key": "ab" * 32, "operator_signer": SIGNER},
     "--operator-key cannot be used with --operator-signer"),
    ({"chain": NODE, "oracle_key": "secret"}, "--oracle-key must hold 64 hex digits and nothing"),
    ({"oracle_key": "ab" * 32}, "--oracle-key cannot be used with --chain embedded"),
    ({"chain": NODE, "oracle_address": ONE}, "only be used with --oracle-signer"),
    ({"chain": NODE, "oracle_key": "ab" * 32, "oracle_signer": SIGNER},
     "--oracle-key cannot be used with --oracle-signer"),
    ({"chain": NODE, "operator_key": "secret"}, "--operator-key must hold 64 hex digits and"),
    ({"chain": "none", "operator_key": "secret"}, "--operator-key cannot be used with --chain"),
    (PRODUCTION | {"chain": "embedded"}, "--chain embedded is available in the test environment"),
    (PRODUCTION | {"chain": NODE}, "in production needs --stablecoin, --collateral and"),
    (PRODUCTION | {"chain": NODE} | CONTRACTS, "needs --operator-key-file"),
    ({"faucet_units": "501"}, "--faucet-units must be from 1 to 500"),
    ({"faucet_daily_units": "99"}, "--faucet-daily-units must be at least --faucet-units (100)"),
    ({"chain_tip_gwei": "2", "chain_fee_max_gwei": "1.5"},
     "--chain-tip-gwei must be at most --chain-fee-max-gwei (1.5); got 2"),
    ({"chain_port": "65536"}, "--chain-port must be from 0 to 65535"),
])  # fmt: skip
def test_invalid_settings_are_rejected(values, message):
    with pytest.raises(SettingsError) as caught:
        settings(**values)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_key_file_is_read_or_rejected_without_showing_its_content(tmp_path, key_file):
    chosen = settings(chain=NODE, operator_key_file=key_file)
    assert operator_key(chosen) == f"0x{'ab' * 32}"
    assert operator_of(chosen) is None
    path = tmp_path / "bad.key"
    path.touch(mode=0o600)
    for content in ("", "0x12", "zz" * 32, "ab" * 33):
        path.write_text(content)
        with pytest.raises(SettingsError, match="must hold 64 hex digits and nothing else"):
            settings(chain=NODE, operator_key_file=str(path))


SERVICE = 10_001
"""A user other than root."""


def give_to(path, is_of_root):
    """Make a file root's or another user's, and return how messages name the owner."""
    if os.getuid() == 0:
        os.chown(path, 0 if is_of_root else SERVICE, SERVICE)
    elif is_of_root:
        pytest.skip("not here: only root can make a file of root")
    return "root" if is_of_root else f"user {path.stat().st_uid}"


@pytest.mark.parametrize(("is_of_root", "widest", "modes"), [
    (True, 0o640, (0o644, 0o444, 0o604, 0o602, 0o601, 0o660, 0o650, 0o666)),
    (False, 0o600, (0o644, 0o604, 0o640, 0o440, 0o620, 0o610, 0o601, 0o666)),
])  # fmt: skip
def test_key_file_that_others_may_use_is_rejected_with_the_remedy(
    key_file, is_of_root, widest, modes
):
    path = Path(key_file)
    name = give_to(path, is_of_root)
    for mode in modes:
        path.chmod(mode)
        with pytest.raises(SettingsError) as caught:
            settings(chain=NODE, operator_key_file=key_file)
        assert str(caught.value) == (
            f"--operator-key-file cannot be read: {path} holds a secret, but its mode {mode:04o} "
            "allows other users of the machine to use it; "
            f"a file of {name} must have mode {widest:04o} or less; run: chmod {widest:o} {path}"
        )
        subprocess.run(["sh", "-c", str(caught.value).rpartition("run: ")[2]], check=True)
        settings(chain=NODE, operator_key_file=key_file)


@pytest.mark.parametrize(("is_of_root", "mode"), [
    (True, 0o400), (True, 0o600), (True, 0o440), (True, 0o640), (True, 0o700),
    (False, 0o400), (False, 0o600), (False, 0o700),
])  # fmt: skip
def test_private_key_file_and_mounted_secrets_are_read(tmp_path, key_file, is_of_root, mode):
    path, linked = Path(key_file), tmp_path / "secret"
    give_to(path, is_of_root)
    path.chmod(mode)
    linked.symlink_to(path)  # as Kubernetes mounts secrets
    for each in (path, linked):
        assert operator_key(settings(chain=NODE, operator_key_file=str(each))) == f"0x{'ab' * 32}"


def test_key_file_must_be_a_regular_file(tmp_path):
    with pytest.raises(SettingsError, match=f"{tmp_path} must be a regular file"):
        settings(chain=NODE, operator_key_file=str(tmp_path))


def test_key_is_read_from_the_environment():
    chosen = read_settings({}, {"CLOB_CHAIN": NODE, "CLOB_OPERATOR_KEY": f"0x{'AB' * 32}"})
    assert operator_access(chosen) == KeyAccess(key=f"0x{'ab' * 32}")
    assert operator_of(chosen) is None


def test_oracle_key_is_given_in_the_same_three_ways(key_file):
    from_file = settings(chain=NODE, oracle_key_file=key_file)
    from_environment = read_settings({}, {"CLOB_CHAIN": NODE, "CLOB_ORACLE_KEY": "AB" * 32})
    for chosen in (from_file, from_environment):
        assert oracle_access(chosen) == KeyAccess(key=f"0x{'ab' * 32}")
        assert oracle_of(chosen) is None
    signed = settings(chain=NODE, oracle_signer=SIGNER, oracle_address=ONE)
    assert oracle_access(signed) == KeyAccess(signer_url=SIGNER, address=ONE)
    assert oracle_of(signed) == ONE
    Path(key_file).chmod(0o644)
    with pytest.raises(SettingsError, match="--oracle-key-file cannot be read: "):
        settings(chain=NODE, oracle_key_file=key_file)


def test_operator_is_the_oracle_by_default():
    chosen = settings(chain="http://127.0.0.1:1")
    assert oracle_access(chosen) == KeyAccess()
    assert oracle_of(chosen) == operator_of(chosen) == OPERATOR.address


def test_signer_replaces_the_key():
    chosen = settings(chain=NODE, chain_id="1", operator_signer=SIGNER, operator_address=ONE)
    assert operator_access(chosen) == KeyAccess(signer_url=SIGNER, address=ONE)
    assert operator_of(chosen) == ONE


def test_development_chain_uses_the_default_operator():
    chosen = settings(chain="http://127.0.0.1:1")
    assert operator_key(chosen) == OPERATOR.private_key
    assert operator_of(chosen) == operator_of(settings()) == OPERATOR.address
    assert operator_of(settings(chain="none")) is None


def test_contracts_are_known_if_configured_or_embedded():
    embedded = contracts_of(settings())
    assert embedded is not None
    assert (embedded.required, embedded.exchange) == (DEVELOPMENT.required, "")
    assert contracts_of(settings(chain=NODE)) is None
    configured = contracts_of(settings(chain=NODE, **CONTRACTS))
    assert configured is not None
    assert (configured.required, configured.exchange) == ((ONE, TWO, THREE), "")


def test_url_is_redacted():
    assert redacted_url(NODE) == "https://rpc.example:8545"


def test_used_port_is_replaced():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        used = other.getsockname()[1]
        assert free_port(used) != used
    assert free_port(0) > 0
