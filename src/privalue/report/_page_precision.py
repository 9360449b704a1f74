"""Write the parts of the public page about precision, planned and achieved, and about limits."""

from privalue.artefact import Release
from privalue.planning import shown
from privalue.report._html import Content, element, facts, table
from privalue.report._page_stages import limits_table
from privalue.report._page_words import interval, number, paragraphs, percent
from privalue.report._plan_words import misfit_known
from privalue.report._precision import Planned, achieved
from privalue.report._states import StateTable, return_bounds
from privalue.report._svg import Bar, bar_chart
from privalue.study import described_values


def precision_part(release: Release, states: StateTable, plan: Planned) -> Content:
    """Describe the planned precision, and the achieved one where that is public.

    Args:
        release: what was released.
        states: its values and intervals.
        plan: the prediction from the study alone, or why there is none.
    """
    content: list[Content] = [element("h3", "As planned, before any data was opened")]
    content += _plan(plan) if plan.prediction is not None else paragraphs(plan.reason)
    content.append(element("h3", "As achieved"))
    found = achieved(release, states)
    if found is None:
        content += paragraphs(
            f"Not public. The noise of {release.mechanism} has a scale that depends on the data; "
            "telling it would cost privacy, and the study did not spend any on it."
        )
        return content
    scale = (
        "The scale of the noise is public."
        if release.noise.sigma is not None
        else f"The scale of the noise was released with noise of its own, for "
        f"{release.noise.scale.epsilon:g} of epsilon."
        if release.noise.scale is not None
        else ""
    )
    total = achieved(release, states, "total_")
    kinds = [("total", total), ("privacy", found)]
    content.append(
        facts(
            f"Half the width of the {100 * found.level:g}% intervals. {scale}",
            [
                *(
                    row
                    for kind, widths in kinds
                    if widths is not None
                    for row in (
                        (f"{kind} interval, median over the states", number(widths.median)),
                        (f"{kind} interval, widest", number(widths.largest)),
                    )
                ),
                (
                    "range of possible returns",
                    interval(*return_bounds(release)),
                ),
            ],
            name="Achieved precision",
            small=True,
        )
    )
    content += limits_table(release)
    return content


def _plan(plan: Planned) -> list[Content]:
    """Describe a prediction: in words, as a chart and as a table.

    Bars end at three times the error of guessing, since a longer one says no more.
    """
    prediction = plan.prediction
    assert prediction is not None
    chosen = prediction.chosen
    low, high = prediction.study.return_bounds
    known = misfit_known(prediction)
    rows = [
        ("optimistic end", chosen.optimistic, "value"),
        ("middle", chosen.rmse, "value"),
        ("cautious end", chosen.cautious, "value"),
        ("middle, noise of privacy alone", chosen.noise, "second"),
        ("middle, without privacy", chosen.without_noise, "third"),
        (f"guessing {(low + high) / 2:g} everywhere", prediction.guess, "rest"),
    ]
    words = (
        f"With {prediction.trajectories:,} trajectories the root mean square error over the states "
        f"was predicted to be {shown(chosen.rmse)}, or anything from {shown(chosen.optimistic)}, "
        f"the optimistic end, to {shown(chosen.cautious)}, the cautious end: how often states are "
        "visited is not known beforehand. Guessing the middle of the bounds for every state would "
        f"give {shown(prediction.guess)}."
    )
    most = 3 * prediction.guess  # a bar that is longer says no more
    return [
        *paragraphs(words),
        element(
            "div",
            element(
                "p",
                "By this prediction the values are no better than guessing: do not act on them.",
            ),
            class_="note",
        )
        if prediction.hopeless
        else None,
        element(
            "figure",
            bar_chart(
                [
                    (label, [Bar(size=min(error, most), label=label, colour=colour)], shown(error))
                    for label, error, colour in rows
                ],
                name=f"Predicted errors: {'; '.join(f'{w} {shown(e)}' for w, e, _ in rows)}.",
            ),
        ),
        table(
            "Predicted root mean square error over the states. The parts do not simply add up.",
            ["Part", "error", "share of the range of returns"],
            [[label, shown(error), percent(error / (high - low))] for label, error, _ in rows],
            name="Planned precision",
            small=True,
            numbers=(1, 2),
        ),
        *paragraphs(
            f"Assumed: {'; '.join(prediction.model.assumptions)}. Nothing of this comes from the "
            "data."
            + (
                ""
                if known
                else " How well the features fit the values is not known beforehand, and comes "
                "on top."
            )
        ),
    ]


def limits_part(release: Release, states: StateTable) -> Content:
    """List what the numbers cannot say, whatever their precision."""
    features = release.study["features"]
    unvisited = described_values(release.study).unvisited_value
    found: list[Content] = [
        [
            element("strong", "Not what would happen under another policy. "),
            "These are values of the policy that produced the data, as it was followed. They say "
            "nothing about a treatment or a rule that was not.",
        ],
        [
            element("strong", "Not cause and effect. "),
            "A state with a high value is one from which trajectories went well, for whatever "
            "reason. That moving someone there would do them good does not follow.",
        ],
        [
            element("strong", "Noise is not the only error. "),
            "The noise of privacy comes on top of sampling: other people, drawn from the same "
            "population, would have given other values even without noise. Privacy intervals do "
            "not cover that"
            + ("; total intervals do, approximately." if states.has_totals else "."),
        ],
        [
            element("strong", "Unvisited states have no value of their own. "),
            "A state that nobody visited gets "
            f"{unvisited:g} before the noise, and afterwards cannot be told from one that was "
            "visited, unless noisy counts were released.",
        ],
        [
            element("strong", "Bounds were declared, not found. "),
            "Rewards and returns outside the public bounds were clamped to them; how many is "
            "private. If the bounds were too tight, values are drawn towards the inside.",
        ]
        if release.limits is None
        else [
            element("strong", "Values are of what counted. "),
            "Rewards and returns outside of their bounds were clamped to them, and draw values "
            "towards the inside; visits and trajectories beyond the limits are in no value. What "
            "the limits cost is told above, as shares with noise.",
        ],
        _cut(release),
    ]
    if features.get("kind", "tabular") != "tabular":
        found.append(
            [
                element("strong", "Features decide what can be seen. "),
                "Values are fitted with the study's features: differences that the features "
                "cannot express are not in them.",
            ]
        )
    return element("ul", [element("li", item) for item in found])


def _cut(release: Release) -> Content:
    """Say what became of trajectories that were cut off, and what that does to the values."""
    if "truncated" not in release.study["data"]:
        return [
            element("strong", "Missing data stays missing. "),
            "Trajectories that were cut short count as if they had ended there.",
        ]
    unit = release.privacy.unit
    if release.study["values"].get("truncated") == "drop-unit":
        return [
            element("strong", "Values are of those whose end was seen. "),
            f"A {unit} with a trajectory that is marked as cut off was left out; how many were is "
            "private. If being cut off has to do with how people fare, those who are left fare "
            "better or worse than all, and the values with them, by an amount that no interval "
            "covers.",
        ]
    return [
        element("strong", "Trajectories that were cut off were kept. "),
        "They count as if they had ended where they were cut: rewards that came afterwards are "
        "missing from their returns. So values are too near to what they would be without any "
        "further reward: too low where rewards are above 0, too high where they are below. No "
        "interval covers that.",
    ]
