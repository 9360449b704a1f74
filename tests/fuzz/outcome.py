"""What a fuzzer tried, and what happened."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The counts of one fuzzer; what it found is a line each, and should be nothing."""

    name: str
    tried: int
    accepted: int
    refused: int
    seconds: float
    found: tuple[str, ...]
