"""Wrong values for the fields of a command: of another type, out of range, or merely odd."""

import msgspec

from clob import AddMarket, Batch, Mode, SetLimits, SetMarket, Side, Submit, TimeInForce

WRONG = (
    None, True, -1, 0, 1, 7, 2**63 - 1, 2**63, 2**64, 2**96, 2**200, 2**256 - 1,
    10**5_000, -(10**5_000), 1.5, float("nan"),
    "", "gone", "x" * 300, "\ud800", b"", b"a", [], {}, (), (0,), Side.SELL, Mode.HALTED,
)  # fmt: skip
"""Values of all sorts, some of which are right for some fields."""

PARTS = {Submit: "order", AddMarket: "market", SetMarket: "market", SetLimits: "limits"}
"""What a command mainly is about, where that is a value with fields of its own."""

SIGNED = ("maker", "nonce", "expiration_s", "order_hash")
"""The fields of which the hash of an order says something: one does not change without another."""

WRONG_TIMES = (None, True, 1.5, "", "1", -1, 0, 1, 2**63, 2**70, [])
"""Times without one that is right and late: after the end of time there would be no story."""

OFF_BY_A_BIT = {
    "price": (0, 100, -1, 2**40),
    "size": (0, -1, 1, 2**96, 2**300),
    "time_in_force": (*TimeInForce, 9, 0),
    "side": (0, 1, 2, "BUY"),
    "token": ("", "bare-no", "paid-yes", "nothing"),
    "market": ("", "bare", "nowhere"),
    "no": ("", "bare-yes", "collateral", "half-no"),
    "order_hash": (b"", b"x" * 31, "x" * 32, bytearray(32)),
    "fee_rate_bps": (-1, 1_001, 0),
    "collateral": (-1, 0, 2**256 - 1, 2**256),
    "nonce": (-1, 0, 2**256 - 1, 2**256),
    "expiration_s": (-1, 1, 2**62, 2**63, 2**256 - 1, 2**256),
    "amount": (-1, 2**256 - 1, 2**256),
    "client_id": ("", "x" * 257, 5),
}
"""Values that are close to right, by the field."""


def spoiled(rng, command):
    """Put one wrong value into a command, or several, so that the sequence of the rules matters."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        command = _spoiled_once(rng, command)
    return command


def _spoiled_once(rng, command):
    """Put a wrong value somewhere."""
    if isinstance(command, Batch) and rng.random() < 0.8:
        if not isinstance(command.commands, tuple) or command.commands in ((), (0,)):
            return command
        inner = list(command.commands)
        place = rng.randrange(len(inner))
        inner[place] = spoiled(rng, inner[place])
        return msgspec.structs.replace(command, commands=tuple(inner))
    part = PARTS.get(type(command))
    if part and isinstance(getattr(command, part), msgspec.Struct) and rng.random() < 0.8:
        inner, name = _changed(rng, getattr(command, part))
        command = msgspec.structs.replace(command, **{part: inner})
    else:
        command, name = _changed(rng, command)
    if isinstance(command, Submit) and name in SIGNED[:-1]:
        command = msgspec.structs.replace(command, order_hash=None)
    return command


def _changed(rng, struct):
    """Change a field of a struct; give it, and the name of the field."""
    name = rng.choice(type(struct).__struct_fields__)
    values = OFF_BY_A_BIT.get(name, WRONG) if rng.random() < 0.6 else WRONG
    if name == "now_ms":
        values = WRONG_TIMES
    return msgspec.structs.replace(struct, **{name: rng.choice(values)}), name
