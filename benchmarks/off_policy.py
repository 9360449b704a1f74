"""The error of another policy's value: ICU-Sepsis, clipped weights, with and without noise.

``python -m benchmarks off_policy``; some minutes. With ``--quick`` fewer data sets, and with
``--seed`` a table that was made before. docs/off-policy.md has the table.

Targets are policies part of the way from the clinicians' to the best one. Every data set is
simulated, read by the code that reads real ones, and drawn for several times; the target's true
value is exact. "Not private" is the same estimator before the noise, and "clip 1e6" has the
largest clip that there is, also without noise: nearly the unclipped one. Standard errors are those
of the mean of squared errors over data sets: releases of one data set have its people in common.
Data sets come from a seed that the system draws, and that nothing was tuned on.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table

import privalue as pv
from benchmarks.clock import MISSED
from benchmarks.worlds import drawn_seed
from privalue.core import SeededForExperimentsOnly, draw
from privalue.curator import prepare
from privalue.estimate import estimates_of_policy
from privalue.readers import gathered
from privalue.simulation import World, parse_world, simulate_episodes
from privalue.study import public_size

SHARES = (0.1, 0.25, 0.5)
# The error of the value with Laplace noise, epsilon = 1, clip 10, that was aimed at.
BARS = {5_000: (0.0091, 0.016, 0.022), 20_000: (0.0029, 0.010, 0.018)}
DATASETS, RELEASES, CLIP = {5_000: 60, 20_000: 30}, 10, 10.0
ROOM = 3.0  # standard errors by which a figure may miss its bar


@dataclass(frozen=True)
class Errors:
    """Errors of the value, by data set and release, and the mean kept mass."""

    laplace: np.ndarray
    gaussian: np.ndarray
    plain: np.ndarray
    widest: np.ndarray
    kept: float
    covered: float  # share of total intervals that hold the target's true value
    supported: float


def rmse(errors: np.ndarray) -> tuple[float, float]:
    """Return the root of the mean square, and its standard error over data sets."""
    squares = np.square(errors).reshape(len(errors), -1).mean(axis=1)
    root = math.sqrt(float(squares.mean()))
    return root, float(squares.std(ddof=1)) / math.sqrt(len(squares)) / (2 * root)


def study_of(world: World, target: World, *, clip: float, noise: str) -> pv.Study:
    """Return the study that values the target's policy from the world's trajectories."""
    policies = {}
    for name, one in (("target", target), ("behaviour", world)):
        _, policy = one.decisions
        policies[name] = {
            str(s): {str(a): float(p) for a, p in enumerate(row) if p > 0}
            for s, row in enumerate(policy.probabilities)
        }
    mdp, _ = world.decisions
    return pv.Study(
        states=mdp.states,
        actions=mdp.actions,
        discount=mdp.discount,
        returns=(0.0, 1.0),
        epsilon=1.0,
        delta=1e-6 if noise == "gaussian" else None,
        unit="trajectory",
        mechanism="dp-ope",
        noise=noise,
        policy={**policies, "clip": clip},
    )


def measured(world: World, share: float, trajectories: int, datasets: int, seed: int) -> Errors:
    """Return the errors of the value of a target so far on the way to the best policy."""
    target = world.under(f"optimal:{share:g}")
    truth = target.process.start_value
    studies = {
        noise: study_of(world, target, clip=CLIP, noise=noise) for noise in ("laplace", "gaussian")
    }
    widest = study_of(world, target, clip=1e6, noise="laplace")
    found: dict[str, list] = {name: [] for name in ("laplace", "gaussian", "plain", "widest")}
    kept, covered, supported = [], [], []
    for number in range(datasets):
        rows = simulate_episodes(world, trajectories=trajectories, seed=seed + number, actions=True)
        source = SeededForExperimentsOnly(seed + number)
        statistics = gathered(rows, studies["laplace"])
        fields = pv.inspect(widest, rows).private_fields()
        found["widest"].append(fields["policy_values"][0] - truth)
        for noise, study in studies.items():
            mechanism = prepare(study).mechanism_for(public_size(study, statistics))
            exact = mechanism.perturbation(statistics).center
            clipped = 0.5 + exact[0] / exact[1]
            drawn = [draw(mechanism, statistics, source).numbers for _ in range(RELEASES)]
            values = np.clip([0.5 + numbers[0] / numbers[1] for numbers in drawn], 0.0, 1.0)
            found[noise].append((values - truth).tolist())
            if noise == "laplace":  # intervals of one release tell as much
                whole = estimates_of_policy(study, mechanism, drawn[0])
        found["plain"].append(clipped - truth)
        kept.append(exact[1] * CLIP / 2**30 / trajectories)
        covered.append(bool(whole.target.total_low[0] <= truth <= whole.target.total_high[0]))
        supported.append(bool(whole.supported[0]))
    return Errors(
        **{name: np.array(errors) for name, errors in found.items()},
        kept=float(np.mean(kept)),
        covered=float(np.mean(covered)),
        supported=float(np.mean(supported)),
    )


def tables(*, quick: bool = False, seed: int | None = None) -> Iterator[Table]:
    """Yield the table of errors; what misses its bar is told."""
    seed = drawn_seed() if seed is None else seed
    world = parse_world("icu-sepsis")
    table = Table(title=f"Error of another policy's value, ICU-Sepsis, seed {seed}")
    heads = ("people", "target", "kept", "not private", "Laplace, eps 1", "Gaussian (1, 1e-6)")
    for head in (*heads, "clip 1e6, not private", "supported", "total covers J"):
        table.add_column(head, justify="right")
    for trajectories, bars in BARS.items():
        for share, bar in zip(SHARES, bars, strict=True):
            datasets = 6 if quick else DATASETS[trajectories]
            found = measured(world, share, trajectories, datasets, seed)
            shown = {
                name: rmse(getattr(found, name))
                for name in ("plain", "laplace", "gaussian", "widest")
            }
            error, room = shown["laplace"]
            late = error - ROOM * room > bar
            if late:
                MISSED.append(f"{trajectories} people, {share:g}: {error:.4f} against {bar:g}")
            table.add_row(
                f"{trajectories:,}",
                f"{share:g}",
                f"{found.kept:.3f}",
                *(f"{e:.4f} ± {r:.4f}" for e, r in shown.values()),
                f"{found.supported:.0%}",
                f"{found.covered:.0%}" + (" (missed)" if late else ""),
            )
    yield table
