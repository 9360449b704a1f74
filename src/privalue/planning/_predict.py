"""Predict errors by sending made-up statistics through the real mechanisms.

| symbol            | here               | public |
|-------------------|--------------------|--------|
| V                 | ``model.values``   | yes    |
| hat V             | released values    | yes here: of made-up data |
| V_X               | the same without noise | yes here |
| V_m               | the same from the expected statistics | yes |

    noise          hat V against V_X    privacy
    sampling       V_X against V_m      m people, not all
    approximation  V_m against V        features, ridge, pseudo-counts, clamping
    rmse           hat V against V      all of it

each as the root mean square over the states, averaged over draws. From the study alone the error is
predicted three times, and the range goes from the optimistic case to the cautious one. Nothing here
opens data, and no formula for the error of a mechanism is written down: statistics are drawn from a
public model and go through the code that a release goes through, so that a prediction cannot drift
from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privalue._types import Progress
from privalue.core import (
    MOST_TRAJECTORIES,
    Design,
    Lsl,
    Lsw,
    Perturbation,
    PublicSize,
    Ssp,
    Stage,
    Statistics,
    Vector,
)
from privalue.errors import StudyError, UsageError
from privalue.estimate import NoisyStatistics, clear_limit, noisy_of, state_values_of, values_of
from privalue.planning._draws import Draws
from privalue.planning._noiseless import theta_before_noise
from privalue.planning._options import Option, options_of
from privalue.planning._public_model import SEED, PublicModel
from privalue.study import Study, design, mechanism_for

USELESS = 0.95  # of the error of guessing: from there on a release is refused
NOISES = 2  # draws of noise for each draw of statistics
_FEWEST_OF_ENDS, _MOST_OF_ENDS = 16, 40  # the ends of a range need fewer draws than its middle
# At the optimistic end a stage finds that returns take so much of their range: the noise of the
# values is in proportion to it. Nothing public tells how much it will be.
FOUND_RANGE = 1 / 32


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeUpDraw:
    """What one release of made-up statistics drew."""

    numbers: Vector
    level: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class OfPairs:
    """What else is predicted where values are of pairs of a state and an action."""

    state_rmse: float | None  # of V from Q; None where no state has a value
    clear: float  # the share of pairs whose noisy count will be clear
    cautious_clear: float  # the same at the cautious end


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """The predicted error of one mechanism; ``refused`` says why there is none.

    All numbers but the ``range`` are those of the middle case, or of the world.
    """

    option: Option
    rmse: float = np.inf
    range: tuple[float, float] = (np.inf, np.inf)  # optimistic, cautious; rmse twice for a world
    usual: tuple[float, float] = (np.inf, np.inf)  # of one release: 10% and 90% quantiles
    noise: float = np.inf
    sampling: float = np.inf
    approximation: float = np.inf
    without_noise: float = np.inf
    by_state: Vector | None = None
    of_pairs: OfPairs | None = None  # where there are actions
    refused: str | None = None

    @property
    def optimistic(self) -> float:
        """Return the error where visits are even, and values and returns vary little."""
        return self.range[0]

    @property
    def cautious(self) -> float:
        """Return the error where some states are visited by few: the one to promise."""
        return self.range[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The errors to expect of a study with m trajectories, one forecast for each mechanism."""

    study: Study
    model: PublicModel
    trajectories: int
    guess: float  # the error of the middle of the bounds, which needs no data at all
    floor: float  # the error without noise
    forecasts: tuple[Forecast, ...]  # the least error first

    @property
    def chosen(self) -> Forecast:
        """Return the forecast of the study's own mechanism."""
        return next(forecast for forecast in self.forecasts if forecast.option.chosen)

    @property
    def best(self) -> Forecast:
        """Return the forecast with the least error."""
        return self.forecasts[0]

    @property
    def ranged(self) -> bool:
        """Return whether errors are ranges: nobody knows the world that the data comes from."""
        return self.model.cautious is not None

    @property
    def hopeless(self) -> bool:
        """Return whether the study's own mechanism is no better than guessing."""
        return not self.chosen.rmse < self.guess

    @property
    def useless(self) -> bool:
        """Return whether a release of the study would be refused."""
        return not self.chosen.rmse < USELESS * self.guess

    @property
    def doubtful(self) -> bool:
        """Return whether the cautious end, and it alone, is no better than guessing."""
        return not self.useless and not self.chosen.cautious < USELESS * self.guess


