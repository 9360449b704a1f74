"""Print tables for people.

Functions that show what is private have "private" in their name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from privalue._checked import Checked
from privalue._written import Written, counted, written
from privalue.core import Ope, privacy_profile
from privalue.curator import Prepared, reuse
from privalue.estimate import MEANINGS
from privalue.releases import Release
from privalue.report import (
    DATA_WORDS,
    DIFFERENCES_COVER,
    Guesses,
    PrivateDiagnostics,
    accepted_in_words,
    doubts,
    ends_of,
    heading,
    listed,
    named,
    policies,
    policy_lines,
    policy_row,
    restriction_in_words,
    rows_of,
    state_table,
    unchecked_words,
    verdict_words,
    whole,
)
from privalue.study import Study, declared_size, fits_by_lsl, resolve_ridge

MOST_ROWS = 50
MOST_FLAGGED = 20  # values that are named for each flag


def facts(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """Return a table of two columns: what, and its value."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for what, value in rows:
        table.add_row(what, str(value))
    return table


def listing(title: str, rows: Sequence[Mapping[str, object]]) -> Table:
    """Return a table with a line for each row, under the names of its columns."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def print_guesses(console: Console, guessed: Guesses) -> None:
    """Print which column was taken for what, and what is left for the user to answer."""
    console.print("Guessed from the names of columns alone; no row was looked at:")
    for role, name in guessed.columns.items():
        console.print(f"  {role:<12}{listed([name])}", soft_wrap=True)
    if guessed.unread:
        console.print(f"  {'not read':<12}{listed(guessed.unread)}", soft_wrap=True)
    console.print("Left to you:")
    for about, asked in {**guessed.questions, **guessed.hints}.items():
        console.print(f"  {named(about)}: {asked}", soft_wrap=True)


def print_check(console: Console, found: Checked) -> None:
    """Print everything that can be said about a study without data."""
    prepared, study = found.prepared, found.study
    privacy, mechanism = study.privacy, study.mechanism
    low, high = study.return_bounds
    promised = f"epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}"
    console.print(
        facts(
            f"{study.study.name}: the study is complete and valid",
            [
                (
                    "guarantee",
                    f"{promised}, unit = {privacy.unit}, neighbours = {privacy.neighbours}",
                ),
                *_arms(study),
                *_policies(study),
                ("states, features", _sizes(prepared)),
                ("discount", study.values.discount),
                ("returns within", f"[{low:g}, {high:g}], range {high - low:g}"),
                ("clamped to bounds", _clamped(study)),
                *(
                    []
                    if study.values_a_policy
                    else [("unvisited states get", study.values.unvisited_value)]
                ),
                ("mechanism", _mechanism(study)),
                ("one unit counts for", _contribution(study)),
                (f"calibration {mechanism.calibration}", _constants(prepared)),
                *_check_details(prepared),
                *[
                    ("side file", f"{key}  sha256 {digest}")
                    for key, digest in study.side_files.items()
                ],
            ],
        )
    )
    for note in found.notes:
        console.print(f"Note: {note}.", style="yellow")


def _arms(study: Study) -> list[tuple[str, object]]:
    """Return what the study says of arms, and of trajectories that were cut off."""
    found: list[tuple[str, object]] = []
    if study.arm_labels:
        found.append(("arms", ", ".join(study.arm_labels)))
    if study.pairs is not None:
        found.append(
            ("actions", f"{study.action_count}; {counted(study.key_count, 'pair')} with a state")
        )
    if study.data.truncated is not None:
        what = "left out with their unit" if study.drops_cut else "kept, as if they had ended there"
        found.append(("cut-off trajectories", what))
    return found


def _policies(study: Study) -> list[tuple[str, object]]:
    """Return what the study says of another policy; nothing where it values none."""
    if not study.values_a_policy:
        return []
    behaviour = "logged in the rows" if study.policy.is_logged else "given"
    starts = (
        f", one number for each of {counted(len(study.start_names), 'start')}"
        if study.start_names
        else ""
    )
    return [("another policy", f"clip = {study.policy.clip:g}; behaviour: {behaviour}{starts}")]


def _sizes(prepared: Prepared) -> str:
    """Return how many states and features there are."""
    if prepared.study.values_a_policy:
        return f"{prepared.study.state_count}, none"
    arms = prepared.study.arm_count
    each = f" in each of {arms} arms" if arms > 1 else ""
    if prepared.study.pairs is not None:
        return f"{prepared.study.state_count}, {prepared.design.dimension} of states and actions"
    return f"{prepared.design.states // arms}, {prepared.design.dimension // arms}{each}"


def _clamped(study: Study) -> str:
    """Return which values of the data do not count in full."""
    low, high = study.values.rewards
    rewards = f"rewards below {low:g} or above {high:g}"
    if study.values.returns is None:
        return rewards
    if "rewards" not in study.values.given:
        rewards += " (as the returns imply)"
    return (
        f"{rewards}; returns below {study.values.returns[0]:g} or above {study.values.returns[1]:g}"
    )


def _mechanism(study: Study) -> str:
    """Return the mechanism and its options, in words."""
    chosen = study.mechanism
    if chosen.name == "dp-ssp":
        shrunk = "shrinkage" if chosen.shrinkage else "no shrinkage"
        towards = " towards the features" if study.features.shrink else ""
        first = ", a stage for bounds first" if study.stages else ", the values in one stage"
        return f"dp-ssp, {shrunk}{towards}{first}, intervals at level {study.report.level:g}"
    return f"{chosen.name}, {chosen.noise} noise"


def _contribution(study: Study) -> str:
    """Return how much one unit counts for at most, in words."""
    if study.values_a_policy:
        once = "once, where it starts"
        return (
            once
            if study.privacy.unit == "trajectory"
            else f"{counted(study.trajectories_per_person, 'trajectory')}, each {once}"
        )
    most = study.states_per_trajectory
    each = counted(most, "state" if study.pairs is None else "pair")
    each += f"{'' if study.pairs is None else ' of state and action'} of a trajectory"
    if study.privacy.unit == "trajectory":
        return f"at most {each}"
    return f"at most {counted(study.trajectories_per_person, 'trajectory')}, and {each}"


def _constants(prepared: Prepared) -> str:
    """Return what the constants of the calibration mean, and the delta that they truly achieve."""
    mechanism = prepared.mechanism
    if mechanism is None:
        return "constants follow from m, which the study does not declare"
    if isinstance(mechanism, Ope):
        noise = f"standard deviation {mechanism.sigma:.4g} on the sum of weighted returns"
        return f"{noise}; pure epsilon"
    alpha, beta = mechanism.calibration.alpha, mechanism.calibration.beta
    moved = f"alpha = {alpha:.6g} times what one {prepared.study.privacy.unit} can change"
    dimension = prepared.design.dimension
    true = privacy_profile(alpha, beta, dimension, mechanism.terms.epsilon).upper
    smoothed = f"; beta = {beta:.6g} limits how fast that varies with the data" if beta else ""
    return f"noise of {moved}{smoothed}; true delta at most {true:.3g}"


def _check_details(prepared: Prepared) -> list[tuple[str, object]]:
    """Return further rows of the check: the condition number unless it is 1, or the ridge."""
    study, design = prepared.study, prepared.design
    if study.values_a_policy:
        return []
    if not fits_by_lsl(study):
        condition = f"{design.weighted.condition:.4g}"
        said = f"{condition}: how much the fit may magnify errors; 1 is the least"
        return [] if condition == "1" else [("condition number", said)]
    size = declared_size(study)
    if isinstance(study.mechanism.ridge, str) and size.trajectories is None:
        shown = f"{study.mechanism.ridge_scale:g} sqrt(m)"
    else:
        shown = f"{resolve_ridge(study, size.trajectories):g}"
    shown += ": how strongly the fit is pulled towards 0"
    if study.mechanism.calibration == "exact":
        return [("lambda", shown)]
    needed = design.norm**2 * float(design.weights.max())
    return [("lambda", f"{shown}; more than {needed:.6g} is needed")]


def print_release(console: Console, release: Release) -> None:
    """Print the guarantee, what was public, and the values.

    A release that is not new, but repeated from the ledger, says so first.
    """
    if release.reused:
        console.print(f"Not new: {reuse(release)}.", style="bold yellow")
    console.print(release.sentence(), style="bold" if release.private else "bold red")
    if release.mechanism == "dp-ope":
        _print_policy(console, release)
        return
    useless = accepted_in_words(release)
    if useless is not None:
        console.print(useless, style="bold red")
    console.print(_what_was_public(release))
    for line in (restriction_in_words(release), _cut_in_words(release)):
        if line is not None:
            console.print(line, soft_wrap=True)
    if release.arms:
        _print_arms(console, release)
        return
    table = Table(title=heading(release, "Released values"), title_justify="left")
    table.add_column("state")
    if release.actions:
        table.add_column("action")
    table.add_column("value", justify="right")
    intervals, meaning = _intervals(release)
    for head in intervals:
        table.add_column(head, justify="right")
    table.add_column("flag", no_wrap=True)
    states = state_table(release)
    for entry, row in zip(rows_of(release.values, MOST_ROWS), states[:MOST_ROWS], strict=True):
        ends = [(getattr(entry, low), getattr(entry, high)) for low, high in intervals.values()]
        table.add_row(
            *(label for label in (entry.state, entry.action) if label is not None),
            written(entry.value, *(ends[0] if ends else ())).value,
            *(written(entry.value, *pair).within for pair in ends),
            "; ".join(row.flags) or "none",
        )
    console.print(table)
    if len(states) > MOST_ROWS:
        more = "pairs" if release.actions else "states"
        console.print(f"... and {len(states) - MOST_ROWS} more {more} in the file.")
    if meaning:
        console.print(meaning)
    if release.policy_value is not None:
        console.print(_policy(release))


def _print_policy(console: Console, release: Release) -> None:
    """Print another policy's value beside the behaviour's, and how far to trust it."""
    console.print(verdict_words(release), soft_wrap=True)
    table = Table(title="Both policies", title_justify="left")
    for head in ("start", "of"):
        table.add_column(head)
    for head in ("value", f"{100 * (release.level or 0):g}% interval", "noise alone", "kept"):
        table.add_column(head, justify="right")
    table.add_column("flag")
    lines, careful = list(policy_lines(release)), dict[str, list[str]]()
    for start, of, fields, kept in lines[:MOST_ROWS]:
        shown = written(fields["value"], fields["total_low"], fields["total_high"])
        alone = written(fields["value"], fields["low"], fields["high"])
        mass = "" if kept is None else f"{kept.value:.3f} ({kept.low:.3f} to {kept.high:.3f})"
        found = [] if kept is None else doubts(release, kept)
        for flag in found:
            careful.setdefault(flag, []).append(start or "all")
        # The column has room for the first words of a flag; all of them stand below.
        short = "; ".join(flag.partition(":")[0] for flag in found)
        flagged = short or ("" if kept is None else "none")
        table.add_row(
            Text(start or "all"), of, shown.value, shown.within, alone.within, mass, flagged
        )
    console.print(table)
    for flag, starts in careful.items():
        _print_flag(console, flag, starts)
    if len(lines) > MOST_ROWS:
        console.print(f"... and {len(lines) - MOST_ROWS} more lines in values.csv.")
    console.print(
        "It holds as far as actions are recorded, nothing hidden decided both action and outcome, "
        "the behaviour did what the target does, and its probabilities are right: "
        f"{unchecked_words(release)}.",
        soft_wrap=True,
    )


def _cut_in_words(release: Release) -> str | None:
    """Return a sentence on trajectories that were cut off; None where no column marks them."""
    if "truncated" not in release.study["data"]:
        return None
    if release.study["values"].get("truncated") == "drop-unit":
        return "Those who were cut off are left out: values are of those whose end was seen."
    return (
        "Trajectories that were cut off count as if they had ended there: what came afterwards is "
        "in no value, and no interval covers that."
    )


def _intervals(release: Release) -> tuple[dict[str, tuple[str, str]], str]:
    """Return the heads of the intervals that are shown with their ends, and what they mean."""
    level = f"{100 * (release.level or 0):g}%"
    if release.level is None:
        return {}, ""
    return {f"{level} interval": ("total_low", "total_high"), "privacy alone": ("low", "high")}, (
        "The intervals cover the value among people at large: they hold the noise of privacy and "
        "the choice of people. The column beside them is for the noise alone."
    )


def _policy(release: Release) -> str:
    """Return the policy's overall value in words, with its intervals."""
    within = policy_row(release)
    assert release.policy_value is not None
    shown = _shown(release.policy_value, within)
    found = f"Overall value of the policy (averaged over where people start): {shown}"
    if release.actions:
        found += " (exact only where nobody returns to a state and acts otherwise)"
    if within is None:
        return found
    return (
        f"{found}; privacy alone: {written(release.policy_value, within.low, within.high).within}"
    )


