"""``privalue audit``: every mechanism's own noise passes, and a twentieth less is rejected."""

import json

import pytest

import privalue as pv
from privalue.cli import run
from privalue.core import mechanisms
from privalue.planning.audit import audit_study

COMMON = {"discount": 0.95, "epsilon": 1.0, "rewards": (0, 1), "trajectories": 1000}
BY_STATE = {str(s): {"0": 0.5, "1": 0.5} for s in range(2)}
GAUSSIAN = {**COMMON, "states": 10, "delta": 1e-6}
STUDIES = {
    "dp-ssp, two stages": {**GAUSSIAN, "unit": "trajectory", "epsilon": 0.001},  # much noise
    "dp-ssp, few states": {
        **GAUSSIAN, "unit": "trajectory", "returns": (0, 5), "max_states_per_trajectory": 3,
    },
    "dp-ssp, persons who come or go": {
        **GAUSSIAN, "unit": "person", "returns": (-1, 5), "max_trajectories_per_person": 3,
        "neighbours": "add-remove",
    },
    # The more people, the less noise.
    "dp-lsw": {**GAUSSIAN, "states": 3, "unit": "trajectory", "mechanism": "dp-lsw"},
    "dp-lsl": {**GAUSSIAN, "unit": "trajectory", "returns": (0, 5), "mechanism": "dp-lsl"},
    "dp-ope": {
        **COMMON, "states": 2, "actions": 2, "unit": "trajectory", "returns": (0, 5),
        "mechanism": "dp-ope", "policy": {"target": BY_STATE, "behaviour": BY_STATE, "clip": 5.0},
    },
}  # fmt: skip


def audit_of(name, **changes):
    study = pv.Study(**{**STUDIES[name], **changes})
    return audit_study(study, entropy=pv.SeededForExperimentsOnly(1))


@pytest.mark.parametrize("name", STUDIES)
def test_its_own_noise_passes_and_a_twentieth_less_is_rejected(name):
    stages = audit_of(name)
    for stage in stages:
        assert not stage.rejected
        assert stage.planted.rejected
        assert stage.worst <= stage.promised
        assert stage.sound.lower <= stage.sound.claimed <= stage.sound.upper
    if name.startswith("dp-ssp, ") and len(stages) == 1:  # the worst neighbours there are
        assert stages[0].worst > 0.99 * stages[0].promised


@pytest.mark.parametrize("name", ["dp-ssp, few states", "dp-lsw", "dp-ope"])
def test_noise_that_lacks_a_tenth_in_the_core_is_rejected(name, monkeypatch):
    """The planted mistake is in the path that a release takes."""
    original, laplace = mechanisms.noise.gaussian_on_grid, mechanisms.noise.laplace_on_grid
    monkeypatch.setattr(
        mechanisms.noise,
        "gaussian_on_grid",
        lambda center, *, sigma, grid, entropy: original(
            center, sigma=0.9 * sigma, grid=grid, entropy=entropy
        ),
    )
    monkeypatch.setattr(
        mechanisms.noise,
        "laplace_on_grid",
        lambda center, scales, entropy: laplace(center, [s * 9 / 10 for s in scales], entropy),
    )
    assert any(stage.rejected for stage in audit_of(name))


def test_too_little_noise_on_all_numbers_together_is_rejected(monkeypatch):
    original = mechanisms.weighted_block
    monkeypatch.setattr(
        mechanisms, "weighted_block", lambda constants: [x / 2 for x in original(constants)]
    )
    assert audit_of("dp-ope", neighbours="add-remove")[0].rejected
    assert audit_of("dp-ope", policy={**STUDIES["dp-ope"]["policy"], "by": "start"})[0].rejected


def test_a_sensitivity_that_is_too_small_is_rejected(monkeypatch, tmp_path, capsys):
    """The planted mistake is in the calibration: the exact delta of neighbours shows it."""
    original = mechanisms.stage_alphas
    monkeypatch.setattr(
        mechanisms, "stage_alphas", lambda alpha, shares: original(0.95 * alpha, shares)
    )
    (stage,) = audit_of("dp-ssp, few states")
    assert stage.rejected
    assert stage.worst > 2 * stage.promised
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    assert run(["audit", "study.toml", "--draws", "1000", "--json"]) == 70
    assert '"rejected": true' in capsys.readouterr().out


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    capsys.readouterr()
    assert run(["audit", "study.toml", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rejected"], report["planted_rejected"]) == (False, True)
    assert [stage["stage"] for stage in report["stages"]] == ["values"]
    assert run(["audit", "study.toml", "--draws", "10"]) == 2
