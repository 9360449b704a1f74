"""Books of squares on a real ledger: releases, moves between accountings, what is told of them."""

import json
import math
import random
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from mpmath import mp, mpf

import privalue as pv
from oracles.accountings import IN_BOTH
from oracles.ledgers import DECLARED, open_ledger
from oracles.squares import composed_delta
from oracles.studies import in_sections
from privalue.cli import run
from privalue.core import gaussian
from privalue.errors import BudgetError, LedgerError, UsageError
from privalue.ledger import Cost, Reservation, study_hash
from privalue.ledger import open_ledger as real_ledger
from privalue.ledger._book import Book
from privalue.ledger._chain import canonical, sha256
from privalue.ledger._conversions import epsilon_spent
from privalue.ledger._evidence import fault
from privalue.ledger._squares import is_certified, square_cost
from privalue.ledger._terms import over_steps
from privalue.ledger._units import cost, mu
from privalue.report import account_rows
from privalue.report._registry import registry_entry
from privalue.report._spending import charge_words

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ALPHA = gaussian(1.0, 1e-6).alpha
PEOPLE = [[(0, 0.5), (1, 1.0)]] * 6000
TOTAL = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", "accounting": "gaussian"}
MOVE = {**TOTAL, "replace": True, "add_deltas": True}


