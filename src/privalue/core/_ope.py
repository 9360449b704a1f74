"""Define DP-OPE: what another policy would have been worth, by clipped weights.

| symbol                      | here             | shape | public      |
|-----------------------------|------------------|-------|-------------|
| rho, in 2^30 steps of C     | ``weight_steps`` summed  | N | **private** |
| t = rho (G - c), in 2^30 steps of C R | ``weighted_steps`` summed | N | **private** |
| c_w, c_b, c_m               | ``constants``    |       | yes         |
| M, D                        | ``alone``, ``both`` |    | yes         |
| Delta                       | ``sensitivity``  |       | yes         |
| s                           | ``scales``       | parts | yes: of the noise, in steps |

A trajectory counts once, for the key at which it starts; one key stands for all where there are no
groups. It adds (x, c_w rho, c_b y, c_m) there, in units of C R: |y| <= 1/2 is its centred return,
rho from 0 to 1 its weight, and 2|x| <= rho. The size of data set and groups is private but where
one trajectory is replaced and there are no groups: then c_m is 0, and the last number left out.
Everything is a whole number of steps, to which discrete Laplace noise is added: pure epsilon.
docs/proofs/weights.md has the proof.
"""

import math
from fractions import Fraction

import numpy as np

from privalue.core._arrays import is_number
from privalue.core._calibration import Calibration
from privalue.core._contributions import VisitStatistics
from privalue.core._mechanism import Perturbation
from privalue.core._terms import GRID_STEPS, OpeTerms, Terms
from privalue.errors import StudyError


class DpOpe:
    """Laplace noise on sums of weights and of weighted returns; all of it public."""

    def __init__(self, terms: Terms, constants: OpeTerms) -> None:
        self.terms, self.design = terms, terms.design
        limits = terms.limits
        weights = (1.0, constants.count_weight, constants.value_weight, constants.size_weight)
        inside = all(1e-6 <= weight <= 1e6 for weight in weights[:3]) and 0 <= weights[3] <= 1e6
        if not (limits.clip and inside):
            raise StudyError(f"[policy] these are no constants of dp-ope: {constants}")
        sizes = zip(weights, (GRID_STEPS, GRID_STEPS, GRID_STEPS, 1), strict=True)
        # In steps of each part, what one unit of the analysed vector is.
        units = [Fraction(steps) / Fraction(weight) for weight, steps in sizes if weight]
        if not is_number(terms.epsilon) or not 1e-6 <= terms.epsilon <= 1e6 or terms.delta:
            raise StudyError("[privacy] laplace noise: epsilon from 1e-6 to 1e6, delta = 0")
        self.calibration = Calibration(name="laplace", alpha=1 / terms.epsilon, beta=0.0)
        alone, both = weighted_block(constants)
        if not limits.add_remove:  # one that is replaced may have another key
            alone = max(alone if limits.keys == 1 else 2 * alone, both)
        exact = alone * limits.most_trajectories
        # A ledger charges the decimal that epsilon is written as: no more than that is spent.
        spent = min(Fraction(terms.epsilon), Fraction(repr(float(terms.epsilon))))
        self.sensitivity = float(exact)
        self.exact_scales = [exact / spent * unit for unit in units]  # nothing is rounded
        self.scales = [float(scale) for scale in self.exact_scales]
        # Standard deviations, and that of the weighted returns in units of returns.
        self.deviations = np.array(self.scales) * math.sqrt(2)
        low, high = limits.return_bounds
        self.sigma = float(self.deviations[0]) * (limits.clip * (high - low) / GRID_STEPS)

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """Return what gets noise: weighted returns, weights, returns and sizes. PRIVATE."""
        centred = statistics.return_steps - statistics.counts * (GRID_STEPS // 2)
        sums = (statistics.weighted_steps, statistics.weight_steps, centred, statistics.counts)
        keys, parts = len(statistics.counts), len(self.scales)
        return Perturbation(
            center=np.concatenate(sums[:parts]),
            deviations=np.repeat(self.deviations, keys),
            grids=1.0,
            laplace=tuple(scale for scale in self.exact_scales for _ in range(keys)),
            psi=self.sensitivity**2,
            sigma=self.sigma,
            calibration=self.calibration,
        )


def weighted_block(constants: OpeTerms) -> tuple[Fraction, Fraction]:
    """Return M and D in the norm of sums, exactly.

    In units of C R. One trajectory adds at most M = 1/2 + c_w + c_b/2 + c_m, and two of one key
    differ by at most D = max(1, 1/2 + c_w) + c_b (docs/proofs/weights.md, lemma 1).
    """
    given = (0.5, constants.count_weight, constants.value_weight, constants.size_weight)
    half, w, b, m = map(Fraction, given)
    return half + w + half * b + m, max(Fraction(1), half + w) + b
