"""What a user finds without leaving Python: names, and examples that run."""

import doctest
import inspect

import pytest

import privalue as pv

FUNCTIONS = [name for name in pv.__all__ if inspect.isfunction(getattr(pv, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example_that_is_run(name):
    """``--doctest-modules`` runs the examples of every module; here, that there is one."""
    function = getattr(pv, name)
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(function, name)
    assert found.examples
    assert inspect.getmodule(function).__name__.startswith("privalue")


def test_dir_of_the_package_is_its_public_names():
    assert dir(pv) == sorted(pv.__all__)
    assert {"Study", "release", "plan", "check", "inspect", "refit"} <= set(dir(pv))
