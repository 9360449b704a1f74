"""The answer comes first: whether values can be used, in words and numbers that a person writes."""

import html
import io
import re

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import privalue as pv
from oracles.studies import release_anyway, study
from privalue._written import written
from privalue.cli._screen import print_release
from privalue.estimate import common_value
from privalue.report import public_page, state_table
from privalue.report._pages import named
from privalue.report._private_page import private_page
from privalue.report._verdict import verdict_of

ENDS = ("low", "high", "total_low", "total_high")
SSP = {"name": "dp-ssp", "calibration": "exact", "stages": "one"}


def released(described, data, seed=3):
    return release_anyway(described, data, entropy=pv.SeededForExperimentsOnly(seed))


def crowd(rarely=400, often=4000):
    return [[(0, float(at % 2))] for at in range(often)] + [[(1, 1.0)]] * rarely


def printed(release):
    console = Console(file=io.StringIO(), width=300)
    print_release(console, release)
    return console.file.getvalue()


def verdict(release):
    return verdict_of(release, state_table(release))


def text_of(page):
    """The page's words, without tags, charts, style and script."""
    page = re.sub(r"<(svg|style|script).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture(scope="module")
def sound():
    chosen = study(2, returns=(0.0, 1.0), mechanism=SSP, values={"start": {"0": 0.5, "1": 0.5}})
    return released(chosen, crowd(rarely=4000))


@pytest.fixture(scope="module")
def rare():
    """Bounds of 1/(1 - 0.95), which is 19.999999999999982, and a state that nobody visits."""
    return released(study(3, discount=0.95, mechanism=SSP), crowd(rarely=4000), seed=3)


def test_values_that_nothing_speaks_against_are_usable(sound):
    found = verdict(sound)
    assert (found.kind, found.head) == ("usable", "Usable.")
    assert found.sentence.startswith("No state is flagged. Half of the 95% intervals go no ")
    assert found.sentence.endswith(
        " to either side; returns count from 0 to 1. There are at least 2 different values."
    )


def same(people=4000):
    """Two states with one value, so that nothing can be told apart."""
    return [[(at % 2, float(at % 4 < 2))] for at in range(people)]


def test_states_that_cannot_be_told_apart_have_the_value_that_they_share():
    chosen = study(2, returns=(0.0, 1.0), mechanism=SSP)
    release = released(chosen, same())
    found = verdict(release)
    assert found.kind == "care"
    assert found.sentence.startswith("The states cannot be told apart: at the level of 95% for all")
    value, low, high = common_value(release)
    assert low <= 0.5 <= high
    assert high - low < np.min(release.total_high - release.total_low)
    assert f"The mean over all visits is {written(value, low, high)}." in found.sentence
    assert "tighter [values] returns" in found.sentence


def test_the_common_value_is_that_of_all_sums_and_counts():
    """The literal twin: Fieller's inequality, with H visits of a trajectory alike, by its roots."""
    chosen = study(3, returns=(0.0, 1.0), mechanism=SSP, privacy={"max_states_per_trajectory": 2})
    release = released(chosen, [[(0, 0.0), (1, float(at % 2)), (2, 1.0)] for at in range(900)])
    kept, z = release.statistics, 1.959963984540054
    total, count = sum(kept.sums), sum(kept.counts)
    noise = [sum(each**2 for each in kept.sum_noise), sum(each**2 for each in kept.count_noise)]
    grid = np.linspace(0, 1, 200_001)
    spread = noise[0] + (grid - 0.5) ** 2 * noise[1] + 2 * count * grid * (1 - grid)
    inside = grid[(total - (grid - 0.5) * count) ** 2 <= z * z * spread]
    value, low, high = common_value(release)
    assert (low, high) == pytest.approx((inside[0], inside[-1]), abs=1e-5)
    assert value == pytest.approx(0.5 + total / count)


def test_flagged_states_call_for_care_by_name(rare):
    found = verdict(rare)
    assert found.kind == "care"
    assert found.sentence == (
        "2 of 3 values carry no flag; be careful with <bdi>2</bdi> (too few visits)."
    )


def test_a_release_without_intervals_calls_for_care():
    found = verdict(released(study(2, returns=(0.0, 1.0)), crowd(rarely=4000)))
    assert found.kind == "care"
    assert "how noisy the values are is not public" in found.sentence


@pytest.fixture(scope="module")
def useless():
    return released(study(2, returns=(0.0, 1.0)), crowd(2, 2))


def test_a_release_of_no_use_by_its_plan_is_not_usable():
    found = verdict(released(study(2, returns=(0.0, 1.0), mechanism=SSP), crowd(2, 2)))
    assert (found.kind, found.head) == ("unusable", "Not usable.")
    assert "wider than half the range" in found.sentence


@pytest.fixture(scope="module")
def uncertain():
    """Three visitors of state 1 and little noise: the choice of people is most of the interval."""
    chosen = study(2, returns=(0.0, 1.0), mechanism=SSP, privacy={"epsilon": 20.0, "delta": 1e-3})
    people = [[(0, float(at % 2)), (1, float(at % 2))] for at in range(3)]
    return released(chosen, [*people, *([(0, float(at % 2))] for at in range(197))], seed=3)


# In the order in which they are read


def test_the_parts_are_in_the_order_in_which_they_are_needed(sound):
    page = public_page(sound)
    parts = [
        *('class="verdict', "Overall value of the policy (averaged over where people start)"),
        *('class="pv-forest', 'id="flags"', 'id="precision"', 'id="guarantee"'),
        *('id="method"', 'id="budget"', 'id="sign"'),
    ]
    places = [page.index(part, page.index("<body")) for part in parts]
    assert places == sorted(places)


def test_an_experiment_says_what_it_is_in_the_title(sound):
    assert re.search("<title>NOT PRIVATE: ", public_page(sound))


# Numbers that a person would write


def test_no_rounding_error_and_no_negative_count_is_on_a_page(rare):
    assert rare.terms["return_bounds"][1] == 1 / (1 - 0.95) != 20.0
    assert min(rare.statistics.counts) < 0
    told = text_of(re.sub(r'class="hash">\w+', 'class="hash">', public_page(rare)))
    assert re.findall(r"\d\.\d{9,}", told) == []
    assert "0 to 20" in told
    assert "about 0 (0 to " in told
    assert re.findall(r"-\d+ \(", told) == []


def test_the_terminal_writes_the_same_numbers_and_always_has_flags(sound, rare):
    for release in (sound, rare):
        said = printed(release)
        entry, told = release.values[0], text_of(public_page(release))
        ends = re.search(r"\b0 +│ +([0-9.]+) +│ +([0-9.]+ to [0-9.]+) ", said)
        assert f"0 {ends[1]} {ends[2]} " in told
        assert float(ends[1]) == pytest.approx(entry.value, abs=entry.total_high - entry.total_low)
        assert re.search(r"flag +┃", said)
        assert "none" in said
    assert "too few visits" in said


def test_a_plot_and_its_table_write_the_same_numbers(sound):
    page = public_page(sound)
    plotted = re.findall(r">([0-9.]+) \(([0-9.]+ to [0-9.]+)\)</text>", page)
    for value, within in plotted:
        assert f"{value} {within}" in text_of(page)


# The promise


@pytest.mark.parametrize(
    ("unit", "relation", "known"),
    [
        (
            "person",
            "replace-one",
            "every record except yours, and has narrowed yours down to two possibilities.",
        ),
        (
            "trajectory",
            "replace-one",
            "every record except one trajectory of yours, and has narrowed that one down to two "
            "possibilities.",
        ),
        (
            "person",
            "add-remove",
            "every record except yours, and does not know whether you are in the data.",
        ),
    ],
)
def test_the_promise_is_three_sentences(unit, relation, known):
    limit = {"max_trajectories_per_person": 1} if unit == "person" else {}
    chosen = study(
        2,
        returns=(0.0, 1.0),
        mechanism=SSP,
        privacy={"unit": unit, "neighbours": relation, **limit},
        study={"trajectories": 3000},
    )
    rows = pa.table(
        {
            "person": range(3000),
            "trajectory": range(3000),
            "step": [0] * 3000,
            "state": [0, 1] * 1500,
            "reward": [1.0] * 3000,
        }
    )
    page = public_page(pv.release(chosen, rows))
    box = text_of(re.search(r'<div class="promise">(.*?)</div>', page, flags=re.DOTALL)[1])
    assert f"Suppose an attacker knows {known}" in box
    assert box.endswith(
        f"If an attacker accepts 5% false alarms, they detect a {unit} at most 13.6% of the time "
        "(guessing: 5%)."
    )
    assert "What this means" in page
    if relation == "add-remove":  # nothing is counted, and what is declared are trajectories
        assert "With 3,000 declared trajectories, delta times their number" in page
    else:
        assert f"With 3,000 {'persons' if unit == 'person' else 'trajectories'}, delta" in page


# The curator's page


def test_every_warning_says_what_to_do_and_every_symbol_what_it_means():
    found = pv.inspect(study(3, returns=(0.0, 1.0), mechanism=SSP), crowd(rarely=4000))
    advice = found.advice()
    assert [warning for warning, _ in advice] == found.warnings()
    told = text_of(private_page(found))
    for _, remedy in advice:
        assert f"What to do: {remedy[0].upper()}{remedy[1:]}." in told
    for symbol in ("alpha", "beta", "psi", "sigma", "theta", "epsilon, delta"):
        assert re.search(rf"\b{symbol} \S+.*? [A-Z][^.]+\.", told)


def test_names_differ_at_their_ends_also_where_they_are_cut():
    assert named("x" * 60 + " ward A", 30) == f"<bdi>{'x' * 14}…{'x' * 8} ward A</bdi>"


def test_an_overall_value_that_could_be_anything_says_so():
    chosen = study(3, returns=(0.0, 1.0), mechanism=SSP, values={"start": {"2": 1.0}})
    page = text_of(public_page(released(chosen, crowd(rarely=4000))))
    assert re.search(r"interval 0\.0+ to 1\.0+: too wide to act on", page)