def chosen(epsilon=0.3, name="dp-ssp", *, mechanism=None, **about):
    return in_sections(
        study={"dataset": "trial", **about},
        privacy={"epsilon": epsilon, "delta": 1e-7, "unit": "trajectory"},
        values={"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        states={"count": 2},
        mechanism={"name": name, **(mechanism or {})},
    )


def spend(ledger, number, alpha=None, epsilon=0.1, **more):
    asked = {"epsilon": epsilon, "delta": 1e-7, "gaussian_alpha": alpha, **more}
    found = ledger.reserve("trial", study_hash({"n": number}), **asked)
    found.charge()
    found.commit(f"the release {number}")
    return found


# Releases


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A book with two pools, and a release in each."""
    ledger = real_ledger(tmp_path_factory.mktemp("squares") / "ledger.db")
    ledger.declare("trial", **TOTAL, plain_epsilon=0.2, plain_delta=1e-7)
    squares = pv.release(chosen(), PEOPLE, ledger=ledger)
    with pytest.warns(pv.PrivalueWarning):
        plain = pv.release(chosen(0.1, "dp-lsw"), PEOPLE, ledger=ledger, accept_useless=True)
    return ledger, squares, plain


def test_a_release_costs_its_mu_squared_and_others_go_to_the_plain_pool(released):
    ledger, squares, plain = released
    account = ledger.show("trial")
    cost = square_cost(mu(squares.noise.alpha), 1)
    assert squares.gaussian_mu == 1 / squares.noise.alpha
    assert plain.gaussian_mu is None
    assert account.spent.units == Cost(epsilon=10**11, delta=10**11, square=cost)
    assert account.plain_sum.units == Cost(epsilon=4 * 10**11, delta=2 * 10**11)
    assert ledger.verify().seals == "none"  # its artefacts are checked, too


@pytest.mark.parametrize(
    ("epsilon", "delta", "told"),
    [
        (0.12345649, 1e-7, "(epsilon 0.123457 at delta 1e-7) to trial;"),
        (0.3, 1.2345641e-7, "(epsilon 0.3 at delta 1.23457e-7) to trial;"),
        (0.25, 1e-7, "(epsilon 0.25 at delta 1e-7) to trial;"),
    ],
)
def test_what_was_charged_is_told_rounded_up(released, epsilon, delta, told):
    ledger, squares, _ = released
    privacy = squares.privacy.model_copy(update={"epsilon": epsilon, "delta": delta})
    noise = squares.noise.model_copy(update={"alpha": gaussian(epsilon, delta).alpha})
    release = squares.model_copy(update={"privacy": privacy, "noise": noise})
    assert told in charge_words(release, ledger.standing("trial"))


def test_an_identical_request_is_answered(released):
    ledger, squares, _ = released
    before = ledger.show("trial").spent
    assert pv.release(chosen(), PEOPLE, ledger=ledger).to_json() == squares.to_json()
    assert ledger.show("trial").spent == before


def test_what_is_told_of_a_gaussian_book(released, capsys):
    ledger, *_ = released
    shown = " ".join(f"{name} {value}" for name, value in account_rows(ledger.show("trial")))
    for words in (
        "promises epsilon 1, delta 1e-6",
        "total mu 0.191373 (epsilon 0.8 at delta 9e-7); plain pool: epsilon 0.2, delta 1e-7",
        "spent mu 0.0685348 (epsilon 0.2667 at delta 9e-7); plain pool: epsilon 0.1, delta 1e-7",
        "further releases of this size 0 (plain pool); gaussian pool: 6 like its last",
        "plain sums would say spent epsilon 0.4, delta 2e-7",
        "left 87% of mu², 0% of the plain pool: mu 0.178681 (epsilon 0.743183 at delta 9e-7)",
    ):
        assert words in shown, shown
    assert run(["ledger", "show", "trial", "--ledger", ledger.place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"] == {"epsilon": 1.0, "delta": 1e-6, "mu": pytest.approx(0.191374, rel=1e-5)}
    assert told["spent"]["mu"] == pytest.approx(0.0685348, rel=1e-5)
    assert told["left"]["mu"] ** 2 + told["spent"]["mu"] ** 2 == pytest.approx(
        told["total"]["mu"] ** 2
    )
    assert told["left"]["epsilon"] == pytest.approx(0.743183 + 0.1, abs=1e-4)
    assert "mu²" in ledger.show("trial")._repr_html_()


def test_the_history_tells_a_total_as_the_account_does(released):
    """A total is rounded down, and what was used of it up, wherever they are told."""
    told = released[0].show("trial").as_dict()
    last = told["history"][-1]
    for name in ("total", "spent"):
        assert last[name]["mu"] == told[name]["mu"]


@IN_BOTH
def test_a_mu_that_machines_might_judge_differently_is_not_recorded(tmp_path, accounting):
    """One would count it, and another ignore it, and spend its amount again."""
    ledger = open_ledger(tmp_path / "ledger.db", accounting=accounting)
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    enough = gaussian(0.1, 1e-7).alpha
    least = enough * 0.99
    while math.nextafter(least, math.inf) < enough:
        middle = (least + enough) / 2
        certified = is_certified(mu(middle), 0.1, 1e-7)
        least, enough = (least, middle) if certified else (middle, enough)
    for alpha in (enough, enough * (1 + 1e-10)):
        with pytest.raises(UsageError, match="by less than a billionth"):
            spend(ledger, 1, alpha)
    assert ledger.show("trial").reserved.units == Cost()
    spend(ledger, 2, enough * (1 + 2e-9))


def test_each_pool_and_its_history_are_rounded_to_the_safe_side(tmp_path):
    """Also where a double has too few digits, or mu too few places."""
    ledger = open_ledger(tmp_path / "ledger.db", accounting="gaussian")
    pool = {"plain_epsilon": 1e5, "plain_delta": 1e-7}
    ledger.declare("trial", epsilon=1e5 + 1, delta=1e-6, **pool)
    spend(ledger, 1, gaussian(0.1, 1e-7).alpha)
    spend(ledger, 2, epsilon=1e-12, delta=0.0)
    told = ledger.show("trial").as_dict()
    assert told["plain_pool"]["left"]["epsilon"] < 1e5 == told["plain_pool"]["total"]["epsilon"]
    last = told["history"][-1]
    assert last["total"] == {"epsilon": 1e5, "delta": 1e-7, "mu": told["total"]["mu"]}
    assert last["spent"]["mu"] == told["spent"]["mu"]


def test_a_page_tells_squares(released, tmp_path):
    ledger, squares, _ = released
    pv.publish(squares, tmp_path, account=ledger.standing("trial"))
    page = (tmp_path / "report.html").read_text()
    assert "squares of mu add up" in page
    assert "Squares of mu add up. So what is spent and what is left" in page
    assert "0.191" in page
    entry = (tmp_path / "registry.yaml").read_text()
    assert "Gaussian accounting on a ledger" in entry


def test_the_registry_says_which_sum_a_release_is_in(released):
    """The pool that paid for it; and no more than is known where the ledger is not at hand."""
    ledger, squares, plain = released
    account = ledger.standing("trial")

    def told(release, account):
        entry = registry_entry(release, account=account)
        words = entry["deployment"]["accounting"]["composition"]
        return words, entry["privalue"]["composition"]["accounting"]

    words, accounting = told(squares, account)
    assert "ledger (Gaussian accounting: squares of mu add up, also" in words
    assert accounting == "Gaussian accounting on a ledger"
    words, accounting = told(plain, account)
    assert "ledger (basic composition: epsilons and deltas add up, in a pool of its own" in words
    assert accounting == "basic composition on a ledger, in the plain pool of a Gaussian total"
    words, accounting = told(squares, None)
    assert "epsilons and deltas add up; or Gaussian accounting" in words
    assert accounting.endswith("not at hand: basic composition or Gaussian accounting")
    words, accounting = told(plain, None)
    assert "ledger (basic composition: epsilons and deltas add up, also" in words
    assert accounting == "basic composition on a ledger"


def test_dp_lsw_is_refused_before_data_is_opened_and_told_what_to_do(tmp_path, capsys):
    ledger = real_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **TOTAL)
    for name in ("dp-lsw", "dp-lsl"):
        with pytest.raises(BudgetError, match="release with dp-ssp, or declare the dataset with"):
            pv.release(chosen(0.1, name), "no such file", ledger=ledger, accept_useless=True)
    assert ledger.show("trial").spent.units == Cost()


def test_dp_lsw_entering_by_its_alpha_is_found(tmp_path, monkeypatch):
    """Planted: the curator hands over an alpha for what has no mu."""
    ledger = real_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **TOTAL)
    monkeypatch.setattr("privalue.curator.gaussian_alpha", lambda _: 50.0)
    with pytest.warns(pv.PrivalueWarning):
        pv.release(chosen(0.1, "dp-lsw"), PEOPLE, ledger=ledger, accept_useless=True)
    with pytest.raises(LedgerError, match="less than the mu that was paid for"):
        ledger.verify()


def test_dp_lsw_that_stated_an_alpha_in_a_plain_book_does_not_move(tmp_path, monkeypatch):
    """Planted, as above: plain sums are right, and a move would count 1/alpha^2."""
    ledger = real_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6, unit="trajectory")
    monkeypatch.setattr("privalue.curator.gaussian_alpha", lambda _: 50.0)
    with pytest.warns(pv.PrivalueWarning):
        pv.release(chosen(0.1, "dp-lsw"), PEOPLE, ledger=ledger, accept_useless=True)
    with pytest.raises(BudgetError, match="the artefact of entry 3 is false: its noise is less"):
        ledger.declare("trial", **MOVE)
    assert not ledger.show("trial").gaussian


# (b) and (d): an artefact that took more than its mu is no release of its charge


def planted(release, **changes):
    """Its text, with other numbers."""
    return json.dumps({**json.loads(release.to_json()), **changes})


def held_of(ledger, release):
    """Its reservation."""
    with ledger._reading() as (book, transaction):
        (row,) = transaction.commits(study_hash(release.study))
        return ledger._recalled(book, transaction, json.loads(row[1])["reservation"])


def test_a_release_that_spent_more_than_its_mu_is_found(released):
    ledger, squares, _ = released
    held = held_of(ledger, squares)
    true = json.loads(squares.to_json())
    assert fault(squares.to_json(), held, strict=True) is None
    stage = true["stages"][0]
    for wrong in (
        {"noise": {**true["noise"], "alpha": true["noise"]["alpha"] * 0.9}},
        {"stages": [*true["stages"], stage]},  # one that is not charged
        {"mechanism": "dp-lsw"},
        {"stages": [{**stage, "alpha": 0.0}]},
        {"stages": None},
        {"mechanism": "dp-later"},  # one that nobody has proved anything of
        {"gaussian_mu": true["gaussian_mu"] * (1 - 1e-9)},
        {"gaussian_mu": None},
        {"gaussian_mu": math.nan},
        {"gaussian_mu": str(true["gaussian_mu"])},
        {"gaussian_mu": True},
    ):
        assert fault(planted(squares, **wrong), held, strict=True) is not None, wrong
    older = {name: v for name, v in true.items() if name not in {"stages", "gaussian_mu"}}
    assert fault(json.dumps(older), held, strict=True) is None
    older["stages"] = [*true["stages"], stage]  # checked where they are, with a mu or without
    assert fault(json.dumps(older), held, strict=True) is not None


def test_a_release_without_a_mu_states_none(released):
    ledger, _, plain = released
    held = held_of(ledger, plain)
    assert fault(plain.to_json(), held, strict=True) is None
    wrong = fault(planted(plain, gaussian_mu=0.1), held, strict=True)
    assert wrong == "it states a mu, and its mechanism has none"


@pytest.mark.parametrize("stages", ["one", ["bounds"]])
def test_every_stage_is_paid_for(stages):
    """Also one of which nothing came: what was drawn is in the sum, in exact rationals."""
    release = pv.release(chosen(1.0, mechanism={"stages": stages}), PEOPLE, seed=1)
    paid = sum(1 / Fraction(each.alpha) ** 2 for each in release.stages)
    assert paid <= 1 / Fraction(release.noise.alpha) ** 2
    assert {each.name for each in release.stages} >= {"values"} | set(stages) - set("one")


def test_a_stage_that_chose_nothing_costs_what_it_costs(tmp_path):
    """A rule that falls back, and a release without stages, pay the same."""
    ledger = real_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **TOTAL)
    spent = []
    for stages in ("one", ["bounds"]):
        release = pv.release(
            chosen(0.4, mechanism={"stages": stages}, period=str(stages)), PEOPLE, ledger=ledger
        )
        before = ledger.show("trial").spent
        spent.append(before)
        assert ledger.show("trial").releases[-1].units == Cost(
            square=square_cost(mu(release.noise.alpha), 1)
        )
    bounds = next(each for each in release.stages if each.name == "bounds")
    assert (bounds.chosen.low, bounds.chosen.high) == (0.0, 1.0)  # nothing came of it
    assert spent[1].units.square == 2 * spent[0].units.square


# (ε, δ) and mu are two prices of one release: the dearer one holds


def test_a_mu_beyond_its_promise_is_refused_by_a_gaussian_book(tmp_path):
    """It would cost little after a move to plain sums, and its artefact promise too much."""
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **{**TOTAL, "epsilon": 3.0})
    with pytest.raises(BudgetError, match=r"mu = 1/5\.0 is more than epsilon 0\.01, delta 1e-7"):
        spend(ledger, 1, 5.0, epsilon=0.01)
    spend(ledger, 2, gaussian(0.01, 1e-7).alpha, epsilon=0.01)


def test_a_mu_beyond_its_promise_does_not_move(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, 5.0, epsilon=0.5)  # (0.5, 1e-7) takes an alpha of 8.9
    with pytest.raises(BudgetError, match=r"entry 3 cannot be counted so: mu = 1/5\.0 is more"):
        ledger.declare("trial", **{**TOTAL, "epsilon": 3.0}, replace=True, add_deltas=True)


def test_an_artefact_whose_mu_is_beyond_its_promise_is_found(released):
    """Of a plain book, too, which does not count mu."""
    ledger, squares, _ = released
    held = held_of(ledger, squares)
    alpha = gaussian(2.0, 1e-7).alpha
    noise = {**json.loads(squares.to_json())["noise"], "alpha": alpha}
    text = planted(squares, noise=noise, gaussian_mu=1 / alpha, stages=[])
    wrong = fault(text, replace(held, mu=mu(alpha)), strict=True)
    assert wrong == "its mu is more than what it promises allows"


# Declaring


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"accounting": "plain", "plain_epsilon": 0.1}, "second pool beside a Gaussian one"),
        ({"plain_delta": 1e-7}, "needs a plain_epsilon"),
        ({"plain_epsilon": 1.0}, "leaves nothing"),
        ({"plain_epsilon": 0.1, "plain_delta": 1e-6}, "leaves nothing"),
        ({"delta": 0.0}, "leaves nothing"),
        ({"epsilon": 30.0}, "must be a number from 0.001 to 20"),
        ({"plain_epsilon": math.nan}, "epsilon = nan"),
    ],
)
def test_totals_that_are_none(tmp_path, wrong, why):
    with pytest.raises(UsageError, match=why):
        real_ledger(tmp_path / "l.db").declare("trial", **{**TOTAL, **wrong})
    assert not (tmp_path / "l.db").exists()


def test_the_command_declares_two_pools(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    declare = ["ledger", "declare", "trial", "--epsilon", "1", "--delta", "1e-6"]
    declare += ["--unit", "trajectory", "--json"]
    assert run([*declare, "--plain-epsilon", "0.5"]) == 2
    assert "plain_epsilon and plain_delta make a second pool" in capsys.readouterr().err
    pools = ["--plain-epsilon", "0.25", "--plain-delta", "1e-7"]
    assert run([*declare, "--accounting", "gaussian", *pools]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plain_pool"]["total"] == {"epsilon": 0.25, "delta": 1e-7}
    assert told["total"]["mu"] == pytest.approx(1 / gaussian(0.75, 9e-7).alpha)
    assert run([*declare, "--accounting", "gaussian", *pools]) == 0
    assert "its total stands" in capsys.readouterr().out
    assert run([*declare, "--accounting", "gaussian"]) == 4
    assert run([*declare, "--accounting", "gaussian", "--replace"]) == 0


# Moving to another accounting


def test_a_move_counts_everything_anew(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    alphas = [gaussian(0.1, 1e-7).alpha] * 8
    for number, alpha in enumerate(alphas):
        spend(ledger, number, alpha)
    with pytest.raises(BudgetError, match="replace=True changes it"):
        ledger.declare("trial", **TOTAL)
    with pytest.raises(BudgetError, match=r"would promise epsilon 1, delta 2e-6; add_deltas"):
        ledger.declare("trial", **TOTAL, replace=True)
    moved = ledger.declare("trial", **MOVE)
    assert moved.spent.units == Cost(square=8 * square_cost(mu(alphas[0]), 1))
    assert moved.like_the_last > 80  # plain sums had room for two
    assert "is counted anew" in moved.notices[0]
    spend(ledger, 9, ALPHA * 1.2, epsilon=1.0)
    assert ledger.verify().entries == ledger.show("trial").steps[-1].sequence
    assert ledger.reserve("trial", study_hash({"n": 3}), epsilon=0.1, delta=1e-7).artefact
    ledger.verify()


def test_what_a_move_promises_is_told_for_good(tmp_path, monkeypatch, capsys):
    """The deltas of both totals, of the largest that was in force: on every page, from then on."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 4)  # also from a snapshot
    ledger = real_ledger(tmp_path / "ledger.db")
    plain = {"delta": 1e-6, "unit": "trajectory", "replace": True}
    ledger.declare("trial", epsilon=5.0, **plain)  # nothing was used: nobody chose by it
    ledger.declare("trial", epsilon=1.0, **plain)
    pv.release(chosen(), PEOPLE, ledger=ledger)
    # Who lowers the total first, by looking, has the larger one all the same.
    ledger.declare("trial", epsilon=0.4, **{**plain, "delta": 2e-7})
    move = ["ledger", "declare", "trial", "--epsilon", "0.9", "--delta", "1e-7", "--unit"]
    move += ["trajectory", "--accounting", "gaussian", "--replace", "--ledger", ledger.place]
    assert run(move) == 4
    assert "would promise epsilon 1, delta 1.1e-6; add_deltas=True" in capsys.readouterr().err
    assert run([*move, "--add-deltas"]) == 0
    both, words = {"epsilon": 1.0, "delta": 1.1e-6}, "promise epsilon 1, delta 1.1e-6"
    for _ in range(2):
        account = ledger.show("trial")
        assert account.as_dict()["promise"] == both
        assert account.as_dict()["before_the_move"] == {"epsilon": 1.0, "delta": 1e-6}
        assert (account.total.epsilon, account.total.delta) == (0.9, 1e-7)
        assert any(words in notice for notice in account.notices)
        assert not any("plain pool" in notice for notice in account.notices)
        standing = ledger.standing("trial")  # it begins at a snapshot
        assert standing.promise.as_dict() == both
        said = []
        release = pv.release(chosen(period="again"), PEOPLE, ledger=ledger, say=said.append)
        assert any(words in line for line in said)
    assert dict(account_rows(account))["promises"].startswith(
        "epsilon 1, delta 1.1e-6 (the delta of the plain"
    )
    promised = re.search("promises</th><td>(.*?)</td>", account._repr_html_())
    assert promised[1] == "epsilon 1, delta 1.1e-6"
    pv.publish(release, tmp_path / "out", account=standing)
    assert words in (tmp_path / "out" / "report.html").read_text()
    entry = registry_entry(release, account=standing)
    assert entry["privalue"]["composition"]["dataset_promise"] == both
    ledger.verify()


def test_a_page_of_a_release_from_before_it_stated_its_mu(released, tmp_path):
    """On a book without a plain pool, as after a move: it counts by the alpha that it states."""
    ledger = real_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **TOTAL)
    _, squares, _ = released
    older = squares.model_copy(update={"gaussian_mu": None, "stages": None})
    pages = []
    for number, release in enumerate((squares, older)):
        pv.publish(release, tmp_path / str(number), account=ledger.standing("trial"))
        pages.append((tmp_path / str(number) / "report.html").read_text())
    fits = [re.findall("Further releases of this size: .*", page) for page in pages]
    assert fits[0] == fits[1] != []


