"""Write the numbers that have no interval of their own: shares, public bounds, widths."""

from privalue._written import written, written_exactly


def number(value: float | None) -> str:
    """Format a number that has no interval, with four digits.

    >>> number(0.123456), number(123456.7)
    ('0.1235', '123,457')
    """
    return str(written(value))


def percent(share: float) -> str:
    """Format a share of a whole, which may be larger than the whole.

    >>> percent(0.0123), percent(0.5), percent(12.0)
    ('1.2%', '50%', '1,200%')
    """
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def interval(low: float | None, high: float | None) -> str:
    """Format public bounds by both of their ends.

    >>> interval(0.25, 19.999999999999982)
    '0.25 to 20'
    """
    return f"{written_exactly(low)} to {written_exactly(high)}"
