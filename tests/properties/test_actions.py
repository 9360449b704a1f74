"""Keys that are pairs of state and action: what a trajectory can change, by all neighbours."""

import itertools
import math

import numpy as np
import pytest

import privalue as pv
from oracles import arms as slow
from oracles.limits import count_weight, sensitivity
from oracles.studies import make_study

SSP = {"name": "dp-ssp", "calibration": "exact", "stages": "one"}
TINY = [  # states, actions, H
    (1, 2, 1),
    (1, 3, 2),
    (2, 2, 1),
    (2, 2, 2),
    (2, 2, 4),
]


@pytest.mark.parametrize("add_remove", [False, True])
@pytest.mark.parametrize(("states", "actions", "most"), TINY)
def test_the_core_bounds_all_neighbours(states, actions, most, add_remove):
    """By every pair of trajectories, each of any pairs of state and action; exact arithmetic."""
    keys = states * actions
    weight = count_weight(keys, most, add_remove=add_remove)
    exact = slow.squared_sensitivity(
        states, actions, most, round(4 * weight**2) / 4, add_remove=add_remove, one_arm=False
    )
    core = sensitivity(np.ones(keys), most_states=most, add_remove=add_remove, count_weight=weight)
    assert core == pytest.approx(math.sqrt(exact), rel=1e-9)


@pytest.mark.parametrize("most", [1, 2, None])
def test_all_neighbours_of_the_public_path_stay_within_the_noise(most):
    """Two states, of which one has two actions and the other one: every episode of two steps."""
    privacy = {} if most is None else {"max_states_per_trajectory": most}
    study = make_study(
        2,
        rewards=(-1e3, 1e3),
        returns=(-1.0, 2.0),
        privacy=privacy,
        mechanism=SSP,
        actions={"count": 2, "allowed": {"0": [0, 1], "1": [1]}},
    )
    steps = [(*pair, reward) for pair in ((0, 0), (0, 1), (1, 1)) for reward in (-1e3, 1e3)]
    episodes = [*([one] for one in steps), *map(list, itertools.product(steps, repeat=2))]
    diagnostics = [pv.inspect(study, [episode]) for episode in episodes]
    perturbations = [item.perturbation for item in diagnostics]
    scaled = np.array([one.center / one.deviations for one in perturbations])
    largest = max(float(np.linalg.norm(scaled - one, axis=1).max()) for one in scaled)
    alpha = diagnostics[0].mechanism.calibration.alpha
    assert largest * alpha <= 1 + 1e-9
    if most is not None:  # with two steps, three pairs cannot all be visited
        assert largest * alpha == pytest.approx(1.0, rel=1e-6)
