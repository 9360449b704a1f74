"""Draw reproducible bits for experiments: anyone with the seed can subtract the noise."""

import numpy as np

from privalue.errors import UsageError


class SeededForExperimentsOnly:
    """A reproducible stream: anyone with the seed can subtract the noise. Not private.

    The stream goes on from draw to draw; do not share one source between threads.
    """

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError("seed must be an integer that is 0 or more")
        self._generator = np.random.Philox(seed)

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes of the stream, in whole words."""
        words = self._generator.random_raw(-(-count // 8))
        return words.astype("<u8").tobytes()[:count]

    def __repr__(self) -> str:
        return "SeededForExperimentsOnly(not private)"
