"""Failures during an operation, after which the worker must return everything it took."""

from collections.abc import Callable
from typing import NamedTuple

from eth_abi import encode
from eth_utils import keccak

from tests.chain.prepared_operations import UNITS
from tests.chain.proxy import DRY_RUNS, SEND, Reject, RunBefore
from tests.chain.wallets import BURNS, REVERTS, types_of

TRANSFER_TOKEN = "safeTransferFrom(address,address,uint256,uint256,bytes)"
TRANSFER_FROM = "transferFrom(address,address,uint256)"
TRANSFER = "transfer(address,uint256)"
SPLIT = "splitPosition(address,bytes32,bytes32,uint256[],uint256)"
MERGE = "mergePositions(address,bytes32,bytes32,uint256[],uint256)"
REDEEM = "redeemPositions(address,bytes32,bytes32,uint256[])"
DEPOSIT = "deposit(address,uint256,uint256)"
WRAP = "wrap(address,uint256)"
UNWRAP = "unwrap(address,uint256)"
REVERTED = 3
"""JSON-RPC error code of a reverted call."""


class FailureCase(NamedTuple):
    """A failure during an operation."""

    kind: str
    """Kind of the operation."""
    fault: Callable
    """Returns the fault for a chain and an operation."""
    is_undone: bool = True
    """Whether the worker can return everything; otherwise the operation gets stuck."""
    left_units: int = 0
    """Test dollars that remain with the operator."""


def call_prefix(signature, *arguments):
    """Return the first bytes of a call whose first arguments are known."""
    types = types_of(signature)[: len(arguments)]
    return keccak(text=signature)[:4] + encode(types, arguments)


def pull_prefix(chain, operation, token):
    """Return the first bytes of the call that takes a token from the user."""
    return call_prefix(TRANSFER_TOKEN, operation.user.address, chain.operator, token)


def payment_prefix(chain, operation, token):
    """Return the first bytes of the call that sends a token to the user."""
    return call_prefix(TRANSFER_TOKEN, chain.operator, operation.user.address, token)


def calls_of_merge(chain, operation):
    """Return the first bytes of the four transactions of a merge."""
    return (
        pull_prefix(chain, operation, operation.condition.yes),
        pull_prefix(chain, operation, operation.condition.no),
        call_prefix(MERGE, chain.contracts.collateral, bytes(32), id_of(operation)),
        call_prefix(TRANSFER, operation.user.address),
    )


def dry_run_reverts(calldata):
    """Return a fault by which the node reports that a transaction would fail."""
    return Reject(REVERTED, "execution reverted", DRY_RUNS, calldata=calldata)


# ----- changes by the user just before its tokens are taken -----------------------------------


def revoke_tokens(chain, operation, token):
    """Revoke the approval after the transaction was signed."""
    calldata = pull_prefix(chain, operation, token)
    return RunBefore(lambda: operation.user.approve_tokens(False), SEND, calldata=calldata, times=1)


def revoke_before_yes(chain, operation):
    """Revoke before the first token is taken."""
    return revoke_tokens(chain, operation, operation.condition.yes)


def revoke_before_no(chain, operation):
    """Revoke before the second token is taken."""
    return revoke_tokens(chain, operation, operation.condition.no)


def drain_no(chain, operation):
    """Transfer the second token away."""
    return drain_token(chain, operation, operation.condition.no)


def drain_yes(chain, operation):
    """Transfer the first token away, but not the second."""
    return drain_token(chain, operation, operation.condition.yes)


def drain_token(chain, operation, token):
    """Transfer a token away just before it is taken."""
    calldata = pull_prefix(chain, operation, token)

    def drain():
        operation.user.send_token(chain.friend.address, token, held(chain, operation, token))

    return RunBefore(drain, SEND, calldata=calldata, times=1)


def held(chain, operation, token):
    """Return the user's balance of a token."""
    return chain.ledger.token(operation.user.address, token)


def revoke_collateral(chain, operation):
    """Revoke the approval of collateral."""
    calldata = call_prefix(TRANSFER_FROM, operation.user.address, chain.operator)
    return RunBefore(lambda: operation.user.approve_collateral(0), SEND, calldata=calldata, times=1)


def revoke_stablecoin(chain, operation):
    """Revoke the approval of stablecoin."""
    calldata = call_prefix(TRANSFER_FROM, operation.user.address, chain.operator)
    return RunBefore(lambda: operation.user.approve_stablecoin(0), SEND, calldata=calldata, times=1)


