"""What can go wrong in the middle of an operation, so that what it took has to be given back."""

from collections.abc import Callable
from typing import NamedTuple

from eth_abi import encode
from eth_utils import keccak

from tests.chain.people import BURNS, REVERTS, types_of
from tests.chain.proxy import SEND, TRIES, Meanwhile, Refuse
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
"""The code of JSON-RPC for a call that the contract refuses."""


class Mishap(NamedTuple):
    """Something that goes wrong while an operation is under way."""

    kind: str
    """Of which operation."""
    fault: Callable
    """Makes the fault, of the world and the story."""
    is_undone: bool = True
    """If what was taken can be given back; otherwise it waits until the fault is gone."""
    left_units: int = 0
    """How many test dollars stay with the operator."""


def begins(signature, *arguments):
    """Give the first bytes of a call, of which only the first arguments are known."""
    types = types_of(signature)[: len(arguments)]
    return keccak(text=signature)[:4] + encode(types, arguments)


def pull(world, story, token):
    """Give the first bytes of the call that takes a token from the user."""
    return begins(MOVE_TOKEN, story.user.address, world.operator, token)


def payment(world, story, token):
    """Give the first bytes of the call that gives a token to the user."""
    return begins(MOVE_TOKEN, world.operator, story.user.address, token)


def calls_of_merge(world, story):
    """Give how the four transactions of a merge begin."""
    return (
        pull(world, story, story.condition.yes),
        pull(world, story, story.condition.no),
        begins(MERGE, world.contracts.collateral, bytes(32), id_of(story)),
        begins(GIVE, story.user.address),
    )


def refused(calldata):
    """Have the node say that a transaction would fail, as long as the fault lasts."""
    return Refuse(REVERTED, "execution reverted", TRIES, calldata=calldata)


# ----- what a user does just before his tokens are taken -------------------------------------


def revokes_tokens(world, story, token):
    """He takes the approval back, when the transaction is signed already."""
    calldata = pull(world, story, token)
    return Meanwhile(lambda: story.user.approve_tokens(False), SEND, calldata=calldata, times=1)


def revokes_before_yes(world, story):
    """Neither token can be taken."""
    return revokes_tokens(world, story, story.condition.yes)


def revokes_before_no(world, story):
    """The second token cannot be taken."""
    return revokes_tokens(world, story, story.condition.no)


def gives_no_away(world, story):
    """The second token is gone."""
    return gives_away(world, story, story.condition.no)


def gives_yes_away(world, story):
    """The first token is gone, and the second is not."""
    return gives_away(world, story, story.condition.yes)


def gives_away(world, story, token):
    """He gives a wei of a token away, and has not enough then."""
    calldata = pull(world, story, token)

    def give():
        story.user.give_token(world.friend.address, token, held(world, story, token))

    return Meanwhile(give, SEND, calldata=calldata, times=1)


def held(world, story, token):
    """How much of a token the user has."""
    return world.ledger.token(story.user.address, token)


def revokes_collateral(world, story):
    """The collateral cannot be taken."""
    calldata = begins(TAKE, story.user.address, world.operator)
    return Meanwhile(lambda: story.user.approve_collateral(0), SEND, calldata=calldata, times=1)


# ----- what a contract refuses for good ------------------------------------------------------


def no_merge(world, story):
    """Tokens do not become collateral."""
    return refused(begins(MERGE, world.contracts.collateral, bytes(32), id_of(story)))


def no_split(world, story):
    """Collateral does not become tokens."""
    return refused(begins(SPLIT, world.contracts.collateral, bytes(32), id_of(story)))


def no_redeem(world, story):
    """Tokens are not paid out."""
    return refused(begins(REDEEM, world.contracts.collateral, bytes(32), id_of(story)))


def no_yes_out(world, story):
    """The user does not accept the first token."""
    return refused(payment(world, story, story.condition.yes))


def no_no_out(world, story):
    """The user does not accept the second token."""
    return refused(payment(world, story, story.condition.no))


def wallet_refuses(world, story):
    """The user's wallet gets code that refuses tokens."""
    return wallet_becomes(world, story, REVERTS)


def wallet_burns_gas(world, story):
    """The user's wallet gets code that takes all the gas there is."""
    return wallet_becomes(world, story, BURNS)


def wallet_becomes(world, story, code):
    """It does so when his collateral is taken already."""
    calldata = begins(SPLIT, world.contracts.collateral, bytes(32), id_of(story))
    return Meanwhile(lambda: story.user.becomes(code), SEND, calldata=calldata, times=1)


def no_return(world, story):
    """The user does not accept collateral."""
    return refused(begins(GIVE, story.user.address))


def no_mint(world, story):
    """There are no more test dollars."""
    return refused(begins(MINT, world.operator))


def no_wrap(world, story):
    """Test dollars do not become collateral."""
    return refused(begins(WRAP, story.user.address))


def id_of(story):
    """The bytes of a condition."""
    return bytes.fromhex(story.condition.id[2:])


MISHAPS = {
    "merge, approval revoked before YES": Mishap("merge", revokes_before_yes),
    "merge, approval revoked before NO": Mishap("merge", revokes_before_no),
    "merge, YES drained": Mishap("merge", gives_yes_away),
    "merge, NO drained": Mishap("merge", gives_no_away),
    "merge, no merge": Mishap("merge", no_merge),
    "merge, no return": Mishap("merge", no_return, is_undone=False),
    "split, approval revoked": Mishap("split", revokes_collateral),
    "split, no split": Mishap("split", no_split),
    "split, no YES out": Mishap("split", no_yes_out),
    "split, the wallet refuses tokens": Mishap("split", wallet_refuses),
    "split, the wallet burns gas": Mishap("split", wallet_burns_gas),
    "split, no NO out": Mishap("split", no_no_out, is_undone=False),
    "redeem, approval revoked before NO": Mishap("redeem", revokes_before_no),
    "redeem, NO drained": Mishap("redeem", gives_no_away),
    "redeem, no redeem": Mishap("redeem", no_redeem),
    "redeem, no return": Mishap("redeem", no_return, is_undone=False),
    "faucet, no mint": Mishap("faucet", no_mint),
    "faucet, no wrap": Mishap("faucet", no_wrap, left_units=UNITS),
}
"""All of them."""
