"""A process for the tests of children: it says what it hears, until it is to die or is stubborn."""

import sys
import time


def main():
    """Repeat each line; ``die`` ends with 7, ``hang`` stays whatever happens to the input."""
    for line in sys.stdin:
        if line == "die\n":
            sys.exit(7)
        if line == "hang\n":
            time.sleep(600)
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
