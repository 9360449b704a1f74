"""Useless releases and large deltas: refusals, warnings and acceptance before any charge."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

import privalue as pv
from oracles.refusals import refused
from oracles.studies import PROMISE
from privalue.core import PublicSize
from privalue.planning import HalfWidth, large_delta, mechanism_of_study, usefulness

PEOPLE = [[(0, 0.0), (1, 0.0), (2, 1.0)], [(0, 0.0), (2, 1.0)]] * 500


def make_study(**changes):
    keywords = {
        "states": 3, "discount": 0.9, "rewards": (0, 1), "returns": (0, 1), "epsilon": 1.0,
        "delta": 1e-6, "unit": "trajectory", "dataset": "trial",
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


def judge(study, m):
    return usefulness(study, mechanism_of_study(study, m), m)


@pytest.fixture
def ledger(tmp_path):
    new_ledger = pv.open_ledger(tmp_path / "ledger.db")
    new_ledger.declare("trial", epsilon=2.0, delta=1e-5, unit="trajectory")
    return new_ledger


def entries(ledger):
    return ledger.verify().entries


def codes(study, **options):
    """The release, and the codes of what was said before it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = pv.release(study, PEOPLE, **options)
    return release, [item.message.code for item in caught]


# 2 h(m) > R/2


@pytest.mark.parametrize("returns", [(0, 1), (0, 3000), (-7, 2)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_a_study_is_useless_if_no_state_can_have_a_narrow_interval(returns, epsilon):
    study = make_study(returns=returns, epsilon=epsilon)
    widths = HalfWidth.of(study, mechanism_of_study(study, 100))
    reach = returns[1] - returns[0]
    last = max(m for m in range(1, 20_000) if 2 * widths.at(m).min() > reach / 2)
    assert judge(study, last).useless
    assert not judge(study, last + 1).useless
    assert judge(study, last + 1).visits == pytest.approx(last + 1, abs=1)
    # With fewer than five times as many a note says so, and nothing more.
    visits = judge(study, last + 1).visits
    assert judge(study, math.floor(5 * visits)).risky
    assert not judge(study, math.ceil(5 * visits)).risky


def test_with_a_prior_the_state_of_least_noise_decides():
    study, others = make_study(visits=[1, 0.1, 0.01]), set()
    for m in range(60, 400, 20):
        halves = HalfWidth.of(study, mechanism_of_study(study, m)).at(m)
        assert judge(study, m).useless == (2 * halves.min() > 0.5)
        others.add(bool(2 * halves.max() > 0.5) == judge(study, m).useless)
    assert others == {True, False}  # planted: the state of most noise would decide otherwise


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_line_is_where_published_intervals_become_of_use(epsilon):
    """Real releases whose people all visit one state, with returns at the middle of the bounds."""
    study = make_study(epsilon=epsilon)
    widths = HalfWidth.of(study, mechanism_of_study(study, 100)).middle

    def is_of_use(m):
        published = []
        for seed in range(15):
            people = [[(0, 0.5)]] * math.ceil(m)
            table = pv.release(study, people, seed=seed, accept_useless=True).tables["values"]
            published.append(table.total_high[0] - table.total_low[0])
        return np.median(published) < 0.5

    visits = judge(study, 1000).visits
    assert is_of_use(1.2 * visits)
    assert not is_of_use(0.8 * visits)
    # Planted: a line drawn with half the noise, or for the whole range, is caught.
    halved = replace(widths, sum_noise=widths.sum_noise / 2, count_noise=widths.count_noise / 2)
    assert not is_of_use(1.2 * float(halved.visits_for(0.25)))
    assert not is_of_use(1.2 * float(widths.visits_for(0.4999)))


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_where_noise_follows_the_data_the_best_counts_decide(name):
    """Nothing is refused that some data set of m trajectories would make of use."""
    ridge = {"ridge": 1.0} if name == "dp-lsl" else {}
    study = make_study(mechanism=name, beta=0.01, weights=[0.01, 0.1, 1.0], **ridge)
    refused = [m for m in (10, 100, 1000, 10_000, 100_000) if judge(study, m).useless]
    assert refused
    assert refused == [10, 100, 1000, 10_000, 100_000][: len(refused)]
    m = refused[-1]
    everybody = [[(0, 0.0), (1, 0.0), (2, 1.0)]] * min(m, 20_000)
    noise = pv.inspect(study, everybody).noise_by_state
    assert 2 * 1.96 * noise.min() > 0.5
    assert not judge(study, 10 * m).useless


def test_the_noise_of_another_policys_value_decides_at_all_of_its_weight():
    rule = {state: {"x": 0.5, "y": 0.5} for state in "ab"}
    policy = {"target": rule, "behaviour": rule, "clip": 10}
    study = make_study(
        states=["a", "b"], actions=["x", "y"], delta=None, mechanism="dp-ope", policy=policy
    )
    visits = judge(study, 1000).visits
    mechanism = mechanism_of_study(study, 1000)
    scale = mechanism.public_noise({}).sigma / math.sqrt(2)  # of Laplace noise, in units of returns
    assert 2 * scale * math.log(20) / visits == pytest.approx(0.5, rel=1e-9)
    assert judge(study, math.floor(visits)).useless
    assert not judge(study, math.ceil(visits)).useless


def test_a_useless_release_is_refused_before_data_is_opened(ledger):
    study, before = make_study(epsilon=0.01, trajectories=1000), entries(ledger)
    with refused("useless"):
        pv.release(study, "no such file.csv", ledger=ledger)
    assert entries(ledger) == before


def test_an_accepted_useless_release_is_made_and_marked(ledger):
    study = make_study(epsilon=0.01, trajectories=1000)
    release = pv.release(study, PEOPLE, ledger=ledger, accept_useless=True)
    assert release.accepted == ["useless"]
    assert pv.refit(release, level=0.5).accepted == ["useless"]


def test_the_refusal_depends_on_public_numbers_alone():
    """Two data sets of one size that could not differ more: the same line, to the letter."""
    lines = []
    for people in ([[(0, 0.0)]] * 1000, [[(0, 1.0), (1, 1.0), (2, 1.0)]] * 1000):
        with pytest.raises(pv.StudyError) as refused:
            pv.release(make_study(epsilon=0.01), people)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]


# delta above 1/(10 m)


@pytest.mark.parametrize(
    ("delta", "refused"),
    [(0.9e-4, None), (1e-4, None), (1.1e-4, False), (9.9e-4, False), (1e-3, True), (0.3, True)],
)
def test_delta_against_the_number_of_units(delta, refused):
    study = make_study(delta=delta)
    message = large_delta(study, PublicSize(units=1000, most_count=1000, trajectories=1000))
    assert (None if message is None else message.refused) == refused
    hidden = PublicSize(units=None, most_count=10**6, trajectories=None)
    assert large_delta(study, hidden) is None
    declared = PublicSize(units=None, most_count=10**6, trajectories=1000)
    assert (large_delta(study, declared) is None) == (refused is None)


def test_a_large_delta_is_warned_of_and_a_larger_one_is_refused(ledger):
    assert codes(make_study(delta=5e-4))[1] == ["large-delta"]
    assert codes(make_study(delta=1e-5))[1] == []
    assert codes(make_study(), ledger=ledger)[1] == ["size-not-counted"]
    with refused("delta-not-below-1/m"):
        pv.release(make_study(delta=0.01), PEOPLE)
    # Persons are counted where their number is public: whatever number of trajectories is declared.
    persons = make_study(delta=0.01, unit="person", max_trajectories_per_person=1, trajectories=2)
    rows = {"person": range(200), "trajectory": [0] * 200, "step": [0] * 200}
    with refused("delta-not-below-1/m"):
        pv.release(persons, {**rows, "state": [0] * 200, "reward": [1.0] * 200})
    release, notices = codes(make_study(delta=0.01), accept_large_delta=True)
    assert (release.accepted, notices) == (["large-delta"], [])


def test_nearly_equal_features_are_useless_with_any_data():
    """No m is known: rounding alone is more than the range of values."""
    features = [[1.0, 1 + 1e-9 * x] for x in range(50)]
    about = {"neighbours": "add-remove", "mechanism": "dp-lsw", "noise": "isotropic", **PROMISE}
    study = pv.Study(states=50, features=features, discount=1, returns=(0, 1), beta=1e-4, **about)
    assert judge(study, None).useless
