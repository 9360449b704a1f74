"""Plan a release before any data is opened: ``pv.plan``.

Every plan has the half-width of a state's interval by the number of people who visit the state,
which needs no assumptions. With visits or a public world it has a row for each state and an overall
error. For dp-ope it has the kept mass and a bound of the error, for several clips.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privalue.core import MAX_TRAJECTORIES, Vector
from privalue.errors import StudyError, UsageError, plural
from privalue.estimate import MIN_KEPT_MASS, key_labels
from privalue.planning import solve as solvers
from privalue.planning.half_width import ONE_IN_TWENTY, HalfWidth
from privalue.planning.off_policy import CLIPS, ClipRow, bound_row, world_row
from privalue.planning.predict import Prediction, mechanism_of_study, predict
from privalue.planning.preflight import Usefulness, large_delta, usefulness
from privalue.planning.sentences import PlanNotice, notice, question_error, sentence
from privalue.planning.suggestions import Setting, Suggestion, suggestions
from privalue.simulation import world as world_of
from privalue.study import SMOOTH, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VISITS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
SHARES = (0.5, 0.1, 0.01)  # widths of intervals, as shares of the range of returns
MAX_STATES = 100_000  # an overall error is predicted for at most this many states
_EPSILONS = (0.25, 1.0, 4.0)  # in a plot, as multiples of the study's own
_MAX_SPREAD = 2.0  # a notice warns if one release in twenty exceeds this multiple of the mean error


@dataclass(frozen=True, kw_only=True)
class VisitsRow:
    """The half-width of the interval of a state with this many visits."""

    visits: int
    half_width: float  # in half of the releases it is at most this
    half_width_95: float  # in 95% of the releases it is at most this
    without_privacy: float


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The least visits that make an interval narrower than a share of the range of returns."""

    share: float
    visits: int
    visits_95: int


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """The expected visits and half-width of one state, in its arm or with its action."""

    state: str
    arm: str | None = None
    action: str | None = None
    visits: float
    half_width: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The predicted accuracy of a study's release; everything in it is public.

    Attributes:
        study: the study.
        trajectories: m, planned or declared; None if unknown.
        relative: whether widths and errors are shares of the range that a stage will choose.
        range: R, which widths refer to; a half-width of R/2 is useless.
        by_visits: half-widths by the number of visits; empty if the mechanism has no intervals.
        useful: the least visits for narrow intervals.
        states: a row for every state, if visits or a world are known.
        rmse: the overall error, if visits or a world are known.
        without_privacy: the overall error without noise.
        clips: for dp-ope, the kept mass and the error by clip, the study's own included.
        answer: the people, trajectories or epsilon that a target needs.
        notices: assumptions and warnings.
        setting: the other arguments of ``plan``.
    """

    study: Study
    trajectories: int | None
    relative: bool
    range: float
    by_visits: tuple[VisitsRow, ...] = ()
    useful: tuple[Threshold, ...] = ()
    states: tuple[StateRow, ...] = ()
    rmse: float | None = None
    without_privacy: float | None = None
    clips: tuple[ClipRow, ...] = ()
    answer: solvers.Answer | None = None
    notices: tuple[PlanNotice, ...] = ()
    setting: Setting = field(repr=False)

    @cached_property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Return the changes that help most, at most four; measuring them is slow."""
        if self.clips:
            return tuple(_clip_suggestions(self))
        return suggestions(self.study, self.setting)

    @property
    def headline(self) -> str:
        """Return a summary of the plan in one sentence."""
        m = plural(self.trajectories or 0, "trajectory")
        if self.clips:
            name = "policy" if self.rmse is None else "policy-in-a-world"
            return sentence("headline", name, trajectories=m, **asdict(_study_clip(self))) + "."
        sentences = []
        if self.useful:
            visits = [threshold.visits for threshold in self.useful]
            names = dict(zip(("half", "tenth", "hundredth"), visits, strict=True))
            sentences.append(sentence("headline", "useful", **names))
        if self.rmse is not None:
            numbers = {"rmse": self.rmse, "clean": self.without_privacy, "trajectories": m}
            unit = " of the range" if self.relative else ""
            word = "with" if sentences else "With"
            sentences.append(sentence("headline", "error", begin=word, unit=unit, **numbers))
        return "; ".join(sentences or [sentence("headline", "nothing")]) + "."

    def __repr__(self) -> str:
        return f"Plan({self.headline})"

    def _repr_html_(self) -> str:
        from privalue.report import describe_plan, notebook_html  # noqa: PLC0415 - it imports this

        return notebook_html(describe_plan(self), plan="The plan")

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a dict for JSON, as ``plan --json`` prints it."""

        def rows(items: Sequence[Any]) -> list[dict[str, Any]]:
            return [{k: v for k, v in asdict(item).items() if v is not None} for item in items]

        fields = ("headline", "trajectories", "relative", "rmse", "without_privacy")
        tables = ("by_visits", "useful", "states", "clips", "suggestions", "notices")
        return {
            "study": self.study.study.name,
            "mechanism": self.study.mechanism.name,
            "level": self.study.report.level,
            **{name: getattr(self, name) for name in fields},
            **{name: rows(getattr(self, name)) for name in tables},
            "answer": None if self.answer is None else asdict(self.answer),
        }

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the half-width against the people who visit a state, for several epsilon.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Raises:
            UsageError: the mechanism has no half-widths by visits.
            MissingComponentError: Matplotlib is not installed.
        """
        if not self.by_visits:
            raise UsageError("this plan has no half-widths to plot", code="nothing-to-plot")
        from privalue.report import plot_plan  # noqa: PLC0415 - it imports this

        return plot_plan(self, ax)

    def half_widths(self, visits: Vector) -> dict[float, Vector]:
        """Return half-widths at these visits, by epsilon: a quarter, one and four times its own."""
        by_epsilon = {}
        for times in _EPSILONS:
            try:
                study = self.study.replace(epsilon=times * self.study.privacy.epsilon)
                widths = _widths(study, self.trajectories, relative=self.relative)
            except StudyError:  # an epsilon out of the range that a study allows
                continue
            assert widths is not None
            by_epsilon[study.privacy.epsilon] = widths.middle.at(visits)
        return by_epsilon


