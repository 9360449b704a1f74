"""Find what a reader would stumble over in the Markdown of a page."""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

_PARSER = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


def problems(text: str) -> Iterator[str]:
    """Yield one line for each problem of a page.

    >>> list(problems("# A page\\n\\n![](figure.png)"))
    ['the picture figure.png has no text in its place']
    """
    tokens = _PARSER.parse(text)
    lines = text.splitlines()
    for token in tokens:
        if token.type == "fence" and not token.info.strip():
            yield f"a block of code names no language: {token.content[:40]!r}"
        if token.type == "code_block":
            yield f"an indented block: use $$ for a formula, ``` for code: {token.content[:40]!r}"
        if token.type in {"bullet_list_open", "ordered_list_open"} and token.level == 0:
            above = lines[token.map[0] - 1] if token.map and token.map[0] else ""
            if above.strip():
                yield f"a list without an empty line before it: {above[:40]!r}"
    for token in _all(tokens):
        if token.type == "em_open" and token.markup == "_":
            yield "an underscore makes words italic: write the formula as TeX"
        if token.type == "image" and not token.content:
            yield f"the picture {token.attrs['src']} has no text in its place"
    if not any(token.type == "heading_open" and token.tag == "h1" for token in tokens):
        yield "it has no title"


def _all(tokens: list[Token]) -> Iterator[Token]:
    """Yield all tokens and their children."""
    for token in tokens:
        yield token
        yield from _all(token.children or [])


def slug(text: str, separator: str = "-") -> str:
    """Return the name of a heading, as code hosts make it.

    >>> slug("What it guarantees, and what not")
    'what-it-guarantees-and-what-not'
    """
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)
