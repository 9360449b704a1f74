"""Units, rules, refusals and what people see; the places that keep a ledger are in conformance."""

import json
import sqlite3
import sys
import threading
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.ledgers import DECLARED, RESERVED, open_ledger
from privalue import _patience
from privalue.errors import MissingComponentError, PrivalueError, UsageError
from privalue.ledger import (
    BudgetError,
    Cost,
    LedgerError,
    Reservation,
    UnavailableError,
    study_hash,
)
from privalue.ledger import _units as units
from privalue.ledger._book import Book
from privalue.report import _spending as spending

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STUDY = study_hash({"study": 1})
EPSILONS = st.floats(1e-3, 20)
DELTAS = st.floats(1e-15, 0.5)


@pytest.fixture
def ledger(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db", clock=lambda: NOW)
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    return ledger


def spend(ledger, number, epsilon=0.1, delta=1e-7):
    request = study_hash({"number": number})
    with ledger.reserve("people", request, epsilon=epsilon, delta=delta) as reservation:
        reservation.commit(f'{{"ledger": "{reservation.charge()}"}}')


# Units


@given(epsilon=EPSILONS, delta=DELTAS)
def test_costs_are_rounded_up_and_totals_down_by_less_than_a_unit(epsilon, delta):
    up, down = units.cost("d", epsilon, delta), units.total("d", epsilon, delta)
    for part, value, unit in (("epsilon", epsilon, 10**12), ("delta", delta, 10**18)):
        exact = Fraction(repr(value)) * unit
        assert exact <= getattr(up, part) < exact + 1
        assert exact - 1 < getattr(down, part) <= exact
        assert getattr(up, part) <= float(exact) * 1.0011  # precise enough for the smallest


@given(epsilon=EPSILONS, delta=DELTAS)
def test_what_a_double_hides_is_less_than_calibration_leaves(epsilon, delta):
    """The mechanism runs at the double, the ledger counts its decimal: 2^-53 apart."""
    counted = units.cost("d", epsilon, delta)
    assert Fraction(epsilon) <= Fraction(counted.epsilon, 10**12) * (1 + Fraction(1, 2**53))
    assert Fraction(delta) <= Fraction(counted.delta, 10**18) * (1 + Fraction(1, 2**53))


@given(epsilon=EPSILONS, delta=DELTAS)
def test_a_total_of_one_release_holds_that_release_where_the_unit_does(epsilon, delta):
    epsilon, delta = round(epsilon, 12), round(delta, 18)
    assert units.cost("d", epsilon, delta) == units.total("d", epsilon, delta)


def test_sums_fit_a_64_bit_integer():
    assert units.MOST_EPSILON * 10**units.EPSILON_DIGITS < 2**63
    assert 10**units.DELTA_DIGITS < 2**63


@pytest.mark.parametrize(
    "epsilon",
    [0, -0.0, -1, float("nan"), float("inf"), -float("inf"), 1e7, 10**400, True, "1", None, 1j],
)
@pytest.mark.parametrize("amount", [units.cost, units.total])
def test_an_epsilon_that_is_none(epsilon, amount):
    with pytest.raises(UsageError, match=r'dataset "d": epsilon = .* is not a number from 1e-12'):
        amount("d", epsilon, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, float("nan"), float("inf"), False, "0", None])
@pytest.mark.parametrize("amount", [units.cost, units.total])
def test_a_delta_that_is_none(delta, amount):
    with pytest.raises(UsageError, match=r'dataset "d": delta = .* is neither 0 nor a number'):
        amount("d", 1.0, delta)


def test_what_is_smaller_than_a_unit_costs_one_and_is_no_total():
    assert units.cost("d", 1e-15, 1e-300) == Cost(epsilon=1, delta=1)
    with pytest.raises(UsageError, match="epsilon = 1e-15"):
        units.total("d", 1e-15, 0)
    with pytest.raises(UsageError, match="delta = 1e-300"):
        units.total("d", 1.0, 1e-300)


def test_numbers_are_shown_as_people_write_them():
    shown = {
        (1.0, 1e-6): "epsilon 1, delta 1e-6",
        (0.1, 0.05): "epsilon 0.1, delta 0.05",
        (20, 0): "epsilon 20, delta 0",
        (1e-12, 2.5e-10): "epsilon 0.000000000001, delta 2.5e-10",
        (123456.5, 0.0001): "epsilon 123456.5, delta 1e-4",
    }
    for (epsilon, delta), text in shown.items():
        assert str(units.cost("d", epsilon, delta)) == text
    assert units.cost("d", 0.3, 1e-7).as_dict() == {"epsilon": 0.3, "delta": 1e-7}


