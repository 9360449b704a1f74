"""Format an error for people."""


def shown(error: float) -> str:
    """Return an error with two or three digits."""
    if error >= 1000:
        return f"{error:,.0f}" if error < 1e5 else f"{error:.2g}"
    return f"{error:.2g}" if error < 0.1 else f"{error:.3g}"


def times(ratio: float) -> str:
    """Return how many times better something is, with two digits.

    >>> times(25.31), times(13642.0)
    ('25', '14,000')
    """
    return f"{ratio:.2g}" if ratio < 99.5 else f"{float(f'{ratio:.2g}'):,.0f}"
