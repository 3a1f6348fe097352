"""``python -m clob_server`` is the ``clob-server`` command."""

import sys

from clob_server.cli import main

sys.exit(main())
