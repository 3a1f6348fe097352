"""Settings of the polymarket dialect, and the wallets of an account."""

import pytest

from clob_server.cli.options import read_settings
from clob_server.dialects.polymarket.wallets import EXCHANGES, PROXIES, SAFES, owns, wallets_of
from clob_server.settings import SettingsError
from tests.signings import EXCHANGE

DIALECT = {"dialect": "polymarket"}


@pytest.mark.parametrize("chain_id", EXCHANGES)
def test_dialect_sets_the_domain_of_its_clients_and_no_chain(chain_id):
    settings = read_settings({**DIALECT, "chain_id": str(chain_id)}, {})
    assert settings.chain_source == "none"
    assert settings.domain.name == "Polymarket CTF Exchange"
    assert settings.domain.verifying_contract == EXCHANGES[chain_id]
    assert read_settings(DIALECT, {}).chain_id == 137


def test_exchange_contracts_are_those_of_the_client():
    reason = "py-clob-client is not installed"
    config = pytest.importorskip("py_clob_client.config", reason=reason)
    assert {id: config.get_contract_config(id).exchange for id in EXCHANGES} == EXCHANGES


def test_dialect_works_in_production_as_well():
    settings = read_settings({**DIALECT, "environment": "production"}, {})
    assert settings.domain.chain_id == 137


@pytest.mark.parametrize("environ", [{}, {"CLOB_DIALECT": "polymarket"}])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"chain": "embedded"}, "needs --chain none, since its orders"),
        ({"chain": "http://127.0.0.1:8545"}, "needs --chain none, since its orders"),
        ({"chain_id": "31337"}, "needs --chain-id 137 or 80002"),
        ({"eip712_name": "clob"}, "needs the EIP-712 domain that its clients sign for"),
        ({"verifying_contract": EXCHANGE}, "needs the EIP-712 domain that its clients sign for"),
    ],
)
def test_settings_with_which_the_clients_cannot_work_are_rejected(given, words, environ):
    with pytest.raises(SettingsError, match=words):
        read_settings({**given, **({} if environ else DIALECT)}, environ)


def test_unknown_dialect_is_rejected():
    with pytest.raises(SettingsError, match="--dialect must be none or polymarket; got 'kalshi'"):
        read_settings({"dialect": "kalshi"}, {})


def test_wallets_of_an_account_are_those_that_the_factories_create():
    """Vectors of Polymarket's own packages."""
    assert SAFES.wallet("0x6e0c80c90ea6c15917308F820Eac91Ce2724B5b5") == (
        "0x6d8c4e9aDF5748Af82Dabe2C6225207770d6B4fa"
    )
    owner = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert PROXIES.wallet(owner) == "0x365f0CA36Ae1f641E02fE3B7743673da42A13A70"
    assert [owns(wallet, owner, kind) for kind, wallet in enumerate(wallets_of(owner))] == [
        True
    ] * 3
    assert not owns(wallets_of(owner)[2], owner, 1)
