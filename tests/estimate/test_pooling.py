"""Pooled releases: one noisy statistic from several, which spends nothing; differences of two."""

import json
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy import optimize, stats

import privalue as pv
from oracles.refusals import refused
from privalue.cli import run
from privalue.estimate import Ratios, pooling

STATES = ["a", "b", "c", "d", "e"]
MEANS = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
USUAL = {
    "states": STATES,
    "discount": 1.0,
    "returns": (0, 1),
    "epsilon": 1.0,
    "delta": 1e-6,
    "unit": "trajectory",
    "max_states_per_trajectory": 1,
}


def people(rng, count, means=MEANS):
    """Trajectories of one row, whose return is 0 or 1: the largest variance that there is."""
    states = rng.integers(len(STATES), size=count)
    rewards = rng.random(count) < means[states]
    return [[(STATES[s], float(r))] for s, r in zip(states, rewards, strict=True)]


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(20261118)
    study = pv.Study(**USUAL, start=[0.2] * 5)
    return [pv.release(study, people(rng, 800)) for _ in range(3)]


def test_sums_and_variances_add_up(sites):
    pooled = pv.pool(sites)
    for name in ("sums", "counts"):
        parts = [getattr(site.statistics, name) for site in sites]
        assert np.array_equal(getattr(pooled.statistics, name), np.sum(parts, axis=0))
    for name in ("sum_noise", "count_noise"):
        squares = sum(getattr(site.statistics, name) ** 2 for site in sites)
        assert np.allclose(getattr(pooled.statistics, name) ** 2, squares, rtol=1e-12)
    assert (pooled.trajectories, pooled.private, pooled.ledger_head) == (2400, True, None)
    assert [source.sha256 for source in pooled.pooled_from] == [site.sha256 for site in sites]
    assert (pooled.privacy, pooled.gaussian_mu) == (sites[0].privacy, sites[0].gaussian_mu)
    assert pooled.policy_value is not None
    width = pooled.total_high - pooled.total_low
    assert (width < 0.75 * (sites[0].total_high - sites[0].total_low)).all()
    again = pv.Release.parse(pooled.to_json())
    assert again == pooled


def test_pooling_in_steps_is_pooling_at_once(sites):
    steps, once = pv.pool([pv.pool(sites[:2]), sites[2]]), pv.pool(sites)
    assert np.allclose(steps.value, once.value, atol=1e-12)
    assert steps.pooled_from == once.pooled_from


def release_with(**changes):
    study = pv.Study(**{**USUAL, **changes})
    return pv.release(study, people(np.random.default_rng(1), 800), accept_useless=True)


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (lambda sites: sites[0], "pooled-twice"),
        (pv.pool, "pooled-twice"),
        (
            lambda sites: pv.pool(
                [sites[0].model_copy(update={"created": "2020-01-01"}), sites[1]]
            ),
            "pooled-twice",
        ),
        (lambda sites: pv.refit(sites[1], size=2), "not-alike"),
        (lambda _: release_with(returns=(0, 2)), "not-alike"),
        (lambda _: release_with(discount=0.5), "not-alike"),
        (lambda _: release_with(states=[*STATES, "f"]), "not-alike"),
        (lambda _: release_with(states=[*STATES[::-1]]), "not-alike"),
        (lambda _: release_with(max_states_per_trajectory=2), "not-alike"),
        (lambda _: release_with(neighbours="add-remove"), "not-alike"),
        (lambda _: release_with(size=2), "not-alike"),
        (lambda _: release_with(invalid="drop-unit", trajectories=800), "not-alike"),
        (lambda _: release_with(ends=["out"]), "not-alike"),
        (lambda _: release_with(mechanism="dp-lsw"), "not-alike"),
        (lambda _: release_with(returns=None, rewards=(0, 1), discount=0.9), "not-alike"),
        (lambda _: seeded_release(), "not-alike"),
    ],
)
def test_releases_that_are_not_alike_are_refused(sites, second, code):
    other = second(sites)
    for combine in (pv.pool, lambda both: pv.difference(*both)):
        with refused(code):
            combine([sites[0], other])


