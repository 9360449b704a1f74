"""Put a plan into words: the verdict, and a paragraph that can be pasted into a protocol."""

import numpy as np

from privalue._written import counted
from privalue.planning import (
    Answer,
    Forecast,
    Prediction,
    shown,
    times,
)
from privalue.study import Study
from privalue.version import VERSION

_STEADIED = 0.9  # of the error without noise: shrinkage did it
_NOTHING = 1e-9  # of the range: rounding, not error


def name_of(forecast: Forecast) -> str:
    """Return the mechanism as a sentence names it."""
    option = forecast.option
    details = [option.calibration] if option.mechanism != "dp-ssp" else []
    details += [option.detail] if option.detail else []
    return f"{option.mechanism} ({', '.join(details)})" if details else option.mechanism


def fits_exactly(study: Study) -> bool:
    """Return whether the features can represent any values at all."""
    return study.features.kind == "tabular" or study.features.size == 1


def misfit_known(prediction: Prediction) -> bool:
    """Return whether it is known how well the features fit."""
    return prediction.model.known or fits_exactly(prediction.study)


def approximation_shown(prediction: Prediction, forecast: Forecast) -> str:
    """Format the approximation error; a question mark means that features may add to it.

    Args:
        prediction: the plan, which knows whether the misfit of features is known.
        forecast: of the mechanism that is shown.
    """
    low, high = prediction.study.return_bounds
    size = forecast.approximation
    known = misfit_known(prediction)
    if size <= _NOTHING * (high - low):
        return "0" if known else "?"
    return shown(size) if known else f"{shown(size)} + ?"


def verdict(prediction: Prediction) -> str:
    """Return one line: what to expect, or that it is hopeless.

    Without a world the misfit of features is unknown, and the line says "at least".
    """
    chosen, guess = prediction.chosen, prediction.guess
    m, name = counted(prediction.trajectories, "trajectory"), name_of(chosen)
    low, high = prediction.study.return_bounds
    if chosen.refused is not None:
        return f"{name} cannot be planned: {chosen.refused}"
    least = "" if misfit_known(prediction) else "at least "
    if not prediction.hopeless:
        privacy = (
            f"without privacy it would be {shown(prediction.floor)}"
            if prediction.floor < guess
            else "even without privacy it would be no better than guessing"
        )
        if steadied(prediction):
            privacy = _plain_means(prediction)
        within = f", {range_in_words(chosen)}" if prediction.ranged else ""
        return (
            f"With {m}, {name} is predicted to be off by {least}{shown(chosen.rmse)}, "
            f"{times(guess / chosen.rmse)} times better than guessing ({shown(guess)}){within}; "
            f"{privacy}."
        )
    return (
        f"Hopeless as it stands: with {m}, {name} is predicted to be off by {least}"
        f"{shown(chosen.rmse)}, and guessing {(low + high) / 2:g} for every "
        f"{keys_of(prediction.study)[:-1]} by {shown(guess)}."
    )


def keys_of(study: Study) -> str:
    """Return what values are of: states, or pairs."""
    return "states" if study.pairs is None else "pairs"


def steadied(prediction: Prediction) -> bool:
    """Return whether shrinkage clearly takes more off the error than the noise adds."""
    found = prediction.chosen
    rare = found.sampling > found.approximation
    return rare and found.rmse < _STEADIED * found.without_noise < np.inf


def _plain_means(prediction: Prediction) -> str:
    """Return what the means would be off by, where shrinkage makes values better than these."""
    return (
        f"plain means without noise would be off by {shown(prediction.chosen.without_noise)}, "
        f"since few people are in some {keys_of(prediction.study)}"
    )


def pairs_in_words(prediction: Prediction) -> str | None:
    """Return how many pairs will be clear and how far off states are; None without actions."""
    found, study = prediction.chosen.of_pairs, prediction.study
    if found is None:
        return None
    least = f" ({found.cautious_clear:.0%} at the cautious end)" if prediction.ranged else ""
    states = (
        ""
        if found.state_rmse is None
        else f"; the values of the {counted(study.state_count, 'state')}, which come with them, "
        f"are predicted to be off by {shown(found.state_rmse)}"
    )
    return (
        f"Of the {counted(study.key_count, 'pair')} of a state and an action {found.clear:.0%} "
        f"will have a clear count{least}{states}"
    )


def range_in_words(forecast: Forecast) -> str:
    """Return the ends of the range, and which is which."""
    return (
        f"within a range from {shown(forecast.optimistic)} (optimistic) to "
        f"{shown(forecast.cautious)} (cautious)"
    )


def answer_in_words(answer: Answer) -> str:
    """Return what it takes to reach a target with one mechanism, or why nothing does."""

    def words(value: float) -> str:
        return f"{int(value):,}" if answer.quantity == "trajectories" else f"{value:g}"

    less = ""
    if answer.fewest is not None:
        less = f"; {words(answer.fewest)} at the optimistic end, if a stage finds a smaller bound"
    if answer.value is None:
        return f"{answer.reason}{less}"
    end = " at the cautious end" if answer.cautious else ""
    return f"{words(answer.value)} (predicted error {shown(answer.rmse)}{end}){less}"


