"""Signer behind a URL, so that this process holds no key.

It speaks the JSON-RPC of web3signer: ``eth_accounts`` and ``eth_signTransaction``, whose result is
the signed bytes, or an object with ``raw`` as Geth with Clef returns it. The signer is not trusted:
every field of the signed transaction is compared, and the sender is recovered.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from coincurve import PublicKey

from clob_server.chain.eth.accounts import RlpItem, rlp, unrlp
from clob_server.chain.eth.rpc import NodeError, NodeRejectedError, Rpc, content, shown
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.signer import (
    EIP155_PARITY,
    FEE_MARKET,
    WORD_BYTES,
    Signer,
    SignerError,
    UnsignedTransaction,
    address_of,
    signed,
    unsigned,
)
from clob_server.chain.tx.steps import Draft, SignedTransaction

ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""Order of secp256k1."""
LEGACY_FIRST: Final = 0xC0
"""First byte from which a transaction is a legacy one, a list."""
SHOWN_ACCOUNTS: Final = 5
"""Accounts of the signer in a message."""
SHOWN_BYTES: Final = 40
"""Bytes of a field in a message."""


class RemoteSigner(Signer):
    """Requests signatures over HTTP.

    Args:
        url: URL of the signer, http or https.
        address: address of the operator, EIP-55.
        chain_id: chain id of the transactions.
        timeout_s: time for a request with its whole response, seconds.

    Raises:
        ValueError: not an http or https URL.
    """

    def __init__(self, url: str, address: str, chain_id: int, timeout_s: float) -> None:
        self._rpc = Rpc(url, timeout_s, name="signer")
        self._name = f"the signer at {self._rpc.host}"
        self._chain_id = chain_id
        self.address: str = address
        self.problem: str = f"{self._name} has not been queried yet"

    async def check(self) -> None:
        """Check that the signer responds and has the operator's account."""
        accounts = await self._ask("eth_accounts")
        listed = accounts if isinstance(accounts, list) else []
        if self.address.lower() not in {str(each).lower() for each in listed}:
            shown_accounts = ", ".join(shown(each) for each in listed[:SHOWN_ACCOUNTS]) or "none"
            self._fail(f"does not hold the key of {self.address}; its accounts: {shown_accounts}")
        self.problem = ""

    async def sign(self, draft: Draft, fees: Fees) -> SignedTransaction:
        """Request a signature, and check the whole transaction that is returned."""
        transaction = unsigned(draft, fees, self._chain_id)
        answer = await self._ask("eth_signTransaction", self._request(transaction))
        encoded = answer.get("raw") if isinstance(answer, Mapping) else answer
        try:
            raw = content(encoded)
        except NodeError:
            self._fail(f"returned {shown(encoded)} instead of a signed transaction")
        problem = difference(transaction, raw, self.address)
        if problem:
            self._fail(f"returned a transaction that was not requested: {problem}")
        self.problem = ""
        return signed(raw, fees)

    def _request(self, transaction: UnsignedTransaction) -> dict[str, str]:
        """Return a transaction as JSON-RPC object; a contract creation has no recipient."""
        values = dict(zip(transaction.names, transaction.fields, strict=True))
        values |= {"chainId": transaction.chain_id}
        texts = {name: as_hex(value) for name, value in values.items() if name != "accessList"}
        if not values["to"]:
            del texts["to"]
        return {"from": self.address, **texts}

    async def _ask(self, method: str, *params: Any) -> Any:
        """Send a request.

        Raises:
            SignerError: no result.
        """
        try:
            return await self._rpc.ask(method, *params)
        except NodeRejectedError as error:
            self._fail(f"rejected {method}: {error}")
        except NodeError as error:
            self.problem = str(error)
            raise SignerError(self.problem) from error

    def _fail(self, problem: str) -> NoReturn:
        """Keep a problem and raise it."""
        self.problem = f"{self._name} {problem}"
        raise SignerError(self.problem)

    async def close(self) -> None:
        """Close the connections."""
        await self._rpc.close()


def difference(transaction: UnsignedTransaction, raw: bytes, address: str) -> str:
    """Return how signed bytes differ from a transaction signed by an address; empty if not."""
    if not raw or (raw[0] >= LEGACY_FIRST) != transaction.is_legacy:
        return "it has another type"
    if not transaction.is_legacy and raw[:1] != FEE_MARKET:
        return f"it has type {raw[0]}; expected {FEE_MARKET[0]}"
    try:
        decoded = unrlp(raw if transaction.is_legacy else raw[1:])
    except (ValueError, RecursionError):
        return "it is not valid RLP"
    num_fields = len(transaction.fields)
    if isinstance(decoded, bytes) or len(decoded) != num_fields + 3:
        return f"it does not have {num_fields + 3} fields"
    expected = unrlp(rlp(transaction.fields))
    assert isinstance(expected, list)
    for name, got, wanted in zip(transaction.names, decoded, expected, strict=False):
        if got != wanted:
            return f"{name} is {field_text(got)}; expected {field_text(wanted)}"
    return _signature_problem(transaction, raw, decoded[num_fields:], address)


def _signature_problem(
    transaction: UnsignedTransaction, raw: bytes, signature: list[RlpItem], address: str
) -> str:
    """Return why a signature is not that of an address; empty if it is."""
    v, r, s = (int.from_bytes(each) if isinstance(each, bytes) else -1 for each in signature)
    parity = v - EIP155_PARITY - 2 * transaction.chain_id if transaction.is_legacy else v
    if transaction.is_legacy and parity not in (0, 1):
        chain = (v - EIP155_PARITY) // 2 if v >= EIP155_PARITY else "none"
        return f"chainId is {chain}; expected {transaction.chain_id}"
    if parity not in (0, 1) or not 0 < r < ORDER or not 0 < s <= ORDER // 2:
        return "its signature is invalid"
    if transaction.with_signature(parity, r, s) != raw:
        return "it is not encoded canonically"
    encoded = r.to_bytes(WORD_BYTES) + s.to_bytes(WORD_BYTES) + bytes([parity])
    try:
        key = PublicKey.from_signature_and_message(encoded, transaction.digest(), hasher=None)
    except Exception:  # the library has no narrower class
        return "its signature is invalid"
    signer = address_of(key.format(compressed=False))
    return "" if signer == address else f"it is signed by {signer}; expected {address}"


def as_hex(value: Any) -> str:
    """Return a number or bytes as JSON-RPC text."""
    return hex(value) if isinstance(value, int) else f"0x{value.hex()}"


def field_text(value: RlpItem) -> str:
    """Return the start of a field for a message."""
    if not isinstance(value, bytes):
        return f"a list of {len(value)}"
    return f"0x{value[:SHOWN_BYTES].hex()}{'..' if len(value) > SHOWN_BYTES else ''}"
