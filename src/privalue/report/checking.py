"""Say everything that can be said about a study without data: ``pv.check``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from privalue.core import Ope, privacy_profile
from privalue.curator import Prepared, prepare, with_columns
from privalue.errors import plural
from privalue.planning import (
    Setting,
    large_delta,
    suggestions,
    usefulness,
    usefulness_notices,
)
from privalue.report.description import Description, Fact, Notice
from privalue.report.html import say
from privalue.report.meaning import section_facts
from privalue.report.numbers import format_bounds
from privalue.report.pages import notebook_html
from privalue.study import SMOOTH, Study, declared_size, implied_returns, ridge_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked:
    """A study that is complete and valid, and what follows from it.

    Attributes:
        study: the study.
        states: how many values there are, those of every arm.
        features: how many features.
        alpha: of the noise; None where it depends on a number of trajectories not known yet.
        beta: of the noise, likewise.
        ridge: lambda of LSL, where there is one.
        notices: what is allowed and probably not meant.
    """

    study: Study
    states: int
    features: int
    alpha: float | None
    beta: float | None
    ridge: float | None
    notices: tuple[Notice, ...]
    prepared: Prepared = field(repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notices as sentences."""
        return tuple(map(say, self.notices))

    @property
    def condition(self) -> float | None:
        """Return how much the fit may magnify errors; 1 is the least, None where there is none."""
        design = self.prepared.design
        return design.weighted.condition if design.full_rank else None

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return the bounds of returns: the noise is in proportion to their range."""
        return self.study.return_bounds

    @cached_property
    def description(self) -> Description:
        """Return what there is to say."""
        return Description(
            title=f"{self.study.study.name}: the study is complete and valid",
            facts=tuple(_facts(self)),
            notices=self.notices,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what ``check --json`` prints."""
        study, values = self.study, self.study.values
        constants = {"alpha": self.alpha, "beta": self.beta, "ridge": self.ridge}
        found: dict[str, Any] = {
            "valid": True,
            "study": study.public_description(),
            "states": self.states,
            "features": self.features,
            "return_bounds": list(study.return_bounds),
            "clamped": {
                "rewards": list(values.rewards),
                "returns": list(values.returns) if values.returns else None,
            },
            "unvisited": values.unvisited_value,
            **{name: value for name, value in constants.items() if value is not None},
            "condition_number": self.condition,
            "notes": list(self.notes),
            "notices": [notice.code for notice in self.notices],
        }
        if study.mechanism.name == "dp-ssp":
            towards = "features" if study.features.shrink else "states"
            found["stages"] = list(study.stages)
            found["shrinkage"] = towards if study.mechanism.shrinkage else None
        return found

    def __repr__(self) -> str:
        notes = "".join(f"\n- {note}" for note in self.notes)
        return (
            f"Checked({self.study.study.name!r}: complete and valid, states={self.states}){notes}"
        )

    def _repr_html_(self) -> str:
        return notebook_html(self.description, study="The study")


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
    prepared = prepare(with_columns(study, columns))
    study, constants = prepared.study, prepared.calibration
    size = declared_size(study).trajectories
    return Checked(
        study=study,
        states=prepared.design.states,
        features=prepared.design.dimension,
        alpha=None if constants is None else constants.alpha,
        beta=None if constants is None else constants.beta,
        ridge=None if constants is None else ridge_of(study, size),
        notices=tuple(_notices(prepared)),
        prepared=prepared,
    )


def _notices(prepared: Prepared) -> Iterator[Notice]:
    study, mechanism = prepared.study, prepared.mechanism
    size = declared_size(study)
    delta = large_delta(study, size)
    if delta is not None:
        code = "delta-not-below-1/m" if delta.refused else "large-delta"
        yield Notice(code, "stop" if delta.refused else "warn", {"text": f"{delta.text}."})
    for notice in usefulness_notices(usefulness(study, mechanism, size.trajectories)):
        yield Notice(notice.code, notice.severity, {"text": f"{notice.text}."})
    if study.values_a_policy:
        yield from _on_policies(study)
    else:
        if study.mechanism.name in SMOOTH and study.visit_prior is None:
            yield Notice("no-visits-known", "note", {"mechanism": study.mechanism.name})
        if study.states.bins is not None:  # made of columns, some of which may hardly change
            for change in suggestions(study, Setting(trajectories=size.trajectories)):
                if change.code == "max-states":
                    yield Notice(change.code, "note", {"text": f"{change.text}: {change.gain}."})
        yield from _on_returns(study)
        yield from _on_visits(study)


