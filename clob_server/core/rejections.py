"""Rejections of server commands; ``clob.errors`` has those of engine commands."""

from clob import RejectedError


class UnknownKeyError(RejectedError):
    """No API key has this id."""

    code = "UNKNOWN_KEY"


class KeyExistsError(RejectedError):
    """An API key with this id exists."""

    code = "KEY_EXISTS"


class KeyInactiveError(RejectedError):
    """The API key is already inactive."""

    code = "KEY_INACTIVE"


class DelegateNonceError(RejectedError):
    """The nonce of a delegation is not above the last one."""

    code = "DELEGATE_NONCE_TOO_LOW"


class FaucetLimitError(RejectedError):
    """A wallet reached the daily limit of the faucet.

    Args:
        message: rule, value and limit.
        frees_ms: when the amount is available again, Unix milliseconds.
    """

    code = "FAUCET_LIMIT"

    def __init__(self, message: str, frees_ms: int) -> None:
        super().__init__(message)
        self.frees_ms: int = frees_ms
        """When the amount is available again, Unix milliseconds."""


class MarketBoundError(RejectedError):
    """The market already has a condition."""

    code = "MARKET_EXISTS"