def test_a_move_that_hides_the_total_before_it_is_found(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, 42.0)
    ledger.declare("trial", epsilon=0.5, delta=2e-7, replace=True)
    ledger.declare("trial", **MOVE)
    with ledger._store.read() as transaction:
        *rows, last = transaction.rows()
    assert json.loads(last[1])["before"] == [10**12, 10**12]
    for before in ([0, 0], [5 * 10**11, 2 * 10**11], [10**12, 0]):
        body = canonical({**json.loads(last[1]), "before": before})
        with pytest.raises(LedgerError, match="is a false move"):
            Book().replay([*rows, (last[0], body, sha256(body), "-")])


def test_squares_and_their_split_stay_once_something_is_used(tmp_path):
    """One choice by what a release showed, between two totals, nearly doubles delta."""
    ledger = open_ledger(tmp_path / "ledger.db")
    plain, split = {"plain_epsilon": 0.2, "plain_delta": 1e-7}, {**TOTAL, "replace": True}
    ledger.declare("trial", epsilon=1.0, delta=1e-6, accounting="plain")
    ledger.declare("trial", **split)  # nothing is used: everything can change
    ledger.declare("trial", epsilon=1.0, delta=1e-6, replace=True)
    ledger.declare("trial", **split, **plain)
    spend(ledger, 1, 3 * ALPHA, epsilon=1.0, delta=1e-6)
    before = ledger.show("trial")
    for total in ({}, {"epsilon": 3.0}):
        with pytest.raises(BudgetError, match='keep accounting="gaussian"'):
            ledger.declare("trial", **{**split, **total, "accounting": "plain"})
        for pool in (
            {},
            {**plain, "plain_epsilon": 0.3},
            {**plain, "plain_delta": 2e-7},
            {"plain_epsilon": 0.1},
        ):
            with pytest.raises(BudgetError, match="give the plain_epsilon and plain_delta that it"):
                ledger.declare("trial", **{**split, **total, **pool})
    assert ledger.show("trial").steps == before.steps
    # The promise itself may be raised and lowered, as that of a plain book: one pool changes.
    more = ledger.declare("trial", **{**split, **plain, "epsilon": 2.0})
    assert more.total.units.square > before.total.units.square
    assert ledger.declare("trial", **split, **plain).total == before.total
    ledger.verify()


