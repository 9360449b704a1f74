"""Plans of values of actions: the law of pairs, errors, and what improved policies are worth."""

import dataclasses
import io
import itertools
import json

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import privalue as pv
from oracles import decisions
from oracles.studies import in_sections
from privalue.cli._plan import plan as plan_command
from privalue.cli._plan_screen import print_plan
from privalue.errors import StudyError
from privalue.estimate import step_of_noisy, with_clear_gains
from privalue.planning import (
    Option,
    forecast,
    predict,
    predict_improvement,
    public_model,
    unvisited_states,
    unvisited_words,
)
from privalue.planning import _improvement as improvement
from privalue.planning import _model as models
from privalue.planning import _predict as predicting
from privalue.planning._draws import Draws
from privalue.planning._returns import first_choices, first_visits
from privalue.report import improvement_in_words, pairs_in_words
from privalue.simulation import (
    END,
    MDP,
    Outcomes,
    Policy,
    World,
    parse_world,
    simulate_episodes,
)
from privalue.study import design, mechanism_for

TEXT = "garnet:N=4,A=3,branching=2,seed=5"
WORLD = parse_world(TEXT)
MDP_, BEHAVIOUR = WORLD.decisions
M = 2_000
RETURNS = (0.0, 12.0)
NAMED = {int: "count", list: "labels"}


def study(states=4, actions=3, **sections):
    privacy = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", "max_states_per_trajectory": 6}
    values = {"discount": 0.95, "rewards": (0.0, 1.0), "returns": RETURNS}
    return in_sections(
        privacy=privacy | sections.pop("privacy", {}),
        values=values | sections.pop("values", {}),
        states=sections.pop("states", {"count": states}),
        actions=actions if isinstance(actions, dict) else {NAMED[type(actions)]: actions},
        study={"trajectories": M},
        **sections,
    )


def noisy_study():
    """Much noise, which shows in errors where nothing is shrunk; of a size that is not public, so
    that a release plans nothing."""
    loud = {"epsilon": 0.5, "neighbours": "add-remove"}
    plain = {"name": "dp-ssp", "shrinkage": False}
    return study(privacy=loud, mechanism=plain).model_copy(update={"study": {}})


