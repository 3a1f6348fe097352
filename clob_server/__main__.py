"""The ``clob-server`` command; ``python -m clob_server`` without a subcommand means ``run``."""

import gc
import sys

EXTRA_MISSING = "clob-server needs the extra: pip install 'clob[server]'"


def main(arguments: list[str] | None = None) -> int:
    """Run the command, or report that the packages of the extra ``server`` are missing.

    Args:
        arguments: the arguments after the command name; None means ``sys.argv``.

    Returns:
        The exit code; 2 if a package is missing.
    """
    gc.disable()  # the collector would walk through the modules again and again while they load
    try:
        from clob_server import cli  # noqa: PLC0415 - its packages may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("clob", "clob_server"):
            raise
        sys.stderr.write(f"{EXTRA_MISSING} (no module {error.name!r})\n")
        return 2
    finally:
        gc.enable()
    return cli.main(arguments)


if __name__ == "__main__":
    given: list[str] = sys.argv[1:]
    asks_for_help: bool = given[:1] in (["-h"], ["--help"], ["--version"])
    if not asks_for_help and (not given or given[0].startswith("-")):
        given.insert(0, "run")
    sys.exit(main(given))
