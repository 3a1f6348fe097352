"""``python -m clob_server`` is the ``clob-server`` command; without one of its commands it runs."""

import sys

from clob_server.cli import main

if __name__ == "__main__":
    arguments: list[str] = sys.argv[1:]
    asks: bool = arguments[:1] in (["-h"], ["--help"], ["--version"])
    if not asks and (not arguments or arguments[0].startswith("-")):
        arguments.insert(0, "run")
    sys.exit(main(arguments))