@IN_BOTH
def test_a_total_that_was_lowered_says_what_it_was(tmp_path, accounting):
    """Who lowers it by looking promises no less: in other courses of events it was the larger."""
    ledger = open_ledger(tmp_path / "ledger.db", accounting=accounting)
    total = {"delta": 1e-6, "replace": True}
    ledger.declare("trial", epsilon=5.0, **total)
    assert not ledger.declare("trial", epsilon=2.0, **total).notices  # nothing was used
    spend(ledger, 1, gaussian(0.1, 1e-7).alpha)
    assert not ledger.declare("trial", epsilon=3.0, **total).notices
    (line,) = ledger.declare("trial", epsilon=1.0, **{**total, "delta": 2e-6}).notices
    assert "was lowered after releases were made, from up to epsilon 3, delta 2e-6" in line
    lowered = ledger.show("trial")
    assert lowered.notices == (line,)
    assert dict(account_rows(lowered))["promises"] == "epsilon 3, delta 2e-6"
    assert "promises</th><td>epsilon 3, delta 2e-6</td>" in lowered._repr_html_()
    assert not ledger.declare("trial", epsilon=3.0, **{**total, "delta": 2e-6}).notices


@IN_BOTH
def test_pages_promise_no_less_after_a_total_was_lowered(tmp_path, monkeypatch, accounting):
    """The page and the registry begin at a snapshot, which holds the total in force alone."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 4)
    ledger = real_ledger(tmp_path / "ledger.db")
    total = {"unit": "trajectory", "accounting": accounting, "replace": True}
    ledger.declare("trial", epsilon=9.0, delta=1e-4, **total)  # nothing is used: it counts for none
    ledger.declare("trial", epsilon=5.0, delta=1e-5, **total)
    release = pv.release(chosen(), PEOPLE, ledger=ledger)
    before = ledger.standing("trial")
    assert before.promise.as_dict() == {"epsilon": 5.0, "delta": 1e-5}
    assert before.lowered_from is None
    ledger.declare("trial", epsilon=0.4, delta=1e-6, **total)
    for number in range(3):
        reserve(ledger, number).cancel("never begun")
    for standing in (ledger.standing("trial", head=release.ledger_head), ledger.show("trial")):
        assert standing.promise.as_dict() == {"epsilon": 5.0, "delta": 1e-5}
        assert (standing.total.epsilon, standing.total.delta) == (0.4, 1e-6)
        pv.publish(release, tmp_path / type(standing).__name__, account=standing)
        page = (tmp_path / type(standing).__name__ / "report.html").read_text()
        assert "from up to epsilon 5, delta 1e-5, and what they showed may have led" in page
        assert "all of them together promise epsilon 5, delta 1e-5, and not less" in page
        assert "the total is what is promised" not in page
        entry = registry_entry(release, account=standing)
        assert entry["privalue"]["composition"]["dataset_promise"] == standing.promise.as_dict()
    ledger.declare("trial", epsilon=5.0, delta=1e-5, **total)
    assert ledger.standing("trial").lowered_from is None
    ledger.verify()


def reserve(ledger, number):
    asked = {"epsilon": 0.01, "delta": 1e-9, "unit": "trajectory", "neighbours": "replace-one"}
    return ledger.reserve("trial", study_hash({"n": number}), gaussian_alpha=1e4, **asked)


def test_a_total_that_was_lowered_after_a_move_adds_its_largest_delta(tmp_path, monkeypatch):
    """The plain total before the move, and the largest of those after it: not that in force."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 4)
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, gaussian(0.1, 1e-7).alpha)
    ledger.declare("trial", **{**MOVE, "epsilon": 0.9, "delta": 1e-7})
    ledger.declare("trial", **{**MOVE, "epsilon": 2.0, "delta": 5e-7})
    account = ledger.declare("trial", **{**MOVE, "epsilon": 0.9, "delta": 1e-7})
    for standing in (account, ledger.standing("trial")):
        assert standing.promise.as_dict() == {"epsilon": 2.0, "delta": 1.5e-6}
        assert standing.lowered_from.as_dict() == {"epsilon": 2.0, "delta": 5e-7}
    moved, lowered = account.notices
    assert "promise epsilon 2, delta 1.5e-6: the total of epsilon 2, delta 5e-7, and" in moved
    assert "from up to epsilon 2, delta 5e-7" in lowered
    assert "together promise epsilon 2, delta 1.5e-6, and not less" in lowered
    for number in (2, 3):  # what comes after a snapshot is told the same
        under_way = reserve(ledger, number)
        assert under_way.notices[-1] == moved
        under_way.cancel("never begun")
    ledger.verify()


