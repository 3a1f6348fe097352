"""How often: windows of a minute that slide, exact to the millisecond, and what exceeding one says.

Within any 60 seconds a payer gets no more than his limit. Time is that of a clock which never goes
back. There are windows for a bounded number of payers; who asked least recently goes first, so that
it takes as many other addresses within a minute to have one's window forgotten.
"""

import hashlib
import ipaddress
from collections import OrderedDict, deque
from itertools import repeat
from typing import Final

from clob_server.api.problems import ApiError

MINUTE_MS: Final = 60_000
"""How long a window is."""
PAYERS_MAX: Final = 16_384
"""For how many payers windows are kept."""
PAYER_BYTES: Final = 8
"""How long the name of a payer is."""

_NETWORK_BITS: Final = 64


class Windows:
    """What each payer took within the last minute.

    Args:
        payers_max: for how many it is kept.
    """

    def __init__(self, payers_max: int = PAYERS_MAX) -> None:
        self._payers_max = payers_max
        self._taken: OrderedDict[bytes, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        """For how many payers something is kept."""
        return len(self._taken)

    def take(self, payer: bytes, limit: int, now_ms: int, count: int = 1) -> int:
        """Take all that is asked for, or nothing. O(1) over time.

        Args:
            payer: who takes.
            limit: how much he may take in a minute.
            now_ms: the time; it does not go back.
            count: how much is asked for.

        Returns:
            0 if it was taken. Else after how many milliseconds it can be; a whole minute where it
            never can.
        """
        taken = self._taken.get(payer)
        if taken is None:
            taken = self._let_in(payer)
        else:
            self._taken.move_to_end(payer)
        gone = now_ms - MINUTE_MS
        while taken and taken[0] <= gone:
            taken.popleft()
        over = len(taken) + count - limit
        if over > 0:
            return MINUTE_MS if count > limit else taken[over - 1] - gone
        if count == 1:
            taken.append(now_ms)
        else:
            taken.extend(repeat(now_ms, count))
        return 0

    def left(self, payer: bytes, limit: int) -> int:
        """Say how much a payer could still take when he last tried."""
        return max(0, limit - len(self._taken.get(payer, ())))

    def put(self, payer: bytes, now_ms: int, count: int) -> None:
        """Note what was taken before; the times of a payer rise."""
        taken = self._taken.get(payer)
        if taken is None:
            taken = self._let_in(payer)
        taken.extend(repeat(now_ms, count))

    def _let_in(self, payer: bytes) -> deque[int]:
        """Begin a window, and forget the one that was used least recently if there are too many."""
        if len(self._taken) >= self._payers_max:
            self._taken.popitem(last=False)
        taken = self._taken[payer] = deque()
        return taken


def payer(secret: bytes, name: str) -> bytes:
    """Name a payer, so that nobody without the secret can tell who that is.

    Args:
        secret: at most 64 bytes.
        name: the id of a key, or what :func:`network` makes of an address.
    """
    digest = hashlib.blake2b(name.encode(), key=secret, person=b"payer", digest_size=PAYER_BYTES)
    return digest.digest()


def network(address: str) -> str:
    """Give what shares one budget: an IPv4 address, or the /64 of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{int(found) >> _NETWORK_BITS:x}::/{_NETWORK_BITS}"


def exceeded(what: str, count: int, limit: int, left: int, wait_ms: int, clock_ms: int) -> ApiError:
    """Refuse what goes beyond a limit, and say when it does not.

    Args:
        what: what is counted.
        count: how much was asked for.
        limit: how much is allowed in a minute.
        left: how much of that is left.
        wait_ms: after how many milliseconds it can be asked again.
        clock_ms: the time, Unix milliseconds.
    """
    wait_s = -(-wait_ms // 1000)
    reset_s = -(-(clock_ms + wait_ms) // 1000)
    return ApiError(
        "RATE_LIMITED",
        f"{what} must be at most {limit} a minute; {count} more can be in {wait_s} s"
        if count <= limit
        else f"{what} must be at most {limit} a minute; {count} at once never can be",
        headers=(
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit", b'"%b";r=%d;t=%d' % (what.encode(), left, wait_s)),
            (b"ratelimit-policy", b'"%b";q=%d;w=60' % (what.encode(), limit)),
            (b"x-ratelimit-limit", b"%d" % limit),
            (b"x-ratelimit-remaining", b"%d" % left),
            (b"x-ratelimit-reset", b"%d" % reset_s),
        ),
    )