@pytest.fixture(scope="module", autouse=True)
def few_simulated():
    """A tenth of the trajectories that a plan simulates: enough for worlds of twelve pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_MOST_TRAJECTORIES", 20_000)
        yield


@pytest.fixture(scope="module")
def model(few_simulated):
    return public_model(study(), WORLD)


@pytest.fixture(scope="module")
def improved(model):
    return predict_improvement(study(), model, WORLD)


# The law of pairs


@pytest.mark.parametrize("groups", [None, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_law_of_pairs_is_that_of_the_process_of_pairs(seed, groups):
    world = parse_world(f"garnet:N=5,A=3,branching=2,seed={seed},policy=optimal:0.6")
    mdp, policy = world.decisions
    generator = np.random.default_rng(seed)
    key_of = np.arange(15) if groups is None else generator.integers(0, groups, 15)
    keys = 15 if groups is None else groups
    found = first_choices(mdp, policy, world.process, key_of, keys)
    twin = first_visits(world.keyed, key_of, keys)
    for name in ("visits", "means", "variances"):
        np.testing.assert_allclose(getattr(found, name), getattr(twin, name), rtol=1e-8, atol=1e-9)
    if groups is None:
        np.testing.assert_allclose(found.visits, world.key_visits.ravel(), rtol=1e-9)
        np.testing.assert_allclose(found.means, mdp.q(policy).ravel(), rtol=1e-9)


def test_a_model_has_the_values_of_pairs_and_of_states(model):
    np.testing.assert_allclose(model.values, MDP_.q(BEHAVIOUR).ravel(), rtol=1e-9)
    np.testing.assert_allclose(model.state_values, WORLD.process.values, rtol=1e-9)
    free = public_model(study(privacy={"max_states_per_trajectory": 12}), WORLD)
    np.testing.assert_allclose(free.visits, WORLD.key_visits.ravel(), rtol=1e-9)
    assert (model.visits <= free.visits + 0.01).all()
    assert model.visits.sum() < free.visits.sum()
    assert "a trajectory counts for its first 6 pairs only" in model.assumptions


def test_actions_are_matched_by_number_or_else_by_position():
    turned = study(actions=["2", "0", "1"])
    state_of = np.arange(4)
    assert models.raw_pairs(turned, WORLD, state_of)[:3].tolist() == [1, 2, 0]
    named = study(actions=["wait", "treat", "refer"])
    assert models.raw_pairs(named, WORLD, state_of).tolist() == list(range(12))


@pytest.mark.parametrize(
    ("wrong", "world", "words"),
    [
        (study(states=5), WORLD, "the world has 4 states and the study 5"),
        (study(actions=4), WORLD, "the world has 3 actions and the study 4"),
        (study(), parse_world("chain:N=4"), "nobody chooses in the world"),
        (
            study(actions={"count": 3, "allowed": {str(s): ["0", "1"] for s in range(4)}}),
            WORLD,
            "take action 2 in state 0, which is not an allowed pair",
        ),
    ],
)
def test_a_study_that_does_not_fit_the_world_is_refused(wrong, world, words):
    with pytest.raises(StudyError, match=words):
        public_model(wrong, world)


def never(state, action):
    """The world, with a pair that nobody takes."""
    table = BEHAVIOUR.probabilities.copy()
    table[state, action] = 0.0
    return WORLD.under(Policy(probabilities=table / table.sum(axis=1, keepdims=True)))


def test_pairs_that_nobody_takes_are_to_be_left_out_of_what_is_allowed():
    world = never(2, 1)
    found = unvisited_states(study(), public_model(study(), world))
    assert found == ["2, 1"]
    words = unvisited_words(found, "the world", pairs=True)
    assert words.startswith(
        'by the world nobody takes pair "2, 1": leave it out of what is allowed'
    )
    assert '[actions] allowed = "allowed.csv"' in words


# What a policy is worth


def literal_value(mdp, table):
    """J by the system of all pairs, in exact fractions."""
    values = decisions.action_values(mdp, Policy(probabilities=table))
    return sum(
        float(mdp.start[s]) * sum(float(p) * float(q) for p, q in zip(row, values[s], strict=True))
        for s, row in enumerate(table)
    )


@pytest.mark.parametrize("discount", [0.95, 1.0])
def test_values_of_policies_are_the_literal_ones(discount, monkeypatch):
    mdp = dataclasses.replace(MDP_, discount=discount)
    policies = np.random.default_rng(3).dirichlet(np.ones(3), size=(3, 4))
    policies[0] = np.eye(3)[[0, 1, 2, 0]]
    twins = [literal_value(mdp, table) for table in policies]
    np.testing.assert_allclose(improvement.policy_values(mdp, policies), twins, rtol=1e-9)
    for name, limit in (("_AT_ONCE", 1), ("_DENSE", 1)):  # one by one, both ways
        monkeypatch.setattr(improvement, name, limit)
        np.testing.assert_allclose(improvement.policy_values(mdp, policies), twins, rtol=1e-9)


@pytest.mark.parametrize("allowed", [True, False])
def test_the_best_policy_is_the_best_of_all_that_are_allowed(allowed):
    world = WORLD if allowed else never(2, 1)
    listed = {str(s): [str(a) for a in range(3) if allowed or (s, a) != (2, 1)] for s in range(4)}
    course = improvement._Course.of(study(actions={"count": 3, "allowed": listed}), world)
    choices = [list(map(int, listed[str(s)])) for s in range(4)]
    every = np.array([np.eye(3)[list(each)] for each in itertools.product(*choices)])
    most = improvement.policy_values(MDP_, every).max()
    assert course.best() == pytest.approx(most, rel=1e-9)


def test_one_step_serves_both_rules(model):
    mechanism = mechanism_for(study(), design(study()), predicting.planned_size(study(), 20_000))
    statistics = Draws(model, study(), 8).statistics(20_000)[0]
    drawn = predicting.drawn_numbers(mechanism, statistics, np.random.default_rng(1))
    noisy = predicting.noisy_pairs(mechanism, drawn)
    both, careful = (
        step_of_noisy(noisy, study(), 0.95, only_clear_gains=only) for only in (False, True)
    )
    found = with_clear_gains(both, study().pairs.state_of)
    assert 0 < (careful.chosen >= 0).sum() < 4
    np.testing.assert_array_equal(found.chosen, careful.chosen)
    np.testing.assert_array_equal(found.policy, careful.policy)


# Against simulated releases

RELEASES = 24


@pytest.fixture(scope="module")
def released():
    """What releases of simulated people gave: errors of Q and V, clear pairs, and policies."""
    truth, states = MDP_.q(BEHAVIOUR).ravel(), WORLD.process.values
    rows = []
    for seed in range(RELEASES):
        people = simulate_episodes(WORLD, trajectories=M, seed=seed, actions=True)
        release = pv.release(noisy_study(), people, seed=seed)
        made = [pv.improve(release, level=level).step for level in (None, 0.95)]
        rows.append(
            [
                np.sqrt(np.mean(np.square(release.value - truth))),
                np.sqrt(np.mean(np.square(release.state_values.column("value") - states))),
                made[0].clear.mean(),
                *(MDP_.value(Policy(probabilities=step.policy.reshape(4, 3))) for step in made),
            ]
        )
    return np.array(rows)


def predicted(model):
    """Predict the errors, and what policies are worth."""
    chosen = predict(noisy_study(), model, trajectories=M, draws=50).chosen
    return chosen, predict_improvement(noisy_study(), model, WORLD, trajectories=M)


def differences(released, forecast, improved):
    """Return how far Q's error, V's and the default policy's value are from what was predicted.

    They are in standard errors of the releases' mean, which are larger than those of the draws.
    """
    made = [forecast.rmse, forecast.of_pairs.state_rmse, improved.chosen.mean]
    found = released[:, [0, 1, 3]]
    return (found.mean(axis=0) - made) / (found.std(axis=0, ddof=1) / np.sqrt(RELEASES))


def test_predictions_agree_with_simulated_releases(released, model):
    forecast, improved = predicted(model)
    assert np.abs(differences(released, forecast, improved)).max() < 3
    assert released[:, 2].mean() == pytest.approx(forecast.of_pairs.clear, abs=0.02)
    assert released[:, 4].mean() == pytest.approx(improved.rules[1].mean, abs=0.02)
    low, high = improved.chosen.usual
    inside = np.mean((released[:, 3] >= low - 1e-9) & (released[:, 3] <= high + 1e-9))
    assert 0.6 <= inside <= 1.0  # 0.8 is said
    worse = np.mean(released[:, 3] < improved.behaviour - 1e-9)
    assert worse == pytest.approx(improved.chosen.worse, abs=0.15)


def test_predictions_that_leave_the_noise_out_do_not(released, model, monkeypatch):
    def without(mechanism, statistics, generator):
        return predicting.MadeUpDraw(numbers=mechanism.perturbation(statistics).center)

    monkeypatch.setattr(predicting, "drawn_numbers", without)
    monkeypatch.setattr(improvement, "drawn_numbers", without)
    assert (np.abs(differences(released, *predicted(model))) > 4).all()


def test_an_improved_policy_is_between_what_people_do_and_the_best(improved):
    assert improved.behaviour == pytest.approx(MDP_.value(BEHAVIOUR), rel=1e-9)
    assert improved.best == pytest.approx(MDP_.value(MDP_.optimal()), rel=1e-9)
    assert improved.behaviour < improved.chosen.mean < improved.without_noise <= improved.best
    default, careful = improved.rules
    assert default.level is None
    assert careful.level == 0.95
    assert careful.moved < default.moved
    assert default.usual[0] <= default.mean <= default.usual[1]
    assert improved.draws == 100
    assert default.standard_error > 0


def test_more_people_make_better_policies(model, improved):
    many = predict_improvement(study(), model, WORLD, trajectories=200_000, draws=16)
    assert many.chosen.mean > improved.chosen.mean
    assert many.rules[1].mean > improved.rules[1].mean
    assert many.chosen.worse == many.chosen.loss == 0


def test_the_study_alone_predicts_states_and_clear_pairs_but_no_policy():
    plan = pv.plan(study(), draws=8)
    found = plan.prediction.chosen.of_pairs
    assert 0 <= found.cautious_clear < found.clear <= 1
    assert plan.improvement is None
    assert plan.state_rmse < plan.rmse
    assert "at the cautious end" in pairs_in_words(plan.prediction)


def test_a_study_without_actions_has_no_policy_to_improve():
    without = study(actions=None)
    found = public_model(without, WORLD)
    assert found.state_values is None
    assert forecast(Option(study=without), found, M, draws=8).of_pairs is None
    with pytest.raises(StudyError, match="no policy to improve"):
        predict_improvement(without, found, WORLD)


def test_a_policy_that_never_ends_is_not_judged():
    endless = MDP(
        outcomes=Outcomes.collect(
            states=1,
            actions=2,
            rows=[0, 1, 1],
            probabilities=[1.0, 1.0 - 1e-12, 1e-12],
            successors=[END, 0, 0],
            rewards=[0.0, 1.0, 1.0],
        ),
        start=[1.0],
        discount=0.9,
    )
    world = World.of(endless, Policy(probabilities=np.array([[0.5, 0.5]])))
    plan = pv.plan(
        study(1, 2, values={"discount": 1.0, "returns": (0.0, 20.0)}), world=world, draws=8
    )
    assert plan.improvement is None
    assert "may never end; use a smaller discount" in plan.notes[-1]


# On the screen, in JSON, in Python and in a notebook


@pytest.fixture(scope="module")
def planned(few_simulated):
    return pv.plan(study(), world=WORLD, draws=16)


def test_a_plan_says_what_an_improved_policy_is_worth(planned):
    found = planned.improvement
    sentences = improvement_in_words(found)
    assert len(sentences) == 3
    assert f"{found.behaviour:.2f}" in sentences[0]
    assert f"{found.best:.2f}" in sentences[0]
    assert "16 made-up releases" in sentences[0]
    assert "With level 0.95" in sentences[2]
    for text in (repr(planned), planned.paragraph):
        assert all(
            sentence in text for sentence in [pairs_in_words(planned.prediction), *sentences]
        )
    shown = planned._repr_html_()
    assert "clear count" in shown
    assert "The improved policy" in shown
    assert 0 < planned.clear <= 1
    assert 0 < planned.state_rmse < planned.rmse


def test_no_policy_is_worse_in_words_too(improved):
    lucky = dataclasses.replace(improved.chosen, worse=0.0, loss=0.0)
    rules = (lucky, improved.rules[1])
    words = improvement_in_words(dataclasses.replace(improved, rules=rules, best=None))
    assert "best policy" not in words[0]
    assert words[1].endswith("none gives a policy that is worse than what people do now")


def test_the_screen_shows_it(planned):
    console = Console(width=200, record=True, file=io.StringIO())
    print_plan(console, planned.prediction, [], None, [], True, planned.improvement)
    flat = " ".join(console.export_text().split())
    assert "error over the pairs, 2,000 trajectories" in flat
    assert all(f"{sentence}." in flat for sentence in improvement_in_words(planned.improvement))
    assert "By pair, dp-ssp" in flat


def test_the_command_tells_programs_and_advises_a_limit_of_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = "garnet:N=6,A=3,branching=2,seed=5"
    study(6, privacy={"max_states_per_trajectory": 18}).save("study.toml")
    app = typer.Typer()
    app.command()(plan_command)
    arguments = ["study.toml", "--draws", "8", "--world", world, "--json"]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    found = told["improvement"]
    assert found["behaviour"] < found["best"]
    assert [rule["level"] for rule in found["rules"]] == [None, 0.95]
    assert 0 < told["pairs"]["state_rmse"] < told["rmse"]
    assert told["states"][2] == "0, 2"
    expected = int(np.ceil(parse_world(world).key_visits.sum()))
    limits = [each["change"] for each in told["advice"] if "max_states" in each["change"]]
    assert limits == [f"bounded contribution: max_states_per_trajectory = {expected}"]