def thirds_fit():
    """0.1 + 0.1 + 0.1 is 0.3, which doubles deny."""
    book = Book()
    book.write("begin", NOW, format=3, sealed=False)
    total, tenth = units.total("d", 0.3, 3e-7), units.cost("d", 0.1, 1e-7)
    book.write("declare", NOW, dataset="d", epsilon=total.epsilon, delta=total.delta, **DECLARED)
    for number in range(3):
        study = study_hash({"number": number})
        cost = {"epsilon": tenth.epsilon, "delta": tenth.delta}
        book.write("reserve", NOW, dataset="d", study=study, **RESERVED, **cost)
    return book.balances["d"].left == units.NOTHING


def test_three_tenths_fit_and_sums_of_doubles_are_found_out(monkeypatch):
    assert thirds_fit()
    monkeypatch.setattr(units, "_units", lambda value, digits, rounding: value)
    monkeypatch.setattr(units, "_decimal", lambda units, digits: Decimal(units))
    monkeypatch.setattr(Cost, "within", lambda self, other: self.epsilon <= other.epsilon)
    with pytest.raises(PrivalueError):
        thirds_fit()


def test_rounding_a_cost_down_is_found_out(monkeypatch):
    monkeypatch.setattr(units, "ROUND_CEILING", ROUND_FLOOR)
    with pytest.raises(AssertionError):
        test_costs_are_rounded_up_and_totals_down_by_less_than_a_unit()


# Rules


@pytest.mark.parametrize("name", ["", " x", "x ", "a\nb", "a\0b", "x" * 201, "\ud800", "\u202e"])
def test_a_name_that_is_none(tmp_path, name):
    ledger = open_ledger(tmp_path / "ledger.db")
    with pytest.raises(UsageError, match="1 to 200 printable characters"):
        ledger.declare(name, epsilon=1.0, delta=1e-6)
    assert not (tmp_path / "ledger.db").exists()


def test_names_of_every_script(ledger):
    for name in ("Patienten, Köln", "患者", "o'neill; DROP TABLE ledger_entries", '"quoted"'):
        ledger.declare(name, epsilon=1.0, delta=1e-6)
        assert ledger.show(name).dataset == name
    ledger.verify()


def test_a_request_is_its_description_not_its_spelling():
    assert study_hash({"a": 1, "b": 0.1}) == study_hash({"b": 0.1, "a": 1})
    assert study_hash({"a": 1}) != study_hash({"a": 1.5})


@pytest.mark.parametrize("text", ["", "x" * 64, "A" * 64, "a" * 63])
def test_a_hash_that_is_none(ledger, text):
    with pytest.raises(UsageError, match="not a SHA-256"):
        ledger.reserve("people", text, epsilon=0.1, delta=1e-7)
    with pytest.raises(UsageError, match="not a SHA-256"):
        ledger.verify(head=text)


def test_a_dataset_without_a_total(ledger):
    with pytest.raises(BudgetError) as refused:
        ledger.reserve("others", STUDY, epsilon=0.1, delta=1e-7)
    assert str(refused.value).startswith(
        'the release was refused, and nothing was charged: dataset "others": requested epsilon '
        "0.1, "
        "delta 1e-7; left nothing; no total is declared"
    )
    with pytest.raises(BudgetError, match=r'left nothing; .* it knows "people"'):
        ledger.show("others")


def test_exit_codes():
    assert (BudgetError.exit_code, LedgerError.exit_code) == (4, 5)
    assert issubclass(BudgetError, PrivalueError)
    assert issubclass(LedgerError, PrivalueError)


class Model:
    """The rules once more, as naively as can be: a list of amounts with their states."""

    def __init__(self, total):
        self.total, self.amounts = total, []

    def used(self):
        return sum(cost for cost, state, *_ in self.amounts if state != "cancelled")

    def allows(self, kind, at, value):
        if kind == "declare":
            return value >= max(1, self.used())
        if kind == "reserve":
            return value <= self.total - self.used()
        _, state, settled, drawn = self.amounts[at]
        return {
            "charge": state in {"reserved", "charged"} and not drawn,  # a charge covers one draw
            "cancel": state == "reserved",
            "commit": state == "charged" and drawn,
            "settle-charged": state in {"reserved", "charged"} and not settled,
            "settle-cancelled": state == "reserved",
        }[kind]

    def apply(self, kind, at, value):
        if kind == "declare":
            self.total = value
        elif kind == "reserve":
            self.amounts.append((value, "reserved", False, False))
        else:
            cost, _, settled, drawn = self.amounts[at]
            state = {"charge": "charged", "cancel": "cancelled", "commit": "committed"}.get(
                kind, kind.removeprefix("settle-")
            )
            settled, drawn = settled or kind.startswith("settle"), drawn or kind == "charge"
            self.amounts[at] = (cost, state, settled, drawn)


