"""The help of the commands: stated defaults are the real ones, and exit codes are printed."""

import argparse
import re

import pytest

from clob.cli import _parser, main
from clob.replay import Stream, synthetic_day, write_npz
from clob.replay.io.write import write_stream
from tests.replay.readers import mutants

STATED = re.compile(r"default: ([^;,]+(?:,\w+)?)$")
"""A default at the end of the help of an option."""

MAKER = "clob.replay.strategies:MarketMaker"


def commands():
    """Return the parser of each command, by name."""
    parser = _parser()
    subparsers = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    return subparsers.choices


def stated():
    """Return command, option and stated default of each option that states one."""
    found = {}
    for name, parser in commands().items():
        for action in parser._actions:
            text = (action.help or "") % {"default": action.default}
            default = STATED.search(text)
            if action.option_strings and default:
                found[name, action.option_strings[0]] = (action, default[1])
    return found


@pytest.mark.parametrize("command", ["", *commands()])
def test_exit_codes_are_printed(command, capsys):
    with pytest.raises(SystemExit):
        main([*filter(None, [command]), "--help"])
    text = " ".join(capsys.readouterr().out.split())
    codes = text.partition("Exit code: ")[2]
    for code in ("0 ", "2 ", "130 interrupted"):
        assert code in codes, command


@pytest.mark.parametrize(("command", "option"), stated())
def test_stated_default_is_that_of_the_parser(command, option):
    action, text = stated()[command, option]
    if action.default in (None, []):
        # The library decides, see the test of equal results.
        assert option in {**READING, **TABLES, **TRADING} or text in WORDS
    else:
        assert (action.type or str)(text) == action.default


WORDS = (
    "all",
    "from the first line",
    "never",
    "none",
    "one for each processor",
    "unlimited credit",
)
"""Defaults that no value of the option states."""

READING = {"--level-rule": "tail", "--policy": "raise", "--format": "auto"}
TABLES = {"--time-unit": "ns", "--tick": "1", "--lot": "1", "--separator": ","}
TRADING = {
    "--latency": "0ms",
    "--fee-bps": "0",
    "--scale": "100",
    "--mark": "others-mid",
    "--equity-every": "1m",
    "--mode": "rematch",
    "--check": "fills,bbo",
    "--allow": "0",
}
"""Options with a value that is equal to their default."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a recording for each group of options."""
    folder = tmp_path_factory.mktemp("help")
    (folder / "market.json").write_bytes(mutants.betfair())
    write_stream(folder / "day.csv", Stream.of(synthetic_day(1, 60)))
    write_npz(folder / "day.npz", synthetic_day(1, 60))
    return folder


def replayed(capsys, *arguments):
    """Return exit code and output without the line of the time."""
    code = main(["replay", *map(str, arguments)])
    out = capsys.readouterr().out.splitlines()
    return code, [line for line in out if not line.startswith("time")]


@pytest.mark.parametrize("option", [*READING, *TABLES, *TRADING])
def test_stated_default_changes_nothing(files, option, capsys):
    maker = ("--strategy", MAKER, "--every", "10m")
    name, more, values = next(
        case
        for case in (
            ("market.json", (), READING),
            ("day.csv", (), TABLES),
            ("day.npz", maker, TRADING),
        )
        if option in case[2]
    )
    plain = replayed(capsys, files / name, *more)
    assert replayed(capsys, files / name, *more, option, values[option]) == plain
    state = stated().get(("replay", option))
    if state is not None and state[1] not in WORDS:
        assert state[1].startswith(("none", "the value in the file", values[option]))