def test_a_move_back_that_somebody_wrote_is_ignored():
    book, _ = began(4)
    pools = {"mu": mu(ALPHA), "plain_epsilon": 0, "plain_delta": 0}
    total = {**DECLARED, "dataset": "trial", "epsilon": 10**12, "delta": 10**12, **pools}
    stated = {"spent": [0, 0, 0], "before": [10**12, 10**12]}
    book.write("move", NOW, **{**total, "accounting": "gaussian"}, **stated)
    for accounting in ("plain", "gaussian"):
        with pytest.raises(UsageError, match="from plain sums to squares"):
            book.write("move", NOW, **{**total, "accounting": accounting}, **stated)


def test_what_has_no_mu_moves_to_a_plain_pool_only(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, gaussian(0.1, 1e-7).alpha)
    spend(ledger, 2)  # as dp-lsw: it has an alpha, and no mu
    with pytest.raises(BudgetError, match=r"\(entry 6\) has no mu.* 1e-7 so far"):
        ledger.declare("trial", **MOVE)
    with pytest.raises(BudgetError, match="cannot be below what is used"):
        ledger.declare("trial", **MOVE, plain_epsilon=0.05, plain_delta=1e-7)
    pool = {"plain_epsilon": 0.1, "plain_delta": 1e-7}
    # (iii) of the proof takes a pool that was fixed in advance.
    fixed = "that holds if releases did not lead to the size of its plain pool"
    with pytest.raises(BudgetError, match=f"would promise epsilon 1, delta 2e-6; {fixed}; add_de"):
        ledger.declare("trial", **{**MOVE, "add_deltas": False}, **pool)
    moved = ledger.declare("trial", **MOVE, **pool)
    assert moved.left.units.parts[:2] == (0, 0)
    assert any(fixed in line for line in moved.notices)
    ledger.verify()


