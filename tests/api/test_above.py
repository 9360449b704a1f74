"""What methods ask of the rooms above is there, and nothing else is asked for by name."""

import ast
import importlib
from pathlib import Path

import privalue

SOURCE = Path(privalue.__file__).parent


def asked():
    """(file, module, name) of every call of ``above``."""
    for path in SOURCE.rglob("*.py"):
        if "privalue._above import" not in path.read_text():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "above":
                module, name = (ast.literal_eval(argument) for argument in node.args)
                yield path.relative_to(SOURCE), module, name


def test_everything_that_is_asked_for_is_there():
    found = list(asked())
    assert {module for _, module, _ in found} == {"report", "_notebook", "_plots"}
    for path, module, name in found:
        assert callable(getattr(importlib.import_module(f"privalue.{module}"), name)), path


def test_the_trusted_rooms_ask_for_nothing_but_to_be_shown():
    """What draws is asked for by ``_repr_html_`` and ``plot`` alone, and by flags of a release."""
    rooms = {(str(path.parts[0]), name) for path, _, name in asked()}
    assert rooms == {
        ("artefact", "flags_by_state"),
        ("artefact", "flags_of_states"),
        ("artefact", "plot_release"),
        ("artefact", "policy_table"),
        ("artefact", "release_html"),
        ("artefact", "state_table"),
        ("ledger", "account_html"),
        ("_planned.py", "plan_html"),
        ("_planned.py", "plot_plan"),
        ("study", "study_html"),
    }
