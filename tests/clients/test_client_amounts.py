"""Decision 3 recovers the intended price in cents from the amounts that real clients sign.

The price of a market order is the worst price it accepts. Its client rounds the tokens down, so the
amounts of a buy are slightly above the cent.
"""

import importlib
from math import floor

import pytest

from clob import Side
from clob.signing import PriceSize, price_and_size
from tests.clients.inputs import user_orders

COUNTS = pytest.mark.parametrize("count", [1_000, pytest.param(40_000, marks=pytest.mark.long)])
KINDS = pytest.mark.parametrize("kind", ["limit", "market"])
TICKS = ("0.1", "0.01", "0.001", "0.0001")
PYTHON = ("py_clob_client", "py_clob_client_v2")

TOO_LOW = {29: 28, 57: 56, 58: 57}
"""Prices that py-clob-client-v2 signs a cent low in market orders: it rounds 0.29 * 100 down, which
is 28.999999999999996 in floats. Its first version rounds to the nearest."""


def wei(x):
    """Replacement of ``to_token_decimals`` for 18 instead of 6 decimals."""
    return round(x * 10**6) * 10**12


def builder(client, monkeypatch, decimals):
    """Return the builder of a Python client, and the rounding of each tick size."""
    reason = f"{client.replace('_', '-')} is not installed"
    module = pytest.importorskip(f"{client}.order_builder.builder", reason=reason)
    signer = importlib.import_module(f"{client}.signer").Signer(f"0x{1:064x}", 137)
    if decimals == 18:
        monkeypatch.setattr(module, "to_token_decimals", wei)
    return module.OrderBuilder(signer), module.ROUNDING_CONFIG


def signed_by(client, kind, tick, side, cents):
    """Return the price that a client signs: the intended one, except for its known bug."""
    if (client, kind) != ("py_clob_client_v2", "market"):
        return cents
    steps = 10 ** (len(tick) - 2)
    low = 100 * floor(cents / 100 * steps)
    # Between two cents a sell is at the upper one.
    return low // steps if side is Side.BUY else -(-low // steps)


def check(side, maker, taker, cents, tick):
    """Check the intended price; return whether the amounts are exact."""
    size, collateral = (taker, maker) if side is Side.BUY else (maker, taker)
    assert price_and_size(side, maker, taker) == PriceSize(cents, size), (side, maker, taker)
    # With ticks below a cent, floats sometimes lose the last digit of a large order.
    # Settlement on a chain tolerates no difference.
    safe = cents - 1 if side is Side.BUY else cents + 1
    allowed = (cents,) if tick in ("0.1", "0.01") else (cents, safe)
    assert price_and_size(side, maker, taker, settles=True).price in allowed
    return 100 * collateral == cents * size


@COUNTS
@KINDS
@pytest.mark.parametrize("decimals", [6, 18])
@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("client", PYTHON)
def test_price_of_python_clients_is_recovered(client, tick, decimals, kind, count, monkeypatch):
    order_builder, rounding = builder(client, monkeypatch, decimals)
    amounts = (
        order_builder.get_order_amounts
        if kind == "limit"
        else order_builder.get_market_order_amounts
    )
    exact = {True: 0, False: 0}
    for side, size, price, cents in user_orders(31, count, kind, tick):
        number, maker, taker = amounts(side.name, size, price, rounding[tick])
        assert number == side
        signed = signed_by(client, kind, tick, side, cents)
        exact[check(side, maker, taker, signed, tick)] += 1
    assert exact[True]
    assert exact[False] or kind == "limit"


@COUNTS
@KINDS
@pytest.mark.parametrize("tick", TICKS)
def test_price_of_the_javascript_client_is_recovered(run_jobs, tick, kind, count):
    inputs = list(user_orders(32, count, kind, tick))
    jobs = [
        {"kind": kind, "tick": tick, "side": side.name, "size": size, "price": price}
        for side, size, price, _ in inputs
    ]
    exact = {True: 0, False: 0}
    for (side, _, _, cents), answer in zip(inputs, run_jobs("amounts.mjs", jobs), strict=True):
        for maker, taker in answer:
            exact[check(side, int(maker), int(taker), cents, tick)] += 1
    assert exact[True]
    assert exact[False] or kind == "limit"


def test_py_clob_client_v2_signs_three_prices_a_cent_low(monkeypatch):
    """Bug of that client: the signed amounts have the lower price."""
    order_builder, rounding = builder("py_clob_client_v2", monkeypatch, 6)
    for side in Side:
        low = {}
        for cents in range(1, 100):
            amounts = order_builder.get_market_order_amounts(
                side.name, 100.0, cents / 100, rounding["0.01"]
            )
            price = price_and_size(side, *amounts[1:]).price
            if price != cents:
                low[cents] = price
        assert low == TOO_LOW


@pytest.mark.parametrize("client", PYTHON)
def test_price_between_two_cents_is_rounded_in_favour_of_the_signer(client, monkeypatch):
    """Markets with a tick of 0.1 cents have prices that this engine does not."""
    order_builder, rounding = builder(client, monkeypatch, 6)
    for mills in range(10, 991):
        for side in Side:
            amounts = order_builder.get_order_amounts(
                side.name, 100.0, mills / 1000, rounding["0.001"]
            )
            cents = mills // 10 if side is Side.BUY else -(-mills // 10)
            assert price_and_size(side, *amounts[1:]).price == cents
