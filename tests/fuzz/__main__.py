"""``python -m fuzz``: see ``fuzz.run``."""

import sys

from fuzz.run import main

if __name__ == "__main__":  # also imported by the processes that it starts
    sys.exit(main())
