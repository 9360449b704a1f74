"""Errors by their stable code, not by their text."""

import contextlib

import pytest

from privalue.errors import PrivalueError


@contextlib.contextmanager
def refused(*codes):
    """Expect an error with one of these codes, in one line."""
    with pytest.raises(PrivalueError) as error:
        yield error
    assert error.value.code in codes
    assert "\n" not in str(error.value)
