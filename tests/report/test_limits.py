"""What page and terminal say of stages, and of what the limits cost."""

import html
import io
import re

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import privalue as pv
from oracles.states import literal_rows
from oracles.studies import release_anyway, study
from privalue.artefact import Share
from privalue.cli._screen import print_release
from privalue.report._limits import limits_of, moved
from privalue.report._limits import shown as percent
from privalue.report._public_page import public_page
from privalue.report._states import CLAMPED, LIMITED, flags_of, state_table, values_csv

SSP = {"name": "dp-ssp", "calibration": "exact", "stages": "one"}
PRECISE = {**SSP, "stage_shares": {"limits": 0.5}}
EVERY = "That could have moved every value"
ONCE = "Noise may hide what some limits cost."


def released(described, data, seed=3):
    return release_anyway(described, data, entropy=pv.SeededForExperimentsOnly(seed))


def crowd(clamped=60, often=40_000, rarely=400):
    """Many who visit state 0, few who visit state 1, and some with a reward of 9 in state 0."""
    loud = [[(0, 9.0)]] * clamped
    quiet = [[(0, float(at % 2))] for at in range(often - clamped)]
    return loud + quiet + [[(1, float(at % 2))] for at in range(rarely)]


def loose(**sections):
    """Returns of 1 at most, and bounds of 0 to 20 that follow from rewards."""
    mechanism = {**SSP, "stages": ["bounds", "visits"]}
    return study(2, discount=0.95, mechanism=mechanism, **sections)


def with_beyond(release, share):
    """The same release, with another share of trajectories beyond the bound that it chose."""
    stages = [
        stage.model_copy(update={"chosen": stage.chosen.model_copy(update={"beyond": share})})
        if stage.name == "bounds"
        else stage
        for stage in release.stages
    ]
    return release.model_copy(update={"stages": stages})


def text_of(release, **how):
    """The page's words, without tags and charts."""
    page = re.sub(r"<(svg|style).*?</\1>", " ", public_page(release, **how), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def printed(release):
    """The lines that the terminal shows."""
    console = Console(file=io.StringIO(), width=300)
    print_release(console, release)
    return console.file.getvalue().splitlines()


def flags_as_the_twin_has_them(release):
    """The flags of every state, which must be those that the literal twin finds."""
    found = [flags_of(int(bits)) for bits in state_table(release).bits]
    assert found == [row.flags for row in literal_rows(release)]
    return found


@pytest.fixture(scope="module")
def chosen():
    return released(loose(), crowd(clamped=0))


@pytest.fixture(scope="module")
def few():
    """60 of 40,400 trajectories have a reward that is clamped."""
    return released(study(2, returns=(0.0, 1.0), mechanism=PRECISE), crowd())


# Stages


def test_a_page_says_in_which_stages_the_budget_was_spent(chosen):
    told = text_of(chosen)
    bounds, visits, *_ = chosen.stages
    assert [stage.name for stage in chosen.stages] == ["bounds", "visits", "limits", "values"]
    assert "The budget was spent in 4 stages, one after another." in told
    shares = chosen.terms["shares"]
    names = {"bounds": "Finding a bound of returns", "visits": "Counting visits"}
    for stage in chosen.stages[:2]:  # each with its own constant
        spent = f"took {100 * shares[stage.name]:g}% of the budget (alpha = {stage.alpha:.6g})."
        assert f"{names[stage.name]} {spent}" in told
    assert "Counting what the limits cost took 1% of the budget" in told
    assert f"alpha = {chosen.stages[-1].alpha:.8g} for the values" in told
    low, high, beyond = bounds.chosen.low, bounds.chosen.high, bounds.chosen.beyond
    assert high < 20
    assert (
        f"Returns count from {low:.6g} to {high:.6g}, which the release chose from noisy numbers, "
        f"within 0 to 20; {percent(beyond).value} of trajectories ({percent(beyond).within}) have "
        "a return beyond." in told
    )
    noise = chosen.statistics.count_noise
    assert visits.chosen.shaped
    assert f"noise is between {min(noise):.4g} and {max(noise):.4g}." in told


def test_a_stage_that_chose_nothing_says_so():
    """So few trajectories that no level of returns and no count is clear of its noise."""
    release = released(loose(), [[(0, 1.0)]] * 4)
    low, high = (getattr(release.stages[0].chosen, end) for end in ("low", "high"))
    assert (low, high) == (0.0, pytest.approx(20))
    assert not release.stages[1].chosen.shaped
    told = text_of(release)
    assert "It chose none that is tighter: returns count from 0 to 20, as in the study." in told
    assert "It chose to release all states as the study has them." in told
    assert not any("which the release chose" in line for line in printed(release))


def test_one_stage_is_told_in_a_sentence():
    described = study(2, returns=(0.0, 1.0), mechanism={**SSP, "stage_shares": {"limits": 0}})
    told = text_of(released(described, crowd(often=500)))
    assert "The whole budget was spent on the values, in one stage." in told
    assert "What the limits cost" not in told
    assert "how many is private" in told


def test_a_mechanism_without_stages_is_told_without():
    described = study(2, returns=(0.0, 1.0))
    told = text_of(released(described, crowd(often=500)))
    assert "How the budget was spent" not in told
    assert "What the limits cost" not in told


# What limits cost


def test_a_table_says_what_each_limit_cost():
    described = study(
        3,
        returns=(0.0, 1.0),
        privacy={
            "max_states_per_trajectory": 2,
            "unit": "person",
            "max_trajectories_per_person": 1,
        },
        mechanism=PRECISE,
    )
    rows = [
        (who, which, step, state, 1.0)
        for who in range(3000)
        for which in range(1 + (who % 4 == 0))
        for step, state in enumerate([0, 1, 2][: 2 + (who % 5 == 0)])
    ]
    names = ("person", "trajectory", "step", "state", "reward")
    release = released(described, pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))))
    told, found = text_of(release), limits_of(release)
    assert [limit.name for limit in found] == [
        "the first 2 states of a trajectory count",
        "rewards count from 0 to 1",
        "returns count from 0 to 1, by the study",
        "1 trajectory of a person counts",
    ]
    assert [limit.reach for limit in found] == [1.0, 1.0, pytest.approx(9.0), None]
    for limit in found:
        ends = percent(limit.share).within
        at_risk = (
            "not known"
            if limit.reach is None
            else f"{np.count_nonzero(moved(release, [limit]))} of 3"
        )
        value = percent(limit.share).value
        row = f"{value} of {limit.whose} {ends} {at_risk} {limit.effect}"
        assert f"{limit.name} {row}" in told
    assert found[3].share.low <= 0.25 <= found[3].share.high
    assert "how many is private" not in told


