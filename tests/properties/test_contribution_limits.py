"""Bounded contribution in the statistics: the first H distinct states, the first L trajectories."""

from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import episodes, make_study
from oracles.studies import frame_of_persons as frame_of
from privalue.core import Contributions

BOUNDS = {"rewards": (-1.0, 1.0), "returns": (-1.5, 2.5)}


def by_person(most, states=4, most_states=None):
    privacy = {"unit": "person", "max_trajectories_per_person": most}
    if most_states is not None:
        privacy["max_states_per_trajectory"] = most_states
    return make_study(states, privacy=privacy, **BOUNDS)


@given(data=episodes(5), most=st.integers(1, 7))
def test_a_trajectory_counts_for_its_first_distinct_states(data, most):
    study = make_study(5, privacy={"max_states_per_trajectory": most}, **BOUNDS)
    actual = statistics(data, study)
    _, counts, sums = literal.first_visit(data, 0.9, (-1.0, 1.0), (-1.5, 2.5), 5, most)
    assert actual.counts.tolist() == counts
    assert actual.return_steps.tolist() == sums
    distinct = [len({state for state, _ in episode}) for episode in data]
    assert actual.surplus_visits == sum(max(n - most, 0) for n in distinct)


def test_the_last_distinct_states_are_not_the_first():
    """A planted mistake: a pass that goes backwards alone meets the last states first."""
    data = [[(0, 0.0), (1, 0.0), (2, 1.0)]]
    actual = statistics(data, make_study(3, privacy={"max_states_per_trajectory": 2}))
    assert actual.counts.tolist() == [1, 1, 0]
    backwards = statistics([data[0][::-1]], make_study(3, privacy={"max_states_per_trajectory": 2}))
    assert backwards.counts.tolist() == [0, 1, 1]


@given(
    people=st.dictionaries(st.integers(0, 30), episodes(4, most=5), min_size=1, max_size=6),
    most=st.integers(1, 6),
    most_states=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_the_first_trajectories_of_a_person_count(people, most, most_states, seed):
    shuffled = frame_of(people).sample(frac=1, random_state=seed)
    actual = statistics(shuffled, by_person(most, most_states=most_states))
    first = [episode for owned in people.values() for episode in owned[:most]]
    m, counts, sums = literal.first_visit(
        first, 0.9, (-1.0, 1.0), (-1.5, 2.5), 4, most_states=most_states
    )
    assert (actual.trajectories, actual.persons) == (m, len(people))
    assert actual.surplus_trajectories == sum(len(owned) for owned in people.values()) - m
    assert actual.counts.tolist() == counts
    assert actual.return_steps.tolist() == sums


@given(
    people=st.dictionaries(st.integers(0, 9), episodes(3, most=4), min_size=2, max_size=5),
    other=episodes(3, most=6),
    most=st.integers(1, 3),
    data=st.data(),
)
def test_one_persons_rows_change_only_what_that_person_adds(people, other, most, data):
    """The rule that drops the surplus reads that person's rows alone."""
    study = by_person(most, states=3)
    people = dict(sorted(people.items()))  # in order: then a part covers a range of persons
    who = data.draw(st.sampled_from([min(people), max(people)]))  # so that ranges are apart
    without = {person: owned for person, owned in people.items() if person != who}
    rest = statistics(frame_of(without), study)
    for owned in (people[who], other):
        whole = statistics(frame_of(dict(sorted({**without, who: owned}.items()))), study)
        assert whole == rest + statistics(frame_of({who: owned}), study)
        assert (whole.counts - rest.counts).max() <= most


def test_a_rule_across_persons_is_caught():
    """The planted mistake: the limit counted over the stream, not for each person."""
    people = {1: [[(0, 1.0)]] * 2, 2: [[(1, 1.0)]] * 2}
    actual = statistics(frame_of(people), by_person(2))
    careless = statistics(frame_of(people).assign(person=1, trajectory=[0, 1, 2, 3]), by_person(2))
    assert actual.trajectories == 4
    assert careless.trajectories == 2


def test_empty_data_is_an_answer_where_its_size_is_secret():
    study = make_study(3, privacy={"neighbours": "add-remove"})
    assert statistics([], study) == Contributions(study.limits).finish()
    with refused("data-invalid"):
        statistics([], make_study(3))
