"""The ``clob-server`` command, which ``python -m clob_server`` is as well."""

import gc
import sys

EXTRA_MISSING = "clob-server needs the extra: pip install 'clob[server]'"


def main(arguments: list[str] | None = None) -> int:
    """Run the command, or report that the packages of the extra ``server`` are missing.

    Args:
        arguments: the arguments after the command name; None means ``sys.argv``. Options without a
            subcommand, or none, mean ``run``.

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
    given = sys.argv[1:] if arguments is None else arguments
    first = given[0] if given else ""
    runs = not first or (first.startswith("-") and first not in ("-h", "--help", "--version"))
    return cli.main(["run", *given] if runs else given)


if __name__ == "__main__":
    sys.exit(main())
