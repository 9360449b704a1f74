"""Errors by their stable code, and not by their words."""

import contextlib

import pytest

from privalue.errors import PrivalueError


@contextlib.contextmanager
def refused(*codes):
    """Expect an error with one of these codes, in one line."""
    with pytest.raises(PrivalueError) as found:
        yield found
    assert found.value.code in codes
    assert "\n" not in str(found.value)
