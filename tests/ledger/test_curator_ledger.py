"""The sequence of a release with a ledger: find, account, read, charge, draw, keep, commit."""

import csv
import io
import json
import os
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver
from oracles.ledgers import BOTH
from oracles.release_driver import STUDY, releases
from oracles.studies import study
from privalue import curator
from privalue.cli import run
from privalue.ledger import open_ledger

DATA = [[(0, 0.5), (1, 1.0)]] * 600


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "ledger.db")
    opened.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory")
    return opened


def described(name="one", **sections):
    """Useful with so few people, as dp-lsw would not be."""
    best = {"name": "dp-ssp", "calibration": "exact"}
    keys = {"returns": (0.0, 1.0), "mechanism": best, **sections}
    about = {"name": name, "dataset": "trial", "trajectories": 600}
    return study(2, study=about, privacy={"epsilon": 0.5}, **keys)


def spent(ledger):
    return ledger.account("trial").spent.as_floats()[0]


def test_a_release_spends_once_and_the_identical_request_nothing(ledger):
    first = pv.release(described(), DATA, ledger=ledger)
    assert spent(ledger) == 0.5
    again = pv.release(described(), "no such file.csv", ledger=ledger)
    assert again == first  # the data is not even opened
    assert (first.reused, again.reused, spent(ledger)) == (False, True, 0.5)
    assert pv.release(described("two"), DATA, ledger=ledger) != first
    with pytest.raises(pv.BudgetError, match=r'"trial": requested epsilon 0.5.*left epsilon 0'):
        pv.release(described("three"), "no such file.csv", ledger=ledger)  # before it is opened
    assert spent(ledger) == 1.0


def test_the_release_carries_the_head_of_its_own_charge(ledger, tmp_path):
    release = pv.release(described(), DATA, ledger=ledger)
    text = release.save(tmp_path / "out").read_text()
    ledger.verify(heads=[release.ledger_head], releases=[text])
    with pytest.raises(pv.PrivalueError, match="no entry commits the release"):
        ledger.verify(releases=[text.replace("0", "1")])


@pytest.mark.parametrize("data", [[[(7, 1.0)]], [[(0, float("nan"))]], "no such file.csv"])
def test_invalid_input_leaves_nothing(ledger, data):
    head = ledger.head()
    with pytest.raises(pv.DataError):
        pv.release(described(), data, ledger=ledger)
    assert ledger.head() == head


