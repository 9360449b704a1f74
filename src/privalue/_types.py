"""Name the types that several rooms speak of."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called now and then with how much is done, and how much there is, if that is known."""
