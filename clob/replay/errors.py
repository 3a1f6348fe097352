"""The errors of reading recorded order flow."""

from clob.errors import ClobError


class ReplayFormatError(ClobError):
    """A file is no recording, or not a whole one; the message says where it fails."""

    code = "REPLAY_FORMAT"