# ----- permanent failures of contracts --------------------------------------------------------


def merge_reverts(chain, operation):
    """Merging fails."""
    return dry_run_reverts(
        call_prefix(MERGE, chain.contracts.collateral, bytes(32), id_of(operation))
    )


def split_reverts(chain, operation):
    """Splitting fails."""
    return dry_run_reverts(
        call_prefix(SPLIT, chain.contracts.collateral, bytes(32), id_of(operation))
    )


def deposit_reverts(chain, operation):
    """Depositing fails."""
    return dry_run_reverts(call_prefix(DEPOSIT, operation.user.address))


def redeem_reverts(chain, operation):
    """Redeeming fails."""
    return dry_run_reverts(
        call_prefix(REDEEM, chain.contracts.collateral, bytes(32), id_of(operation))
    )


def sending_yes_reverts(chain, operation):
    """Sending the first token to the user fails."""
    return dry_run_reverts(payment_prefix(chain, operation, operation.condition.yes))


def sending_no_reverts(chain, operation):
    """Sending the second token to the user fails."""
    return dry_run_reverts(payment_prefix(chain, operation, operation.condition.no))


def wallet_starts_rejecting(chain, operation):
    """The user's wallet gets code that rejects tokens."""
    return set_wallet_code(chain, operation, REVERTS)


def wallet_starts_burning_gas(chain, operation):
    """The user's wallet gets code that burns all gas."""
    return set_wallet_code(chain, operation, BURNS)


def set_wallet_code(chain, operation, code):
    """Set the wallet's code after its collateral was taken."""
    calldata = call_prefix(SPLIT, chain.contracts.collateral, bytes(32), id_of(operation))
    return RunBefore(lambda: operation.user.set_code(code), SEND, calldata=calldata, times=1)


def return_reverts(chain, operation):
    """Sending collateral to the user fails."""
    return dry_run_reverts(call_prefix(TRANSFER, operation.user.address))


def wrap_reverts(chain, operation):
    """Wrapping test dollars fails."""
    return dry_run_reverts(call_prefix(WRAP, operation.user.address))


def unwrap_reverts(chain, operation):
    """Unwrapping collateral fails."""
    return dry_run_reverts(call_prefix(UNWRAP, operation.user.address))


def id_of(operation):
    """Return the bytes of the condition id."""
    return bytes.fromhex(operation.condition.id[2:])


FAILURES = {
    "merge, approval revoked before YES": FailureCase("merge", revoke_before_yes),
    "merge, approval revoked before NO": FailureCase("merge", revoke_before_no),
    "merge, YES drained": FailureCase("merge", drain_yes),
    "merge, NO drained": FailureCase("merge", drain_no),
    "merge, merge reverts": FailureCase("merge", merge_reverts),
    "merge, return reverts": FailureCase("merge", return_reverts, is_undone=False),
    "split, approval revoked": FailureCase("split", revoke_collateral),
    "split, split reverts": FailureCase("split", split_reverts),
    "split, sending YES reverts": FailureCase("split", sending_yes_reverts),
    "split, the wallet rejects tokens": FailureCase("split", wallet_starts_rejecting),
    "split, the wallet burns gas": FailureCase("split", wallet_starts_burning_gas),
    "split, sending NO reverts": FailureCase("split", sending_no_reverts, is_undone=False),
    "deposit, approval revoked": FailureCase("deposit", revoke_collateral),
    "deposit, deposit reverts": FailureCase("deposit", deposit_reverts),
    "redeem, approval revoked before NO": FailureCase("redeem", revoke_before_no),
    "redeem, NO drained": FailureCase("redeem", drain_no),
    "redeem, redeem reverts": FailureCase("redeem", redeem_reverts),
    "redeem, return reverts": FailureCase("redeem", return_reverts, is_undone=False),
    "wrap, approval revoked": FailureCase("wrap", revoke_stablecoin),
    "wrap, wrap reverts": FailureCase("wrap", wrap_reverts),
    "unwrap, approval revoked": FailureCase("unwrap", revoke_collateral),
    "unwrap, unwrap reverts": FailureCase("unwrap", unwrap_reverts),
    "faucet, wrap reverts": FailureCase("faucet", wrap_reverts, left_units=UNITS),
}
"""Failures by name."""
