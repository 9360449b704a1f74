"""Validate a study, and describe what follows from it without data: ``pv.check``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privalue.core import calibration
from privalue.curator import PreparedStudy, prepare
from privalue.planning import (
    Setting,
    large_delta,
    suggestions,
    usefulness,
    usefulness_notices,
)
from privalue.report.description import Description, Fact, Notice
from privalue.report.html import fact, notebook_html, say_notice
from privalue.report.meaning import section_facts
from privalue.study import SMOOTH, Study, declared_size, implied_returns, ridge_of


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyCheck:
    """A valid study, and what follows from it.

    Attributes:
        notices: on settings that are allowed but probably not intended.
        prepared: the study, its design, and the mechanism if it is known without data.
    """

    notices: tuple[Notice, ...]
    prepared: PreparedStudy

    @property
    def study(self) -> Study:
        """Return the study."""
        return self.prepared.study

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notices as sentences."""
        return tuple(map(say_notice, self.notices))

    @cached_property
    def description(self) -> Description:
        """Return the description of the study."""
        return Description(
            title=f"{self.study.study.name}: the study is complete and valid",
            facts=tuple(_facts(self.prepared)),
            notices=self.notices,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``check --json`` prints."""
        study, design, mechanism = self.study, self.prepared.design, self.prepared.mechanism
        constants = None if mechanism is None else mechanism.calibration
        ridge = None if mechanism is None else ridge_of(study, mechanism.terms.size.trajectories)
        spectrum = design.weighted_features.spectrum
        return {
            "valid": True,
            "study": study.public_description(),
            "states": study.names.count,
            "features": design.dimension,
            "alpha": None if constants is None else constants.alpha,
            "beta": None if constants is None else constants.beta,
            "ridge": ridge,
            "condition": spectrum.condition if spectrum.low > 0 else None,
            "return_bounds": study.values.return_bounds,
            "unvisited": study.values.unvisited_value,
            "stages": study.stages,
            "notes": self.notes,
            "notices": [notice.code for notice in self.notices],
        }

    def __repr__(self) -> str:
        notes = "".join(f"\n- {note}" for note in self.notes)
        name = self.study.study.name
        return f"StudyCheck({name!r}: complete and valid, states={self.study.names.count}){notes}"

    def _repr_html_(self) -> str:
        return notebook_html(self.description, study="The study")


def check(study: Study, *, columns: Mapping[str, str] | None = None) -> StudyCheck:
    """Check everything about a study that can be checked without data.

    Args:
        study: the study.
        columns: names of columns, added to those of the study, e.g. {"trajectory": "stay_id"}.

    Returns:
        What follows from the study, and notes on settings that are probably not intended.

    Raises:
        StudyError: the study is infeasible.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory", trajectories=5000)
    >>> pv.check(study)
    StudyCheck('untitled': complete and valid, states=2)
    """
    prepared = prepare(study, columns)
    return StudyCheck(notices=tuple(_notices(prepared)), prepared=prepared)


def _notices(prepared: PreparedStudy) -> Iterator[Notice]:
    study, mechanism = prepared.study, prepared.mechanism
    size = declared_size(study)
    delta = large_delta(study, size)
    if delta is not None:
        yield Notice(delta.code, "stop" if delta.refused else "warn", {"text": delta.text})
    for notice in usefulness_notices(usefulness(study, mechanism, size.trajectories)):
        yield Notice(notice.code, notice.severity, {"text": notice.text})
    if study.states.ends is not None and study.data.one_trajectory_per_person:
        yield Notice("ends-once", "note", {"column": study.data.person})
    if isinstance(study.states.ends, dict) and "truncated" not in study.data.explicit_keys:
        yield Notice("ends-missing", "note", {"per_row": study.values.reward_per_row})
    if study.is_off_policy:
        yield from _policy_notices(study)
    else:
        if study.mechanism.name in SMOOTH and study.visit_prior is None:
            yield Notice("no-visits-known", "note", {"mechanism": study.mechanism.name})
        if study.states.bins is not None:  # made of columns, some of which may hardly change
            for change in suggestions(study, Setting(trajectories=size.trajectories)):
                if change.code == "max-states":
                    yield Notice(change.code, "note", {"text": f"{change.text}: {change.gain}"})
        yield from _return_notices(study)
        yield from _visit_notices(study)


def _policy_notices(study: Study) -> Iterator[Notice]:
    """Yield notices about the target and behaviour policies."""
    policies, pairs, clip = study.policies, study.pairs, study.policy.clip
    if "behaviour" not in policies or pairs is None:
        return
    target, behaviour = policies["target"], policies["behaviour"]
    no_overlap = (behaviour == 0) & (target > 0)
    ratios = target / np.where(behaviour > 0, behaviour, np.inf)
    largest = float(ratios.max())
    if no_overlap.any():
        first = pairs.label(int(np.argmax(no_overlap)))
        yield Notice("no-overlap", "note", {"count": int(no_overlap.sum()), "first": first})
    elif largest <= 1 + 1e-9:
        yield Notice("same-policy", "note")
    if clip is not None and largest > clip:
        yield Notice("clip-below-step", "note", {"largest": largest, "clip": clip})


def _visit_notices(study: Study) -> Iterator[Notice]:
    visits = study.visit_prior
    if visits is not None:
        unvisited = [study.key_label(int(at)) for at in np.flatnonzero(visits == 0)]
        if unvisited:
            yield Notice("unvisited", "note", {"names": unvisited})
        if study.limits.max_states_per_trajectory > 1 and abs(float(visits.sum()) - 1) <= 1e-3:
            yield Notice("visits-sum-to-1", "note")
    if study.raw_labels is not None:
        reached = {at for at in study.raw_labels.values() if at < study.names.count}
        unreached = study.names.count - len(reached)
        if unreached:
            yield Notice("unreached", "note", {"count": unreached})


def _return_notices(study: Study) -> Iterator[Notice]:
    """Yield notices about bounds of returns that are wider than necessary."""
    low, high = study.values.return_bounds
    rewards = study.values.rewards
    least, most = implied_returns(rewards, study.values.discount)
    is_discounted = study.values.discount < 1
    # Without a discount rewards imply no bounds: returns are far wider at four times a reward's.
    widest = most - least if is_discounted else 8 * (rewards[1] - rewards[0])
    stage_helps = study.mechanism.name == "dp-ssp" and "bounds" not in study.stages
    rounding = 1e-9 * (high - low)  # 20 stands for 1/(1 - 0.95), which is a little less
    about = {
        "bounds": (low, high),
        "implied": (least, most),
        "is_discounted": is_discounted,
        "staged": "bounds" in study.stages,
        "stage_helps": stage_helps,
    }
    if study.values.returns is None:
        yield Notice("returns-not-given", "note", about)
    elif low < least - rounding or high > most + rounding:
        yield Notice("returns-too-wide", "note", about)
    elif "rewards" in study.values.explicit_keys and stage_helps and 2 * (high - low) > widest:
        yield Notice("returns-wide", "note", about)


def _facts(prepared: PreparedStudy) -> Iterator[Fact]:
    study, design, mechanism = prepared.study, prepared.design, prepared.mechanism
    yield from section_facts(study.public_description())
    yield fact("study.return_bounds", study.values.return_bounds)
    yield fact("study.keys", design.states)
    if not study.is_off_policy:
        yield fact("study.dimension", design.dimension)
    limit = study.limits.max_trajectories_per_person if study.privacy.unit == "person" else None
    states = None if study.is_off_policy else study.limits.max_states_per_trajectory
    yield fact("study.limits", limit, most=states, each="state" if study.pairs is None else "pair")
    alpha, more = None, dict.fromkeys(("sigma", "beta", "delta"))
    if mechanism is not None and mechanism.law.law == "laplace":
        alpha = mechanism.calibration.alpha
        more["sigma"] = mechanism.public_noise({}).sigma
    elif mechanism is not None:
        alpha, beta = mechanism.calibration.alpha, mechanism.calibration.beta
        delta = calibration.privacy_profile(alpha, beta, design.dimension, mechanism.terms.epsilon)
        more |= {"beta": beta, "delta": delta.upper}
    yield fact("study.noise", alpha, **more)