def predict(
    study: Study,
    model: PublicModel,
    *,
    trajectories: int | None = None,
    options: Sequence[Option] | None = None,
    draws: int | None = None,
    ends: bool = True,
    progress: Progress | None = None,
) -> Prediction:
    """Predict the error of a study, and of the same study with other mechanisms.

    Args:
        study: what is public.
        model: what to assume of the data, from ``public_model``.
        trajectories: m; the declared number, if left out.
        options: the mechanisms to compare; all of them, if left out.
        draws: how many data sets to make up for each; by the number of states, if left out.
        ends: whether to predict the ends of the range, too, where there is one.
        progress: called with mechanisms done, and mechanisms in all.

    Returns:
        The forecasts, the least error first.
    """
    m = planned_trajectories(study, trajectories)
    chosen = options_of(study, m) if options is None else options
    forecasts = []
    for done, option in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen))
        forecasts.append(forecast(option, model, m, draws=draws, ends=ends))
    possible = [f.without_noise for f in forecasts if f.refused is None]
    return Prediction(
        study=study,
        model=model,
        trajectories=m,
        guess=guessing_error(study, model),
        floor=min(possible, default=np.inf),
        forecasts=tuple(sorted(_worth_a_row(forecasts), key=lambda f: f.rmse)),
    )


def _worth_a_row(forecasts: list[Forecast]) -> list[Forecast]:
    """Keep all requested options, and of the tuned ones only those that beat them.

    Of the settings that nobody asked for, each mechanism keeps its best one, and only if its error
    is below that of the mechanism's untuned settings.
    """
    kept = [f for f in forecasts if not f.option.tuned]
    least: dict[str, Forecast] = {}
    for found in forecasts:
        name = found.option.mechanism
        if name not in least or found.rmse < least[name].rmse:
            least[name] = found
    return [*kept, *(f for f in least.values() if f.option.tuned)]


def planned_trajectories(study: Study, trajectories: int | None) -> int:
    """Return m as the caller asks for it, or else as the study declares it."""
    m = study.study.trajectories if trajectories is None else trajectories
    if m is None:
        raise UsageError(
            "how many trajectories are planned? give --trajectories M (in Python "
            "trajectories=M), or declare it in the study: [study] trajectories = 10000"
        )
    if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= MOST_TRAJECTORIES:
        raise UsageError(
            f"trajectories is {m!r}; it must be a whole number from 1 to {MOST_TRAJECTORIES}"
        )
    return m


