"""The law of a Gaussian rounded to a grid, with proven digits, and a checker of samples.

``RoundedGaussian`` has the probability of every multiple j of the grid,

    P(j) = Phi(((j + 1/2) g - mu) / sigma) - Phi(((j - 1/2) g - mu) / sigma),

from ball arithmetic (Arb). ``RoundedGaussian.check`` compares samples with it. Each entry of its
answer is an upper bound, valid at every sample size, on the probability that a *correct* sampler
looks as bad: an alarm at level a is false with probability at most a. The bounds are

* for counts in k cells: P(n KL(empirical | true) >= t) <= e^{-t} (e t / (k-1))^{k-1}, t > k - 1
  (R. Agrawal, Finite-sample concentration of the multinomial in relative entropy, IEEE Trans.
  Inf. Theory 66, 2020); 2 n KL is the likelihood-ratio chi-square statistic;
* for the distribution function: P(sup |F_n - F| > t) <= 2 e^{-2 n t^2} (Dvoretzky, Kiefer,
  Wolfowitz; constant of Massart 1990), which also holds for laws on a grid.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

CHECKS = ("cells", "distribution", "residues", "pairs", "pairs of sizes")
TAIL = np.array([1e-4, 1e-3, 1e-2])
QUARTERS = (0.25, 0.5, 0.75)


def alarm_of_counts(counts: Sequence[float], probabilities: Sequence[float]) -> float:
    """The bound on P(divergence at least as large) for these counts and true probabilities."""
    n = sum(counts)
    divergence = 0.0
    for count, probability in zip(counts, probabilities, strict=True):
        if count:
            if probability <= 0.0:
                return 0.0
            divergence += count * math.log(count / (n * probability))
    freedom = sum(probability > 0.0 for probability in probabilities) - 1
    if freedom == 0 or divergence <= freedom:
        return 1.0
    return math.exp(freedom * (1.0 + math.log(divergence / freedom)) - divergence)


def alarm_of_distance(distance: float, n: int) -> float:
    """The bound on P(sup |F_n - F| > distance) for n independent samples."""
    return min(1.0, 2.0 * math.exp(-2.0 * n * distance**2))


class RoundedGaussian:
    """N(center, sigma^2) rounded to the nearest multiple of the grid.

    Multiples beyond nine standard deviations are counted with the last one before them, so that
    the table is finite and still exact.
    """

    def __init__(self, center: float, sigma: float, grid: float) -> None:
        mu, scale, step = (fmpq(*value.as_integer_ratio()) for value in (center, sigma, grid))
        middle, width = round(center / grid), math.ceil(9.0 * sigma / grid) + 2
        self.first, self.last = middle - width, middle + width
        with ctx.workprec(256):
            root = arb(2).sqrt()
            below = [
                (arb((mu - (j + fmpq(1, 2)) * step) / scale) / root).erfc() / 2
                for j in range(self.first, self.last)
            ]
            edges = [arb(0), *below, arb(1)]
            masses = [high - low for low, high in pairwise(edges)]
            assert all(mass.rad() < 1e-60 for mass in masses)
            self.mass = np.array([float(mass.mid()) for mass in masses])
            self.distribution = np.array([float(edge.mid()) for edge in edges[1:]])
        distances = abs((np.arange(self.first, self.last + 1) - center / grid).astype(float))
        order = np.argsort(distances, kind="stable")
        self._cells = _classes(
            [*TAIL, *np.linspace(0.05, 0.95, 19), *(1.0 - TAIL[::-1])], self.mass
        )
        self._residues = np.arange(len(self.mass)) % 16
        self._quarters = _classes(QUARTERS, self.mass)
        self._sizes = np.empty_like(self._quarters)
        self._sizes[order] = _classes(QUARTERS, self.mass[order])

    def check(self, multiples: Sequence[int]) -> dict[str, float]:
        """For each of ``CHECKS``, the bound on the probability that a correct sampler does worse.

        ``cells`` compares frequencies and ``distribution`` their sums (Kolmogorov-Smirnov);
        ``residues`` looks at the multiples modulo 16; the ``pairs`` cross-tabulate adjacent
        samples, and ``pairs of sizes`` their distances from the centre.
        """
        at = np.array([min(max(j, self.first), self.last) - self.first for j in multiples])
        empirical = np.cumsum(np.bincount(at, minlength=len(self.mass))) / len(at)
        return {
            "cells": self._alarm(self._cells, at),
            "distribution": alarm_of_distance(
                float(abs(empirical - self.distribution).max()), len(at)
            ),
            "residues": self._alarm(self._residues, at),
            "pairs": self._alarm_of_pairs(self._quarters, at),
            "pairs of sizes": self._alarm_of_pairs(self._sizes, at),
        }

    def _alarm(self, classes: NDArray[np.int64], at: NDArray[np.int64]) -> float:
        size = int(classes.max()) + 1
        return alarm_of_counts(
            np.bincount(classes[at], minlength=size).tolist(),
            np.bincount(classes, weights=self.mass, minlength=size).tolist(),
        )

    def _alarm_of_pairs(self, classes: NDArray[np.int64], at: NDArray[np.int64]) -> float:
        size = int(classes.max()) + 1
        single = np.bincount(classes, weights=self.mass, minlength=size)
        joint = np.outer(single, single).ravel().tolist()
        sequence = classes[at]
        alarms = []
        for start in (0, 1):  # (1st, 2nd), (3rd, 4th), ... and (2nd, 3rd), (4th, 5th), ...
            pairs = sequence[start : start + (len(sequence) - start) // 2 * 2].reshape(-1, 2)
            counts = np.bincount(pairs @ np.array([size, 1]), minlength=size * size)
            alarms.append(alarm_of_counts(counts.tolist(), joint))
        return min(1.0, 2.0 * min(alarms))


def _classes(levels: Sequence[float], mass: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each multiple, between which levels the middle of its share of the total lies."""
    return np.searchsorted(levels, np.cumsum(mass) - mass / 2.0).astype(np.int64)
