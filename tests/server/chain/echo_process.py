"""A child process for tests: echoes its input, exits or hangs on request."""

import sys
import time


def main():
    """Repeat each line; ``die`` exits with code 7, ``hang`` ignores the end of the input."""
    for line in sys.stdin:
        if line == "die\n":
            sys.exit(7)
        if line == "hang\n":
            time.sleep(600)
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
