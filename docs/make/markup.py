"""Render one Markdown file as HTML: links to other pages, headings with names, code in colour.

What a reader would stumble over (a formula that cannot be set, code without a language) is
collected as a problem of the page, and the site is not built.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from docs.make.typography import TexError, lettered, mathml

_LEXERS = {"output": "text", "toml": "toml", "sh": "bash"}


@dataclass(kw_only=True)
class Page:
    """A rendered page, and what has to be checked about it."""

    source: str
    title: str = ""
    body: str = ""
    headings: list[tuple[int, str, str]] = field(default_factory=list)  # level, anchor, text
    words: list[tuple[str, str]] = field(default_factory=list)  # anchor, text: for the search
    targets: list[str] = field(default_factory=list)  # as written
    problems: list[str] = field(default_factory=list)


Linked = Callable[[str], str]


def rendered(source: str, text: str, linked: Linked) -> Page:
    """Render the page of a Markdown text.

    Args:
        source: the file, relative to the repository.
        text: its content.
        linked: turns a target as written into one of the site.

    Returns:
        The page with its headings, words, targets and problems.
    """
    page = Page(source=source)
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    markdown.use(dollarmath_plugin, double_inline=True)
    for kind in ("math_inline", "math_block", "math_inline_double"):
        markdown.add_render_rule(kind, _formula(page, display=kind != "math_inline"))
    markdown.add_render_rule("fence", _code(page))
    markdown.add_render_rule("code_block", _indented(page))
    markdown.add_render_rule("text", lambda _self, tokens, at, *_: lettered(tokens[at].content))
    tokens = markdown.parse(text)
    _name_headings(page, tokens)
    for token in _all(tokens):
        if token.type == "em_open" and token.markup == "_":
            page.problems.append("an underscore makes words italic: write the formula as TeX")
        if token.type == "link_open":
            page.targets.append(str(token.attrs["href"]))
            token.attrs["href"] = linked(str(token.attrs["href"]))
        if token.type == "image":
            page.targets.append(str(token.attrs["src"]))
            token.attrs["src"] = linked(str(token.attrs["src"]))
            if not token.content:
                page.problems.append(f"the picture {token.attrs['src']} has no text in its place")
    body = markdown.renderer.render(tokens, markdown.options, {})
    page.body = re.sub(
        r"<table>.*?</table>",
        lambda m: f'<div class="wide" tabindex="0" role="region" aria-label="Table">{m[0]}</div>',
        body,
        flags=re.DOTALL,
    )
    return page


def slug(text: str) -> str:
    """Return the name of a heading, as code hosts make it.

    >>> slug("What it guarantees, and what not")
    'what-it-guarantees-and-what-not'
    """
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _all(tokens: list[Token]) -> Iterator[Token]:
    """Yield all tokens and their children."""
    for token in tokens:
        yield token
        yield from _all(token.children or [])


def _plain(token: Token) -> str:
    """Return the words of a heading or a paragraph."""
    kinds = {"text", "code_inline", "math_inline", "math_inline_double"}
    return "".join(
        part.content if part.type in kinds else " " if part.type.endswith("break") else ""
        for part in token.children or []
    )


def _name_headings(page: Page, tokens: list[Token]) -> None:
    """Give every heading an anchor, and collect the words under each for the search."""
    taken: Counter[str] = Counter()
    anchor = ""
    for before, token in zip([tokens[0], *tokens], tokens, strict=False):
        if token.type in {"fence", "math_block"}:
            page.words.append((anchor, token.content))
        if token.type != "inline":
            continue
        text = _plain(token)
        if before.type == "heading_open":
            level, name = int(before.tag[1]), slug(text)
            anchor = f"{name}-{taken[name]}" if taken[name] else name
            taken[name] += 1
            before.attrs["id"] = anchor
            page.headings.append((level, anchor, text))
            if level == 1:
                page.title = page.title or text
        page.words.append((anchor, text))


def _formula(page: Page, *, display: bool) -> Callable[..., str]:
    """Return the rule that renders a formula as MathML."""

    def render(_self: object, tokens: list[Token], at: int, *_: object) -> str:
        try:
            made = mathml(tokens[at].content, display=display)
        except TexError as problem:
            page.problems.append(f"formula {problem}")
            return ""
        return f'<div class="formula" tabindex="0">{made}</div>\n' if display else made

    return render


def _code(page: Page) -> Callable[..., str]:
    """Return the rule that renders a block of code in colour."""

    def render(_self: object, tokens: list[Token], at: int, *_: object) -> str:
        language = tokens[at].info.strip()
        if not language:
            page.problems.append(f"a block of code names no language: {tokens[at].content[:40]!r}")
            language = "text"
        lexer = get_lexer_by_name(_LEXERS.get(language, language))
        shown = highlight(tokens[at].content, lexer, HtmlFormatter(nowrap=True))
        return f'<pre class="code {escape(language)}" tabindex="0"><code>{shown}</code></pre>\n'

    return render


def _indented(page: Page) -> Callable[..., str]:
    """Return the rule for indented blocks, which are reported as problems."""

    def render(_self: object, tokens: list[Token], at: int, *_: object) -> str:
        page.problems.append(
            f"an indented block: use $$ for a formula, ``` for code: {tokens[at].content[:40]!r}"
        )
        return ""

    return render
