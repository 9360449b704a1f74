"""What page and terminal say of stages, and of the bound of returns that one of them chose."""

import html
import io
import re

import pytest
from rich.console import Console

import privalue as pv
from oracles.states import literal_rows
from oracles.studies import release_anyway, study
from privalue.artefact import Share
from privalue.cli._screen import print_release
from privalue.report._limits import shown as percent
from privalue.report._public_page import public_page
from privalue.report._states import CLAMPED, flags_of, state_table

SSP = {"name": "dp-ssp", "calibration": "exact", "stages": "one"}
ONCE = "Noise may hide what the bound of returns costs."


def released(described, data, seed=3):
    return release_anyway(described, data, entropy=pv.SeededForExperimentsOnly(seed))


def crowd(often=40_000, rarely=400):
    """Many who visit state 0, and few who visit state 1."""
    return [[(0, float(at % 2))] for at in range(often)] + [
        [(1, float(at % 2))] for at in range(rarely)
    ]


def loose(**sections):
    """Returns of 1 at most, and bounds of 0 to 20 that follow from rewards."""
    mechanism = {**SSP, "stages": ["bounds"]}
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
    return released(loose(), crowd())


# Stages


def test_a_page_says_in_which_stages_the_budget_was_spent(chosen):
    told = text_of(chosen)
    bounds, values = chosen.stages
    assert (bounds.name, values.name) == ("bounds", "values")
    assert "The budget was spent in two stages, one after the other." in told
    share = chosen.terms["shares"]["bounds"]
    spent = f"took {100 * share:g}% of the budget (alpha = {bounds.alpha:.6g})."
    assert f"Finding a bound of returns {spent}" in told
    assert f"alpha = {chosen.stages[-1].alpha:.8g} for the values" in told
    low, high, beyond = bounds.chosen.low, bounds.chosen.high, bounds.chosen.beyond
    assert high < 20
    assert (
        f"Returns count from {low:.6g} to {high:.6g}, which the release chose from noisy numbers, "
        f"within 0 to 20; {percent(beyond).value} of trajectories ({percent(beyond).within}) have "
        "a return beyond." in told
    )


def test_a_stage_that_chose_nothing_says_so():
    """So few trajectories that no level of returns is clear of its noise."""
    release = released(loose(), [[(0, 1.0)]] * 4)
    low, high = (getattr(release.stages[0].chosen, end) for end in ("low", "high"))
    assert (low, high) == (0.0, pytest.approx(20))
    told = text_of(release)
    assert "It chose none that is tighter: returns count from 0 to 20, as in the study." in told
    assert not any("which the release chose" in line for line in printed(release))


def test_one_stage_is_told_in_a_sentence():
    described = study(2, returns=(0.0, 1.0), mechanism=SSP)
    told = text_of(released(described, crowd(often=500)))
    assert "The whole budget was spent on the values, in one stage." in told
    assert "How many the study's own bounds and limits changed is private." in told


def test_a_mechanism_without_stages_is_told_without():
    described = study(2, returns=(0.0, 1.0))
    told = text_of(released(described, crowd(often=500)))
    assert "How the budget was spent" not in told


# The bound


def test_what_cannot_be_told_from_nothing_flags_no_state(chosen):
    """Study bounds far wider than the chosen ones: whatever noise hides may be far away."""
    assert chosen.values.column("clamped").all()
    assert chosen.stages[0].chosen.beyond.low == 0
    assert flags_as_the_twin_has_them(chosen) == [(), ()]
    told = text_of(chosen)
    assert told.count(ONCE) == 1
    assert "2 of 2 values, whose total intervals are for returns as clamped." in told
    assert "none is flagged" in told


def test_states_are_flagged_where_trajectories_are_clearly_beyond_the_bound(chosen):
    some = with_beyond(chosen, Share(value=0.02, low=0.01, high=0.03))
    assert flags_as_the_twin_has_them(some) == [(CLAMPED,), (CLAMPED,)]
    assert "whose total intervals are for returns as clamped" not in text_of(some)
    untold = state_table(with_beyond(chosen, None))  # as many as you like
    assert untold.with_flag(CLAMPED).tolist() == [0, 1]


def test_the_policys_interval_is_for_returns_as_clamped():
    described = loose(values={"start": {"0": 0.5, "1": 0.5}})
    release = released(described, crowd())
    assert release.policy_interval.clamped
    told = "The total interval of the policy's overall value is for returns as clamped"
    assert told in text_of(release)
    inside = release.policy_interval.model_copy(update={"clamped": False})
    assert told not in text_of(release.model_copy(update={"policy_interval": inside}))


# The terminal


def test_the_terminal_has_a_line_for_the_bound(chosen):
    lines = printed(chosen)
    high = chosen.stages[0].chosen.high
    bound = f"Returns count from 0 to {high:.6g}, which the release chose"
    assert sum(line.startswith(bound) for line in lines) == 1
