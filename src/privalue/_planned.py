"""Plan a release: the error to expect, and what would help, before any data is opened."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privalue._notebook import plan_html
from privalue._plots import plot_plan
from privalue._types import Progress
from privalue.core import MOST_TRAJECTORIES, Vector
from privalue.curator import with_columns
from privalue.errors import UsageError
from privalue.planning import (
    Answer,
    Change,
    Judgement,
    Option,
    Prediction,
    PublicModel,
    advice,
    checked_target,
    doubtful_words,
    epsilon_for,
    judge_planned,
    main_options,
    planned_rare_state_words,
    planned_trajectories,
    predict,
    public_model,
    shown,
    trajectories_for,
    unvisited_states,
    unvisited_words,
)
from privalue.report import (
    misfit_known,
    pairs_in_words,
    paragraph,
    verdict,
)
from privalue.simulation import World
from privalue.simulation import world as find_world
from privalue.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SOLVED = ("trajectories", "epsilon")

# Shows what is being worked on, and gets how far it is.
Phase = Callable[[str], AbstractContextManager[Progress]]


def _silent(_: str) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True, kw_only=True)
class Solved:
    """What was solved for, beside the prediction."""

    quantity: str
    target: float
    answers: Sequence[Answer]

    @property
    def own(self) -> Answer | None:
        """Return the answer for the study's own mechanism."""
        return next((answer for answer in self.answers if answer.option.chosen), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The error to expect of a study, before any data is opened.

    Attributes:
        prediction: everything that was predicted, mechanism by mechanism.
        solved: the answers, where a target was given.
    """

    prediction: Prediction
    solved: Solved | None = None
    world: World | None = None
    draws: int | None = None
    phase: Phase = field(default=_silent, repr=False)

    def __repr__(self) -> str:
        of_pairs = pairs_in_words(self.prediction)
        return f"Plan({self.verdict}{'' if of_pairs is None else f' {of_pairs}.'})"

    def _repr_html_(self) -> str:
        # Advice takes as long as the plan itself: it is shown once somebody asked for it.
        asked: list[Change] = vars(self).get("advice", [])
        changes = [f"{each.what}: {shown(each.rmse)}" for each in asked]
        return plan_html(self.prediction, changes)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the predicted error of every mechanism, with its range, beside that of guessing.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Returns:
            The axes.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        return plot_plan(self.prediction, ax)

    @property
    def study(self) -> Study:
        """Return the study, its mechanism chosen."""
        return self.prediction.study

    @property
    def trajectories(self) -> int:
        """Return how many trajectories the plan is for; with a target, how many it takes."""
        return self.prediction.trajectories

    @property
    def mechanism(self) -> str:
        """Return the mechanism that the errors are of."""
        return self.study.mechanism.name

    @property
    def rmse(self) -> float:
        """Return the predicted root mean square error over the states, or over the pairs."""
        return self.prediction.chosen.rmse

    @property
    def state_rmse(self) -> float | None:
        """Return the error of V over the states, where there are actions; else None."""
        found = self.prediction.chosen.of_pairs
        return None if found is None else found.state_rmse

    @property
    def clear(self) -> float | None:
        """Return the share of pairs whose noisy count will be clear; None without actions."""
        found = self.prediction.chosen.of_pairs
        return None if found is None else found.clear

    @property
    def range(self) -> tuple[float, float]:
        """Return the error at the optimistic end and at the cautious one.

        With a world both are ``rmse``: there is nothing to be cautious about.
        """
        return self.prediction.chosen.range

    @property
    def guess(self) -> float:
        """Return the error of guessing the middle of the bounds, which needs no data at all."""
        return self.prediction.guess

    @property
    def hopeless(self) -> bool:
        """Return whether the release is predicted to be no better than guessing."""
        return self.prediction.hopeless

    @property
    def by_state(self) -> Vector:
        """Return the predicted error of every state (of every arm), in their order."""
        found = self.prediction.chosen.by_state
        return np.full(self.study.key_count, np.inf) if found is None else found

    @property
    def answer(self) -> float | None:
        """Return what it takes for the target, with the study's own mechanism; None: nothing does.

        Raises:
            UsageError: no target was given.
        """
        if self.solved is None:
            raise UsageError("the plan has no target; give pv.plan(study, target_rmse=0.05)")
        return None if self.solved.own is None else self.solved.own.value

    @cached_property
    def table(self) -> pa.Table:
        """Return the errors of all mechanisms as an Arrow table, the least first.

        ``table.to_pandas()``, ``pl.DataFrame(plan)`` and DuckDB read it; ``this_study`` marks the
        study's own mechanism, and ``refused`` says why there is no error.
        """
        rows = [
            {
                "mechanism": one.option.mechanism,
                "calibration": one.option.calibration,
                "detail": one.option.detail,
                "this_study": one.option.chosen,
                "rmse": one.rmse,
                "low": one.range[0],
                "high": one.range[1],
                "noise": one.noise,
                "sampling": one.sampling,
                "approximation": one.approximation,
                "refused": one.refused,
            }
            for one in self.prediction.forecasts
        ]
        texts, numbers = ("mechanism", "calibration", "detail"), ("rmse", "low", "high")
        schema = {
            **dict.fromkeys(texts, pa.string()),
            "this_study": pa.bool_(),
            **dict.fromkeys((*numbers, "noise", "sampling", "approximation"), pa.float64()),
            "refused": pa.string(),
        }
        return pa.Table.from_pylist(rows, schema=pa.schema(schema))

    def to_pandas(self) -> Any:
        """Return the table as a pandas frame."""
        return self.table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Let whatever reads Arrow read the table."""
        return self.table.__arrow_c_stream__(requested_schema)

    @cached_property
    def advice(self) -> list[Change]:
        """Return the changes that lower the error by 5% or more, the most helpful first."""
        with self.phase("Looking for what would help") as report:
            return advice(self.prediction, self.world, draws=self.draws, progress=report)

    @cached_property
    def notes(self) -> list[str]:
        """Return what is assumed, and what else the reader should know, a line each."""
        return _notes(self.prediction)

    @property
    def verdict(self) -> str:
        """Return one line: what to expect, or that it is hopeless."""
        return verdict(self.prediction)

    @property
    def paragraph(self) -> str:
        """Return a paragraph for the protocol of a study."""
        own = None if self.solved is None else self.solved.own
        return paragraph(self.prediction, own)


def plan(
    study: Study,
    trajectories: int | None = None,
    *,
    target_rmse: float | None = None,
    solve: str | None = None,
    world: str | World | None = None,
    draws: int | None = None,
    columns: Mapping[str, str] | None = None,
    phase: Phase = _silent,
) -> Plan:
    """Predict the error of a study before any data is opened; nothing is spent.

    Args:
        study: what is public.
        trajectories: how many are planned; as the study declares, if left out.
        target_rmse: the error to reach: ``answer`` then says what it takes.
        solve: what may change to reach it: "trajectories" (the default) or "epsilon".
        world: a public MDP that the data will resemble, e.g. "chain" or "gym:FrozenLake-v1".
        draws: made-up data sets per prediction, 8 to 100,000; by the number of states, if left out.
        columns: names of columns, as for ``release``; they change no prediction.
        phase: shows what is being worked on; nothing, if left out.

    Returns:
        The plan: ``rmse``, ``range``, ``table``, ``advice``, ``verdict``.

    Raises:
        UsageError: a number or a choice is missing, or not allowed.
        StudyError: the study asks for what cannot be done.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> plan = pv.plan(study, trajectories=5000)
    >>> plan.rmse < plan.guess, plan.hopeless
    (True, False)
    """
    quantity = _question(solve, target_rmse)
    if draws is not None and not 8 <= draws <= 100_000:
        raise UsageError(f"draws={draws}: it must be from 8 to 100000")
    study = with_columns(study, columns)
    if study.values_a_policy:
        raise UsageError("dp-ope values one policy, and no states; use plan_policy(study, ...)")
    known = None if world is None else find_world(world)
    if quantity != "trajectories" or trajectories is not None:
        planned_trajectories(study, trajectories)  # complains before anything takes time
    solved, m = None, trajectories
    with phase("Looking at the model"):
        model = public_model(study, known)
    if quantity is not None and target_rmse is not None:
        with phase(f"Solving for {quantity}") as report:
            solved = _solved(quantity, target_rmse, study, model, m, draws, report)
        m = m or _enough(solved, study.study.trajectories)
    with phase("Predicting") as report:
        found = predict(study, model, trajectories=m, draws=draws, progress=report)
    return Plan(prediction=found, solved=solved, world=known, draws=draws, phase=phase)


def _question(solve: str | None, target: float | None) -> str | None:
    """Return what is to be solved for, or None; raise UsageError if arguments do not fit."""
    if solve is not None and solve not in SOLVED:
        raise UsageError(f"solve={solve!r}: it must be trajectories or epsilon")
    if target is None:
        if solve is not None:
            raise UsageError(f"solve={solve!r} needs a target: target_rmse=0.05, for example")
        return None
    checked_target(target)
    return solve or "trajectories"


def _solved(
    quantity: str,
    target: float,
    study: Study,
    model: PublicModel,
    trajectories: int | None,
    draws: int | None,
    progress: Progress,
) -> Solved:
    """Return the answers to what was asked, mechanism by mechanism.

    Args:
        quantity: what is solved for: "trajectories" or "epsilon".
        target: the error to reach.
        study: the study, its mechanism chosen.
        model: what is assumed about the data.
        trajectories: m, if it was given.
        draws: made-up data sets per prediction.
        progress: called with what is done, and how much there is.
    """
    answers = []
    options = main_options(study)
    for done, option in enumerate(options):
        progress(done, len(options))
        answers.append(_answer(quantity, option, model, target, study, trajectories, draws))
    return Solved(quantity=quantity, target=target, answers=answers)


def _answer(
    quantity: str,
    option: Option,
    model: PublicModel,
    target: float,
    study: Study,
    trajectories: int | None,
    draws: int | None,
) -> Answer:
    """Return what one mechanism needs for the target."""
    if quantity == "trajectories":
        return trajectories_for(option, model, target, draws=draws)
    m = planned_trajectories(study, trajectories)
    return epsilon_for(option, model, target, trajectories=m, draws=draws)


def _enough(solved: Solved, declared: int | None) -> int:
    """Return the m that the prediction is shown for: what the study's own mechanism needs.

    If that is not reachable, or was not asked: m as declared, or what another mechanism needs.
    """
    if solved.quantity == "trajectories" and solved.own is not None and solved.own.reached:
        return int(solved.own.value or 0)
    others = [answer.value for answer in solved.answers if answer.value is not None]
    return declared or int(min(others, default=MOST_TRAJECTORIES))


def _notes(prediction: Prediction) -> list[str]:
    """Return what is assumed, and what else the reader should know, a line each."""
    study, m = prediction.study, prediction.trajectories
    assumed = list(prediction.model.assumptions)
    if study.privacy.unit == "person" and study.trajectories_per_person > 1:
        most = study.trajectories_per_person
        assumed.append(f"every person has {most} trajectories, so there are {-(-m // most):,}")
    notes = [f"the plan assumes: {'; '.join(assumed)}"]
    if not misfit_known(prediction):
        notes.append(
            "how well the features fit is not known without a world (--world WORLD), and comes on "
            'top: it is the "?" under approximation'
        )
    if study.privacy.delta * m >= 1:
        notes.append(
            f"delta = {study.privacy.delta:g} is not below 1/m = {1 / m:.3g}: a release would ask "
            "for --accept-large-delta (in Python accept_large_delta=True)"
        )
    elif study.privacy.delta * m > 0.1:
        notes.append(f"delta = {study.privacy.delta:g} is above 1/(10 m) = {0.1 / m:.3g}")
    rare = planned_rare_state_words(study, m)
    if rare is not None:
        notes.append(rare)
    if prediction.ranged and "bounds" in study.stages:
        notes.append(
            "the range is wide because nobody knows how large returns are: public bounds of them "
            "([values] returns) narrow it most; if they are small, a stage of the release finds "
            "that, and only the optimistic end counts on it"
        )
    elif prediction.ranged and study.visit_prior is None:
        notes.append(
            "the range is wide because nobody knows how often states are visited: a public prior "
            "of visits ([states] visits) narrows it, and so does a public world that the data "
            "will resemble (--world WORLD)"
        )
    world = prediction.model.known
    unvisited = unvisited_words(
        unvisited_states(study, prediction.model),
        "the world" if world else "the prior of visits",
        pairs=study.pairs is not None,
    )
    if unvisited is not None:
        notes.append(unvisited)
    judged = judge_planned(study, m)
    if judged is not None and judged.useless:
        notes.append(useless_words(judged))
    elif judged is not None and judged.doubtful and rare is None:
        notes.append(f"a release would warn: {doubtful_words(judged)}")
    return notes


def useless_words(judged: Judgement) -> str:
    """Return the note that a release would be refused, because it is no better than guessing."""
    return (
        f"by the study alone the predicted error is {shown(judged.rmse)}, where guessing has "
        f"{shown(judged.guess)}: a release would be refused, unless it is accepted "
        "(--accept-useless; in Python accept_useless=True)"
    )