def planned_size(study: Study, trajectories: int) -> PublicSize:
    """Return the sizes that would be public with m trajectories.

    Each person is taken to have as many trajectories as the study allows.
    """
    persons = -(-trajectories // study.trajectories_per_person)
    return PublicSize.of(study.limits, trajectories, trajectories=trajectories, persons=persons)


def enough_draws(states: int) -> int:
    """Return how many draws give the error to a few percent.

    Many states need few draws, since the error averages over them.
    """
    return int(np.clip(2_000 // states, 16, 100))


def counted_states(study: Study, model: PublicModel) -> Vector:
    """Return for each state whether its error counts: it has a value, and a weight above 0."""
    counted = np.isfinite(model.values) & (study.key_weights > 0)
    if not counted.any():
        raise StudyError(
            "[weights] no state with a weight above 0 has a value in the world; use another world"
        )
    return np.asarray(counted)


def guessing_error(study: Study, model: PublicModel) -> float:
    """Return the root mean square error of guessing the middle of the bounds for every state.

    Values that are made up are spread evenly over the bounds. Features may represent only a small
    part of values in no order; the guess is compared with the full spread all the same, because
    such a misfit does not make guessing better.
    """
    low, high = study.return_bounds
    if not model.known:
        return (high - low) / math.sqrt(12)
    values = model.values[counted_states(study, model)]
    return float(np.sqrt(np.mean(np.square(values - (low + high) / 2))))


def forecast(
    option: Option,
    model: PublicModel,
    trajectories: int,
    *,
    draws: int | None = None,
    ends: bool = False,
) -> Forecast:
    """Predict the error of one mechanism, or say why it is refused.

    Args:
        option: the study with the mechanism.
        model: what to assume of the data.
        trajectories: m.
        draws: how many data sets to make up; by the number of states, if left out.
        ends: whether to predict the ends of the range, too.

    Returns:
        The forecast; its ``refused`` holds the message of a study that is not allowed.
    """
    try:
        return Forecaster(option, model, draws=draws, ends=ends).at(trajectories)
    except StudyError as problem:
        return Forecast(option=option, refused=str(problem))


def drawn_numbers(
    mechanism: Ssp | Lsw | Lsl, statistics: Statistics, generator: np.random.Generator
) -> MadeUpDraw:
    """Return what one release of made-up statistics draws, its stages included.

    Only a world says where the returns of single trajectories lie. Without one, a stage for bounds
    keeps the whole range here: it can only do better.
    """

    def noisy(perturbed: Perturbation) -> Vector:
        noise = generator.standard_normal(len(perturbed.center))
        return np.asarray(perturbed.center + perturbed.deviations * noise)

    if not isinstance(mechanism, Ssp):
        return MadeUpDraw(numbers=noisy(mechanism.perturb(statistics)))
    released: list[Stage] = []
    if "bounds" in mechanism.stages and statistics.level_counts.size > 0:
        numbers = noisy(mechanism.perturb(statistics, "bounds"))
        released.append(Stage(name="bounds", alpha=1.0, numbers=numbers, sigma=None))
    drawn = noisy(mechanism.perturb(statistics, "values", released))
    return MadeUpDraw(numbers=drawn, level=mechanism.level(released))


def released_values(study: Study, mechanism: Ssp | Lsw | Lsl, drawn: MadeUpDraw) -> Vector:
    """Return the values of a release that drew these numbers."""
    return values_of(study, mechanism, drawn.numbers, level=drawn.level)


def noisy_pairs(mechanism: Ssp | Lsw | Lsl, drawn: MadeUpDraw) -> NoisyStatistics:
    """Return the noisy statistics of a release of pairs, which only dp-ssp makes."""
    assert isinstance(mechanism, Ssp)
    return noisy_of(mechanism, drawn.numbers, drawn.level)


class Forecaster:
    """A predictor of one mechanism's error, for any m.

    It uses the same draws each time, so that the error is smooth in m.
    """

    def __init__(
        self,
        option: Option,
        model: PublicModel,
        *,
        draws: int | None = None,
        noises: int = NOISES,
        built: Design | None = None,
        ends: bool = False,
    ) -> None:
        self.option = option
        self._model = model
        self._noises = noises
        self._design: Design = design(option.study) if built is None else built
        number = draws or enough_draws(len(model.visits))
        self._draws = Draws(model, option.study, number)
        others = (model.optimistic, model.cautious) if ends else ()
        few = min(max(number // 2, _FEWEST_OF_ENDS), number, _MOST_OF_ENDS)
        self._ends = [
            Forecaster(option, other, draws=few, noises=noises, built=self._design)
            for other in others
            if other is not None
        ]

    def at(self, trajectories: int, mechanism: Ssp | Lsw | Lsl | None = None) -> Forecast:
        """Predict the error with m trajectories; ``mechanism`` is the study's, if at hand."""
        study, built = self.option.study, self._design
        if mechanism is None:
            mechanism = mechanism_for(study, built, planned_size(study, trajectories))
        limit = built.values(
            theta_before_noise(study, mechanism, self._draws.expected(trajectories))
        )
        generator = np.random.default_rng((SEED, 1))  # not the numbers that data sets are made of
        released, clean, of_pairs = [], [], []
        for statistics in self._draws.statistics(trajectories):
            clean.append(built.values(theta_before_noise(study, mechanism, statistics)))
            for _ in range(self._noises):
                drawn = drawn_numbers(mechanism, statistics, generator)
                released.append(released_values(study, mechanism, drawn))
                if study.pairs is not None:
                    of_pairs.append(noisy_pairs(mechanism, drawn))
        found = self._summary(np.array(released), np.repeat(clean, self._noises, axis=0), limit)
        if of_pairs:
            found = replace(found, of_pairs=self._pairs(of_pairs))
        ends = [end.at(trajectories, mechanism) for end in self._ends]
        errors = [found.rmse, *(end.rmse for end in ends)]
        smaller = FOUND_RANGE if self._ends and "bounds" in self.option.study.stages else 1.0
        return replace(
            found,
            range=(smaller * min(errors), max(errors)),
            of_pairs=_with_ends(found.of_pairs, ends),
        )

    def _pairs(self, noisy: Sequence[NoisyStatistics]) -> OfPairs:
        """Summarise what is known of states and of counts, over all draws."""
        study, truth = self.option.study, self._model.state_values
        fewest = clear_limit(study.report.level, study.key_count)
        clear = float(np.mean([each.ratios.clarity > fewest for each in noisy]))
        error = None
        if truth is not None and np.isfinite(truth).any():
            known = np.isfinite(truth)
            values = np.array([state_values_of(each, study) for each in noisy])
            squares = np.square(values - truth)[:, known]
            error = float(np.sqrt(squares.mean(axis=1)).mean())
        return OfPairs(state_rmse=error, clear=clear, cautious_clear=clear)

    def _summary(self, released: Vector, clean: Vector, limit: Vector) -> Forecast:
        """Summarise the errors of all draws: in all, by cause, and by state."""
        counted = counted_states(self.option.study, self._model)
        values = self._model.values

        def distance(a: Vector, b: Vector) -> Vector:
            return np.asarray(np.sqrt(np.mean(np.square(a - b)[..., counted], axis=-1)))

        errors = distance(released, values)
        low, high = np.quantile(errors, [0.1, 0.9])
        return Forecast(
            option=self.option,
            rmse=float(errors.mean()),
            usual=(float(low), float(high)),
            noise=float(distance(released, clean).mean()),
            sampling=float(distance(clean, limit).mean()),
            approximation=float(distance(limit, values)),
            without_noise=float(distance(clean, values).mean()),
            by_state=np.sqrt(np.mean(np.square(released - values), axis=0)),
        )


def _with_ends(found: OfPairs | None, ends: Sequence[Forecast]) -> OfPairs | None:
    """Return the same with the fewest clear pairs of all ends."""
    if found is None:
        return None
    others = [end.of_pairs.clear for end in ends if end.of_pairs is not None]
    return replace(found, cautious_clear=min([found.clear, *others]))
