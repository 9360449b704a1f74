"""Studies with many states: values as columns."""

import json

import numpy as np
import pytest

import privalue as pv
from oracles.studies import release_anyway, study
from privalue.artefact._release import Release
from privalue.artefact._values import StateValue, StateValues

# Values as columns


def values(count=5):
    columns = {"value": np.arange(count) / 7, "supported": np.arange(count) % 2 == 0}
    return StateValues(range(count), columns)


def test_values_are_a_sequence_of_states():
    made = values()
    assert len(made) == 5
    assert made[3] == StateValue(state="3", value=3 / 7, supported=False)
    assert made[-1].state == "4"
    assert [entry.value for entry in made] == [entry.value for entry in list(made)]
    assert list(made[1:3]) == [made[1], made[2]]
    assert made == list(made)
    assert made != list(made)[:4]
    assert type(made[0].value) is float
    assert type(made[0].supported) is bool
    assert made.column("low") is None
    assert made.column("value")[2] == 2 / 7
    with pytest.raises(IndexError):
        made[5]


def test_what_is_no_number_for_every_state_is_refused():
    with pytest.raises(ValueError, match="one entry for each"):
        StateValues(["a"], {"value": np.zeros(2)})
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            StateValues(["a"], {"value": np.array([wrong])})
    with pytest.raises(ValueError, match="some states only"):
        StateValues.of([StateValue(state="a", value=1), StateValue(state="b", value=1, low=0)])


def test_the_text_is_the_models_own(monkeypatch):
    """Written in parts, whatever the labels hold, it says what the model says."""
    labels = ['"', "},{", '\n  "values": []', "é", "x", "\\"]
    described = study(6, states={"labels": labels})
    released = release_anyway(described, [[(label, 1.0)] for label in described.state_labels] * 30)
    monkeypatch.setattr("privalue.artefact._values._AT_ONCE", 2)
    text = released.to_json()
    assert json.loads(text) == json.loads(released.model_dump_json(exclude_none=True))
    assert Release.parse(text) == released
    assert [entry.state for entry in Release.parse(text).values] == list(described.state_labels)


def test_a_release_without_a_state_is_told_apart():
    described = study(2)
    text = release_anyway(described, [[(0, 1.0)]] * 30).to_json()
    broken = json.loads(text)
    del broken["values"][0]["value"]
    with pytest.raises(pv.DataError, match=r"values\.0\.value"):
        Release.parse(json.dumps(broken))