def test_nothing_moves_while_a_release_is_in_progress_or_for_other_people(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, 42.0)
    found = ledger.reserve("trial", study_hash({}), epsilon=0.1, delta=1e-7, gaussian_alpha=42.0)
    with pytest.raises(BudgetError, match="a release is in progress"):
        ledger.declare("trial", **MOVE)
    found.cancel("given up")
    with pytest.raises(BudgetError, match="only the accounting can change"):
        ledger.declare("trial", **{**MOVE, "unit": "person"})
    ledger.declare("trial", **MOVE)


def test_who_moves_after_a_snapshot_counts_from_the_first_entry(tmp_path, monkeypatch):
    """The releases before a snapshot are not in it; the move has them all the same."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 4)
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    for number in range(4):
        spend(ledger, number, 42.0 + number)
    left = ledger.reserve("trial", study_hash({}), epsilon=0.1, delta=1e-7, gaussian_alpha=50.0)
    left.charge()  # and is never committed
    moved = ledger.declare("trial", **MOVE)
    costs = [square_cost(mu(alpha), 1) for alpha in (42.0, 43.0, 44.0, 45.0, 50.0)]
    assert moved.spent.units == Cost(square=sum(costs))
    for number in range(5, 9):
        spend(ledger, number, 60.0)
    left.commit("late")
    ledger.verify()


def test_what_comes_between_a_count_and_its_move_is_in_it(tmp_path, monkeypatch):
    """A release, and a total that was raised and lowered, by another keeper."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 4)
    ledger, other = (open_ledger(tmp_path / "ledger.db") for _ in range(2))
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, 42.0)
    moving = ledger._moving

    def slow(dataset):
        whole = moving(dataset)
        spend(other, 2, 43.0)
        other.declare("trial", epsilon=2.0, delta=3e-6, replace=True)
        other.declare("trial", epsilon=1.0, delta=1e-6, replace=True)
        return whole

    monkeypatch.setattr(ledger, "_moving", slow)
    moved = ledger.declare("trial", **MOVE)
    assert moved.spent.units.square == sum(square_cost(mu(each), 1) for each in (42.0, 43.0))
    assert moved.promise.as_dict() == {"epsilon": 2.0, "delta": 4e-6}
    ledger.verify()


