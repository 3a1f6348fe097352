"""Failures in the middle of an operation, after which everything taken has to be returned."""

from collections.abc import Callable
from typing import NamedTuple

from eth_abi import encode
from eth_utils import keccak

from tests.chain.people import BURNS, REVERTS, types_of
from tests.chain.proxy import SEND, TRIES, Meanwhile, Reject
from tests.chain.stories import UNITS

MOVE_TOKEN = "safeTransferFrom(address,address,uint256,uint256,bytes)"
TAKE = "transferFrom(address,address,uint256)"
GIVE = "transfer(address,uint256)"
SPLIT = "splitPosition(address,bytes32,bytes32,uint256[],uint256)"
MERGE = "mergePositions(address,bytes32,bytes32,uint256[],uint256)"
REDEEM = "redeemPositions(address,bytes32,bytes32,uint256[])"
WRAP = "wrap(address,uint256)"
MINT = "mint(address,uint256)"
REVERTED = 3
"""JSON-RPC error code of a reverted call."""


class FailureCase(NamedTuple):
    """A failure during an operation."""

    kind: str
    """Kind of the operation."""
    fault: Callable
    """Returns the fault for a world and a story."""
    is_undone: bool = True
    """Whether everything taken can be returned; otherwise the operation gets stuck."""
    left_units: int = 0
    """Test dollars that remain with the operator."""


def begins(signature, *arguments):
    """Return the first bytes of a call whose first arguments are known."""
    types = types_of(signature)[: len(arguments)]
    return keccak(text=signature)[:4] + encode(types, arguments)


def pull(world, story, token):
    """Return the first bytes of the call that takes a token from the user."""
    return begins(MOVE_TOKEN, story.user.address, world.operator, token)


def payment(world, story, token):
    """Return the first bytes of the call that sends a token to the user."""
    return begins(MOVE_TOKEN, world.operator, story.user.address, token)


def calls_of_merge(world, story):
    """Return the first bytes of the four transactions of a merge."""
    return (
        pull(world, story, story.condition.yes),
        pull(world, story, story.condition.no),
        begins(MERGE, world.contracts.collateral, bytes(32), id_of(story)),
        begins(GIVE, story.user.address),
    )


def rejected(calldata):
    """Return a fault by which the node reports that a transaction would fail."""
    return Reject(REVERTED, "execution reverted", TRIES, calldata=calldata)


# ----- changes by the user just before its tokens are taken -----------------------------------


def revokes_tokens(world, story, token):
    """Revoke the approval after the transaction was signed."""
    calldata = pull(world, story, token)
    return Meanwhile(lambda: story.user.approve_tokens(False), SEND, calldata=calldata, times=1)


def revokes_before_yes(world, story):
    """Revoke before the first token is taken."""
    return revokes_tokens(world, story, story.condition.yes)


def revokes_before_no(world, story):
    """Revoke before the second token is taken."""
    return revokes_tokens(world, story, story.condition.no)


def gives_no_away(world, story):
    """Transfer the second token away."""
    return gives_away(world, story, story.condition.no)


def gives_yes_away(world, story):
    """Transfer the first token away, but not the second."""
    return gives_away(world, story, story.condition.yes)


def gives_away(world, story, token):
    """Transfer a token away just before it is taken."""
    calldata = pull(world, story, token)

    def give():
        story.user.send_token(world.friend.address, token, held(world, story, token))

    return Meanwhile(give, SEND, calldata=calldata, times=1)


def held(world, story, token):
    """Return the user's balance of a token."""
    return world.ledger.token(story.user.address, token)


def revokes_collateral(world, story):
    """Revoke the approval of collateral."""
    calldata = begins(TAKE, story.user.address, world.operator)
    return Meanwhile(lambda: story.user.approve_collateral(0), SEND, calldata=calldata, times=1)


# ----- permanent failures of contracts --------------------------------------------------------


def no_merge(world, story):
    """Merging fails."""
    return rejected(begins(MERGE, world.contracts.collateral, bytes(32), id_of(story)))


def no_split(world, story):
    """Splitting fails."""
    return rejected(begins(SPLIT, world.contracts.collateral, bytes(32), id_of(story)))


def no_redeem(world, story):
    """Redeeming fails."""
    return rejected(begins(REDEEM, world.contracts.collateral, bytes(32), id_of(story)))


def no_yes_out(world, story):
    """Sending the first token to the user fails."""
    return rejected(payment(world, story, story.condition.yes))


def no_no_out(world, story):
    """Sending the second token to the user fails."""
    return rejected(payment(world, story, story.condition.no))


def wallet_rejects(world, story):
    """The user's wallet gets code that rejects tokens."""
    return wallet_becomes(world, story, REVERTS)


def wallet_burns_gas(world, story):
    """The user's wallet gets code that burns all gas."""
    return wallet_becomes(world, story, BURNS)


def wallet_becomes(world, story, code):
    """Set the wallet's code after its collateral was taken."""
    calldata = begins(SPLIT, world.contracts.collateral, bytes(32), id_of(story))
    return Meanwhile(lambda: story.user.set_code(code), SEND, calldata=calldata, times=1)


def no_return(world, story):
    """Sending collateral to the user fails."""
    return rejected(begins(GIVE, story.user.address))


def no_mint(world, story):
    """Minting test dollars fails."""
    return rejected(begins(MINT, world.operator))


def no_wrap(world, story):
    """Wrapping test dollars fails."""
    return rejected(begins(WRAP, story.user.address))


def id_of(story):
    """Return the bytes of the condition id."""
    return bytes.fromhex(story.condition.id[2:])


FAILURES = {
    "merge, approval revoked before YES": FailureCase("merge", revokes_before_yes),
    "merge, approval revoked before NO": FailureCase("merge", revokes_before_no),
    "merge, YES drained": FailureCase("merge", gives_yes_away),
    "merge, NO drained": FailureCase("merge", gives_no_away),
    "merge, no merge": FailureCase("merge", no_merge),
    "merge, no return": FailureCase("merge", no_return, is_undone=False),
    "split, approval revoked": FailureCase("split", revokes_collateral),
    "split, no split": FailureCase("split", no_split),
    "split, no YES out": FailureCase("split", no_yes_out),
    "split, the wallet rejects tokens": FailureCase("split", wallet_rejects),
    "split, the wallet burns gas": FailureCase("split", wallet_burns_gas),
    "split, no NO out": FailureCase("split", no_no_out, is_undone=False),
    "redeem, approval revoked before NO": FailureCase("redeem", revokes_before_no),
    "redeem, NO drained": FailureCase("redeem", gives_no_away),
    "redeem, no redeem": FailureCase("redeem", no_redeem),
    "redeem, no return": FailureCase("redeem", no_return, is_undone=False),
    "faucet, no mint": FailureCase("faucet", no_mint),
    "faucet, no wrap": FailureCase("faucet", no_wrap, left_units=UNITS),
}
"""Failures by name."""
