"""Several releases over one book: what each gets, its error, and which split is best."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

import privalue as pv
from privalue.cli import run
from privalue.core import gaussian
from privalue.errors import UsageError
from privalue.ledger import open_ledger, square_total, total_mu
from privalue.ledger._squares import square_cost
from privalue.ledger._units import mu
from privalue.planning import Budget, plan_releases, public_model, release_groups

STUDY = """
[study]
dataset = "trial"
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 4
"""


@pytest.fixture(scope="module")
def planned():
    study = pv.Study.parse(STUDY)
    budget = Budget(
        square=square_total(total_mu(1.0, 1e-6)),
        epsilon=1.0,
        delta=1e-6,
        total="epsilon 1, delta 1e-06, which the study promises",
    )
    model = public_model(study, None)
    return plan_releases(study, model, (1, 12), budget, trajectories=4000, draws=16)


def test_every_split_spends_the_total_and_no_more(planned):
    total = square_total(total_mu(1.0, 1e-6))
    for split in planned.splits:
        if split.accounting == "gaussian":
            spent = sum(
                each.count * square_cost(mu(gaussian(each.epsilon, each.delta).alpha), 1)
                for each in split.groups
            )
            assert total * Fraction(999, 1000) < spent <= total
            assert sum(each.count * each.share for each in split.groups) == pytest.approx(1)
        else:
            assert sum(each.count * each.epsilon for each in split.groups) == pytest.approx(1)


def test_equal_shares_are_best_over_all_and_squares_beat_plain_sums(planned):
    assert (planned.best.name, planned.best.accounting) == ("equal shares", "gaussian")
    half = next(split for split in planned.splits if split.name == "50% for the first")
    plain = next(split for split in planned.splits if split.accounting == "plain")
    assert half.groups[0].rmse < planned.best.groups[0].rmse < plain.groups[0].rmse
    assert half.groups[1].rmse > planned.best.groups[1].rmse


@pytest.mark.parametrize("text", ["0", "1+0", "+", "12 + 1", "1+2+3+4+5", "999999", "-3", "x"])
def test_numbers_of_releases_that_are_none(text):
    with pytest.raises(UsageError, match="how many releases"):
        release_groups(text)


def test_several_releases_are_planned_in_python(tmp_path, planned):
    study = pv.Study.parse(STUDY)
    found = pv.plan(study, 4000, releases="1+12", draws=16)
    assert found == planned
    first, *splits, best = repr(found).split("\n- ")
    assert first == f"BookPlan: {planned.total}, 4,000 trajectories in each release"
    told = [split.partition(" of ")[0] for split in splits]
    shares = [f"gaussian, {share}% for the first: 1" for share in (25, 50, 75)]
    assert told == ["gaussian, equal shares: 1", *shares, "plain, equal shares: 1"]
    for split, each in ((splits[0], "0.2531, delta 1e-06"), (splits[-1], "0.07692, delta 7.69")):
        assert f": 1 of epsilon {each}" in split
        assert f"; 12 of epsilon {each}" in split
        assert f", error {found.splits[splits.index(split)].rmse:.3g};" in split
    assert best == "best: equal shares, gaussian"
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6, unit="trajectory")
    (plain,) = pv.plan(study, 4000, releases=4, ledger=ledger, draws=8).splits
    assert (plain.accounting, plain.groups[0].epsilon) == ("plain", 0.25)
    for wrong, why in (
        ({"releases": 0}, "releases=0: it must be how many releases"),
        ({"releases": 4, "target_rmse": 0.1}, "leave out target_rmse"),
        ({"ledger": ledger}, "ledger is for releases"),
        ({"releases": 4, "ledger": 3.0}, "a ledger from privalue.open_ledger"),
    ):
        with pytest.raises(UsageError, match=why):
            pv.plan(study, 4000, **wrong)


def test_the_command_plans_what_a_book_has_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    plan = ["plan", "study.toml", "--trajectories", "4000", "--draws", "8", "--releases", "4"]
    assert run([*plan, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    squares, plain = told["splits"]
    assert told["best"] == 0
    (each,) = squares["releases"]
    assert (each["count"], each["share"]) == (4, 0.25)
    assert each["epsilon"] == pytest.approx(0.475231, rel=1e-4)
    assert plain["releases"][0]["epsilon"] == 0.25
    ledger = open_ledger("ledger.db")
    total = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
    ledger.declare("trial", **total, accounting="gaussian")
    whole = gaussian(1.0, 1e-6).alpha
    ledger.reserve(
        "trial",
        "a" * 64,
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        neighbours="replace-one",
        gaussian_alpha=whole * math.sqrt(2),
    ).charge()
    assert run([*plan, "--ledger", "ledger.db", "--json"]) == 0
    (split,) = json.loads(capsys.readouterr().out)["splits"]
    alpha = gaussian(split["releases"][0]["epsilon"], 1e-6).alpha
    assert alpha == pytest.approx(whole * math.sqrt(8), rel=1e-4)
    assert run([*plan, "--ledger", "ledger.db"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Best over all releases: equal shares" in said
    assert 'Split: what the ledger has left for "trial", mu 0.167' in said
    assert "│ delta" in said.replace("┃", "│")
    assert run([*plan[:6], "--releases", "0"]) == 2
    assert "--releases 0: it must be how many releases" in capsys.readouterr().err
    assert run(["plan", "study.toml", "--ledger", "ledger.db"]) == 2
    assert "ledger is for releases" in capsys.readouterr().err
    assert run([*plan, "--by-state"]) == 2
