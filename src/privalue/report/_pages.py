"""Fill templates with contexts: every text is escaped, and a page loads nothing from elsewhere.

Templates, style and script are files in ``pages``. A page is one file, to mail, print and archive:
style and script are part of it, and a policy in its head refuses whatever else would run or load.
"""

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privalue._forest import style as plot_style
from privalue.releases import NOT_PRIVATE, Release

if TYPE_CHECKING:
    from jinja2 import Environment

# Characters that HTML may not hold, even escaped: C0 and C1 controls, surrogates, non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
LABEL = 80  # characters of a state's label that a table shows; values.csv has them all
_FOLDER = Path(__file__).parent / "pages"


class PageHtml(str):
    """A text that is HTML already, and is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text; templates ask for it."""
        return self


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table that scrolls in a box of its own; the first cell of a row names the row."""

    name: str  # of the box, for those who do not see it
    caption: str
    rows: Sequence[Sequence[object]]
    heads: Sequence[str] = ()
    numbers: Sequence[int] = ()  # the columns that hold numbers
    kind: str = ""  # long: limited in height; small: as wide as it must be; facts: two columns
    flags: bool = False  # whether the last column holds flags, and stays in sight
    key: str = ""  # an id


def cleaned(text: str) -> str:
    """Return a text with a mark for characters that HTML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)


def named(text: object, most: int = 1000) -> PageHtml:
    """Return a text that somebody else chose, cut to at most so many characters.

    Its direction of writing does not change the text around it.

    >>> named("5 < 6")
    '<bdi>5 &lt; 6</bdi>'
    """
    return PageHtml(f"<bdi>{html.escape(cleaned(_cut(str(text), most)), quote=True)}</bdi>")


def _cut(text: str, most: int) -> str:
    """Return a text of at most so many characters: names often differ at their ends."""
    if len(text) <= most:
        return text
    end = most // 2
    return f"{text[: most - end - 1].rstrip()}…{text[len(text) - end :].lstrip()}"


def listed(texts: Sequence[object], more: int = 0, most: int = LABEL) -> PageHtml:
    """Return texts that somebody else chose, and how many more there are."""
    apart = "; " if any("," in str(text) for text in texts) else ", "
    shown = apart.join(named(text, most) for text in texts)
    return PageHtml(shown + (f" and {more:,} more" if more > 0 else ""))


def hashed(text: str) -> PageHtml:
    """Return a hash, which may break anywhere."""
    return PageHtml(f'<span class="hash">{html.escape(text)}</span>')


def bar(share: float, text: str, kind: str = "") -> PageHtml:
    """Return a text with a bar before it, of so large a share of the room."""
    wide = f"{100 * min(max(share, 0.0), 1.0):.1f}".rstrip("0").rstrip(".")
    return PageHtml(
        f'<span class="drawn"><span class="bar {kind}" aria-hidden="true">'
        f'<i style="width:{wide}%"></i></span>{html.escape(text)}</span>'
    )


def flags(texts: Sequence[str]) -> PageHtml:
    """Return flags as marks; where there is none, the word."""
    if not texts:
        return PageHtml('<span class="none">none</span>')
    return PageHtml(" ".join(f'<span class="flag">{html.escape(text)}</span>' for text in texts))


SEEDED = "Seeded noise, for experiments only: nothing is promised. Do not publish."


def headed(release: Release, title: str, warning: str = SEEDED) -> dict[str, Any]:
    """Return a page's title and banner: both say it first if the noise was seeded."""
    if release.private:
        return {"title": title, "banner": None}
    return {"title": f"{NOT_PRIVATE}: {title}", "banner": (f"{NOT_PRIVATE}.", warning)}


def render(template: str, **context: Any) -> str:
    """Return a whole page, made from a template and its context."""
    return _environment().get_template(template).render(context)


def load_page() -> None:
    """Compile the templates of a release's page, so that there is less to do once it is made."""
    for template in ("report.html", "base.html", "parts.html"):
        _environment().get_template(template)


@cache
def _environment() -> "Environment":
    """Return the one environment; Jinja2 is imported only where a page is made."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=FileSystemLoader(_FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.globals.update(
        style=PageHtml(_file("style.css") + plot_style()),
        private_style=PageHtml(_file("private.css")),
        script=PageHtml(script),
        # This one script may run: whatever else slipped into a page could not.
        script_hash=f"sha256-{digest}",
    )
    return made


def _file(name: str) -> str:
    """Return the text of a file that is part of every page."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Return what a template writes for a value: nothing for None, and no forbidden character."""
    if value is None:
        return ""
    if type(value) is str:
        return cleaned(value)
    return value