def test_only_states_that_limits_could_move_too_far_are_flagged(few):
    """80 of 40,000 visits move a mean by 0.002 at most, and 80 of 400 by 0.2."""
    assert few.limits.rewards_clamped.low > 0
    assert flags_as_the_twin_has_them(few) == [(), (LIMITED,)]
    lines = "".join(values_csv(state_table(few))).splitlines()
    assert [line.endswith(f",{LIMITED}") for line in lines[1:]] == [False, True]
    told = text_of(few)
    assert LIMITED in told
    assert EVERY not in told


def test_where_the_number_of_trajectories_is_private_the_noisy_one_stands_for_it():
    described = study(
        2, returns=(0.0, 1.0), mechanism=PRECISE, privacy={"neighbours": "add-remove"}
    )
    release = released(described, crowd())
    assert release.trajectories is None
    assert flags_as_the_twin_has_them(release) == [(), (LIMITED,)]


def test_what_concerns_all_states_is_said_once():
    described = study(2, returns=(0.0, 1.0), mechanism=PRECISE)
    release = released(described, crowd(clamped=9000))
    assert flags_as_the_twin_has_them(release) == [(), ()]
    told = text_of(release)
    assert told.count(EVERY) == 1
    assert LIMITED not in told


def test_without_a_discount_clamped_returns_may_be_as_far_as_can_be():
    described = study(2, discount=1.0, returns=(0.0, 1.0), mechanism=PRECISE)
    data = [[(0, 1.0), (1, 1.0)] for _ in range(300)] + crowd(clamped=0)
    release = released(described, data)
    returns = limits_of(release)[1]
    assert returns.reach == np.inf
    assert returns.clear
    assert moved(release, [returns]).all()
    assert EVERY in text_of(release)


def test_what_cannot_be_told_from_nothing_flags_no_state(chosen):
    """Study bounds far wider than the chosen ones: whatever noise hides may be far away."""
    assert chosen.values.column("clamped").all()
    assert chosen.stages[0].chosen.beyond.low == 0
    assert flags_as_the_twin_has_them(chosen) == [(), ()]
    told = text_of(chosen)
    assert told.count(ONCE) == 1
    assert "(2 of 2 values, whose total intervals are for returns as clamped)" in told
    assert "none is flagged" in told


def test_states_are_flagged_where_trajectories_are_clearly_beyond_the_bound(chosen):
    some = with_beyond(chosen, Share(value=0.02, low=0.01, high=0.03))
    assert flags_as_the_twin_has_them(some) == [(CLAMPED,), (CLAMPED,)]
    assert "whose total intervals are for returns as clamped" not in text_of(some)
    untold = state_table(with_beyond(chosen, None))  # as many as you like
    assert untold.with_flag(CLAMPED).tolist() == [0, 1]


def test_the_policys_interval_is_for_returns_as_clamped():
    described = loose(values={"start": {"0": 0.5, "1": 0.5}})
    release = released(described, crowd(clamped=0))
    assert release.policy_interval.clamped
    told = "The total interval of the policy's overall value is for returns as clamped"
    assert told in text_of(release)
    inside = release.policy_interval.model_copy(update={"clamped": False})
    assert told not in text_of(release.model_copy(update={"policy_interval": inside}))


# The terminal


def test_the_terminal_has_a_line_for_the_bound_and_one_for_limits(chosen, few):
    lines = printed(chosen)
    high = chosen.stages[0].chosen.high
    bound = f"Returns count from 0 to {high:.6g}, which the release chose"
    assert sum(line.startswith(bound) for line in lines) == 1
    assert not any(line.startswith("Limits changed") for line in lines)
    lines = printed(few)
    assert not any("which the release chose" in line for line in lines)
    (line,) = (line for line in lines if line.startswith("Limits changed what counts: "))
    share = few.limits.rewards_clamped
    assert line.endswith(
        f"{percent(share).value} of trajectories ({percent(share).within}) have a reward outside "
        "of 0 to 1."
    )