KINDS = st.sampled_from(
    ["declare", "reserve", "charge", "cancel", "commit", "settle-charged", "settle-cancelled"]
)


@given(st.lists(st.tuples(KINDS, st.integers(0, 5), st.integers(1, 12)), max_size=40))
def test_the_rules_are_those_of_the_naive_model(steps):
    book, model = Book(), Model(20)
    rows = [book.write("begin", NOW, format=3, sealed=False)]
    rows.append(book.write("declare", NOW, dataset="d", epsilon=20, delta=20, **DECLARED))
    numbers = []
    for kind, which, value in steps:
        if kind not in {"declare", "reserve"} and not numbers:
            continue
        at = which % len(numbers) if numbers else 0
        own = {
            "declare": {"dataset": "d", "epsilon": value, "delta": value, **DECLARED},
            "reserve": {
                "dataset": "d",
                "study": study_hash({"number": len(numbers)}),
                "epsilon": value,
                "delta": value,
                **RESERVED,
            },
            "cancel": {"reason": "-"},
            "commit": {"artefact": STUDY, "dataset": "d", "study": study_hash({"number": at})},
            "settle-charged": {"outcome": "charged", "reason": "-"},
            "settle-cancelled": {"outcome": "cancelled", "reason": "-"},
        }.get(kind, {})
        if kind not in {"declare", "reserve"}:
            own["reservation"] = numbers[at]
        allowed = model.allows(kind, at, value)
        try:
            rows.append(book.write(kind.split("-")[0], NOW, **own))
        except BudgetError:
            assert not allowed
            continue
        assert allowed
        model.apply(kind, at, value)
        if kind == "reserve":
            numbers.append(book.sequence)
    balance = book.balances["d"]
    assert (balance.spent + balance.reserved).epsilon == model.used() <= model.total
    assert balance.total.epsilon == model.total
    again = Book().replay(rows)
    assert (again.head, again.balances, again.open) == (book.head, book.balances, book.open)


# The clock


def test_a_clock_that_runs_backwards_is_recorded_and_never_trusted(tmp_path):
    hours = iter([5, 5, 5, 3, 3, 4, 2, 2])
    ledger = open_ledger(
        tmp_path / "ledger.db", clock=lambda: NOW + timedelta(hours=next(hours, 1))
    )
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    left = ledger.reserve("people", STUDY, epsilon=0.1, delta=1e-7)
    account = ledger.show("people")
    assert [step.sequence for step in account.steps] == [2, 3]
    (unfinished,) = account.unfinished
    assert (unfinished.entry, unfinished.age < timedelta(hours=24)) == (left.sequence, True)
    spend(ledger, 1)
    checked = ledger.verify()
    (line,) = checked.notices
    assert line.startswith("the clock ran backwards at entry ")
    assert "order is by entry" in line
    assert line in ledger.reserve("people", study_hash({}), epsilon=0.1, delta=1e-7).notices


# What people see


def test_an_account_as_json(ledger):
    spend(ledger, 1)
    ledger.reserve("people", STUDY, epsilon=0.25, delta=2e-7)
    told = json.loads(json.dumps(ledger.show("people").as_dict()))
    assert told["total"] == {"epsilon": 1.0, "delta": 1e-6}
    assert told["spent"] == {"epsilon": 0.1, "delta": 1e-7}
    assert told["reserved"] == {"epsilon": 0.25, "delta": 2e-7}
    assert told["left"] == {"epsilon": 0.65, "delta": 7e-7}
    assert (told["releases"], told["like_the_last"]) == (1, 2)
    assert [entry["kind"] for entry in told["history"]] == [
        "declare",
        "reserve",
        "charge",
        "commit",
        "reserve",
    ]
    assert told["unfinished"][0]["charged"] is False
    assert told["unfinished"][0]["age_seconds"] == 0
    assert told["head"] == ledger.head()


