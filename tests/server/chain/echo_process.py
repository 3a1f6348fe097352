"""A child process for tests: echoes its input, exits or hangs on request."""

import os
import sys
import threading
import time

from clob_server.chain.messages import LINE_BYTES_MAX


def beat():
    """Give signs of life quickly."""
    while True:
        os.write(1, b"\n")
        time.sleep(0.005)


def main():
    """Repeat each line; ``die`` exits with code 7, ``hang`` ignores the end of the input,
    ``beat`` gives signs of life from then on,
    ``long`` writes a line that is too long."""
    for line in sys.stdin:
        if line == "die\n":
            sys.exit(7)
        if line == "hang\n":
            time.sleep(600)
        if line == "beat\n":
            threading.Thread(target=beat, daemon=True).start()
            continue
        if line == "long\n":
            line = "x" * (LINE_BYTES_MAX + 1)
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
