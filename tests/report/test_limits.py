"""What page and terminal say of stages, and of the bound of returns that one of them chose."""

import html
import io
import re

import pytest
from rich.console import Console

import privalue as pv
from oracles.studies import release_anyway, study
from privalue.cli._screen import print_release
from privalue.releases import Restriction, Share
from privalue.report._limits import heading, restricted, restriction_in_words
from privalue.report._limits import shown as percent
from privalue.report._public_page import public_page
from privalue.report._states import flags_of, state_table

SSP = {"name": "dp-ssp", "calibration": "exact", "stages": "one"}


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


def flags_by_state(release):
    """The flags of every state."""
    return [flags_of(int(bits)) for bits in state_table(release).bits]


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
    high, beyond = bounds.chosen.high, bounds.chosen.beyond
    assert high < 20
    assert (
        f"Values and intervals are for a restricted mean: of returns, each counted up to {high:.6g}"
        in told
    )
    assert f"{percent(beyond).value} of all trajectories ({percent(beyond).within}) have a" in told
    assert "The mean of unrestricted returns is at least as large" in told
    assert "hold over people, noise and the choice of the bound together" in told


def test_a_stage_that_chose_nothing_says_so():
    """So few trajectories that no level of returns is clear of its noise."""
    release = released(loose(), [[(0, 1.0)]] * 4)
    low, high = (getattr(release.stages[0].chosen, end) for end in ("low", "high"))
    assert (low, high) == (0.0, pytest.approx(20))
    told = text_of(release)
    assert "It chose none that is tighter: returns count from 0 to 20, as in the study." in told
    assert release.restriction is None
    assert not any("restricted" in line for line in printed(release))
    assert "each counted" not in told


def test_one_stage_is_told_in_a_sentence():
    described = study(2, returns=(0.0, 1.0), mechanism=SSP)
    told = text_of(released(described, crowd(often=500)))
    assert "The whole budget was spent on the values, in one stage." in told
    assert "How many the study's own bounds and limits changed is private." in told


def test_a_mechanism_without_stages_is_told_without():
    described = study(2, returns=(0.0, 1.0))
    told = text_of(released(described, crowd(often=500)))
    assert "How the budget was spent" not in told


# The restriction


@pytest.mark.parametrize(
    ("rewards", "held", "how", "side"),
    [
        ((0.0, 1.0), (0.0, 12.4), "each counted up to 12.4", "at least as large"),
        ((-1.0, 0.0), (-3.0, 0.0), "each counted down to -3", "at most as large"),
        ((-1.0, 1.0), (-3.0, 2.5), "each held between -3 and 2.5", "larger or smaller"),
    ],
)
def test_a_side_is_named_where_it_holds_returns_back(chosen, rewards, held, how, side):
    described = chosen.study | {"values": chosen.study["values"] | {"rewards": rewards}}
    low, high = held
    other = chosen.model_copy(
        update={"study": described, "restriction": Restriction(low=low, high=high)}
    )
    assert restricted(other) == how
    assert f"The mean of unrestricted returns is {side};" in restriction_in_words(other)
    assert heading(other, "value") == f"Mean of returns, {how}"
    assert heading(other.model_copy(update={"restriction": None}), "value") == "value"


def test_a_release_that_does_not_say_how_many_are_beyond_says_the_rest(chosen):
    told = restriction_in_words(with_beyond(chosen, None))
    assert "have a return beyond" not in told
    assert "restricted mean" in told
    some = with_beyond(chosen, Share(value=0.02, low=0.01, high=0.03))
    assert "2.0% of all trajectories (1.0% to 3.0%)" in restriction_in_words(some)


# Before a release


def wide(**values):
    return pv.Study(
        states=40,
        discount=0.99,
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        rewards=(0, 1),
        **values,
    )


@pytest.mark.parametrize(
    ("values", "offered"), [({"returns": (0, 80)}, True), ({"returns": (0, 1)}, False)]
)
def test_a_stage_is_offered_where_returns_are_far_too_wide(values, offered):
    """By check, from rewards and discount; by plan, where a world says how large returns are."""
    study = wide(**values)
    noted = pv.check(study).notes
    assert any('stages = ["bounds"]' in note for note in noted) == offered
    found = [each for each in pv.plan(study).suggestions if each.code == "stage-for-bounds"]
    assert len(found) == offered
