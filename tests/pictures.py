"""Draws the pictures of the pages from the code, as SVG.

``python -m tests.pictures`` writes them into docs/pictures. The colours follow the reader's scheme.
"""

import asyncio
import math
import tempfile
import tomllib
from html import escape
from pathlib import Path

from clob import AddMarket, Market, Order, Rejected, Side, Submit
from clob.status import TRANSITIONS
from clob.status import OrderStatus as Status
from clob.wire.operations import FillBody
from clob_server.core.commands import EndTrades, ReviseTrades, SendTrades, TradeEnd
from clob_server.core.sequencer import Sequencer
from clob_server.core.settlement_ledger import HeldTrade, SettlementLedger, TradeHalf
from clob_server.core.settlement_status import SettlementStatuses
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
STYLE = """
.back { fill: #fff } .box { fill: #eef3fb; stroke: #4a6fa5 } .end { fill: #e4e4e7; stroke: #71717a }
.line { stroke: #52525b; fill: none; stroke-width: 1.5 } .head, .start { fill: #52525b }
text { font: 14px system-ui, sans-serif; fill: #18181b; text-anchor: middle }
.label { font-size: 12px; paint-order: stroke; stroke: #fff; stroke-width: 6px }
.left { text-anchor: start } .title { font-weight: 600 }
@media (prefers-color-scheme: dark) {
.back { fill: #18181b } .box { fill: #1e2d45; stroke: #7aa2db }
.end { fill: #3f3f46; stroke: #a1a1aa }
.line { stroke: #d4d4d8 } .head, .start { fill: #d4d4d8 } text { fill: #f4f4f5 }
.label { stroke: #18181b } }
"""
BOX = (120, 40)


class Picture:
    """An SVG with boxes, arrows and labels; ``described`` is its text for screen readers."""

    def __init__(self, title, described, width, height):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(described)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}"/>',
        ]

    def box(self, x, y, text, *, size=BOX, kind="box"):
        """Draw a box around its middle."""
        width, height = size
        self.parts.append(
            f'<rect class="{kind}" x="{x - width / 2:g}" y="{y - height / 2:g}" '
            f'width="{width:g}" height="{height:g}" rx="6"/>'
        )
        self.text(x, y + 5, text)

    def text(self, x, y, text, kind=""):
        """Write a line; ``y`` is its base."""
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{kind} x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def arrow(self, start, end, label="", *, at=0.5):
        """Draw a straight arrow between two points, with a label at a part of its way."""
        (x, y), (to_x, to_y) = start, end
        self.parts.append(f'<path class="line" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>')
        self.head(end, math.atan2(to_y - y, to_x - x))
        if label:
            self.text(x + (to_x - x) * at, y + (to_y - y) * at + 4, label, "label")

    def head(self, point, angle):
        """Draw the head of an arrow."""
        corners = [
            (point[0] - 9 * math.cos(angle + turn), point[1] - 9 * math.sin(angle + turn))
            for turn in (-0.4, 0.4)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (point, *corners))
        self.parts.append(f'<polygon class="head" points="{path}"/>')

    def loop(self, x, y, label):
        """Draw an arrow from the right side of a box back to itself."""
        x += BOX[0] / 2
        self.parts.append(
            f'<path class="line" d="M{x:g} {y - 10:g}C{x + 46:g} {y - 34:g} {x + 46:g} '
            f'{y + 34:g} {x + 3:g} {y + 11:g}"/>'
        )
        self.head((x, y + 10), math.pi * 1.15)
        self.text(x + 42, y + 5, label, "label left")

    def svg(self):
        """Return the text of the file."""
        return "\n".join([*self.parts, "</svg>", ""])


def edge(middle, other):
    """Return the point of a box's border in the direction of another point."""
    x, y = other[0] - middle[0], other[1] - middle[1]
    part = min(size / 2 / abs(way) for size, way in zip(BOX, (x, y), strict=True) if way)
    return middle[0] + x * part, middle[1] + y * part


def states(picture, places, transitions, finals):
    """Draw states at their places, and a labelled arrow for each transition."""
    for before, label, after in transitions:
        if before == after:
            picture.loop(*places[before], label)
        elif before is not None:
            start, end = edge(places[before], places[after]), edge(places[after], places[before])
            picture.arrow(start, end, label)
    for state, place in places.items():
        picture.box(*place, state, kind="end" if state in finals else "box")


# ----- the life of an order -----------------------------------------------------------------------


def sentences(transitions):
    """Describe transitions."""
    return " ".join(f"From {before}, {label}: {after}." for before, label, after in transitions)


def order_life():
    """Draw the states of an order, from the table of transitions."""
    places = {
        Status.OPEN: (240, 150),
        Status.PARTIAL: (520, 150),
        Status.FILLED: (380, 40),
        Status.CANCELLED: (380, 260),
    }
    [first] = [each for each in TRANSITIONS if each.before is None]
    others = [tuple(each) for each in TRANSITIONS if each.before is not None]
    finals = set(Status) - {each.before for each in TRANSITIONS}
    described = f"First, {first.trigger}: {first.after}. {sentences(others)}"
    picture = Picture("The states of an order", described, 720, 300)
    x, y = places[first.after]
    picture.parts.append(f'<circle class="start" cx="50" cy="{y}" r="7"/>')
    picture.arrow((57, y), (x - BOX[0] / 2, y), first.trigger)
    states(picture, places, others, finals)
    return picture.svg()


# ----- the settlement of a trade ------------------------------------------------------------------


