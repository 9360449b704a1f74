"""What Gaussian releases cost, and what a book of squares allows: the arithmetic and its rules.

The theorems are in docs/proofs/gaussian-ledger.md, their twins in ``oracles/squares.py``.
"""

import math
import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from oracles import squares as literal
from oracles.ledgers import DECLARED, RESERVED
from privalue.core import gaussian
from privalue.errors import BudgetError, UsageError
from privalue.ledger import Cost, _squares, _terms, study_hash
from privalue.ledger._balance import Balance
from privalue.ledger._book import Book
from privalue.ledger._conversions import affordable, epsilon_spent
from privalue.ledger._requests import total_mu
from privalue.ledger._squares import ONE, dominating_square, square_cost, square_total
from privalue.ledger._told import Telling
from privalue.ledger._units import mu

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EPSILON, DELTA = 10**12, 10**18  # units of 1
ALPHA = gaussian(1.0, 1e-6).alpha
alphas = st.floats(1e-3, 1e9, allow_nan=False)


# Costs and totals


@given(alphas, st.integers(1, 10**6))
def test_a_cost_is_the_exact_one_rounded_up_by_less_than_a_unit(alpha, steps):
    exact = literal.Book(1.0).cost(alpha, steps) * ONE
    assert exact <= square_cost(mu(alpha), steps) < exact + 1


@given(alphas)
def test_a_total_is_the_exact_one_rounded_down_by_less_than_a_unit(alpha):
    exact = literal.Book(alpha).total * ONE
    assert exact - 1 < square_total(mu(alpha)) <= exact


@given(st.integers(1, 20 * EPSILON))
@settings(max_examples=60)
def test_a_pure_release_enters_at_the_mu_that_dominates_it(epsilon):
    """Never below the true one, and above it by less than a unit of mu."""
    with mp.workdps(60):
        true = literal.dominating_mu(mpf(epsilon) / EPSILON)
        found = mp.sqrt(mpf(dominating_square(epsilon)) / ONE)
        assert true <= found * (1 + mpf(10) ** -50)
        assert found <= true + mpf("1.01e-12")


def test_what_nobody_could_pay_fits_into_no_total():
    most = square_total(total_mu(20.0, 0.5))
    assert dominating_square(20 * EPSILON) > most
    assert dominating_square(20 * EPSILON + 1) > most


def test_a_dominated_release_is_private_as_the_gaussian_is():
    """Randomised response at its worst: its trade-off curve lies above the Gaussian's."""
    for epsilon in (0.01, 0.5, 1.0, 4.0):
        found = math.sqrt(dominating_square(round(epsilon * EPSILON)) / ONE)
        for level in (0.0, epsilon / 2, epsilon * 0.99):
            pure = (math.exp(epsilon) - math.exp(level)) / (1 + math.exp(epsilon))
            assert literal.composed_delta(level, [found]) >= pure * (1 - 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (20.0, 0.5), (3, 1e-15)])
def test_a_total_keeps_its_promise(epsilon, delta):
    """The exact delta of everything that fits, at the promised epsilon."""
    square = square_total(total_mu(epsilon, delta))
    with mp.workdps(60):
        assert literal.composed_delta(epsilon, [mp.sqrt(mpf(square) / ONE)]) <= delta


@given(st.floats(0.001, 20), st.floats(1e-15, 0.5))
@settings(max_examples=40, deadline=None)
def test_one_release_of_everything_fits(epsilon, delta):
    alpha = gaussian(epsilon, delta).alpha
    assert square_cost(mu(math.nextafter(alpha, 0)), 1) <= square_total(total_mu(epsilon, delta))


def test_ten_releases_get_3_1_times_less_noise_and_three_fit_into_1_6():
    tenth = gaussian(0.1, 1e-7).alpha
    assert tenth / (ALPHA * math.sqrt(10)) == pytest.approx(3.09, abs=0.01)
    three = 3 * square_cost(mu(ALPHA), 1)
    assert three <= square_total(total_mu(1.60, 1e-5))
    assert three > square_total(total_mu(1.59, 1e-5))


