"""The well-known accounts, and where what they deploy comes to lie."""

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob.signing import InvalidAddressError
from clob_server import settings
from clob_server.chain.config import DEVELOPMENT, deployed_by
from clob_server.chain.eth import accounts
from clob_server.chain.eth.accounts import (
    ACCOUNTS,
    BOTS,
    DEPLOYER,
    OPERATOR,
    WALLETS,
    create_address,
)
from tests.chain.contracts.evm import raw


@pytest.mark.parametrize("account", ACCOUNTS, ids=lambda account: str(account.index))
def test_an_account_is_derived_from_the_words(account):
    Account.enable_unaudited_hdwallet_features()
    derived = Account.from_mnemonic(
        accounts.MNEMONIC, account_path=f"m/44'/60'/0'/0/{account.index}"
    )
    assert account.address == derived.address
    assert account.private_key == "0x" + derived.key.hex()


def test_every_account_has_one_role():
    assert [DEPLOYER, *BOTS, *WALLETS, OPERATOR] == list(ACCOUNTS)
    assert [account.index for account in ACCOUNTS] == list(range(10))


# From the documentation of other development chains, which use the same accounts.
@pytest.mark.parametrize(
    ("nonce", "address"),
    [
        (0, "0x5FbDB2315678afecb367f032d93F642f64180aa3"),
        (1, "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"),
        (2, "0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0"),
    ],
)
def test_contracts_of_the_first_account_lie_where_everybody_knows_them(nonce, address):
    assert create_address(DEPLOYER.address, nonce) == address


def test_the_exchange_of_the_settings_is_the_first_contract_of_the_first_account():
    assert create_address(DEPLOYER.address, 0) == settings.EXCHANGE_ADDRESS


@pytest.fixture(scope="module")
def of_the_evm():
    """Say where a contract comes to lie, as py-evm does."""
    module = pytest.importorskip("eth._utils.address", reason="py-evm is not installed")
    return module.generate_contract_address


@given(sender=st.binary(min_size=20, max_size=20), nonce=st.integers(0, 2**64 - 2))
def test_addresses_of_contracts_are_those_of_the_evm(of_the_evm, sender, nonce):
    made = create_address("0x" + sender.hex(), nonce)
    assert raw(made) == of_the_evm(sender, nonce)


@pytest.mark.parametrize("nonce", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 2**64 - 2])
def test_nonces_at_the_edges_of_the_encoding_are_those_of_the_evm(of_the_evm, nonce):
    made = create_address(OPERATOR.address, nonce)
    assert raw(made) == of_the_evm(raw(OPERATOR.address), nonce)


def test_what_cannot_send_is_refused():
    with pytest.raises(InvalidAddressError, match="sender"):
        create_address("0x1", 0)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        create_address(OPERATOR.address, -1)


def test_the_contracts_lie_where_the_operator_deploys_them(evm):
    assert evm.deploy_all().needed == DEVELOPMENT.needed


def test_another_operator_or_a_later_nonce_has_other_addresses(evm):
    user = WALLETS[0].address
    evm.send(user, user)
    made = evm.deploy(user, "ConditionalTokens")
    assert made == deployed_by(user, 1).conditional_tokens != DEVELOPMENT.conditional_tokens
