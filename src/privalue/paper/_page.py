"""Write computed tables into a page of the documentation, and figures beside it.

A page says ``<!-- claims: begin -->`` and ``<!-- claims: end -->``; the text between them is
replaced by the table that a reproduction has computed, so that nobody types it.
"""

import re
import shutil
from pathlib import Path

from privalue.errors import UsageError
from privalue.paper._claims import markdown
from privalue.paper._reproduce import Reproduction, savings_markdown


def replaced(text: str, name: str, table: str) -> str:
    """Return the page with the table between its markers.

    >>> replaced("a <!-- t: begin -->old<!-- t: end --> b", "t", "new")
    'a <!-- t: begin -->\\n\\nnew\\n<!-- t: end --> b'
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(found.findall(text)) != 1:
        raise UsageError(f"the page needs the markers {begin} and {end}, each once")
    return found.sub(lambda _: f"{begin}\n\n{table}\n{end}", text)


def update_page(made: Reproduction, page: Path) -> list[Path]:
    """Write the tables into the page, and the figures into ``pictures`` beside it."""
    text = page.read_text(encoding="utf-8")
    text = replaced(text, "claims", markdown(made.claims))
    text = replaced(text, "savings", savings_markdown(made.savings))
    page.write_text(text, encoding="utf-8")
    folder = page.parent / "pictures"
    written = [page]
    for picture in made.pictures:
        name = picture.name if picture.stem == "surpassed" else f"reproduction-{picture.name}"
        written.append(Path(shutil.copyfile(picture, folder / name)))
    return written
