"""The core."""

from privalue.core._private import Private

__all__ = ["Private"]
