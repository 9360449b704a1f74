"""What every suite shares."""

import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Compiled kernels may be stored on disk, but not among those of the user who runs the tests. Every
# process of the suite has a folder of its own, and removes it.
FOLDERS = {"XDG_CACHE_HOME": tempfile.mkdtemp(prefix="privalue-tests-")}
os.environ.update(FOLDERS)

# Thousands of collected tests stay alive: looking for garbage among them again and again takes
# longer than collecting them. Below they are frozen, out of the garbage collector's sight.
gc.set_threshold(50_000, 20, 20)

settings.register_profile(
    "suite",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
# ``make long``: many more random inputs, and every odd cell through every reader.
settings.register_profile("long", settings.get_profile("suite"), max_examples=1000)
LONG = os.environ.get("PRIVALUE_LONG") == "1"
settings.load_profile("long" if LONG else "suite")


def pytest_collection_modifyitems(config, items):
    """Leave full sizes, and Spark and browsers beyond a smoke test, to ``make long``."""
    if LONG:
        return
    config.hook.pytest_deselected(items=[item for item in items if is_long(item)])
    items[:] = [item for item in items if not is_long(item)]


def is_long(item):
    slow_to_start = {"spark", "browser"} & {*getattr(item, "fixturenames", ())}
    is_smoke = item.get_closest_marker("smoke") is not None
    return item.get_closest_marker("long") is not None or (bool(slow_to_start) and not is_smoke)


def pytest_terminal_summary(terminalreporter):
    """Name what was left out; the summary above names what was skipped, and why."""
    if not LONG:
        terminalreporter.write_line(
            "Left to make long: full sizes and products, most races and kills, fuzzing, Spark and "
            "browsers beyond a smoke test, the site, other libraries, the reproduction."
        )


def pytest_collection_finish():
    """Freeze the collected tests until the end of the session."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Unfreeze them: some libraries complain of objects that are alive when Python ends."""
    gc.unfreeze()
    for folder in FOLDERS.values():
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def accounting(request):
    """The accounting of a ledger's totals: plain sums, unless a test is run over both."""
    return getattr(request, "param", "plain")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    """With CI=true a skipped suite is a failure: a skip must not hide it."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
