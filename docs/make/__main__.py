"""Build the site: `python -m docs.make [FOLDER]`."""

import sys
from pathlib import Path

from docs.make.site import SiteError, build


def main(arguments: list[str]) -> int:
    """Build into the folder named, or into `site`; return the exit code."""
    out = Path(arguments[0]) if arguments else Path("site")
    try:
        pages = build(out)
    except SiteError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{pages} pages: {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