def plan(
    study: Study,
    trajectories: int | None = None,
    *,
    visits: Any = None,
    world: Any = None,
    half_width: float | None = None,
    people: int | None = None,
    target_rmse: float | None = None,
    solve: Literal["trajectories", "epsilon"] | None = None,
    steps: int | None = None,
) -> Plan:
    """Predict the accuracy of a study before any data is opened; nothing is spent.

    Args:
        study: the study.
        trajectories: how many are planned; the number that the study declares, if left out.
        visits: the probability that a trajectory visits each state, in any form that ``Study``
            takes; the study's own prior, if left out. It does not change the study.
        world: a public MDP that the data will resemble, e.g. "chain" or "gym:FrozenLake-v1".
        half_width: a target for a state's interval: ``answer`` has the number of people that it
            needs, or, if ``people`` is given, the epsilon.
        people: how many people visit a state, for ``half_width``.
        target_rmse: a target for the overall error, with visits or a world: ``answer`` has the
            number of trajectories that it needs.
        solve: what may change to reach ``target_rmse``: "trajectories" (default) or "epsilon".
        steps: the most rows of a trajectory, if that is public.

    Raises:
        UsageError: a number is missing or not allowed, or a combination has no answer.
        StudyError: the study is infeasible.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> plan = pv.plan(study)
    >>> [row.visits for row in plan.by_visits][:3], plan.useful[0].visits
    ([10, 30, 100], 55)
    """
    if not isinstance(study, Study):
        raise UsageError(
            f"a Study is needed, not {type(study).__name__}; read one with Study.load(path)"
        )
    setting = _setting(study, trajectories, visits, world, steps)
    if study.is_off_policy:
        if any(target is not None for target in (half_width, people, target_rmse, solve)):
            raise UsageError("dp-ope has no targets to solve for; leave them out")
        return _policy_plan(study, setting)
    _require_question(study, setting, half_width, people, target_rmse, solve)
    m, answer = setting.trajectories, None
    if target_rmse is not None:
        source = setting.synthetic(study)
        assert source is not None
        quantity = solve or "trajectories"
        answer = solvers.solve_error(study, source, m, target_rmse, quantity)
        if m is None:  # plan with the number that the answer found
            m = int(answer.value or MAX_TRAJECTORIES)
            setting = replace(setting, trajectories=m)
    has_bounds_stage = "bounds" in study.stages
    relative = has_bounds_stage and setting.world is None
    low, high = study.values.return_bounds
    unit = high - low if relative else 1.0
    widths = _widths(study, m, relative=relative)
    prediction = _prediction(study, setting)
    if prediction is not None and widths is not None and setting.world is not None:
        widths = widths.scale_range(prediction.range / widths.range)
    if half_width is not None:
        assert widths is not None
        answer = (
            solvers.people_for(widths.middle, half_width)
            if people is None
            else solvers.epsilon_for_half_width(study, m, people, half_width, widths.range)
        )
    return Plan(
        study=study,
        trajectories=m,
        relative=relative,
        range=(high - low) / unit if widths is None else widths.range,
        by_visits=() if widths is None else _by_visits(widths.middle),
        useful=() if widths is None else _useful(widths.middle),
        states=() if prediction is None else _states(study, prediction, widths, unit),
        rmse=None if prediction is None else prediction.rmse / unit,
        without_privacy=None if prediction is None else prediction.without_privacy / unit,
        answer=answer,
        notices=tuple(_notices(study, setting, prediction, unit if relative else None)),
        setting=setting,
    )


