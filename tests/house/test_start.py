"""Nothing is loaded before it is used: what each command imports, counted in a real process."""

import json
import subprocess
import sys
from importlib import import_module
from threading import Event

import pytest

import privalue as pv
from privalue.cli._app import COMMANDS, run

HEAVY = ("numba", "matplotlib", "duckdb", "pandas", "scipy.stats", "scipy.optimize")
UNUSED = ("scipy.linalg", "scipy.cluster", "scipy.spatial")  # tables of states need none of it
NOBODYS = ("numpy.f2py", "numpy.testing", "charset_normalizer", "unittest")  # SciPy would load them
ROOMS = ("planning", "report", "simulation", "paper", "readers", "estimate", "ledger", "core")
PROGRAM = """
import json, sys
from privalue.cli import run
code = run(sys.argv[1:])
sys.stdout.flush()
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def loaded(folder, program, *words):
    """What a fresh process has imported after all, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def among(modules, names):
    return {name for name in names if name in modules}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    rows = [f"{at},{step},{step},{step}" for at in range(3000) for step in range(2)]
    (folder / "rows.csv").write_text("\n".join(["trajectory,step,state,reward", *rows]) + "\n")
    (folder / "study.toml").write_text(
        '[study]\ndataset = "people"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n'
        'unit = "trajectory"\n[values]\ndiscount = 0.9\nrewards = [0.0, 1.0]\n'
        "returns = [0.0, 1.0]\n[states]\ncount = 2\n"
    )
    pv.open_ledger(folder / "ledger.db").declare("people", epsilon=9, delta=0.1, unit="trajectory")
    study = pv.Study.load(folder / "study.toml")
    pv.publish(pv.release(study, folder / "rows.csv"), folder / "one", study=study)
    return folder


def test_importing_the_package_loads_no_room(tmp_path):
    program = "import json, sys, privalue; print(json.dumps([0, sorted(sys.modules)]))"
    modules = loaded(tmp_path, program)
    assert not among(modules, (*HEAVY, "numpy", "pyarrow", "scipy", "pydantic"))
    assert not among(modules, [f"privalue.{room}" for room in ROOMS])


