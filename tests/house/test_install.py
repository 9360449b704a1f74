"""The install page: its script runs in a fresh environment, without a network."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
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
    (made,) = folder.glob("privalue-*.whl")
    return made


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """What a package index would give, without privalue itself, and without any extra's picture."""
    folder = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not LEFT_OUT.match(entry.name):
            (folder / entry.name).symlink_to(entry)
    return folder


def installing(*words, packages, **more):
    return subprocess.run(
        ["sh", SCRIPT, *words],
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "PYTHONPATH": str(packages),
            "PIP_NO_INDEX": "1",
            "OMP_NUM_THREADS": "1",
            **more,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_installs_a_wheel_into_a_fresh_environment(wheel, packages, tmp_path):
    """pip finds every package that the wheel asks for; the command is there, and works."""
    folder = tmp_path / "installed"
    done = installing(wheel, folder, packages=packages, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    version = wheel.name.split("-")[1]
    assert done.stdout == f"privalue {version}\n"
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


def test_the_script_refuses_what_it_cannot_do(packages, tmp_path):
    for words in ((), ("dist.whl",), ("dist.whl", tmp_path)):
        done = installing(*words, packages=packages)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: sh deploy/install.sh SOURCE FOLDER")


def test_the_image_is_made_by_the_script_of_files_that_exist():
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("RUN")] == [
        "RUN sh /source/deploy/install.sh /source /opt/privalue"
    ]
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--" not in line]
    assert {name for names in copied for name in names} >= {"pyproject.toml", "src", "deploy"}
    for names in copied:
        for name in names:
            assert (ROOT / name).exists(), name
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {built["readme"], *built["license-files"]} <= {n for names in copied for n in names}


def test_the_page_has_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) == set(extras) - {"dev"}
