"""Choose the mechanism for ``name = "auto"``: the least predicted error, from what is public.

No data is opened: all assumptions come from the study alone, so that the choice is as public as the
study. Such assumptions cannot decide between errors that differ by less than 5%; there dp-ssp is
taken, which has no threshold of visits, and releases intervals and statistics for refits at no
cost.
"""

from dataclasses import dataclass

from privalue.planning._assumed import study_model
from privalue.planning._options import Option, with_mechanism
from privalue.planning._predict import Prediction, predict
from privalue.planning._public_model import MOST_STATES
from privalue.study import Study

CANDIDATES = ("dp-ssp", "dp-lsw", "dp-lsl")
_DRAWS = 96
_CLEAR = 0.95  # of dp-ssp's error: another mechanism is chosen only below it
_VIRTUES = "dp-ssp has no threshold of visits, and releases intervals at no cost"


@dataclass(frozen=True, kw_only=True, eq=False)
class Resolution:
    """A study whose mechanism is settled, and the reason for the choice."""

    study: Study
    why: str
    prediction: Prediction | None = None


def resolve(study: Study, *, trajectories: int | None = None) -> Resolution:
    """Return the study itself, or the study with the mechanism that "auto" stands for.

    The choice is the same every time.

    Args:
        study: what is public.
        trajectories: m for a plan, where the study does not declare it.

    >>> import privalue as pv
    >>> study = pv.Study(
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory", mechanism="auto",
    ... )
    >>> pv.resolve(study).study.mechanism.name
    'dp-ssp'
    """
    if study.mechanism.name != "auto":
        return Resolution(study=study, why=f'the study names "{study.mechanism.name}"')
    m = study.study.trajectories if trajectories is None else trajectories
    if m is None:
        return _settled(
            study,
            "the study does not declare the number of trajectories, from which errors could be "
            f"predicted; {_VIRTUES}",
        )
    if study.arm_count > 1:
        return _settled(study, "it is the mechanism for which values by arm are proved")
    if study.pairs is not None:
        return _settled(study, "it is the mechanism for which values of actions are proved")
    if study.state_count > MOST_STATES:
        return _settled(
            study, f"errors are predicted for at most {MOST_STATES:,} states; {_VIRTUES}"
        )
    if "level" in study.report.given:
        return _settled(study, "[report] level asks for intervals, which it releases at no cost")
    model = study_model(_settled(study, "").study)
    options = [_option(study, name) for name in CANDIDATES]
    prediction = predict(study, model, trajectories=m, options=options, draws=_DRAWS, ends=False)
    return _judged(study, prediction)


def _judged(study: Study, prediction: Prediction) -> Resolution:
    """Choose the best of the candidates, or dp-ssp where it is as good."""
    best, by_name = prediction.best, {f.option.mechanism: f for f in prediction.forecasts}
    if best.refused is not None:
        return _settled(study, f"no error could be predicted: {best.refused}")
    errors = ", ".join(
        f"{f.rmse:.3g} with {f.option.mechanism}" for f in prediction.forecasts if f.refused is None
    )
    why = f"with {prediction.trajectories:,} trajectories the predicted errors are {errors}"
    fallback = by_name["dp-ssp"]
    clear = best.rmse <= _CLEAR * fallback.rmse
    chosen = best if clear else fallback
    if chosen is not best:
        why = f"{why}; the difference is below 5%, and {_VIRTUES}"
    return Resolution(
        study=chosen.option.study,
        why=_because(
            chosen.option, f"{why}; this follows from the study alone, no data was looked at"
        ),
        prediction=prediction,
    )


def _settled(study: Study, why: str) -> Resolution:
    """Choose dp-ssp for a reason that needs no prediction."""
    option = _option(study, "dp-ssp")
    return Resolution(study=option.study, why=_because(option, why))


def _because(option: Option, why: str) -> str:
    """Return the sentence that says what "auto" stands for, and why."""
    return f'"auto" is {option.mechanism}: {why}'


def _option(study: Study, name: str) -> Option:
    """Return the study with the mechanism of this name and no other settings."""
    found = with_mechanism(study, {"name": name})
    assert found is not None  # only [report] level could forbid it, and was checked
    return found
