"""The EIP-712 domain of an exchange: name, version, chain and contract."""

from dataclasses import dataclass, field
from typing import Final

from clob.book.validation import show
from clob.errors import RejectedError
from clob.signing import fields
from clob.signing.errors import InvalidDomainError
from clob.signing.keccak import keccak256
from clob.units import UINT256_MAX


@dataclass(frozen=True, slots=True)
class Domain:
    """An EIP-712 domain. A signature is valid for its domain only.

    Raises:
        InvalidDomainError: name or version is not a ``str``, the chain id is not an integer from 0
            to 2**256 - 1, or the contract is not an address.

    >>> domain = Domain("clob", "1", 31337, "0x5FbDB2315678afecb367f032d93F642f64180aa3")
    >>> domain.separator.hex()[:16]
    '6bd60df831e9be8e'
    """

    name: str
    """Name of the exchange."""
    version: str
    """Version of the exchange, as text."""
    chain_id: int
    """Id of its chain."""
    verifying_contract: str | None = None
    """Its contract, checksummed (EIP-55); None omits the field, for services without a contract."""
    separator: bytes = field(init=False, repr=False, compare=False)
    """The EIP-712 domain separator, 32 bytes, computed once."""

    def __post_init__(self) -> None:
        for name in ("name", "version"):
            value = getattr(self, name)
            if type(value) is not str or not fields.encodable(value):
                raise InvalidDomainError(f"{name} must be a str; got {show(value)}")
        if type(self.chain_id) is not int or not 0 <= self.chain_id <= UINT256_MAX:
            raise InvalidDomainError(
                f"chain_id must be an integer from 0 to 2**256 - 1; got {show(self.chain_id)}"
            )
        if self.verifying_contract is not None:
            try:
                contract = fields.address("verifying_contract", self.verifying_contract)
            except RejectedError as error:
                raise InvalidDomainError(str(error)) from None
            object.__setattr__(self, "verifying_contract", contract)
        object.__setattr__(self, "separator", separator_of(self))

    def __str__(self) -> str:
        """Return the domain as a phrase for messages."""
        contract = self.verifying_contract or "none"
        name, version = fields.received(self.name), fields.received(self.version)
        return f"{name} version {version}, chain {self.chain_id}, contract {contract}"

    @property
    def types(self) -> list[dict[str, str]]:
        """The fields of the domain for ``eth_signTypedData``."""
        named = MEMBERS if self.verifying_contract is not None else MEMBERS[:-1]
        return [{"name": name, "type": kind} for name, kind in named]

    def to_json(self) -> dict[str, str | int]:
        """Return the domain for wallets: ``name, version, chainId, verifyingContract``."""
        data: dict[str, str | int] = {
            "name": self.name,
            "version": self.version,
            "chainId": self.chain_id,
        }
        if self.verifying_contract is not None:
            data["verifyingContract"] = self.verifying_contract
        return data


MEMBERS: Final = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)


def separator_of(domain: Domain) -> bytes:
    """Return the EIP-712 domain separator, 32 bytes."""
    members = ",".join(f"{each['type']} {each['name']}" for each in domain.types)
    words = [
        keccak256(f"EIP712Domain({members})".encode()),
        keccak256(domain.name.encode()),
        keccak256(domain.version.encode()),
        domain.chain_id.to_bytes(32),
    ]
    if domain.verifying_contract is not None:
        words.append(bytes.fromhex(domain.verifying_contract[2:]).rjust(32, b"\0"))
    return keccak256(b"".join(words))
