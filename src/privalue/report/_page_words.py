"""Format the texts that every part of a page has in the same way."""

from privalue.report._html import Content, Html, element


def paragraphs(*texts: Content) -> list[Html]:
    """Return each text as a paragraph; None is left out."""
    return [element("p", text) for text in texts if text is not None]


def hash_of(text: str) -> Html:
    """Return a hash, which may break anywhere."""
    return element("span", text, class_="hash")


def number(value: float | None) -> str:
    """Format a number with four digits; values.csv has them all.

    >>> number(0.123456), number(123456.7), number(None)
    ('0.1235', '123,457', 'unbounded')
    """
    if value is None:
        return "unbounded"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """Format a share of a whole, which may be larger than the whole.

    >>> percent(0.0123), percent(0.5), percent(12.0)
    ('1.2%', '50%', '1,200%')
    """
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def interval(low: float | None, high: float | None) -> str:
    """Format an interval by both its ends.

    >>> interval(0.25, None)
    '0.25 to unbounded'
    """
    return f"{number(low)} to {number(high)}"
