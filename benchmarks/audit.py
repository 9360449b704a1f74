"""The audit at length: ``python -m benchmarks audit``; some minutes."""

import math
from collections.abc import Iterator

from rich.table import Table

import privalue as pv
from privalue.audit import audit_release, audit_worst_pairs
from privalue.core._calibration import exact

SETTINGS = [(0.1, 0.1, 40, 0.05), (0.5, 0.05, 4, 0.06), (1.0, 0.01, 10, 0.05), (2.0, 0.01, 1, 0.3)]
HIGH, LOW = [(s, 1.0) for s in range(3)], [(s, 0.0) for s in range(3)]
PAIRS = {
    "every count changes": ([HIGH] * 4, [*[HIGH] * 3, [(0, 0.0)]]),
    "all returns flip": ([HIGH] * 3, [HIGH, HIGH, LOW]),
    "a rare state": ([*[[(0, 0.0)]] * 30, [(2, 1.0)]], [[(0, 0.0)]] * 31),
}


def tables() -> Iterator[Table]:
    table = Table(title="Worst pairs, 2,000,000 draws each: largest lower bound of delta")
    shares = (1.0, 0.95, 0.9)
    columns = [f"bound at {share} alpha" for share in shares]
    for name in ("epsilon, delta, d, beta", "alpha", *columns):
        table.add_column(name, justify="right")
    for epsilon, delta, d, beta in SETTINGS:
        alpha = exact(epsilon, delta, d, beta).alpha
        bounds = [
            max(
                audit.lower
                for audit in audit_worst_pairs(
                    share * alpha,
                    beta,
                    dimension=d,
                    epsilon=epsilon,
                    claimed=delta,
                    draws=2_000_000 // max(1, d // 10),
                )
            )
            for share in shares
        ]
        cells = [f"{b:.4g}{' REJECTED' if b > delta else ''}" for b in bounds]
        table.add_row(f"{epsilon:g}, {delta:g}, {d}, {beta:g}", f"{alpha:.4g}", *cells)
    yield table
    table = Table(title="Real neighbours through the public path, epsilon = 1, delta = 0.05")
    for name in ("pair", "mechanism", "lower bound", "true delta of the pair", "slack"):
        table.add_column(name, justify="left" if name in {"pair", "mechanism"} else "right")
    for name, (data, neighbour) in PAIRS.items():
        for mechanism in ("dp-lsw", "dp-lsl"):
            study = pv.Study(
                epsilon=1.0,
                delta=0.05,
                unit="trajectory",
                discount=0.5,
                rewards=(0.0, 1.0),
                returns=(0.0, 1.0),
                states=3,
                mechanism=mechanism,
                beta=0.2,
            )
            audit = audit_release(study, data, neighbour, releases=1500)
            slack = "-" if not audit.true else f"{audit.slack:.3g}"
            table.add_row(
                name, mechanism, f"{max(audit.lower, -math.inf):.4g}", f"{audit.true:.3g}", slack
            )
    yield table
