"""What a user finds without leaving Python: help, completion, and examples that run."""

import doctest
import inspect
import pydoc
import textwrap

import pytest

import privalue as pv

SCREENS = 2 * 48  # lines of two screens
WIDE = 100
FUNCTIONS = [name for name in pv.__all__ if inspect.isfunction(getattr(pv, name))]
SECTIONS = ["About", "Arms", "Columns", "Features", "Privacy", "Report", "States", "Values"]


def helped(thing):
    """What ``help`` prints, as lines of a screen."""
    text = pydoc.render_doc(thing, renderer=pydoc.plaintext)
    return [part for line in text.splitlines() for part in textwrap.wrap(line, WIDE) or [""]]


def explained(thing):
    """The arguments that a docstring explains."""
    told = inspect.getdoc(thing).split("Args:\n")[1].split("\n\n")[0]
    return [line.split(":")[0].strip() for line in told.splitlines() if line[4] != " "]


@pytest.mark.parametrize("name", ["Study", "release"])
def test_help_fits_two_screens_and_explains_every_argument(name):
    thing = getattr(pv, name)
    assert len(helped(thing)) <= SCREENS
    assert explained(thing) == list(inspect.signature(thing).parameters)


def test_every_argument_of_a_study_says_what_it_is_if_left_out():
    told = inspect.getdoc(pv.Study).split("Args:\n")[1].split("\n\n")[0].splitlines()
    flat = [line for line in told if "the section of" not in line]
    assert len(flat) == 26
    for line in flat:
        assert "(default" in line or "(required" in line, line


@pytest.mark.parametrize("name", [*SECTIONS, "Weights"])
def test_a_section_explains_every_key_with_its_default(name):
    section = getattr(pv, name)
    lines = helped(section)
    assert len(lines) <= SCREENS
    assert explained(section) == list(section.model_fields)
    assert list(inspect.signature(section).parameters) == list(section.model_fields)
    text = " ".join(" ".join(lines).split())
    for key, field in section.model_fields.items():
        assert f"{key}: {field.description}" in text.replace(" | ", " ")
    assert "Validator" not in text
    assert "model_dump" not in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example_that_is_run(name):
    """``--doctest-modules`` runs the examples of every module; here, that there is one."""
    function = getattr(pv, name)
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(function, name)
    assert found.examples
    assert inspect.getmodule(function).__name__.startswith("privalue")


def test_completion_shows_our_own_names(release, study):
    for thing in (release, study, study.privacy, release.privacy):
        shown = [name for name in dir(thing) if not name.startswith("__")]
        assert not [name for name in shown if name.startswith(("_", "model_"))]
        assert "dict" not in shown
        for name in shown:
            assert hasattr(type(thing), name) or name in type(thing).model_fields
    assert {"value", "total_low", "to_pandas", "plot", "flags", "theta"} <= set(dir(release))
    assert {"epsilon", "delta", "unit"} <= set(dir(study.privacy))
    assert {"replace", "save", "privacy"} <= set(dir(study))


def test_dir_of_the_package_is_its_public_names():
    assert dir(pv) == sorted(pv.__all__)
    assert {"Study", "release", "plan", "check", "inspect", "refit"} <= set(dir(pv))
