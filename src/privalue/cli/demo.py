"""Define ``demo``: the whole journey on the built-in recovery chain, with files, as a user would."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from privalue._folder import require_publishable
from privalue.cli import terminal
from privalue.cli.console import log, print_json, progress, screen
from privalue.cli.options import Json
from privalue.curator import inspect, release
from privalue.errors import UsageError
from privalue.ledger import open_ledger
from privalue.planning import plan
from privalue.report import check, describe, describe_account, publish, write_private_page
from privalue.simulation import parse_world, simulate_to_file
from privalue.study import Study, study_template

WORLD = "chain:N=40,p=0.5,discount=0.99"
TRAJECTORIES, SEED = 30_000, 20160620
DATASET, TOTAL_EPSILON, TOTAL_DELTA = "recovery-demo", 2.0, 1e-5
JUSTIFICATION = (
    "A demonstration on simulated people: epsilon 1 of a total of 2, so that one more release like "
    "this one stays possible."
)
STUDY = {
    ("study", "name"): '"recovery-chain"',
    ("study", "dataset"): f'"{DATASET}"',
    ("study", "trajectories"): str(TRAJECTORIES),
    ("values", "start"): '"start.csv"',
}


def demo(
    out: Annotated[Path, typer.Option("--out", help="A folder for everything it makes.")] = Path(
        "demo"
    ),
    as_json: Json = False,
) -> None:
    """Try every step on simulated data, from a study to a report."""
    console = log if as_json else screen()
    folder = _vacant_folder(out)
    public, private = folder / "released", folder / "curator"
    require_publishable(public)
    for place in (folder, private):
        place.mkdir(parents=True, exist_ok=True)

    def step(text: str) -> None:
        if as_json:
            log.event("step", text)
        else:
            console.print(text, style="bold")

    world = parse_world(WORLD)
    truth = world.process.values
    data = private / "trajectories.parquet"
    step(f"1. Simulate {TRAJECTORIES:,} people on the recovery chain: {data}")
    with progress("Simulating") as update:
        simulate_to_file(
            world,
            trajectories=TRAJECTORIES,
            seed=SEED,
            out=data,
            progress=lambda done: update(done, TRAJECTORIES),
        )
    study_file = folder / "study.toml"
    step(f"2. Describe the study, in public terms only: {study_file}")
    study_file.write_text(study_template(STUDY), encoding="utf-8")
    start = ["state,probability", *(f"{s},{1 / len(truth)!r}" for s in range(len(truth)))]
    (folder / "start.csv").write_text("\n".join(start) + "\n", encoding="utf-8")
    study = Study.load(study_file)
    log.dataset = DATASET

    step("3. Check it, without data")
    if not as_json:
        terminal.show(console, check(study).description, sections=("study",))
    step("4. Plan: the error to expect, before any data is opened")
    planned = plan(study, world=WORLD)
    step(f"   {planned.headline}")

    step("5. The curator looks at the data before noise; the page stays with the data")
    with progress("Reading rows") as update:
        page = write_private_page(inspect(study, data, progress=update), private / "private.html")

    ledger_file = folder / "ledger.db"
    step(f"6. Give these people a total of epsilon {TOTAL_EPSILON:g}: {ledger_file}")
    ledger = open_ledger(ledger_file)
    ledger.declare(DATASET, epsilon=TOTAL_EPSILON, delta=TOTAL_DELTA, unit="trajectory")
    step(f"7. Release, once, on the ledger: {public}")
    with progress("Reading rows") as update:
        released = release(study, data, ledger=ledger, progress=update)
    account = ledger.account(DATASET)
    answers = {"justification": JUSTIFICATION}
    files = publish(released, public, study=study, account=account, answers=answers)
    step("8. Verify that the ledger is intact, and that this release is on it")
    verified = ledger.verify(releases=[released.to_json()])
    step(f"   {verified.entries} entries, head {verified.head[:16]}...")

    step("9. Compare with the exact values, which a simulation knows")
    error = float(np.sqrt(np.mean((released.value - truth) ** 2)))
    policy_error = abs((released.policy_value or 0.0) - float(truth.mean()))
    if as_json:
        print_json(
            {
                "folder": folder,
                "study": study_file,
                "data": data,
                "private_page": page,
                "ledger": ledger_file,
                "ledger_head": released.ledger_head,
                "release": files.release,
                "report": files.page,
                "registry": files.registry,
                "values": files.values,
                "predicted_rmse": planned.rmse,
                "rmse": error,
                "policy_error": policy_error,
            }
        )
        return
    description = describe(released)
    terminal.show(
        console,
        description,
        sentence="privacy.sentence",
        sections=("result",),
        with_verdict=True,
        listings=False,
    )
    terminal.show(console, describe_account(account, str(ledger_file)), sections=("budget",))
    console.print(
        f"Root mean square error against the exact values: {error:.4f} (planned: "
        f"{planned.rmse or 0:.4f}); the policy's overall value is off by {policy_error:.4f}.",
        style="bold",
    )
    console.print("Where to look:", style="bold")
    for path, what in (
        (files.page, "the report: open it in a browser"),
        (files.values, "every value, for a spreadsheet or a program"),
        (files.registry, "the entry for a registry of deployments"),
        (page, "the curator's PRIVATE page, kept apart from what is public"),
    ):
        console.print(f"  {path}  {what}", soft_wrap=True)


def _vacant_folder(out: Path) -> Path:
    """Return ``out``, or the first of ``out-2``, ``out-3``, ... that is empty."""
    for number in range(1, 1000):
        folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
        if not folder.exists() or not any(folder.iterdir()):
            return folder
    raise UsageError(f"{out} and 998 more like it are not empty; remove some")
