"""What the commands of the server are refused for, as ``clob.errors`` has it for the engine's."""

from clob import RejectedError


class UnknownKeyError(RejectedError):
    """There is no API key of this id."""

    code = "UNKNOWN_KEY"


class KeyExistsError(RejectedError):
    """An API key of this id is there already."""

    code = "KEY_EXISTS"


class KeyInactiveError(RejectedError):
    """The API key was deactivated before."""

    code = "KEY_INACTIVE"


class DelegateNonceError(RejectedError):
    """The nonce of a delegation does not rise."""

    code = "DELEGATE_NONCE_TOO_LOW"


class FaucetLimitError(RejectedError):
    """A wallet was granted as much as it may be within a day.

    Args:
        message: the rule, the value and the limit.
        frees_ms: when so much is free again, Unix milliseconds.
    """

    code = "FAUCET_LIMIT"

    def __init__(self, message: str, frees_ms: int) -> None:
        super().__init__(message)
        self.frees_ms: int = frees_ms
        """When so much is free again, Unix milliseconds."""


class MarketBoundError(RejectedError):
    """The market has a condition, which stays."""

    code = "MARKET_EXISTS"
