"""Define ``demo``: run every step on the recovery chain, with the commands that a user types."""

import io
import shlex
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import numpy as np

from privalue.cli.app import app
from privalue.cli.console import SafeConsole, log, print_json
from privalue.cli.options import Json, option
from privalue.cli.terminal import print_sentence
from privalue.errors import UsageError, read_texts
from privalue.planning import plan
from privalue.releases import Release
from privalue.simulation import world as find_world
from privalue.study import Study, study_template

_TEXTS = read_texts(__file__, "demo.toml")


def demo(
    out: Annotated[Path, option("A folder for all output.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """Try every step on simulated data, from a study to a report."""
    folder, world = _vacant_folder(out), _TEXTS["world"]
    truth = find_world(world).process.values
    (folder / "curator").mkdir(parents=True)
    study_file = folder / "study.toml"
    sections = _TEXTS["study"].items()
    changes = {(name, key): text for name, keys in sections for key, text in keys.items()}
    study_file.write_text(study_template(changes), encoding="utf-8")
    start = "".join(f"{state},{1 / len(truth)!r}\n" for state in range(len(truth)))
    (folder / "start.csv").write_text(f"state,probability\n{start}", encoding="utf-8")
    for number, step in enumerate(_TEXTS["steps"], 1):
        words = step["command"].format(folder=shlex.quote(str(folder)), world=world)
        title = f"{number}. {step['about']}\n   privalue {words}"
        hidden = as_json or not step.get("shown", True)
        if as_json:
            log.event("step", title)
        else:
            SafeConsole().print(title, style="bold", soft_wrap=True)
        with redirect_stdout(io.StringIO()) if hidden else nullcontext():
            app(shlex.split(words), prog_name="privalue", standalone_mode=False)
    release = Release.load(folder / "released")
    summary = {
        "folder": folder,
        **{key: folder / name for key, name in _TEXTS["files"].items()},
        "ledger_head": release.ledger_head,
        "predicted_rmse": plan(Study.load(study_file), world=world).rmse,
        "rmse": float(np.sqrt(np.mean((release.value - truth) ** 2))),
        "policy_error": abs((release.policy_value or 0.0) - float(truth.mean())),
    }
    if as_json:
        print_json(summary)
    else:
        print_sentence("demo_done", **summary)


def _vacant_folder(out: Path) -> Path:
    """Return ``out``, or the first of ``out-2``, ``out-3``, ... that is empty."""
    for number in range(1, 1000):
        folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return folder
    raise UsageError(f"{out} and 998 more like it are not empty; remove some")
