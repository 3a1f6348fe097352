"""Signs the operator's transactions. The key stays here.

The bytes are those that eth-account makes, in a tenth of its time.
"""

import re
from typing import Final

from coincurve import PrivateKey

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.chain import rlp
from clob_server.chain.fees import Fees
from clob_server.chain.rows import Draft, Offer

FEE_MARKET: Final = b"\x02"
"""What a transaction of EIP-1559 begins with."""
EIP155_PARITY: Final = 35
"""What a legacy transaction adds to the parity of its signature, besides twice the chain."""
WORD_BYTES: Final = 32
"""How long each half of a signature is."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


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
            digits = _KEY.fullmatch(key)
            if digits is None:
                raise ValueError
            self._key = PrivateKey(bytes.fromhex(digits[1]))
        except Exception:  # the library's own words may repeat the key
            raise ValueError("the operator's key is not 32 bytes in hex") from None
        public = self._key.public_key.format(compressed=False)
        self.address: Final[str] = checksummed(keccak256(public[1:])[12:])
        """Whose key it is, as EIP-55 writes it."""
        self._chain_id = chain_id

    def sign(self, draft: Draft, fees: Fees) -> Offer:
        """Sign a step.

        Args:
            draft: the step, with its nonce.
            fees: what a unit of gas is offered.
        """
        raw = self._legacy(draft, fees) if fees.is_legacy else self._fee_market(draft, fees)
        return Offer(f"0x{keccak256(raw).hex()}", raw, fees.max_fee, fees.tip)

    def _fee_market(self, draft: Draft, fees: Fees) -> bytes:
        """Write a transaction of EIP-1559, without an access list."""
        assert draft.nonce is not None
        offer = (self._chain_id, draft.nonce, fees.tip, fees.max_fee, draft.gas)
        parts = [*map(rlp.integer, offer), *what_it_does(draft), rlp.listed(())]
        parity, *halves = self._signature(FEE_MARKET + rlp.listed(parts))
        return FEE_MARKET + rlp.listed([*parts, rlp.integer(parity), *map(rlp.integer, halves)])

    def _legacy(self, draft: Draft, fees: Fees) -> bytes:
        """Write a transaction as it was before, bound to the chain by EIP-155."""
        assert draft.nonce is not None
        offer = (draft.nonce, fees.max_fee, draft.gas)
        parts = [*map(rlp.integer, offer), *what_it_does(draft)]
        chain = map(rlp.integer, (self._chain_id, 0, 0))
        parity, *halves = self._signature(rlp.listed([*parts, *chain]))
        marked = EIP155_PARITY + 2 * self._chain_id + parity
        return rlp.listed([*parts, *map(rlp.integer, (marked, *halves))])

    def _signature(self, data: bytes) -> tuple[int, int, int]:
        """Sign bytes, and give the parity, r and s; s is low."""
        signed = self._key.sign_recoverable(keccak256(data), hasher=None)
        r, s = signed[:WORD_BYTES], signed[WORD_BYTES : 2 * WORD_BYTES]
        return signed[-1], int.from_bytes(r), int.from_bytes(s)


def what_it_does(draft: Draft) -> tuple[bytes, bytes, bytes]:
    """Write where a transaction goes, what it takes along, and the call."""
    target = bytes.fromhex(draft.target[2:])
    return rlp.string(target), rlp.integer(draft.value), rlp.string(draft.data)
