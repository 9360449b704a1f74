"""Run every experiment into a page: ``python -m privalue.paper FOLDER docs/reproduction.md``."""

import sys
from pathlib import Path

from privalue.paper._page import update_page
from privalue.paper._reproduce import reproduce
from privalue.paper._settings import FULL


def main() -> None:
    """Run everything, and write the page's tables and figures."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    made = reproduce(
        Path(sys.argv[1]),
        FULL,
        progress=lambda done, total: print(f"\r{done}/{total}", end="", file=sys.stderr),
    )
    print(f"\n{made.seconds:.0f} seconds", file=sys.stderr)
    for file in update_page(made, Path(sys.argv[2])):
        print(file)


if __name__ == "__main__":
    main()
