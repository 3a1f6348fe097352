"""Signs the operator's transactions. The key stays here."""

import re
from typing import Any, Final

from eth_account import Account

from clob_server.chain.fees import Fees
from clob_server.chain.rows import Draft, Offer

_KEY: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")


class Signer:
    """Signs with one key, for one chain.

    Args:
        key: the private key, 32 bytes in hex.
        chain_id: the chain.

    Raises:
        ValueError: it is no key.
    """

    def __init__(self, key: str, chain_id: int) -> None:
        try:
            if not _KEY.fullmatch(key):
                raise ValueError
            self._account = Account.from_key(key)
        except Exception:  # the library's own words may repeat the key
            raise ValueError("the operator's key is not 32 bytes in hex") from None
        self.address: Final[str] = self._account.address
        """Whose key it is, as EIP-55 writes it."""
        self._chain_id = chain_id

    def sign(self, draft: Draft, fees: Fees) -> Offer:
        """Sign a step.

        Args:
            draft: the step, with its nonce.
            fees: what a unit of gas is offered.
        """
        transaction: dict[str, Any] = {
            "chainId": self._chain_id,
            "nonce": draft.nonce,
            "gas": draft.gas,
            "to": draft.target,
            "value": draft.value,
            "data": draft.data,
        }
        if fees.is_legacy:
            transaction["gasPrice"] = fees.max_fee
        else:
            transaction["maxFeePerGas"] = fees.max_fee
            transaction["maxPriorityFeePerGas"] = fees.tip
        signed = self._account.sign_transaction(transaction)
        raw = bytes(signed.raw_transaction)
        return Offer(f"0x{bytes(signed.hash).hex()}", raw, fees.max_fee, fees.tip)
