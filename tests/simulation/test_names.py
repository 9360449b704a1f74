import pytest

from privalue.errors import StudyError, UsageError
from privalue.simulation import parse_world


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("chain", "chain:N=40,p=0.5,start=uniform,discount=0.99"),
        ("chain:", "chain:N=40,p=0.5,start=uniform,discount=0.99"),
        (" chain : N = 3 , p = 0 ", "chain:N=3,p=0.0,start=uniform,discount=0.99"),
        (
            "chain:N=40,p=0.5,start=first,discount=0.99",
            "chain:N=40,p=0.5,start=first,discount=0.99",
        ),
        ("chain:discount=1", "chain:N=40,p=0.5,start=uniform,discount=1.0"),
        (
            "garnet:N=9,A=2,seed=3",
            "garnet:N=9,A=2,branching=3,least_end=0.02,most_end=0.25,seed=3,"
            "policy=uniform,start=uniform,discount=0.95",
        ),
    ],
)
def test_names_and_defaults(text, full):
    assert parse_world(text).text == full


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chian", "unknown world 'chian'; did you mean 'chain'\\? known: chain, garnet, "),
        ("", "unknown world ''; known: chain"),
        ("frobnicate:N=3", "unknown world 'frobnicate'; known: chain"),
        (
            "chain:n=3",
            "chain has no parameter 'n'; did you mean 'N'\\? known: N, p, start, discount",
        ),
        ("garnet:states=20", "garnet has no parameter 'states'; did you mean 'N'\\? known: N, A, "),
        ("garnet:actions=3", "did you mean 'A'\\?"),
        ("garnet:state=20", "did you mean 'N'\\?"),
        ("garnet:a=3", "did you mean 'A'\\?"),
        ("chain:stay=0.5", "did you mean 'p'\\?"),
        ("Chain", "unknown world 'Chain'; did you mean 'chain'\\?"),
        ("chain:strat=first", "chain has no parameter 'strat'; did you mean 'start'\\?"),
        ("chain:seed=3", "chain has no parameter 'seed'"),
        ("chain:N=3,N=4", "chain is given N twice"),
        ("chain:N=three", "N is 'three'; it must be a whole number"),
        ("chain:N=3.5", "N is '3.5'; it must be a whole number"),
        ("chain:p=half", "p is 'half'; it must be a number"),
        ("chain:start=last", "start is 'last'; it must be uniform or first"),
        ("garnet:policy=best", "policy is 'best'; it must be uniform or greedy"),
        ("chain:first", "'first' is not a setting; write key=value"),
        ("chain:N=", "'N=' is not a setting"),
        ("chain:=3", "'=3' is not a setting"),
        ("gym", "gym needs an environment first, as in gym:FrozenLake-v1"),
        ("gym:policy=uniform", "gym needs an environment first"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse_world(text)


@pytest.mark.parametrize("text", ["chain:p=1", "chain:N=0", "garnet:A=0", "chain:discount=2"])
def test_values_out_of_range_are_refused(text):
    with pytest.raises(StudyError):
        parse_world(text)
