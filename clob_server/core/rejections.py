"""Rejections of server commands; ``clob.errors`` has those of engine commands."""

from clob import ClobError, RejectedError


class NotOwnerError(ClobError, code="NOT_OWNER"):
    """Another node of the cluster owns the log; nothing was written."""


class UnknownKeyError(RejectedError, code="UNKNOWN_KEY"):
    """No API key has this id."""


class KeyExistsError(RejectedError, code="KEY_EXISTS"):
    """An API key with this id exists."""


class KeyInactiveError(RejectedError, code="KEY_INACTIVE"):
    """The API key is already inactive."""


class DelegateNonceError(RejectedError, code="DELEGATE_NONCE_TOO_LOW"):
    """The nonce of a delegation is not above the last one."""


class FaucetLimitError(RejectedError, code="FAUCET_LIMIT"):
    """A wallet, or all wallets together, reached the daily limit of the faucet."""

    def __init__(self, message: str, frees_ms: int) -> None:
        super().__init__(message)
        self.frees_ms: int = frees_ms
        """When the amount is available again, Unix milliseconds."""


class MarketInUseError(RejectedError, code="MARKET_IN_USE"):
    """The market cannot be removed: it had a trade, or has a condition on the chain."""


class MarketStalledError(RejectedError, code="MARKET_STALLED"):
    """The server stopped the matching of an escrow market until its trades settle again."""


class MarketBoundError(RejectedError, code="MARKET_EXISTS"):
    """The market already has a condition."""
