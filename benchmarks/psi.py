"""psi of both mechanisms as states and counts grow, next to the paper's O(K N) and O(m N)."""

import math
from collections.abc import Iterator

import numpy as np
from rich.table import Table

from benchmarks.clock import seconds
from privalue.core._design import Design
from privalue.core._sensitivity_lsl import smooth_lsl, smooth_ridge
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.study._features import aggregation

SIZES = ((40, 10**4), (1000, 10**6), (10**5, 10**7), (10**6, 10**8))


def literal_lsw(counts, weights, beta, ks):
    """The paper's loop over k (vectorised over states), over some of the k."""
    return max(math.exp(-k * beta) * np.sum(weights / np.maximum(counts - k, 1) ** 2) for k in ks)


def literal_largest(counts, weights, beta, ks, per_person, touched):
    """The same for the q largest terms, selected at every k."""
    return max(
        math.exp(-k * beta)
        * np.sum(
            np.partition(weights / np.maximum(counts - k * per_person, per_person) ** 2, -touched)[
                -touched:
            ]
        )
        for k in ks
    )


def literal_lsl(counts, rho, m, beta, ks):
    return max(
        math.exp(-k * beta) * (0.1 * math.sqrt(np.sum(rho * np.minimum(counts + k, m))) + 1) ** 2
        for k in ks
    )


def flat(states: int, largest: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts for which every candidate k comes close to the maximum."""
    beta = math.log(states) / largest
    ranks = np.arange(1, states + 1)
    return 1 + np.round(np.log(ranks) / beta).astype(np.int64), np.ones(states), beta


def tables() -> Iterator[Table]:
    yield all_terms()
    yield largest_terms()


def all_terms() -> Table:
    generator = np.random.default_rng(1)
    table = Table(title="psi: seconds (the paper's way is timed on 20 of its k and scaled up)")
    for name in ("psi", "states", "largest count", "case", "fast", "the paper's way", "ratio"):
        table.add_column(name, justify="left" if name in {"psi", "case"} else "right")
    smooth_lsw(np.arange(9), np.ones(9), 0.1)
    for states, largest in SIZES:
        uniform = generator.integers(0, largest, states), np.ones(states), 1 / largest
        for case, (counts, weights, beta) in (
            ("uniform", uniform),
            ("flat", flat(states, largest)),
        ):
            ks = generator.integers(0, largest, 20)
            fast = seconds(lambda c=counts, w=weights, b=beta: smooth_lsw(c, w, b))
            slow = seconds(
                lambda c=counts, w=weights, b=beta, k=ks: literal_lsw(c, w, b, k), repeat=1
            )
            _add(table, "LSW", states, largest, case, fast, slow * largest / 20)
        counts, weights, beta = uniform
        fast = seconds(
            lambda c=counts, w=weights, b=beta, m=largest: smooth_lsl(
                c, w, m, b, slope=0.1, offset=1.0
            )
        )
        slow = seconds(
            lambda c=counts, w=weights, b=beta, m=largest, k=ks: literal_lsl(c, w, m, b, k),
            repeat=1,
        )
        _add(table, "LSL", states, largest, "uniform", fast, slow * largest / 20)
    return table


def largest_terms() -> Table:
    """Bounded contribution, H = 20: 40 terms for a trajectory, 120 for a person of 3; and N/2."""
    generator = np.random.default_rng(2)
    table = Table(title="psi of the q largest terms: seconds (the loop over k: 20 of them, scaled)")
    for name in ("psi", "states", "case", "L", "q", "fast", "loop over k", "ratio"):
        table.add_column(name, justify="left" if name in {"psi", "case"} else "right")
    smooth_lsw(np.arange(9), np.arange(1.0, 10.0), 0.1, touched=3)
    for states, largest in SIZES[1:]:
        counts = generator.integers(0, largest, states)
        level, _, slow_beta = flat(states, largest)
        unequal = generator.random(states) + 0.01
        for case, n, weights, beta in (
            ("equal weights", counts, np.ones(states), 1 / largest),
            ("any weights", counts, unequal, 1 / largest),
            ("any weights, flat", level, 1 + unequal / 1000, slow_beta),
        ):
            for per_person, touched in ((1, 40), (3, 120), (1, states // 2)):
                ks = generator.integers(0, largest // per_person, 20)
                fast = seconds(
                    lambda n=n, w=weights, b=beta, s=per_person, q=touched: smooth_lsw(
                        n, w, b, per_person=s, touched=q
                    )
                )
                slow = seconds(
                    lambda n=n, w=weights, b=beta, k=ks, s=per_person, q=touched: literal_largest(
                        n, w, b, k, s, q
                    ),
                    repeat=1,
                )
                loop = slow * largest / per_person / 20
                _row(table, "LSW", states, case, per_person, touched, fast, loop)
        design = Design(phi=aggregation(states, 1), weights=unequal)
        fast = seconds(
            lambda c=counts, d=design, m=largest: smooth_ridge(
                c, d, ridge=50.0, trajectories=m, beta=1 / m, largest=1.0, reach=1.0, touched=40
            )
        )
        table.add_row("LSL", f"{states:,}", "tabular, sharper", "1", "40", f"{fast:.2g}", "", "")
    return table


def _add(table, name, states, largest, case, fast, slow):
    table.add_row(
        name,
        f"{states:,}",
        f"{largest:,}",
        case,
        f"{fast:.2g}",
        f"{slow:.2g}",
        f"{slow / fast:,.0f}",
    )


def _row(table, name, states, case, per_person, touched, fast, slow):
    table.add_row(
        name,
        f"{states:,}",
        case,
        str(per_person),
        f"{touched:,}",
        f"{fast:.2g}",
        f"{slow:.2g}",
        f"{slow / fast:,.0f}",
    )
