"""A private type's repr, pickle, copy and JSON do not leak."""

import copy
import dataclasses
import json
import logging
import pickle

import pydantic
import pydantic_core
import pytest

import privalue as pv
from oracles.private_types import DATA, SECRETS, instances
from oracles.refusals import refused
from oracles.studies import make_study


@pytest.fixture(params=sorted(instances()))
def private(request):
    return instances()[request.param]


def test_printing_shows_the_public_shape_only(private, caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger().info("%s %r", private, private)
    texts = [
        repr(private),
        str(private),
        f"{private}",
        f"{private!r:>9}",
        caplog.text,
        str([private]),
    ]
    for text in texts:
        assert "private" in text
        assert not any(secret in text for secret in SECRETS)


def test_it_is_not_pickled_or_copied(private):
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with refused("private-value"):
            leave(private)


@pytest.mark.parametrize(
    "leave",
    [
        dataclasses.asdict,
        dataclasses.astuple,
        dataclasses.replace,
        vars,
        lambda x: x.__getstate__(),
        json.dumps,
        lambda x: pydantic_core.to_json(x, serialize_unknown=False),
        lambda x: pydantic.TypeAdapter(type(x)),
    ],
    ids=["asdict", "astuple", "replace", "vars", "getstate", "json", "to_json", "adapter"],
)
def test_nothing_turns_it_into_plain_values(private, leave):
    refusals = (TypeError, pydantic.PydanticUserError, pydantic_core.PydanticSerializationError)
    with pytest.raises(refusals):
        leave(private)


def test_exceptions_of_the_mechanism_hold_no_values():
    study = make_study(2, mechanism={"name": "dp-lsl", "ridge": 0.5})
    with refused("ridge-too-small") as caught:
        pv.inspect(study, DATA)
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_the_curator_gets_everything_by_asking_for_it_by_name():
    fields = pv.inspect(make_study(2), DATA).private_columns()
    assert fields["counts"].tolist() == [977, 1008]