def test_how_many_like_the_last(ledger):
    assert ledger.show("people").like_the_last is None
    spend(ledger, 1, epsilon=0.01, delta=4e-7)
    assert ledger.show("people").like_the_last == 1  # delta is what runs out
    spend(ledger, 2, epsilon=0.3, delta=0.0)
    assert ledger.show("people").like_the_last == 2
    ledger.reserve("people", STUDY, epsilon=0.6, delta=0.0).cancel("changed my mind")
    assert ledger.show("people").like_the_last == 2


def test_an_empty_budget_is_shown(ledger):
    for number in range(10):
        spend(ledger, number)
    rows = dict(spending.account_rows(ledger.show("people")))
    assert rows["left"] == "0%: epsilon 0, delta 0"
    assert rows["further releases of this size"] == "0"


def test_postgresql_without_the_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingComponentError, match=r"psycopg\[binary\]") as missing:
        open_ledger("postgresql://host/database")
    assert missing.value.exit_code == 6


def test_a_process_and_a_machine_are_named(ledger):
    import os

    ledger.reserve("people", STUDY, epsilon=0.1, delta=1e-7)
    (found,) = ledger.show("people").unfinished
    assert found.process.startswith(f"{os.getpid()}@")


def test_leaving_without_computing_cancels(ledger):
    with ledger.reserve("people", STUDY, epsilon=0.1, delta=1e-7) as reservation:
        assert isinstance(reservation, Reservation)
    assert ledger.show("people").reserved.units == units.NOTHING


# Names that look alike

TWINS = [
    ("trial-2026", "TRIAL-2026"),
    ("trial-2026", "\uff54\uff52\uff49\uff41\uff4c-2026"),  # full width
    ("trial-2026", "trial\u20102026"),  # a hyphen
    ("trial-2026", "trial\u22122026"),  # a minus
    ("trial 2026", "trial  2026"),
    ("caf\u00e9", "cafe\u0301"),  # composed, and not
    ("stra\u00dfe", "STRASSE"),
    ("\ufb01le", "file"),  # a ligature
]


@pytest.mark.parametrize("names", TWINS + [twins[::-1] for twins in TWINS])
def test_a_name_that_looks_like_another_is_refused(tmp_path, names):
    first, second = names
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare(first, epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetError, match=f'"{first}" has a total, and its name looks the same'):
        ledger.declare(second, epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetError, match=f'did you mean "{first}"\\? no total is declared'):
        ledger.reserve(second, "a" * 64, epsilon=0.1, delta=1e-7)
    assert ledger.datasets() == (first,)
    ledger.declare(first, epsilon=2.0, delta=1e-6, replace=True)
    ledger.declare(f"{first} of others", epsilon=1.0, delta=1e-6)


def test_a_ledger_that_does_not_answer_is_not_asked_to_cancel(tmp_path):
    """Whoever waited for a charge in vain does not wait as long once more; the amount stays."""
    ledger = open_ledger(tmp_path / "ledger.db", wait=0.05)
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    held = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    reservation = ledger.reserve("people", study_hash({}), epsilon=0.1, delta=1e-7)
    asked = []
    reservation.cancel = asked.append
    held.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError), reservation:
        reservation.charge()
    held.close()
    assert asked == []
    (left,) = ledger.show("people").unfinished
    assert left.entry == reservation.sequence


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("trail-2026", "trial-2026"), ("Trial2026", "trial-2026"), ("ward7", "ward-7"), ("x", None)],
)
def test_a_name_that_is_close_to_a_declared_one_is_asked_about(tmp_path, asked, meant):
    ledger = open_ledger(tmp_path / "ledger.db")
    for name in ("trial-2026", "ward-7"):
        ledger.declare(name, epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetError) as refused:
        ledger.reserve(asked, study_hash({"a": 1}), epsilon=0.1, delta=1e-7)
    question = f'did you mean "{meant}"? no total is declared for it: '
    assert (question in str(refused.value)) == (meant is not None)
    assert ("did you mean" in str(refused.value)) == (meant is not None)
    assert "ledger.declare(" in str(refused.value)
    ledger.declare(asked, epsilon=1.0, delta=1e-6)  # a close name may have a total of its own


def test_an_attempt_that_would_outlast_the_patience_is_not_begun(monkeypatch):
    """A server that stands still takes most of a minute each time: nobody waits for it twice."""
    monkeypatch.setattr(_patience, "PATIENCE", 1.0)
    tried = []

    def stands_still():
        tried.append(threading.Event().wait(0.6))
        raise UnavailableError("nobody answers")

    with pytest.raises(UnavailableError):
        _patience.insist(stands_still, sleep=lambda _: None, waiting="", say=None)
    assert len(tried) == 1
