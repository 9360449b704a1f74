"""Run the tutorial notebook and store its output: `python -m benchmarks.notebook`.

What is kept is plain: no times, no paths, and no more about the kernel than its language.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def execute(notebook: Any, folder: Path) -> Any:
    """Return the notebook with what its cells show, run in a folder of its own.

    Args:
        notebook: as ``nbformat`` reads it; its cells must not fail.
        folder: where it runs, and leaves its files.
    """
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=300,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    own = {"PYTHONPATH": str(ROOT / "src")}  # it runs what stands here
    return client.execute(env={**os.environ, **own})


def plain(notebook: Any) -> Any:
    """Leave out what differs from machine to machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell-{number + 1}"
    return notebook


def main() -> None:
    """Run the notebook again, and write it."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        output = plain(execute(notebook, Path(folder)))
    nbformat.validate(output)
    NOTEBOOK.write_text(nbformat.writes(output) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
