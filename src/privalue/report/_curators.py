"""Describe the diagnostics that the curator's page and screen are given, by their shape.

This room imports no private type: its caller decides what the curator is shown.
"""

from typing import Any, Protocol

from privalue.study import Study


class PrivateDiagnostics(Protocol):
    """The diagnostics of ``privalue.inspect``, as far as they are shown."""

    @property
    def study(self) -> Study:
        """Return what is public."""

    def private_columns(self) -> dict[str, Any]:
        """Return everything else. PRIVATE: none of it may be published."""

    def warnings(self) -> list[str]:
        """Return what the curator should know before a release. PRIVATE."""

    def advice(self) -> list[tuple[str, str]]:
        """Return every warning with what to do about it. PRIVATE."""
