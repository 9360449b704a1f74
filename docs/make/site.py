"""Put all pages into the template, and report as an error whatever would mislead a reader."""

import json
import posixpath
import re
import shutil
from collections.abc import Iterator
from html import escape
from importlib.metadata import distribution
from pathlib import Path
from string import Template
from urllib.parse import unquote

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

from docs.make.markup import Page, rendered
from docs.make.navigation import ROOT, Group, address, navigation, written
from docs.make.typography import lettered
from privalue.version import VERSION

_HERE = Path(__file__).parent
_PICTURES = {".png", ".svg"}
_OUTWARD = ("http://", "https://", "mailto:")
_FONT = "STIXTwoMath-Regular.ttf"  # not every system has a font for mathematics
_LONG = 8  # groups with more pages are folded, unless the reader is in them
_SHORT = {  # in the menu
    "README.md": "privalue",
    "docs/README.md": "All pages",
    "docs/tour.md": "A tour",
    "docs/tutorials/statistician.md": "Statistician: CSV to release",
    "docs/tutorials/rl-researcher.md": "RL researcher: Gymnasium, Minari",
    "docs/tutorials/platform-engineer.md": "Platform engineer: Spark",
    "docs/reproduction.md": "The experiments, reproduced",
    "docs/peers.md": "Other libraries",
    "docs/proofs/README.md": "What is proved where",
    "docs/decisions/README.md": "All decisions",
}


class SiteError(Exception):
    """Everything that is wrong with the documentation, one line for each problem."""


def build(out: Path) -> int:
    """Write the site to ``out``, which is made anew, and return the number of its pages.

    Raises:
        SiteError: a link leads nowhere, a page is not listed, or a formula cannot be set.
    """
    site = _Site(navigation())
    problems = [*site.problems(), *site.dangling()]
    if problems:
        raise SiteError("\n".join(problems))
    if out.exists():
        shutil.rmtree(out)
    for place, text in site.texts():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(text, encoding="utf-8")
    for name in sorted(site.needed):
        if Path(name).suffix in _PICTURES:
            there = out / _place_of_file(name)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there)
    shutil.copy(_HERE / "search.js", out)
    shutil.copy(str(distribution("ziamath").locate_file(f"ziamath/fonts/{_FONT}")), out)
    return len(site.pages)