def seeded_release():
    return pv.release(pv.Study(**USUAL), people(np.random.default_rng(1), 800), seed=1)


BOTH = {"discount": 0.9, "rewards": (0, 4), "epsilon": 8.0}
STAYS = [[("a", 0.0, "x"), ("b", 1.0, "x")], [("c", 1.0, "y")]] * 500
TAKEN = [[(state, cell, reward) for state, reward, cell in stay] for stay in STAYS]
ENDED = [[("a",), ("out",)]] * 900


@pytest.mark.parametrize(
    ("first", "second", "changes"),
    [
        (STAYS, STAYS, ({"arms": ["x", "y"]}, {"arms": ["y", "x"]})),
        (TAKEN, TAKEN, ({"actions": ["x", "y"]}, {"actions": ["y", "x"]})),
        (TAKEN, TAKEN, ({"actions": ["x", "y"]}, {"actions": ["x", "y", "z"]})),
        # Their stages choose other bounds.
        ([[("a", 4.0)]] * 900, [[("a", 0.01)]] * 900, ({"returns": None}, {"returns": None})),
        # Rewards that are fixed differently, though all bounds are the same.
        (ENDED, ENDED, ({"ends": {"out": 1.0}}, {"ends": {"out": 2.0}})),
        (ENDED, ENDED, [{"ends": ["out"], "reward_per_row": reward} for reward in (1.0, 2.0)]),
    ],
)
def test_sums_that_mean_something_else_are_refused(first, second, changes):
    usual = {**USUAL, **BOTH, "returns": (0, 4)}
    first_release, second_release = (
        pv.release(pv.Study(**{**usual, **change}), rows, accept_useless=True)
        for change, rows in zip(changes, (first, second), strict=True)
    )
    repeated = pv.release(pv.Study(**{**usual, **changes[0]}), first, accept_useless=True)
    assert len(pv.pool([first_release, repeated]).pooled_from) == 2
    with refused("not-alike"):
        pv.pool([first_release, second_release])


def test_the_command_refuses_by_its_exit_code(sites, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("mainz", "kiel", "pooled")]
    for name, site in zip(names, sites[:2], strict=False):
        site.save(name)
    command = ["pool", "--out", names[2], names[0]]
    assert run(command) == run(["pool", names[0], names[1]]) == 2
    assert run([*command, names[0]]) == run([*command, names[2]]) == 3
    capsys.readouterr()
    assert run([*command, names[1], "--same-people", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["charged"] is None
    together = pv.Release.load(names[2])
    assert together.releases_per_person == 2
    assert run([*command, names[1]]) == 2  # a release is never overwritten
    assert run(["pool", names[2], names[0], "--out", f"{names[2]}-again"]) == 3


def test_names_sizes_and_costs_may_differ(sites):
    other = release_with(name="kiel", dataset="kiel", period="2026", epsilon=2.0, delta=1e-7)
    pooled = pv.pool([sites[0], other])
    assert (pooled.privacy.epsilon, pooled.privacy.delta) == (2.0, 1e-6)  # what both keep
    assert pooled.terms["epsilon"] == 2.0
    backwards = pv.pool([other, sites[0]])
    assert (backwards.privacy, backwards.gaussian_mu) == (pooled.privacy, pooled.gaussian_mu)
    assert pv.privacy_profile(1 / pooled.gaussian_mu, 0.0, 1, 2.0).upper <= 1e-6
    assert [source.epsilon for source in pooled.pooled_from] == [1.0, 2.0]
    assert pooled.pooled_from[1].dataset == "kiel"
    assert "dataset" not in pooled.study["study"]


def test_the_same_people_have_the_sum_of_all_costs(sites):
    """By mu, as another accountant finds it; planted: the largest alone is far less."""
    pooled = pv.pool(sites, same_people=True)
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(relation)
    for site in sites:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / site.gaussian_mu))
    exact = accountant.get_epsilon(1e-6)
    assert exact - 1e-3 < pooled.privacy.epsilon < exact + 1e-2
    assert pooled.privacy.epsilon > 1.5 * sites[0].privacy.epsilon
    assert pooled.gaussian_mu >= 3**0.5 * sites[0].gaussian_mu
    assert pooled.releases_per_person == 3
    nested = pv.pool([pv.pool(sites[:2], same_people=True), sites[2]])
    assert (nested.privacy, nested.releases_per_person) == (pooled.privacy, 3)
    apart = pv.pool(sites)
    assert (pooled.total_high - pooled.total_low > 1.1 * (apart.total_high - apart.total_low)).all()
    assert np.allclose(pv.refit(pooled).total_high, pooled.total_high)


