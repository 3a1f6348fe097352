"""The errors of reading recorded order flow, and of backtests."""

from clob.errors import ClobError


class ReplayFormatError(ClobError):
    """A file is no recording, or not a whole one; the message says where it fails."""

    code = "REPLAY_FORMAT"


class PackageMissingError(ClobError):
    """A format needs a package that is not installed; the message says how to get it."""

    code = "PACKAGE_MISSING"


class PortfolioError(ClobError):
    """A portfolio cannot do what was asked of it; nothing was changed."""

    code = "PORTFOLIO"


class ReplayWarning(UserWarning):
    """Input is broken and the reader went on, because it was told to."""
