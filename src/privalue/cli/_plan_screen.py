"""Show a plan: tables on the terminal, or one JSON object."""

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from privalue._planned import Solved
from privalue._written import counted
from privalue.planning import (
    Answer,
    Change,
    Forecast,
    PolicyPlan,
    Prediction,
    shown,
    times,
    unvisited_states,
)
from privalue.report import (
    answer_in_words,
    approximation_shown,
    keys_of,
    misfit_known,
    name_of,
    pairs_in_words,
    paragraph,
    steadied,
    verdict,
)

MOST_ROWS = 50


def print_policy_plan(console: Console, plan: PolicyPlan) -> None:
    """Print what several clips would give, and what is assumed."""
    console.print(plan.verdict, style=f"bold {'red' if plan.hopeless else 'green'}")
    table = Table(title="Predicted error by clip", title_justify="left")
    for name in ("clip", "kept", "error", "noise", "sampling", "clipping"):
        table.add_column(name, justify="right")
    for each in plan.forecasts:
        mark = " (study)" if each is plan.chosen else " (best)" if each is plan.best else ""
        numbers = (each.rmse, each.noise, each.sampling, each.bias)
        table.add_row(f"{each.clip:g}{mark}", f"{each.kept:.0%}", *map(shown, numbers))
    console.print(table)
    for note in plan.notes:
        console.print(f"Note: {note}.", style="yellow", soft_wrap=True)


def policy_plan_json(plan: PolicyPlan) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "mechanism": "dp-ope",
        "trajectories": plan.trajectories,
        "steps": plan.steps,
        "target_used": plan.target_used,
        "rmse": plan.rmse,
        "kept_mass": plan.chosen.kept,
        "best_clip": plan.best.clip,
        "clips": [
            {**vars(each), "rmse": each.rmse, "supported": each.supported}
            for each in plan.forecasts
        ],
        "verdict": plan.verdict,
        "notes": list(plan.notes),
    }


def print_plan(
    console: Console,
    prediction: Prediction,
    changes: Sequence[Change],
    solved: Solved | None,
    notes: Sequence[str],
    *,
    by_state: bool = False,
    every: bool = False,
) -> None:
    """Print the verdict, the numbers, what would help, and a paragraph for the protocol.

    Args:
        console: where to print.
        prediction: of the study and its alternatives.
        changes: what would help.
        solved: the answers to what was asked, if anything.
        notes: what is assumed, and what else there is to know.
        by_state: whether to print the error of every state too.
        every: whether to print the other mechanisms too.
    """
    colour = "red" if prediction.hopeless else "yellow" if prediction.doubtful else "green"
    console.print(verdict(prediction), style=f"bold {colour}")
    if solved is not None:
        _print_solved(console, solved, every)
    console.print(_table(prediction, every))
    of_pairs = pairs_in_words(prediction)
    if of_pairs is not None:
        console.print(f"{of_pairs}.")
    if by_state:
        console.print(_states(prediction))
    if changes:
        console.print("What would help, the most helpful first:", style="bold")
        for change in changes:
            remarks = [change.condition] if change.condition else []
            remarks += ["no better than guessing, even so"] if change.hopeless else []
            remark = f" ({'; '.join(remarks)})" if remarks else ""
            console.print(f"  {shown(change.rmse):>7}  {change.what}{remark}")
    for note in notes:
        console.print(f"Note: {note}.", style="yellow")
    console.print("For the protocol:", style="bold")
    console.print(_paragraph(prediction, solved), soft_wrap=True)


def _print_solved(console: Console, solved: Solved, every: bool) -> None:
    """Print the answer for the study's own mechanism, or one row for each mechanism."""
    table = Table(
        title=f"{solved.quantity.capitalize()} for an error of at most {solved.target:g}",
        title_justify="left",
    )
    table.add_column("mechanism")
    table.add_column(solved.quantity, overflow="fold")
    for answer in solved.answers:
        if not (every or answer.option.chosen):
            continue
        own = " (this study)" if answer.option.chosen else ""
        table.add_row(f"{answer.option.label}{own}", answer_in_words(answer))
    console.print(table)


def _table(prediction: Prediction, every: bool) -> Table:
    """Return the table of predicted errors: of the study's own mechanism, or of every one."""
    table = Table(
        title=f"Predicted root mean square error over the {keys_of(prediction.study)}, "
        f"{counted(prediction.trajectories, 'trajectory')}",
        title_justify="left",
    )
    ranged = prediction.ranged
    shares = ("noise", "sampling", "approx.", *([] if ranged else ["better"]))
    table.add_column("mechanism", overflow="fold")
    for name in ("error", *(["range"] if ranged else []), *shares):
        table.add_column(name, justify="right", no_wrap=True)
    for forecast in prediction.forecasts if every else [prediction.chosen]:
        own = forecast.option.chosen
        table.add_row(
            forecast.option.label + "*" * (own and every),
            *_numbers(prediction, forecast),
            style="bold" if own else None,
        )
    low, high = prediction.study.return_bounds
    plain = "plain means" if steadied(prediction) else "no privacy"
    table.add_row(plain, shown(prediction.floor), style="dim")
    table.add_row(f"guessing {(low + high) / 2:g}", shown(prediction.guess), style="dim")
    table.caption = f"{'* this study; ' * every}approx.: approximation error; " + (
        "range: from the optimistic end to the cautious one, all else is the middle case"
        if ranged
        else "better: how many times better than guessing"
    )
    table.caption_justify = "left"
    return table