class _Site:
    """All pages of the site, and the files that they link to."""

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups
        self.sources = [source for group in groups for source in group.sources]
        self.template = Template((_HERE / "page.html").read_text(encoding="utf-8"))
        self.needed: set[str] = set()  # linked files that are not pages
        self.lost: list[str] = []
        self.pages = {source: self._page(source) for source in self.sources}

    def _page(self, source: str) -> Page:
        """Render a page; a missing one is noted, and stands empty."""
        path = ROOT / source
        if not path.exists():
            self.lost.append(f"{source}: in the navigation, and does not exist")
            return Page(source=source, title=source)
        text = path.read_text(encoding="utf-8")
        return rendered(source, text, lambda target: self._linked(source, target))

    def _linked(self, source: str, target: str) -> str:
        """Return the site's address for a target as written on a page.

        A file that is not a page is noted as needed; a target that does not exist is noted as lost.
        """
        if target.startswith((*_OUTWARD, "#")):
            return target
        there, anchor = _aimed(source, target)
        if there in self.sources:
            place = address(there)
        elif (ROOT / there).is_file() and not there.startswith(".."):
            self.needed.add(there)
            place = _place_of_file(there)
        else:
            self.lost.append(f"{source}: the link {target} leads nowhere")
            return target
        return _relative(place, address(source)) + (f"#{anchor}" if anchor else "")

    # What is wrong

    def problems(self) -> Iterator[str]:
        """Yield pages without a place, links that lead nowhere, and formulas that cannot be set."""
        for source in sorted(written() - set(self.sources)):
            yield f"{source}: not in docs/make/navigation.py"
        for source in sorted({s for s in self.sources if self.sources.count(s) > 1}):
            yield f"{source}: in the navigation twice"
        yield from self.lost
        for source, page in self.pages.items():
            yield from (f"{source}: {problem}" for problem in page.problems)
            if not page.title:
                yield f"{source}: it has no title"

    def dangling(self) -> Iterator[str]:
        """Yield links to headings that do not exist."""
        anchors = {s: {anchor for _, anchor, _ in p.headings} for s, p in self.pages.items()}
        for source, page in self.pages.items():
            for target in page.targets:
                there, anchor = _aimed(source, target)
                if target.startswith(_OUTWARD) or not anchor:
                    continue
                if anchor not in anchors.get(there, set()):
                    yield f"{source}: the link {target} leads to no heading"

    # What is written

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every text file of the site with its path."""
        for number, (source, page) in enumerate(self.pages.items()):
            steps = {
                "previous": self._step(number - 1, source, "prev", "Before: "),
                "next": self._step(number + 1, source, "next", "Next: "),
            }
            yield address(source), self._filled(address(source), page, source, steps)
        for name in sorted(self.needed):
            if Path(name).suffix not in _PICTURES:
                yield _place_of_file(name), self._filled(_place_of_file(name), _shown(name))
        yield "search-index.js", f"window.privalueIndex = {json.dumps(list(self._index()))};\n"
        yield "style.css", _style()

    def _filled(
        self, place: str, page: Page, here: str = "", steps: dict[str, str] | None = None
    ) -> str:
        """Return the template filled with a page."""
        contents = "".join(
            f'<li class="level-{level}"><a href="#{anchor}">{lettered(text)}</a></li>'
            for level, anchor, text in page.headings
            if level in {2, 3}
        )
        return self.template.substitute(
            {"previous": "", "next": ""} | (steps or {}),
            title=escape(page.title),
            name="privalue" if here == "README.md" else f"{escape(page.title)} - privalue",
            root=_relative("", place).removesuffix(".") or "",
            menu=self._menu(place, here),
            contents=f"<h2>On this page</h2><ul>{contents}</ul>" if contents else "",
            body=page.body,
            version=VERSION,
        )

    def _menu(self, place: str, here: str) -> str:
        """Return the menu, with the current page marked."""

        def current(source: str) -> str:
            return ' aria-current="page"' if source == here else ""

        parts = []
        for group in self.groups:
            items = "".join(
                f'<li><a href="{_relative(address(source), place)}"{current(source)}>'
                f"{self._name(source)}</a></li>"
                for source in group.sources
            )
            unfolded = " open" if here in group.sources or len(group.sources) <= _LONG else ""
            parts.append(
                f"<details{unfolded}><summary>{group.title}</summary><ul>{items}</ul></details>"
            )
        return "\n".join(parts)

    def _name(self, source: str) -> str:
        """Return the name of a page in the menu."""
        return lettered(_SHORT.get(source, self.pages[source].title))

    def _step(self, number: int, source: str, kind: str, before: str) -> str:
        """Return the link to the page before or after; empty at either end."""
        if not 0 <= number < len(self.sources):
            return ""
        there = self.sources[number]
        link = _relative(address(there), address(source))
        return f'<a rel="{kind}" href="{link}">{before}{self._name(there)}</a>'

    def _index(self) -> Iterator[list[str]]:
        """Yield address, title, heading and words of every section, for the search."""
        for source, page in self.pages.items():
            names = {anchor: text for _, anchor, text in page.headings}
            sections: dict[str, list[str]] = {}
            for anchor, text in page.words:
                sections.setdefault(anchor, []).append(text)
            for anchor, texts in sections.items():
                words = re.sub(r"\s+", " ", " ".join(texts))
                title = _SHORT.get(source, page.title)
                yield [f"{address(source)}#{anchor}", title, names.get(anchor, ""), words]


def _aimed(source: str, target: str) -> tuple[str, str]:
    """Return the file and the heading that a target means."""
    name, _, anchor = unquote(target).partition("#")
    if not name:
        return source, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), name)), anchor


def _place_of_file(name: str) -> str:
    """Return the path in the site of a file that is not a page."""
    inside = name.removeprefix("docs/")
    return inside if Path(name).suffix in _PICTURES else f"files/{inside}.html"


def _relative(place: str, here: str) -> str:
    """Return the relative path from one page to another file."""
    start = posixpath.dirname(here) or "."
    return posixpath.relpath(place, start) if place else posixpath.relpath(".", start) + "/"


def _shown(name: str) -> Page:
    """Return a file of the repository as a page, in colour."""
    text = (ROOT / name).read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(name)
    except ValueError:
        lexer = get_lexer_for_filename("a.txt")
    shown = highlight(text, lexer, HtmlFormatter(nowrap=True))
    body = f'<h1>{escape(name)}</h1>\n<pre class="code" tabindex="0"><code>{shown}</code></pre>'
    return Page(source=name, title=name, body=body)


def _style() -> str:
    """Return the style sheet, with the colours of code for light and dark."""
    light = HtmlFormatter(style="xcode").get_style_defs("pre.code")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre.code")
    own = (_HERE / "style.css").read_text(encoding="utf-8")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n{own}"
