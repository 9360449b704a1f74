"""Plans of values of actions: the law of pairs, and errors."""

import io
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
from privalue.planning import (
    Option,
    forecast,
    predict,
    public_model,
    unvisited_states,
    unvisited_words,
)
from privalue.planning import _model as models
from privalue.planning import _predict as predicting
from privalue.planning._returns import first_choices, first_visits
from privalue.report import pairs_in_words
from privalue.simulation import (
    parse_world,
    simulate_episodes,
)

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
        **({} if actions is None else {"actions": _in_keys(actions)}),
        study={"trajectories": M},
        **sections,
    )


def _in_keys(actions):
    return actions if isinstance(actions, dict) else {NAMED[type(actions)]: actions}


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
    twin = first_visits(decisions.pairs_process(mdp, policy), key_of, keys)
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
    return WORLD.under(table / table.sum(axis=1, keepdims=True))


def test_pairs_that_nobody_takes_are_to_be_left_out_of_what_is_allowed():
    world = never(2, 1)
    found = unvisited_states(study(), public_model(study(), world))
    assert found == ["2, 1"]
    words = unvisited_words(found, "the world", pairs=True)
    assert words.startswith(
        'by the world nobody takes pair "2, 1": leave it out of what is allowed'
    )
    assert '[actions] allowed = "allowed.csv"' in words


# Against simulated releases

RELEASES = 24


@pytest.fixture(scope="module")
def released():
    """What releases of simulated people gave: errors of Q and V, and clear pairs."""
    truth, states = MDP_.q(BEHAVIOUR).ravel(), WORLD.process.values
    rows = []
    for seed in range(RELEASES):
        people = simulate_episodes(WORLD, trajectories=M, seed=seed, actions=True)
        release = pv.release(noisy_study(), people, seed=seed)
        rows.append(
            [
                np.sqrt(np.mean(np.square(release.value - truth))),
                np.sqrt(np.mean(np.square(release.state_values.column("value") - states))),
                pv.improve(release).step.clear.mean(),
            ]
        )
    return np.array(rows)


def predicted(model):
    """Predict the errors."""
    return predict(noisy_study(), model, trajectories=M, draws=50).chosen


def differences(released, forecast):
    """Return how far Q's error and V's are from what was predicted.

    They are in standard errors of the releases' mean, which are larger than those of the draws.
    """
    made = [forecast.rmse, forecast.of_pairs.state_rmse]
    found = released[:, :2]
    return (found.mean(axis=0) - made) / (found.std(axis=0, ddof=1) / np.sqrt(RELEASES))


def test_predictions_agree_with_simulated_releases(released, model):
    forecast = predicted(model)
    assert np.abs(differences(released, forecast)).max() < 3
    assert released[:, 2].mean() == pytest.approx(forecast.of_pairs.clear, abs=0.02)


def test_predictions_that_leave_the_noise_out_do_not(released, model, monkeypatch):
    def without(mechanism, statistics, generator):
        return predicting.MadeUpDraw(numbers=mechanism.perturb(statistics).center)

    monkeypatch.setattr(predicting, "drawn_numbers", without)
    assert (np.abs(differences(released, predicted(model))) > 3).all()


def test_the_study_alone_predicts_states_and_clear_pairs():
    plan = pv.plan(study(), draws=8)
    found = plan.prediction.chosen.of_pairs
    assert 0 <= found.cautious_clear < found.clear <= 1
    assert plan.state_rmse < plan.rmse
    assert "at the cautious end" in pairs_in_words(plan.prediction)


def test_a_study_without_actions_predicts_no_pairs():
    without = study(actions=None)
    found = public_model(without, WORLD)
    assert found.state_values is None
    assert forecast(Option(study=without), found, M, draws=8).of_pairs is None


# On the screen, in JSON, in Python and in a notebook


@pytest.fixture(scope="module")
def planned(few_simulated):
    return pv.plan(study(), world=WORLD, draws=16)


def test_a_plan_says_what_it_predicts_of_pairs(planned):
    sentence = pairs_in_words(planned.prediction)
    for text in (repr(planned), planned.paragraph, planned._repr_html_()):
        assert f"{sentence}." in text
    assert 0 < planned.clear <= 1
    assert 0 < planned.state_rmse < planned.rmse


def test_the_screen_shows_it(planned):
    console = Console(width=200, record=True, file=io.StringIO())
    print_plan(console, planned.prediction, [], None, [], by_state=True)
    flat = " ".join(console.export_text().split())
    assert "error over the pairs, 2,000 trajectories" in flat
    assert f"{pairs_in_words(planned.prediction)}." in flat
    assert "By pair, dp-ssp" in flat


def test_the_command_tells_programs_and_advises_a_limit_of_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = "garnet:N=6,A=3,branching=2,seed=5"
    study(6, privacy={"max_states_per_trajectory": 18}).save("study.toml")
    app = typer.Typer()
    app.command()(plan_command)
    arguments = ["study.toml", "--draws", "8", "--world", world, "--json"]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert 0 < told["pairs"]["state_rmse"] < told["rmse"]
    assert told["states"][2] == "0, 2"
    expected = int(np.ceil(parse_world(world).key_visits.sum()))
    limits = [each["change"] for each in told["advice"] if "max_states" in each["change"]]
    assert limits == [f"bounded contribution: max_states_per_trajectory = {expected}"]
