"""The whole repository: no index hosts, no local paths, no clocks in tests."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def list_files():
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listing.stdout.split() if (ROOT / name).is_file()]


def test_no_file_names_a_package_index_or_a_local_path():
    """privalue is on no index: pip would fetch what somebody else puts there under its name."""
    hosts = "(pypi" + r"\.org|pythonhosted|index" + "-url|/(work|root|home)/[a-z])"
    fetched = r"\bpip3? " + r"(install|download)\b[^\n`]*[ '\"]privalue\b(?!-)"
    refused = re.compile(f"{hosts}|{fetched}")
    assert refused.search("pip " + "install 'privalue[spark]'")
    for path in list_files():
        if path.suffix not in {".png", ".svg", ".npz"} and path.name != "LICENSE":
            match = refused.search(path.read_text(encoding="utf-8", errors="ignore"))
            assert match is None or path == Path(__file__), f"{path}: {match}"


def test_no_test_measures_time():
    """A loaded machine passes: work is counted, or the case is too large for a slow algorithm."""
    clocks = re.compile(r"\b(perf_counter|monotonic|process_time|time\.time\(|timeit)\b")
    timed = {path for path in (ROOT / "tests").rglob("*.py") if clocks.search(path.read_text())}
    # When to kill a process, how long to go on; and this pattern.
    allowed = {"ledger_driver.py", "release_driver.py", "harness.py", Path(__file__).name}
    assert {path.name for path in timed} <= allowed