def test_using_every_name_compiles_and_draws_nothing(tmp_path):
    program = (
        "from privalue import *\nimport json, sys\nprint(json.dumps([0, sorted(sys.modules)]))"
    )
    assert not among(loaded(tmp_path, program), HEAVY)


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_the_program_itself_is_typer_and_nothing_else(tmp_path, words):
    modules = loaded(tmp_path, PROGRAM, *words)
    assert not among(modules, (*HEAVY, "numpy", "pyarrow", "scipy", "pydantic", "rich.console"))
    ours = {name for name in modules if name.startswith("privalue.")}
    assert ours == {
        "privalue._entry",
        "privalue.cli",
        "privalue.cli._app",
        "privalue.cli._options",
        "privalue.errors",
        "privalue.version",
    }


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["init", "new.toml", "--force"], set()),
        (["check", "study.toml"], set()),
        (["plan", "study.toml", "--trajectories", "3000"], {"numba", "scipy.optimize"}),
        (["ledger", "show", "people"], set()),
        (["ledger", "verify"], set()),
        (["inspect", "study.toml", "--data", "rows.csv"], {"numba"}),
        (["release", "study.toml", "--data", "rows.csv", "--no-ledger", "--out", "two"], {"numba"}),
        (["release", "study.toml", "--data", "rows.csv", "--out", "new", "--no-report"], {"numba"}),
        (["report", "one", "--force"], set()),
        (["refit", "one", "--aggregate", "2", "--out", "three"], set()),
        (
            ["simulate", "chain:N=5", "--trajectories", "9", "--out", "made.csv"],
            {"numba", "pandas"},
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_uses(folder, words, heavy, monkeypatch):
    monkeypatch.setenv("PRIVALUE_LEDGER", str(folder / "ledger.db"))
    modules = loaded(folder, PROGRAM, *words)
    assert among(modules, HEAVY) == heavy
    others = {f"privalue.cli._{name}" for name in COMMANDS} - {f"privalue.cli._{words[0]}"}
    if words[0] in {"init", "check", "inspect"}:
        assert not among(modules, others)
    if words[0] != "reproduce":
        assert "privalue.paper" not in modules
    if words[0] not in {"plan", "simulate"}:  # other parts of SciPy, or pandas, use some of them
        assert not among(modules, NOBODYS)
    if words[0] in {"init", "check", "release"}:
        assert not among(modules, UNUSED)
        assert "pyarrow.compute" not in modules  # texts need it, numbers do not
    if words[0] == "release":  # what only check and plan show
        assert not among(modules, ["privalue._checked", "privalue._planned"])
        assert ("jinja2" in modules) == ("--no-report" not in words)
    if words[0] in {"inspect", "release"}:  # kernels were kept by the release of ``folder``
        assert "numba.cpython.setobj" not in modules  # of what Numba can compile, one part


def test_what_scipy_does_not_load_is_there_for_whoever_asks(tmp_path):
    program = (
        "import json, sys, numpy\n"
        "listed, known = list(numpy.__all__), set(dir(numpy))\n"
        "from privalue.cli._lighter import import_lightly\n"
        "import_lightly()\n"
        "import scipy.linalg, scipy.optimize, scipy.special\n"
        "assert numpy.__all__ == listed and known <= set(dir(numpy))\n"
        "assert numpy.ma.masked_array([1, 2], [0, 1]).sum() == 1\n"
        "assert numpy.testing.assert_equal and numpy.f2py.run_main\n"
        "print(json.dumps([0, sorted(sys.modules)]))"
    )
    assert among(loaded(tmp_path, program), NOBODYS)


def test_scipy_without_its_notes_computes_the_same(tmp_path):
    """Its functions have no docstrings then; those that are loaded later have theirs."""
    program = (
        "import json, sys\n"
        "from privalue.cli._lighter import import_lightly\n"
        "import_lightly()\n"
        "from scipy import special, linalg\n"
        "assert special.ndtr(0.0) == 0.5 and special.erf(0.0) == 0.0 and not special.erf.__doc__\n"
        "assert 'Parameters' in linalg.solve.__doc__\n"
        "print(json.dumps([0, sorted(sys.modules)]))"
    )
    assert "scipy.special" in loaded(tmp_path, program)


def test_a_scipy_that_insists_on_its_notes_is_loaded_as_it_comes(tmp_path):
    program = (
        "import json, sys\n"
        "from privalue.cli import _lighter\n"
        "_lighter._Nothing.__str__ = lambda self: 'no second line'\n"
        "_lighter.import_lightly()\n"
        "assert 'scipy.special' not in sys.modules\n"
        "from scipy import special\n"
        "assert special.ndtr(0.0) == 0.5 and 'erf' in special.erf.__doc__\n"
        "print(json.dumps([0, sorted(sys.modules)]))"
    )
    assert "scipy.special" in loaded(tmp_path, program)


def test_data_classes_that_are_compiled_late_are_the_same(tmp_path):
    """In a process of its own, beside classes that were made before the change."""
    program = (
        "import dataclasses, json, pickle, sys\n"
        "from inspect import signature\n"
        "def classes():\n"
        "    @dataclasses.dataclass(frozen=True, order=True)\n"
        "    class Point:\n"
        "        x: int\n"
        "        y: list = dataclasses.field(default_factory=list, repr=False)\n"
        "    @dataclasses.dataclass(kw_only=True)\n"
        "    class Named:\n"
        "        name: str = 'a'\n"
        "        note: str = dataclasses.field(default='', compare=False)\n"
        "    return Point, Named\n"
        "def said(make):\n"
        "    try:\n"
        "        return repr(make())\n"
        "    except Exception as problem:\n"
        "        return f'{type(problem).__name__}: {problem}'\n"
        "def story(Point, Named):\n"
        "    one, two, other = Point(1), Point(2), Named(note='b')\n"
        "    return [said(each) for each in (\n"
        "        lambda: one, lambda: other, lambda: one == Point(1), lambda: one == two,\n"
        "        lambda: one == 1, lambda: one < two, lambda: one >= two, lambda: one < 1,\n"
        "        lambda: other == Named(), lambda: hash(other), lambda: hash(one),\n"
        "        lambda: setattr(one, 'x', 3), lambda: delattr(one, 'y'),\n"
        "        lambda: setattr(one, 'z', 3), lambda: setattr(other, 'name', 'c'),\n"
        "        lambda: dataclasses.replace(one, x=5), lambda: dataclasses.asdict(one),\n"
        "        lambda: signature(Point), lambda: Point(1, [2], 3),\n"
        "        lambda: Point.__eq__.__name__,\n"
        "        lambda: Point.__repr__.__qualname__, lambda: dataclasses.fields(Point)[0].name,\n"
        "    )]\n"
        "as_ever = story(*classes())\n"
        "at_once = dataclasses._create_fn\n"
        "from privalue._entry import _compile_when_called\n"
        "_compile_when_called()\n"
        "assert dataclasses._create_fn is not at_once\n"
        "assert story(*classes()) == as_ever, (story(*classes()), as_ever)\n"
        "assert any('cannot assign' in each for each in as_ever)\n"
        "del dataclasses._create_fn\n"
        "_compile_when_called()\n"  # another Python has none
        "assert not hasattr(dataclasses, '_create_fn')\n"
        "print(json.dumps([0, sorted(sys.modules)]))"
    )
    if sys.version_info < (3, 13):  # later ones compile once for every class
        assert "dataclasses" in loaded(tmp_path, program)


@pytest.mark.parametrize("words", [["init", "new.toml"], ["--quiet", "init", "new.toml"]])
def test_threads_of_linear_algebra_sleep_before_they_are_started(tmp_path, words):
    """They would look for work that a command has not, on a core that others need."""
    program = (
        "import json, os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy':\n"
        "            assert os.environ['OPENBLAS_THREAD_TIMEOUT'] == '4'\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from privalue.cli import run\n"
        f"code = run({words})\n"
        "print('\\n' + json.dumps([code, sorted(sys.modules)]))"
    )
    assert "numpy" in loaded(tmp_path, program)


def test_a_page_is_loaded_while_rows_are_read(folder, tmp_path, monkeypatch):
    begun, report = Event(), import_module("privalue.report")
    monkeypatch.setattr(report, "load_page", begun.set)
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    interval = sys.getswitchinterval()
    try:
        assert run([*words, "--no-ledger", "--no-report", "--out", str(tmp_path / "none")]) == 0
        assert not begun.is_set()
        assert run([*words, "--no-ledger", "--out", str(tmp_path / "out")]) == 0
        assert begun.wait(60)
    finally:
        sys.setswitchinterval(interval)


def test_a_page_that_cannot_be_made_ends_a_release_before_its_charge(
    folder, tmp_path, monkeypatch, capsys
):
    def broken():
        raise ImportError("half an installation")

    monkeypatch.setattr(import_module("privalue.report"), "load_page", broken)
    ledger = str(tmp_path / "ledger.db")
    pv.open_ledger(ledger).declare("people", epsilon=9, delta=0.1, unit="trajectory")
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    interval = sys.getswitchinterval()
    try:
        assert run([*words, "--ledger", ledger, "--out", str(tmp_path / "out")]) == 70
    finally:
        sys.setswitchinterval(interval)
    assert "charged" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    account = pv.open_ledger(ledger).show("people")
    assert account.spent.epsilon == 0


def test_nothing_of_ours_is_imported_after_the_charge(folder, tmp_path):
    program = (
        "import json, sys\n"
        "from privalue.cli import run\n"
        "from privalue.ledger import Reservation\n"
        "charge, known = Reservation.charge, []\n"
        "def watched(self, *given, **named):\n"
        "    known.append(set(sys.modules))\n"
        "    return charge(self, *given, **named)\n"
        "Reservation.charge = watched\n"
        "code = run(sys.argv[1:])\n"
        "late = {name for name in set(sys.modules) - known[0] if name.startswith('privalue')}\n"
        "assert not late, late\n"
        "print('\\n' + json.dumps([code, sorted(sys.modules)]))"
    )
    ledger = str(tmp_path / "ledger.db")
    pv.open_ledger(ledger).declare("people", epsilon=9, delta=0.1, unit="trajectory")
    words = ["release", "study.toml", "--data", "rows.csv", "--ledger", ledger, "--out"]
    modules = loaded(folder, program, *words, str(tmp_path / "out"))
    assert "privalue.report" in modules


def test_without_a_report_there_is_no_page_and_it_can_be_made_later(folder, tmp_path):
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    assert run([*words, "--no-ledger", "--no-report", "--out", str(tmp_path / "out")]) == 0
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == ["registry.yaml", "release.json", "values.csv"]
    assert run(["report", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").exists()
    assert run(["report", str(tmp_path / "out")]) == 2  # it is there now
