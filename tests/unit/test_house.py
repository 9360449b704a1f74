"""The house: exports, version and changelog, the core's size and layers, no index hosts."""

import re
import subprocess
import tomllib
from pathlib import Path

import privalue

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privalue"
OUTER = {
    "mdp",
    "planning.py",
    "audit.py",
    "experiments",
    "report",
    "demo.py",
    "cli.py",
    "__init__.py",
}


def tracked():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def test_everything_exported_exists_and_is_documented():
    for name in privalue.__all__:
        assert getattr(privalue, name) is not None
        if name != "__version__":
            assert getattr(privalue, name).__doc__


def test_the_changelog_knows_the_version_and_speaks_of_privacy():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {privalue.__version__}" in text
    assert "### Privacy" in text


def test_the_citation_has_the_version():
    assert f"version: {privalue.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_trusted_core_stays_small_enough_to_audit():
    modules = [p for p in SOURCE.rglob("*.py") if p.relative_to(SOURCE).parts[0] not in OUTER]
    assert sum(len(module.read_text().splitlines()) for module in modules) < 5500


def test_no_file_names_a_package_index_or_a_path_of_one_machine():
    hosts = re.compile("(pypi" + r"\.org|pythonhosted|index" + "-url|/(work|root|home)/[a-z])")
    for path in tracked():
        if path.suffix in {".png", ".svg", ".npz"} or path.name == "LICENSE":
            continue
        found = hosts.search(path.read_text(encoding="utf-8", errors="ignore"))
        assert found is None or path == Path(__file__), f"{path}: {found}"


def test_layers_are_listed_for_every_module():
    """import-linter checks the order; a module that is missing from the list fails there."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    listed = set(layers["contracts"][0]["layers"])
    present = {
        p.stem for p in SOURCE.iterdir() if not p.name.startswith("_") and p.suffix in {"", ".py"}
    }
    assert present - {"py"} <= listed
