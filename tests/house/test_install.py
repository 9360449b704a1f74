"""The install page: its script runs in a fresh environment, without a network."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "install.sh"


# Besides privalue itself: extras that a plain installation must do without.
LEFT_OUT = re.compile(r"_?_?(editable|privalue|pip|setuptools|matplotlib|mpl_toolkits|pandas)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The package as one file, made of this checkout."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True, cwd=folder
    )
    (file,) = folder.glob("privalue-*.whl")
    return file


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """What a package index would give, without privalue itself, and without any extra's picture."""
    folder = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not LEFT_OUT.match(entry.name):
            (folder / entry.name).symlink_to(entry)
    return folder


def test_the_script_installs_a_wheel_into_a_fresh_environment(wheel, packages, tmp_path):
    """pip finds every package that the wheel asks for; the command is there, and works."""
    folder = tmp_path / "installed"
    process = subprocess.run(
        ["sh", SCRIPT, wheel, folder],
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "PYTHONPATH": str(packages),
            "PIP_NO_INDEX": "1",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # The demo inspects made-up data, and that says so even where everything else is quiet.
    assert (process.returncode, process.stderr.partition(":")[0]) == (0, "PRIVATE"), process.stderr
    assert process.stderr.count("\n") == 1
    version = wheel.name.split("-")[1]
    assert process.stdout == f"privalue {version}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["installed"]
    # The command's own module is the installed one, and it has all that it needs beside the source.
    (tmp_path / "here").mkdir()
    checked = subprocess.run(
        [folder / "bin" / "privalue", "init", "study.toml", "--json"],
        env={"PATH": os.defpath, "PYTHONPATH": str(packages)},
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(checked.stdout)["study"] == "study.toml"
