"""Programs and notebooks in examples/ run as they are, and print and draw what they say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
END_S = 120
CELL_S = 300


def run(name, *arguments):
    """Run an example; return the lines that it prints."""
    pytest.importorskip("numpy")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=END_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_program_is_run_here():
    text = Path(__file__).read_text()
    assert [each.name for each in EXAMPLES.glob("*.py") if f'"{each.name}"' not in text] == []


def test_book_in_a_program_prints_a_trade_and_a_rejection():
    assert run("embed.py") == [
        "bob bought 25 at 52 from alice",
        "carol's order is rejected: PRICE_OUT_OF_RANGE: price must be an integer from 1 to 99 "
        "(cents); got 120",
        "bids [(50, 5)]",
        "asks [(52, 15)]",
    ]


def test_exchange_goes_on_after_a_torn_write(tmp_path):
    assert run("exchange.py", tmp_path)[-1] == "bob has 95.5 of usd"
    with (tmp_path / "exchange.journal").open("ab") as journal:
        journal.write(b"CLOBFRM")
    for bought in (15, 22.5):
        first, _, *balances = run("exchange.py", tmp_path)
        assert first.endswith("commands in the journal, all hashes agree")
        assert f"bob has {bought:g} of 101" in balances


def test_custom_reader_replays_its_sample_and_a_file(tmp_path):
    assert "15 at 52 against order 1" in run("custom_reader.py")
    file = tmp_path / "mine.jsonl"
    file.write_text('{"t": 1, "id": 1, "do": "add", "side": "buy", "cents": 40, "size": 3}\n')
    assert run("custom_reader.py", file)[0].startswith("mine.jsonl: 1 events, 0 fills")


def test_backtest_prints_fills_and_profit():
    lines = run("backtest.py")
    assert "0 divergences" in lines[0]
    assert lines[-1].startswith("profit ")


def test_arbitrage_finds_less_at_a_larger_edge():
    fills = [int(line.split()[2]) for line in run("arbitrage.py")]
    assert len(fills) == 3
    assert fills == sorted(fills, reverse=True)


def test_market_maker_quotes_around_the_middle(tmp_path):
    live = pytest.importorskip("tests.server.live")
    makers = pytest.importorskip("tests.server.api.makers")
    with live.live_server(tmp_path, rate_limits=False) as server:
        market, api = makers.MarketIds(), makers.ApiClient(server.http)
        other = makers.Maker()
        api.gasless(other.gasless(market, makers.BUY, price=40))
        api.gasless(other.gasless(market, makers.SELL, price=60))
        lines = run("market_maker.py", server.url, market.id, 5)
        assert lines[:2] == ["buy 5 at 48: open", "sell 5 at 52: open"]
        assert [order["price"] for order in api.orders(marketId=market.id)] == [40, 60]


def test_capacity_prints_what_an_order_takes():
    lines = run("capacity.py", 40)
    assert [line.split(":")[0] for line in lines] == ["memory", "log", "history", "processor"]


# ----- notebooks ------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    nbclient, nbformat, *_ = map(
        pytest.importorskip, ("nbclient", "nbformat", "ipykernel", "numpy", "pandas")
    )
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=CELL_S, resources=resources).execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    assert not [one for one in outputs if one.output_type == "error"]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    html = [one.data["text/html"] for one in outputs if "text/html" in one.get("data", {})]
    assert any("<table" in one for one in html)


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path):
    """Outputs would contain paths and times of the machine that ran it."""
    cells = json.loads(path.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