@pytest.mark.parametrize("spent", [[0, 0, 0], [1, 0, 0], [0, 0, -1], [0, 0], ["0", 0, 0]])
def test_a_false_move_is_found(tmp_path, spent):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    spend(ledger, 1, 42.0)
    ledger.declare("trial", **MOVE)
    with ledger._store.read() as transaction:
        rows = list(transaction.rows())
    assert json.loads(rows[-1][1])["kind"] == "move"
    body = canonical({**json.loads(rows[-1][1]), "spent": spent})
    false = [*rows[:-1], (rows[-1][0], body, sha256(body), "-")]
    if len(spent) == 3 and all(isinstance(n, int) and n >= 0 for n in spent):
        with pytest.raises(LedgerError, match="is a false move"):
            Book().replay(false)
    else:  # no amount at all: the row is ignored, and the total is what it was
        book = Book().replay(false)
        assert list(book.ignored) == [rows[-1][0]]
        assert book.balances["trial"].terms.accounting == "plain"


# Against another accountant


@pytest.mark.parametrize(
    ("alphas", "delta"),
    [([4.2246789] * 3, 1e-5), ([30.0] * 10 + [12.0] * 4, 1e-6), ([9.0, 17.0, 80.0], 1e-9)],
)
def test_squares_lie_between_the_bounds_of_dp_accounting(alphas, delta):
    """Of a sequence that is fixed in advance; 2e-5 is for our six digits, rounded up."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting.pld import privacy_loss_distribution as pld

    def composed(pessimistic):
        parts = [
            pld.from_gaussian_mechanism(
                alpha, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
            ).self_compose(alphas.count(alpha))
            for alpha in dict.fromkeys(alphas)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.compose(part)
        return whole.get_epsilon_for_delta(delta)

    ours = epsilon_spent(sum(square_cost(mu(alpha), 1) for alpha in alphas), delta)
    assert composed(False) <= ours <= composed(True) * (1 + 2e-5)


# Ledgers that were written before there were squares


def test_an_older_ledger_is_read_and_verified():
    """Rows as the version before wrote them, with snapshots and a release that nobody finished."""
    rows = [tuple(row) for row in json.loads(Path(__file__).with_name("format-3.json").read_text())]
    whole = Book().replay(rows)
    assert not whole.ignored
    balance = whole.balances["people"]
    assert (balance.terms.accounting, balance.promise) == ("plain", balance.total)
    assert balance.spent == Cost(epsilon=4 * 10**11, delta=5 * 10**11)
    assert balance.reserved == Cost(epsilon=5 * 10**10, delta=10**11)
    for row in rows:  # a reader that begins at any of its snapshots finds the same
        if json.loads(row[1])["kind"] == "snapshot":
            recent = Book()
            recent.begin_with(rows[0])
            assert recent.rest_at(row)
            recent.replay(rows[row[0] :])
            assert recent.state() == whole.state()
    (open_one,) = [held for held in whole.pending.values() if held.status == "reserved"]
    for book in (whole, recent):
        book.write("cancel", NOW, reservation=open_one.sequence, reason="gone")
        assert book.balances["people"].reserved == Cost()


def began(format_, *, sealed=False):
    """The rows of a plain ledger that a version of this format began."""
    book, squares = Book(), {"squares": True} if format_ > 3 else {}
    rows = [book.write("begin", NOW, format=format_, sealed=sealed, **squares)]
    plain = {**DECLARED, "dataset": "trial", "epsilon": 10**12, "delta": 10**12}
    rows.append(book.write("declare", NOW, **plain))
    return book, rows


def test_a_version_that_knows_no_squares_stops_at_the_first_entry(tmp_path):
    """Also where it begins at a snapshot: the words of that entry are not those of format 3."""
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    with ledger._store.read() as transaction:
        begin = json.loads(transaction.row(1)[1])
    assert begin["format"] == 4
    before = {"sequence", "previous", "at", "kind", "salt", "format", "sealed"}
    assert begin.keys() - before == {"squares"}  # so that it is no entry to that version


def test_a_ledger_of_the_format_before_has_plain_totals_alone(tmp_path):
    """There a Gaussian total, or a move to one, would be ignored by versions that read it."""
    ledger = open_ledger(tmp_path / "ledger.db")
    _, rows = began(3)
    ledger._store.create(rows[0])
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    for number in range(30):  # beyond a snapshot
        spend(ledger, number, gaussian(0.01, 1e-8).alpha, epsilon=0.01, delta=1e-8)
    for dataset in ("trial", "other"):
        with pytest.raises(BudgetError, match="declare the dataset in a new ledger"):
            ledger.declare(dataset, **TOTAL, replace=True)
    assert ledger.show("trial").spent.units == Cost(epsilon=3 * 10**11, delta=3 * 10**11)
    assert ledger.verify().entries > 90


def test_squares_in_a_ledger_of_the_format_before_stop_everybody():
    book, rows = began(4)
    gaussian_total = {**DECLARED, "dataset": "other", "epsilon": 10**12, "delta": 10**12}
    pools = {"mu": mu(ALPHA), "plain_epsilon": 0, "plain_delta": 0}
    book.write("declare", NOW, **{**gaussian_total, "accounting": "gaussian", **pools})
    state = book.state()
    older, _ = began(3)
    for kind, own in (
        ("declare", {**gaussian_total, "accounting": "gaussian", **pools}),
        ("move", {**gaussian_total, "dataset": "trial", "accounting": "gaussian", **pools}),
    ):
        stated = {"spent": [0, 0, 0], "before": [0, 0]} if kind == "move" else {}
        with pytest.raises(LedgerError, match="entry 3 has a Gaussian total"):
            older.write(kind, NOW, **own, **stated)
    body = canonical(
        {
            **{"sequence": 3, "previous": rows[-1][2], "at": "2026-01-02T00:00:00Z"},
            **{"kind": "snapshot", "salt": "a" * 64, "state": state},
        }
    )
    later = Book()
    later.begin_with(rows[0])
    assert later.rest_at((3, body, sha256(body), "-"))
    older = Book()
    older.begin_with(began(3)[1][0])
    with pytest.raises(LedgerError, match="entry 3 has a Gaussian total"):
        older.rest_at((3, body, sha256(body), "-"))


def test_a_ledger_of_a_later_format_stops_everybody():
    _, rows = began(4)
    body = canonical({**json.loads(rows[0][1]), "format": 5})
    for reads in (lambda row: Book().replay([row]), lambda row: Book().begin_with(row)):
        with pytest.raises(LedgerError, match="a later format"):
            reads((1, body, sha256(body), "-"))


def test_a_first_entry_whose_format_is_no_number_is_damage():
    body = canonical({**json.loads(began(4)[1][0][1]), "format": []})
    with pytest.raises(LedgerError, match="entry 1 breaks the rules"):
        Book().replay([(1, body, sha256(body), "-")])


def test_a_plain_book_has_no_word_of_pools(tmp_path):
    """What a snapshot says of it is what the format before said."""
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=1.0, delta=1e-6)
    assert isinstance(ledger.reserve("trial", study_hash({}), epsilon=0.1, delta=0.0), Reservation)
    with ledger._store.read() as transaction:
        text = "".join(body for _, body, *_ in transaction.rows())
    with ledger._reading() as (book, _):
        state = json.dumps(book.state())
    assert "plain_epsilon" not in text
    assert "promise" not in state
    assert "cost" not in state


# Everything at once, by two clients, against sums of Fractions


POOL = {"plain_epsilon": 0.4, "plain_delta": 4e-7}


class Use:
    """Requests of every kind, ended in every way, and what was charged for them."""

    def __init__(self, clients, seed):
        self.clients, self.chance = clients, random.Random(seed)
        self.waiting, self.charged, self.refused = [], [], 0

    def ask(self, number):
        """By a mu, without one; for the total's own relation, or another."""
        asked = {"epsilon": self.chance.choice([0.01, 0.03, 0.1]), "delta": 1e-8}
        alpha = gaussian(**asked).alpha * self.chance.choice([1.0, 1.0, 1.3])
        way = self.chance.choice(["mu", "mu", "mu", "none", "pure"])
        other = self.chance.random() < 0.2  # counted as two steps
        asked |= {"gaussian_alpha": alpha} if way == "mu" else {}
        asked |= {"delta": 0.0} if way == "pure" else {}
        asked |= {"neighbours": "add-remove"} if other else {}
        ledger = self.chance.choice(self.clients)
        try:
            found = ledger.reserve("trial", study_hash({"n": number}), **asked)
        except BudgetError:
            self.refused += 1
            return
        by_mu = alpha if way == "mu" else None
        paid = cost("trial", asked["epsilon"], asked["delta"])
        self.waiting.append((found, (by_mu, 2 if other else 1, paid)))

    def end(self):
        """One of those that wait: charged, cancelled, or settled, after which it may not go on."""
        found, paid = self.waiting.pop(self.chance.randrange(len(self.waiting)))
        way = self.chance.random()
        if way < 0.2:
            found.cancel("given up")
        elif way < 0.3:
            self.clients[0].settle(found.sequence, charge=False, reason="gone")
            with pytest.raises(BudgetError):
                found.charge()
        else:
            found.charge()
            self.charged.append(paid)


