"""Go through the whole journey on the built-in recovery chain, with files, as a user would."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privalue._folder import require_publishable
from privalue._types import Progress
from privalue.curator import Prepared, inspect, prepare, release
from privalue.errors import UsageError
from privalue.ledger import Account, open_ledger
from privalue.planning import Option, predict, public_model
from privalue.releases import Release
from privalue.report import (
    Published,
    publish,
    verdict,
    write_private_page,
)
from privalue.simulation import parse_world, simulate_to_file
from privalue.study import Study, study_template

WORLD = "chain:N=40,p=0.5,discount=0.99"
TRAJECTORIES = 30_000
SEED = 20160620
DATASET = "recovery-demo"
TOTAL_EPSILON, TOTAL_DELTA = 2.0, 1e-5
JUSTIFICATION = (
    "A demonstration on simulated people: epsilon 1 of a total of 2, so that one more release like "
    "this one stays possible."
)

STUDY: Mapping[tuple[str, str], str] = {
    ("study", "name"): '"recovery-chain"',
    ("study", "dataset"): f'"{DATASET}"',
    ("study", "trajectories"): str(TRAJECTORIES),
    ("values", "start"): '"start.csv"',
}


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demonstration made."""

    study: Path
    data: Path
    private_page: Path
    ledger: Path
    account: Account
    release: Release
    files: Published
    predicted: float
    error: float  # root mean square over the states, against the exact values
    policy_error: float


def run(
    folder: Path,
    *,
    say: Callable[[str], None],
    checked: Callable[[Prepared], None],
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> Demo:
    """Simulate, describe, check, plan, declare, release, verify, compare; each step leaves a file.

    Args:
        folder: where the files go.
        say: gets a line before each step.
        checked: gets the study, checked without data.
        progress: shows a bar while its block runs.

    Returns:
        The files, and how far the release is from the exact values.
    """
    public, private = folder / "released", folder / "curator"
    require_publishable(public)
    for place in (folder, private):
        place.mkdir(parents=True, exist_ok=True)
    world = parse_world(WORLD)
    truth = world.process.values

    data = private / "trajectories.parquet"
    say(f"1. Simulate {TRAJECTORIES:,} people on the recovery chain: {data}")
    with progress("Simulating") as update:
        simulate_to_file(
            world,
            trajectories=TRAJECTORIES,
            seed=SEED,
            out=data,
            progress=lambda done: update(done, TRAJECTORIES),
        )

    study_file = folder / "study.toml"
    say(f"2. Describe the study, in public terms only: {study_file}")
    study_file.write_text(study_template(STUDY), encoding="utf-8")
    start = ["state,probability", *(f"{s},{1 / len(truth)!r}" for s in range(len(truth)))]
    (folder / "start.csv").write_text("\n".join(start) + "\n", encoding="utf-8")

    say("3. Check it, without data")
    study = Study.load(study_file)
    checked(prepare(study))

    say("4. Plan: the error to expect, before any data is opened")
    model = public_model(study)
    prediction = predict(study, model, options=[Option(study=study, chosen=True)])
    say(f"   {verdict(prediction)}")

    say("5. The curator looks at the data before noise; the page stays with the data")
    with progress("Reading rows") as update:
        diagnostics = inspect(study, data, progress=update)
    page = write_private_page(diagnostics, private / "private.html")

    ledger_file = folder / "ledger.db"
    say(f"6. Give these people a total of epsilon {TOTAL_EPSILON:g}: {ledger_file}")
    ledger = open_ledger(ledger_file)
    ledger.declare(DATASET, epsilon=TOTAL_EPSILON, delta=TOTAL_DELTA, unit="trajectory")

    say(f"7. Release, once, on the ledger: {public}")
    with progress("Reading rows") as update:
        released = release(study, data, ledger=ledger, progress=update)
    account = ledger.account(DATASET)
    files = publish(released, public, study=study, account=account, justification=JUSTIFICATION)

    say("8. Verify that the ledger is intact, and that this release is on it")
    verified = ledger.verify(releases=[released.to_json()])
    say(f"   {verified.entries} entries, head {verified.head[:16]}...")

    say("9. Compare with the exact values, which a simulation knows")
    values = np.array([entry.value for entry in released.values])
    error = float(np.sqrt(np.mean((values - truth) ** 2)))
    assert released.policy_value is not None
    return Demo(
        study=study_file,
        data=data,
        private_page=page,
        ledger=ledger_file,
        account=account,
        release=released,
        files=files,
        predicted=prediction.chosen.rmse,
        error=error,
        policy_error=abs(released.policy_value - float(truth.mean())),
    )


def vacant_folder(out: Path) -> Path:
    """Return ``out``, or the first of ``out-2``, ``out-3``, ... that is empty.

    Neither a release nor a ledger is ever overwritten.
    """
    for number in range(1, 1000):
        folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
        if not folder.exists() or not any(folder.iterdir()):
            return folder
    raise UsageError(f"{out} and 998 more like it are not empty; remove some")
