"""``name = "auto"``: the mechanism with the least predicted error, from what is public.

No data is opened: what is assumed of it comes from the study alone, so that the choice is as public
as the study.
"""

from dataclasses import dataclass

from privalue.planning.model import study_model
from privalue.planning.options import Option, with_mechanism
from privalue.planning.predict import Prediction, predict
from privalue.study import Study

CANDIDATES = ("dp-ssp", "dp-lsw", "dp-lsl")
_DRAWS = 24


@dataclass(frozen=True, kw_only=True, eq=False)
class Resolution:
    """A study whose mechanism is settled, and why it is the one."""

    study: Study
    why: str
    prediction: Prediction | None = None


def resolve(study: Study, *, trajectories: int | None = None) -> Resolution:
    """The study itself, or with the mechanism that "auto" stands for; the same one every time.

    Args:
        study: what is public.
        trajectories: m for a plan, where the study does not declare it.
    """
    if study.mechanism.name != "auto":
        return Resolution(study=study, why=f'the study names "{study.mechanism.name}"')
    m = study.study.trajectories if trajectories is None else trajectories
    if m is None:
        return _settled(
            study,
            "the study does not declare the number of trajectories, from which errors could be "
            "predicted; dp-ssp has no threshold of visits, and releases intervals at no cost",
        )
    if "level" in study.report.given:
        return _settled(study, "[report] level asks for intervals, which it releases at no cost")
    model = study_model(_settled(study, "").study)
    options = [_option(study, name) for name in CANDIDATES]
    prediction = predict(study, model, trajectories=m, options=options, draws=_DRAWS)
    best = prediction.best
    if best.refused is not None:
        return _settled(study, f"no error could be predicted: {best.refused}")
    others = ", ".join(
        f"{f.rmse:.3g} with {f.option.mechanism}" if f.refused is None
        else f"{f.option.mechanism} is not possible"
        for f in prediction.forecasts[1:]
    )  # fmt: skip
    why = (
        f"with {m:,} trajectories its predicted error is the least, {best.rmse:.3g} "
        f"({others}), as far as the study alone tells; no data was looked at"
    )
    return Resolution(
        study=best.option.study, why=_because(best.option, why), prediction=prediction
    )


def _settled(study: Study, why: str) -> Resolution:
    option = _option(study, "dp-ssp")
    return Resolution(study=option.study, why=_because(option, why))


def _because(option: Option, why: str) -> str:
    return f'"auto" is {option.mechanism}: {why}'


def _option(study: Study, name: str) -> Option:
    found = with_mechanism(study, {"name": name})
    assert found is not None  # only [report] level could stand in the way
    return found
