"""The accounts of development chains, and addresses of created contracts."""

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
def test_accounts_are_derived_from_the_mnemonic(account):
    Account.enable_unaudited_hdwallet_features()
    derived = Account.from_mnemonic(
        accounts.MNEMONIC, account_path=f"m/44'/60'/0'/0/{account.index}"
    )
    assert account.address == derived.address
    assert account.private_key == "0x" + derived.key.hex()


def test_every_account_has_one_role():
    assert [DEPLOYER, *BOTS, *WALLETS, OPERATOR] == list(ACCOUNTS)
    assert [account.index for account in ACCOUNTS] == list(range(10))


# From the documentation of other development chains with the same accounts.
@pytest.mark.parametrize(
    ("nonce", "address"),
    [
        (0, "0x5FbDB2315678afecb367f032d93F642f64180aa3"),
        (1, "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"),
        (2, "0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0"),
    ],
)
def test_contracts_of_account_0_have_the_known_addresses(nonce, address):
    assert create_address(DEPLOYER.address, nonce) == address


def test_default_exchange_is_the_first_contract_of_account_0():
    assert create_address(DEPLOYER.address, 0) == settings.EXCHANGE_ADDRESS


@pytest.fixture(scope="module")
def py_evm_address():
    """Return py-evm's function for contract addresses."""
    module = pytest.importorskip("eth._utils.address", reason="py-evm is not installed")
    return module.generate_contract_address


@given(sender=st.binary(min_size=20, max_size=20), nonce=st.integers(0, 2**64 - 2))
def test_contract_addresses_equal_py_evm(py_evm_address, sender, nonce):
    created = create_address("0x" + sender.hex(), nonce)
    assert raw(created) == py_evm_address(sender, nonce)


@pytest.mark.parametrize("nonce", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 2**64 - 2])
def test_edge_case_nonces_equal_py_evm(py_evm_address, nonce):
    created = create_address(OPERATOR.address, nonce)
    assert raw(created) == py_evm_address(raw(OPERATOR.address), nonce)


def test_invalid_sender_or_nonce_is_rejected():
    with pytest.raises(InvalidAddressError, match="sender"):
        create_address("0x1", 0)
    with pytest.raises(ValueError, match="0 or more; got -1"):
        create_address(OPERATOR.address, -1)


def test_contracts_are_at_the_development_addresses(evm):
    assert evm.deploy_all().required == DEVELOPMENT.required


def test_another_operator_or_nonce_has_other_addresses(evm):
    user = WALLETS[0].address
    evm.send(user, user)
    created = evm.deploy(user, "ConditionalTokens")
    assert created == deployed_by(user, 1).conditional_tokens != DEVELOPMENT.conditional_tokens