def paragraph(prediction: Prediction, answer: Answer | None = None) -> str:
    """Return the justification of a sample size, for a protocol.

    It is made of plain sentences that name every assumption, so that a reviewer can check them.

    Args:
        prediction: the plan.
        answer: what a target would take; None where nobody asked.
    """
    study, model, chosen = prediction.study, prediction.model, prediction.chosen
    low, high = study.return_bounds
    if chosen.refused is not None:
        return verdict(prediction)
    without = f", and the same analysis without privacy {shown(prediction.floor)}"
    if steadied(prediction):
        without = ""
    text = [
        f"The values of {counted(study.state_count, 'state')}{_arms(study)} will be estimated from "
        f"{counted(prediction.trajectories, 'trajectory')}, discounted by "
        f"{study.values.discount:g} per step and with returns within the public bounds [{low:g}, "
        f"{high:g}], under differential privacy with epsilon = {study.privacy.epsilon:g} and "
        f"delta = {study.privacy.delta:g}. {_unit(study)}",
        f"The mechanism is {name_of(chosen)}, of privalue {VERSION}.",
        _expected(prediction),
        _parts(prediction),
        f"Guessing {(low + high) / 2:g} for every {keys_of(study)[:-1]} would give "
        f"{shown(prediction.guess)}{without}.",
    ]
    of_pairs = pairs_in_words(prediction)
    if of_pairs is not None:
        text.append(f"{of_pairs}.")
    if answer is not None:
        text.append(_needs(answer))
    text.append(f"The prediction assumes that {'; '.join([*model.assumptions, *_persons(study)])}.")
    if not misfit_known(prediction):
        text.append(
            "How well the features fit the values is not known beforehand, and comes on top."
        )
    return " ".join(text)


def _arms(study: Study) -> str:
    """Return in how many arms values are estimated, if there are several, or of which actions."""
    if study.pairs is not None:
        return f" and {counted(study.action_count, 'action')}, {counted(study.key_count, 'pair')},"
    return f" in each of {study.arm_count} arms" if study.arm_count > 1 else ""


def _expected(prediction: Prediction) -> str:
    """Return the sentence on the error to expect: from the study alone, the cautious end first."""
    chosen = prediction.chosen
    keys = keys_of(prediction.study)
    begin = f"Before any data was opened, the root mean square error over the {keys} was predicted"
    if not prediction.ranged:
        return (
            f"{begin} to be {shown(chosen.rmse)}; of ten releases eight should fall between "
            f"{shown(chosen.usual[0])} and {shown(chosen.usual[1])}."
        )
    return (
        f"{begin} under cautious assumptions to be {shown(chosen.cautious)}. How often {keys} are "
        f"visited and how far values differ is not known beforehand: the same prediction gives "
        f"{shown(chosen.rmse)} under middling assumptions, and {shown(chosen.optimistic)} under "
        "optimistic ones."
    )


def _parts(prediction: Prediction) -> str:
    """Return the sentence on how much of the error is noise, sampling and approximation."""
    chosen = prediction.chosen
    if steadied(prediction):
        words = _plain_means(prediction)
        return f"{words[0].upper()}{words[1:]}; shrinkage draws those to the others."
    known = misfit_known(prediction)
    approximation = approximation_shown(prediction, chosen).removesuffix(" + ?")
    last = (
        "the approximation by features is not included"
        if approximation == "?"
        else f"{approximation} to approximation"
        + ("" if known else " (that of features not included)")
    )
    whole = "Of the middling error" if prediction.ranged else "Of this"
    return (
        f"{whole}, {shown(chosen.noise)} is due to the noise of privacy, {shown(chosen.sampling)} "
        f"to sampling, and {last}; the parts add up as squares, roughly."
    )


def _needs(answer: Answer) -> str:
    """Return the sentence on what it takes to reach the target."""
    assumed = " under the cautious assumptions" if answer.cautious else ""
    target = f"An error of at most {answer.target:g}{assumed}"
    if answer.value is None:
        return f"{target} is {answer.reason}."
    if answer.quantity == "trajectories":
        return f"{target} needs {counted(int(answer.value), 'trajectory')}."
    return f"{target} needs epsilon = {answer.value:g} with these trajectories."


def _unit(study: Study) -> str:
    """Return the sentence that says what is protected."""
    most = study.trajectories_per_person
    several = f"all of up to {most} trajectories" if most > 1 else "one trajectory"
    one = {"trajectory": "trajectory", "person": f"person with {several}"}[study.privacy.unit]
    how = "replaced" if study.privacy.neighbours == "replace-one" else "added or removed"
    return f"What is protected is one {one}, {how}."


def _persons(study: Study) -> list[str]:
    """Return the assumption about persons, if the study needs one."""
    if study.privacy.unit != "person":
        return []
    most = study.trajectories_per_person
    return [f"every person has {most} trajectories"] if most > 1 else []
