"""Invalid studies: each mistake is refused in one line, with a stable code."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import privalue as pv
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.study.checks import check_sections, check_sizes

TABLE = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))
OPE = {
    "states": {"count": 1},
    "actions": {"count": 1},
    "policy": {"target": {"0": {"0": 1}}, "behaviour": {"0": {"0": 1}}, "clip": 2},
    "privacy": {"delta": 0},
    "mechanism": {"name": "dp-ope"},
}


def study_with(*, ope=False, without=(), **sections):
    """A valid study but for these sections, without some keys."""
    sections = {"states": {"count": 3}, **(OPE if ope else {}), **sections}
    usual = {
        "values": {"discount": 0.9, "rewards": (0.0, 1.0)},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
        "mechanism": {} if ope else {"name": "dp-lsw", "calibration": "nissim"},
    }
    sections |= {name: {**keys, **sections.get(name, {})} for name, keys in usual.items()}
    return pv.Study.from_sections(
        {name: {k: keys[k] for k in keys if k not in without} for name, keys in sections.items()}
    )


@pytest.mark.parametrize("sections", TABLE["idle"], ids=str)
def test_a_key_that_another_makes_idle_is_refused(sections):
    with refused("key-idle"):
        study_with(**sections)


def test_every_check_is_tried():
    fine = make_study()
    codes = {code for code, _ in (*check_sections(fine), *check_sizes(fine, 3, 3))}
    assert codes == set(TABLE["together"])


@pytest.mark.parametrize("code", TABLE["together"])
def test_keys_that_do_not_go_together_are_refused_never_ignored(code):
    with refused(code) as error:
        study_with(**TABLE["together"][code])
    assert "{" not in str(error.value).replace("{ ", "")


FLAT = {"states": ["ill", "better", "well"], "discount": 0.9, "returns": (0, 1)}
FLAT |= {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
OF_PYTHON = [
    ({"states": {"ill"}}, "key-invalid"),
    ({"states": ["ill", None]}, "key-invalid"),
    ({"states": None}, "states-not-named-once"),
    ({"features": np.eye(2)}, "features-shape"),
    ({"features": np.ones(3)}, "features-shape"),
    ({"features": [[10**400]] * 3}, "features-not-real"),
    ({"features": np.full((3, 1), np.nan)}, "features-too-extreme"),
    ({"size": 2, "shrink": True, "features": np.ones((3, 1001))}, "key-idle"),
    ({"shrink": True, "features": np.ones((3, 1001))}, "shrink-too-large"),
]
IN_TABLE = [(words, code) for code, several in TABLE["keywords"].items() for words in several]


@pytest.mark.parametrize(("keywords", "code"), [*OF_PYTHON, *IN_TABLE], ids=str)
def test_keywords_that_are_refused(keywords, code):
    with refused(code):
        pv.Study(**{**FLAT, **keywords})


def test_a_default_that_needs_the_number_of_trajectories_says_so():
    study = make_study(3, mechanism={"name": "dp-lsl"}, privacy={"neighbours": "add-remove"})
    with refused("trajectories-missing"):
        pv.check(study)