def _print_arms(console: Console, release: Release) -> None:
    """Print the values of arms side by side, and how far each is from the first."""
    states, first = len(release.states), release.arms[0]
    differences = release.differences
    assert differences is not None  # every release with arms has them
    level = f"{100 * (release.level or 0):g}%"
    title = f"{heading(release, 'Released values')} by arm, with {level} intervals"
    table = Table(title=title, title_justify="left")
    table.add_column("state", overflow="fold")
    for arm in release.arms:
        table.add_column(Text(arm), justify="right")
    for arm in release.arms[1:]:
        table.add_column(Text(f"{arm} less {first}"), justify="right")
    for at in range(min(states, MOST_ROWS)):
        of_arms = [whole(release.values.row(at + states * arm)) for arm in range(len(release.arms))]
        compared = [
            whole(differences.row(at + states * arm)) for arm in range(len(release.arms) - 1)
        ]
        table.add_row(
            Text(of_arms[0].state),
            *(str(written(entry.value, *ends_of(entry))) for entry in of_arms + compared),
        )
    console.print(table)
    if states > MOST_ROWS:
        console.print(f"... and {states - MOST_ROWS} more states in the file.")
    _print_flags(console, release)
    for policy in policies(release):
        text = f"Overall value of the policy, {policy.arm}: {_shown(policy.value, policy.interval)}"
        if policy.difference is not None:
            apart = _shown(policy.difference, policy.difference_interval)
            text += f"; more than {first} by {apart}"
        console.print(Text(text))
    console.print(
        f"The interval of a difference covers {DIFFERENCES_COVER}. A difference is an effect "
        "only where chance decided who was in which arm. How many are in each is not public."
    )


