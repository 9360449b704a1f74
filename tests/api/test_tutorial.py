"""The tutorial notebook runs as it stands, and its stored output is current."""

import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # benchmarks is not installed


def read_notebook():
    from benchmarks.notebook import NOTEBOOK

    return nbformat.read(NOTEBOOK, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell shows, by kind: the numbers differ from run to run."""
    return [sorted(output.get("data", {})) or output.name for output in cell.outputs]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    from benchmarks.notebook import execute

    return execute(read_notebook(), tmp_path_factory.mktemp("notebook"))


def test_the_notebook_runs_and_shows_its_stored_output(notebook):
    for cell, stored in zip(code(notebook), code(read_notebook()), strict=True):
        assert kinds(cell) == kinds(stored), stored.source
        assert cell.execution_count == stored.execution_count
