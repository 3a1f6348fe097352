"""Runs the ``clob`` command as ``python -m clob.cli``."""

import sys

from clob.cli import main

sys.exit(main())