def test_gains_of_the_same_people_are_no_clearer_for_being_counted_twice():
    """Planted: as if people were apart, intervals of gains would be narrower."""
    rng = np.random.default_rng(12)
    study = pv.Study(**{**USUAL, "epsilon": 8.0, "actions": ["wait", "treat"]})
    rows = [[(state, str(rng.choice(["wait", "treat"])), r)] for [(state, r)] in people(rng, 4000)]
    twice = [pv.release(study, rows) for _ in range(2)]
    same, apart = (pv.improve(pv.pool(twice, same_people=how)).columns for how in (True, False))
    widths = [np.subtract(one["high"], one["low"]) for one in (same, apart)]
    assert (widths[0] > 1.2 * widths[1]).all()


def coverage(rng, draws, *, same_people, claimed):
    """Return how often pooled intervals cover the means, where noise is small beside sampling."""
    study = pv.Study(**{**USUAL, "epsilon": 8.0})
    covered = []
    for _ in range(draws):
        table = people(rng, 400)
        data = [table] * 3 if same_people else [table, people(rng, 400), people(rng, 400)]
        pooled = pv.pool([pv.release(study, rows) for rows in data], same_people=claimed)
        covered.append((pooled.total_low <= MEANS) & (pooled.total_high >= MEANS))
    return np.mean(covered)


def test_intervals_cover_where_people_are_apart_and_where_they_are_the_same():
    rng = np.random.default_rng(7)
    assert coverage(rng, 40, same_people=False, claimed=False) > 0.92
    assert coverage(rng, 40, same_people=True, claimed=True) > 0.92


def test_the_same_people_taken_for_others_are_not_covered():
    """Planted: the variance of people as if three releases of the same ones were three times as
    many."""
    assert coverage(np.random.default_rng(8), 40, same_people=True, claimed=False) < 0.85


def test_sources_that_differ_are_marked_and_alike_ones_are_not():
    rng, study = np.random.default_rng(9), pv.Study(**{**USUAL, "epsilon": 4.0})
    wrong = [
        any("differ" in text for text in _pooled_flags(rng, study, [MEANS] * 3)) for _ in range(40)
    ]
    assert np.mean(wrong) <= 0.1
    shifted = MEANS + np.array([0.6, 0, 0, 0, 0])
    flags = _pooled_flags(rng, study, [MEANS, MEANS, shifted])
    assert "sources differ" in flags[0]
    assert not any("differ" in text for text in flags[1:])


def test_alike_sources_of_very_many_people_are_not_marked():
    """Planted beside it: a grid of 257 values steps over the least Q, and marks all of them."""
    rng, visits, means = np.random.default_rng(10), 10**6, np.array([0.502, 0.0011, 0.2988])
    sources = [
        Ratios.within(
            (0.0, 1.0),
            sums=rng.binomial(visits, means) - 0.5 * visits + rng.normal(0, 4, 3),
            counts=visits + rng.normal(0, 5, 3),
            sum_noise=np.full(3, 4.0),
            count_noise=np.full(3, 5.0),
        )
        for _ in range(3)
    ]
    assert not pooling.sources_differ(sources, level=0.95, cluster_sizes=[1] * 3).any()
    grid = [slow_q(sources, at, np.linspace(0, 1, 257)).min() for at in range(3)]
    assert (np.array(grid) > stats.chi2.isf(0.05 / 3, 3)).all()
    apart = [*sources[:2], replace(sources[2], sums=sources[2].sums + 5e-3 * visits)]
    assert pooling.sources_differ(apart, level=0.95, cluster_sizes=[1] * 3).all()