def _print_flags(console: Console, release: Release) -> None:
    """Print which values of arms have which flags: a table of arms has no room for them."""
    table = state_table(release)
    if not table.flagged.any():
        console.print("No value is flagged.")
    for flag in MEANINGS:
        found = table.with_flag(flag).tolist()
        if found:
            _print_flag(console, flag, [str(table.names[at]) for at in found])


def _print_flag(console: Console, flag: str, names: Sequence[str]) -> None:
    """Print what has a flag: the first of them by name."""
    some = "; ".join(names[:MOST_FLAGGED])
    more = f"; and {len(names) - MOST_FLAGGED:,} more" if len(names) > MOST_FLAGGED else ""
    console.print(Text(f"Be careful ({flag}): {some}{more}."), soft_wrap=True)


def _shown(value: float, within: Any) -> Written:
    """Return a number with the interval that is shown first."""
    return written(value, *((None, None) if within is None else ends_of(within)))


def _what_was_public(release: Release) -> str:
    """Return a paragraph on what was public before the release."""
    values, files = release.study["values"], len(release.study["side_files"])
    beside = f" with {counted(files, 'side file')}" if files else ""
    arms = f" and {len(release.arms)} arms" if release.arms else ""
    arms += f" and {counted(len(release.actions), 'action')}" if release.actions else ""
    number = (
        f", and the number of trajectories, {release.trajectories}"
        if release.trajectories is not None
        else f", and the number of persons, {release.persons}"
        if release.persons is not None
        else "; how many there are is not"
    )
    return (
        f"Public beforehand: the study{beside}, its "
        f"{counted(len(release.states), 'state')}{arms}, discount {values['discount']:g}, the "
        f"bounds of rewards and returns{number}. Mechanism: {release.mechanism}, "
        + (
            "noise on the statistics"
            if release.noise.shape == "statistics"
            else f"{release.noise.shape} noise"
        )
        + f", calibration {release.noise.calibration}"
        + (f", lambda = {release.ridge:.6g}" if release.ridge is not None else "")
        + "."
    )


