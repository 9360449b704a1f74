"""Refusals by their code, which stays, and not by their words."""

import contextlib

import pytest

from privalue.errors import PrivalueError


@contextlib.contextmanager
def refused(code):
    with pytest.raises(PrivalueError) as found:
        yield found
    assert found.value.code == code
