"""Seeded studies give what they gave before: releases, and the curator's numbers.

``freeze.py`` records and compares, in processes of its own; ``compare.py`` says how closely.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from frozen.compare import FOLLOWS_PSI, PSI, differences
from frozen.freeze import PLAIN_KERNELS
from frozen.record import LEFT_OUT, RECORDS, flatten, load, make_record, of_release, save, strip
from frozen.studies import STUDIES
from privalue.cli import run

TESTS = Path(__file__).parents[1]
LOCAL = [name for name, study in STUDIES.items() if study.engine == "local"]
SPARK = [name for name, study in STUDIES.items() if study.engine == "spark"]
SSP, SMOOTH = "csv-ordered", "lsw-start"


def compare_in_a_process(names):
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "frozen.freeze", "--compare", *names],
        env={**os.environ, **PLAIN_KERNELS, "PYTHONPATH": path},
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "names",
    [LOCAL[::2], LOCAL[1::2]],  # two processes, about as long
    ids=lambda names: f"{names[0]}, {names[1]}, ...",
)
def test_studies_give_their_recorded_results(names):
    process = compare_in_a_process(names)
    assert (process.returncode, process.stdout) == (0, ""), process.stdout + process.stderr


@pytest.mark.long
def test_studies_give_their_recorded_results_on_spark():
    """One process, and one session in it, for all of them."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime, and there is none")
    process = compare_in_a_process(SPARK)
    assert (process.returncode, process.stdout) == (0, ""), process.stdout + process.stderr


def test_every_study_has_a_record_and_every_record_a_study():
    assert {file.name for file in RECORDS.iterdir()} == {f"{name}.json" for name in STUDIES}
    assert sum(file.stat().st_size for file in RECORDS.iterdir()) < 400_000


def test_days_versions_and_descriptions_are_left_out_and_nothing_else(tmp_path):
    record = load(SSP)
    added = {"release.created": "2031-01-02", "release.study.values.discount": 0.9}
    assert strip({**record, **added, "release.values.flags": [[]]}) == record
    for name in LEFT_OUT:
        near = {f"release.{name}s": 1, f"release.my_{name}": 1}
        assert strip({**record, **near, f"release.values.{name}": 1}) == {**record, **near}
    save({**record, **added}, "copy", tmp_path)
    assert repr(load("copy", tmp_path)) == repr(record)


def test_the_command_line_gives_the_same(tmp_path, monkeypatch, capsys):
    """The same release, and the same numbers for the curator, from files alone.

    It is compared with what the library gives in this very process, whatever its kernels.
    """
    monkeypatch.chdir(tmp_path)
    frozen = STUDIES[SSP]
    expected = make_record(frozen)
    study, data = str(frozen.study_file(tmp_path)), str(frozen.data(tmp_path))
    release = ["release", study, "--data", data, "--out", "out", "--no-ledger", "--accept-useless"]
    seeded = ["--accept-large-delta", "--seed-not-private", str(frozen.seed)]
    assert run([*release, *seeded]) == 0
    public = strip(of_release((tmp_path / "out" / "release.json").read_text()))
    capsys.readouterr()
    assert run(["inspect", study, "--data", data, "--json"]) == 0
    private = strip(flatten(json.loads(capsys.readouterr().out), "private"))
    lines = differences(expected, {**private, **public}, smooth=False)
    assert lines == ["private.return_steps: gone"], "which only Python has"


# The comparison notices


def differences_after(name, changes):
    """What the comparison says of a record that was changed."""
    record = load(name)
    return differences(record, {**record, **changes}, smooth=STUDIES[name].smooth)


def names_of(lines):
    return {line.split(":")[0].split("[")[0] for line in lines}


def test_equal_records_have_no_difference():
    assert all(not differences_after(name, {}) for name in STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_of_every_record_counts(name):
    """One unit in the last place, or one more, is found, but for what may follow psi."""
    for key, value in load(name).items():
        for at, number in enumerate(value if isinstance(value, list) else [value]):
            other = off_by_least(number)
            if other is None:
                continue
            changed = [*value[:at], other, *value[at + 1 :]] if isinstance(value, list) else other
            lines = differences_after(name, {key: changed})
            may_follow = STUDIES[name].smooth and key in FOLLOWS_PSI
            assert names_of(lines) == (set() if may_follow else {key}), key


def off_by_least(number):
    if isinstance(number, bool):
        return not number
    if isinstance(number, int):
        return number + 1
    return math.nextafter(number, math.inf) if isinstance(number, float) else None


@pytest.mark.parametrize("name", [SSP, SMOOTH])
def test_missing_new_and_converted_numbers_are_found(name):
    record = load(name)
    less = {key: record[key] for key in record if key != "release.theta"}
    assert differences(record, less, smooth=STUDIES[name].smooth) == ["release.theta: gone"]
    assert differences(less, record, smooth=STUDIES[name].smooth) == ["release.theta: new"]
    counts = record["private.counts"]
    for other in (counts[:-1], [float(counts[0]), *counts[1:]], [-0.0, *counts[1:]], None):
        assert names_of(differences_after(name, {"private.counts": other})) == {"private.counts"}


def move_psi(record, by):
    """The curator's numbers with a psi that moved by a relative ``by``, and what follows it."""
    scale = 1 + by
    return {
        "private.psi": record["private.psi"] * scale,
        "private.sigma": record["private.sigma"] * scale**0.5,
        "private.noise_by_state": [x * scale**0.5 for x in record["private.noise_by_state"]],
    }


def test_a_psi_within_its_tolerance_may_move_a_released_number_by_a_grid_step():
    record = load(SMOOTH)
    near, far = move_psi(record, 0.9 * PSI), move_psi(record, 1.1 * PSI)
    assert differences_after(SMOOTH, near) == []
    assert names_of(differences_after(SMOOTH, far)) == {"private.psi"}

    def step(steps):
        first, *rest = record["release.theta"]
        return {"release.theta": [first + steps * record["release.noise.grid"], *rest]}

    assert differences_after(SMOOTH, near | step(1)) == []
    assert differences_after(SMOOTH, near | step(1.5)) != []
    assert differences_after(SMOOTH, step(1)) != [], "psi is the same: nothing may move"
    alpha = record["release.noise.alpha"] * (1 + 1e-12)
    assert differences_after(SMOOTH, near | {"release.noise.alpha": alpha}) != []
    # of DP-SSP, nothing may move at all
    assert differences_after(SSP, move_psi(load(SSP), 1e-15)) != []


@pytest.mark.parametrize("name", [SSP, "arms", "actions", "shrink", "refit", "ope-column"])
def test_a_change_of_a_study_is_found(name):
    """Not only in a record itself: a bound of rewards that is off by 1e-9 moves sums of returns."""
    frozen = STUDIES[name]
    values = {**frozen.sections["values"], "rewards": (0.0, 1.0 + 1e-9)}
    other = replace(frozen, sections={**frozen.sections, "values": values})
    lines = names_of(differences(load(name), make_record(other), smooth=False))
    assert "private.return_steps" in lines
    assert not {"private.counts", "private.rows"} & lines


@pytest.mark.parametrize("name", ["arms-start", "actions-allowed", "shrink-arms", "ope-start"])
def test_another_seed_changes_released_numbers_and_no_private_ones(name):
    other = replace(STUDIES[name], seed=1)
    lines = names_of(differences(load(name), make_record(other), smooth=False))
    assert {"release.values.value", "release.values.total_low"} <= lines
    assert not any(line.startswith("private") for line in lines)
