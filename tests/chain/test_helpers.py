"""The balances and logs that test helpers read agree with the contracts."""

from eth_utils import keccak

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.eth.token_ids import condition_id, token_ids
from clob_server.chain.operations.deploy import TEST_DOLLAR, wrapper_of
from tests.chain.chains import Chain, Condition
from tests.chain.wallets import MAX, STABLE_UNIT, UNIT, Ledger, User, Wallet, calldata

ADA, BOB = ACCOUNTS[3:5]
QUESTION = keccak(text="Will it rain?")
CREATED = (
    ("ConditionalTokens", b""),
    ("TestDollar", TEST_DOLLAR),
    ("WrappedCollateral", wrapper_of(DEVELOPMENT.stablecoin)),
)


def deploy_contracts(node):
    """Deploy the contracts at their usual addresses and return the operator."""
    operator = Wallet(node, OPERATOR.private_key)
    for name, arguments in CREATED:
        operator.send("", artifact(name).creation + arguments, gas=6_000_000)
    addresses = DEVELOPMENT
    approve = "approve(address,uint256)"
    operator.call(addresses.stablecoin, approve, addresses.collateral, MAX)
    operator.call(addresses.collateral, approve, addresses.conditional_tokens, MAX)
    operator.call(
        addresses.conditional_tokens,
        "prepareCondition(address,bytes32,uint256)",
        operator.address,
        QUESTION,
        2,
    )
    return operator


def split_to_operator(operator, condition, amount):
    """Split collateral of the operator."""
    signature = "splitPosition(address,bytes32,bytes32,uint256[],uint256)"
    arguments = (DEVELOPMENT.collateral, bytes(32), condition, [1, 2], amount)
    return operator.call(DEVELOPMENT.conditional_tokens, signature, *arguments)


def test_balances_and_logs_agree(node, tmp_path):
    operator = deploy_contracts(node)
    chain = Chain(node, tmp_path)
    condition = condition_id(OPERATOR.address, QUESTION)
    yes, no = token_ids(DEVELOPMENT.collateral, condition)
    wrap, mint = "wrap(address,uint256)", "mint(address,uint256)"
    operator.call(DEVELOPMENT.stablecoin, mint, operator.address, 9 * STABLE_UNIT)
    operator.call(DEVELOPMENT.collateral, wrap, operator.address, 5 * STABLE_UNIT)
    operator.call(DEVELOPMENT.collateral, wrap, ADA.address, 4 * STABLE_UNIT)
    split_to_operator(operator, condition, 5 * UNIT)
    move = "safeTransferFrom(address,address,uint256,uint256,bytes)"
    for token in (yes, no):
        contract = DEVELOPMENT.conditional_tokens
        operator.call(contract, move, operator.address, ADA.address, token, 5 * UNIT, b"")
    ada = User(node, ADA.private_key, DEVELOPMENT, operator.address)
    ada.send_token(BOB.address, yes, 2 * UNIT)
    ada.send_collateral(BOB.address, UNIT)
    ledger = Ledger(node, DEVELOPMENT)
    assert ledger.token(ADA.address, yes) == 3 * UNIT
    assert ledger.supply(yes) == ledger.supply(no) == 5 * UNIT
    assert ledger.collateral(BOB.address) == UNIT
    prepared = Condition(f"0x{QUESTION.hex()}", f"0x{condition.hex()}", yes, no)
    assert chain.holdings([ada], prepared) == {
        ADA.address: (3 * UNIT, 3 * UNIT, 5 * UNIT),
        OPERATOR.address: (0, 0, 0),
    }
    chain.conditions.append(prepared)
    chain.check_conserved()


def test_signed_permit_is_accepted_by_the_contract(node):
    operator = deploy_contracts(node)
    ada = User(node, ADA.private_key, DEVELOPMENT, operator.address)
    permit = ada.permit(7 * UNIT)
    signature = "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)"
    words = (bytes.fromhex(permit[name][2:]) for name in ("r", "s"))
    arguments = (int(permit["value"]), int(permit["deadline"]), permit["v"], *words)
    contract = DEVELOPMENT.collateral
    operator.call(contract, signature, ADA.address, operator.address, *arguments)
    data = calldata("allowance(address,address)", ADA.address, operator.address)
    answer = node.ask("eth_call", {"to": contract, "data": f"0x{data.hex()}"}, "latest")
    assert int(answer, 16) == 7 * UNIT