def _numbers(prediction: Prediction, forecast: Forecast) -> list[str]:
    """Return the cells of a forecast."""
    if forecast.refused is not None:
        return ["refused"]
    parts = [
        shown(forecast.noise),
        shown(forecast.sampling),
        approximation_shown(prediction, forecast),
    ]
    if prediction.ranged:
        return [shown(forecast.rmse), "..".join(map(shown, forecast.range)), *parts]
    ratio = prediction.guess / forecast.rmse
    return [shown(forecast.rmse), *parts, f"{times(ratio)} x" if ratio > 1 else "no"]


def _states(prediction: Prediction) -> Table:
    """Return the table of predicted errors by state."""
    chosen, key = prediction.chosen, keys_of(prediction.study)[:-1]
    table = Table(title=f"By {key}, {name_of(chosen)}", title_justify="left")
    for name in (key, "expected visits", "error"):
        table.add_column(name, justify="left" if name == key else "right")
    errors = [] if chosen.by_state is None else chosen.by_state.tolist()
    visits = prediction.trajectories * prediction.model.visits
    rows = list(zip(map(str, prediction.study.key_names), visits.tolist(), errors, strict=False))
    for label, expected, error in rows[:MOST_ROWS]:
        table.add_row(label, f"{expected:,.0f}", shown(error) if math.isfinite(error) else "")
    if len(rows) > MOST_ROWS:
        table.caption = f"... and {len(rows) - MOST_ROWS} more; --json has them all"
    return table


def _paragraph(prediction: Prediction, solved: Solved | None) -> str:
    """Return the paragraph for the protocol."""
    return paragraph(prediction, None if solved is None else solved.own)


# For programs


def plan_json(
    prediction: Prediction,
    changes: Sequence[Change],
    solved: Solved | None,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what ``plan --json`` prints.

    Args:
        prediction: of the study and its alternatives.
        changes: what would help.
        solved: the answers to what was asked, if anything.
        notes: what is assumed, and what else there is to know.

    Returns:
        Plain values; numbers that are not finite are None.
    """
    study, model = prediction.study, prediction.model
    return {
        "study": study.study.name,
        "trajectories": prediction.trajectories,
        "verdict": verdict(prediction),
        "hopeless": prediction.hopeless,
        "mechanism": study.mechanism.name,
        "rmse": _finite(prediction.chosen.rmse),
        "range": _range_json(prediction, prediction.chosen),
        "cautious": _finite(prediction.chosen.cautious),
        "doubtful": prediction.doubtful,
        "guessing_rmse": prediction.guess,
        "without_privacy_rmse": _finite(prediction.floor),
        "approximation_known": misfit_known(prediction),
        "mechanisms": [
            _forecast_json(forecast, misfit_known(prediction))
            | {"range": _range_json(prediction, forecast)}
            for forecast in prediction.forecasts
        ],
        "states": list(map(str, study.key_names)),
        "unvisited": unvisited_states(study, model),
        "model": {
            "source": model.source,
            "assumptions": list(model.assumptions),
            "visits": model.visits.tolist(),
        },
        "pairs": None if prediction.chosen.of_pairs is None else vars(prediction.chosen.of_pairs),
        "target": None if solved is None else _solved_json(solved),
        "advice": [
            {
                "change": change.what,
                "condition": change.condition,
                "rmse": change.rmse,
                "hopeless": change.hopeless,
            }
            for change in changes
        ],
        "notes": list(notes),
        "paragraph": _paragraph(prediction, solved),
    }


def _forecast_json(forecast: Forecast, known: bool) -> dict[str, Any]:
    """Return a forecast as plain values.

    ``approximation`` is None if it is not known how well the features fit: then only a lower bound
    is.
    """
    option = forecast.option
    return {
        "mechanism": option.mechanism,
        "calibration": option.calibration,
        "detail": option.detail,
        "this_study": option.chosen,
        "rmse": _finite(forecast.rmse),
        "usual": [_finite(end) for end in forecast.usual],
        "noise": _finite(forecast.noise),
        "sampling": _finite(forecast.sampling),
        "approximation": _finite(forecast.approximation) if known else None,
        "approximation_at_least": _finite(forecast.approximation),
        "without_noise": _finite(forecast.without_noise),
        "by_state": None
        if forecast.by_state is None
        else [_finite(error) for error in forecast.by_state.tolist()],
        "refused": forecast.refused,
    }


def _range_json(prediction: Prediction, forecast: Forecast) -> dict[str, Any] | None:
    """Return the three predictions from the study alone; None with a world, which needs one."""
    if not prediction.ranged:
        return None
    return {
        "optimistic": _finite(forecast.optimistic),
        "middle": _finite(forecast.rmse),
        "cautious": _finite(forecast.cautious),
    }


def _solved_json(solved: Solved) -> dict[str, Any]:
    """Return the answers as plain values."""
    return {
        "rmse": solved.target,
        "solved_for": solved.quantity,
        solved.quantity: None if solved.own is None else _value(solved.own),
        "answers": [
            {
                "mechanism": answer.option.mechanism,
                "calibration": answer.option.calibration,
                "detail": answer.option.detail,
                "this_study": answer.option.chosen,
                "reached": answer.reached,
                solved.quantity: _value(answer),
                "rmse": _finite(answer.rmse),
                "cautious": answer.cautious,
                "fewest": answer.fewest,
                "reason": answer.reason,
            }
            for answer in solved.answers
        ],
    }


def _value(answer: Answer) -> float | int | None:
    """Return the value of an answer, a number of trajectories as a whole number."""
    whole = answer.quantity == "trajectories" and answer.value is not None
    return int(answer.value or 0) if whole else answer.value


def _finite(value: float) -> float | None:
    """Return a number, or None, which JSON has in place of infinities."""
    return value if math.isfinite(value) else None