def _setting(
    study: Study,
    trajectories: int | None,
    visits: Any,
    world: Any,
    steps: int | None,
) -> Setting:
    """Check the arguments of a plan besides the study."""
    m = study.study.trajectories if trajectories is None else trajectories
    is_whole = isinstance(m, int) and not isinstance(m, bool)
    if m is not None and not (is_whole and 1 <= m <= MAX_TRAJECTORIES):
        raise UsageError(
            sentence("question", "trajectories", most=MAX_TRAJECTORIES),
            code="trajectories-out-of-range",
            argument=("trajectories", m),
        )
    if visits is not None and world is not None:
        raise UsageError("visits and world both say how often states are visited; give one")
    if steps is not None and not 1 <= steps <= 100_000:
        raise UsageError(
            "it must be from 1 to 100000", code="steps-out-of-range", argument=("steps", steps)
        )
    return Setting(
        trajectories=m,
        visits=None if world is not None else _with_visits(study, visits).visit_prior,
        world=None if world is None else world_of(world),
        steps=steps,
    )


def _with_visits(study: Study, visits: Any) -> Study:
    """Return the study with another prior of visits; its file may be in any folder."""
    if visits is None:
        return study
    if not isinstance(visits, str | Path):
        return study.replace(visits=visits)
    path, sections = Path(visits).absolute(), study.sections()
    folders = (*study.folders, path.parent) if study.folders else ()
    states = {**sections.get("states", {}), "visits": str(path)}
    return Study.from_sections({**sections, "states": states}, *folders)


def _widths(study: Study, trajectories: int | None, *, relative: bool) -> HalfWidth | None:
    """Return the half-widths of all keys; None if the noise depends on the data."""
    if study.mechanism.name != "dp-ssp":
        return None
    widths = HalfWidth.of(study, mechanism_of_study(study, trajectories))
    return widths.scale_range(1 / widths.range) if relative else widths


def _by_visits(widths: HalfWidth) -> tuple[VisitsRow, ...]:
    columns = (widths.at(VISITS), widths.at_95(VISITS), widths.without_privacy.at(VISITS))
    return tuple(
        VisitsRow(visits=n, half_width=half, half_width_95=half_95, without_privacy=clean)
        for n, (half, half_95, clean) in zip(VISITS, np.transpose(columns).tolist(), strict=True)
    )


def _useful(widths: HalfWidth) -> tuple[Threshold, ...]:
    margin = ONE_IN_TWENTY * float(widths.count_noise)
    least_visits = [float(widths.visits_for(share / 2 * widths.range)) for share in SHARES]
    return tuple(
        Threshold(share=share, visits=math.ceil(visits), visits_95=math.ceil(visits + margin))
        for share, visits in zip(SHARES, least_visits, strict=True)
    )


def _prediction(study: Study, setting: Setting) -> Prediction | None:
    """Return the error of synthetic releases; None if nothing is known of visits."""
    m = setting.trajectories
    if m is None or study.key_count > MAX_STATES:
        return None
    source = setting.synthetic(study)
    return None if source is None else predict(study, source, m)


def _states(
    study: Study, prediction: Prediction, widths: HalfWidth | None, unit: float
) -> tuple[StateRow, ...]:
    """Return a row for every key.

    The half-width is that of the interval at the expected visits; for a mechanism without intervals
    it is the quantile of the value's error at the study's level.
    """
    visits = prediction.visits
    halves = prediction.by_key / unit if widths is None else widths.at(visits)
    labels = key_labels(study)
    names = (*labels, "visits", "half_width")
    rows = zip(*labels.values(), visits.tolist(), halves.tolist(), strict=True)
    return tuple(StateRow(**dict(zip(names, row, strict=True))) for row in rows)


def _require_question(
    study: Study,
    setting: Setting,
    half_width: float | None,
    people: int | None,
    target_rmse: float | None,
    solve: str | None,
) -> None:
    """Refuse combinations of arguments that have no answer, before slow computations."""
    name, m = study.mechanism.name, setting.trajectories
    has_bounds_stage = "bounds" in study.stages
    has_visits = setting.world is not None or (setting.visits is not None and not has_bounds_stage)
    is_explicit = setting.world is not None or setting.visits is not study.visit_prior
    refusals = {
        "two-targets": None not in (half_width, target_rmse),
        "solve": solve not in (None, "trajectories", "epsilon"),
        "solve-alone": solve and target_rmse is None,
        "people-alone": people and half_width is None,
        "people": people is not None and people < 1,
        "no-intervals": half_width and name != "dp-ssp",
        "rmse-alone": target_rmse is not None and not has_visits,
        "trajectories-missing": m is None
        and (solve == "epsilon" or (is_explicit and target_rmse is None)),
    }
    for code, applies in refusals.items():
        if applies:
            raise question_error(code, name=name)


