"""Wrong values for the fields of a command: of another type, out of range, or unusual."""

import msgspec

from clob import AddMarket, Batch, Mode, SetLimits, SetMarket, Side, Submit, TimeInForce

WRONG = (
    None, True, -1, 0, 1, 7, 2**63 - 1, 2**63, 2**64, 2**96, 2**200, 2**256 - 1,
    10**5_000, -(10**5_000), 1.5, float("nan"),
    "", "gone", "x" * 300, "\ud800", b"", b"a", [], {}, (), (0,), Side.SELL, Mode.HALTED,
)  # fmt: skip
"""Values of all kinds, some of which are valid for some fields."""

PARTS = {Submit: "order", AddMarket: "market", SetMarket: "market", SetLimits: "limits"}
"""The field of a command that contains a Struct."""

SIGNED = ("maker", "nonce", "expiration_s", "order_hash")
"""Fields covered by the hash of an order, which must change together with it."""

WRONG_TIMES = (None, True, 1.5, "", "1", -1, 0, 1, 2**63, 2**70, [])
"""Wrong times; valid late ones are missing, since no command could follow them."""

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
"""Almost valid values, by field."""


def spoiled(rng, command):
    """Put one or several wrong values into a command, so that the order of rules matters."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        command = _spoiled_once(rng, command)
    return command


def _spoiled_once(rng, command):
    """Put a wrong value into a random field."""
    if isinstance(command, Batch) and rng.random() < 0.8:
        if not isinstance(command.commands, tuple) or command.commands in ((), (0,)):
            return command
        inner = list(command.commands)
        index = rng.randrange(len(inner))
        inner[index] = spoiled(rng, inner[index])
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
    """Change a field of a Struct; return the Struct and the field's name."""
    name = rng.choice(type(struct).__struct_fields__)
    values = OFF_BY_A_BIT.get(name, WRONG) if rng.random() < 0.6 else WRONG
    if name == "now_ms":
        values = WRONG_TIMES
    return msgspec.structs.replace(struct, **{name: rng.choice(values)}), name
