"""Say everything that can be said about a study without data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privalue._planned import useless_words
from privalue.core import Ope
from privalue.curator import Prepared, prepare, with_columns
from privalue.planning import (
    doubtful_words,
    judge,
    large_delta,
    rare_state_words,
    unvisited_states,
    unvisited_words,
)
from privalue.study import Study, declared_size, implied_returns, ridge_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked:
    """A study that is complete and valid, and what follows from it.

    Attributes:
        study: the study, its mechanism chosen.
        states: how many values there are, those of every arm.
        features: how many features.
        alpha: of the noise; None where it depends on a number of trajectories not known yet.
        beta: of the noise, likewise.
        ridge: lambda of LSL, where there is one.
        notes: what is allowed and probably not meant.
    """

    study: Study
    states: int
    features: int
    alpha: float | None
    beta: float | None
    ridge: float | None
    notes: tuple[str, ...]
    prepared: Prepared = field(repr=False)

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return the bounds of returns: the noise is in proportion to their range."""
        return self.study.return_bounds

    def __repr__(self) -> str:
        notes = "".join(f"\n- {note}" for note in self.notes)
        return (
            f"Checked({self.study.study.name!r}: complete and valid, states={self.states}){notes}"
        )


def check(study: Study, *, columns: Mapping[str, str] | None = None) -> Checked:
    """Check everything about a study that can be checked without data.

    Args:
        study: what is public.
        columns: names of columns, added to those of the study, e.g. {"trajectory": "stay_id"}.

    Returns:
        What follows from the study, and notes on what is probably not meant.

    Raises:
        StudyError: the study asks for what cannot be done.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory", trajectories=5000)
    >>> pv.check(study)
    Checked('untitled': complete and valid, states=2)
    """
    return checked(prepare(with_columns(study, columns)))


def checked(prepared: Prepared) -> Checked:
    """Return what follows from a study that was prepared."""
    study, design, constants = prepared.study, prepared.design, prepared.calibration
    known = constants is not None
    return Checked(
        study=study,
        states=design.states,
        features=design.dimension,
        alpha=constants.alpha if constants is not None else None,
        beta=constants.beta if constants is not None else None,
        ridge=ridge_of(study, declared_size(study).trajectories) if known else None,
        notes=tuple(_notes(prepared)),
        prepared=prepared,
    )


def _notes(prepared: Prepared) -> list[str]:
    """Return notes on what is allowed and probably not meant."""
    study = prepared.study
    found = _on_noise(prepared)
    unvisited = unvisited_words(
        unvisited_states(study), "the prior of visits", pairs=study.pairs is not None
    )
    if unvisited is not None:
        found.append(unvisited)
    found += _on_the_prior(study)
    found += _on_returns(study)
    if study.raw_labels is not None:
        lost = study.state_count - len(set(study.raw_labels.values()))
        if lost:
            found.append(f"{lost} state(s) are reached by no raw label of [states] groups")
    return found


def _on_noise(prepared: Prepared) -> list[str]:
    """Return notes on what depends on epsilon and delta."""
    study = prepared.study
    found = []
    declared = study.study.trajectories
    delta = large_delta(study, declared_size(study))
    if delta is not None:
        asked = "; a release will ask for --accept-large-delta" if delta.refused else ""
        found.append(f"{delta.text}{asked}")
    mechanism = prepared.of_values
    if isinstance(prepared.mechanism, Ope):
        return found + _on_policies(study)
    rare = rare_state_words(study, prepared.design, mechanism, declared)
    if rare is not None:
        found.append(rare)
    if declared is not None and mechanism is not None:
        judged = judge(study, prepared.design, mechanism, declared)
        if judged.useless:
            found.append(useless_words(judged))
        elif judged.doubtful and rare is None:
            found.append(f"a release would warn: {doubtful_words(judged)}")
    return found


def _on_policies(study: Study) -> list[str]:
    """Return what there is to say about the two policies, before any data."""
    policies, pairs, clip = study.policies, study.pairs, study.policy.clip
    assert pairs is not None
    found = []
    if policies.behaviour is not None:
        lost = (policies.behaviour == 0) & (policies.target > 0)
        if lost.any():
            first = pairs.label(int(np.argmax(lost)))
            found.append(
                f"the target takes {int(lost.sum())} action(s) that the behaviour never takes, the "
                f'first "{first}": what it does there is lost, and the kept mass falls with it'
            )
        ratios = policies.target / np.where(policies.behaviour > 0, policies.behaviour, np.inf)
        if float(ratios.max()) <= 1 + 1e-9 and not lost.any():
            found.append(
                "the target is the behaviour: every weight is 1 whatever the probabilities are, so "
                "that this checks nothing of them"
            )
        elif clip is not None and float(ratios.max()) > clip:
            found.append(
                f"a single step can weigh up to {float(ratios.max()):.3g}, and clip = {clip:g}"
            )
    return found


def _on_the_prior(study: Study) -> list[str]:
    """Return what there is to say about a prior that looks like shares of all visits."""
    visits = study.visit_prior
    if visits is None or study.states_per_trajectory == 1 or abs(float(visits.sum()) - 1) > 1e-3:
        return []
    return [
        "[states] visits sums to 1, as if a trajectory visited one state in all; each number is "
        "the probability that a trajectory ever visits the state, so where it visits several they "
        "sum to more"
    ]


def _on_returns(study: Study) -> list[str]:
    """Return what there is to say about bounds that are wider than they have to be."""
    low, high = study.return_bounds
    if study.values.returns is None and "bounds" in study.stages:
        return [
            f"returns are bounded by rewards and discount alone, [{low:g}, {high:g}]; a stage of "
            "the release looks for tighter bounds, which takes a part of the budget, and values "
            "are means of returns held between these, so give the tightest public bounds you know "
            "as [values] returns"
        ]
    if study.values.returns is None:
        return [
            f"returns are bounded by rewards and discount alone, [{low:g}, {high:g}]; noise grows "
            "with that range, so give the tightest public bounds you know as [values] returns"
        ]
    least, most = implied_returns(study.values.rewards, study.values.discount)
    if low < least or high > most:
        return [
            f"returns = [{low:g}, {high:g}] is wider than rewards and discount imply, "
            f"[{least:g}, {most:g}]: noise grows with it"
        ]
    implied = "rewards" in study.values.given and study.mechanism.name == "dp-ssp"
    if implied and "bounds" not in study.stages and 2 * (high - low) > most - least:
        return [
            f"returns = [{low:g}, {high:g}] is nearly as wide as rewards and discount imply; if "
            'most returns are far smaller, stages = ["bounds"] in [mechanism] leaves a fraction '
            "of the error, and values are then means of returns held between the bounds it finds"
        ]
    return []
