"""The whole repository: exports, version, no index hosts, no clocks in tests."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def test_no_file_names_a_package_index_or_a_path_of_one_machine_or_installs_from_an_index():
    """privalue is on no index: pip would fetch what somebody else puts there under its name."""
    hosts = "(pypi" + r"\.org|pythonhosted|index" + "-url|/(work|root|home)/[a-z])"
    fetched = r"\bpip3? " + r"(install|download)\b[^\n`]*[ '\"]privalue\b(?!-)"
    refused = re.compile(f"{hosts}|{fetched}")
    assert refused.search("pip " + "install 'privalue[spark]'")
    for path in tracked():
        if path.suffix not in {".png", ".svg", ".npz"} and path.name != "LICENSE":
            found = refused.search(path.read_text(encoding="utf-8", errors="ignore"))
            assert found is None or path == Path(__file__), f"{path}: {found}"


def test_no_test_asserts_how_long_something_takes():
    """A loaded machine passes: work is counted, or the case is too large for a slow algorithm."""
    clocks = re.compile(r"\b(perf_counter|monotonic|process_time|time\.time\(|timeit)\b")
    found = {path for path in (ROOT / "tests").rglob("*.py") if clocks.search(path.read_text())}
    # When to kill a process, how long to go on; and this pattern.
    allowed = {"ledger_driver.py", "release_driver.py", "harness.py", Path(__file__).name}
    assert {path.name for path in found} <= allowed
