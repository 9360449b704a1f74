"""Build HTML from elements: every text is escaped unless it is already HTML.

>>> element("p", "5 < 6 & ", element("b", "so on"), class_="note")
'<p class="note">5 &lt; 6 &amp; <b>so on</b></p>'
"""

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

# Characters that HTML may not hold, even escaped: C0 and C1 controls, surrogates, non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
LABEL = 80  # characters of a state's label that a table shows; values.csv has them all
_EMPTY = frozenset({"meta", "br", "hr", "line", "rect", "circle", "path"})


class Html(str):
    """A text that is HTML already, and is not escaped again."""

    __slots__ = ()


Content: TypeAlias = "str | int | Html | Iterable[Content] | None"


def escaped(text: object) -> Html:
    """Return the text as HTML shows it, with a mark for characters that HTML cannot hold."""
    return Html(html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True))


def joined(content: Content) -> Html:
    """Return the contents as HTML, one after the other; None is left out."""
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int):
        return escaped(content)
    return Html("".join(joined(part) for part in content))


def element(tag: str, *content: Content, **attributes: object) -> Html:
    """Return an element; ``class_`` is ``class``, and ``aria_label`` is ``aria-label``.

    An attribute that is None or False is left out, and one that is True has no value.
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY:
        return Html(f"<{tag}{written}>" if tag in {"meta", "br", "hr"} else f"<{tag}{written}/>")
    return Html(f"<{tag}{written}>{joined(content)}</{tag}>")


def named(text: object, most: int = 1000) -> Html:
    """Return a text that somebody else chose, cut to at most so many characters.

    Its direction of writing does not change the text around it.
    """
    whole = str(text)
    return element("bdi", whole if len(whole) <= most else whole[: most - 1] + "…")


def table(
    caption: Content,
    heads: Iterable[Content],
    rows: Iterable[Iterable[Content]],
    *,
    name: str,
    numbers: Iterable[int] = (),
    long: bool = False,
    small: bool = False,
) -> Html:
    """Return a table that scrolls in a box of its own; the first cell of a row names the row.

    Args:
        caption: what it shows.
        heads: of the columns.
        rows: of cells.
        name: of the box that scrolls, for those who do not see it.
        numbers: the columns that hold numbers.
        long: whether the box is limited in height.
        small: whether it is only as wide as it must be.

    Returns:
        The box with the table.
    """
    right = set(numbers)

    def cell(at: int, content: Content) -> Html:
        kind = "number" if at in right else None
        if at == 0:
            return element("th", content, scope="row", class_=kind)
        return element("td", content, class_=kind)

    head = element(
        "tr",
        [
            element("th", content, scope="col", class_="number" if at in right else None)
            for at, content in enumerate(heads)
        ],
    )
    body = [element("tr", [cell(at, content) for at, content in enumerate(row)]) for row in rows]
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption)),
            element("thead", head),
            element("tbody", body),
        ),
        class_="scroll long" if long else "scroll small" if small else "scroll",
        role="region",
        tabindex="0",
        aria_label=name,
    )


def facts(
    caption: Content, rows: Iterable[tuple[Content, Content]], *, name: str, small: bool = False
) -> Html:
    """Return a table of two columns: what, and its value.

    Args:
        caption: what it shows.
        rows: of names and values.
        name: of the box that scrolls, for those who do not see it.
        small: whether it is only as wide as it must be.

    Returns:
        The box with the table.
    """
    body = [
        element("tr", element("th", what, scope="row"), element("td", value))
        for what, value in rows
    ]
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption)),
            element("tbody", body),
            class_="facts",
        ),
        class_="scroll small" if small else "scroll",
        role="region",
        tabindex="0",
        aria_label=name,
    )
