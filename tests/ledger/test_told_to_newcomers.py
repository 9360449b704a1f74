"""What somebody reads who tries a ledger for the first time: ways out, amounts, what is left."""

import re

import pytest

import privalue as pv
from privalue.cli import run
from privalue.core import gaussian
from privalue.ledger import study_hash
from privalue.report import account_rows

TOTAL = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", "accounting": "gaussian"}
PEOPLE = [[(0, 0.5), (1, 1.0)]] * 6000
STUDY = """
[study]
dataset = "trial"
trajectories = 6000
[privacy]
epsilon = 0.475231
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 2
"""


def study(**keys):
    about = {"dataset": "trial", "trajectories": 6000, "unit": "trajectory"}
    return pv.Study(states=2, discount=0.9, returns=(0, 1), **{**about, **keys})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a study, its data, and a Gaussian book."""
    place = tmp_path_factory.mktemp("newcomer")
    (place / "study.toml").write_text(STUDY)
    rows = [f"{n},{t},{t},{(t + 1) / 2}" for n in range(6000) for t in range(2)]
    (place / "data.csv").write_text("\n".join(["trajectory,step,state,reward", *rows]))
    pv.open_ledger(place / "ledger.db").declare("trial", **TOTAL)
    return place


@pytest.fixture
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


# What was charged, and what is left


def test_a_release_says_what_it_charged_and_what_is_left(there, capsys):
    release = ["release", "study.toml", "--data", "data.csv", "--ledger", "ledger.db"]
    release += ["--no-report", "--json"]
    assert run([*release, "--out", "first"]) == 0
    said = capsys.readouterr().err
    assert "Charged mu 0.118" in said
    assert "(epsilon 0.475231 at delta 1e-6) to trial; left: 75%, mu 0.20" in said
    assert "further releases of this size: 3" in said
    assert run([*release, "--out", "second"]) == 0  # answered, and nothing was charged
    assert "Charged" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    """A book of two pools with a release in each, the last in the plain one."""
    ledger = pv.open_ledger(tmp_path_factory.mktemp("pools") / "ledger.db")
    ledger.declare("trial", **TOTAL, plain_epsilon=0.2, plain_delta=2e-7)
    first = spent(ledger, 1, epsilon=0.3, delta=1e-7, gaussian_alpha=gaussian(0.3, 1e-7).alpha)
    spent(ledger, 2, epsilon=0.1, delta=1e-7)
    return ledger, first


def spent(ledger, number, **asked):
    whom = {"unit": "trajectory", "neighbours": "replace-one"}
    found = ledger.reserve("trial", study_hash({"n": number}), **asked, **whom)
    found.charge()
    return found


def test_an_account_leads_with_what_is_left_of_each_pool(pools):
    account = pools[0].show("trial")
    (left, _), (further, number) = account_rows(account)[:2]
    assert (left, further) == ("left", "further releases of this size")
    rows = dict(account_rows(account))
    assert rows["left"].startswith("87% of mu², 50% of the plain pool: mu 0.17")
    assert number == "1 (plain pool); gaussian pool: 6 like its last"
    assert "come to more than the total" in rows["spent and left"]
    assert account.last_pool == "plain"


def test_amounts_are_readable_and_rounded_by_one_rule(pools):
    ledger, _ = pools
    account = ledger.show("trial")
    for each in (account, account.left, ledger.standing("trial")):
        assert "square=" not in repr(each)
        assert "mu 0.1" in repr(each)
    empty = pv.open_ledger(ledger.place).declare("empty", **TOTAL)
    assert str(empty.total) == str(empty.left)
    for amount in (account.total, account.spent, account.left):
        assert f"mu {amount.in_six_digits()['mu']:g} " in str(amount)


def test_a_refusal_says_what_fits_at_the_same_delta(pools):
    ledger, _ = pools
    asked = {"epsilon": 1.9, "delta": 1e-8, "gaussian_alpha": gaussian(1.9, 1e-8).alpha}
    with pytest.raises(pv.BudgetError, match="at your delta, 1e-8, epsilon up to") as refused:
        spent(ledger, 3, **asked)
    fits = float(re.search(r"epsilon up to (\S+) fits", str(refused.value))[1])
    asked = {"delta": 1e-8, "unit": "trajectory", "neighbours": "replace-one"}
    for epsilon, number in ((fits * 1.0001, 4), (fits, 5)):
        alpha = gaussian(epsilon, 1e-8).alpha
        asked |= {"epsilon": epsilon, "gaussian_alpha": alpha}
        if number == 4:
            with pytest.raises(pv.BudgetError, match="epsilon up to"):
                ledger.reserve("trial", study_hash({"n": 4}), **asked)
        else:
            with ledger.reserve("trial", study_hash({"n": 5}), **asked):
                pass  # it fits, and is given back


# Declarations


def test_a_declaration_that_differs_says_in_what(tmp_path):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    plain = {**TOTAL, "accounting": "plain"}
    ledger.declare("trial", **plain)
    with pytest.raises(pv.BudgetError, match=r"\(accounting: plain there, gaussian here\)"):
        ledger.declare("trial", **TOTAL)
    with pytest.raises(pv.BudgetError, match=r"\(the total: epsilon 1, .* there, epsilon 2, "):
        ledger.declare("trial", **{**plain, "epsilon": 2.0})
    told = ledger.declare("other", **TOTAL, plain_epsilon=0.1).notices
    assert any("its plain pool has delta 0" in line for line in told)


def test_a_move_that_a_release_without_a_mu_forbids_names_it(tmp_path):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **{**TOTAL, "accounting": "plain"})
    asked = study(epsilon=0.1, delta=1e-7, mechanism="dp-lsw")
    pv.release(asked, PEOPLE, ledger=ledger, accept_useless=True)
    why = r"the release of \d{4}-\d\d-\d\d by dp-lsw \(entry 3\) has no mu.*epsilon 0.1, delta 1e-7"
    with pytest.raises(pv.BudgetError, match=why) as refused:
        ledger.declare("trial", **TOTAL, replace=True, add_deltas=True)
    assert "release with dp-ssp" not in str(refused.value)