@given(st.integers(1, 10**25), st.sampled_from([1e-15, 1e-9, 1e-6, 0.1]))
@settings(max_examples=40, deadline=None)
def test_epsilons_that_are_told_err_on_the_safe_side(square, delta):
    spent, left = epsilon_spent(square, delta), affordable(square, delta)
    with mp.workdps(60):
        true = literal.composed_delta(spent, [mp.sqrt(mpf(square) / ONE)])
        assert true <= delta
    if left is not None:
        assert square_cost(mu(gaussian(left, delta).alpha), 1) <= square
        assert left <= spent or left == 0.001
    if left is not None and 0.001 < left < 20:
        assert left >= spent * (1 - 1e-5)


def telling(epsilon, delta):
    promise = Cost(epsilon=epsilon, delta=delta)
    square = square_total(total_mu(**promise.as_dict()))
    return Telling(gaussian=True, promise=promise, total=Cost(square=square))


def test_what_is_spent_is_never_told_as_nothing():
    """A tiny mu comes to an epsilon of 0 at the pool's delta: (0, 0) would be false."""
    told = telling(EPSILON, DELTA // 10**3)
    spent = Cost(square=10**18)  # mu = 1e-3
    assert told.of(spent).as_dict() == {"epsilon": 0.0, "delta": 1e-3, "mu": 1e-3}
    with mp.workdps(60):
        assert 1e-12 < literal.composed_delta(0.0, [mpf("1e-3")]) <= 1e-3
    assert told.of(Cost()).as_dict() == {"epsilon": 0.0, "delta": 0.0, "mu": 0.0}
    assert told.of(Cost(square=1), left=True).delta == 0.0  # it pays for nothing


def test_what_is_told_is_not_rounded_to_the_better_side():
    told = telling(1_234_567_890_123, DELTA // 10**6)
    assert "epsilon 1.234567890123 at" in str(told.of(told.total))
    half = Cost(square=told.total.square // 2)
    true = mp.sqrt(mpf(half.square) / ONE)
    spent, left = (float(str(told.of(half, left=side)).split()[1]) for side in (False, True))
    assert left <= true <= spent
    assert spent - left < 2e-6


@given(st.integers(0, 10**18), st.integers(0, DELTA - 1))
def test_numbers_of_a_plain_book_err_on_the_safe_side(epsilon, delta):
    """As the ledger reads them again: by the shortest decimal of a double."""
    units = Cost(epsilon=epsilon, delta=delta)
    told = Telling(gaussian=False, promise=units, total=units)
    spent, left = told.of(units), told.of(units, left=True)
    for part, scale in (("epsilon", 12), ("delta", 18)):
        true = Decimal(getattr(units, part)).scaleb(-scale)
        low, high = (Decimal(repr(getattr(each, part))) for each in (left, spent))
        assert low <= true <= high
        assert high - low <= true * Decimal("1e-15")
    assert (spent.mu, spent.units) == (None, units)


@given(st.integers(1, 10**24))
def test_mu_errs_on_the_safe_side(square):
    told = telling(EPSILON, DELTA // 10**6)
    spent, left = (told.of(Cost(square=square), left=side).mu for side in (False, True))
    assert Fraction(left) ** 2 <= Fraction(square, ONE) * (1 + Fraction(1, 2**51))
    assert Fraction(spent) ** 2 >= Fraction(square, ONE) * (1 - Fraction(1, 2**51))
    assert spent - left <= 1.1e-12


def test_a_refusal_does_not_contradict_itself():
    """It lacks one unit of 1e-24: what is asked for is told as more than what is left."""
    book = book_of()
    for number, alpha in enumerate((2 * ALPHA, 3 * ALPHA)):
        reserve(book, number, alpha)
    left = book.balances["d"].left.square
    alpha = math.sqrt(ONE / left)
    while square_cost(mu(alpha), 1) <= left:
        alpha = math.nextafter(alpha, 0)
    with pytest.raises(BudgetError) as found:
        reserve(book, 3, alpha, epsilon=2 * EPSILON)
    asked, has = (float(each) for each in re.findall(r"mu ([0-9.]+) ?[()]", str(found.value))[:2])
    assert has < asked
    # A total below what is used: the same.
    with pytest.raises(BudgetError) as found:
        book.write("declare", NOW, **declared(EPSILON // 3, DELTA // 10**6))
    has, used = (
        float(re.search(f"{what} mu ([0-9.]+)", str(found.value))[1])
        for what in ("a total of", "what is used,")
    )
    assert has < used


# The rules of a book


def declared(epsilon, delta, plain=(0, 0), **more):
    rest = Cost(epsilon=epsilon, delta=delta) - Cost(epsilon=plain[0], delta=plain[1])
    return {
        **{**DECLARED, "dataset": "d", "accounting": "gaussian"},
        **{"epsilon": epsilon, "delta": delta, "plain_epsilon": plain[0], "plain_delta": plain[1]},
        "mu": total_mu(**rest.as_dict()),
        **more,
    }


def book_of(epsilon=EPSILON, delta=DELTA // 10**6, plain=(0, 0)):
    book = Book()
    book.write("begin", NOW, format=4, sealed=False, squares=True)
    book.write("declare", NOW, **declared(epsilon, delta, plain))
    return book


def reserve(book, number, alpha=None, **more):
    stated = "none" if alpha is None else mu(alpha)
    asked = {**RESERVED, "epsilon": EPSILON, "delta": DELTA // 10**6, "mu": stated, **more}
    book.write("reserve", NOW, dataset="d", study=study_hash({"n": number}), **asked)
    return book.sequence


def filled(releases, seed, *, cost=square_cost):
    """Tiny releases in a random order, some cancelled, then what fills the rest to the unit.

    Return the exact sum of all that were admitted, and the exact total.
    """
    chance, book = random.Random(seed), book_of()
    exact, admitted = literal.Book(float(total_mu(1.0, 1e-6).removeprefix("1/"))), 0
    waiting = []

    def ask(alpha, number):
        nonlocal admitted
        try:
            waiting.append((reserve(book, number, alpha), alpha))
            admitted += 1
        except BudgetError:
            pass

    for number in range(releases):
        ask(math.sqrt(releases) * ALPHA * chance.uniform(0.9, 1.6), number)
        while len(waiting) > chance.randrange(1, 8):
            at, alpha = waiting.pop(chance.randrange(len(waiting)))
            cancelled = chance.random() < 0.1
            kind = {"reason": "x"} if cancelled else {}
            book.write("cancel" if cancelled else "charge", NOW, reservation=at, **kind)
            if not cancelled:
                exact.spend(alpha)
                book.write("commit", NOW, reservation=at, artefact="a" * 64, **request(book, at))
    for number in range(releases, releases + 40):  # what is left, to the unit
        left = book.balances["d"].left.square
        if left == 0:
            break
        ask(math.sqrt(ONE / left) * (1 + 1e-15), number)
    for at, alpha in waiting:
        book.write("charge", NOW, reservation=at)
        exact.spend(alpha)
    assert book.balances["d"].reserved.square == 0
    return exact, book


def request(book, at):
    held = book.reservations[at]
    return {"dataset": held.dataset, "study": held.study}


@pytest.mark.parametrize(
    "releases", [300, pytest.param(10_000, marks=pytest.mark.long)], ids=["some", "ten thousand"]
)
def test_tiny_releases_never_exceed_the_total(releases):
    for seed in range(3):
        exact, book = filled(releases, seed)
        assert exact.spent <= exact.total
        assert book.balances["d"].left.square < 100  # and hardly anything is given away
        assert exact.spent >= exact.total * (1 - Fraction(1, 10**15))


@pytest.mark.parametrize("wrong", [math.floor, round], ids=["down", "to the nearest"])
def test_rounding_towards_the_spender_is_caught(monkeypatch, wrong):
    def cheap(stated, steps):
        ratio = steps / _squares._alpha(stated)
        return wrong(ONE * ratio * ratio)

    monkeypatch.setattr(_terms, "square_cost", cheap)
    found = [filled(60, seed)[0] for seed in range(12)]
    assert any(exact.spent > exact.total for exact in found)


def test_a_total_that_is_not_certified_is_no_total():
    book = Book()
    book.write("begin", NOW, format=4, sealed=False, squares=True)
    true = declared(EPSILON, DELTA // 10**6)
    more = mu(ALPHA * 0.999)
    for wrong in ({"mu": more}, {"mu": "none"}, {"mu": "0.25"}, {"plain_epsilon": EPSILON}):
        with pytest.raises(UsageError):
            book.write("declare", NOW, **{**true, **wrong})
    for wrong in ({"plain_epsilon": -1}, {"plain_delta": 5}, {"plain_epsilon": EPSILON // 2}):
        with pytest.raises(UsageError):
            book.write("declare", NOW, **{**true, **wrong})
    book.write("declare", NOW, **true)


# (a) one unit and relation; conversions: k steps are k mu


@pytest.mark.parametrize(
    ("unit", "neighbours", "steps"),
    [("trajectory", "add-remove", 6), ("person", "add-remove", 2), ("person", "replace-one", 1)],
)
def test_k_steps_cost_k_squared(unit, neighbours, steps):
    book = Book()
    book.write("begin", NOW, format=4, sealed=False, squares=True)
    whom = {"unit": "person", "neighbours": "replace-one", "trajectories_per_person": 3}
    book.write("declare", NOW, **declared(EPSILON, DELTA // 10**6, **whom))
    asked = {"unit": unit, "neighbours": neighbours, "steps": steps}
    reserve(book, 1, 7.0 * ALPHA, **asked)
    assert book.balances["d"].reserved == Cost(square=square_cost(mu(7.0 * ALPHA), steps))
    with mp.workdps(60):  # the exact delta of one Gaussian whose shift is k times as large
        true = literal.composed_delta(1.0, [steps / mpf(7.0 * ALPHA)])
        assert (
            literal.composed_delta(1.0, [mp.sqrt(mpf(book.balances["d"].reserved.square) / ONE)])
            >= true
        )


def test_k_in_place_of_k_squared_is_caught(monkeypatch):
    """Planted; the exact delta of the shift that k steps make is larger than what is paid for."""

    def cheap(stated, steps):
        alpha = _squares._alpha(stated)
        return math.ceil(ONE * steps / (alpha * alpha))

    monkeypatch.setattr(_terms, "square_cost", cheap)
    book = Book()
    book.write("begin", NOW, format=4, sealed=False, squares=True)
    book.write("declare", NOW, **declared(EPSILON, DELTA // 10**6))
    reserve(book, 1, 7.0 * ALPHA, neighbours="add-remove", steps=2)
    with mp.workdps(60):
        paid = mp.sqrt(mpf(book.balances["d"].reserved.square) / ONE)
        true = literal.composed_delta(1.0, [2 / mpf(7.0 * ALPHA)])
        assert literal.composed_delta(1.0, [paid]) < true


def test_another_relation_is_never_converted_the_other_way():
    book = Book()
    book.write("begin", NOW, format=4, sealed=False, squares=True)
    book.write("declare", NOW, **declared(EPSILON, DELTA // 10**6, neighbours="add-remove"))
    with pytest.raises(BudgetError, match="replace-one release publishes"):
        reserve(book, 1, 7 * ALPHA)
    with pytest.raises(UsageError, match="steps"):
        reserve(book, 1, 7 * ALPHA, neighbours="add-remove", steps=2)


# (b) only what has a mu enters by it


def test_a_release_without_a_mu_does_not_enter_by_its_alpha():
    with pytest.raises(BudgetError, match=r"no mu.*release with dp-ssp, or declare.*plain pool"):
        reserve(book_of(), 1)


def test_a_pure_release_goes_to_the_plain_pool_else_it_is_dominated():
    pure = {"delta": 0, "epsilon": EPSILON // 20}
    book = book_of()
    reserve(book, 1, **pure)
    assert book.balances["d"].reserved == Cost(square=dominating_square(EPSILON // 20))
    book = book_of(plain=(EPSILON // 10, 0))
    reserve(book, 1, **pure)
    reserve(book, 2, **pure)
    assert book.balances["d"].left.parts[:2] == (0, 0)
    with pytest.raises(BudgetError, match="plain pool: epsilon 0, delta 0"):
        reserve(book, 3, **pure)
    reserve(book, 4, 2 * ALPHA)


# (f) two pools, interleaved: the sums of both


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=30))
@settings(max_examples=60)
def test_each_pool_keeps_its_own_total(asked):
    plain = (EPSILON // 5, DELTA // 10**7)
    book, spent = book_of(plain=plain), [Cost(), Cost()]
    for number, (by_mu, size) in enumerate(asked):
        try:
            if by_mu:
                reserve(book, number, ALPHA * 8 / math.sqrt(size))
            else:
                reserve(book, number, epsilon=EPSILON * size // 300, delta=DELTA // 10**8)
        except BudgetError:
            continue
        spent[by_mu] += book.reservations[book.sequence].cost
    balance = book.balances["d"]
    assert spent[0].square == 0
    assert spent[1].epsilon == spent[1].delta == 0
    assert spent[0] + spent[1] == balance.reserved
    assert balance.reserved.within(balance.total)
    rest = balance.promise - Cost(epsilon=plain[0], delta=plain[1])
    assert balance.telling.rest == rest
    with mp.workdps(60):
        mus = [mp.sqrt(mpf(balance.total.square) / ONE)]
        assert literal.composed_delta(mpf(rest.epsilon) / EPSILON, mus) <= mpf(rest.delta) / DELTA


# Why squares and their split stay once something is used


def test_a_choice_by_what_was_seen_keeps_the_promise_of_neither_total():
    """Each way alone keeps delta; the worse of both, by what was seen, comes to nearly the sum."""
    total, first = (1.0, 1e-6), (0.9, 1e-8)
    squares, plain, chosen = literal.delta_by_choice(
        total, 1 / ALPHA, first, 1 / gaussian(*first).alpha
    )
    assert max(squares, plain) <= total[1] * (1 + 1e-6)
    assert 1.9 * total[1] < chosen <= squares + plain


# Snapshots hold both accountings


def test_a_snapshot_holds_a_gaussian_book():
    book = book_of(plain=(EPSILON // 5, DELTA // 10**7))
    first = reserve(book, 1, 3 * ALPHA)
    reserve(book, 2, epsilon=EPSILON // 10, delta=DELTA // 10**8)
    book.write("charge", NOW, reservation=first)
    state = book.state()
    again = Book().go_on(state, book.sequence, book.head, book.sequence)
    assert again.state() == state
    assert again.balances["d"].left == book.balances["d"].left
    assert Balance.from_state(state["datasets"][0]).telling.rest == book.balances["d"].telling.rest
    assert {at: held.cost for at, held in again.pending.items()} == {
        at: held.cost for at, held in book.pending.items()
    }
    for one in (book, again):
        one.write("cancel", NOW, reservation=first + 1, reason="x")
    assert again.balances["d"].reserved == book.balances["d"].reserved == Cost()