def settlement():
    """Draw the status of a trade, from the ledger that real commands change."""
    seen = {}
    half = TradeHalf(1, 1, "101", "bob", "ada")
    fill = FillBody(trade_id="1", price=50, size="60", resting=None, incoming=None)

    def run(*commands):
        """Apply commands to a pending trade; note each change of its status."""
        ledger = SettlementLedger()
        ledger.hold(HeldTrade("rain", (half,), 1_000, fill))
        statuses = SettlementStatuses(ledger)
        for command in commands:
            before = statuses.of(1).settlement
            APPLY[type(command)](ledger, command)
            seen[before, type(command).__name__, statuses.of(1).settlement] = None

    send = SendTrades(operation="one", trades=(1,))
    again = SendTrades(operation="two", trades=(1,))
    for reason in ("", "paused"):
        end = EndTrades(ends=(TradeEnd(trade=1, tx="0x1", reason=reason, block=7),))
        run(send, again, end, ReviseTrades(trades=(1,)))
    places = {"pending": (110, 150), "submitted": (380, 150), "settled": (640, 50)}
    places["failed"] = (640, 250)
    picture = Picture("The settlement of a trade", sentences(seen), 760, 310)
    for before, label, after in seen:
        if before == after:
            picture.loop(*places[before], label)
    states(picture, places, [each for each in seen if each[0] != each[2]], {"settled", "failed"})
    return picture.svg()


APPLY = {
    SendTrades: SettlementLedger.send,
    EndTrades: SettlementLedger.end,
    ReviseTrades: SettlementLedger.revise,
}


# ----- one group commit ---------------------------------------------------------------------------


async def committed(folder):
    """Return the batches of four commands that wait at the same time."""
    batches = []
    log = SqliteLog(folder)
    sequencer = Sequencer(log, ServerState(), clock_ms=lambda: 1_000)
    sequencer.subscribe(lambda batch: batches.append([*batch]))
    running = asyncio.create_task(sequencer.run())
    rain = Market(id="rain", yes="101", no="102")
    await sequencer.submit(lambda now_ms: AddMarket(market=rain, now_ms=now_ms))
    orders = [
        Order(id="a", token="101", maker="ada", side=Side.SELL, price=50, size=60),
        Order(id="b", token="101", maker="bob", side=Side.BUY, price=50, size=60),
        Order(id="c", token="101", maker="eve", side=Side.BUY, price=120, size=60),
        Order(id="d", token="101", maker="joe", side=Side.BUY, price=40, size=60),
    ]

    def build(order):
        return lambda now_ms: Submit(market="rain", order=order, now_ms=now_ms)

    await asyncio.gather(*(sequencer.submit(build(o)) for o in orders), return_exceptions=True)
    sequencer.stop()
    await running
    log.close()
    return batches


def batch():
    """Draw one batch of the sequencer: commands of several callers, one write, events."""
    with tempfile.TemporaryDirectory() as folder:
        _, commands = asyncio.run(committed(folder))
    rows = []
    for each in commands:
        outcome = each.outcome
        names = (
            [f"rejected: {outcome.code}"]
            if isinstance(outcome, (Rejected, Exception))
            else [type(event).__name__ for event in outcome]
        )
        rows.append((each.command.order.maker, each.seq, type(each.command).__name__, names))
    described = "Commands that wait at the same time are written with one sync, then applied. "
    described += " ".join(
        f"{maker}: command {seq}, {kind}: {', '.join(names)}." for maker, seq, kind, names in rows
    )
    height = 90 + 56 * len(rows)
    picture = Picture("One group commit", described, 860, height)
    for x, title in ((70, "callers"), (260, "commands"), (440, "log"), (690, "events")):
        picture.text(x, 28, title, "title")
    middle = 60 + 28 * len(rows)
    picture.box(440, middle, "one sync", size=(96, 56 * len(rows) - 16), kind="end")
    for row, (maker, seq, kind, names) in enumerate(rows):
        y = 88 + 56 * row
        picture.box(70, y, maker, size=(80, 36), kind="end")
        picture.arrow((110, y), (190, y))
        picture.box(260, y, f"{seq}  {kind}", size=(140, 36))
        picture.arrow((330, y), (392, y))
        picture.arrow((488, y), (550, y))
        picture.box(690, y, ", ".join(names), size=(280, 36))
    picture.text(430, height - 8, "replies and the feed follow the sync", "label")
    return picture.svg()


# ----- the floors ---------------------------------------------------------------------------------


def floors():
    """Draw the layers of both packages, from the contracts of import-linter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    packages = {
        name: [
            [each.strip() for each in layer.split(":")]
            for contract in contracts
            if contract["type"] == "layers" and contract["containers"] == [name]
            for layer in contract["layers"]
        ]
        for name in ("clob_server", "clob")
    }
    described = "Imports go down only. " + " ".join(
        f"Floors of {name}, from the top: {'; '.join(', '.join(each) for each in layers)}."
        for name, layers in packages.items()
    )
    height = 70 + 42 * max(map(len, packages.values()))
    picture = Picture("The floors of both packages", described, 860, height)
    for column, (name, layers) in enumerate(packages.items()):
        left = 16 + 424 * column
        picture.text(left + 202, 28, name, "title")
        for row, modules in enumerate(layers):
            width = (404 - 8 * (len(modules) - 1)) / len(modules)
            for place, module in enumerate(modules):
                x = left + width / 2 + (width + 8) * place
                picture.box(x, 62 + 42 * row, module, size=(width, 32))
    picture.text(430, height - 10, "imports go down only", "label")
    return picture.svg()


DRAWN = {
    "order-life.svg": order_life,
    "settlement.svg": settlement,
    "batch.svg": batch,
    "floors.svg": floors,
}
"""Files in docs/pictures, and the functions that draw them."""


def main():
    """Write all pictures."""
    for name, draw in DRAWN.items():
        (PICTURES / name).write_text(draw())


if __name__ == "__main__":
    main()
