"""Methods of a client that move collateral and tokens: split, merge, redeem, wrap, deposit.

Each is an operation on the chain, which the operator of the server sends and pays for.
"""

import secrets
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec

from clob.client.base import WORD, AnySize, size_in_wei, text_in, whole
from clob.client.errors import InvalidCallError, UnavailableError, UnexpectedReplyError
from clob.client.order_routes import OrderRoutes
from clob.client.steps import Method, Steps
from clob.signing import Domain, SignedPermit, SignedWithdrawal
from clob.wire.operations import (
    DepositAnswer,
    MergeAnswer,
    Permit,
    RedeemAnswer,
    SplitAnswer,
    UnwrapAnswer,
    WithdrawAnswer,
    WithdrawRequestAnswer,
    WrapAnswer,
)

AnyPermit: TypeAlias = bool | int | Permit
PermitToken: TypeAlias = Literal["collateral", "stablecoin"]

PERMIT_S: Final = 3_600
"""Seconds for which a permit or a request to withdraw is valid."""
NONCE_BITS: Final = 128
"""Random bits of the nonce of a request to withdraw."""
COLLATERAL: Final = "collateral"
"""The asset in escrow that is not an outcome token."""
NONCES: Final = "0x7ecebe00"
NAME: Final = "0x06fdde03"
VERSION: Final = "0x54fd4d50"
"""Functions of a token with permits: ``nonces(address)``, ``name()`` and ``version()``."""
SCALE: Final = "0x9d8e2177"
"""Function of the collateral: ``UNIT()``, its wei for the smallest unit of the stablecoin."""


