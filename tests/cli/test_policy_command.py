"""Another policy's value on the command line: check, plan, inspect, release, report."""

import json

import pytest

from privalue.cli._app import run

STUDY = """
[study]
name = "another"
[privacy]
epsilon = 1.0
unit = "trajectory"
[values]
discount = 1.0
returns = [0.0, 1.0]
[states]
count = 2
[actions]
count = 2
[policy]
target = "target.csv"
behaviour = "column"
clip = 3.0
[mechanism]
name = "dp-ope"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("policy")
    (made / "study.toml").write_text(STUDY)
    (made / "starts.toml").write_text(STUDY.replace("clip = 3.0", 'clip = 3.0\nby = "start"'))
    one = [f"{n},0,0,{n // 2 % 2},{n // 2 % 2},0.1" for n in range(3000)]
    (made / "one.toml").write_text(
        STUDY.replace("count = 2\n[actions]", "count = 1\n[actions]")
        .replace("clip = 3.0", 'clip = 3.0\nby = "start"')
        .replace("target.csv", "one.csv")
    )
    (made / "one.csv").write_text("state,action,probability\n0,0,.2\n0,1,.8\n")
    (made / "target.csv").write_text("state,action,probability\n0,0,.2\n0,1,.8\n1,1,1\n")
    rows = [f"{n},0,{n % 2},{n // 2 % 2},{n // 2 % 2},0.5" for n in range(1200)]
    heading = "trajectory,step,state,action,reward,probability"
    (made / "rows.csv").write_text("\n".join([heading, *rows]) + "\n")
    (made / "rows-of-one.csv").write_text("\n".join([heading, *one]) + "\n")
    return made


def told(capsys, *arguments):
    code = run([str(word) for word in arguments])
    out = capsys.readouterr()
    assert code == 0, out.err
    return out.out


def test_check_and_plan_need_no_data(folder, capsys):
    out = told(capsys, "check", folder / "study.toml")
    assert "clip = 3; behaviour: logged in the rows" in " ".join(out.replace("│", " ").split())
    plan = json.loads(told(capsys, "plan", folder / "study.toml", "--trajectories", 1200, "--json"))
    assert {each["clip"] for each in plan["clips"]} == {1, 2, 3, 5, 10, 20, 50, 100}
    codes = [notice["code"] for notice in plan["notices"]]
    assert "behaviour-in-rows" in codes
    assert "clip" in told(capsys, "plan", folder / "study.toml", "--trajectories", 1200)


def test_a_check_says_once_that_returns_are_wide(folder, capsys):
    wide = STUDY.replace("discount = 1.0\nreturns", "discount = 0.9\nrewards")
    (folder / "wide.toml").write_text(wide)
    notes = json.loads(told(capsys, "check", folder / "wide.toml", "--json"))["notes"]
    assert sum("returns are bounded by rewards and discount alone" in note for note in notes) == 1
    assert len(set(notes)) == len(notes)


def test_inspect_is_private(folder, capsys):
    fields = json.loads(
        told(capsys, "inspect", folder / "study.toml", "--data", folder / "rows.csv", "--json")
    )
    assert fields["kept_mass"] == pytest.approx([1.0])
    assert fields["policy_values"] == pytest.approx([0.9])
    shown = told(capsys, "inspect", folder / "study.toml", "--data", folder / "rows.csv")
    assert "Before noise (PRIVATE)" in shown


def test_there_is_no_private_page(folder, capsys, tmp_path):
    page = ["--page", str(tmp_path / "private.html")]
    asked = ["inspect", str(folder / "study.toml"), "--data", str(folder / "rows.csv"), *page]
    assert run(asked) == 2
    assert "--page is not for dp-ope" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("study", ["study", "starts"])
def test_a_release_is_shown_and_written(folder, capsys, tmp_path, study):
    out = told(
        capsys, "release", folder / f"{study}.toml", "--data", folder / "rows.csv",
        "--out", tmp_path / "out", "--no-ledger",
    )  # fmt: skip
    assert "1-differentially private" in out
    assert "none of that can be checked here" in " ".join(out.split())
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"release.json", "report.html", "registry.yaml", "values.csv"}
    assert "pure epsilon-differential privacy" in (tmp_path / "out/registry.yaml").read_text()
    (tmp_path / "out/report.html").unlink()
    told(capsys, "report", tmp_path / "out", "--force")
    page = (tmp_path / "out/report.html").read_text()
    told(capsys, "report", tmp_path / "out", "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page


def test_a_table_by_start_has_a_column_of_flags(folder, capsys, tmp_path):
    """Probabilities of a tenth where half was done: weights that no right behaviour allows."""
    out = told(
        capsys, "release", folder / "one.toml", "--data", folder / "rows-of-one.csv",
        "--out", tmp_path / "out", "--no-ledger",
    )  # fmt: skip
    assert "flag" in out.partition("Both policies")[2]
    flat = " ".join(out.split())
    assert "Be careful (not supported: weights exceed what any right behaviour allows" in flat
    assert "at 1 of 1 start, each at the level" in flat
    checked = " ".join(told(capsys, "check", folder / "one.toml").replace("│", " ").split())
    assert "one number for each of 1 start" in checked
    assert "1 starts" not in checked + flat + (tmp_path / "out/report.html").read_text()
