"""The sequence of a release with a ledger: find, account, read, charge, draw, keep, commit."""

import json
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver, studies
from oracles.refusals import refused
from oracles.release_driver import STUDY
from privalue import curator
from privalue.cli import run
from privalue.ledger import open_ledger

DATA = [[(0, 0.5), (1, 1.0)]] * 600
TOTAL = {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory"}


@pytest.fixture
def ledger(tmp_path):
    new_ledger = open_ledger(tmp_path / "ledger.db")
    new_ledger.declare("trial", **TOTAL)
    return new_ledger


def make_study(name="one", **sections):
    """Useful with so few people, as dp-lsw would not be."""
    best = {"name": "dp-ssp", "calibration": "exact"}
    keys = {"returns": (0.0, 1.0), "mechanism": best, **sections}
    about = {"name": name, "dataset": "trial", "trajectories": 600}
    return studies.make_study(2, study=about, privacy={"epsilon": 0.5}, **keys)


def spent(ledger):
    return ledger.account("trial").spent.as_floats()[0]


def test_a_release_spends_once_and_the_identical_request_nothing(ledger):
    first = pv.release(make_study(), DATA, ledger=ledger)
    assert spent(ledger) == 0.5
    again = pv.release(make_study(), "no such file.csv", ledger=ledger)
    assert again == first  # the data is not even opened
    assert (first.reused, again.reused, spent(ledger)) == (False, True, 0.5)
    assert pv.release(make_study("two"), DATA, ledger=ledger) != first
    with refused("budget-exceeded"):
        pv.release(make_study("three"), "no such file.csv", ledger=ledger)  # before it is opened
    assert spent(ledger) == 1.0


def test_the_release_carries_the_head_of_its_own_charge(ledger, tmp_path):
    release = pv.release(make_study(), DATA, ledger=ledger)
    text = release.save(tmp_path / "out").read_text()
    ledger.verify(heads=[release.ledger_head], releases={"it": text})
    with pytest.raises(pv.LedgerError, match="release 2"):
        ledger.verify(releases={"release 1": text, "release 2": text.replace("0", "1")})


@pytest.mark.parametrize("data", [[[(7, 1.0)]], [[(0, float("nan"))]], "no such file.csv"])
def test_invalid_input_leaves_nothing(ledger, data):
    head = ledger.head()
    with refused("cell-invalid", "cell-missing", "file-absent"):
        pv.release(make_study(), data, ledger=ledger)
    assert ledger.head() == head


def test_a_mechanism_without_mu_is_refused_on_a_gaussian_total_before_data_is_opened(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", **TOTAL, accounting="gaussian")
    smooth = make_study(mechanism={"name": "dp-lsw", "calibration": "exact"})
    with refused("not-convertible"):
        pv.release(smooth, "no such file.csv", ledger=ledger, accept_useless=True)
    pv.release(make_study(), DATA, ledger=ledger)
    assert ledger.account("trial").spent.mu2 > 0


@pytest.mark.parametrize("step", ["noise", "draw", "Release"])
def test_once_statistics_exist_every_failure_leaves_the_charge(ledger, step, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError

    if step == "noise":
        monkeypatch.setattr("privalue.core.mechanisms.add_noise", crash)
    else:
        monkeypatch.setattr(curator, step, crash)
    with refused("charged-lost"):
        pv.release(make_study(), DATA, ledger=ledger)
    assert spent(ledger) == 0.5


# No size on a ledger


def without_draws(release):
    """Everything that leaves, but for the drawn numbers, and what follows from them."""
    fields = json.loads(release.to_json())
    for name in ("values", "statistics", "stages", "ledger_head", "theta", "tables"):
        fields.pop(name, None)
    return {key: value for key, value in fields.items() if "policy" not in key}


@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw", "dp-lsl"])
def test_two_subsets_of_one_dataset_leave_the_same_for_neighbours(tmp_path, mechanism):
    """A person of ward A is replaced by one of ward B: no size shows it."""
    outputs = []
    for case, (in_a, in_b) in enumerate(((500, 500), (499, 501))):
        ledger = open_ledger(tmp_path / f"{case}.db")
        ledger.declare("trial", epsilon=2.0, delta=1e-4, unit="trajectory")
        for ward, people in (("a", in_a), ("b", in_b)):
            study = make_study(ward, mechanism={"name": mechanism, "calibration": "exact"})
            data = [[(0, 0.5), (1, 1.0)]] * people
            release = pv.release(study, data, ledger=ledger, accept_useless=True)
            assert (release.trajectories, release.persons) == (None, None)
            outputs.append((ward, without_draws(release)))
    assert outputs[:2] == outputs[2:]


# The commands


def test_the_ledgers_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    Path("study.toml").write_text(STUDY)
    Path("data.csv").write_text("trajectory,step,state,reward\n" + release_driver.ROWS)
    release = [*release_driver.COMMAND[:-1], "--out"]
    assert run([*release, "r0"]) == 4  # no total is declared
    declare = ["ledger", "declare", "trial", "--epsilon", "0.8", "--delta", "1e-5"]
    declare += ["--unit", "trajectory"]
    for _ in range(2):  # exactly what stands changes nothing
        assert run(declare) == 0
    assert open_ledger("ledger.db").verify().entries == 1
    for option, value in (("--epsilon", "0.9"), ("--delta", "2e-5"), ("--unit", "person")):
        assert run([*declare, option, value]) == 4  # the last one counts
    assert run([*release, "r1"]) == 0
    assert run(["ledger", "verify", "--release", "r1", "--release", "r1"]) == 0
    capsys.readouterr()
    assert run(["ledger", "show", "trial", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["left"] == {"epsilon": 0.3, "delta": 9e-6}
    assert run(["ledger", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"datasets": [account]}
    assert run(["ledger", "show", "nobody"]) == 4
    assert run([*release, "r2", "--no-ledger"]) == 2
    content = Path("ledger.db").read_bytes()
    Path("ledger.db").write_bytes(content.replace(b'"trial"', b'"tribe"', 1))
    assert run(["ledger", "verify"]) == 5


def test_a_file_of_heads_notices_an_old_copy(ledger, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    old = Path("ledger.db").read_bytes()
    verify = ["ledger", "verify", "--heads", "heads.txt", "--log-format", "json"]
    for first in (True, False):
        assert run(verify) == 0
        codes = [json.loads(line)["code"] for line in capsys.readouterr().err.splitlines()]
        assert ("no-earlier-heads" in codes) == first
    assert len(Path("heads.txt").read_text().splitlines()) == 1
    pv.release(make_study(), DATA, ledger=ledger)
    assert run(verify) == 0
    capsys.readouterr()
    assert run(["ledger", "head"]) == 0
    assert Path("heads.txt").read_text().splitlines()[-1] == capsys.readouterr().out.strip()
    Path("ledger.db").write_bytes(old)
    assert run(verify) == 5
    assert run(["ledger", "verify", "--head", "0" * 64]) == 5
    for content, code in ((b"ledger.db nonsense\n", 2), (b"\xff\xfe", 3)):
        Path("heads.txt").write_bytes(content)
        assert run(verify) == code
