"""Format an error for people."""


def shown(error: float) -> str:
    """Return an error with two or three digits."""
    if error >= 1000:
        return f"{error:,.0f}" if error < 1e5 else f"{error:.2g}"
    return f"{error:.2g}" if error < 0.1 else f"{error:.3g}"
