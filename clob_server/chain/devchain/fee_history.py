"""``eth_feeHistory``: fees of the last blocks, from which wallets estimate the next."""

from typing import Any, Final

import msgspec

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import invalid
from clob_server.chain.devchain.params import block_named, shown, whole_number
from clob_server.chain.devchain.views import base_fee_of

HISTORY_MAX: Final = 1024
"""Blocks per response, at most."""
PERCENTILES_MAX: Final = 100
"""Percentiles per request, at most."""


class _Fees(msgspec.Struct, rename="camel"):
    """The fields needed of a block."""

    number: str
    gas_used: str
    gas_limit: str
    base_fee_per_gas: str


class _Receipt(msgspec.Struct, rename="camel"):
    """The fields needed of a receipt."""

    gas_used: str
    effective_gas_price: str


def fee_history(
    chain: DevelopmentChain, count: object, newest: object, percentiles: object
) -> dict[str, Any]:
    """Return base fees, gas used and tips of ``count`` blocks up to ``newest``.

    Args:
        chain: the chain.
        count: the number of blocks.
        newest: the last block.
        percentiles: percentiles of tips, by gas; None for none.

    Raises:
        RequestError: a parameter is invalid.
    """
    block_count = min(whole_number(count, "blockCount"), HISTORY_MAX)
    named = block_named(newest, "newestBlock")
    last = chain.head.block_number if isinstance(named, str) else chain.header(named).block_number
    first = max(0, last - block_count + 1)
    query = "SELECT body FROM blocks WHERE number BETWEEN ? AND ? ORDER BY number"
    rows = chain.store.rows(query, first, last)
    blocks = [msgspec.json.decode(row[0], type=_Fees) for row in rows]
    after = chain.next_header() if last == chain.head.block_number else chain.header(last + 1)
    result: dict[str, Any] = {
        "oldestBlock": hex(first),
        "baseFeePerGas": [*(each.base_fee_per_gas for each in blocks), hex(base_fee_of(after))],
        "gasUsedRatio": [int(each.gas_used, 16) / int(each.gas_limit, 16) for each in blocks],
        "baseFeePerBlobGas": [hex(1)] * (len(blocks) + 1),
        "blobGasUsedRatio": [0] * len(blocks),
    }
    if percentiles is not None:
        wanted = read_percentiles(percentiles)
        result["reward"] = [rewards(chain, each, wanted) for each in blocks]
    return result


def read_percentiles(given: object) -> list[float]:
    """Parse percentiles, ascending from 0 to 100."""
    fits = isinstance(given, list) and len(given) <= PERCENTILES_MAX
    if fits and all(type(each) in (int, float) and 0 <= each <= 100 for each in given):  # type: ignore[attr-defined]
        values: list[float] = given  # type: ignore[assignment]
        if values == sorted(values):
            return values
    expected = "ascending numbers from 0 to 100"
    raise invalid(f"rewardPercentiles: expected {expected}; got {shown(given)}")


def rewards(chain: DevelopmentChain, block: _Fees, percentiles: list[float]) -> list[str]:
    """Return the tips at percentiles of a block's gas, in wei; zeros for an empty block."""
    query = "SELECT receipt FROM transactions WHERE block=?"
    rows = chain.store.rows(query, int(block.number, 16))
    receipts = [msgspec.json.decode(row[0], type=_Receipt) for row in rows]
    base_fee = int(block.base_fee_per_gas, 16)
    tips = sorted(
        (int(each.effective_gas_price, 16) - base_fee, int(each.gas_used, 16)) for each in receipts
    )
    used = sum(gas for _, gas in tips)
    return [hex(tip_at(tips, percentile * used / 100)) for percentile in percentiles]


def tip_at(tips: list[tuple[int, int]], gas: float) -> int:
    """Return the tip paid for the n-th unit of gas, lowest tips first."""
    for tip, used in tips:
        gas -= used
        if gas <= 0:
            return tip
    return tips[-1][0] if tips else 0
