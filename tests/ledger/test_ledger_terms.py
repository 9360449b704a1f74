"""Whom a total protects: what converts, at which cost, and what is refused.

The theorems are in docs/proofs/ledger-units.md, their twins in ``oracles/group_privacy.py``.
"""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import privalue as pv
from oracles import group_privacy
from oracles.studies import study
from privalue.cli._app import run
from privalue.core._calibration import gaussian
from privalue.errors import UsageError
from privalue.ledger import BudgetError, BudgetTerms, Cost, Protection, open_ledger, study_hash
from privalue.ledger import _terms as terms
from privalue.ledger._terms import over_steps
from privalue.report._spending import account_rows

EPSILON, DELTA = 10**12, 10**18  # units of 1


def protection(text):
    unit, neighbours = text.split()
    return Protection(unit=unit, neighbours=neighbours)


def steps(asked, declared, most=None):
    """How many, or None where it is refused."""
    try:
        return BudgetTerms(protection=protection(declared), trajectories_per_person=most).steps(
            protection(asked)
        )
    except BudgetError:
        return None


# The cost of k steps


@given(st.integers(1, 3 * EPSILON), st.integers(0, DELTA // 10), st.integers(1, 12))
def test_the_cost_is_the_literal_one_rounded_up_by_less_than_a_unit(epsilon, delta, count):
    cost = over_steps(Cost(epsilon=epsilon, delta=delta), count)
    with mp.workdps(100):
        exact = group_privacy.over_steps(mpf(epsilon) / EPSILON, mpf(delta), count)[1]
        assert cost.epsilon == count * epsilon
        assert min(exact, DELTA) <= cost.delta <= min(exact + 1, DELTA)


@given(st.integers(1, EPSILON // 2), st.integers(1, DELTA // 10**6), st.integers(2, 8))
def test_no_smaller_cost_would_do(epsilon, delta, count):
    """Distributions that keep every step's promise, and the whole path's with nothing to spare."""
    cost = over_steps(Cost(epsilon=epsilon, delta=delta), count)
    with mp.workdps(100):
        each, share = mpf(epsilon) / EPSILON, mpf(delta) / DELTA
        chain = group_privacy.worst_chain(each, share, count)
        for here, there in itertools.pairwise(chain):
            assert group_privacy.excess(here, there, each) <= share * (1 + mpf(10) ** -90)
        true = group_privacy.excess(chain[0], chain[-1], count * each)
        assert true <= mpf(cost.delta) / DELTA
        assert true > mpf(cost.delta - 1) / DELTA


MISTAKES = {
    "deltas are summed": lambda e, d, k: k * d,
    "one factor for all": lambda e, d, k: d * (1 + math.exp(e)),
    "the last factor is forgotten": lambda e, d, k: d * math.expm1((k - 1) * e) / math.expm1(e),
    "rounded down": lambda e, d, k: math.floor(d * math.expm1(k * e) / math.expm1(e)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_in_the_cost_are_caught(mistake, monkeypatch):
    def wrong(asked, count):
        delta = MISTAKES[mistake](asked.epsilon / EPSILON, asked.delta, count)
        return Cost(epsilon=count * asked.epsilon, delta=int(delta))

    monkeypatch.setitem(globals(), "over_steps", wrong)
    for check in (
        test_the_cost_is_the_literal_one_rounded_up_by_less_than_a_unit,
        test_no_smaller_cost_would_do,
    ):
        with pytest.raises(AssertionError):
            check()


def test_what_promises_nothing_has_a_delta_of_one():
    for asked, count in (
        (Cost(epsilon=EPSILON, delta=1), 43),
        (Cost(epsilon=10 * EPSILON, delta=1), 1_000_000),
        (Cost(epsilon=EPSILON, delta=DELTA // 2), 2),
    ):
        assert over_steps(asked, count).delta == DELTA
    almost = over_steps(Cost(epsilon=EPSILON, delta=1), 41)
    assert almost.delta < DELTA
    assert over_steps(Cost(epsilon=EPSILON, delta=0), 2000) == Cost(epsilon=2000 * EPSILON, delta=0)
    assert over_steps(Cost(epsilon=7, delta=3), 1) == Cost(epsilon=7, delta=3)


# How many steps


def apart(asked, declared, most):
    """The largest distance between neighbours, from every small data set; None: no way at all."""
    people = group_privacy.persons(3, most)
    wanted = protection(declared)
    pairs = group_privacy.neighbours(people, wanted.neighbours)
    if wanted.unit == "trajectory":
        pairs = group_privacy.neighbours([(kind,) for kind in range(3)], wanted.neighbours)
    found = [group_privacy.distance(a, b, protection(asked).neighbours) for a, b in pairs]
    return None if None in found else max(found)


CONVERTED = {  # asked, declared: steps with L
    ("trajectory replace-one", "trajectory replace-one"): lambda most: 1,
    ("trajectory add-remove", "trajectory add-remove"): lambda most: 1,
    ("trajectory add-remove", "trajectory replace-one"): lambda most: 2,
    ("trajectory replace-one", "trajectory add-remove"): lambda most: None,
    ("trajectory add-remove", "person add-remove"): lambda most: most,
    ("trajectory add-remove", "person replace-one"): lambda most: 2 * most,
    ("trajectory replace-one", "person replace-one"): lambda most: 1 if most == 1 else None,
    ("trajectory replace-one", "person add-remove"): lambda most: None,
}


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("pair", CONVERTED, ids=" -> ".join)
def test_the_steps_are_those_of_the_longest_way_between_small_neighbours(pair, most):
    asked, declared = pair
    given_most = most if declared.startswith("person") else None
    expected = CONVERTED[pair](most)
    assert steps(asked, declared, given_most) == expected
    assert apart(asked, declared, most) == expected


@pytest.mark.parametrize("most", [None, 1, 5])
def test_promises_to_persons(most):
    assert steps("person replace-one", "person replace-one", most) == 1
    assert steps("person add-remove", "person add-remove", most) == 1
    assert steps("person add-remove", "person replace-one", most) == 2
    assert steps("person replace-one", "person add-remove", most) is None
    for relation in ("replace-one", "add-remove"):
        assert steps(f"person {relation}", f"trajectory {relation}") is None


def test_without_somebodys_word_trajectories_are_no_persons():
    for asked in ("add-remove", "replace-one"):
        for declared in ("add-remove", "replace-one"):
            assert steps(f"trajectory {asked}", f"person {declared}") is None


# The sum means what it says


def spent_and_lost(folder, epsilon, delta):
    """A person-level and a trajectory-level release: what is on record, and what somebody with 200
    trajectories loses: the exact delta at the epsilon on record."""
    ledger = open_ledger(folder / "ledger.db")
    ledger.declare(
        "people",
        epsilon=1000.0,
        delta=0.999,
        unit="person",
        neighbours="add-remove",
        max_trajectories_per_person=200,
    )
    for number, unit in enumerate(("person", "trajectory")):
        ledger.reserve(
            "people",
            study_hash({"number": number}),
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            neighbours="add-remove",
        ).charge()
    spent = ledger.show("people").spent.units
    # Both are Gaussian: the sum is as one, whose shift is that of 1 and of 200 together.
    shift = math.hypot(1, 200) / gaussian(epsilon, delta).alpha
    return spent, group_privacy.gaussian_delta(mpf(spent.epsilon) / EPSILON, shift)


def test_what_is_spent_covers_the_exact_loss_of_two_gaussian_releases(tmp_path):
    spent, lost = spent_and_lost(tmp_path, 0.01, 1e-9)
    assert spent.epsilon == 201 * EPSILON // 100
    assert lost <= mpf(spent.delta) / DELTA
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(BudgetError, match="epsilon 200, delta 1; left"):  # it promises nothing
        spent_and_lost(other, 1.0, 1e-6)


def test_summing_unlike_units_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(BudgetTerms, "steps", lambda self, asked: 1)
    spent, lost = spent_and_lost(tmp_path, 1.0, 1e-6)
    assert (spent.epsilon, spent.delta) == (2 * EPSILON, 2 * DELTA // 10**6)
    assert lost > 0.999


def test_forgetting_the_factor_of_the_first_step_is_found_out():
    """(2 eps, 2 delta) for replacing is not what two Gaussian steps of add-remove give."""
    epsilon, delta = 1.0, 1e-3
    alpha = gaussian(epsilon, delta).alpha
    asked = Cost(epsilon=EPSILON, delta=DELTA // 1000)
    true = group_privacy.gaussian_delta(2 * epsilon, 2 / alpha)
    assert true <= mpf(over_steps(asked, 2).delta) / DELTA
    chain = group_privacy.worst_chain(epsilon, delta, 2)
    assert group_privacy.excess(chain[0], chain[2], 2 * epsilon) > 1.8 * 2 * delta


# On the ledger


@pytest.fixture
def ledger(tmp_path):
    kept = open_ledger(tmp_path / "ledger.db")
    kept.declare("people", epsilon=10.0, delta=1e-3, unit="person", max_trajectories_per_person=3)
    return kept


def ask(ledger, number, unit, neighbours, epsilon=0.5, delta=1e-7):
    return ledger.reserve(
        "people",
        study_hash({"number": number}),
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
    )


def test_conversions_are_charged_and_shown(ledger):
    ask(ledger, 1, "person", "replace-one").charge()
    ask(ledger, 2, "person", "add-remove").charge()
    ask(ledger, 3, "trajectory", "add-remove").charge()
    account = ledger.show("people")
    assert account.spent.units.epsilon == EPSILON * (1 + 2 + 6) // 2
    factors = 1 + (1 + math.exp(0.5)) + math.expm1(3.0) / math.expm1(0.5)
    assert account.spent.units.delta / 1e11 == pytest.approx(factors, rel=1e-11)
    told = json.loads(json.dumps(account.as_dict()))
    assert (told["unit"], told["neighbours"]) == ("person", "replace-one")
    assert (told["max_trajectories_per_person"], told["accounting"]) == (3, "plain")
    assert [entry["steps"] for entry in told["converted"]] == [2, 6]
    last = told["converted"][-1]
    assert last["asked"] == {"epsilon": 0.5, "delta": 1e-7}
    assert last["charged"]["epsilon"] == 3.0
    assert last["theorem"].startswith("group privacy")
    rows = [str(value) for what, value in account_rows(account) if what == "converted"]
    assert rows[0].startswith(
        "entry 5: epsilon 0.5, delta 1e-7 for one person, add-remove; charged as 2 steps, by group "
    )
    assert "epsilon 3, delta" in rows[1]
    assert str(dict(account_rows(account))["protects"]) == (
        "one person, replace-one, nobody with more than 3 trajectories"
    )
    ledger.verify()


@pytest.mark.parametrize(
    ("unit", "neighbours", "why"),
    [
        ("trajectory", "replace-one", "publishes the number of trajectories"),
    ],
)
def test_what_does_not_convert_is_refused_and_says_what_would(ledger, unit, neighbours, why):
    with pytest.raises(BudgetError, match=why) as refused:
        ask(ledger, 1, unit, neighbours)
    assert refused.value.exit_code == 4
    assert str(refused.value).startswith(
        'the release was refused, and nothing was charged: dataset "people": requested epsilon '
        "0.5, "
        "delta 1e-7 for one trajectory, replace-one; left "
    )
    assert "its total is for one person, replace-one" in str(refused.value)
    assert "release for persons, or with add-remove" in str(refused.value)
    assert ledger.show("people").reserved.units == terms.Cost(epsilon=0, delta=0)


def test_refusals_name_what_is_missing(tmp_path):
    kept = open_ledger(tmp_path / "ledger.db")
    for number, (declared, asked, why) in enumerate(
        [
            ("trajectory replace-one", "person replace-one", "declare the dataset for persons"),
            ("person add-remove", "person replace-one", "publishes how many there are"),
            ("person replace-one", "trajectory add-remove", "max_trajectories_per_person"),
        ]
    ):
        name, given_terms, wanted = f"d{number}", protection(declared), protection(asked)
        kept.declare(
            name,
            epsilon=9.0,
            delta=1e-3,
            unit=given_terms.unit,
            neighbours=given_terms.neighbours,
        )
        with pytest.raises(BudgetError, match=why):
            kept.reserve(
                name,
                study_hash({}),
                epsilon=1.0,
                delta=1e-6,
                unit=wanted.unit,
                neighbours=wanted.neighbours,
            )


def test_the_converted_cost_is_what_must_fit(ledger):
    with pytest.raises(BudgetError, match=r"requested epsilon 12, delta .*is charged as 6 steps"):
        ask(ledger, 1, "trajectory", "add-remove", epsilon=2.0)
    ask(ledger, 2, "trajectory", "add-remove", epsilon=1.5, delta=0.0)
    with pytest.raises(BudgetError, match=r"left epsilon 1, delta"):
        ask(ledger, 3, "person", "add-remove", epsilon=0.6)


def test_whom_a_total_protects_is_fixed_once_anything_is_used(ledger):
    other = {"epsilon": 20.0, "delta": 1e-3, "unit": "trajectory", "replace": True}
    assert ledger.declare("people", **other).terms.protection.unit == "trajectory"
    same = {**other, "unit": "person", "max_trajectories_per_person": 3}
    ledger.declare("people", **same)
    reservation = ask(ledger, 1, "trajectory", "add-remove")
    for changed in (
        other,
        {**same, "max_trajectories_per_person": 4},
        {**same, "neighbours": "add-remove"},
    ):
        with pytest.raises(BudgetError, match="what is used was counted so"):
            ledger.declare("people", **changed)
    assert ledger.declare("people", **{**same, "epsilon": 30.0}).total.epsilon == 30.0
    reservation.cancel("nothing came of it")
    ledger.declare("people", **{**same, "max_trajectories_per_person": 4})
    ledger.verify()


@pytest.mark.parametrize(
    ("given_terms", "why"),
    [
        ({"unit": "household"}, 'unit = .household.: it must be "trajectory" or "person"'),
        ({"unit": "person", "neighbours": "replace"}, 'must be "replace-one" or "add-remove"'),
        ({"unit": "trajectory", "max_trajectories_per_person": 2}, "whose unit is a person"),
        ({"unit": "person", "max_trajectories_per_person": 0}, "from 1 to 1000000"),
        ({"unit": "person", "max_trajectories_per_person": True}, "from 1 to 1000000"),
        ({"unit": "person", "max_trajectories_per_person": 2.0}, "from 1 to 1000000"),
        ({"unit": "person", "accounting": "renyi"}, 'must be "plain" .* or "gaussian"'),
    ],
)
def test_terms_that_are_none(tmp_path, given_terms, why):
    with pytest.raises(UsageError, match=why) as refused:
        open_ledger(tmp_path / "l.db").declare("people", epsilon=1.0, delta=1e-6, **given_terms)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "l.db").exists()


def test_mu_is_kept_exactly_and_only_for_gaussian_releases(tmp_path):
    """The reciprocal of the certified alpha, for an accounting that adds squares."""
    people = [[(0, 0.5), (1, 1.0)]] * 6000
    kept = open_ledger(tmp_path / "ledger.db")
    kept.declare("trial", epsilon=9.0, delta=1e-3, unit="trajectory")
    told = []
    for name in ("dp-ssp", "dp-lsw"):
        chosen = pv.Study(
            dataset="trial",
            epsilon=1.0,
            delta=1e-6,
            unit="trajectory",
            discount=0.9,
            rewards=(0.0, 1.0),
            returns=(0.0, 1.0),
            states=2,
            mechanism=name,
            calibration="exact",
        )
        told.append(pv.release(chosen, people, ledger=kept))
    with kept._store.read() as transaction:
        entries = [json.loads(body) for _, body, *_ in transaction.rows()]
    found = [entry["mu"] for entry in entries if entry["kind"] == "reserve"]
    assert found == [f"1/{told[0].noise.alpha!r}", "none"]
    for wrong in (-1.0, 0.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="mu = "):
            kept.reserve(
                "trial",
                study_hash({}),
                epsilon=1.0,
                delta=1e-6,
                unit="trajectory",
                neighbours="replace-one",
                gaussian_alpha=wrong,
            )


def test_a_study_for_other_people_than_the_total_is_refused_before_data_is_opened(tmp_path):
    kept = open_ledger(tmp_path / "ledger.db")
    kept.declare("trial", epsilon=9.0, delta=1e-3, unit="person")
    chosen = study(2, study={"dataset": "trial"})
    with pytest.raises(BudgetError, match="for one trajectory, replace-one; left"):
        pv.release(chosen, "no such file.csv", ledger=kept)


def test_the_command_asks_for_the_unit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    declare = ["ledger", "declare", "people", "--epsilon", "1", "--delta", "1e-6"]
    assert run(declare) == 2
    assert "--unit" in capsys.readouterr().err
    for unit in ("household", "Person"):
        assert run([*declare, "--unit", unit]) == 2
    assert run([*declare, "--unit", "person", "--accounting", "renyi"]) == 2
    person = [*declare, "--unit", "person", "--neighbours", "add-remove"]
    assert run([*person, "--max-trajectories-per-person", "7", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["unit"], told["neighbours"]) == ("person", "add-remove")
    assert told["max_trajectories_per_person"] == 7
    assert run(["ledger", "show", "people"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())  # a cell may wrap
    assert "nobody with more than 7" in shown