@pytest.mark.parametrize("releases", [50, pytest.param(400, marks=pytest.mark.long)])
def test_whatever_two_clients_do_no_pool_is_exceeded(tmp_path, monkeypatch, releases):
    """Interleaved, and beside them a move, and totals that are raised and lowered."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", 7)
    clients = [open_ledger(tmp_path / "ledger.db") for _ in range(2)]
    clients[0].declare("trial", epsilon=1.0, delta=1e-6)
    use = Use(clients, releases)
    for number in range(releases):
        if number == 8:
            while use.waiting:  # nothing moves before
                use.end()
            clients[1].declare("trial", **MOVE, **POOL)
        if number % 20 == 19:
            total = {**TOTAL, "epsilon": use.chance.choice([1.0, 1.1, 1.2]), "replace": True}
            with suppress(BudgetError):  # below what is used
                clients[0].declare("trial", **total, **POOL)
        use.ask(number)
        while len(use.waiting) > use.chance.randrange(1, 5):
            use.end()
    account = clients[0].show("trial")
    squares = sum(Fraction(k) ** 2 / Fraction(alpha) ** 2 for alpha, k, _ in use.charged if alpha)
    plain = [over_steps(asked, k) for alpha, k, asked in use.charged if not alpha]
    assert use.refused
    assert 0 <= account.spent.units.square - squares * 10**24 < len(use.charged)
    assert account.spent.units.parts[:2] == sum(plain, start=Cost()).parts[:2]
    assert (account.spent.units + account.reserved.units).within(account.total.units)
    rest = account.total.telling.rest.as_dict()
    with mp.workdps(60):
        mus = [mp.sqrt(mpf(account.total.units.square) / 10**24)]
        assert composed_delta(rest["epsilon"], mus) <= rest["delta"]
    assert clients[1].standing("trial").spent == account.spent
    clients[1].verify()
