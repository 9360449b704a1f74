"""What readers see of arms, and of trajectories that were cut off."""

import csv
import json

import numpy as np
import pytest

import privalue as pv
from oracles.studies import study
from privalue.cli._app import run
from privalue.report import public_page, write_report

SSP = {"name": "dp-ssp", "calibration": "exact"}
LABELS = ["control", "=treated"]
SEEDED = pv.SeededForExperimentsOnly(1)


def described(count=3, **sections):
    return study(
        count,
        mechanism=SSP,
        returns=(0.0, 1.0),
        arms={"labels": LABELS},
        values={"start": {"0": 1.0}, **sections.pop("values", {})},
        **sections,
    )


def released(chosen, count=3000, states=3, cut=(), entropy=SEEDED):
    rng = np.random.default_rng(2)
    people = [
        [(int(state), float(rng.random() < 0.5), LABELS[int(arm)], *cut)]
        for state, arm in zip(rng.integers(states, size=count), rng.integers(2, size=count))  # noqa: B905
    ]
    return pv.release(chosen, people, entropy=entropy, accept_useless=True)


def test_values_have_their_arms_in_a_column(tmp_path):
    chosen = described()
    release = released(chosen)
    write_report(release, tmp_path, study=chosen)
    with (tmp_path / "values.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["state"], row["arm"]) for row in rows] == [
        (str(state), arm) for arm in ("control", "'=treated") for state in range(3)
    ]  # an apostrophe: a spreadsheet would take it for a formula
    assert [float(row["value"]) for row in rows] == [entry.value for entry in release.values]


def test_a_page_has_the_arms_side_by_side():
    release = released(described())
    page = public_page(release)
    assert "The arms side by side" in page
    assert "3 states in each of 2 arms" in page
    assert "Differences of =treated from control" in page
    assert 'class="pv-value pv-arm1' in page  # the second arm's marks have another colour
    assert "only where chance decided who" in page
    assert "Overall value of the policy, =treated" in page
    # Intervals of differences are those of both arms, at the level at which both hold together.
    assert "the half-widths of both intervals add up as squares" in page
    assert "A band holds for all states and all arms at once" in page
    without = public_page(
        pv.release(
            study(2, mechanism=SSP, returns=(0.0, 1.0)),
            [[(0, 1.0)]] * 500,
            entropy=pv.SeededForExperimentsOnly(1),
            accept_useless=True,
        )
    )
    assert "The arms side by side" not in without


def test_a_page_of_very_many_states_has_arms_too():
    page = public_page(released(described(450), states=450))
    assert page.count("<tr>") > 3 * 450  # a table of values, and one of differences
    assert "0 to 14" in page  # the first group of states, with a mark for each arm


CUT = {"data": {"truncated": "cut"}}


@pytest.mark.parametrize(
    ("values", "words", "others"),
    [
        (
            {},
            "Trajectories that were cut off were kept.",
            "Values are of those whose end was seen.",
        ),
        (
            {"truncated": "drop-unit"},
            "Values are of those whose end was seen.",
            "Trajectories that were cut off were kept.",
        ),
    ],
)
def test_a_page_says_what_becomes_of_those_who_were_cut_off(values, words, others):
    release = released(
        described(values=values, study={"trajectories": 3000}, **CUT), cut=(False,), entropy=None
    )
    page = public_page(release)
    assert words in page
    assert others not in page
    assert "Missing data stays missing." not in page
    assert "Missing data stays missing." in public_page(released(described()))
    assert ("counts as if it were not there" in page) == bool(values)


def test_the_terminal_has_the_arms_side_by_side(tmp_path, capsys):
    study_file = tmp_path / "study.toml"
    study_file.write_text(
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"\n'
        "[values]\ndiscount = 0.9\nrewards = [0.0, 1.0]\nreturns = [0.0, 1.0]\n"
        'truncated = "keep"\n'
        '[states]\ncount = 2\n[arms]\nlabels = ["control", "treated"]\n'
        '[data]\ntruncated = "cut"\n'
    )
    rows = ["trajectory,step,state,reward,arm,cut"]
    rows += [
        f"{n},0,{n % 2},{n % 3 // 2},{('control', 'treated')[n % 4 // 2]},no" for n in range(800)
    ]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    said = {}
    for command in (
        ["check", str(study_file)],
        ["plan", str(study_file), "--trajectories", "800"],
        [
            *("release", str(study_file), "--data", str(tmp_path / "data.csv")),
            *("--out", str(tmp_path / "out"), "--no-ledger"),
        ],
        ["inspect", str(study_file), "--data", str(tmp_path / "data.csv"), "--json"],
        ["report", str(tmp_path / "out"), "--force", "--json"],
    ):
        assert run(command) == 0, capsys.readouterr()
        said[command[0]] = " ".join(capsys.readouterr().out.split())
    assert "kept, as if they had ended there" in said["check"]
    assert "2, 2 in each of 2 arms" in said["check"]
    assert "treated less control" in said["release"]
    assert "How many are in each is not public" in said["release"]
    assert len(json.loads(said["inspect"])["counts"]) == 4
    assert (
        len(
            json.loads((tmp_path / "out" / "release.json").read_text())["tables"]["differences"][
                "value"
            ]
        )
        == 2
    )
