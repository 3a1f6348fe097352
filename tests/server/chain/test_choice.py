"""Which chain the settings choose, and which choices a server does not start with."""

import pytest

from clob_server.chain.config import DEVELOPMENT, contracts_of, operator_key, operator_of, shown
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.cli.options import read_settings
from clob_server.settings import SettingsError

ONE, TWO, THREE = (f"0x{number:040x}" for number in (1, 2, 3))
NODE = "https://user:secret@rpc.example:8545/v3/token?key=1"
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
    return str(path)


def settings(**given):
    return read_settings(given, {})


@pytest.mark.parametrize(("given", "source"), [
    ({}, "embedded"), ({"chain": "none"}, "none"), ({"chain": NODE}, NODE),
    (PRODUCTION, "none"), (PRODUCTION | {"chain": "none"}, "none"),
])  # fmt: skip
def test_the_test_environment_brings_a_chain_along_and_production_does_not(given, source):
    assert settings(**given).chain_source == source


@pytest.mark.parametrize(("given", "told"), [
    ({"chain": "anvil"}, "--chain must be none, embedded or the http or https address of a node"),
    ({"chain": "ftp://x"}, "--chain must be none"),
    ({"chain": "http://"}, "--chain must be none"),
    ({"chain": "http://x:99999"}, "--chain must be none"),
    ({"collateral": ONE}, "--chain embedded goes without --collateral"),
    ({"chain": "none", "operator_key_file": "x"}, "goes without --operator-key-file"),
    ({"chain": NODE, "stablecoin": ONE}, "--stablecoin, --collateral and --conditional-tokens go"),
    ({"chain": NODE, **CONTRACTS, "collateral": "0x1"}, "--collateral: collateral must be 0x and"),
    ({"chain": NODE, "chain_id": "1"}, "needs --operator-key-file, but on chain 31337"),
    ({"chain": NODE, "operator_key_file": "/nowhere"}, "--operator-key-file cannot be read"),
    (PRODUCTION | {"chain": "embedded"}, "--chain embedded is for the test environment"),
    (PRODUCTION | {"chain": NODE}, "production needs the contracts: --stablecoin"),
    (PRODUCTION | {"chain": NODE} | CONTRACTS, "needs --operator-key-file"),
    ({"faucet_units": "501"}, "--faucet-units must be from 1 to 500"),
    ({"chain_port": "65536"}, "--chain-port must be from 0 to 65535"),
])  # fmt: skip
def test_a_choice_that_cannot_be_is_refused(given, told):
    with pytest.raises(SettingsError) as caught:
        settings(**given)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_in_the_key_file_is_a_key_or_refused_without_showing_it(tmp_path, key_file):
    made = settings(chain=NODE, operator_key_file=key_file)
    assert operator_key(made) == f"0x{'ab' * 32}"
    assert operator_of(made) is None
    path = tmp_path / "bad.key"
    for content in ("", "0x12", "zz" * 32, "ab" * 33):
        path.write_text(content)
        with pytest.raises(SettingsError, match="must hold 64 hex digits and nothing else"):
            settings(chain=NODE, operator_key_file=str(path))


def test_on_a_development_chain_the_operator_is_the_one_everybody_knows():
    made = settings(chain="http://127.0.0.1:1")
    assert operator_key(made) == OPERATOR.private_key
    assert operator_of(made) == operator_of(settings()) == OPERATOR.address
    assert operator_of(settings(chain="none")) is None


def test_contracts_are_known_where_they_are_named_or_the_chain_is_our_own():
    ours = contracts_of(settings())
    assert ours is not None
    assert (ours.needed, ours.exchange) == (DEVELOPMENT.needed, "")
    assert contracts_of(settings(chain=NODE)) is None
    found = contracts_of(settings(chain=NODE, **CONTRACTS))
    assert found is not None
    assert (found.needed, found.exchange) == ((ONE, TWO, THREE), "")


def test_an_address_is_shown_without_what_is_secret_in_it():
    assert shown(NODE) == "https://rpc.example:8545"