_SYMBOLS = {
    "weights_clipped": "weights above clip",
    "alpha": "alpha, the noise over the sensitivity",
    "beta": "beta, the smoothness of its bound",
    "psi": "psi, the bound squared",
    "sigma": "sigma, the sd of the noise",
    "likely_bounds": "bounds of returns that a stage would choose",
}


def _private_facts(fields: Mapping[str, Any], keys: Iterable[str]) -> Table:
    """Return the table of single numbers, each in words. PRIVATE."""
    words = {**DATA_WORDS, **_SYMBOLS}
    return facts(
        "PRIVATE diagnostics: do not publish",
        [
            (words.get(key, key), f"{v:.10g}" if isinstance(v := fields[key], float) else v)
            for key in keys
        ],
    )


def _print_private_policy(console: Console, diagnostics: PrivateDiagnostics) -> None:
    """Print another policy's value before noise. PRIVATE."""
    fields = diagnostics.private_columns()
    single = [key for key, value in fields.items() if not hasattr(value, "__len__")]
    console.print(_private_facts(fields, single))
    table = Table(title="Before noise (PRIVATE)", title_justify="left")
    names = ("start", "trajectories", "kept mass", "the target's value", "the behaviour's")
    for name in names:
        table.add_column(name, justify="left" if name == "start" else "right")
    starts = diagnostics.study.start_names or ("all",)
    for at in range(min(len(starts), MOST_ROWS)):
        keys = ("kept_mass", "policy_values", "behaviour_values")
        numbers = (f"{fields[key][at]:.6g}" for key in keys)
        table.add_row(str(starts[at]), str(fields["counts"][at]), *numbers)
    console.print(table)
    for warning, remedy in diagnostics.advice():
        console.print(f"Note (PRIVATE): {warning}.", style="bold yellow", soft_wrap=True)
        console.print(f"What to do: {remedy}.", soft_wrap=True)


