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