def _on_policies(study: Study) -> Iterator[Notice]:
    """Yield what there is to say about the two policies, before any data."""
    policies, pairs, clip = study.policies, study.pairs, study.policy.clip
    if policies.behaviour is None or pairs is None:
        return
    lost = (policies.behaviour == 0) & (policies.target > 0)
    ratios = policies.target / np.where(policies.behaviour > 0, policies.behaviour, np.inf)
    largest = float(ratios.max())
    if lost.any():
        first = pairs.label(int(np.argmax(lost)))
        yield Notice("no-overlap", "note", {"count": int(lost.sum()), "first": first})
    elif largest <= 1 + 1e-9:
        yield Notice("same-policy", "note")
    if clip is not None and largest > clip:
        yield Notice("clip-below-step", "note", {"largest": largest, "clip": clip})


def _on_visits(study: Study) -> Iterator[Notice]:
    visits = study.visit_prior
    if visits is not None:
        nobody = [name for name, p in zip(study.key_names, visits, strict=False) if p == 0]
        if nobody:
            yield Notice("unvisited", "note", {"names": nobody})
        if study.states_per_trajectory > 1 and abs(float(visits.sum()) - 1) <= 1e-3:
            yield Notice("visits-sum-to-1", "note")
    if study.raw_labels is not None:
        lost = study.state_count - len(set(study.raw_labels.values()))
        if lost:
            yield Notice("unreached", "note", {"count": lost})


def _on_returns(study: Study) -> Iterator[Notice]:
    """Yield what there is to say about bounds that are wider than they have to be."""
    low, high = study.return_bounds
    least, most = implied_returns(study.values.rewards, study.values.discount)
    staged = "bounds" in study.stages
    about = {"bounds": (low, high), "implied": (least, most), "staged": staged}
    if study.values.returns is None:
        yield Notice("returns-not-given", "note", about)
    elif low < least or high > most:
        yield Notice("returns-too-wide", "note", about)
    elif (
        "rewards" in study.values.given
        and study.mechanism.name == "dp-ssp"
        and not staged
        and 2 * (high - low) > most - least
    ):
        yield Notice("returns-wide", "note", about)


def _facts(checked: Checked) -> Iterator[Fact]:
    study = checked.study
    yield from section_facts(study.public_description())
    bounds = study.return_bounds
    yield Fact("study.return_bounds", bounds, "Returns count within", format_bounds(bounds))
    yield Fact("study.keys", checked.states, "Values", f"{checked.states:,}")
    if not study.values_a_policy:
        yield Fact("study.dimension", checked.features, "Coefficients", f"{checked.features:,}")
    yield Fact("study.limits", None, "Contribution limit", _contribution(study))
    yield Fact("study.noise", checked.alpha, "Noise", _noise(checked.prepared))
    condition = checked.condition
    if condition is not None and f"{condition:.4g}" != "1":
        yield Fact("study.condition", condition, "Condition number", f"{condition:.4g}")


def _contribution(study: Study) -> str:
    several = ""
    if study.privacy.unit == "person":
        several = f"{plural(study.trajectories_per_person, 'trajectory')} per person"
    if study.values_a_policy:
        return several or "one trajectory, once"
    keys = "state" if study.pairs is None else "pair"
    each = f"{plural(study.states_per_trajectory, keys)} per trajectory"
    return f"{several}, {each}" if several else each


def _noise(prepared: Prepared) -> str:
    """Return the noise multiplier, and the delta that it truly achieves."""
    mechanism = prepared.mechanism
    if mechanism is None:
        return "follows from m, which the study does not declare"
    if isinstance(mechanism, Ope):
        return f"Laplace, standard deviation {mechanism.sigma:.4g}; pure epsilon"
    alpha, beta = mechanism.calibration.alpha, mechanism.calibration.beta
    epsilon, dimension = mechanism.terms.epsilon, prepared.design.dimension
    true = privacy_profile(alpha, beta, dimension, epsilon).upper
    smooth = f", beta {beta:.6g}" if beta else ""
    return f"multiplier {alpha:.6g} (noise over sensitivity){smooth}; true delta {true:.3g}"


def study_html(study: Study) -> str:
    """Return what a notebook shows of a study: its keys, section by section."""
    facts = tuple(section_facts(study.public_description()))
    return notebook_html(Description(title=study.study.name, facts=facts), study="The study")