def slow_q(sources, at, v):
    """Q of one key at a value, or at several."""
    total = 0.0
    for source in sources:
        y = v - source.centre
        variance = source.sum_noise[at] ** 2 + (y * source.count_noise[at]) ** 2
        variance += max(source.counts[at], 0) * (1 - v) * v
        total = total + (source.sums[at] - y * source.counts[at]) ** 2 / variance
    return total


def _pooled_flags(rng, study, means):
    sites = [pv.release(study, people(rng, 1000, mean)) for mean in means]
    return pv.pool(sites).flags.tolist()


def test_differences_of_sources_by_the_slow_rule(sites):
    """Q at its smallest v, found by a plain search for each state."""
    ratios = [pooling.ratios_of(site) for site in sites]
    fast = pooling.sources_differ(ratios, level=0.5, cluster_sizes=[1] * len(ratios))
    for at in range(len(STATES)):
        best = optimize.minimize_scalar(lambda v, at=at: slow_q(ratios, at, v), bounds=(0, 1)).fun
        assert fast[at] == (best > stats.chi2.isf(0.5 / len(STATES), len(sites)))


def test_a_source_that_only_adds_noise_is_named(sites):
    noisy = release_with(epsilon=0.02)
    marks = [source.better_without for source in pv.pool([*sites, noisy]).pooled_from]
    assert marks == [False, False, False, True]


def test_a_difference_of_two_releases_is_that_of_two_arms():
    rng = np.random.default_rng(11)
    study, shifted = pv.Study(**{**USUAL, "epsilon": 4.0}), MEANS + 0.15
    covered = []
    for _ in range(40):
        new, old = (pv.release(study, people(rng, 1000, means)) for means in (shifted, MEANS))
        table = pv.difference(new, old)
        covered.append((table.total_low <= 0.15) & (table.total_high >= 0.15))
        assert np.allclose(table.value, new.value - old.value)
    assert np.mean(covered) > 0.93
    assert [row.state for row in table] == STATES
    narrow = pv.difference(new, old, level=0.5)
    assert (narrow.total_high - narrow.total_low < table.total_high - table.total_low).all()
    tied = [release_with(size=2, epsilon=4.0) for _ in range(2)]
    for combine in (lambda: pv.difference(new, old, level=5), lambda: pv.difference(*tied)):
        with refused("key-invalid", "not-alike"):
            combine()


def test_a_ridge_follows_from_all_people_together():
    """Their number may be a declared one, where it is private."""
    ridged = {"ridge": "sqrt", "ridge_scale": 1.0, "neighbours": "add-remove", "trajectories": 800}
    assert pv.pool([release_with(**ridged) for _ in range(2)]).ridge == 40.0


@pytest.mark.parametrize(
    ("section", "key"), [("weights", "file"), ("features", "file"), ("features", "kind")]
)
def test_no_file_named_in_a_foreign_release_is_opened(sites, section, key, tmp_path):
    """A release may come from anybody: a path in it, listed as a side file or not, is refused."""
    secret = tmp_path / "secret.csv"
    secret.write_text("state,weight\npatient 17,1\n")
    reference = str(secret) if key == "file" else "matrix"
    study = {**sites[0].study, section: {**sites[0].study[section], key: reference}}
    hostile = sites[0].model_copy(update={"study": study})
    for use in (lambda: pv.pool([hostile, sites[1]]), lambda: pv.refit(hostile, level=0.9)):
        with refused("description-without-file") as error:
            use()
        assert "patient" not in str(error.value)