def print_private_diagnostics(console: Console, diagnostics: PrivateDiagnostics) -> None:
    """Print the curator's tables. PRIVATE: for the curator's screen only."""
    fields = diagnostics.private_columns()
    if fields["mechanism"] == "dp-ope":
        _print_private_policy(console, diagnostics)
        return
    constants = [*("mechanism", "calibration", "noise"), *DATA_WORDS, *_SYMBOLS]
    console.print(_private_facts(fields, [key for key in constants if key in fields]))
    table = Table(title="By state (PRIVATE)", title_justify="left")
    for name in ("state", "visits", "mean return", "value before noise", "noise (sd)"):
        table.add_column(name, justify="left" if name == "state" else "right")
    labels = diagnostics.study.key_names
    for at in range(min(len(labels), MOST_ROWS)):
        numbers = [fields[key][at] for key in ("mean_returns", "values", "noise_by_state")]
        table.add_row(str(labels[at]), str(fields["counts"][at]), *(f"{x:.6g}" for x in numbers))
    console.print(table)
    if len(labels) > MOST_ROWS:
        console.print(f"... and {len(labels) - MOST_ROWS} more states; --json has them all.")
    for warning, remedy in diagnostics.advice():
        console.print(f"Note: {warning}.", style="bold yellow")
        console.print(f"What to do: {remedy}.")
