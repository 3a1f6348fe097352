"""The ``clob-conformance`` command as ``python -m clob.testing.conformance``."""

import sys

from clob.testing.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
