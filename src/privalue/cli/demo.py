"""Define ``demo``: the whole journey on the recovery chain, with files, as a user would."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from privalue._folder import require_publishable
from privalue.cli import terminal
from privalue.cli.console import log, print_json, progress, say, screen
from privalue.cli.options import Json, option
from privalue.cli.release_commands import show_release
from privalue.curator import inspect, release
from privalue.errors import UsageError
from privalue.ledger import open_ledger
from privalue.planning import plan
from privalue.report import Description, check, describe_account, publish, write_private_page
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
    out: Annotated[Path, option("A folder for everything it makes.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """Try every step on simulated data, from a study to a report."""
    folder = _vacant_folder(out)
    public, private = folder / "released", folder / "curator"
    require_publishable(public)
    private.mkdir(parents=True, exist_ok=True)
    world = parse_world(WORLD)
    truth = world.process.values

    data = private / "trajectories.parquet"
    _say(f"1. Simulate {TRAJECTORIES:,} people on the recovery chain: {data}", as_json)
    simulate_to_file(world, trajectories=TRAJECTORIES, seed=SEED, out=data)
    study_file = folder / "study.toml"
    _say(f"2. Describe the study, in public terms only: {study_file}", as_json)
    study_file.write_text(study_template(STUDY), encoding="utf-8")
    start = ["state,probability", *(f"{s},{1 / len(truth)!r}" for s in range(len(truth)))]
    (folder / "start.csv").write_text("\n".join(start) + "\n", encoding="utf-8")
    study = Study.load(study_file)
    log.dataset = DATASET
    _say("3. Check it, without data", as_json)
    _show(check(study).description, as_json, sections=("study",))
    _say("4. Plan: the error to expect, before any data is opened", as_json)
    expected = plan(study, world=world)
    _say(f"   {expected.headline}", as_json)

    _say("5. The curator looks at the data before noise; the page stays with the data", as_json)
    page = write_private_page(inspect(study, data), private / "private.html")
    ledger_file = folder / "ledger.db"
    _say(f"6. Give these people a total of epsilon {TOTAL_EPSILON:g}: {ledger_file}", as_json)
    ledger = open_ledger(ledger_file)
    ledger.declare(DATASET, epsilon=TOTAL_EPSILON, delta=TOTAL_DELTA, unit="trajectory")
    _say(f"7. Release, once, on the ledger: {public}", as_json)
    with progress("Reading rows") as update:
        released = release(study, data, ledger=ledger, progress=update)
    account = ledger.account(DATASET)
    answers = {"justification": JUSTIFICATION}
    files = publish(released, public, study=study, account=account, answers=answers)
    _say("8. Verify that the ledger is intact, and that this release is on it", as_json)
    verified = ledger.verify(releases=[released.to_json()])
    _say(f"   {verified.entries} entries, head {verified.head[:16]}...", as_json)

    _say("9. Compare with the exact values, which a simulation knows", as_json)
    error = float(np.sqrt(np.mean((released.value - truth) ** 2)))
    policy_error = abs((released.policy_value or 0.0) - float(truth.mean()))
    found = {"predicted_rmse": expected.rmse, "rmse": error, "policy_error": policy_error}
    made: dict[str, Any] = {"folder": folder, "study": study_file, "data": data}
    made |= {"private_page": page, "ledger": ledger_file, "ledger_head": released.ledger_head}
    made |= {"release": files.release, "report": files.page}
    made |= {"registry": files.registry, "values": files.values}
    if as_json:
        print_json({**made, **found})
        return
    show_release(released)
    _show(describe_account(account, str(ledger_file)), as_json, sections=("budget",))
    _tell(found, made)


def _tell(found: dict[str, float | None], made: dict[str, Any]) -> None:
    say(
        f"Root mean square error against the exact values: {found['rmse']:.4f} (planned: "
        f"{found['predicted_rmse']:.4f}); the policy's overall value is off by "
        f"{found['policy_error']:.4f}."
    )
    say("Where to look:")
    say(f"  {made['report']}  the report: open it in a browser")
    say(f"  {made['values']}  every value, for a spreadsheet or a program")
    say(f"  {made['registry']}  the entry for a registry of deployments")
    say(f"  {made['private_page']}  the curator's PRIVATE page, kept apart from what is public")


def _say(step: str, as_json: bool) -> None:
    if as_json:
        log.event("step", step)
    else:
        screen().print(step, style="bold")


def _show(description: Description, as_json: bool, **how: Any) -> None:
    if not as_json:
        terminal.show(screen(), description, **how)


def _vacant_folder(out: Path) -> Path:
    """Return ``out``, or the first of ``out-2``, ``out-3``, ... that is empty."""
    for number in range(1, 1000):
        folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
        if not folder.exists() or not any(folder.iterdir()):
            return folder
    raise UsageError(f"{out} and 998 more like it are not empty; remove some")
