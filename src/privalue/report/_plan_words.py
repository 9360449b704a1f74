"""Put a plan into words: the verdict, and a paragraph that can be pasted into a protocol."""

from privalue.planning import Aggregation, Answer, Forecast, Prediction, shown
from privalue.study import Study
from privalue.version import VERSION

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
    chosen, best, guess = prediction.chosen, prediction.best, prediction.guess
    m, name = f"{prediction.trajectories:,} trajectories", name_of(chosen)
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
        within = f", {range_in_words(chosen)}" if prediction.ranged else ""
        return (
            f"With {m}, {name} is predicted to be off by {least}{shown(chosen.rmse)}, "
            f"{guess / chosen.rmse:.2g} times better than guessing ({shown(guess)}){within}; "
            f"{privacy}."
        )
    hope = (
        f"{name_of(best)} would be off by {shown(best.rmse)}."
        if best.rmse < guess
        else "No mechanism does better with so little."
    )
    return (
        f"Hopeless as it stands: with {m}, {name} is predicted to be off by {least}"
        f"{shown(chosen.rmse)}, and guessing {(low + high) / 2:g} for every state by "
        f"{shown(guess)}. {hope}"
    )


def range_in_words(forecast: Forecast) -> str:
    """Return the ends of the range, and which is which."""
    return (
        f"within a range from {shown(forecast.optimistic)} (optimistic) to "
        f"{shown(forecast.cautious)} (cautious)"
    )


def answer_in_words(answer: Answer) -> str:
    """Return what it takes to reach a target with one mechanism, or why nothing does."""
    if answer.value is None:
        return answer.reason
    value = f"{int(answer.value):,}" if answer.quantity == "trajectories" else f"{answer.value:g}"
    end = " at the cautious end" if answer.cautious else ""
    return f"{value} (predicted error {shown(answer.rmse)}{end})"


def aggregation_in_words(found: Aggregation) -> str:
    """Return the sizes of aggregation that reach the target, in words."""
    best = min(found.errors, key=lambda size: found.errors[size])
    target = shown(found.target)
    if not found.reaching:
        return (
            f"no aggregation reaches {target}: the best of those tried is size = {best}, with "
            f"{shown(found.errors[best])}"
        )
    if not found.known:
        return (
            f"noise and sampling reach {target} from size = {found.finest} on (predicted error "
            f"{shown(found.errors[found.finest or 1])} at the cautious end); how well so coarse "
            "values fit is not known without a world, and comes on top"
        )
    return (
        f"the coarsest aggregation that reaches {target} is size = {found.coarsest} (predicted "
        f"error {shown(found.errors[found.coarsest or 1])}), the finest is size = {found.finest}, "
        f"and the best of those tried is size = {best}, with {shown(found.errors[best])}"
    )


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
    text = [
        f"The values of {study.state_count} states{_arms(study)} will be estimated from "
        f"{prediction.trajectories:,} trajectories, discounted by {study.values.discount:g} per "
        f"step and with returns within the public bounds [{low:g}, {high:g}], under "
        f"differential privacy with epsilon = {study.privacy.epsilon:g} and delta = "
        f"{study.privacy.delta:g}. {_unit(study)}",
        f"The mechanism is {name_of(chosen)}, of privalue {VERSION}.",
        _expected(prediction),
        _parts(prediction),
        f"Guessing {(low + high) / 2:g} for every state would give {shown(prediction.guess)}, and "
        f"the same analysis without privacy {shown(prediction.floor)}.",
    ]
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
        return f" and {study.action_count} actions, {study.key_count} pairs,"
    return f" in each of {study.arm_count} arms" if study.arm_count > 1 else ""


def _expected(prediction: Prediction) -> str:
    """Return the sentence on the error to expect: from the study alone, the cautious end first."""
    chosen = prediction.chosen
    begin = "Before any data was opened, the root mean square error over the states was predicted"
    if not prediction.ranged:
        return (
            f"{begin} to be {shown(chosen.rmse)}; of ten releases eight should fall between "
            f"{shown(chosen.usual[0])} and {shown(chosen.usual[1])}."
        )
    return (
        f"{begin} under cautious assumptions to be {shown(chosen.cautious)}. How often states are "
        f"visited and how far values differ is not known beforehand: the same prediction gives "
        f"{shown(chosen.rmse)} under middling assumptions, and {shown(chosen.optimistic)} under "
        "optimistic ones."
    )


def _parts(prediction: Prediction) -> str:
    """Return the sentence on how much of the error is noise, sampling and approximation."""
    chosen = prediction.chosen
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
        return f"{target} needs {int(answer.value):,} trajectories."
    return f"{target} needs epsilon = {answer.value:g} with these trajectories."


def _unit(study: Study) -> str:
    """Return the sentence that says what is protected."""
    one = {
        "trajectory": "trajectory",
        "person": f"person with all of up to {study.trajectories_per_person} trajectories",
    }[study.privacy.unit]
    how = "replaced" if study.privacy.neighbours == "replace-one" else "added or removed"
    return f"What is protected is one {one}, {how}."


def _persons(study: Study) -> list[str]:
    """Return the assumption about persons, if the study needs one."""
    if study.privacy.unit != "person":
        return []
    most = study.trajectories_per_person
    return [f"every person has {most} trajectories"] if most > 1 else []
