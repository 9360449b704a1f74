"""What every suite shares."""

import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Certified constants are remembered on disk: not on that of whoever runs the tests.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="privalue-tests-")

settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    """With CI=true a skipped suite is a failure: a skip must not hide it."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
