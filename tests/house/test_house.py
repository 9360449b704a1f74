"""The house: exports, version and changelog, no index hosts, no clocks in tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import privalue

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privalue"


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


def test_no_file_names_a_package_index_or_a_path_of_one_machine():
    hosts = re.compile("(pypi" + r"\.org|pythonhosted|index" + "-url|/(work|root|home)/[a-z])")
    for path in tracked():
        if path.suffix in {".png", ".svg", ".npz"} or path.name == "LICENSE":
            continue
        found = hosts.search(path.read_text(encoding="utf-8", errors="ignore"))
        assert found is None or path == Path(__file__), f"{path}: {found}"


def test_nothing_says_to_install_it_from_an_index():
    """It is on none: pip would fetch whatever somebody else puts there under this name."""
    fetched = re.compile(r"\bpip3? " + r"(install|download)\b[^\n`]*[ '\"]privalue\b(?!-)")
    assert fetched.search("pip " + "install 'privalue[spark]'")
    for path in tracked():
        if path.suffix not in {".png", ".npz"}:
            found = fetched.search(path.read_text(encoding="utf-8", errors="ignore"))
            assert found is None or path == Path(__file__), f"{path}: {found}"


def test_no_test_asserts_how_long_something_takes():
    """A loaded machine passes: work is counted, or the case is too large for a slow algorithm."""
    clocks = re.compile(
        r"\b(perf_counter|monotonic|process_time|thread_time|time\.time\(|timeit)\b"
    )
    when_to_kill = {"oracles/ledger_driver.py", "oracles/release_driver.py"}
    what_is_tested = "house/test_peers.py"
    found = {
        str(path.relative_to(ROOT / "tests"))
        for path in (ROOT / "tests").rglob("*.py")
        if clocks.search(path.read_text())
    }
    how_long_to_go_on = {name for name in found if name.startswith("fuzz/") and "test_" not in name}
    found -= how_long_to_go_on
    assert found <= when_to_kill | {what_is_tested, "house/test_house.py"}


def test_no_process_of_the_suite_leaves_a_folder_behind(tmp_path):
    """Neither the one that is started, nor a worker of it."""
    one = "tests/house/test_size.py::test_code_and_words_are_counted"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", one],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, [*tmp_path.glob("privalue-*")]) == (0, []), done.stdout