def test_what_does_not_go_on_a_gaussian_total_is_refused_before_data_is_opened(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    total = {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory", "accounting": "gaussian"}
    ledger.declare("trial", **total)
    smooth = described(mechanism={"name": "dp-lsw", "calibration": "exact"})
    with pytest.raises(pv.BudgetError, match="a plain dataset under another name"):
        pv.release(smooth, "no such file.csv", ledger=ledger, accept_useless=True)
    pv.release(described(), DATA, ledger=ledger)
    assert ledger.account("trial").spent.mu2 > 0


@pytest.mark.parametrize("step", ["noise", "draw", "_public_noise", "Release"])
def test_once_statistics_exist_the_charge_stays_whatever_happens(ledger, step, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError

    if step == "noise":
        monkeypatch.setattr("privalue.core.mechanisms.add_noise", crash)
    else:
        monkeypatch.setattr(curator, step, crash)
    with pytest.raises(RuntimeError):
        pv.release(described(), DATA, ledger=ledger)
    assert spent(ledger) == 0.5


def test_choices_that_do_not_go_together(ledger):
    with pytest.raises(pv.UsageError, match="dataset"):
        pv.release(study(2), DATA, ledger=ledger)
    with pytest.raises(pv.UsageError, match="ledger is a int; give a file, the address"):
        pv.release(described(), DATA, ledger=7)
    with pytest.raises(pv.LedgerError) as caught:
        pv.release(described(), DATA, ledger="postgresql://me:sec/ret@host/db")
    assert "ret@" not in str(caught.value)
    with pytest.raises(pv.UsageError, match="seeded"):
        pv.release(described(), DATA, ledger=ledger, entropy=pv.SeededForExperimentsOnly(1))
    assert spent(ledger) == 0.0


# No size on a ledger


def without_draws(release):
    """Everything that leaves, but for the drawn numbers, and what follows from them."""
    said = json.loads(release.to_json())
    for drawn in ("values", "statistics", "stages", "ledger_head", "theta", "tables"):
        said.pop(drawn, None)
    return {key: value for key, value in said.items() if "policy" not in key}


@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw", "dp-lsl"])
def test_two_subsets_of_one_dataset_leave_the_same_for_neighbours(tmp_path, mechanism):
    """Somebody of ward A is replaced by somebody of ward B: no size tells."""
    left = []
    for case, (in_a, in_b) in enumerate(((500, 500), (499, 501))):
        ledger = open_ledger(tmp_path / f"{case}.db")
        ledger.declare("trial", epsilon=2.0, delta=1e-4, unit="trajectory")
        for ward, people in (("a", in_a), ("b", in_b)):
            chosen = described(ward, mechanism={"name": mechanism, "calibration": "exact"})
            data = [[(0, 0.5), (1, 1.0)]] * people
            with _quiet():
                made = pv.release(chosen, data, ledger=ledger, accept_useless=True)
            assert (made.trajectories, made.persons) == (None, None)
            left.append((ward, without_draws(made)))
    assert left[:2] == left[2:]


def _quiet():
    import warnings

    return warnings.catch_warnings(action="ignore")


def test_without_a_dataset_the_size_stays_public(tmp_path):
    alone = study(2, privacy={"epsilon": 0.5}, returns=(0.0, 1.0))
    assert pv.release(alone, DATA, accept_useless=True).trajectories == 600


def test_a_declared_size_is_not_compared_with_the_data(ledger):
    other = described().replace(trajectories=599)
    assert pv.release(other, DATA, ledger=ledger).trajectories is None


def test_a_rule_that_needs_a_size_asks_for_it_before_reading(ledger):
    chosen = described(mechanism={"name": "dp-lsl", "calibration": "exact"})
    chosen = chosen.replace(trajectories=None)
    with pytest.raises(pv.StudyError, match=r"\[study\] trajectories is missing"):
        pv.release(chosen, "no such file.csv", ledger=ledger)


# kill -9 at every step of the command

LONG = os.environ.get("PRIVALUE_LONG") == "1"
STEPS = [
    "Ledger.find.after",
    "curator.read_statistics.before",
    "curator.read_statistics.after",
    "Ledger.charge.before",
    "Ledger.charge.after",
    "curator.draw.after",
    "Outbox.fill.after",
    "Ledger.commit.before",
    "Ledger.commit.after",
    "Release.save.after",
]
# Turn by turn as a rule, each step on both in ``make long``.
KILLS = [f"{step}@{BOTH[(at + turn) % 2]}" for turn in (1, 0) for at, step in enumerate(STEPS)]
KILLS = KILLS if LONG else KILLS[: len(STEPS)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folders of releases that were killed, one at each step."""
    folder = tmp_path_factory.mktemp("killed")
    answers = release_driver.drive(folder, "steps", *KILLS)
    assert [answer["killed"] for answer in answers] == [True] * len(KILLS)
    return folder


@pytest.mark.parametrize("kill", KILLS)
def test_kill_9_never_spends_less_than_is_released(kill, killed, monkeypatch, capsys):
    step, accounting = kill.split("@")
    position = STEPS.index(step)
    folder = killed / str(KILLS.index(kill))
    monkeypatch.chdir(folder)
    assert open_ledger("ledger.db").account("trial").terms.accounting == accounting
    released = (folder / "out" / "release.json").exists()
    assert released == (position == len(STEPS) - 1)
    assert releases() == (1 if position >= 4 else 0)

    code = run([*release_driver.COMMAND, "second"])
    said = " ".join("".join(capsys.readouterr()).split())
    if (
        position < 4
    ):  # a job that is killed while it reads leaves nothing, and its next run succeeds
        assert code == 0
        assert "Not new" not in said
    elif position >= 8:
        assert code == 0
        assert "Not new: the identical request was answered" in said
    else:
        assert code == 4
        assert (
            "has no release yet: finish what that run kept, or set another [study] period" in said
        )
    assert releases() == 1


# The commands


def test_the_ledgers_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    Path("study.toml").write_text(STUDY.replace("[study]", '[study]\nname = "recovery"'))
    Path("data.csv").write_text("trajectory,step,state,reward\n" + release_driver.ROWS)
    release = ["release", "study.toml", "--data", "data.csv", "--ledger", "ledger.db", "--out"]
    assert run([*release, "r0"]) == 4
    declare = ["ledger", "declare", "trial", "--epsilon", "0.8", "--delta", "1e-5"]
    declare += ["--unit", "trajectory"]
    assert run([*declare, "--reason", "agreed on Monday"]) == 0
    assert run(declare) == 0  # exactly what stands
    assert open_ledger("ledger.db").verify().entries == 1
    for option, value in (("--epsilon", "0.9"), ("--delta", "2e-5"), ("--unit", "person")):
        assert run([*declare, option, value]) == 4  # the last one counts
    assert "--replace" in capsys.readouterr().err
    assert run([*release, "r1"]) == 0
    assert "Charged epsilon 0.5, delta 1e-6 to trial; left: epsilon 0.3" in capsys.readouterr().err
    assert run(["ledger", "verify", "--release", "r1", "r1"]) == 0
    capsys.readouterr()
    assert run(["ledger", "show", "trial", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["ledger"] == "ledger.db"
    assert account["left"] == {"epsilon": 0.3, "delta": 9e-6}
    assert run(["ledger", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"datasets": [account]}
    assert run(["ledger", "show"]) == 0
    assert "epsilon 0.3" in capsys.readouterr().out
    assert run(["ledger", "show", "nobody"]) == 4
    assert run([*release, "r2", "--no-ledger"]) == 2
    content = bytearray(Path("ledger.db").read_bytes())
    at = content.find(b'"trial"')
    content[at + 1 : at + 6] = b"tribe"
    Path("ledger.db").write_bytes(bytes(content))
    assert run(["ledger", "verify"]) == 5


@pytest.mark.parametrize("accounting", BOTH)
def test_a_statement_tells_day_who_what_cost_and_left(tmp_path, monkeypatch, capsys, accounting):
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("ledger.db")
    total = {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory", "accounting": accounting}
    ledger.declare("trial", **total, reason="agreed on Monday")
    pv.release(described("recovery"), DATA, ledger=ledger)
    assert run(["ledger", "statement", "trial", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["what"] for row in rows] == [
        "total of epsilon 1, delta 1e-5: agreed on Monday",
        "recovery",
        "release of entry 2",
    ]
    assert [bool(row["cost"]) for row in rows] == [False, True, False]
    assert rows[1]["left"] == rows[2]["left"] != rows[0]["left"]
    assert {row["day"] for row in rows} == {
        pv.release(described("recovery"), DATA, ledger=ledger).created
    }
    assert run(["ledger", "statement", "trial", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert lines[1]["cost"]["epsilon"] == (0.5 if accounting == "plain" else 0.431033)
    assert lines[1]["kind"] == "charge"
    assert run(["ledger", "statement", "trial"]) == 0
    assert "recovery" in capsys.readouterr().out
    assert run(["ledger", "statement", "nobody"]) == 4


def test_a_file_of_heads_notices_an_old_copy(ledger, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    old, verify = Path("ledger.db").read_bytes(), ["ledger", "verify", "--heads", "heads.txt"]
    for _ in range(2):
        assert run(verify) == 0
    assert len(Path("heads.txt").read_text().splitlines()) == 1
    pv.release(described(), DATA, ledger=ledger)
    assert run(verify) == 0
    capsys.readouterr()
    assert run(["ledger", "head"]) == 0
    assert Path("heads.txt").read_text().splitlines()[-1] == capsys.readouterr().out.strip()
    Path("ledger.db").write_bytes(old)
    assert run(verify) == 5
    assert "it lacks the head" in capsys.readouterr().err
    for content, code in (("ledger.db nonsense\n", 2), (b"\xff\xfe", 3)):
        Path("heads.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
        assert run(verify) == code
    assert run(["ledger", "verify", "--head", "0" * 64]) == 5
    assert run(["ledger", "verify", "--head", " "]) == 2


def test_delta_is_compared_with_the_declared_size_before_anything_is_read(ledger):
    """With a ledger nothing is counted: what the study declares is all there is to compare with."""
    ledger.declare("trial", epsilon=1.0, delta=0.1, unit="trajectory", replace=True)
    large = described().replace(delta=0.04)
    with pytest.raises(pv.StudyError, match="is not below 1/m"):
        pv.release(large, "no such file.csv", ledger=ledger)
    with pytest.warns(pv.PrivalueWarning, match="nobody compares delta with 1/m"):
        pv.release(large.replace(trajectories=None), DATA, ledger=ledger, accept_useless=True)
