"""Machines as they are: nobody's home, an installation that cannot be written, no cache."""

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

import privalue

SOURCE = Path(privalue.__file__).parent
STUDY = """
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 3
[mechanism]
name = "dp-ssp"
"""
ROWS = "trajectory,step,state,reward\n" + "".join(
    f"{n},{t},{t},{int(t == 2)}\n" for n in range(200) for t in range(3)
)


class Machine:
    """Runs Python as a user without a home; only the folder ``here`` may be written."""

    def __init__(self, top: Path, home: dict[str, str], uid: int | None) -> None:
        self.home, self.uid = home, uid
        self.source, self.here = top / "installed", top / "here"
        shutil.copytree(SOURCE, self.source / "privalue", ignore=shutil.ignore_patterns("__pyc*"))
        self.here.mkdir()
        if uid is not None:
            os.chown(self.here, uid, uid)
        for path in (self.source, *self.source.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        top.chmod(0o555)

    def python(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """A path to Python or its packages may lead through a folder of root's, which is closed to
        others; what is open already can be reached all the same."""
        places = (os.path.realpath(sys.executable), sys.base_prefix, site.getsitepackages()[0])
        opened = [os.open(place, os.O_RDONLY) for place in places]
        binary, base, packages = (f"/proc/self/fd/{number}" for number in opened)
        as_whom = {} if self.uid is None else {"user": self.uid, "group": self.uid}
        try:
            return subprocess.run(
                [binary, *words],
                cwd=self.here,
                env={
                    "PATH": os.defpath,
                    "PYTHONHOME": base,
                    "PYTHONPATH": f"{self.source}:{packages}",
                    "LD_LIBRARY_PATH": f"{base}/lib",
                    "OMP_NUM_THREADS": "1",
                    **self.home,
                    **more,
                },
                pass_fds=opened,
                capture_output=True,
                text=True,
                check=False,
                extra_groups=None if self.uid is None else [],
                **as_whom,
            )
        finally:
            for number in opened:
                os.close(number)

    def privalue(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-c", "from privalue.cli import main; main()", *words, **more)

    def made(self) -> set[str]:
        return {path.name for path in self.here.iterdir()}


@pytest.fixture(scope="module")
def machine():
    """As root: another user id, which no list of users has. Else: as whoever runs this."""
    top = Path(tempfile.mkdtemp(prefix="privalue-machine-"))  # pytest's own are closed to others
    if os.geteuid() == 0:
        yield Machine(top, {}, uid=65_535)
    else:  # without HOME, whoever runs this still has one
        yield Machine(top, {"HOME": "/nowhere/at/all"}, uid=None)
    for path in (top, *top.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(top)


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "/nowhere/at/all"}])
def test_it_can_be_imported_and_tells_its_version(machine, home):
    done = machine.python("-c", "import privalue; print(privalue.__version__)", **home)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{privalue.__version__}\n", "")
    done = machine.privalue("--version", **home)
    assert (done.stdout, done.stderr) == (f"privalue {privalue.__version__}\n", "")
    assert machine.made() == set()


def test_a_release_from_a_csv_file(machine):
    (machine.here / "study.toml").write_text(STUDY)
    (machine.here / "rows.csv").write_text(ROWS)
    words = ("release", "study.toml", "--data", "rows.csv", "--out", "released", "--json")
    done = machine.privalue(*words, "--no-ledger")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["states"] == 3
    *precision, release, other_files = done.stderr.splitlines()
    assert all("a value will be of use" in line.lower() for line in precision)
    assert [line.split()[0] for line in (release, other_files)] == ["Wrote", "Wrote"]
    assert machine.made() == {"study.toml", "rows.csv", "released"}


def test_a_database_and_a_page(machine):
    with duckdb.connect(str(machine.here / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE rows (trajectory INT, step INT, state INT, reward INT)")
        connection.execute("INSERT INTO rows VALUES (0, 0, 0, 0), (0, 1, 2, 1), (1, 0, 2, 1)")
    (machine.here / "study.toml").write_text(STUDY)
    words = ("inspect", "study.toml", "--data", "rows.duckdb", "--page", "own/page.html", "--json")
    done = machine.privalue(*words, "--quiet")
    assert (done.returncode, done.stderr.split(":")[0]) == (0, "PRIVATE")
    assert json.loads(done.stdout)["counts"] == [1, 0, 2]


def test_no_home_to_install_completion_in(machine):
    done = machine.privalue("--install-completion")
    assert done.returncode == (3 if machine.uid is None else 2)
    assert done.stderr.startswith("privalue: ")
    assert "bug" not in done.stderr


@pytest.mark.long
def test_the_demo(machine):
    done = machine.privalue("demo", "--out", "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rmse"] < 0.05
    assert "atplotlib" not in done.stderr
    assert "~" not in machine.made()
    assert 'class="plot"' in (machine.here / "demo" / "released" / "report.html").read_text()
