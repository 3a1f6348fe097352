"""The ``clob`` command as ``python -m clob``."""

import sys

from clob.cli import main

if __name__ == "__main__":
    sys.exit(main())