class Funds(OrderRoutes):
    """Methods that move the maker's collateral and tokens on the chain."""

    # ----- collateral and tokens ---------------------------------------------------------------

    @Method
    def split(
        self, market: str, amount: AnySize, *, permit: AnyPermit = False
    ) -> Steps[SplitAnswer]:
        """Convert collateral of the maker into the same amount of both tokens of a market.

        The maker must have approved the operator for its collateral, or sign a permit.

        Args:
            market: a market with a condition on the chain.
            amount: an int in wei, or a str in units.
            permit: True to sign one for the amount that is valid for an hour; its last Unix second;
                or the result of :meth:`sign_permit`. It is used if the approval is too small.
        """
        body = yield from self.conversion(market, amount)
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_split(self, body))

    @Method
    def wrap(self, amount: AnySize, *, permit: AnyPermit = False) -> Steps[WrapAnswer]:
        """Convert stablecoin of the maker into collateral; the operator needs an approval of it.

        Args:
            amount: amount of collateral, an int in wei, or a str in units; a multiple of the
                smallest unit of the stablecoin.
            permit: see :meth:`split`; for the stablecoin, if that has permits.
        """
        body = {"user": self.maker, "amount": str(size_in_wei("amount", amount))}
        yield from self.add_permit(body, amount, permit, "stablecoin")
        return (yield from OrderRoutes.post_wrap(self, body))

    @Method
    def unwrap(self, amount: AnySize, *, permit: AnyPermit = False) -> Steps[UnwrapAnswer]:
        """Convert collateral of the maker into stablecoin; see :meth:`wrap` and :meth:`split`."""
        body = {"user": self.maker, "amount": str(size_in_wei("amount", amount))}
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_unwrap(self, body))

    def add_permit(
        self, body: dict[str, Any], amount: AnySize, permit: AnyPermit, token: PermitToken
    ) -> Steps[None]:
        """Add a permit to the body of an operation; sign it unless it is signed."""
        if permit is True:
            permit = yield from Funds.sign_permit(self, amount, token=token)
        elif permit is not False and not isinstance(permit, Permit):
            permit = yield from Funds.sign_permit(self, amount, deadline_s=permit, token=token)
        if isinstance(permit, Permit):
            body["permit"] = msgspec.to_builtins(permit)

    @Method
    def sign_permit(
        self, amount: AnySize, *, deadline_s: int | None = None, token: PermitToken = "collateral"
    ) -> Steps[Permit]:
        """Sign an approval of a token for the operator (EIP-2612), without a transaction.

        The number of earlier permits, and the name of the token, are read from a node, see
        ``rpc_url`` of the client.

        Args:
            amount: amount of collateral, an int in wei, or a str in units.
            deadline_s: last Unix second; None is an hour from now, by the server's time.
            token: ``collateral``, or the ``stablecoin`` that it wraps.

        Raises:
            InvalidCallError: the client does not sign for the maker itself, or there is no node.
            UnavailableError: the chain is not ready.
            ConnectionFailedError: the node cannot be reached.
            UnexpectedReplyError: the node does not know the token, or it has no permits.
        """
        value = size_in_wei("amount", amount)
        if self.signer is None or not self.signs_for_maker:
            raise InvalidCallError(
                "a permit needs the key of the maker itself: pass it as signer to the client"
            )
        chain = (yield from OrderRoutes.info(self)).chain
        if chain is None:
            raise InvalidCallError("this server has no chain, so there is no collateral")
        contract = chain.stablecoin if token == "stablecoin" else chain.collateral
        if contract is None or chain.collateral is None or chain.operator is None:
            text = f"the chain is {chain.state}"
            raise UnavailableError("CHAIN_UNAVAILABLE", text, status=503, retryable=True)
        url = self.rpc_url or chain.rpc_url
        if url is None:
            raise InvalidCallError(
                "a permit needs a node of the chain: pass its JSON-RPC address as rpc_url to the "
                "client"
            )
        owner = self.maker
        nonce = yield from self.call_contract(url, contract, f"{NONCES}{owner[2:]:0>64}")
        name = yield from self.call_contract(url, contract, NAME)
        version = "1"
        if token == "stablecoin":
            scale = yield from self.call_contract(url, chain.collateral, SCALE)
            value //= max(1, int.from_bytes(scale[:WORD]))
            with suppress(UnexpectedReplyError):  # a token without this function has the first one
                version = text_in((yield from self.call_contract(url, contract, VERSION)))
        if deadline_s is None:
            deadline_s = (yield from self.read_now_ms()) // 1000 + PERMIT_S
        unsigned = SignedPermit(
            owner=owner,
            spender=chain.operator,
            value=value,
            nonce=int.from_bytes(nonce[:WORD]),
            deadline=whole("deadline_s", deadline_s, "Unix seconds"),
        )
        domain = Domain(text_in(name), version, chain.id, contract)
        signed = (yield from self.signer.signed(unsigned, domain)).signature
        return Permit(
            value=str(value),
            deadline=str(unsigned.deadline),
            v=27 + int(signed[-2:], 16) % 27,
            r=signed[:66],
            s=f"0x{signed[66:-2]}",
        )

    @Method
    def merge(self, market: str, amount: AnySize) -> Steps[MergeAnswer]:
        """Convert the same amount of both tokens of a market into collateral; see :meth:`split`."""
        body = yield from self.conversion(market, amount)
        return (yield from OrderRoutes.post_merge(self, body))

    @Method
    def redeem(self, market: str) -> Steps[RedeemAnswer]:
        """Redeem all tokens of the maker of a resolved market."""
        condition_id = (yield from self.read_condition(market)).condition_id
        body = {"user": self.maker, "conditionId": condition_id}
        return (yield from OrderRoutes.post_redeem(self, body))

    # ----- escrow ------------------------------------------------------------------------------

    @Method
    def deposit(
        self,
        amount: AnySize,
        token: int | str | None = None,
        *,
        permit: bool | int | Permit = False,
    ) -> Steps[DepositAnswer]:
        """Move collateral or tokens of the maker into its escrow, for escrow markets.

        The maker must have approved the operator for them; for collateral it may sign a permit.

        Args:
            amount: an int in wei, or a str in units.
            token: the outcome token; None for collateral.
            permit: as in :meth:`split`.
        """
        body = {"user": self.maker, "asset": COLLATERAL if token is None else str(token)}
        body["amount"] = str(size_in_wei("amount", amount))
        yield from self.add_permit(body, amount, permit, "collateral")
        return (yield from OrderRoutes.post_deposit(self, body))

    @Method
    def request_withdrawal(
        self, amount: AnySize, token: int | str | None = None
    ) -> Steps[WithdrawRequestAnswer]:
        """Sign and send a request to withdraw from escrow, which replaces an earlier one.

        The amount covers no more orders; :meth:`withdraw` pays it after the delay of the contract.

        Args:
            amount: an int in wei, or a str in units; 0 ends the request.
            token: the outcome token; None for collateral.

        Raises:
            InvalidCallError: the client does not sign for the maker itself.
        """
        if self.signer is None or not self.signs_for_maker:
            raise InvalidCallError(
                "a request to withdraw needs the key of the maker itself: pass it as signer to the "
                "client"
            )
        signed = yield from self.sign(
            SignedWithdrawal(
                wallet=self.maker,
                asset=0 if token is None else int(token),
                amount=size_in_wei("amount", amount),
                nonce=secrets.randbits(NONCE_BITS),
                deadline=(yield from self.read_now_ms()) // 1000 + PERMIT_S,
            )
        )
        body = {
            "user": self.maker,
            "asset": COLLATERAL if token is None else str(token),
            "amount": str(signed.amount),
            "nonce": str(signed.nonce),
            "deadline": str(signed.deadline),
            "signature": signed.signature,
        }
        return (yield from OrderRoutes.post_withdrawal_request(self, body))

    @Method
    def withdraw(self, token: int | str | None = None) -> Steps[WithdrawAnswer]:
        """Pay a requested withdrawal to the maker, once its delay has passed.

        Args:
            token: the outcome token; None for collateral.
        """
        body = {"user": self.maker, "asset": COLLATERAL if token is None else str(token)}
        return (yield from OrderRoutes.post_withdrawal(self, body))

    def conversion(self, market: str, amount: AnySize) -> Steps[dict[str, Any]]:
        """Return the body of a split or a merge."""
        wei = size_in_wei("amount", amount)
        terms = yield from self.read_condition(market)
        return {
            "user": self.maker,
            "amount": str(wei),
            "conditionId": terms.condition_id,
            "yesTokenId": terms.yes_token_id,
            "noTokenId": terms.no_token_id,
        }