def _notices(
    study: Study, setting: Setting, prediction: Prediction | None, share_of: float | None
) -> Iterator[PlanNotice]:
    """Yield the notices on values by state.

    Args:
        study: the study.
        setting: the other arguments of the plan.
        prediction: of the error, if there is one.
        share_of: the range that errors are shares of; None if errors are in units of returns.
    """
    if study.mechanism.name in SMOOTH and prediction is None:
        yield notice("needs-visits-or-world", name=study.mechanism.name)
    if share_of is not None:
        yield notice("relative-widths")
    if prediction is not None:
        if setting.world is not None:
            yield notice("assumes-a-world", world=setting.world.text)
        else:
            yield notice("assumes-visits")
        if prediction.worst > _MAX_SPREAD * prediction.rmse:
            unit = share_of or 1.0
            yield notice("varies", rmse=prediction.rmse / unit, worst=prediction.worst / unit)
        unvisited = [study.key_label(int(at)) for at in np.flatnonzero(prediction.visits == 0)]
        if unvisited:
            rest = f" and {len(unvisited) - 5:,} more" if len(unvisited) > 5 else ""
            yield notice("unvisited", names=", ".join(map(str, unvisited[:5])) + rest)
    elif setting.has_visits and study.key_count > MAX_STATES:
        yield notice("too-many-states", most=MAX_STATES)
    yield from _release_notices(study, setting.trajectories)


def _release_notices(study: Study, trajectories: int | None) -> Iterator[PlanNotice]:
    """Yield the refusals and warnings that a release would give."""
    try:
        mechanism = mechanism_of_study(study, trajectories)
    except StudyError as problem:  # a rule needs m, for example
        yield PlanNotice(code=problem.code, severity="warn", text=str(problem))
        return
    yield from usefulness_notices(usefulness(study, mechanism, trajectories))
    delta = large_delta(study, mechanism.terms.size)
    if delta is not None:
        yield notice(delta.code, text=delta.text)


def usefulness_notices(result: Usefulness) -> Iterator[PlanNotice]:
    """Yield a notice if a release would be refused, or if few of its values may be useful."""
    if result.useless:
        yield notice("useless", text=result.text, trajectories=result.size_text)
    elif result.risky:
        yield notice("few-trajectories", text=result.few_text)


# dp-ope


def _policy_plan(study: Study, setting: Setting) -> Plan:
    """Return the plan of a study with dp-ope, with a row for each clip."""
    m, world, study_clip = setting.trajectories, setting.world, float(study.policy.clip or 1.0)
    if m is None:
        raise question_error("trajectories-missing")
    starts, (low, high) = study.limits.keys, study.values.return_bounds
    rows = tuple(
        bound_row(study, m / starts, clip, setting.steps)
        if world is None
        else world_row(study, m, clip, world)
        for clip in sorted({*CLIPS, study_clip})
    )
    result = Plan(
        study=study,
        trajectories=m,
        relative=False,
        range=high - low,
        clips=rows,
        rmse=None if world is None else next(row.error for row in rows if row.clip == study_clip),
        setting=setting,
    )
    notices = [*_policy_notices(result, setting, starts), *_release_notices(study, m)]
    return replace(result, notices=tuple(notices))


def _study_clip(result: Plan) -> ClipRow:
    return next(row for row in result.clips if row.clip == float(result.study.policy.clip or 1.0))


def _clip_suggestions(result: Plan) -> Iterator[Suggestion]:
    current, best = _study_clip(result), min(result.clips, key=lambda row: row.error)
    if best.error < 0.95 * current.error:
        yield Suggestion(
            code="clip",
            text=sentence("suggestions", "clip", clip=best.clip),
            measure="rmse" if result.rmse is not None else "error_at_most",
            before=current.error,
            after=best.error,
        )


def _policy_notices(result: Plan, setting: Setting, starts: int) -> Iterator[PlanNotice]:
    current = _study_clip(result)
    if setting.world is None and "behaviour" not in result.study.policies:
        yield notice("behaviour-in-rows")
    elif setting.world is None and setting.steps is None:
        yield notice("no-length-bound")
    elif not current.supported:
        yield notice("little-kept", clip=current.clip, kept=current.kept, supported=MIN_KEPT_MASS)
    if starts > 1:
        yield notice("by-start", starts=starts)
