"""What every part of a page says in the same way."""

from privalue.report._html import Content, Html, element


def paragraphs(*texts: Content) -> list[Html]:
    """Each text as a paragraph; None is left out."""
    return [element("p", text) for text in texts if text is not None]


def hash_of(text: str) -> Html:
    """A hash, which may break anywhere."""
    return element("span", text, class_="hash")


def number(value: float | None) -> str:
    """Four digits; values.csv has them all."""
    if value is None:
        return "unbounded"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share of a whole, which may be larger than it."""
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def interval(low: float | None, high: float | None) -> str:
    """Both ends, in words."""
    return f"{number(low)} to {number(high)}"
